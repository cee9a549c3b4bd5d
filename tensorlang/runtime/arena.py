"""Where the intermediate values of a run lie in one arena. Plain numbers; knows nothing else.

Offsets are found greedily, the largest first, each at the lowest place that is free while it lives (Pisarchyk
and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5.2: greedy by size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LINE = 64  # bytes; each value begins on a cache line


class Life(NamedTuple):
    """``size`` bytes that are needed from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int


def rounded(n: int) -> int:
    """Bytes rounded up to whole cache lines."""
    return -(-n // LINE) * LINE


def place(
    lives: Sequence[Life], inside: Mapping[int, tuple[int, int]] | None = None
) -> tuple[list[int], int]:
    """The offset of each, and the size of the arena. ``inside`` has those that lie within another one: its
    number, and the bytes before them in it."""
    if inside:
        own = [i for i in range(len(lives)) if i not in inside]
        found, total = place([lives[i] for i in own])
        places = dict(zip(own, found, strict=True))
        places |= {i: places[whole] + before for i, (whole, before) in inside.items()}
        return [places[i] for i in range(len(lives))], total
    order = sorted(range(len(lives)), key=lambda i: (-lives[i].size, lives[i].first))
    offsets = [0] * len(lives)
    placed: list[int] = []  # in order of their offsets
    total = 0
    for i in order:
        size = rounded(lives[i].size)
        at = 0
        best: tuple[int, int] | None = None  # (waste, offset) of the tightest gap
        for j in placed:
            if lives[j].last < lives[i].first or lives[i].last < lives[j].first:
                continue
            if offsets[j] - at >= size and (best is None or offsets[j] - at - size < best[0]):
                best = (offsets[j] - at - size, at)
            at = max(at, offsets[j] + rounded(lives[j].size))
        offsets[i] = at if best is None else best[1]
        total = max(total, offsets[i] + size)
        low = next((k for k, j in enumerate(placed) if offsets[j] > offsets[i]), len(placed))
        placed.insert(low, i)
    return offsets, total


def bound(lives: Sequence[Life]) -> int:
    """The largest sum of bytes that live at once: no arena is smaller."""
    changes: dict[int, int] = {}
    for life in lives:
        changes[life.first] = changes.get(life.first, 0) + rounded(life.size)
        changes[life.last + 1] = changes.get(life.last + 1, 0) - rounded(life.size)
    most = now = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most
