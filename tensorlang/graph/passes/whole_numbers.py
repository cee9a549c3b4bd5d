"""Convolutions and products of dequantised numbers are sums of whole numbers: where both operands are made of
bytes, as in a file that writes QuantizeLinear and DequantizeLinear around its operators, the bytes are
multiplied, exactly and in int32, and the sum is multiplied by both scales behind it.

What makes floats of the bytes is recognised by what it computes, as scales are: each element by itself,
affine in it, with one scale and one zero point for the data and one scale for each output of the weight.
Rounding moves as it does wherever floats are summed in another order: by less, for whole numbers round
nothing. Only where the processor sums products of four bytes at once: elsewhere floats are as fast.
``without=["whole numbers"]`` is the switch. Knows graphs and te, no frontend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...analysis import constant, conv_of, windows_of
from ...expr.nodes import Mul
from ...target import Target
from ...te import ComputeOp, Tensor, reference
from ...te.graph import operations
from ...te.products import Windows
from ...te.reducers import Reduce
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from .levels import Constants, Levels, in_8_bits
from .rewrite import exchanged, single
from .scales import bias_of, steps
from .winograd import margin_of

DEEPEST = 1 << 16  # products of bytes whose sum an int32 holds
LEAST = 16  # elements of a weight
CONV, PRODUCT, SCALE = "ConvInteger", "MatMulInteger", "Scale"
Attributes = dict[str, Any]


def multiply_whole_numbers(graph: Program, target: Target) -> Program:
    """The graph with sums of whole numbers."""
    if not target.summed(4):
        return graph
    constants = Constants(graph, LEAST)
    found = ((n, _of_bytes(n, constants)) for n in graph.nodes if single(n))
    return exchanged(graph, {id(n): nodes for n, nodes in found if nodes})


@dataclass(frozen=True)
class _Bytes:
    """Data as bytes: ``scale`` times what they are above ``zero``."""

    value: Value
    scale: float
    zero: int


def convolved(data: Tensor, weight: Tensor, zero: Tensor, *, groups: int, **how: Any) -> Tensor:
    """A convolution of whole numbers less a zero point, in int32."""
    return ops.conv_integer(data, weight, zero, None, groups=groups, **how)  # type: ignore[no-any-return]


def multiplied(data: Tensor, weight: Tensor, zero: Tensor) -> Tensor:
    """A product of whole numbers less a zero point, in int32."""
    return ops.matmul_integer(data, weight, zero)  # type: ignore[no-any-return]


def rescaled(total: Tensor, by: Tensor, more: Tensor) -> Tensor:
    """Each channel of a sum of whole numbers as floats, multiplied by a number, and one is added."""
    return ops.add(ops.multiply(ops.cast(total, "float32"), by), more)


def _of_bytes(n: Node, constants: Constants) -> list[Node]:
    """Nodes that give what ``n`` does by way of whole numbers; none where it cannot."""
    (made,) = n.results
    values = {v.tensor: v for v in n.reads}
    sums = [op for op in operations([made.op]) if isinstance(op, ComputeOp) and op.reduce_axis]
    if made.dtype != "float32" or len(sums) != 1:
        return []
    (total,) = sums
    shift, along = (None, None) if made.op is total else bias_of(made, total, values)
    more = np.zeros(1) if made.op is total else None if shift is None else _numbers(shift, constants)
    if more is None:
        return []
    found = _convolution(total, values, shift) or _product(total, values)
    if found is None:
        return []
    fn, image, weight, axis, attributes = found
    data, levels = _bytes_of(image, constants), constants.of(weight)
    whole = None if levels is None else in_8_bits(levels.whole)
    if data is None or levels is None or whole is None or (along is not None and along != axis):
        return []
    outputs = 0 if fn is convolved else 1 - attributes.pop("turned")
    if fn is not convolved and not outputs:
        whole = np.ascontiguousarray(whole.T)
    scale = _of_outputs(levels, outputs)
    if scale is None or levels.whole.size // levels.whole.shape[outputs] > DEEPEST:
        return []
    places = [-1] + [1] * (made.ndim - axis - 1)
    return _nodes(n, fn, data, whole, attributes, (scale * data.scale).reshape(places), more.reshape(places))


def _nodes(
    n: Node, fn: Any, data: _Bytes, whole: np.ndarray, how: Attributes, scale: np.ndarray, more: np.ndarray
) -> list[Node]:
    out = n.outputs[0]
    zero = np.array(data.zero, data.value.dtype.to_numpy())
    weight = Value(f"{out.name}.weight", whole.shape, "int8", data=np.ascontiguousarray(whole))
    at = Value(f"{out.name}.zero", (), data.value.dtype, data=zero)
    first = Node(CONV if fn is convolved else PRODUCT, fn, [data.value, weight, at], how, n.name)
    first.outputs, first.was = [Value(f"{out.name}.whole", out.shape, "int32", first)], n.was or (n.op,)
    numbers = [
        Value(f"{out.name}.{name}", a.shape, out.dtype, data=a.astype(np.float32))
        for name, a in (("scale", scale), ("shift", more))
    ]
    second = Node(SCALE, rescaled, [first.outputs[0], *numbers], {})
    second.outputs = list(n.outputs)
    return [first, second]


def _bytes_of(v: Value, constants: Constants) -> _Bytes | None:
    """The bytes that a value is made of, one scale and one zero point for all of them."""
    n = constants.makers.get(v)
    if n is None or not single(n):
        return None
    sources = [w for w in n.reads if w.data is None]
    if len(sources) != 1 or not sources[0].dtype.is_int or sources[0].dtype.bytes != 1:
        return None
    (source,) = sources
    found = steps(n, source, 0) if source.ndim else None
    if found is None or any((a != a[0]).any() for a in found):
        return None
    scale, by = (float(a[0]) for a in found)
    return _Bytes(source, scale, round(-by / scale))


def _numbers(v: Value, constants: Constants) -> np.ndarray | None:
    """What a constant is, or what an operator makes of constants, as a bias of bytes with a scale."""
    n = constants.makers.get(v)
    if v.data is not None or n is None or not single(n) or any(r.data is None for r in n.reads):
        return v.data
    return reference.evaluate(n.results, {r.tensor: r.data for r in n.reads})[0]  # type: ignore[no-any-return]


def _of_outputs(levels: Levels, axis: int) -> np.ndarray | None:
    """The scale of each output, which ``axis`` counts; None where it is no such."""
    if any(n != 1 for d, n in enumerate(levels.scale.shape) if d != axis):
        return None
    return np.broadcast_to(levels.scale.reshape(-1), levels.whole.shape[axis])


def _convolution(
    total: ComputeOp, values: dict[Tensor, Value], shift: Value | None
) -> tuple[Any, Value, Value, int, Attributes] | None:
    """What computes it of bytes, the image, the weight, the axis of outputs, and how."""
    w = windows_of(total)
    if w is None or w.weight not in values or len(w.place) != len(total.axis) or len(total.axis) < 3:
        return None
    if total.axis[1] is not w.outputs or w.place[0] is not total.axis[0].var:
        return None
    groups = _groups(total, w)
    taps = len(total.axis) - 2
    plain = [a.var for a in (w.outputs, *total.reduce_axis)]
    if groups is None or w.weight.ndim != 2 + taps or not _in_order(w.at, plain):
        return None
    weight = values[w.weight]
    images = [v for v in values.values() if v not in (weight, shift) and v.data is None]
    margin = margin_of(w.data, images[0]) if len(images) == 1 else None
    moved = w.moved[2:]
    if margin is None or any(m.axis is not a for m, a in zip(moved, total.axis[2:], strict=True)):
        return None
    how = {
        "stride": tuple(m.stride for m in moved),
        "padding": tuple(margin) or ((0, 0),) * taps,
        "dilation": tuple(m.dilation or 1 for m in moved),
        "groups": groups,
    }
    return convolved, images[0], weight, 1, how


def _groups(total: ComputeOp, w: Windows) -> int | None:
    """Of a convolution, or as many as there are channels where each output has one of its own; None for any
    other sum."""
    conv = conv_of(total)
    if conv is not None:
        return conv.groups
    return constant(w.outputs.extent) if w.place[1] is w.outputs.var else None


def _in_order(at: Sequence[Any], variables: Sequence[Any]) -> bool:
    """Whether a weight is read at these axes in their order, or at 0 where an axis has a single value."""
    rest = iter(variables)
    return all(constant(i) == 0 or any(i is v for v in rest) for i in at)


def _product(
    total: ComputeOp, values: dict[Tensor, Value]
) -> tuple[Any, Value, Value, int, Attributes] | None:
    """The same of rows of data by a matrix, which may be ``turned``: outputs first."""
    (body,) = total.body if len(total.body) == 1 else (None,)
    if not isinstance(body, Reduce) or body.reducer.kind != "add" or body.condition is not None:
        return None
    if len(body.sources) != 1 or type(body.sources[0]) is not Mul or len(total.reduce_axis) != 1:
        return None
    sides = (body.sources[0].a, body.sources[0].b)
    if not all(isinstance(e, TensorRead) and e.tensor in values for e in sides):
        return None
    k = total.reduce_axis[0].var
    *rows, column = [a.var for a in total.axis]
    for data, weight in (sides, sides[::-1]):
        right: Sequence[Any] = weight.indices  # type: ignore[attr-defined]
        if not _same(data.indices, [*rows, k]) or not (  # type: ignore[attr-defined]
            _same(right, [k, column]) or _same(right, [column, k])
        ):
            continue
        how = {"turned": int(_same(right, [column, k]))}
        return multiplied, values[data.tensor], values[weight.tensor], len(rows), how  # type: ignore[attr-defined]
    return None


def _same(indices: Sequence[Any], variables: Sequence[Any]) -> bool:
    return len(indices) == len(variables) and all(a is b for a, b in zip(indices, variables, strict=True))
