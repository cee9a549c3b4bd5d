"""Attention that a model spells out: a product, a scale, a mask, a softmax, perhaps zeros in place of NaN,
and a product. Knows ops and ``spelled``; no names of operators and no kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...analysis import typical
from ...expr.nodes import Expr, const_int
from ...ops import inputs
from ...ops.attention import attend
from ...te import Tensor, whole
from ..graph import Node, Value
from ..regions.facts import Kind, facts_of
from ..sizes import same_sizes
from .meaning import axis, form_of
from .rewrite import single
from .spelled import FAR, Found, Place, calls, read_by, te_of

Shape = Sequence[Expr]
HINT = 64  # of a number of keys that nobody knows
# keys; below, three kernels are as fast as one. 12 heads of 32 on one thread, copies of heads included: 0.8
# times as fast at 16 keys, 1.0 at 64, 1.1 at 128, 1.15 at 384; 1.0 to 1.6 on two threads
FEW = 32


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *masks: Tensor,
    scale: float,
    nan_is_zero: bool,
    shapes: Sequence[Shape | None] = (),
    order: Sequence[int] = (),
) -> Tensor:
    """``softmax(q kᵀ scale + mask + …) v``; rows of which the softmax is NaN give NaN, or zeros. Where there
    is a shape for a mask, it is added to scores of that shape, which has as many elements as that of the
    product and the same two dimensions at the end. The keys have their dimensions in an ``order`` of their
    own, if that is not empty."""
    k = ops.transpose(k, order) if order else k
    own = [m for m, shape in zip(masks, _each(shapes, masks), strict=True) if shape is None and m.ndim > 2]
    batch = inputs.broadcast_shape("attention", [q, k, v, *own], but_last=2)
    sizes = (*batch, q.shape[-2], k.shape[-2])
    added = [_as_added(m, shape, sizes) for m, shape in zip(masks, _each(shapes, masks), strict=True)]

    def score(s: Expr, i: Any) -> Expr:
        for mask in added:
            s = s + whole.read(mask, i)
        return s

    in_bits = not added
    made = attend(q, k, v, batch, scale, score, False, False, nan_is_zero=nan_is_zero, in_bits=in_bits)
    return made.result


def in_small_operators(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *masks: Tensor,
    scale: float,
    nan_is_zero: bool,
    shapes: Sequence[Shape | None] = (),
    order: Sequence[int] = (),
) -> Tensor:
    """The same as small operators compute it."""
    k = ops.transpose(k, order) if order else k
    last = [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2]
    scores = ops.multiply(ops.matmul(q, ops.transpose(k, last)), scale)
    for mask, shape in zip(masks, _each(shapes, masks), strict=True):
        scores = ops.add(scores, _as_added(mask, shape, scores.shape))
    weights = ops.softmax(scores)
    if nan_is_zero:
        weights = ops.where(ops.isnan(weights), 0.0, weights)
    return ops.matmul(weights, v)


def _each(shapes: Sequence[Shape | None], masks: Sequence[Tensor]) -> Sequence[Shape | None]:
    return shapes or [None] * len(masks)


def _as_added(mask: Tensor, shape: Shape | None, sizes: Sequence[Expr]) -> Tensor:
    """The mask of scores of these sizes."""
    return mask if shape is None else ops.reshape(ops.broadcast_to(mask, shape), list(sizes))


def attention_at(at: Place, n: Node) -> Found | None:
    """An attention, by the product at its end."""
    if not _product(n):
        return None
    weights, v = n.inputs
    softmax = None if weights is None else at.made(weights)
    guarded = softmax is not None and calls(softmax, "isnan")
    if softmax is not None and len(softmax.reads) > 1:
        made = [m for m in map(at.made, softmax.reads) if m is not None]
        guarded = any(calls(m, "isnan") for m in (softmax, *made))
        softmax = next((m for m in made if calls(m, "exp")), None)
    if softmax is None or v is None or not calls(softmax, "exp") or len(softmax.reads) != 1:
        return None
    scores = scores_of(at, softmax.reads[0])
    if scores is None:
        return None
    product, scale, masks = scores
    q, by = scaled(at, product.inputs[0])
    turned = _keys(at, product.inputs[1])
    if turned is None or q.ndim < 2:
        return None
    k, factor, order = turned
    if typical(k.shape[order[-2]], HINT) < FEW:
        return None
    own = product.outputs[0].shape
    shapes = [None if same_sizes(shape, own) else shape for _, shape in masks]
    return at.one(
        n,
        [q, k, v, *(mask for mask, _ in masks)],
        "Attention",
        attention,
        in_small_operators,
        # as many digits as a float32 has: computed in float32 or in float64 it names the same kernel
        scale=float(f"{scale * by * factor:.9g}"),
        nan_is_zero=guarded,
        shapes=shapes if any(shape is not None for shape in shapes) else (),
        # of keys as they are no attribute, so that their kernel is the one of every other attention
        **({} if list(order) == sorted(order) else {"order": order}),
    )


def _product(n: Node) -> bool:
    """Whether it may be a product of two tensors."""
    return single(n) and len(n.inputs) == len(n.reads) == 2 and facts_of(n).kind is Kind.HEAVY


def scores_of(at: Place, s: Value) -> tuple[Node, float, list[tuple[Value, Shape]]] | None:
    """The product that scores are made of, what it is multiplied by, and what is added, the last first, each
    with the shape of the scores it is added to."""
    scale, masks = 1.0, list[tuple[Value, Shape]]()
    for _ in range(FAR):
        n = at.made(s)
        if n is None:
            return None
        if _product(n):
            return n, scale, masks[::-1]
        reads = read_by(n)
        if len(reads) == 2:
            inner = next((v for v in reads if _leads_to_product(at, v, FAR)), None)
            if inner is None or scale != 1.0:
                return None
            masks.append((next(v for v in reads if v is not inner), n.outputs[0].shape))
            s = inner
            continue
        if len(reads) != 1:
            return None
        if not _regroups(n, reads[0]):
            factor = _factor(n, reads[0])
            if factor is None:
                return None
            scale *= factor
        s = reads[0]
    return None


def _regroups(n: Node, x: Value) -> bool:
    """Whether a node seems to hand on ``x`` with its dimensions grouped anew, but for the last two."""
    made = n.outputs[0]
    facts = facts_of(n)
    return (
        facts.kind is Kind.MAP
        and facts.work == 0
        and min(x.ndim, made.ndim) > 2
        and not same_sizes(made.shape, x.shape)
        and same_sizes(made.shape[-2:], x.shape[-2:])
    )


def _leads_to_product(at: Place, v: Value, far: int) -> bool:
    n = at.made(v) if far else None
    if n is None:
        return False
    return _product(n) or any(
        _leads_to_product(at, w, far - 1) for w in read_by(n) if w.data is None and len(n.reads) <= 2
    )


def _factor(n: Node, x: Value) -> float | None:
    """The number by which a node multiplies ``x``; None when it does something else."""
    found = read_anyhow(te_of(n.outputs[0], [n]), x)
    same = range(x.ndim)
    return found[0] if found is not None and order_of(found[1], x, same) == tuple(same) else None


def order_of(indices: Sequence[Any], x: Value, wanted: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions of ``x``, read at these indices, that stand for the ``wanted`` ones of what reads it;
    None where it is read in another way."""
    # the one element of a dimension is read at 0, whichever dimension asks for it
    ones = iter([d for d, n in enumerate(x.shape) if const_int(n) == 1])
    found = [next((d for d, i in enumerate(indices) if i is axis(w)), None) for w in wanted]
    order = tuple(next(ones, None) if d is None else d for d in found)
    return None if len(order) != x.ndim or None in order else order  # type: ignore[return-value]


