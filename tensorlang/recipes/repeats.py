"""Copies that read the same again after some elements of an axis, as those of tensors that are repeated as a
whole do: a loop over what is read again reads it as it lies, with all that is behind it, in one stretch. Uses
public primitives only.

Measured (Zen 5, one thread), an open number of rows twice: 100,003 rows of 3 0.11 of the time, of an open
length 0.13, 3001 × 5 × 3 0.04; 1000 × 1000 of open sizes 0.96.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..analysis import cut_at, open_times, period
from ..schedule import Stage
from ..target import Target
from ..te import IterVar
from .as_one import elements_of, one_stretch
from .common import size
from .lanes import VECTORS

FEW_AGAIN = 16  # elements that are read again: fewer are gathered


class Repeats(NamedTuple):
    """After ``each`` iterations of ``axis`` the stage reads the same again, or somewhere else; all axes
    ``behind`` it are one stretch of memory. Of an open number of them (None), of the last axis, it reads the
    same so many ``times``."""

    axis: IterVar
    each: int | None
    behind: list[IterVar]
    times: int = 0

    @property
    def elements(self) -> int | None:
        """Of the stretch; None for an open number."""
        return None if self.each is None else self.each * math.prod(size(a) or 1 for a in self.behind)


def repeats_of(stage: Stage, target: Target) -> Repeats | None:
    """After how many elements along memory a copy reads the same again, where that is many times: those of
    ``x[j % 500]``; or somewhere else, as in the next row of an image whose pixels have numbers. None where
    a row is a few vectors, of which what is read by each lane is known."""
    axes, lanes = list(stage.op.axis), target.vector_lanes(stage.op.body[0].dtype)
    last = period(stage.op, axes[-1])
    if last is not None and last < lanes and (size(axes[-1]) or 0) <= VECTORS * lanes:
        return None
    for at in range(len(axes) - 1, -1, -1):
        axis, behind = axes[at], axes[at + 1 :]
        times = open_times(stage.op, axis, behind)
        if times is not None and times > 1 and _short(behind, lanes) and _together(stage, behind):
            return Repeats(axis, None, behind, times)
        n, each = size(axis), period(stage.op, axis) or (None if behind else cut_at(stage.op, axis))
        if n is not None and each is not None and 1 < each < n and n % each == 0:
            found = Repeats(axis, each, behind)
            return found if (found.elements or 0) >= FEW_AGAIN and _whole(stage, behind) else None
    return None


def _whole(stage: Stage, behind: list[IterVar]) -> bool:
    """Whether the axes are of known sizes, and whole dimensions, one after the other, of all that is read."""
    return all(size(a) is not None for a in behind) and _together(stage, behind)


def _together(stage: Stage, behind: list[IterVar]) -> bool:
    return len(one_stretch(stage.op, behind)) == len(behind)


def _short(behind: list[IterVar], lanes: int) -> bool:
    """Whether the axes fill no vector, or may not: longer rows are vectors themselves, and of several open
    sizes each place is divided by."""
    each = elements_of(behind)
    return len(behind) == 1 if each is None else each < lanes


def split(stage: Stage, found: Repeats) -> list[IterVar]:
    """The loops of the stage, the last over the stretch."""
    axes = list(stage.op.axis)
    at = axes.index(found.axis)
    if found.each is None:
        again, one = stage.split(found.axis, nparts=found.times)
    else:
        again, one = stage.split(found.axis, found.each)
    return [*axes[:at], again, stage.fuse(one, *found.behind) if found.behind else one]
