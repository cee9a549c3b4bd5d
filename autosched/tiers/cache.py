"""Specialised code in memory within a budget of bytes. Knows what code costs and when it was used; not what
it computes, nor who is served by it.

An entry is for one shape or for a range of shapes (the box of a tree's leaf). When room is needed, the entry
goes whose age · size / cost is greatest, with the age of LRU-2: the time since the use before the last,
remembered for entries that are gone (O'Neil, O'Neil and Weikum, *The LRU-K page replacement algorithm*,
1993). ``python -m benchmarks.dynamic.eviction`` replays traces under the rules there are; seconds of
compiling over those of the best rule, geometric mean: 1.00 for this one, 1.13 for age · size / (uses · cost),
1.28 for the same with remembered uses, 4.8 for LRU-2 and 5.2 for LRU, which do not know that a tuned kernel
costs a hundred times a compiled one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .serves import Shape

REMEMBERED = 4096  # entries whose last two uses are known


@dataclass(frozen=True)
class Range:
    """All shapes from ``lo`` to ``hi``, both inclusive, dim by dim."""

    lo: Shape
    hi: Shape

    def __contains__(self, shape: Shape) -> bool:
        return len(shape) == len(self.lo) and all(
            a <= x <= b for a, x, b in zip(self.lo, shape, self.hi, strict=True)
        )

    @property
    def size(self) -> int:
        """How many shapes."""
        return math.prod(b - a + 1 for a, b in zip(self.lo, self.hi, strict=True))


Where = Shape | Range


@dataclass(frozen=True)
class Entry:
    """Code for a place: ``module`` of a tier, ``size`` bytes of its own, ``cost`` seconds to make it again,
    ``shared``: memory that other entries may hold too, identity → bytes; ``gain``: seconds of a call by which
    it beat what it was tried against."""

    where: Where
    tier: int
    module: Any
    size: int
    cost: float
    shared: Mapping[int, int] = field(default_factory=dict)
    gain: float = 0.0


class CodeCache:
    """Entries by place and tier. ``bytes`` never exceeds ``budget``; memory that several entries share counts
    once."""

    def __init__(self, budget: int = 64 << 20) -> None:
        self.budget = budget
        self.bytes = 0
        self._entries: dict[tuple[Where, int], Entry] = {}
        self._holders: dict[int, int] = {}  # of shared memory, by identity
        self._begin = math.inf  # of the first use
        self._used: dict[tuple[Where, int], tuple[float, float]] = {}  # the use before the last, and the last

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def find(self, shape: Shape, least: int = 0) -> Entry | None:
        """The code for a shape: the highest tier, at least ``least``; of one tier that for the shape itself,
        else that of the smallest range."""
        fitting = [
            e
            for (where, tier), e in self._entries.items()
            if tier >= least and (where == shape or (isinstance(where, Range) and shape in where))
        ]
        return max(fitting, key=lambda e: (e.tier, -_extent(e.where)), default=None)

    def put(
        self, entry: Entry, now: float, stays: Callable[[Entry], bool] = lambda e: False
    ) -> list[Entry] | None:
        """Take in an entry; those that had to go. None, and nothing changed, when there is no room beside
        those that ``stays`` holds."""
        key = entry.where, entry.tier
        leaving: list[Entry] = [self._entries[key]] if key in self._entries else []
        candidates = sorted(
            (e for e in self if e not in leaving and not stays(e)), key=lambda e: self._worth(e, now)
        )
        # counted anew for each that leaves: what two of them share is free only when both are gone
        while self._after(entry, leaving) > self.budget:
            if not candidates:
                return None
            leaving.append(candidates.pop(0))
        for e in leaving:
            self._remove(e)
        self._entries[key] = entry
        self.bytes += entry.size
        for identity, size in entry.shared.items():
            held = self._holders[identity] = self._holders.get(identity, 0) + 1
            self.bytes += size if held == 1 else 0
        self.used(entry, now)
        return [e for e in leaving if (e.where, e.tier) != key]

    def drop(self, entry: Entry) -> None:
        """Let go of an entry."""
        if self._entries.get((entry.where, entry.tier)) is entry:
            self._remove(entry)

    def used(self, entry: Entry, now: float, times: int = 1) -> None:
        """The entry has been called so often just now."""
        key = entry.where, entry.tier
        self._begin = min(self._begin, now)
        # taken out and put in again, so that the first key is the one that was not used for longest
        _, last = self._used.pop(key, (-math.inf, -math.inf))
        self._used[key] = (now if times > 1 else last), now
        if len(self._used) > REMEMBERED:
            del self._used[next(iter(self._used))]

    def _worth(self, e: Entry, now: float) -> tuple[float, float]:
        """The least worthy goes first: by cost for each byte and second of age; ties (used once only) by the
        last use."""
        before, last = self._used.get((e.where, e.tier), (-math.inf, -math.inf))
        # used once: older than whatever was used twice
        age = now - before if before > -math.inf else 2 * (now - self._begin)
        return e.cost / (max(age, 1e-9) * max(e.size, 1)), last

    def _after(self, entry: Entry, leaving: Iterable[Entry]) -> int:
        """Bytes with the entry and without those that leave."""
        holders = dict(self._holders)
        sizes = dict(entry.shared)
        total = self.bytes + entry.size
        for e in leaving:
            total -= e.size
            for identity, size in e.shared.items():
                holders[identity] -= 1
                total -= 0 if holders[identity] else size
        return total + sum(size for identity, size in sizes.items() if not holders.get(identity))

    def _remove(self, e: Entry) -> None:
        del self._entries[e.where, e.tier]
        self.bytes -= e.size
        for identity, size in e.shared.items():
            self._holders[identity] -= 1
            if not self._holders[identity]:
                del self._holders[identity]
                self.bytes -= size


def _extent(where: Where) -> int:
    return where.size if isinstance(where, Range) else 0
