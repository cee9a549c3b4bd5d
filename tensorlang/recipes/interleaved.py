"""Elements that are computed in two to four ways in turn: those of each way in vectors of their own, put in
order in registers. Pairs that are turned are such, complex numbers, and arrays that are stacked along the
last axis. Uses public primitives only.

A vector along memory computes all ways for each element, of what it gathers under a mask. Measured (Zen 4,
one thread): rotary embeddings of pairs take 0.04 of the time, two arrays of 500 × 300 interleaved 0.12,
products of complex numbers 0.5. Planes of which each is a way likewise, as of channels that come last: three
of 480 × 640 floats with a bias 0.52, made bytes 0.2 (AVX2 0.34), of bytes 0.14, two of 20,000 numbers 0.3 to
0.55.
"""

from __future__ import annotations

from typing import Any

from ..analysis import planes_of, reads_of, step, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import in_registers, share_out, size, stream_stores, work

LONG = 3  # vectors of a row that leaves a rest
OPEN = 16  # elements that an open number of pairs counts as


def planes(stage: Stage, target: Target) -> int | None:
    """Planes that the elements of a stage are read from in turn, whose rows are whole vectors, or at least
    three: a rest under a mask is dear. Measured (Zen 4): rows of 57 and 50 floats 0.87 and 0.31 of
    the time, of 7 1.2, of 5 3; of 57 and 50 bytes 2.4 and 1.7, of 100 1.3."""
    n = planes_of(stage.op)
    return n if n is not None and _whole(stage, target) else None


def _whole(stage: Stage, target: Target) -> bool:
    row, lanes = size(stage.op.axis[-2]), target.vector_lanes(stage.op.body[0].dtype)
    return row is None or row % lanes == 0 or row >= LONG * lanes


def in_whole_vectors(stage: Stage, target: Target) -> bool:
    """Whether all that is read lies along the axis before the last one, in rows as those of planes."""
    row = stage.op.axis[-2]
    return _whole(stage, target) and all(at and step(at[-1], row) == 1 for _, at in reads_of(stage.op).plain)


def apply(s: Schedule, out: Stage, ways: int, target: Target) -> None:
    """Compute a vector of each way, and write all of them in order."""
    iterations = work(out)
    *_, before, last = out.op.axis
    run = size(last) if size(last) != ways else (size(before) or 0) * ways
    *front, outer = in_order(s, out, ways, target)
    several = any(size(a) != 1 for a in front)
    shared = share_out(out, front if several else [*front, outer], iterations, target)
    if shared is not None:
        stream_stores(out, shared, target, run)


def in_order(s: Schedule, out: Stage, ways: int, target: Target, tail: str = "auto") -> list[IterVar]:
    """The same within the loops that this gives back, of which none is shared out. ``tail`` is that of
    ``split``."""
    inside = s[s.cache_write(out.name, "local")]
    *front, last = out.op.axis
    own = size(last) == ways  # the ways have an axis
    each = typical(front[-1].extent, OPEN) if own else (size(last) or 0) // ways
    lanes = min(target.vector_lanes(out.op.body[0].dtype), 1 << each.bit_length() - 1)

    def apart(*at: Any) -> list[Any]:
        return [*at[:-2], at[-1], at[-2]] if own else [*at[:-1], at[-1] % ways, at[-1] // ways]

    inside.transform_layout(apart)
    if own:
        outer, inner = out.split(front.pop(), lanes, tail=tail)
        lane = out.fuse(inner, last)
    else:
        outer, lane = out.split(last, ways * lanes, tail=tail)
    out.vectorize(lane)
    inside.compute_at(out, outer)
    in_registers(s, inside)
    *_, way, element = inside.op.axis
    inside.unroll(way)
    inside.vectorize(element)
    return [*front, outer]
