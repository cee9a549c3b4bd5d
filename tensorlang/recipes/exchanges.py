"""Which other computation takes the place of a convolution whose weight is known ahead of a call."""

from __future__ import annotations

from collections.abc import Sequence

from ..target import Target
from ..te import ComputeOp, Tensor
from .by_tap import by_tap
from .minimal_filtering import fewer_multiplications


def another_way(op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """The computation that takes the least time for ``op``; None where that is its own."""
    filtered = fewer_multiplications(op, target, constants)
    return by_tap(op, target, constants) if filtered is None else filtered
