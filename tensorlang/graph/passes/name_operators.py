"""Operators that a model spells out in small ones become the one operator: attention, normalisation of rows,
gelu, rotary embedding. Each is guessed by its looks here and proved by ``spelled``. Knows ops; no names of
operators and no kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...expr import make
from ...expr.nodes import Choice, Expr
from ...ops import tags
from ...te import Tensor
from ..graph import Node, Program, Value
from .attention import attention_at
from .attention_axes import attention_by_axes_at
from .rewrite import alike_in_shape, single
from .spelled import Found, Place, bodies, calls, number


def name_operators(graph: Program) -> Program:
    """The graph with large operators in the place of small ones."""
    at = Place(graph)
    for n in graph.nodes:
        for find in (gelu_at, norm_at, rotary_at, attention_at, attention_by_axes_at):
            at.take(find(at, n))
    return at.result()


def gelu_at(at: Place, n: Node) -> Found | None:
    """gelu, around a node with its erf or tanh."""
    if not single(n) or not calls(n, "erf", "tanh"):
        return None
    way = "none" if calls(n, "erf") else "tanh"
    for root in reversed(list(at.behind(n))):
        for x in at.before(n):
            if alike_in_shape(x, root.outputs[0]):
                found = at.one(root, [x], "Gelu", ops.gelu, approximate=way)
                if found is not None:
                    return found
    return None


# -- normalisation of rows


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float) -> Tensor:
    """The last dimension, less its mean, over its deviation."""
    return ops.layer_norm(x, None, weight, bias, eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float) -> Tensor:
    """The last dimension over its root mean square."""
    return ops.rms_norm(x, None, weight, eps)


def norm_at(at: Place, n: Node) -> Found | None:
    """A normalisation, around a node with its root."""
    if not single(n) or not n.outputs[0].shape or not calls(n, "sqrt", "rsqrt"):
        return None
    way = list(at.behind(n))
    for i, root in reversed(list(enumerate(way))):
        for x in reversed(at.before(n)):  # a mean that is taken off belongs to it
            if alike_in_shape(x, root.outputs[0]):
                found = _norm(at, way[: i + 1], x)
                if found is not None:
                    return found
    return None


def _norm(at: Place, way: Sequence[Node], x: Value) -> Found | None:
    """One that ends this way."""
    root, size = way[-1], x.shape[-1]
    rows = list(dict.fromkeys(v for m in way for v in m.reads if len(v.shape) == 1 and v.shape[0] is size))
    rows = [v for v in rows if number(v) is None]
    inside = at.between(root, {x, *rows})
    if inside is None or len(rows) > 2:
        return None
    numbers = [number(v) for m in inside for v in m.reads]
    for eps in dict.fromkeys(c for c in numbers if c is not None and 0 < c < 0.1):
        for weight, bias in _parameters(rows):
            found = at.one(root, [x, weight, bias], "LayerNorm", layer_norm, eps=eps)
            if found is None and bias is None:
                found = at.one(root, [x, weight], "RMSNorm", rms_norm, eps=eps)
            if found is not None:
                return found
    return None


def _parameters(rows: Sequence[Value]) -> list[tuple[Value | None, Value | None]]:
    """What may be weight and bias."""
    if not rows:
        return [(None, None)]
    if len(rows) == 1:
        return [(rows[0], None), (None, rows[0])]
    return [(rows[0], rows[1]), (rows[1], rows[0])]


# -- rotary embedding


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x cos + turned sin``; ``turned`` is the second half of the last dimension with its sign changed,
    then the first. The tables have a column for each element, where those of ``ops.rotary_embedding`` have
    one for each pair: that a model's two halves are equal cannot be seen."""
    half = make.floordiv(x.shape[-1], 2)

    def element(*i: Any) -> Expr:
        *rest, d = i
        return te.if_then_else(d < half, -x(*rest, d + half), x(*rest, d - half))

    turned = te.compute(x.shape, element, name="turned", tag=tags.INJECTIVE)
    return ops.add(ops.multiply(x, cos), ops.multiply(turned, sin))


def rotary_at(at: Place, n: Node) -> Found | None:
    """A rotary embedding, by the sum at its end."""
    if not single(n) or len(n.reads) != 2 or not n.outputs[0].shape:
        return None
    products = [p for p in map(at.made, n.reads) if p is not None and len(p.reads) == 2]
    if len(products) != 2:
        return None
    for own, other in (products, products[::-1]):
        for turned, sin in (other.reads, other.reads[::-1]):
            turner = at.made(turned)
            if turner is None or not chooses(turner):
                continue
            for x, cos in (own.reads, own.reads[::-1]):
                if x in at.before(turner) and alike_in_shape(x, n.outputs[0]):
                    found = at.one(n, [x, cos, sin], "RotaryEmbedding", rotary)
                    if found is not None:
                        return found
    return None


def chooses(n: Node) -> bool:
    """Whether a node puts parts one after the other."""
    return any(isinstance(e, Choice) for e in bodies(n))
