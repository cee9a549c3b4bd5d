"""Vectors of a row that are written out: few of them, and those whose lanes read places that are numbers
then. Uses public primitives only.
"""

from __future__ import annotations

import math

from ..analysis import has_calls, operations, uneven_along
from ..schedule import Stage
from ..te import IterVar
from .common import size

# vectors of a row that are written out where the places of their lanes are numbers then, so that each reads
# its neighbourhood at once and puts it in order, and what is made of the place is a constant
MOST_KNOWN = 128
MOST_OPEN = 8  # the same of an open row, which has an end of its own for each
NARROW = 4  # bytes of an element, below which none is picked from a register by a place that is computed
# vectors of a row that are written out where an element takes no more than a few operations: a processor
# looks as many instructions ahead as it can, and without those of a loop they are of more rows. Measured (Zen
# 4, one thread): rows of 33 and 65 doubles in another order 0.6 to 0.8 of the time, gathered 0.7, flipped 0.6
# to 0.95, a bias of 33 to 129 0.9; padded and joined from memory it would be 1.04 to 1.15
MOST_MOVED, FEW_OPERATIONS = 32, 4


def write_out(stage: Stage, vectors: IterVar, width: int) -> IterVar:
    """Unroll the loop over the vectors of a row: where they are few, or as far as the places that its lanes
    read are numbers then; the loop that is left of it."""
    known = _together(stage, width)
    if known < 2:
        return vectors
    outer, some = stage.split(vectors, known)
    stage.unroll(some)
    return outer


def repeats(stage: Stage, width: int) -> bool:
    """Whether some vectors of a row are written out, after which places repeat: none may begin earlier then,
    to end with the row, for the places of its lanes would be known no longer. Measured (Zen 4, one thread):
    rows of 30,001 bytes, each three times, take 0.11 of the time."""
    n = size(stage.op.axis[-1])
    narrow = stage.op.body[0].dtype.bytes < NARROW  # others are put in order by places that are computed
    return narrow and n is not None and 1 < _together(stage, width) < -(-n // width)


def _together(stage: Stage, width: int) -> int:
    """How many vectors of a row to write out."""
    return _moved_vectors(stage, width) or _known_vectors(stage, width)


def _moved_vectors(stage: Stage, width: int) -> int:
    """The vectors of a row where they are few and hardly more than moved; else 0."""
    n = size(stage.op.axis[-1])
    if n is None or n > MOST_MOVED * width or all(size(a) == 1 for a in stage.op.axis[:-1]):
        return 0
    light = operations(stage.op.body) <= FEW_OPERATIONS and not has_calls(stage.op)
    return -(-n // width) if light else 0


def _known_vectors(stage: Stage, width: int) -> int:
    """How many vectors of a row to write out, so that the places of their lanes are numbers, to a multiple of
    what all lanes move: each reads its neighbourhood at once and puts it in order, and what is made of a
    place is a constant. 0 where places are neighbours, or data, and where too many were to be written.

    Measured (Zen 4, one thread; of AVX2 and SSE the same processor): images resized to 1.5 to 3 times their
    width 0.12 to 0.3 of the time, to a third 0.3 to 0.5.
    """
    last = stage.op.axis[-1]
    n, again = size(last), uneven_along(stage.op, last)
    if again is None:
        return 0
    some = math.lcm(again, width) // width
    if n is None:
        return some if some <= MOST_OPEN else 0
    vectors = -(-n // width)
    return vectors if vectors <= MOST_KNOWN else some if some <= MOST_KNOWN else 0
