"""Scales of channels go into the weights before them: a product or convolution with a constant weight,
whose result is only multiplied and shifted by constants of its channel, becomes one with another weight and
a shift. A batch norm behind a convolution is the common case; so are the multiplications and additions that
exporters write in its place. A weight that a narrower type holds stays as it is: the scale follows.

Which input is the weight, and which of its axes counts the channels, is read off the te; what the operator
behind does to a channel is found by computing it, for a result of 0 and for a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ... import ops
from ...analysis import constant, reads_of
from ...errors import TensorLangError
from ...expr.nodes import Add, Cast, Div, Expr, Mul, Sub, Var
from ...expr.walk import preorder, variables
from ...te import ComputeOp, IterVar, Tensor, placeholder, reference
from ...te.graph import operations
from ...te.products import before_widening
from ...te.reducers import Reduce
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import Reading, reading
from .rewrite import alike_in_shape, exchanged, remade, single


def scale_weights(graph: Program) -> Program:
    """The graph with scaled weights."""
    readers = graph.readers()
    kept = set(graph.outputs)
    replaced: dict[int, list[Node]] = {}
    for heavy in graph.nodes:
        if id(heavy) in replaced or not single(heavy):
            continue
        for w in weighed(heavy):
            chain, scale, by = _chain(heavy.outputs[0], w.axis, readers, kept)
            if not chain or (len(chain) == 1 and w.bias is None and (scale == 1).all()):
                continue
            narrow = str(w.weight.stored.dtype) != str(w.weight.dtype)  # and would not be any more
            if narrow and chain[0].fn is scaled and len(chain) == 1:
                continue
            replaced |= {id(n): [] for n in (heavy, *chain)}
            made = _scaled_behind if narrow else _with_scale
            replaced[id(chain[-1])] = made(heavy, chain[-1], w, scale, by)
            break
    return exchanged(graph, replaced)


def _chain(
    v: Value, axis: int, readers: dict[Value, list[Node]], kept: set[Value]
) -> tuple[list[Node], np.ndarray, np.ndarray]:
    """The nodes behind ``v`` that together multiply each of its channels by a number and add one."""
    chain: list[Node] = []
    scale, by = np.ones(()), np.zeros(())
    while v not in kept and len(readers.get(v, ())) == 1:
        (n,) = readers[v]
        if not single(n) or not alike_in_shape(n.outputs[0], v):
            break
        found = line(n, v, axis)
        if found is None:
            break
        factor, amount = found
        scale, by, v = scale * factor, by * factor + amount, n.outputs[0]
        chain.append(n)
    return chain, scale, by


SHIFT = "Shift"
FAR = {"float32": 2.0**80, "float64": 2.0**160}  # where a factor is asked for


def shift(x: Tensor, by: Tensor) -> Tensor:
    """A number for each channel is added."""
    return ops.add(x, by)


SCALE = "Scale"


def scaled(x: Tensor, by: Tensor, more: Tensor) -> Tensor:
    """Each channel is multiplied by a number, and one is added."""
    return ops.add(ops.multiply(x, by), more)


def _scaled_behind(heavy: Node, after: Node, w: _Weighed, scale: np.ndarray, by: np.ndarray) -> list[Node]:
    """The first node as it is, whose weight a narrower type holds, and one that scales its result."""
    out = after.outputs[0]
    places = [1] * (len(out.shape) - w.axis)
    places[0] = -1
    numbers = [
        np.broadcast_to(a, np.broadcast_shapes(scale.shape, by.shape)).reshape(places) for a in (scale, by)
    ]
    kind = out.dtype.to_numpy()
    constants = [
        Value(f"{out.name}.{name}", a.shape, out.dtype, data=a.astype(kind))
        for name, a in zip(("scale", "shift"), numbers, strict=True)
    ]
    second = Node(SCALE, scaled, [heavy.outputs[0], *constants], {})
    second.outputs = list(after.outputs)
    return [heavy, second]


@dataclass(frozen=True)
class _Weighed:
    """A node that is linear in ``weight`` and ``bias`` together; ``axis`` of the result counts the channels,
    ``weight_axis`` of the weight does."""

    weight: Value
    bias: Value | None
    axis: int
    weight_axis: int


def _with_scale(heavy: Node, after: Node, w: _Weighed, scale: np.ndarray, by: np.ndarray) -> list[Node]:
    """The first node with another weight, and a shift where one is left; together what ``after`` gave."""
    out = after.outputs[0]
    assert w.weight.data is not None
    along = [1] * w.weight.data.ndim
    along[w.weight_axis] = -1
    weight = np.empty_like(w.weight.data, order="C", subok=False)
    np.multiply(w.weight.data, scale.reshape(along), out=weight, dtype=np.float64, casting="unsafe")
    new = {w.weight: Value(w.weight.name, weight.shape, w.weight.dtype, data=weight)}
    if w.bias is not None:
        assert w.bias.data is not None
        shifted = (w.bias.data * scale + by).astype(w.bias.data.dtype)
        new[w.bias] = Value(w.bias.name, shifted.shape, w.bias.dtype, data=shifted)
        by = np.zeros_like(by)
    inputs = [new.get(v, v) if v is not None else None for v in heavy.inputs]
    if not by.any():
        return [remade(heavy, inputs, after.outputs)]
    first = remade(heavy, inputs, heavy.outputs)
    places = [1] * (len(out.shape) - w.axis)
    places[0] = -1
    amount = by.reshape(places).astype(out.dtype.to_numpy())
    second = Node(
        SHIFT, shift, [heavy.outputs[0], Value(f"{out.name}.shift", amount.shape, out.dtype, data=amount)], {}
    )
    second.outputs = list(after.outputs)
    return [first, second]


def weighed(n: Node) -> list[_Weighed]:
    """The ways in which a node may be scaled."""
    if "weighed" not in n.memo:
        n.memo["weighed"] = _found(n)
    found: list[_Weighed] = n.memo["weighed"]
    return found


def _found(n: Node) -> list[_Weighed]:
    tensors = {v.tensor: v for v in n.reads}
    if not any(v.data is not None for v in n.reads):
        return []
    (made,) = n.results
    if not made.dtype.is_float:
        return []
    computed = [op for op in operations([made.op]) if isinstance(op, ComputeOp)]
    sums = [op for op in computed if op.reduce_axis]
    if len(sums) != 1 or len(total_body := sums[0].body) != 1 or total_body[0].dtype != made.dtype:
        return []
    (total,) = sums
    bias: Value | None = None
    along = None
    if made.op is not total:
        bias, along = bias_of(made, total, tensors)
        if bias is None or bias.data is None:
            return []
    readers = [t for op in computed for t in op.input_tensors]
    return [
        _Weighed(value, bias, axis, place)
        for value, column, place in _columns(total, tensors)
        for axis in (list(total.axis).index(column),)
        if value.dtype == made.dtype
        and value is not bias
        and sum(v is value for v in n.inputs) == readers.count(value.tensor) == 1
        and along in (None, axis)
    ]


def _columns(total: ComputeOp, tensors: dict[Tensor, Value]) -> Iterator[tuple[Value, IterVar, int]]:
    """Each constant factor of the sum with an axis that it has at one place, and nowhere else, and with the
    place."""
    (body,) = total.body
    if not isinstance(body, Reduce) or body.reducer.kind != "add" or len(body.sources) != 1:
        return
    (source,) = body.sources
    if type(source) is not Mul or body.condition is not None or body.init is not None:
        return
    for read, other in ((source.a, source.b), (source.b, source.a)):
        if not isinstance(read, TensorRead) or _reads(other, read.tensor):
            continue
        value = tensors.get(read.tensor)
        if value is None or value.data is None:
            continue
        for column in total.axis:
            places = [d for d, i in enumerate(read.indices) if column.var in variables(i)]
            if len(places) == 1 and read.indices[places[0]] is column.var:
                yield value, column, places[0]


def _reads(e: Expr, tensor: Tensor) -> bool:
    return any(isinstance(k, TensorRead) and k.tensor is tensor for k in preorder(e))


def bias_of(
    made: Tensor, total: ComputeOp, tensors: dict[Tensor, Value], widened: bool = False
) -> tuple[Value, int] | tuple[None, None]:
    """The vector that is added to the sum along an axis, and the axis, when nothing else is done to
    the sum; ``widened``: also one of halves, which is made float32 as it is added."""
    op = made.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or type(op.body[0]) is not Add:
        return None, None
    both = (op.body[0].a, op.body[0].b)
    sides = [e for e in (map(before_widening, both) if widened else both) if isinstance(e, TensorRead)]
    read = [e for e in sides if e.tensor.op is total]
    others = [e for e in sides if e.tensor.op is not total]
    if len(read) != 1 or len(others) != 1 or reading(op, read[0].indices) is not Reading.SAME:
        return None, None
    bias = tensors.get(others[0].tensor)
    axes = [d for d, a in enumerate(op.axis) if others[0].indices and a.var is others[0].indices[0]]
    if bias is None or len(bias.shape) != 1 or not axes:
        return None, None
    return bias, axes[0]


Line = tuple[np.ndarray, np.ndarray]


def line(n: Node, source: Value, axis: int) -> Line | None:
    """What ``n`` does to each channel of ``source``: a factor and an amount; None unless that is all."""
    key = "line", source, axis
    if key not in n.memo:
        n.memo[key] = _computed_line(n, source, axis)
    found: Line | None = n.memo[key]
    return found


def _computed_line(n: Node, source: Value, axis: int) -> Line | None:
    far = FAR.get(source.dtype.name)
    f = None if far is None else _of_channels(n, source, axis)
    if f is None or far is None:
        return None
    # far away the amount is below the rounding of the product, and a factor of 1 is 1
    by, there = f(np.zeros(())), f(np.full((), far))
    if not (np.isfinite(by).all() and np.isfinite(there).all()) or np.abs(by).max(initial=0) > far / 2**60:
        return None
    return ((there - by) / far).astype(source.dtype.to_numpy()).astype(np.float64), by


def steps(n: Node, source: Value, axis: int) -> Line | None:
    """The same of whole numbers that become floats: the amount is a whole number of factors."""
    f = _of_channels(n, source, axis)
    if f is None or not n.outputs[0].dtype.is_float or not source.dtype.is_int:
        return None
    low, high = source.dtype.limits()
    by = f(np.zeros(()))
    slope = f(np.ones(())) - by
    if not (np.isfinite(by).all() and np.isfinite(slope).all() and slope.all()):
        return None
    zero = np.rint(-by / slope)
    if (zero < low).any() or (zero > high).any() or f(zero).any():
        return None
    beside = np.where(zero < high, zero + 1, zero - 1)  # where a product rounds nothing
    factor = f(beside) * (beside - zero)
    return factor, -zero * factor


def _of_channels(n: Node, source: Value, axis: int) -> Callable[[np.ndarray], np.ndarray] | None:
    """What ``n`` makes of a number, or one for each channel of ``source``; None where it is no factor and an
    amount of each channel."""
    (made,) = n.results
    if any(
        not isinstance(op, ComputeOp) or op.reduce_axis for op in operations([made.op]) if op.input_tensors
    ):
        return None
    if not _affine(made, source.tensor) or not _at_its_place(made, source.tensor):
        return None
    if not _along(made, source.tensor, axis):
        return None
    channels = constant(source.shape[axis])
    small = [1] * len(source.shape)
    small[axis] = channels or 1
    x = placeholder(small, source.dtype, "x")
    constants = [v for v in n.reads if v is not source]
    if any(v.data is None or not _by_channel(v.data, axis, len(small), channels) for v in constants):
        return None
    try:
        (result,) = n.of([None if v is None else x if v is source else v.tensor for v in n.inputs])
        if [constant(s) for s in result.shape] != small:
            return None
    except TensorLangError:
        return None
    values = {v.tensor: v.data for v in constants if v.data is not None}

    def f(numbers: np.ndarray) -> np.ndarray:
        given = np.broadcast_to(numbers.astype(source.dtype.to_numpy()), [channels or 1]).reshape(small)
        return reference.evaluate([result], values | {x: given})[0].reshape(-1).astype(np.float64)

    return f


def _by_channel(a: np.ndarray, axis: int, rank: int, channels: int | None) -> bool:
    """Whether a constant is a number, a vector of channels, or broadcasts along ``axis`` only."""
    if a.size == 1:
        return True
    if a.size != channels:
        return False
    if a.ndim == 1:
        return True  # one along another axis gives a result of another shape
    sizes = list(a.shape)
    return a.ndim <= rank and sizes.index(a.size) == a.ndim - rank + axis


def _at_its_place(made: Tensor, x: Tensor) -> bool:
    """Whether each element is made of that of ``x`` at its own place, the same way everywhere but for what
    constants say."""
    depends = {x}
    for op in operations([made.op]):
        if not isinstance(op, ComputeOp):
            continue
        for e in preorder(op.body[0], lambda e: () if isinstance(e, TensorRead) else e.children()):
            if isinstance(e, Var):
                return False
            if isinstance(e, TensorRead) and e.tensor in depends:
                depends.update(op.outputs)
                if reading(op, e.indices) is not Reading.SAME:
                    return False
    return True


def _along(made: Tensor, x: Tensor, axis: int) -> bool:
    """Whether an element reads constants at its own place, or at that of its channel."""
    for op in operations([made.op]):
        if not isinstance(op, ComputeOp) or len(op.axis) != x.ndim:
            continue
        for t, at in reads_of(op).plain:
            for d, (i, n) in enumerate(zip(at, t.shape, strict=True)):
                own = (op.axis[axis], op.axis[d])[: 1 + (t.ndim == x.ndim)]
                if constant(n) != 1 and constant(i) != 0 and all(i is not a.var for a in own):
                    return False
    return True


def _affine(result: Tensor, x: Tensor) -> bool:
    """Whether the result is ``x * a + b`` with ``a`` and ``b`` of constants."""
    degree: dict[Tensor, int | None] = {x: 1}
    for op in operations([result.op]):
        if isinstance(op, ComputeOp):
            if len(op.body) != 1 or isinstance(op.body[0], Reduce):
                return False
            degree[op.outputs[0]] = _degree(op.body[0], degree)
    return degree.get(result) == 1


def _degree(e: Expr, degree: dict[Tensor, int | None]) -> int | None:
    """0 for what does not depend on ``x``, 1 for what is affine in it, None for any other."""
    if isinstance(e, TensorRead):
        return degree.get(e.tensor, 0)
    if not any(isinstance(k, TensorRead) and degree.get(k.tensor, 0) != 0 for k in preorder(e)):
        return 0
    if isinstance(e, Cast):
        return _degree(e.a, degree) if e.dtype.holds(e.a.dtype) or _to_float(e) else None
    if isinstance(e, Add | Sub | Mul | Div):
        a, b = _degree(e.a, degree), _degree(e.b, degree)
        if a is None or b is None:
            return None
        if isinstance(e, Add | Sub):
            return max(a, b)
        if isinstance(e, Mul):
            return a + b if a + b <= 1 else None
        return a if b == 0 else None
    return None


def _to_float(e: Cast) -> bool:
    return e.a.dtype.is_int and e.dtype.is_float


__all__ = ["scale_weights", "shift"]
