"""Multi-level tiling of reductions with reuse: with and without a consumer that is computed in the tile, with
the operand packed or not.

Ansor's rules 3 to 5 (multi-level tiling, with fusion of the consumer, cache write) and packing, which it
lacks. Knows schedules.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, own_place, reads_of

from .placing import decided, places, repeats
from .rule import Answer, Where, empty, iterations, untouched, ways
from .tiled_reduction import MAX_TAPS, Form, packable, tile

PACKED = 1 << 15  # iterations from which a copy of an operand may pay
BLOCKED = 1 << 18  # iterations from which a second level of tiles may pay
ROWS = 2  # axes of a register tile besides the column
FUSED = 3  # forms tried inside a place


class CacheWrite:
    """A reduction that nobody reads in its own shape is computed in a local buffer and copied: the copy is
    the consumer of the next rule."""

    name = "cache write"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """For what will be tiled and has no consumer to be computed in."""
        if not reuses(stage) or consumer(s, stage) is not None or not s.can("cache_write", stage.name):
            return Answer.SKIP
        return Answer.ALWAYS

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """One way."""
        return ways(s, lambda t: t.cache_write(stage.name, "local"))


class Tiling:
    """A reduction is computed in tiles of its consumer, of the forms that make sense for it, likely ones
    first: the consumer at root, or inside the tiles of what reads it in turn."""

    name = "multi-level tiling"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """For reductions with reuse that one untouched stage of the same shape reads at its own place."""
        return Answer.APPLY if reuses(stage) and consumer(s, stage) is not None else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """A schedule for some forms inside each place, and for each form at root, in turns: a reader has such
        a place only when it was made for that."""
        out = consumer(s, stage)
        assert out is not None
        found = forms(s, stage, where)
        inside = (
            []
            if out.state.is_output
            else [place for place in places(s, out) if decided(s[place[0]]) and not repeats(s, out, place)]
        )
        # the loops around a place are shared out already; and panels made in the tile's own loops would be
        # made again in each iteration of the place
        fused = [replace(f, parallel=False) for f in found if f.at_root or not f.panel]
        apart = [partial(_tiled, out.name, stage.name, form, None, where) for form in found]
        within = [
            partial(_tiled, out.name, stage.name, form, place, where)
            for form in list(dict.fromkeys(fused))[:FUSED]
            for place in inside
        ]
        return ways(
            s, *[way for pair in itertools.zip_longest(within, apart) for way in pair if way is not None]
        )


def _tiled(
    out: str, inside: str, form: Form, place: tuple[str, str] | None, where: Where, s: tl.Schedule
) -> None:
    tile(s, s[out], s[inside], form, where)
    if place is not None:
        s[out].compute_at(s[place[0]], s[place[0]].loop(place[1]))


def reuses(stage: tl.Stage) -> bool:
    """Whether a tile of a reduction reads less than its elements do one by one: some axis runs along memory
    or can be made to."""
    if not untouched(stage) or not stage.op.reduce_axis or not stage.op.axis or empty(stage):
        return False
    return bool(columns(stage))


def columns(stage: tl.Stage) -> list[int]:
    """The axes that can be the vector: the last one when a read runs along it, those of an operand that can
    be packed when there are rows to read the panel again and iterations enough to pay for it."""
    axes = stage.op.axis
    result = [len(axes) - 1] if _in_lines(stage) and constant(axes[-1].extent) != 1 else []
    for d in reversed(range(len(axes) if iterations(stage) >= PACKED else 0)):
        if (
            d not in result
            and constant(axes[d].extent) != 1
            and packable(stage, axes[d]) is not None
            and _rows(stage, d)
        ):
            result.append(d)
    return result


def _in_lines(stage: tl.Stage) -> bool:
    """Whether some read moves through memory along the last axis (by one, or by the stride of a window), and
    none jumps from line to line."""
    last = stage.op.axis[-1]
    moving = [read for read in reads_of(stage.op).plain if any(_mentions(i, last) for i in read[1])]
    return bool(moving) and not any(_mentions(i, last) for _, indices in moving for i in indices[:-1])


def _mentions(index: Any, axis: te.IterVar) -> bool:
    return index is axis.var or any(_mentions(part, axis) for part in index.children())


def _rows(stage: tl.Stage, column: int) -> tuple[int, ...]:
    """The axes of the register tile: the innermost ones along which an operand stands still."""
    everywhere, axes = reads_of(stage.op).everywhere, stage.op.axis
    found = [
        d
        for d in range(len(axes))
        if d != column
        and constant(axes[d].extent) != 1
        and any(axes[d].var not in used for used in everywhere)
    ]
    return tuple(found[-ROWS:])


def consumer(s: tl.Schedule, stage: tl.Stage) -> tl.Stage | None:
    """The one reader of a stage, when it is elementwise, of the same shape, and undecided."""
    if stage.state.is_output:
        return None
    readers = s.state.readers(stage.name)
    if len(readers) != 1:
        return None
    out = s[readers[0].name]
    return out if untouched(out) and not out.op.reduce_axis and at_own_place(out, stage) else None


def at_own_place(reader: tl.Stage, stage: tl.Stage) -> bool:
    """Whether a stage has the shape of another and reads it only where it writes itself."""
    axes = reader.op.axis
    if len(axes) != len(stage.op.axis) or any(
        constant(a.extent) != constant(b.extent) for a, b in zip(axes, stage.op.axis, strict=True)
    ):
        return False
    reads = [indices for t, indices in reads_of(reader.op).plain if t in stage.op.outputs]
    return all(own_place(reader.op, indices) for indices in reads)


def forms(s: tl.Schedule, stage: tl.Stage, where: Where) -> list[Form]:
    """The structures worth trying, likely ones first; at most 16."""
    work, threads = iterations(stage), where.threads(iterations(stage))
    main = max(stage.op.reduce_axis, key=lambda a: constant(a.extent) or 1 << 20)
    taps = (
        [True, False]
        if any(a is not main and 1 < (constant(a.extent) or 99) <= MAX_TAPS for a in stage.op.reduce_axis)
        else [False]
    )
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
    if len(axes) > 1 and _feeds_rows(s, stage):
        # among the first: the list is cut below, and a search tries early sketches first
        found[1:1] = [replace(f, by_rows=True, column_first=False) for f in found if f.at_root][:1]
        found[3:3] = [replace(f, by_rows=True) for f in found if not f.panel and not f.column_first][:1]
    return found[:16]


def _feeds_rows(s: tl.Schedule, stage: tl.Stage) -> bool:
    """Whether an operand that the columns share is computed here and undecided: it could be computed block of
    rows by block of rows."""
    for t, _ in reads_of(stage.op).plain:
        producer = s[s.state.of(t).name]
        if isinstance(producer.op, te.ComputeOp) and untouched(producer) and not producer.state.is_output:
            return True
    return False


def _packed(stage: tl.Stage, column: int, make: partial[Form], where: Where, taps: list[bool]) -> list[Form]:
    n, lanes = constant(stage.op.axis[column].extent), where.lanes(stage)
    # a panel wider than all columns would only be filled with zeros
    most = 4 if n is None else -(-n // lanes)
    vectors = (
        [v for v in (2, 3, 4, 1) if v <= most][:3]
        if column == len(stage.op.axis) - 1
        else [v for v in (2, 1, 3) if v <= most][:2]
    )
    rows = _rows(stage, column)
    if column == len(stage.op.axis) - 1:
        return [make(panel=v, at_root=root, column_first=True) for root in (False, True) for v in vectors]
    pixels = [d for d in range(len(stage.op.axis)) if d != column][-2:]
    whole = all(constant(stage.op.axis[d].extent) not in (None, 1) for d in pixels)
    merges = (
        [True, False]
        if len(pixels) == 2 and pixels[1] - pixels[0] == 1 and whole and set(pixels) <= set(rows)
        else [False]
    )
    return [make(panel=v, at_root=True, taps=t, merged=m) for m in merges for v in vectors for t in taps]


def settle(stage: tl.Stage, s: tl.Schedule) -> te.Tensor | None:
    """The undecided reduction that will be computed in tiles of this stage, if there is one: the stage has to
    wait for it."""
    for t in stage.op.input_tensors:
        producer = s[s.state.of(t).name]
        if isinstance(producer.op, te.ComputeOp) and reuses(producer):
            out = consumer(s, producer)
            if out is not None and out.name == stage.name:
                return t  # type: ignore[no-any-return]
    return None


def carries(s: tl.Schedule, stage: tl.Stage) -> bool:
    """Whether an undecided reduction will be computed in tiles of this stage, now or once what lies between
    is inlined: the epilogue of a reduction, and the copy that a cache leaves."""
    waiting = [stage]
    while waiting:
        at = waiting.pop()
        if settle(at, s) is not None:
            return True
        between = [s[s.state.of(t).name] for t in at.op.input_tensors]
        waiting += [
            p
            for p in between
            if untouched(p)
            and not p.op.reduce_axis
            and not p.state.is_output
            and len(s.state.readers(p.name)) == 1
            and at_own_place(at, p)
        ]
    return False
