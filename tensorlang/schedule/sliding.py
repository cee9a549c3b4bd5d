"""Sliding windows: what a stage with memory further out (``store_at``) computed in earlier iterations is not
computed again, and rows that no later iteration reads give their place to new ones (Halide's sliding window
and storage folding: Ragan-Kelley et al., PLDI 2013, section 4.3). Knows state and bounds; nothing of loop IR.

``for y: { rows y .. y + 2 of P; C reads them }`` → at y = 0 three rows of P, after that one an iteration,
kept in a ring of three rows, P[r % 3]

Of a loop between the memory and the computation let the box of an iteration be that of the iteration before,
moved by a constant ``c`` along one dimension where it has ``e`` elements (or not moved at all: c = 0
everywhere). Then the first e - c are there already. All is proved on the boxes of region inference; where a
proof fails, the stage is computed again, as without this.

The rows of a scan that is not an output slide in the same way: its iterations read the rows just before, and
the rest of the program may read the last ones only. Then its memory is a ring of as many rows as live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..arith.extents import extent_bound
from ..expr import make
from ..expr.nodes import LT, Expr, Max, Min, Var, const_int
from ..expr.walk import preorder, substitute, variables
from ..te.scan import ScanOp
from .bounds import Bounds, is_loop
from .legality.places import chain
from .state import At, ScheduleState, StageState

Move = tuple[Var, int, int, int]
Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Slide:
    """``conditions`` hold for the elements that no earlier iteration computed; ``ring`` has the number of
    rows kept of some dimensions; ``moves`` are (loop variable, dimension, rows an iteration adds), with no
    rows where the box stands still."""

    conditions: tuple[Expr, ...] = ()
    ring: tuple[tuple[int, Expr], ...] = ()
    moves: tuple[Move, ...] = ()

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


def slides_of(state: ScheduleState, bounds: Bounds) -> dict[str, Slide]:
    """What slides of every stage, by its name."""
    found: dict[str, Slide] = {}
    for stage in state.stages:
        slide_of(state, bounds, stage, found)
    return found


def slide_of(
    state: ScheduleState, bounds: Bounds, stage: StageState, found: dict[str, Slide] | None = None
) -> Slide:
    """What slides of a stage; nothing unless it is a scan, or its memory is further out than it is
    computed. ``found`` are slides known already."""
    known = {} if found is None else found
    if stage.name not in known:
        known[stage.name] = (
            _rows_that_live(state, bounds, stage) if stage.is_scan else _windows(state, bounds, stage, known)
        )
    return known[stage.name]


def _windows(state: ScheduleState, bounds: Bounds, stage: StageState, found: dict[str, Slide]) -> Slide:
    if (
        stage.store is None
        or not isinstance(stage.attach, At)
        or stage.tensorized is not None
        or stage.is_opaque
        or stage.double
    ):
        return NOTHING
    between = list(_between(state, bounds, stage))  # innermost first
    windows = [_window(bounds, stage, between, at) for at in range(len(between))]
    conditions: list[Expr] = []
    moves: list[Move] = []
    for at, ((host, var, _), window) in enumerate(zip(between, windows, strict=True)):
        if window is None or not _whole_before(bounds, state, stage, host, between, at, window):
            continue
        along = [d for d, c in enumerate(window.moved) if c[1]]
        # moving along two dimensions at once: what is new is no box of rows
        if len(along) > 1:
            continue
        d, c = (along[0], window.moved[along[0]][1]) if along else (0, 0)
        new = _new_rows(bounds, stage, window, var, d) if along else ()
        if new is None:
            continue
        # the first iteration has nothing before it
        first: Expr = make.eq(var, 0)
        for cond in new:
            first = make.or_(first, cond)
        conditions.append(first)
        moves.append((var, d, c, window.rows(d)))
    kept = [v for v, *_ in moves]
    hosts = list(dict.fromkeys(st.name for st, _, _ in between))
    slides = {h: slide_of(state, bounds, state.stage(h), found) for h in hosts}
    for h, slide in slides.items():
        around = [v for at, (st, v, _) in enumerate(between) if all(s.name != h for s, *_ in between[at:])]
        if not _follows(bounds, stage, state.stage(h), slide, {v for _, v, _ in between}, around, kept):
            return NOTHING  # what an iteration left out would have computed may be nowhere
    onwards = _onwards(bounds, state.stage(hosts[0]), slides[hosts[0]].moves) if hosts else []
    rings = _rings(state, bounds, stage, [(v, n) for _, v, n in between], windows, kept, onwards)
    return Slide(tuple(conditions), tuple(rings), tuple(moves))


def _follows(
    bounds: Bounds,
    stage: StageState,
    host: StageState,
    slide: Slide,
    inside: set[Var],
    around: list[Var],
    kept: list[Var],
) -> bool:
    """Whether a stage needs nothing of the iterations that a sliding stage outside it leaves out: the box of
    an iteration hangs on the element of the host alone, and the iteration that computed that element has put
    it into memory that is still there. ``inside`` are the loops between the memory and the stage, ``around``
    those of them outside the host."""
    relevant = [
        var
        for (var, *_), cond in zip(slide.moves, slide.conditions, strict=True)
        if not inside.isdisjoint(variables(cond))  # others leave out all that happens while the memory lives
    ]
    if any(all(v is not var for v in kept) for var in relevant):
        return False
    return not relevant or all([_hangs_on(bounds, stage, host, var) for var in around])


def _hangs_on(bounds: Bounds, stage: StageState, host: StageState, var: Var) -> bool:
    """Whether the box of a stage inside another is the same wherever one element of the other is computed, in
    whichever iteration of a loop around that one."""
    outer = bounds[host.name]
    earlier: dict[Var, Expr] = {var: make.sub(var, 1)}
    for a, low in zip(host.compute.axis, outer.low, strict=True):
        own = outer.local[a.var]
        step = make.sub(low, substitute(low, {var: make.sub(var, 1)}))
        if type(own) is Var:
            earlier[own] = make.add(own, step)
        elif const_int(step) != 0:
            return False
    return all([const_int(make.sub(substitute(e, earlier), e)) == 0 for e in bounds[stage.name].low])


def _onwards(bounds: Bounds, host: StageState, moves: tuple[Move, ...]) -> list[list[Var]]:
    """The loops that visit the rows of a sliding stage, each once and in order, for each of its dimensions:
    its own loop and those it slides along."""
    local = bounds[host.name].local
    return [
        [own, *[v for v, d, step, _ in moves if d == along and step]]
        for along, own in enumerate([local[a.var] for a in host.compute.axis])
        if type(own) is Var
    ]


def _new_rows(bounds: Bounds, stage: StageState, window: Window, var: Var, d: int) -> tuple[Expr] | None:
    """That an element was not in the window of the iteration before, which lay lower or as low; None where
    none is."""
    b = bounds[stage.name]
    least, most = window.moved[d]
    if least < 0 or window.rows(d) <= most:
        return None
    at = stage.compute.axis[d].var
    if window.low[d] is b.low[d] and least == most:
        return (make.ge(b.local[at], window.rows(d) - most),)
    return (make.ge(b.value[at], substitute(window.end[d], {var: make.sub(var, 1)})),)


def _between(
    state: ScheduleState, bounds: Bounds, stage: StageState
) -> Iterator[tuple[StageState, Var, Expr]]:
    """The loops of more than one iteration inside the memory of a stage and around its computation, innermost
    first, with the stages they are of and their extents."""
    assert stage.store is not None
    for outer, p in chain(state, stage):
        for q in range(p, -1, -1):
            iv = outer.leaves[q]
            if outer.name == stage.store.stage and iv.name == stage.store.loop:
                return
            if const_int(bounds[outer.name].loops[iv]) != 1:
                yield outer, iv.var, bounds[outer.name].loops[iv]


@dataclass(frozen=True, slots=True)
class Window:
    """The box of one iteration of a loop, from ``low`` to before ``end``, with at most ``extent`` elements,
    and by how much the next iteration moves it along each dimension: at least and at most so far, the same
    unless an end of the whole holds it back. Where it moves along one, the loops ``inside`` that do so too
    are taken together: what all their iterations compute. ``apart``: others move it along that dimension,
    which cannot be."""

    low: tuple[Expr, ...]
    end: tuple[Expr, ...]
    extent: tuple[Expr, ...]
    moved: tuple[Step, ...]
    inside: tuple[Var, ...]
    apart: bool

    def rows(self, d: int) -> int:
        """Its elements along a dimension; 0 when their number is not known."""
        return const_int(self.extent[d]) or 0 if self.extent else 1  # a scalar is one element

    def goes_on(self, bounds: Bounds, var: Var, extent: Expr, d: int) -> bool:
        """Whether the first box of an iteration, of that extent, is not before the last one of the iteration
        before."""
        last = make.sub(substitute(self.end[d], {var: make.sub(var, 1)}), extent)
        most = extent_bound(bounds.facts, make.sub(last, self.low[d]), is_loop)
        return most is not None and bounds.facts.prove(make.le(most, 0)) is True


def _window(
    bounds: Bounds, stage: StageState, between: list[tuple[StageState, Var, Expr]], at: int
) -> Window | None:
    """The window of a loop; None when it does not move by the same at every iteration."""
    b = bounds[stage.name]
    low, extent = list(b.low), list(b.extent)
    end = [make.add(e, n) for e, n in zip(low, extent, strict=True)]
    moved = _steps(bounds, b.low, b.extent, between[at][1])
    if moved is None:
        return None
    inside: list[Var] = []
    apart = False
    along = [d for d, c in enumerate(moved) if c[1]]
    for _, u, n in between[:at] if len(along) == 1 else ():
        (d,) = along
        steps = _steps(bounds, tuple(low), tuple(extent), u)
        if steps is not None and steps[d] == (0, 0):
            continue
        rows, iterations = const_int(extent[d]), const_int(n)
        if (
            steps is None
            or rows is None
            or iterations is None
            or not 0 <= steps[d][0] <= steps[d][1] <= rows
            or sum(c != (0, 0) for c in steps) > 1
        ):
            apart = True  # its iterations leave gaps, or nobody knows
            continue
        low[d] = substitute(low[d], {u: make.const(0, u.dtype)})
        end[d] = substitute(end[d], {u: make.const(iterations - 1, u.dtype)})
        extent[d] = make.const(rows + steps[d][1] * (iterations - 1), extent[d].dtype)
        inside.append(u)
    return Window(tuple(low), tuple(end), tuple(extent), tuple(moved), tuple(inside), apart)


def _steps(bounds: Bounds, low: tuple[Expr, ...], extent: tuple[Expr, ...], var: Var) -> list[Step] | None:
    """By how much an iteration moves the box along each dimension, at least and at most; None when nobody
    knows."""
    after: dict[Var, Expr] = {var: make.add(var, 1)}
    if any(var in variables(n) for n in extent):
        return None
    moved: list[Step] = []
    for e in low:
        step = make.sub(substitute(e, after), e)
        ends = _constant_ends(bounds, step)
        if ends is None:
            return None
        moved.append(ends)
    return moved


def _constant_ends(bounds: Bounds, step: Expr) -> Step | None:
    exact = const_int(step)
    if exact is not None:
        return exact, exact
    if not any(isinstance(node, Min | Max) for node in preorder(step)):
        return None
    most, least = [extent_bound(bounds.facts, e, is_loop) for e in (step, make.neg(step))]
    if most is None or least is None:
        return None
    high, low = const_int(most), const_int(least)
    return None if high is None or low is None else (-low, high)


def _whole_before(
    bounds: Bounds,
    state: ScheduleState,
    stage: StageState,
    host: StageState,
    between: list[tuple[StageState, Var, Expr]],
    at: int,
    window: Window,
) -> bool:
    """Whether an iteration of a loop that runs means that the one before it ran, with all iterations of the
    loops inside that move the window: guards leave out last iterations only. Where the box hangs on an
    element of a stage around, those up to this element are enough: had it been computed before, its box
    would be there."""
    var = between[at][1]
    facts = bounds.facts
    before: dict[Var, Expr] = {var: make.sub(var, 1)}
    inside = [(st, u, n) for st, u, n in between[:at] if u in window.inside]
    for _, u, n in inside:  # any iteration of it
        any_turn = before[u] = Var(u.name, u.dtype, "loop")
        facts = facts.bind(any_turn, make.const(0, u.dtype), make.sub(n, 1))
    lower: list[Expr] = []  # by how much their elements are not above this one: never positive
    for st, u, _ in inside:
        for a in st.compute.axis if st is not host and _hangs_on(bounds, stage, st, var) else ():
            if bounds[st.name].local[a.var] is u:
                row = bounds[st.name].value[a.var]
                lower.append(make.sub(substitute(row, before), row))
    for outer in dict.fromkeys([host, *[st for st, _ in chain(state, stage)]]):
        for g in bounds.holding(outer):
            if variables(g).isdisjoint(before):
                continue
            known = facts.assume(g).assume(make.ge(var, 1))
            for e in lower if isinstance(g, LT) else ():
                known = known.assume(make.lt(make.add(g.children()[0], e), g.children()[1]))
            if known.prove(substitute(g, before)) is not True:
                return False
    return True


def _rings(
    state: ScheduleState,
    bounds: Bounds,
    stage: StageState,
    between: list[tuple[Var, Expr]],
    windows: list[Window | None],
    kept_across: list[Var],
    onwards: list[list[Var]],
) -> Iterator[tuple[int, Expr]]:
    """The dimensions of which a ring of rows is enough: the loops that move along it follow one another, and
    nothing is kept across loops further out, where the ring would have gone on. Vectors are read from the
    last one, which is a ring, of a power of two, only where there are none."""
    readers = state.readers(stage.name)
    if any(reader.is_opaque or reader.tensorized is not None for reader in readers):
        return  # others read it as it lies
    b = bounds[stage.name]
    last = len(b.low) - 1
    vectors = any(st.kind(iv) == "vectorized" for st in (stage, *readers) for iv in st.leaves)
    for d in range(last + 1):
        rows, whole = (
            _rows_of_ring(bounds, b.extent[d], d, between, windows, kept_across, onwards),
            const_int(b.store_extent[d]),
        )
        # an alignment speaks of the whole dimension, which a ring has not; vectors would run over the ring's
        # end
        if rows is None or d in stage.align or (d == last and vectors):
            continue
        if d == last:
            # a power of two: ``% rows`` of the innermost index is then a mask
            rows = 1 << (rows - 1).bit_length()
        if whole is None or rows < whole:
            yield d, make.const(rows, b.extent[d].dtype)


def _rows_of_ring(
    bounds: Bounds,
    extent: Expr,
    d: int,
    between: list[tuple[Var, Expr]],
    windows: list[Window | None],
    kept_across: list[Var],
    onwards: list[list[Var]],
) -> int | None:
    """How many rows of a dimension live at a time; None for all. Loops of ``onwards`` go over rows one by
    one: further out, they go on where those inside stopped."""
    rows = const_int(extent)
    moving = [at for at, w in enumerate(windows) if w is None or w.moved[d] != (0, 0)]
    if rows is None or rows < 1 or not moving or moving != list(range(moving[0], moving[-1] + 1)):
        return None
    if any(v in kept_across for v, _ in between[moving[-1] + 1 :]):
        return None
    gone = 0  # rows that the loops further in went on
    for at in moving:
        window, iterations = windows[at], const_int(between[at][1])
        if window is None or window.moved[d][0] < 0 or (iterations is None and at != moving[-1]):
            return None
        inside = [between[m][0] for m in moving if m <= at]
        if (
            window.moved[d][0] < gone
            and not any(set(inside) <= set(order) for order in onwards)
            and not (
                len(window.inside) == len(inside) - 1 and window.goes_on(bounds, between[at][0], extent, d)
            )
        ):
            # it goes back to rows of the iteration before
            if window.apart or sum(c != (0, 0) for c in window.moved) > 1:
                return None
            rows = max(rows, window.rows(d))
        gone += window.moved[d][1] * ((iterations or 1) - 1)
    return rows


# -- scans ---------------------------------------------------------------------------------------------------


def sliding_parts(state: ScheduleState, scan: StageState) -> tuple[StageState, ...]:
    """The stages whose tensors are rows of a scan that may be those of any iteration: the scan, its states
    and its updates. The rows that its init writes are the first of the ring as well, where they lie."""
    assert isinstance(scan.op, ScanOp)
    return scan, *[state.of(t) for t in (*scan.op.state, *scan.op.update)]


def _rows_that_live(state: ScheduleState, bounds: Bounds, scan: StageState) -> Slide:
    """The ring of a scan: as many rows as the first ones, as an iteration's with those it reads, and as the
    last ones that are read outside. Those are ``h[T - K]`` and later: no row behind them has taken their
    place, however few or many rows there are."""
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
    read in the iterations, the result behind them; the rows of an init, which the iterations overwrite, have
    to be read by nobody."""
    readers = [r for r in state.readers(part.name) if r is not scan]
    inside = part is not scan
    if inside and (part.aliases or part.is_opaque or part.tensorized is not None):
        return None
    if inside and part.within is None and not part.is_placeholder:
        return None if readers else 0
    loop = scan.leaves[0]
    iteration = bounds[scan.name].value[scan.compute.axis[0].var]
    if inside and not part.is_placeholder and not _one_row(bounds, part, iteration):
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
    last = iteration if inside else make.sub(part.op.outputs[0].shape[0], 1)
    back, ahead = [const_int(make.sub(*make.unify(last, e))) for e in ends]
    if back is None or back < 0 or (inside and (ahead is None or ahead < int(part.is_placeholder))):
        return None
    return back + 1


def _one_row(bounds: Bounds, update: StageState, iteration: Expr) -> bool:
    """Whether an update computes the row of the iteration and no other."""
    b = bounds[update.name]
    return const_int(make.sub(*make.unify(b.low[0], iteration))) == 0 and const_int(b.extent[0]) == 1
