"""Operands that lie across the vectors of a register tile, or of sums along memory: a copy in which
neighbours along the vector are neighbours in memory. So are weights of [O, I, H, W] where images have their
channels last: vectors of outputs read one element of each, which are as far apart as a whole filter. Uses
public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import constant, reads_of, step, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Expr, IterVar, Tensor
from .common import is_known

AGAIN = 16  # times that each element is read, from which a copy in the call pays
# cycles of a vector of results, of one under a mask, of an addition that is waited for; and how much less
# vectors of results have to take, for a copy is made for them
WHOLE, MASKED, ADDITION, LESS = 1.2, 2.5, 4, 0.85
MOST = 3  # operands that are copied for one reduction


def lying_across(
    inside: Stage, constants: Sequence[Tensor], along: IterVar | None = None
) -> list[tuple[Tensor, int]]:
    """The operands of the reduction ``inside`` that alone keep vectors of it from reading along memory, each
    with the dimension of their axis in it: of ``along``, the last axis unless given. Empty where there are
    none, or one that cannot be copied, or of which few elements are read again.

    Measured (Zen 4, one thread, AVX2 in brackets): distances with a mean and a variance of each of k centres,
    two operands, take 0.24 to 0.68 (0.26 to 1.0) of the time, of 8 to 64 centres and 3 to 400 dimensions.
    """
    last = inside.op.axis[-1] if along is None else along
    others = [a for a in inside.op.axis if a is not last]
    found: dict[Tensor, int] = {}
    for tensor, at in reads_of(inside.op).plain:
        moved = [d for d, i in enumerate(at) if step(i, last) != 0]
        if not moved or moves_along(at, last):
            continue
        again = math.prod(typical(a.extent, 64) for a in others if all(step(i, a) == 0 for i in at))
        if len(moved) != 1 or at[moved[0]] is not last.var or found.get(tensor, moved[0]) != moved[0]:
            return []
        if again < AGAIN and not is_known(tensor, constants):
            return []
        found[tensor] = moved[0]
    return list(found.items()) if len(found) <= MOST else []


def few_and_deep(inside: Stage, target: Target) -> bool:
    """Whether neighbouring results are so few, and their sums so long, that each result by itself, in vectors
    along memory, takes less time than vectors of results that are mostly empty. Cycles are those of a Zen 4:
    a sum along memory waits for each addition, and ends with its lanes added up; a vector under a mask takes
    twice as long.

    Measured (Zen 4, one thread, AVX2 in brackets): vectors of 5 results of 48 terms take 1.7 (1.5) of the
    time of sums, of 7 of 100 terms 1.5, of 2 of 200 2.4; of 5 of 3 terms 0.29, of 6 of 20 0.67 (0.9), of 12
    of 400 0.68 (0.8).
    """
    last, reduced, reads = inside.op.axis[-1], inside.op.reduce_axis, reads_of(inside.op)
    n = constant(last.extent)
    if n is None or not reads.along(reduced[-1]) or any(moves_along(at, last) for _, at in reads.plain):
        return False
    deep, lanes = [typical(a.extent, 64) for a in reduced], target.vector_lanes(inside.op.body[0].dtype)
    whole = n % lanes == 0 or (n < lanes and n > 2 and n.bit_count() == 1)
    results = math.prod(deep) * -(-n // lanes) * (WHOLE if whole else MASKED)
    return results > LESS * n * (math.prod(deep[:-1]) * -(-deep[-1] // lanes) + 1) * ADDITION


def laid_along(s: Schedule, inside: Stage, tensor: Tensor, d: int) -> Stage:
    """The stage of a copy of the operand whose dimension ``d`` is the last."""
    copy = s[s.cache_read(tensor, "global", [inside.name])]
    copy.transform_layout(lambda *at: [*at[:d], *at[d + 1 :], at[d]])
    return copy


def moves_along(at: Sequence[Expr], axis: IterVar, steps: Sequence[int] = (1,)) -> bool:
    """Whether a read at these indices moves by one element as ``axis`` advances, or by one of the ``steps``;
    that of a number, which has none, does not."""
    return bool(at) and step(at[-1], axis) in steps and all(step(i, axis) == 0 for i in at[:-1])
