"""Convolutions by 3×3 kernels with fewer multiplications, where that takes less time
(``ops.conv2d_winograd``). Which of a node's inputs are image and weight, and how wide the padding is, follows
from its te.

Rounding moves: on the layers of ResNet-50, F(4×4, 3×3) is within 2e-5 of the largest output, a direct sum
within 2e-6; ``without=["winograd"]`` is the switch. Only for images of known height and width, float32.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...analysis import WINOGRAD_TRANSFORM, Conv, constant, conv_of, cost_of, reads_of, step
from ...expr.linear import poly
from ...expr.nodes import Const
from ...expr.walk import preorder
from ...target import Target
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ..graph import Node, Program, Value
from .rewrite import exchanged, single
from .scales import bias_of

# cycles for a vector of elements of a weight's transform, and twice as many beyond the second cache. Measured
# (Emerald Rapids) at 64 × 64 and 256 × 256
WEIGHT = 33
GAIN = 0.85  # of the time of a direct sum, at most
DIRECT = 1.15  # times the multiply-adds take with what is around them
Margin = tuple[tuple[int, int], ...]


def fewer_multiplications(graph: Program, target: Target) -> Program:
    """The graph with convolutions by Winograd's minimal filtering, where ``target`` gains by it."""
    made = ((n, _transformed(n, target)) for n in graph.nodes)
    return exchanged(graph, {id(n): [new] for n, new in made if new is not None})


def _transformed(n: Node, target: Target) -> Node | None:
    """The node that takes the place of this one, None where it stays."""
    if not single(n):
        return None
    key = ("winograd", target)
    found = n.memo[key] if key in n.memo else _found(n, target)
    n.memo[key] = found
    if found is None:
        return None
    inputs, attrs = found
    made = Node("Winograd", winograd, inputs, attrs, n.name)
    made.outputs, made.was = list(n.outputs), n.was or (n.op,)
    return made


def winograd(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Margin, tile: int) -> Tensor:
    """A convolution of [N, C, H, W] by [O, C, 3, 3]."""
    return ops.conv2d_winograd(x, weight, bias, padding=padding, tile=tile)  # type: ignore[no-any-return]


def _found(n: Node, target: Target) -> tuple[list[Value | None], dict[str, Any]] | None:
    """The inputs and attributes of the same convolution by fewer multiplications, None where it is none, or
    does not gain."""
    (made,) = n.results
    values = {v.tensor: v for v in n.reads}
    computed = [op for op in operations([made.op]) if isinstance(op, ComputeOp)]
    sums = [op for op in computed if op.reduce_axis]
    if len(sums) != 1 or made.dtype != "float32":
        return None
    (total,) = sums
    conv = conv_of(total)
    if conv is None or conv.weight not in values or not _three_by_three(conv, total):
        return None
    weight, bias = values[conv.weight], None
    if made.op is not total:
        bias, along = bias_of(made, total, values)
        if bias is None or along != 1:
            return None
    images = [v for v in n.reads if v not in (weight, bias)]
    if len(images) != 1 or any(v.dtype != "float32" for v in (*images, weight)) or images[0].ndim != 4:
        return None
    padding = margin_of(conv.data, images[0])
    if padding is None or not _gains(conv, weight.data is not None, target):
        return None
    return [images[0], weight, bias], {"padding": padding, "tile": 4}


def _three_by_three(conv: Conv, op: ComputeOp) -> bool:
    """Whether it is a convolution in one group by 3×3 taps beside each other, at every place."""
    if conv.groups != 1 or len(conv.spatial) != 2 or len(conv.taps) != 2 or 0 in conv.sizes:
        return False
    if max(conv.strides) > 1 or [constant(t.extent) for t in conv.taps] != [3, 3]:
        return False
    if [conv.weight_axes.get(a) for a in (conv.outputs, conv.channels, *conv.taps)] != [0, 1, 2, 3]:
        return False
    (at,) = [at for t, at in reads_of(op).plain if t is conv.data]
    return all(step(i, t) == 1 for i, t in zip(at[-2:], conv.taps, strict=True))


def margin_of(data: Tensor, image: Value) -> Margin | None:
    """Rows and columns of zeros around the image in ``data``; None where that is something else than the
    image with a margin."""
    if data is image.tensor:
        return ((0, 0), (0, 0))
    op = data.op
    reads = reads_of(op).plain if isinstance(op, ComputeOp) else ()
    if data.op.tag != ops.tags.PAD or len(reads) != 1 or reads[0][0] is not image.tensor:
        return None
    if any(isinstance(e, Const) and e.dtype.is_float and e.value for e in preorder(op.body[0])):
        return None  # a margin of another value
    margin = []
    for i, a, n, whole in zip(reads[0][1], op.axis, image.shape, data.shape, strict=True):
        before = -poly(i).get((), 0)
        sizes = constant(n), constant(whole)
        if step(i, a) != 1 or (sizes[0] is None and before):
            return None
        margin.append((before, 0 if None in sizes else sizes[1] - sizes[0] - before))  # type: ignore[operator]
    return tuple(margin[2:]) if margin[:2] == [(0, 0), (0, 0)] else None


def _gains(conv: Conv, known: bool, target: Target) -> bool:
    """Whether transforms and products of tiles take less time than the direct sum; the transformed weight, 4
    times as large, comes from memory. One that is not ``known`` is transformed in each call."""
    table, lanes = cost_of(target), target.vector_lanes("float32")
    channels, (height, width) = constant(conv.channels.extent) or 1, conv.sizes
    images, rate = conv.images or 1, table.per_cycle * lanes
    tiles = images * -(-height // 4) * -(-width // 4)
    wide, deep = (-(-n // lanes) * lanes for n in (conv.each, channels))  # lanes are channels
    # 36 products for the 6 × 6 points of a tile of 4 × 4 outputs, where a direct sum has 9 for each of 16
    products = 36 * channels * wide * tiles / rate
    # half of the rate: the weight comes while the products run
    streamed = 36 * channels * conv.each * 4 / (table.l3_rate / 2)
    transforms = WINOGRAD_TRANSFORM / lanes * 36 * (deep + wide) * tiles
    if not known:
        elements = 36 * channels * conv.each
        transforms += WEIGHT / lanes * elements * (1 if 4 * elements <= target.l2_bytes else 2)
    direct = DIRECT * 9 * channels * conv.each * images * height * width / rate
    # products wait for the weight or hide its coming; the transforms come before and after
    return max(products, streamed) + transforms < GAIN * direct
