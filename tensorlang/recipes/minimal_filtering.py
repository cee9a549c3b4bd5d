"""Convolutions whose weight is known ahead of a call, by fewer multiplications where that takes less time:
another computation (``ops.conv2d_winograd``, ``ops.conv3d_winograd``) in their place, before there is a
schedule. Those whose weight comes with the call, or whose channels are last: by the primitive, within a
schedule, so that who tunes the same sums begins with what is compiled untuned. Chooses by the table of costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..analysis import FilterSizes, Margin, conv_of, filter_of, margin_of, outputs_at_once, window_of
from ..ops import tags
from ..schedule import Schedule
from ..target import Target
from ..te import ComputeOp, Tensor
from .common import is_known, together_of

KINDS = ("float32", "float16", "bfloat16")  # sums of halves are float32, and rounded once either way


def fewer_multiplications(op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """What may take the place of a convolution that gains by minimal filtering; None for all else."""
    if not constants or not op.reduce_axis:
        return None
    window, conv = window_of(op, widened=True), conv_of(op)
    if window is None or conv is None or not is_known(window.weight, constants):
        return None
    kind = window.data.dtype
    if op.outputs[0].dtype != "float32" or kind != window.weight.dtype or kind.name not in KINDS:
        return None
    image, padding = _image(window.data)
    sizes = FilterSizes.of_window(window, conv, padding)
    together = together_of(window.data, window.weight, target) if kind.bits == 16 else 1
    tile = None if sizes is None else outputs_at_once(sizes, True, target, together=together)
    if tile is None:
        return None
    wide = image if kind == "float32" else ops.cast(image, "float32")
    weight = window.weight if kind == "float32" else ops.cast(window.weight, "float32")
    way = ops.conv2d_winograd if len(padding) == 2 else ops.conv3d_winograd
    made: Tensor = way(wide, weight, padding=padding, tile=tile, dilation=window.dilation)
    return made


def filtered_in_place(s: Schedule, target: Target, constants: Sequence[Tensor]) -> bool:
    """Compute convolutions by minimal filtering where that takes less time and nobody has declared them anew:
    whose weight comes with the call, by F(2×2, 3×3), for larger tiles would save more and round otherwise
    than the direct sum; or whose channels are last. Whether there are any."""
    found = False
    for stage in s.stages:
        op = stage.op
        if not isinstance(op, ComputeOp) or not op.reduce_axis or stage.state.attach is not None:
            continue
        f = filter_of(op)
        if isinstance(f, str) or any(
            t.dtype.name != "float32" for t in (op.outputs[0], f.data.tensor, f.weight.tensor)
        ):
            continue
        known = is_known(f.weight.tensor, constants)
        if known and window_of(op) is not None:
            continue
        tile = outputs_at_once(FilterSizes.of_filter(f), known, target, exact=not known)
        if tile is not None and s.can("winograd", stage.name, tile):
            s.winograd(stage.name, tile)
            found = True
    return found


def all_by_block(s: Schedule) -> bool:
    """Whether a default schedule computes each convolution by minimal filtering a block of tiles at a time;
    another would take longer than the direct sum."""
    return all(st.state.attach is not None for st in s.stages if st.op.tag == tags.WINOGRAD_DATA)


def _image(data: Tensor) -> tuple[Tensor, Margin]:
    """The image in front of a margin of zeros, and the margin; of any other ``data``, itself without one."""
    if data.op.tag == tags.PAD:
        (image,) = data.op.input_tensors
        margin = margin_of(data, image)
        if margin is not None:
            return image, margin
    return data, ((0, 0),) * (data.ndim - 2)
