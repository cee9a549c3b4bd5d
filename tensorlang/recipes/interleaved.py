"""Elements that are computed in two to four ways in turn: those of each way in vectors of their own, put in
order in registers. Pairs that are turned are such, complex numbers, and arrays that are stacked along the
last axis. Uses public primitives only.

A vector along memory computes all ways for each element, of what it gathers under a mask. Measured (Zen 4,
one thread): rotary embeddings of pairs take 0.04 of the time, two arrays of 500 × 300 interleaved 0.12,
products of complex numbers 0.5.
"""

from __future__ import annotations

from typing import Any

from ..analysis import typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import in_registers, share_out, size, stream_stores, work

OPEN = 16  # elements that an open number of pairs counts as


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