def read_anyhow(t: Tensor, x: Value) -> tuple[float, list[Any]] | None:
    """The number by which ``t`` multiplies the one element of ``x`` that it reads, and its indices."""
    form = form_of(t)
    if form is None or len(form) != 1:
        return None
    ((monomial, c),) = form
    if len(monomial) != 1:
        return None
    (((what, *rest), power),) = monomial
    return (c, rest[1:]) if what == "read" and rest[0] is x.tensor and power == 1.0 else None


def scaled(at: Place, v: Any) -> tuple[Value, float]:
    """What is multiplied by numbers to give ``v``, and their product."""
    by = 1.0
    for _ in range(FAR):
        n = at.made(v)
        reads = [] if n is None else read_by(n)
        factor = _factor(n, reads[0]) if n is not None and len(reads) == 1 else None
        if factor is None:
            break
        v, by = reads[0], by * factor
    return v, by


def _keys(at: Place, turned: Any) -> tuple[Value, float, tuple[int, ...]] | None:
    """What has its last two dimensions exchanged, and is multiplied by a number, to give ``turned``, and the
    order that its dimensions want first: an exporter writes the exchange and the one that brings heads
    before keys as one."""
    rank = turned.ndim
    wanted = (*range(rank - 2), rank - 1, rank - 2)
    v, inside = turned, list[Node]()
    for _ in range(FAR):
        n = at.made(v)
        reads = [] if n is None else read_by(n)
        if n is None or len(reads) != 1 or facts_of(n).kind is not Kind.MAP:
            return None
        inside.append(n)
        v = reads[0]
        found = None if v.ndim != rank else read_anyhow(te_of(turned, inside), v)
        if found is not None:
            factor, indices = found
            order = order_of(indices, v, wanted)
            # elements of a key are neighbours
            if order is not None and order[-1] == rank - 1:
                return v, factor, order
    return None
