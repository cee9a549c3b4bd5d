"""Sliding windows: what a stage with memory further out (``store_at``) computed in earlier turns is not
computed again, and rows that no later turn reads give their place to new ones. Knows state and bounds;
nothing of loop IR.

``for y: { rows y .. y + 2 of P; C reads them }`` → at y = 0 three rows of P, after that one a turn, kept in a
ring of three rows, P[r % 3]

Of a loop between the memory and the computation let the box of a turn be that of the turn before, moved by a
constant ``c`` along one dimension where it has ``e`` elements (or not moved at all: c = 0 everywhere). Then
the first e - c are there already. All is proved on the boxes of region inference; where a proof fails, the
stage is computed again, as without this.

The rows of a scan that is no output slide in the same way: its turns read the rows just before, and the rest
of the program may read the last ones only. Then its memory is a ring of as many rows as live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..te.scan import ScanOp
from .bounds import Bounds
from .legality.places import chain
from .state import At, ScheduleState, StageState


@dataclass(frozen=True, slots=True)
class Slide:
    """``conditions`` hold for the elements that no earlier turn computed; ``ring`` has the number of rows
    kept of some dimensions; ``moves`` are (loop variable, dimension, rows a turn adds), with no rows where
    the box stands still."""

    conditions: tuple[Expr, ...] = ()
    ring: tuple[tuple[int, Expr], ...] = ()
    moves: tuple[tuple[Var, int, int], ...] = ()

    def place(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where an element counted from the corner of the memory lies in the rings."""
        out = list(index)
        for d, rows in self.ring:
            out[d] = make.floormod(out[d], rows)
        return tuple(out)

    def shape(self, whole: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The memory's extents, rings in place of whole dimensions."""
        rows = dict(self.ring)
        return tuple(rows.get(d, n) for d, n in enumerate(whole))


NOTHING = Slide()


def slide_of(state: ScheduleState, bounds: Bounds, stage: StageState) -> Slide:
    """What slides of a stage; nothing unless it is a scan, or its memory is further out than it is
    computed."""
    if stage.is_scan:
        return _rows_that_live(state, bounds, stage)
    if (
        stage.store is None
        or not isinstance(stage.attach, At)
        or stage.tensorized is not None
        or stage.is_opaque
        or stage.double
    ):
        return NOTHING
    between = list(_between(state, bounds, stage))  # innermost first
    hosts = dict.fromkeys(st.name for st, _ in between)
    if any(slide_of(state, bounds, state.stage(h)).conditions for h in hosts):
        return NOTHING  # turns of theirs are left out, and with them what this stage would have computed
    b = bounds[stage.name]
    steps = {var: _steps(b.low, b.extent, var) for _, var in between}
    conditions: list[Expr] = []
    moves: list[tuple[Var, int, int]] = []
    for host, var in between:
        moved = steps[var]
        if moved is None or not _begins_at_the_first(bounds, state, stage, host, var):
            continue
        along = [(d, c) for d, c in enumerate(moved) if c]
        if len(along) > 1:
            continue
        first = make.eq(var, 0)
        if along:
            ((d, c),) = along
            left = (const_int(b.extent[d]) or 0) - c
            if c < 0 or left <= 0:
                continue
            conditions.append(make.or_(first, make.ge(b.local[stage.compute.axis[d].var], left)))
        else:
            conditions.append(first)
        moves.append((var, *(along[0] if along else (0, 0))))
    rings = _rings(state, bounds, stage, [v for _, v in between], steps, [v for v, _, _ in moves])
    return Slide(tuple(conditions), tuple(rings), tuple(moves))


def _between(state: ScheduleState, bounds: Bounds, stage: StageState) -> Iterator[tuple[StageState, Var]]:
    """The loops of more than one turn inside the memory of a stage and around its computation, innermost
    first."""
    assert stage.store is not None
    for outer, p in chain(state, stage):
        for q in range(p, -1, -1):
            iv = outer.leaves[q]
            if outer.name == stage.store.stage and iv.name == stage.store.loop:
                return
            if const_int(bounds[outer.name].loops[iv]) != 1:
                yield outer, iv.var


def _steps(low: tuple[Expr, ...], extent: tuple[Expr, ...], var: Var) -> list[int] | None:
    """By how much a turn moves the box along each dimension; None when that is not the same at every turn."""
    after: dict[Var, Expr] = {var: make.add(var, 1)}
    moved = [const_int(make.sub(substitute(e, after), e)) for e in low]
    if any(c is None for c in moved) or any(var in variables(n) for n in extent):
        return None
    return [c or 0 for c in moved]


def _begins_at_the_first(
    bounds: Bounds, state: ScheduleState, stage: StageState, host: StageState, var: Var
) -> bool:
    """Whether a turn of a loop that runs means that the one before it ran: guards leave out last turns
    only."""
    before: dict[Var, Expr] = {var: make.sub(var, 1)}
    for outer in dict.fromkeys([host, *[st for st, _ in chain(state, stage)]]):
        for g in bounds.guards(outer):
            if (
                var in variables(g)
                and bounds.facts.assume(g).assume(make.ge(var, 1)).prove(substitute(g, before)) is not True
            ):
                return False
    return True


def _rings(
    state: ScheduleState,
    bounds: Bounds,
    stage: StageState,
    between: list[Var],
    steps: dict[Var, list[int] | None],
    kept_across: list[Var],
) -> Iterator[tuple[int, Expr]]:
    """The dimensions of which a ring of rows is enough: one loop moves along it, and nothing is kept across
    loops further out, where the ring would have gone on. The last dimension stays as it is: vectors are read
    from it."""
    if any(reader.is_opaque or reader.tensorized is not None for reader in state.readers(stage.name)):
        return  # others read it as it lies
    b = bounds[stage.name]
    for d in range(len(b.low) - 1):
        moves = [v for v in between if steps[v] is None or steps[v][d]]  # type: ignore[index]
        rows, whole = const_int(b.extent[d]), const_int(b.store_extent[d])
        if len(moves) != 1 or rows is None or rows < 1 or (whole is not None and whole <= rows):
            continue
        moved = steps[moves[0]]
        if moved is None or moved[d] < 0 or d in stage.align:
            continue
        if not any(v in kept_across for v in between[between.index(moves[0]) + 1 :]):
            yield d, b.extent[d]


# -- scans ---------------------------------------------------------------------------------------------------


def sliding_parts(state: ScheduleState, scan: StageState) -> tuple[StageState, ...]:
    """The stages whose tensors are rows of a scan that may be those of any turn: the scan, its states and its
    updates. The rows that its init writes are the first of the ring as well, where they lie."""
    assert isinstance(scan.op, ScanOp)
    return scan, *[state.of(t) for t in (*scan.op.state, *scan.op.update)]


def _rows_that_live(state: ScheduleState, bounds: Bounds, scan: StageState) -> Slide:
    """The ring of a scan: as many rows as the first ones, as a turn's with those it reads, and as the last
    ones that are read outside. Those are ``h[T - K]`` and later: no row behind them has taken their place,
    however few or many rows there are."""
    assert isinstance(scan.op, ScanOp)
    total = scan.op.outputs[0].shape[0]
    first = const_int(scan.op.init[0].shape[0])
    if (
        scan.is_output
        or scan.attach is not None
        or scan.shares
        or scan.align
        or scan.aliases
        or first is None
    ):
        return NOTHING
    needed = [first]
    for part in (*sliding_parts(state, scan), *[state.of(t) for t in scan.op.init]):
        kept = _kept_for(state, bounds, scan, part)
        if kept is None:
            return NOTHING
        needed.append(kept)
    rows, whole = max(needed), const_int(total)
    return (
        NOTHING if whole is not None and whole <= rows else Slide(ring=((0, make.const(rows, total.dtype)),))
    )


def _kept_for(state: ScheduleState, bounds: Bounds, scan: StageState, part: StageState) -> int | None:
    """How many rows the readers of a part of a scan need at a time; None for all. A state and an update are
    read in the turns, the result behind them; the rows of an init, which the turns overwrite, have to be read
    by nobody."""
    readers = [r for r in state.readers(part.name) if r is not scan]
    inside = part is not scan
    if inside and (part.aliases or part.is_opaque or part.tensorized is not None):
        return None
    if inside and part.within is None and not part.is_placeholder:
        return None if readers else 0
    loop = scan.leaves[0]
    turn = bounds[scan.name].value[scan.compute.axis[0].var]
    if inside and not part.is_placeholder and not _one_row(bounds, part, turn):
        return None
    if any(
        r.is_opaque
        or r.tensorized is not None
        or r.double
        or (loop.var in bounds.around(r.attach)) is not inside
        for r in readers
    ):
        return None
    if not readers:
        return 1
    ends = (bounds.touched(part.key, readers, At(scan.name, loop.name) if inside else None) or [None])[0]
    if ends is None:
        return None
    last = turn if inside else make.sub(part.op.outputs[0].shape[0], 1)
    back, ahead = [const_int(make.sub(*make.unify(last, e))) for e in ends]
    if back is None or back < 0 or (inside and (ahead is None or ahead < int(part.is_placeholder))):
        return None
    return back + 1


def _one_row(bounds: Bounds, update: StageState, turn: Expr) -> bool:
    """Whether an update computes the row of the turn and no other."""
    b = bounds[update.name]
    return const_int(make.sub(*make.unify(b.low[0], turn))) == 0 and const_int(b.extent[0]) == 1
