"""Which other computation takes the place of a convolution; most want a weight known ahead of a call."""

from __future__ import annotations

from collections.abc import Sequence

from ..target import Target
from ..te import ComputeOp, Tensor
from .by_tap import by_tap
from .minimal_filtering import fewer_multiplications
from .within_image import within_image


def another_way(op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """The computation that takes the least time for ``op``; None where that is its own."""
    for way in (fewer_multiplications, by_tap, within_image):
        made = way(op, target, constants)
        if made is not None:
            return made
    return None
