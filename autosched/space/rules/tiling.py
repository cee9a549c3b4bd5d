"""Multi-level tiling of reductions with reuse: with and without a consumer that is computed in the tile, with the operand packed or not.

Ansor's rules 3 to 5 (multi-level tiling, with fusion of the consumer, cache write) and packing, which it lacks. Knows schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, reads_of

from .nest import MAX_TAPS, Form, packable, tile
from .rule import Answer, Where, empty, turns, untouched, ways

SERIAL = 1 << 14  # turns below which one thread does it all, and above four times of which all threads always help
PACKED = 1 << 15  # turns from which a copy of an operand may pay
BLOCKED = 1 << 18  # turns from which a second level of tiles may pay
ROWS = 2  # axes of a register tile besides the column


class CacheWrite:
    """A reduction that nobody reads in its own shape is computed in a local buffer and copied: the copy is the consumer of the next rule."""

    name = "cache write"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """For what will be tiled and has no consumer to be computed in."""
        if not reuses(stage) or consumer(s, stage) is not None or not s.can("cache_write", stage.name):
            return Answer.SKIP
        return Answer.ALWAYS

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Sequence[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t.cache_write(stage.name, "local"))


class Tiling:
    """A reduction is computed in tiles of its consumer, of the forms that make sense for it, likely ones first."""

    name = "multi-level tiling"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """For reductions with reuse that one untouched stage of the same shape reads at its own place."""
        return Answer.APPLY if reuses(stage) and consumer(s, stage) is not None else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Sequence[tl.Schedule]:
        """A schedule for each form."""
        out = consumer(s, stage)
        assert out is not None
        return ways(s, *[partial(_tiled, out.name, stage.name, form, where) for form in forms(stage, where)])


def _tiled(out: str, inside: str, form: Form, where: Where, s: tl.Schedule) -> None:
    tile(s, s[out], s[inside], form, where)


def reuses(stage: tl.Stage) -> bool:
    """Whether a tile of a reduction reads less than its elements do one by one: some axis runs along memory or can be made to."""
    if not untouched(stage) or not stage.op.reduce_axis or not stage.op.axis or empty(stage):
        return False
    return bool(columns(stage))


def columns(stage: tl.Stage) -> list[int]:
    """The axes that can be the vector: the last one when a read runs along it, those of an operand that can be packed when there are rows
    to read the panel again."""
    axes = stage.op.axis
    found = [len(axes) - 1] if _in_lines(stage) and constant(axes[-1].extent) != 1 else []
    for d in reversed(range(len(axes))):
        if d not in found and constant(axes[d].extent) != 1 and packable(stage, axes[d]) is not None and _rows(stage, d):
            found.append(d)
    return found


def _in_lines(stage: tl.Stage) -> bool:
    """Whether some read moves through memory along the last axis (by one, or by the stride of a window), and none jumps from line to line."""
    last = stage.op.axis[-1]
    moving = [read for read in reads_of(stage.op).plain if any(_mentions(i, last) for i in read[1])]
    return bool(moving) and not any(_mentions(i, last) for _, indices in moving for i in indices[:-1])


def _mentions(index: Any, axis: te.IterVar) -> bool:
    return index is axis.var or any(_mentions(part, axis) for part in index.children())


def _rows(stage: tl.Stage, column: int) -> tuple[int, ...]:
    """The axes of the register tile: the innermost ones along which an operand stands still."""
    everywhere, axes = reads_of(stage.op).everywhere, stage.op.axis
    found = [d for d in range(len(axes)) if d != column and constant(axes[d].extent) != 1 and any(axes[d].var not in used for used in everywhere)]
    return tuple(found[-ROWS:])


def consumer(s: tl.Schedule, stage: tl.Stage) -> tl.Stage | None:
    """The one reader of a stage, when it is elementwise, of the same shape, and undecided."""
    if stage.state.is_output:
        return None
    readers = s.state.readers(stage.name)
    if len(readers) != 1:
        return None
    out = s[readers[0].name]
    if not untouched(out) or out.op.reduce_axis or len(out.op.axis) != len(stage.op.axis):
        return None
    place = tuple(a.var for a in out.op.axis)
    same = all(constant(a.extent) == constant(b.extent) for a, b in zip(out.op.axis, stage.op.axis, strict=True))
    at_own = all(indices == place or all(i is v for i, v in zip(indices, place, strict=True))
                 for t, indices in reads_of(out.op).plain if t in stage.op.outputs)
    return out if same and at_own else None


def forms(stage: tl.Stage, where: Where) -> list[Form]:
    """The structures worth trying, likely ones first; at most 16."""
    work, cores = turns(stage), where.target.num_cores
    threads = [False] if cores == 1 or work < SERIAL else [True, False] if work < 4 * SERIAL else [True]
    main = max(stage.op.reduce_axis, key=lambda a: constant(a.extent) or 1 << 20)
    taps = [True, False] if any(a is not main and 1 < (constant(a.extent) or 99) <= MAX_TAPS for a in stage.op.reduce_axis) else [False]
    found: list[Form] = []
    axes = stage.op.axis
    last = len(axes) - 1
    for parallel in threads:
        for column in columns(stage):
            make = partial(Form, column, _rows(stage, column), parallel=parallel)
            if work >= PACKED and packable(stage, axes[column]) is not None and _rows(stage, column):
                found += _packed(stage, column, make, where, taps)
            if column == last and _in_lines(stage):
                found += [make(taps=t) for t in taps]
                if constant(axes[column].extent) is None or len(_rows(stage, column)) > 0:
                    found.append(make(column_first=True))
                if work >= BLOCKED and _rows(stage, column):
                    found.append(make(levels="SSRSRS"))
    return found[:16]


def _packed(stage: tl.Stage, column: int, make: partial[Form], where: Where, taps: list[bool]) -> list[Form]:
    n, lanes = constant(stage.op.axis[column].extent), where.lanes(stage)
    most = 4 if n is None else -(-n // lanes)
    vectors = [v for v in (2, 3, 4, 1) if v <= most][:3] if column == len(stage.op.axis) - 1 else [v for v in (2, 1, 3) if v <= most][:2]
    rows = _rows(stage, column)
    if column == len(stage.op.axis) - 1:
        return [make(panel=v, at_root=root, column_first=True) for root in (False, True) for v in vectors]
    pixels = [d for d in range(len(stage.op.axis)) if d != column][-2:]
    whole = all(constant(stage.op.axis[d].extent) not in (None, 1) for d in pixels)
    merges = [True, False] if len(pixels) == 2 and pixels[1] - pixels[0] == 1 and whole and set(pixels) <= set(rows) else [False]
    return [make(panel=v, at_root=True, taps=t, merged=m) for m in merges for v in vectors for t in taps]


def settle(stage: tl.Stage, s: tl.Schedule) -> te.Tensor | None:
    """The undecided reduction that will be computed in tiles of this stage, if there is one: the stage has to wait for it."""
    for t in stage.op.input_tensors:
        producer = s[s.state.of(t).name]
        if isinstance(producer.op, te.ComputeOp) and reuses(producer):
            out = consumer(s, producer)
            if out is not None and out.name == stage.name:
                return t  # type: ignore[no-any-return]
    return None
