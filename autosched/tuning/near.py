"""What was best for computations like the task at hand, as candidates of its space: the same function at
other sizes, in the same file of records. Knows records and variants; nothing of search or measurement.

Like is what has the same steps, whatever their numbers: the sizes they sampled are taken over, the nearest
that are allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorlang as tl

from ..records import Record
from ..records.database import ranked
from ..space import Variant

MOST = 4  # candidates, of the computations that were measured last


def from_near(
    records: Iterable[Record], variants: Sequence[Variant], task: str, target: str
) -> list[tuple[int, Any]]:
    """The fastest schedule of each of the last few computations but ``task``, as variants and rows."""
    groups: dict[str, list[Record]] = {}
    for r in records:
        if r.target == target and r.task != task and r.ok:
            groups.setdefault(r.task, []).append(r)
    shapes = [_shape(v.trace) for v in variants]
    found: dict[tuple[int, bytes], Any] = {}
    for other in sorted(groups, key=lambda k: -groups[k][-1].when):
        best = ranked(groups[other], other, target)[0]
        if not best.start:
            for i, row in _rows(best, variants, shapes):
                found.setdefault((i, row.tobytes()), row)
        if len(found) >= MOST:
            break
    return [(i, row) for (i, _), row in found.items()][:MOST]


def _rows(r: Record, variants: Sequence[Variant], shapes: Sequence[Any]) -> list[tuple[int, Any]]:
    """The candidate nearest to a record, where one is near and allowed."""
    try:
        trace = r.trace()
    except tl.ScheduleError:
        return []
    for i, v in enumerate(variants):
        if shapes[i] == _shape(trace):
            row = v.adopt(trace.decisions)
            return [(i, row)] if v.valid(row[None, :])[0] else []
    return []


def _shape(trace: tl.Trace) -> tuple[tuple[str, str], ...]:
    """The steps of a trace but for their numbers."""
    return tuple((p.name, getattr(p, "stage", "")) for p in trace.steps)
