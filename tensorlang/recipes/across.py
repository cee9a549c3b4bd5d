"""Operands that lie across the vectors of a register tile, or of sums along memory: a copy in which
neighbours along the vector are neighbours in memory. So are weights of [O, I, H, W] where images have their
channels last: vectors of outputs read one element of each, which are as far apart as a whole filter. Uses
public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import reads_of, step, typical
from ..schedule import Schedule, Stage
from ..te import Expr, IterVar, Tensor
from .common import is_known

AGAIN = 16  # times that each element is read, from which a copy in the call pays


def lying_across(
    inside: Stage, constants: Sequence[Tensor], along: IterVar | None = None
) -> tuple[Tensor, int] | None:
    """The operand of the reduction ``inside`` that alone keeps vectors of it from reading along memory, with
    the dimension of their axis in it: of ``along``, the last axis unless given. None where there is none, or
    where few elements read it again."""
    last = inside.op.axis[-1] if along is None else along
    others = [a for a in inside.op.axis if a is not last]
    apart = [
        (tensor, [step(i, last) for i in at], at)
        for tensor, at in reads_of(inside.op).plain
        if any(step(i, last) != 0 for i in at) and not moves_along(at, last)
    ]
    if len(apart) != 1:
        return None
    tensor, steps, at = apart[0]
    moved = [d for d, n in enumerate(steps) if n != 0]
    if len(moved) != 1 or at[moved[0]] is not last.var:
        return None
    again = math.prod(typical(a.extent, 64) for a in others if all(step(i, a) == 0 for i in at))
    return (tensor, moved[0]) if again >= AGAIN or is_known(tensor, constants) else None


def laid_along(s: Schedule, inside: Stage, tensor: Tensor, d: int) -> Stage:
    """The stage of a copy of the operand whose dimension ``d`` is the last."""
    copy = s[s.cache_read(tensor, "global", [inside.name])]
    copy.transform_layout(lambda *at: [*at[:d], *at[d + 1 :], at[d]])
    return copy


def moves_along(at: Sequence[Expr], axis: IterVar) -> bool:
    """Whether a read at these indices moves by one element as ``axis`` advances."""
    return step(at[-1], axis) == 1 and all(step(i, axis) == 0 for i in at[:-1])
