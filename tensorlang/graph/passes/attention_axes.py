"""Attention whose products have their dimensions in other orders than (…, queries, elements): those of an
``einsum``, those of images whose pixels come last, and products of transposed weights. Its operands are
transposed before it, and its result behind, which what makes and reads them mostly does on the way.

Which dimension is which follows from the axes of the te of both products. Knows ``attention`` and
``spelled``; no names of operators and no kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import ops
from ...analysis import typical
from ...expr.nodes import Var, const_int
from ...te import ComputeOp, Tensor
from ...te.products import factors_of
from ...te.tensor import TensorRead
from ..graph import Node, Value
from ..regions.facts import Kind, facts_of
from .attention import FEW, HINT, attention, in_small_operators, order_of, read_anyhow, scaled, scores_of
from .rewrite import single
from .spelled import FAR, Found, Place, calls, read_by, te_of

Order = tuple[int, ...]
# keys of operands that are transposed first; below, three kernels that read them as they lie are as fast.
# Measured (Zen 4, one thread and two), new ÷ old time: 4 heads of 128
# keys 1.03, 576 and 1024 keys with their pixels last 0.75 to 0.85; of 64 keys 1.25
FEW_TURNED = 100


def attention_by_axes_at(at: Place, n: Node) -> Found | None:
    """An attention, by the product at its end."""
    end = _product(n)
    if end is None:
        return None
    for weights, values in (end.sides, end.sides[::-1]):
        found = _attention(at, n, end, weights, values)
        if found is not None:
            return found
    return None


@dataclass(frozen=True)
class _Side:
    """An operand of a product, and the axis that each of its dimensions is read at."""

    value: Value
    axes: tuple[Var, ...]


@dataclass(frozen=True)
class _Product:
    """A sum of products over one axis, of operands that have one axis each which the other has not; the
    ``axes`` of its result."""

    sides: tuple[_Side, _Side]
    axes: tuple[Var, ...]
    summed: Var

    def own(self, side: _Side) -> Var:
        """The axis of the result that this operand alone has."""
        other = self.sides[self.sides[0] is side]
        (found,) = (a for a in side.axes if a not in other.axes)
        return found


def _product(n: Node) -> _Product | None:
    if not single(n) or len(n.inputs) != 2 or len(n.reads) != 2 or facts_of(n).kind is not Kind.HEAVY:
        return None
    op = n.results[0].op
    factors = factors_of(op) if isinstance(op, ComputeOp) and len(op.reduce_axis) == 1 else None
    if factors is None or not isinstance(op, ComputeOp):
        return None
    values = {v.tensor: v for v in n.reads}
    axes, summed = tuple(a.var for a in op.axis), op.reduce_axis[0].var
    ones = [a.var for a in op.axis if const_int(a.extent) == 1]
    sides = list[_Side]()
    for f in factors:
        at = _axes(f, ones)
        if f.tensor not in values or at is None or summed not in at:
            return None
        sides.append(_Side(values[f.tensor], at))
    a, b = ({*s.axes} for s in sides)
    if len(a - b) != 1 or len(b - a) != 1 or a | b != {*axes, summed}:
        return None
    return _Product((sides[0], sides[1]), axes, summed)


def _axes(read: TensorRead, ones: Sequence[Var]) -> tuple[Var, ...] | None:
    """The axis that each dimension is read at, where each has one; of a dimension of one element, which is
    read at 0, an axis of one element that no other has."""
    free = iter([a for a in ones if all(i is not a for i in read.indices)])
    found = [
        i if isinstance(i, Var) else next(free, None) if const_int(i) == 0 and const_int(n) == 1 else None
        for i, n in zip(read.indices, read.tensor.shape, strict=True)
    ]
    at = tuple(a for a in found if a is not None)
    return at if len(at) == len(found) == len({*at}) else None


def _attention(at: Place, n: Node, end: _Product, weights: _Side, values: _Side) -> Found | None:
    """One that ends in this product, of which these are the weights."""
    softmax, turned = _copied(at, weights.value)
    if softmax is None or turned is None or not calls(softmax, "exp") or len(softmax.reads) != 1:
        return None
    scores = scores_of(at, softmax.reads[0])
    begin = None if scores is None else _product(scores[0])
    if scores is None or begin is None:
        return None
    _, scale, masks = scores
    *batch, row, column = begin.axes
    for queries, keys in (begin.sides, begin.sides[::-1]):
        if begin.own(queries) is row and begin.own(keys) is column:
            break
    else:
        return None
    if len(begin.axes) != len(turned) or any(
        len(shape) != len(begin.axes) for _, shape in masks if shape is not None
    ):
        return None
    # the axes of the end by the dimensions of the scores
    by_place: list[Any] = [None] * len(turned)
    for d, place in enumerate(turned):
        by_place[place] = weights.axes[d]
    if by_place[-1] is not end.summed or by_place[-2] is not end.own(weights):
        return None
    q, by = scaled(at, queries.value)
    k, factor = scaled(at, keys.value)
    q_order = _order(queries.axes, [*batch, row, begin.summed])
    k_order = _order(keys.axes, [*batch, column, begin.summed])
    v_order = _order(values.axes, [*by_place[:-2], end.summed, end.own(values)])
    out_order = _order([*by_place[:-1], end.own(values)], end.axes)
    orders = (q_order, k_order, v_order, out_order)
    few = FEW if all(_plain(o) for o in orders) else FEW_TURNED
    if typical(k.shape[k_order[-2]], HINT) < few:
        return None
    how: dict[str, Any] = {"scale": float(f"{scale * by * factor:.9g}"), "nan_is_zero": False}
    given = [q, k, values.value, *(mask for mask, _ in masks)]
    found = at.one(n, given, "Attention", in_order, in_order_of_small_operators, **how, orders=orders)
    return None if found is None else _apart(found, how, orders)


def _order(axes: Sequence[Var], wanted: Sequence[Var]) -> Order:
    """The dimension of each of the wanted axes."""
    return tuple(next(d for d, b in enumerate(axes) if b is a) for a in wanted)


def _plain(order: Order) -> bool:
    return list(order) == sorted(order)


def _copied(at: Place, v: Value) -> tuple[Node | None, Order | None]:
    """The operator whose elements are copied to give ``v``, in whatever order, and for each dimension of
    ``v`` that of its result."""
    top, inside = v, list[Node]()
    for _ in range(FAR):
        n = at.made(v)
        if n is None or calls(n, "exp"):
            return n, _places(top, v, inside)
        facts, reads = facts_of(n), read_by(n)
        if facts.kind is not Kind.MAP or facts.work or len(reads) != 1:
            break
        inside.append(n)
        v = reads[0]
    return None, None


def _places(top: Value, v: Value, inside: Sequence[Node]) -> Order | None:
    """For each dimension of ``top`` the one of ``v`` that it is, where each is one."""
    if not inside:
        return tuple(range(top.ndim))
    found = read_anyhow(te_of(top, inside), v) if top.ndim == v.ndim else None
    if found is None or found[0] != 1.0:
        return None
    return order_of(found[1], v, range(top.ndim))


# -- what takes its place


def in_order(
    q: Tensor, k: Tensor, v: Tensor, *masks: Tensor, scale: float, nan_is_zero: bool, orders: Sequence[Order]
) -> Tensor:
    """``attention`` of operands that are transposed to these orders, and its result transposed to the last of
    them."""
    q, k, v = (ops.transpose(t, o) for t, o in zip((q, k, v), orders[:3], strict=True))
    return ops.transpose(attention(q, k, v, *masks, scale=scale, nan_is_zero=nan_is_zero), orders[3])


def in_order_of_small_operators(
    q: Tensor, k: Tensor, v: Tensor, *masks: Tensor, scale: float, nan_is_zero: bool, orders: Sequence[Order]
) -> Tensor:
    """The same as small operators compute it."""
    q, k, v = (ops.transpose(t, o) for t, o in zip((q, k, v), orders[:3], strict=True))
    return ops.transpose(in_small_operators(q, k, v, *masks, scale=scale, nan_is_zero=nan_is_zero), orders[3])


def _apart(found: Found, how: dict[str, Any], orders: Sequence[Order]) -> Found:
    """The same with an operator for each transposition that moves something: neighbours may take it over."""
    whole = found.nodes[0]
    nodes = list[Node]()

    def made(op: str, fn: Any, inputs: Sequence[Value | None], attrs: dict[str, Any]) -> Value:
        node = Node(op, fn, inputs, attrs)
        (result,) = node.results
        node.outputs = [Value(op, result.shape, result.dtype, node)]
        nodes.append(node)
        return node.outputs[0]

    def turned(v: Value | None, order: Order) -> Value | None:
        return v if v is None or _plain(order) else made("Transpose", ops.transpose, [v], {"axes": order})

    q, k, v, *masks = whole.inputs
    keys = orders[1]
    # keys are copied anyway: an order in which the elements of one are neighbours is taken up there
    within = keys if keys[-1] == len(keys) - 1 and not _plain(keys) else ()
    inputs = [turned(q, orders[0]), k if within else turned(k, keys), turned(v, orders[2]), *masks]
    attrs = {**how, "shapes": (), **({"order": within} if within else {})}
    turned(made(whole.op, attention, inputs, attrs), orders[3])
    # the last of them gives what the root gave, and stands for all
    nodes[-1].outputs, nodes[-1].name = list(found.root.outputs), whole.name
    nodes[-1].was = whole.was
    return Found(nodes, found.root, found.small)
