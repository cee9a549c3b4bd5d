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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...analysis import product_of, window_of
from ...target import Target
from ...te import ComputeOp, Tensor, reference
from ...te.products import factors_of
from ..graph import Node, Program, Value
from .levels import Constants, in_8_bits
from .rewrite import exchanged, single
from .scales import SCALE, steps
from .windows import Sum, margin_of, sum_of

DEEPEST = 1 << 16  # products of bytes whose sum an int32 holds
LEAST = 16  # elements of a weight


def multiply_whole_numbers(graph: Program, target: Target) -> Program:
    """The graph with sums of whole numbers."""
    # most graphs have no bytes, and to look at what each of their nodes computes takes a tenth of a second
    if not target.summed(4) or not any(_is_bytes(v) for n in graph.nodes for v in n.reads):
        return graph
    constants = Constants(graph, LEAST)
    found = ((n, _of_bytes(n, constants)) for n in graph.nodes if single(n))
    return exchanged(graph, {id(n): nodes for n, nodes in found if nodes})


def _is_bytes(v: Value) -> bool:
    return v.data is None and v.dtype.is_int and v.dtype.bytes == 1


@dataclass(frozen=True)
class _Bytes:
    """Data as bytes: ``scale`` times what they are above ``zero``."""

    value: Value
    scale: float
    zero: int


def convolved(data: Tensor, weight: Tensor, zero: Tensor | None = None, *, groups: int, **how: Any) -> Tensor:
    """A convolution of whole numbers less a zero point, in int32."""
    return ops.conv_integer(data, weight, zero, None, groups=groups, **how)  # type: ignore[no-any-return]


def multiplied(data: Tensor, weight: Tensor, zero: Tensor | None = None) -> Tensor:
    """A product of whole numbers less a zero point, in int32."""
    return ops.matmul_integer(data, weight, zero)  # type: ignore[no-any-return]


def rescaled(total: Tensor, by: Tensor, more: Tensor) -> Tensor:
    """Each channel of a sum of whole numbers as floats, multiplied by a number, and one is added."""
    return ops.add(ops.multiply(ops.cast(total, "float32"), by), more)


@dataclass(frozen=True)
class _Operands:
    """What is multiplied, and ``op``, which ``fn`` computes of bytes with ``how``: ``axis`` of the result
    counts the outputs, ``weight_axis`` of the weight does."""

    op: str
    fn: Callable[..., Tensor]
    data: Value
    weight: Value
    axis: int
    weight_axis: int
    how: dict[str, Any]


def _of_bytes(n: Node, constants: Constants) -> list[Node]:
    """Nodes that give what ``n`` does by way of whole numbers; none where it cannot."""
    found = sum_of(n) if n.results[0].dtype == "float32" else None
    if found is None:
        return []
    values = {v.tensor: v for v in n.reads}
    what = _convolution(found, values) or _product(found.total, values)
    if what is None or found.along not in (None, what.axis):
        return []
    data, levels = bytes_of(what.data, constants), constants.of(what.weight)
    whole = None if levels is None else in_8_bits(levels.whole)
    if data is None or levels is None or whole is None:
        return []
    scale = levels.along(what.weight_axis)
    more = np.zeros(1) if found.bias is None else _numbers(found.bias, constants)
    if scale is None or more is None or whole.size // len(scale) > DEEPEST:
        return []
    if what.fn is multiplied and what.weight_axis == 0:
        whole = whole.T
    places = [-1] + [1] * (n.outputs[0].ndim - what.axis - 1)
    return _nodes(n, what, data, whole, (scale * data.scale).reshape(places), more.reshape(places))


def _nodes(
    n: Node, what: _Operands, data: _Bytes, whole: np.ndarray, scale: np.ndarray, more: np.ndarray
) -> list[Node]:
    out = n.outputs[0]
    kind = data.value.dtype
    weight = Value(f"{out.name}.weight", whole.shape, "int8", data=np.ascontiguousarray(whole))
    given = [data.value, weight]
    # bytes behind a relu are what they stand for: nothing is taken away
    if data.zero or kind != "uint8":
        at = np.array(data.zero, kind.to_numpy())
        given.append(Value(f"{out.name}.zero", (), kind, data=at))
    first = Node(what.op, what.fn, given, what.how, n.name)
    first.outputs, first.was = [Value(f"{out.name}.whole", out.shape, "int32", first)], n.was or (n.op,)
    numbers = [
        Value(f"{out.name}.{name}", a.shape, out.dtype, data=a.astype(np.float32))
        for name, a in (("scale", scale), ("shift", more))
    ]
    second = Node(SCALE, rescaled, [first.outputs[0], *numbers], {})
    second.outputs = list(n.outputs)
    return [first, second]


def bytes_of(v: Value, constants: Constants) -> _Bytes | None:
    """The bytes that a value is made of, one scale and one zero point for all of them."""
    n = constants.makers.get(v)
    if n is None or not single(n):
        return None
    sources = [w for w in n.reads if w.data is None]
    if len(sources) != 1 or not _is_bytes(sources[0]):
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


def _convolution(found: Sum, values: dict[Tensor, Value]) -> _Operands | None:
    w = window_of(found.total)
    if w is None or w.weight not in values:
        return None
    weight = values[w.weight]
    images = [v for v in values.values() if v not in (weight, found.bias) and v.data is None]
    margin = margin_of(w.data, images[0]) if len(images) == 1 else None
    if margin is None:
        return None
    how = {"stride": w.strides, "dilation": w.dilation, "groups": w.groups}
    return _Operands("ConvInteger", convolved, images[0], weight, 1, 0, {"padding": margin, **how})


def _product(total: ComputeOp, values: dict[Tensor, Value]) -> _Operands | None:
    """Of rows of data by a matrix, whose outputs may come first."""
    product = product_of(total) if factors_of(total) is not None and len(total.reduce_axis) == 1 else None
    if product is None or product.left not in values or product.right not in values:
        return None
    (k,), (*rows, column) = total.reduce_axis, total.axis
    left, right = product.left_axes, product.right_axes
    if left != {a: d for d, a in enumerate([*rows, k])} or right.keys() != {k, column}:
        return None
    data, weight = values[product.left], values[product.right]
    if (data.ndim, weight.ndim) != (len(left), len(right)):
        return None
    return _Operands("MatMulInteger", multiplied, data, weight, len(rows), right[column], {})
