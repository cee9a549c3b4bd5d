"""What the windows of a reduction read in a stage of its own: an image with its margin, elements at places
that are no sums. Knows the forms of margins and of places; nothing of schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from .exchange import Exchanged, exchanged
from .margins import margin_apart
from .places import place_apart
from .tensor import ComputeOp, Tensor


def window_apart(op: ComputeOp) -> Tensor | None:
    """What may take the place of a reduction over windows, one of the tensors that it reads in a stage before
    it; None where there is none, or nothing is gained."""
    made = margin_apart(op)
    return place_apart(op) if made is None else made


def windows_apart(outputs: Sequence[Tensor]) -> Exchanged:
    """The computation of ``outputs`` with a stage for each tensor that windows read so."""

    def all_of(op: ComputeOp) -> Tensor | None:
        made, new = None, window_apart(op)
        while new is not None:
            made = new
            new = window_apart(made.op)  # type: ignore[arg-type]  # of a compute, as all that comes apart
        return made

    return exchanged(outputs, all_of)
