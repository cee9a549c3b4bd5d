"""Convolutions with their margin, as a te says them, for who puts another computation in their place: only
what it would read at the same places counts, taps in the order of the weight, none reversed, none shifted.
Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Const
from ..expr.walk import preorder
from .patterns import constant, reads_of, step
from .products import conv_of, factors_of, windows_of
from .tensor import ComputeOp, Tensor

Margin = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Window:
    """A convolution of ``[N, C, *places]`` by ``[O, I, *taps]``, ``data`` with its margin."""

    data: Tensor
    weight: Tensor
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def window_of(op: ComputeOp, widened: bool = False) -> Window | None:
    """The convolution that a sum is, of any number of places, open ones too; None for another. ``widened``:
    also one whose elements are made wider before they are multiplied, as halves are."""
    w, conv = windows_of(op), conv_of(op)
    if (
        w is None
        or factors_of(op, widened) is None
        or w.data is w.weight
        or not 3 <= len(op.axis) == len(w.at) == len(w.place)
    ):
        return None
    n, o, *spatial = op.axis
    if w.outputs is not o or w.place[0] is not n.var or w.at[0] is not o.var or not constant(o.extent):
        return None
    groups, channels = constant(o.extent) or 1, None
    if conv is not None:
        groups, channels = conv.groups, conv.channels
    elif w.place[1] is not o.var:  # not each channel by itself either
        return None
    if constant(w.at[1]) != 0 and (channels is None or w.at[1] is not channels.var):
        return None
    ones = {t.var for t in op.reduce_axis if constant(t.extent) == 1}
    strides, dilation = list[int](), list[int]()
    for a, m, i in zip(spatial, w.moved[2:], w.at[2:], strict=True):
        if m.axis is not a or m.stride < 1 or m.added != 0:
            return None
        if m.tap is None or m.tap.var in ones:
            apart = 1 if constant(i) == 0 or i in ones else 0
        else:
            apart = m.dilation if i is m.tap.var else 0
        if apart < 1:
            return None
        strides.append(m.stride)
        dilation.append(apart)
    return Window(w.data, w.weight, tuple(strides), tuple(dilation), groups)


def margin_of(data: Tensor, image: Tensor) -> Margin | None:
    """Zeros in front and behind along each place of the image in ``data``, which is the image itself or an
    operator that pads; None where it pads something else, or otherwise."""
    if data is image:
        return ((0, 0),) * (data.ndim - 2)
    op = data.op
    reads = reads_of(op).plain if isinstance(op, ComputeOp) else ()
    if len(reads) != 1 or reads[0][0] is not image or image.ndim != data.ndim:
        return None
    if any(isinstance(e, Const) and e.dtype.is_float and e.value for e in preorder(op.body[0])):
        return None  # a margin of another value
    margin = []
    for i, a, n, whole in zip(reads[0][1], op.axis, image.shape, data.shape, strict=True):
        before, more = -poly(i).get((), 0), constant(make.sub(make.as_expr(whole), n))
        if step(i, a) != 1 or more is None:
            return None
        margin.append((before, more - before))
    return tuple(margin[2:]) if margin[:2] == [(0, 0), (0, 0)] else None
