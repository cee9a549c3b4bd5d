"""Sliding windows: what a stage with memory further out (``store_at``) computed in earlier turns is not computed again, and rows that no
later turn reads give their place to new ones. Knows state and bounds; nothing of loop IR.

``for y: { rows y .. y + 2 of P; C reads them }`` → at y = 0 three rows of P, after that one a turn, kept in a ring of three rows, P[r % 3]

Of a loop between the memory and the computation let the box of a turn be that of the turn before, moved by a constant ``c`` along one
dimension where it has ``e`` elements (or not moved at all: c = 0 everywhere). Then the first e - c are there already. All is proved on the
boxes of region inference; where a proof fails, the stage is computed again, as without this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import substitute, variables
from .bounds import Bounds
from .legality.places import chain
from .state import At, ScheduleState, StageState


@dataclass(frozen=True, slots=True)
class Slide:
    """``conditions`` hold for the elements that no earlier turn computed; ``ring`` has the number of rows kept of some dimensions; ``moves`` are
    (loop variable, dimension, rows a turn adds), with no rows where the box stands still."""

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
    """What slides of a stage; nothing unless its memory is further out than it is computed."""
    if stage.store is None or not isinstance(stage.attach, At) or stage.tensorized is not None or stage.is_opaque or stage.double:
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
            (d, c), = along
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
    """The loops of more than one turn inside the memory of a stage and around its computation, innermost first."""
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


def _begins_at_the_first(bounds: Bounds, state: ScheduleState, stage: StageState, host: StageState, var: Var) -> bool:
    """Whether a turn of a loop that runs means that the one before it ran: guards leave out last turns only."""
    before: dict[Var, Expr] = {var: make.sub(var, 1)}
    for outer in dict.fromkeys([host, *[st for st, _ in chain(state, stage)]]):
        for g in bounds.guards(outer):
            if var in variables(g) and bounds.facts.assume(g).assume(make.ge(var, 1)).prove(substitute(g, before)) is not True:
                return False
    return True


def _rings(state: ScheduleState, bounds: Bounds, stage: StageState, between: list[Var], steps: dict[Var, list[int] | None],
           kept_across: list[Var]) -> Iterator[tuple[int, Expr]]:
    """The dimensions of which a ring of rows is enough: one loop moves along it, and nothing is kept across loops further out, where the
    ring would have gone on. The last dimension stays as it is: vectors are read from it."""
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
        if not any(v in kept_across for v in between[between.index(moves[0]) + 1:]):
            yield d, b.extent[d]
