"""Constants of quantised numbers stay whole numbers: an operator that is linear in such a weight, or picks
rows of such a table, reads the whole numbers, and its result is multiplied by the scale. The weight then
takes the memory of the whole numbers: in a file, in memory, and on the way to the kernel that computes.

What a file writes to make floats of them (DequantizeLinear; a cast, a subtraction, a multiplication; a
transposition behind) is recognised by what it computes, as scales are: each element by itself, affine in it,
with one scale for each place along an axis. Where no reader can take the whole numbers, the floats are folded
as those of other constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ... import ops
from ...analysis import constant
from ...errors import TensorLangError
from ...te import ComputeOp, PlaceholderOp, reference
from ...te.graph import operations
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..sizes import same_sizes
from ..storage_types import FEW
from .dead import drop_dead
from .rewrite import exchanged, remade, single
from .scales import SCALE, line, scaled, steps, weighed

FAR = 1 << 15  # that a zero point may be
FEWER_SCALES = 8  # times as many elements as scales, at least


@dataclass(frozen=True)
class Levels:
    """A constant as ``whole`` numbers times ``scale``, which has their dimensions, those along which it is
    the same with size 1."""

    whole: np.ndarray
    scale: np.ndarray

    def along(self, axis: int) -> np.ndarray | None:
        """The scale of each place along an axis; None where it differs along others too."""
        if any(s != 1 for d, s in enumerate(self.scale.shape) if d != axis):
            return None
        return np.broadcast_to(self.scale.reshape(-1), self.whole.shape[axis])


def keep_levels(graph: Program) -> Program:
    """The graph with readers of whole numbers."""
    work = Constants(graph)
    replaced: dict[int, list[Node]] = {}
    for n in graph.nodes:
        if not single(n) or all(v.data is not None or work.of(v) for v in n.reads):
            continue
        for v in n.reads:
            nodes = work.read_as_levels(n, v)
            if nodes:
                replaced[id(n)] = nodes
                break
    # what nobody reads any more would be folded
    return drop_dead(exchanged(graph, replaced)) if replaced else graph


class Constants:
    """The constants that operators make of whole numbers, of ``least`` of them or more."""

    def __init__(self, graph: Program, least: int = FEW) -> None:
        self.least = least
        self.makers = {v: n for n in graph.nodes for v in n.outputs}
        self._found: dict[Value, Levels | None] = {}
        self._values: dict[Value, Value | None] = {}

    def of(self, v: Value) -> Levels | None:
        """What a value is as whole numbers; None for what is not made of them."""
        if v not in self._found:
            self._found[v] = self._stored(v) if v.data is not None else self._made(v)
        return self._found[v]

    def _stored(self, v: Value) -> Levels | None:
        a = v.data
        if a is None or a.dtype.kind not in "iu" or a.dtype.itemsize > 2 or a.size < self.least:
            return None
        return Levels(a, np.ones([1] * a.ndim))

    def _made(self, v: Value) -> Levels | None:
        n = self.makers.get(v)
        if n is None or not single(n):
            return None
        # zero points are whole numbers too, and fewer
        most = max((w.data.size for w in n.reads if w.data is not None), default=0)
        sources = [w for w in n.reads if w.data is None or self._whole_of(w.data, most)]
        if len(sources) != 1 or (given := self.of(sources[0])) is None:
            return None
        try:
            return _elsewhere(n, sources[0], given) or _multiplied(n, sources[0], given)
        except TensorLangError:
            return None

    def _whole_of(self, a: np.ndarray, most: int) -> bool:
        return a.dtype.kind in "iu" and a.size >= max(self.least, most)

    def whole(self, v: Value) -> Value | None:
        """The whole numbers as a constant of the type of ``v``, where a narrower type holds them."""
        if v not in self._values:
            levels, made = self.of(v), None
            if levels is not None and v.data is None and v.dtype == "float32":
                floats, few = levels.whole.astype(np.float32), in_8_bits(levels.whole)
                made = Value(v.name, floats.shape, v.dtype, data=floats, stored=few)
                made = None if made.stored is made.data else made
            self._values[v] = made
        return self._values[v]

    def read_as_levels(self, n: Node, v: Value) -> list[Node]:
        """Nodes that read the whole numbers of ``v`` and give what ``n`` does; none where it cannot."""
        levels = self.of(v)
        if v.data is not None or levels is None or sum(w is v for w in n.inputs) != 1:
            return []
        whole = self.whole(v)
        if whole is None:
            return []
        try:
            return _scaled_sum(n, v, whole, levels) or _scaled_rows(n, v, whole, levels.scale)
        except TensorLangError:
            return []


def in_8_bits(whole: np.ndarray) -> np.ndarray | None:
    """The whole numbers in a type that is read at once; None where it is not theirs."""
    if whole.dtype == np.int8:
        return whole
    inside = whole.size and int(whole.min()) >= -128 and int(whole.max()) <= 127
    return whole.astype(np.int8) if inside else None


# -- what a constant is


def _elsewhere(n: Node, source: Value, given: Levels) -> Levels | None:
    """The same elements at other places: a transposition, a reshape."""
    if len(n.reads) != 1 or not _only_reads(n, source):
        return None
    kind = source.dtype.to_numpy()

    def moved(a: np.ndarray) -> np.ndarray:
        return reference.evaluate(n.results, {source.tensor: a.astype(kind)})[0]

    whole = moved(given.whole)
    if given.scale.size == 1:
        return Levels(whole, given.scale.reshape([1] * whole.ndim))
    scale = moved(np.broadcast_to(given.scale, given.whole.shape))
    for d in range(scale.ndim):
        first = scale.take([0], d)
        scale = first if (scale == first).all() else scale
    return _checked(whole, scale)


def _multiplied(n: Node, source: Value, given: Levels) -> Levels | None:
    """Each element multiplied, and shifted by a whole number of steps."""
    if not same_sizes(n.outputs[0].shape, source.shape):
        return None
    others = [v for v in n.reads if v is not source]
    by_one = all(v.data is not None and v.data.size == 1 for v in others)
    rank = source.ndim
    for axis in range(rank):
        found = (steps if source.dtype.is_int else line)(n, source, axis)
        if found is None:
            continue
        along = [1] * rank
        along[axis] = -1
        factor, by = ((a[:1] if by_one else a).reshape([1] * rank if by_one else along) for a in found)
        scale = given.scale * factor
        if not np.isfinite(scale).all() or (scale == 0).any():
            return None
        shift = np.rint(by / scale)
        if (np.abs(by / scale - shift) > 1e-6 * np.maximum(1, np.abs(shift))).any() or np.abs(
            shift
        ).max() > FAR:
            return None
        moved = given.whole.astype(np.int32) + shift.astype(np.int32) if shift.any() else given.whole
        return _checked(moved, scale)
    return None


def _checked(whole: np.ndarray, scale: np.ndarray) -> Levels | None:
    return Levels(whole, scale) if scale.size * FEWER_SCALES <= whole.size else None


def _only_reads(n: Node, v: Value) -> bool:
    """Whether each element of the result is one of ``v``."""
    (made,) = n.results
    depends = {v.tensor}
    for op in operations([made.op]):
        if isinstance(op, PlaceholderOp):
            continue
        if not isinstance(op, ComputeOp) or len(op.body) != 1:
            return False
        if depends.intersection(op.input_tensors):
            body = op.body[0]
            if not isinstance(body, TensorRead) or body.tensor not in depends:
                return False
            depends.update(op.outputs)
    return made in depends


# -- who reads it


def _scaled_sum(n: Node, v: Value, whole: Value, levels: Levels) -> list[Node]:
    """A product or convolution with whole numbers as its weight, and what multiplies its result."""
    first = remade(n, [whole if w is v else w for w in n.inputs])
    out = n.outputs[0]
    for w in weighed(first):
        columns = levels.along(w.weight_axis) if w.weight is whole else None
        if columns is None:
            continue
        if w.bias is not None:
            assert w.bias.data is not None
            bias = (w.bias.data / columns).astype(w.bias.data.dtype)
            if not np.isfinite(bias).all():
                return []
            shifted = Value(w.bias.name, bias.shape, w.bias.dtype, data=bias)
            first = remade(first, [shifted if u is w.bias else u for u in first.inputs])
        first.outputs = [Value(f"{out.name}.steps", out.shape, out.dtype, first)]
        factor = columns.reshape([-1] + [1] * (out.ndim - w.axis - 1)).astype(out.dtype.to_numpy())
        return [first, _behind(first.outputs[0], factor, out)]
    return []


def _behind(x: Value, factor: np.ndarray, out: Value) -> Node:
    numbers = {"scale": factor, "shift": np.zeros_like(factor)}
    constants = [Value(f"{out.name}.{k}", a.shape, out.dtype, data=a) for k, a in numbers.items()]
    second = Node(SCALE, scaled, [x, *constants], {})
    second.outputs = [out]
    return second


def _scaled_rows(n: Node, v: Value, whole: Value, scale: np.ndarray) -> list[Node]:
    """Elements of a table of whole numbers, and the scale of each."""
    if not _only_reads(n, v):
        return []
    out = n.outputs[0]
    made = _scales_of(n, v, scale.astype(out.dtype.to_numpy()))
    if made is None:
        return []
    nodes, factor = made
    first = remade(n, [whole if w is v else w for w in n.inputs])
    first.outputs = [Value(f"{out.name}.steps", out.shape, out.dtype, first)]
    product = Node("Mul", ops.multiply, [first.outputs[0], factor], {})
    product.outputs = [out]
    return [*nodes, first, product]


def _scales_of(n: Node, v: Value, scale: np.ndarray) -> tuple[list[Node], Value] | None:
    """The scales of the elements of the result: constants where they are those along some of its dimensions,
    else picked from a table of scales as the elements are from theirs."""
    out, name = n.outputs[0], f"{n.outputs[0].name}.scale"
    along = [d for d, s in enumerate(scale.shape) if s > 1]
    places = _places(n, v)
    if all(d in places for d in along):
        shape = [1] * out.ndim
        for d in along:
            shape[places[d]] = scale.shape[d]
        if [places[d] for d in along] != sorted(places[d] for d in along):
            return None
        return [], Value(name, shape, out.dtype, data=scale.reshape(shape))
    if not all(d in places or d in along for d in range(v.ndim)):
        return None
    table = Value(f"{v.name}.scale", scale.shape, out.dtype, data=scale)
    picked = remade(n, [table if w is v else w for w in n.inputs])
    (made,), (rows,) = picked.results, n.results
    if made.ndim != out.ndim:
        return None
    if not all(constant(a) == 1 or same_sizes([a], [b]) for a, b in zip(made.shape, rows.shape, strict=True)):
        return None
    sizes = [a if constant(a) == 1 else b for a, b in zip(made.shape, out.shape, strict=True)]
    picked.outputs = [Value(name, sizes, out.dtype, picked)]
    return [picked], picked.outputs[0]


def _places(n: Node, v: Value) -> dict[int, int]:
    """The dimensions of ``v`` that are read from end to end, each along a dimension of the result."""
    (made,) = n.results
    op = made.op
    if (
        not isinstance(op, ComputeOp)
        or not isinstance(read := op.body[0], TensorRead)
        or read.tensor is not v.tensor
    ):
        return {}
    axes: Mapping[object, int] = {a.var: d for d, a in enumerate(op.axis)}
    whole = {a.var: a.extent for a in op.axis}
    return {d: axes[i] for d, i in enumerate(read.indices) if i in axes and whole[i] is v.shape[d]}  # type: ignore[index]
