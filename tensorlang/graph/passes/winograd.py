"""Convolutions by 3×3 kernels with fewer multiplications, where that takes less time
(``ops.conv2d_winograd``, ``ops.conv3d_winograd``). Which of a node's inputs are image and weight, and how
wide the padding is, follows from its te.

Rounding moves: on the layers of ResNet-50, F(4×4, 3×3) is within 2e-5 of the largest output, F(2×2, 3×3) and
a direct sum within 3e-6; ``without=["winograd"]`` is the switch. float32, and float16, which is summed in
float32 either way and rounded once.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...analysis import FilterSizes, Margin, conv_of, outputs_at_once, window_of
from ...target import Target
from ...te import Tensor
from ..graph import Node, Program, Value
from .rewrite import exchanged, single
from .windows import margin_of, sum_of

KINDS = ("float32", "float16")


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


def winograd(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Margin,
    tile: int,
    dilation: tuple[int, ...] | int = 1,
) -> Tensor:
    """A convolution of [N, C, H, W] by [O, C, 3, 3], or of [N, C, D, H, W] by [O, C, KD, 3, 3]."""
    way = ops.conv2d_winograd if x.ndim == 4 else ops.conv3d_winograd
    return way(x, weight, bias, padding=padding, tile=tile, dilation=dilation)  # type: ignore[no-any-return]


def _found(n: Node, target: Target) -> tuple[list[Value | None], dict[str, Any]] | None:
    """The inputs and attributes of the same convolution by fewer multiplications, None where it is none, or
    does not gain."""
    values = {v.tensor: v for v in n.reads}
    kind = n.results[0].dtype
    found = sum_of(n, rounded=True) if kind.name in KINDS else None
    if found is None or found.along not in (None, 1):
        return None
    window, conv = window_of(found.total, widened=True), conv_of(found.total)
    if window is None or conv is None or window.weight not in values:
        return None
    weight, bias = values[window.weight], found.bias
    images = [v for v in n.reads if v not in (weight, bias)]
    if len(images) != 1 or any(v.dtype is not kind for v in (*images, weight)):
        return None
    padding = margin_of(window.data, images[0])
    sizes = None if padding is None else FilterSizes.of_window(window, conv, padding)
    if sizes is None:
        return None
    tile = outputs_at_once(sizes, weight.data is not None, target)
    if tile is None:
        return None
    apart = {"dilation": window.dilation} if max(window.dilation) > 1 else {}
    return [images[0], weight, bias], {"padding": padding, "tile": tile, **apart}
