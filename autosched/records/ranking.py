"""Which of several measured schedules is the fastest. Knows records.

Machines drift: where a hypervisor puts two processors, or what others do, changes a kernel's time by a third
within seconds, so times that were taken apart cannot be compared to a few percent. What was measured in turns
with the schedule that the search began with is judged by the ratios within the rounds, and by them alone: the
lucky moment in which a candidate was first seen is forgotten.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..statuses import WRONG_ANSWER
from .record import LOOKING, SHARED, WORTH, Record, median_interval

ENOUGH = 3  # turns on processors that are cores, after which the others do not count


def ranked(records: Iterable[Record], task: str, target: str) -> list[Record]:
    """The right records of a task on a target, fastest first, one for each trace; one that ever gave a wrong
    answer is not right.

    Several measurements of one trace count together: the median of all times; in turns with the schedule the
    search began with, the median of its ratios to that. That schedule stands ahead of those that do not beat
    it clearly: by ``WORTH``, and with 95 % confidence; where it was measured in turns, of all that were not
    measured beside it too.
    """
    mine = [r for r in records if r.task == task and r.target == target]
    wrong = {r.identity for r in mine if r.status == WRONG_ANSWER}
    several: dict[tuple[object, ...], list[Record]] = {}
    for r in mine:
        if r.ok and r.identity not in wrong:
            several.setdefault(r.identity, []).append(r)
    start = next((same for same in several.values() if any(r.start for r in same)), None)
    if start is None:
        return sorted(map(_together, several.values()), key=lambda r: r.cost)
    rounds = {r.turn: r for r in start if r.turn}
    later = counted(rounds)
    begun = replace(
        _together([r for r in start if r.turn in later] or [r for r in start if r.turn] or start), start=True
    )
    placed = [_placed(same, begun, rounds, later) for same in several.values() if same is not start]
    return [r for _, r in sorted([(0, begun), *placed], key=lambda p: (p[0], p[1].cost))]


def counted(turns: Iterable[str]) -> Sequence[str]:
    """Those by which a gain is known: not the turns that chose who was measured further, which flatter
    whoever they chose, nor those in which processors shared a core, where there are enough others."""
    later = [turn for turn in turns if not turn.endswith(LOOKING)]
    return _alone(later)


def _alone(turns: Sequence[str]) -> Sequence[str]:
    """Those on processors that were cores; all where these are too few."""
    alone = [turn for turn in turns if SHARED not in turn]
    return alone if len(alone) >= ENOUGH else turns


def _together(same: Sequence[Record]) -> Record:
    return replace(same[0], times=tuple(t for r in same for t in r.times))


def _placed(
    same: Sequence[Record], start: Record, rounds: Mapping[str, Record], later: Sequence[str]
) -> tuple[int, Record]:
    """The measurements of a trace as one record, and whether it stands ahead of the start (0), or behind it,
    measured beside it (1) or not (2)."""
    after = [r for r in same if r.turn in later]
    before = _alone([r.turn for r in same if r.turn in rounds])
    counts = [r for r in same if r.turn in (later if len(after) > 1 else before)]
    ratios = [_ratio(r, rounds[r.turn]) for r in counts]
    if ratios:
        clearly = len(ratios) > 1 and statistics.median(ratios) < WORTH and median_interval(ratios)[1] < 1
        left_behind = len(later) > 1 and len(after) < 2
        place = 0 if clearly and not left_behind else 1
        return place, replace(same[0], times=tuple(x * start.cost for x in ratios))
    one = _together(same)
    clearly = not rounds and one.cost < WORTH * start.cost and one.interval[1] < start.interval[0]
    return (0 if clearly else 2), one


def _ratio(r: Record, start: Record) -> float:
    """How many times as long as the start it took in a turn: where both have as many times, these were taken
    one after the other, and what slowed both down at once counts for neither."""
    if len(r.times) != len(start.times):
        return r.cost / start.cost
    return statistics.median(a / b for a, b in zip(r.times, start.times, strict=True))
