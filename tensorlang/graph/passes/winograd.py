"""Convolutions by 3×3 kernels with fewer multiplications, where that takes less time
(``ops.conv2d_winograd``). Which of a node's inputs are image and weight, and how wide the padding is, follows
from its te.

Larger tiles take fewer multiplications and a larger weight: of few pixels, whose weight comes from memory,
smaller ones are faster. Rounding moves: on the layers of ResNet-50, F(4×4, 3×3) is within 2e-5 of the largest
output, F(2×2, 3×3) and a direct sum within 3e-6; ``without=["winograd"]`` is the switch. float32 only. An
image of open height or width is taken for one of 64 × 64: measured (Zen 4), the layers of a detector of 32 to
128 channels took 1.0 to 2.6 times as long by direct sums at 10 × 10 to 40 × 40.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...analysis import SIDE, WINOGRAD_TRANSFORM, Conv, constant, conv_of, cost_of, typical
from ...target import Target
from ...te import Tensor
from ..graph import Node, Program, Value
from .rewrite import exchanged, single
from .windows import Margin, Window, margin_of, sum_of, window_of

# cycles for a vector of elements of a weight's transform, and twice as many beyond the second cache. Measured
# (Emerald Rapids) at 64 × 64 and 256 × 256
WEIGHT = 33
GAIN = 0.85  # of the time of a direct sum, at most
DIRECT = 1.15  # times the multiply-adds take with what is around them
TILES = (2, 4)  # of outputs, in each direction
# times a weight takes that is requested beside the sums, and not hidden by them, of what the third cache
# brings. Measured (Granite Rapids), 20 convolutions of 7 × 7 to 56 × 56 whose weights come in turn, on one
# and two threads: with it the choice takes 1.01 times as long as the best of direct sums and both tiles
FAR_WEIGHT = 1.5


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
    values = {v.tensor: v for v in n.reads}
    found = sum_of(n) if n.results[0].dtype == "float32" else None
    if found is None or found.along not in (None, 1):
        return None
    window, conv = window_of(found.total), conv_of(found.total)
    if window is None or conv is None or window.weight not in values or not _three_by_three(window, conv):
        return None
    weight, bias = values[window.weight], found.bias
    images = [v for v in n.reads if v not in (weight, bias)]
    if len(images) != 1 or any(v.dtype != "float32" for v in (*images, weight)):
        return None
    padding = margin_of(window.data, images[0])
    tile = None if padding is None else _best(conv, weight.data is not None, target)
    return None if tile is None else ([images[0], weight, bias], {"padding": padding, "tile": tile})


def _three_by_three(window: Window, conv: Conv) -> bool:
    """Whether it is a convolution in one group by 3×3 taps beside each other, at every place."""
    if window.groups != 1 or len(window.strides) != 2:
        return False
    taps = [constant(t.extent) for t in conv.taps]
    return taps == [3, 3] and max(*window.strides, *window.dilation) == 1


def _best(conv: Conv, known: bool, target: Target) -> int | None:
    """The tile that takes the least time; None where the direct sum takes less, or little more."""
    channels, lanes = constant(conv.channels.extent) or 1, target.vector_lanes("float32")
    height, width = _image(conv)
    sums = 9 * channels * conv.each * (conv.images or 1) * height * width
    direct = DIRECT * sums / (cost_of(target).per_cycle * lanes)
    times = {tile: _time(conv, tile, known, target) for tile in TILES}
    best = min(TILES, key=lambda tile: times[tile])
    return best if times[best] < GAIN * direct else None


def _image(conv: Conv) -> list[int]:
    """Height and width of the result; what is open is typical."""
    return [typical(a.extent, SIDE) for a in conv.spatial]


def _time(conv: Conv, tile: int, known: bool, target: Target) -> float:
    """Cycles with tiles of so many outputs in each direction. The transformed weight, (tile + 2)² / 9 times
    as large, comes from memory; one that is not ``known`` is transformed in each call."""
    table, lanes = cost_of(target), target.vector_lanes("float32")
    channels, (height, width) = constant(conv.channels.extent) or 1, _image(conv)
    points, elements = (tile + 2) ** 2, (tile + 2) ** 2 * channels * conv.each
    tiles = (conv.images or 1) * -(-height // tile) * -(-width // tile)
    wide, deep = (-(-n // lanes) * lanes for n in (conv.each, channels))  # lanes are channels
    # a product for each point of a tile, where a direct sum has 9 for each output
    products = DIRECT * points * channels * wide * tiles / (table.per_cycle * lanes)
    transforms = WINOGRAD_TRANSFORM / lanes * points * (deep + wide) * tiles
    if not known:
        transforms += WEIGHT / lanes * elements * (1 if 4 * elements <= target.l2_bytes else 2)
    return products + transforms + FAR_WEIGHT * 4 * elements / table.l3_rate
