"""Whether a stage is a convolution by 3×3 kernels, of images or of the planes of a volume, that minimal
filtering can compute, and which of its axes are what. Knows the state; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr.nodes import const_int
from ...te.axis import IterVar
from ...te.products import Windows, factors_of, windows_of
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, TensorRead

TAPS = 3


@dataclass(frozen=True, slots=True)
class Filter:
    """``data`` and ``weight`` as they are read; the axes by their roles. ``places`` are height and width,
    each with its tap and what is added to both in the index of ``data``; ``deep`` is the same along the depth
    of a volume, with any number of taps."""

    data: TensorRead
    weight: TensorRead
    batch: tuple[IterVar, ...]
    places: tuple[tuple[IterVar, IterVar, int], ...]
    outputs: IterVar
    channels: IterVar
    deep: tuple[IterVar, IterVar, int] | None = None


def filter_of(op: ComputeOp) -> Filter | str:
    """The convolution by 3×3 kernels that an operation computes, its axes by their roles; or, as text, why it
    is none that minimal filtering can compute."""
    first = op.body[0] if len(op.body) == 1 else None
    if not isinstance(first, Reduce) or first.reducer.kind != "add" or first.init is not None:
        return "it is not a plain sum"
    # in 16 bits the transforms lose what the sums hold; integers cannot hold their fractions
    if first.dtype.name not in ("float32", "float64"):
        return f"it sums {first.dtype}, and the transforms are for float32 and float64"
    if first.condition is not None:
        return "its sum has a condition"
    reads = factors_of(op)
    if reads is None:
        return "what it sums is not the product of an element of one tensor and one of another"
    if any(iv.dom is None or const_int(iv.dom[0]) != 0 for iv in op.reduce_axis):
        return "a reduction axis does not begin at 0"
    # asked last: the other answers are plainer
    windows = windows_of(op)
    found = None if windows is None else _in_roles(op, windows, *reads)
    none = "it is not a convolution by 3×3 kernels of stride 1, in one group, of a known number of channels"
    return none if found is None else found


def _in_roles(op: ComputeOp, w: Windows, *reads: TensorRead) -> Filter | None:
    """The axes by their roles, whatever the order of dimensions is; None where it is another convolution."""
    places, channels, batch = [], [], []
    for m in w.moved:
        if m.added is None or m.stride != (m.axis is not None) or m.dilation != (m.tap is not None):
            return None
        if m.axis is not None and m.tap is not None:
            places.append((m.axis, m.tap, m.added))
        elif m.added and (m.axis is not None or m.tap is not None):
            return None
        elif m.axis is not None:
            batch.append(m.axis)
        elif m.tap is not None:
            channels.append(m.tap)
    if len(places) not in (2, 3) or len(channels) != 1:
        return None
    summed = {*channels, *(tap for _, tap, _ in places)}
    used = [*batch, w.outputs, *(axis for axis, _, _ in places)]
    apart = len(set(used)) == len(used) and len(summed) == len(op.reduce_axis) == 1 + len(places)
    whole = len(w.at) == 2 + len(places) and w.weight_axes.keys() == {*summed, w.outputs}
    deep = places.pop(0) if len(places) == 3 else None
    idle = all(const_int(a.extent) == 1 for a in op.axis if a not in set(used))
    none = any(const_int(axis.extent) == 0 for axis, _, _ in places) or not const_int(channels[0].extent)
    if not (apart and whole and idle) or none or any(const_int(tap.extent) != TAPS for _, tap, _ in places):
        return None
    if deep is not None and not const_int(deep[1].extent):
        return None
    # reads as they stand in the sum, which indices tell apart: both may be of one tensor
    data, weight = reads if reads[1].indices is w.at else reads[::-1]
    return Filter(data, weight, tuple(batch), tuple(places), w.outputs, channels[0], deep)
