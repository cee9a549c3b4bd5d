"""A product with a constant weight of parts that are joined, one of which is the same at many places, is a
sum of two: the other parts are multiplied at every place, the repeated one once. So a vector that describes
the whole (a cloud of points, a picture, a speaker, the state of a decoder) is written beside no place, and
costs nothing at any.

Which index of the data the weight is summed along, and that the others are places of the result, is read off
the te: matrix products, convolutions of one pixel and whatever else is such a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ... import ops
from ...analysis import constant
from ...errors import TensorLangError
from ...expr import make
from ...expr.linear import poly
from ...expr.nodes import Expr, Var
from ...expr.walk import preorder, substitute
from ...ops import tags
from ...te import ComputeOp, Tensor
from ...te.products import factors_of
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import joins_pieces
from ..sizes import same_sizes
from .rewrite import exchanged, remade, single
from .windows import sum_of

LEAST = 1 << 18  # multiplications saved: some microseconds, more than one kernel more
OPEN = 16  # places that an open size is taken for


def multiply_repeated_once(graph: Program) -> Program:
    """The graph with what is repeated multiplied at one place."""
    makers = {v: n for n in graph.nodes for v in n.outputs}
    return exchanged(graph, {id(n): nodes for n in graph.nodes if (nodes := _apart(n, makers))})


@dataclass(frozen=True)
class _Product:
    """A sum along dimension ``along`` of ``data`` and of ``weight``; ``places`` has for each
    dimension of the data the one of the result that it is, None for none."""

    data: Value
    weight: Value
    bias: Value | None
    along: int
    weight_along: int
    places: tuple[int | None, ...]


def _apart(n: Node, makers: dict[Value, Node]) -> list[Node]:
    """A product as two, and their sum; nothing where it is not worth it."""
    p = _product(n)
    joined = None if p is None else makers.get(p.data)
    if p is None or joined is None or not _joined(joined, p.along):
        return []
    sizes = [constant(v.shape[p.along]) or 0 for v in joined.reads]
    for k, v in enumerate(joined.inputs):
        maker = makers.get(v) if v is not None else None
        source = None if maker is None else _repeated(maker, p)
        if source is None or not _pays(p, n.outputs[0], source, sizes[k]):
            continue
        rest = [w for i, w in enumerate(joined.inputs) if i != k and w is not None]
        begin = sum(sizes[:k])
        try:
            return _sum(n, p, joined, rest, source, (begin, begin + sizes[k]))
        except TensorLangError:
            continue  # another operator than its te says: it does not take the smaller operands
    return []


def _product(n: Node) -> _Product | None:
    if not single(n) or not n.outputs[0].dtype.is_float:
        return None
    total = sum_of(n)
    factors = None if total is None else factors_of(total.total)
    if total is None or factors is None:
        return None
    values = {v.tensor: v for v in n.reads}
    for data, weight in (factors, factors[::-1]):
        d, w = values.get(data.tensor), values.get(weight.tensor)
        if d is None or w is None or w.data is None or d.data is not None or d is w:
            continue
        one = {a.var for a in total.total.reduce_axis if constant(a.extent) == 1}
        summed = {a.var for a in total.total.reduce_axis} - one
        places = [_place(i, total.total, one) for i in data.indices]
        along = [k for k, i in enumerate(data.indices) if i in summed]
        weight_along = [k for k, i in enumerate(weight.indices) if i in summed]
        # one sum, of the elements as they lie: neither windows nor groups
        if (
            len(summed) == len(along) == len(weight_along) == 1
            and all(q is not None or k in along or constant(d.shape[k]) == 1 for k, q in enumerate(places))
            and sum(v is d for v in n.inputs) == sum(v is w for v in n.inputs) == 1
            and all(v is not total.bias for v in (d, w))
            and (total.bias is None or total.bias.data is not None)
        ):
            return _Product(d, w, total.bias, along[0], weight_along[0], tuple(places))
    return None


def _place(index: Expr, total: ComputeOp, one: set[Var]) -> int | None:
    """The dimension of the result that an index of the data is, but for taps of size one."""
    # a tap of size one is always 0
    index = substitute(index, dict.fromkeys(one, make.as_expr(0)))
    return next((k for k, a in enumerate(total.axis) if poly(index) == {(a.var,): 1}), None)


def _joined(n: Node, axis: int) -> bool:
    """Whether a node joins its operands along an axis, in their order."""
    if not single(n) or not joins_pieces(n) or any(v is None for v in n.inputs):
        return False
    op = n.results[0].op
    if not isinstance(op, ComputeOp) or len({id(v) for v in n.inputs}) < len(n.inputs):
        return False
    begins, begin = dict[Tensor, int](), 0
    for v in n.reads:
        size = constant(v.shape[axis]) if v.ndim == len(op.axis) else None
        if size is None:
            return False
        begins[v.tensor] = begin
        begin += size
    reads = [e for e in preorder(op.body[0]) if isinstance(e, TensorRead)]
    return begin == constant(op.axis[axis].extent) and all(
        all(
            poly(i)
            == ({(a.var,): 1, (): -begins[e.tensor]} if begins[e.tensor] and k == axis else {(a.var,): 1})
            for k, (i, a) in enumerate(zip(e.indices, op.axis, strict=True))
        )
        for e in reads
        if e.tensor in begins
    )


def _repeated(n: Node, p: _Product) -> Value | None:
    """What a node repeats along places of the result, of which it has one each."""
    if not single(n) or n.results[0].op.tag != tags.BROADCAST or len(n.reads) != 1:
        return None
    (source,), made = n.reads, n.outputs[0]
    if source.ndim != made.ndim or source.dtype != made.dtype:
        return None
    wide = [d for d in range(made.ndim) if not same_sizes([source.shape[d]], [made.shape[d]])]
    if not wide or any(constant(source.shape[d]) != 1 or p.places[d] is None for d in wide):
        return None
    return source


def _pays(p: _Product, made: Value, source: Value, size: int) -> bool:
    """Whether what is not multiplied is worth a kernel of its own."""
    wide = {q for d, q in enumerate(p.places) if q is not None and constant(source.shape[d]) == 1}
    number = [constant(s) or OPEN for s in made.shape]
    once = prod(s for d, s in enumerate(number) if d not in wide)
    return size * (prod(number) - once) >= LEAST


def _sum(
    n: Node, p: _Product, joined: Node, rest: Sequence[Value], source: Value, ends: tuple[int, int]
) -> list[Node]:
    nodes, data = list[Node](), rest[0]
    if len(rest) > 1:
        # its own function may take so many operands and no fewer, as what is placed for torch does
        fewer = Node(joined.op, _joining, rest, {"axis": p.along}, joined.name)
        fewer.was = joined.was
        data = _made(fewer, joined.outputs[0].name)
        nodes.append(fewer)
    weight, (begin, end) = p.weight.data, ends
    assert weight is not None
    others = _constant(p.weight, np.delete(weight, np.s_[begin:end], p.weight_along))
    own = _constant(p.weight, np.take(weight, range(begin, end), p.weight_along))
    given = {p.data: source, p.weight: own}
    if p.bias is not None:
        assert p.bias.data is not None
        # it is added to the product of the others
        given[p.bias] = _constant(p.bias, np.zeros_like(p.bias.data))
    places, once = _with(n, {p.data: data, p.weight: others}), _with(n, given)
    total = Node("Add", ops.add, [_made(places, n.outputs[0].name), _made(once, source.name)], {})
    out = n.outputs[0]
    if total.results[0].dtype != out.dtype or not same_sizes(total.results[0].shape, out.shape):
        return []
    total.outputs = [out]
    return [*nodes, places, once, total]


def _joining(*parts: Tensor, axis: int) -> Tensor:
    return ops.concatenate(parts, axis)


def _with(n: Node, given: dict[Value, Value]) -> Node:
    return remade(n, [None if v is None else given.get(v, v) for v in n.inputs])


def _made(n: Node, name: str) -> Value:
    (made,) = n.results
    n.outputs = [Value(name, made.shape, made.dtype, n)]
    return n.outputs[0]


def _constant(like: Value, data: np.ndarray) -> Value:
    data = np.ascontiguousarray(data)
    return Value(like.name, data.shape, like.dtype, data=data)
