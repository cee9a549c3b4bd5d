"""Elementwise stages: a vector loop, the outer loops shared out, at root or inside what reads them; those
that read along another axis than they write, in tiles that are transposed in registers; those that read
neighbours of what is computed before them, in bands of rows that it may be computed for. Knows schedules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, operations, reads_of, transposed
from tensorlang.recipes import fuse, read_again

from .placing import once_first, places
from .rule import Answer, Where, empty, inside_scan, iterations, untouched, ways
from .tiling import settle

VECTORS = (1, 2, 4, 8)
MAX_CHUNK = 256
SIDES = (4, 8, 16)  # rows of a tile that is transposed
BANDS = (2, 4, 8, 16)  # rows for which what is read is computed at once
PLAIN = 4  # operations of a body that count as one iteration of a loop


class Map:
    """A stage without reduction that was not inlined."""

    name = "map"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """When no reduction waits to be computed in its tiles."""
        if (
            not untouched(stage)
            or stage.op.reduce_axis
            or not stage.op.axis
            or empty(stage)
            or settle(stage, s) is not None
        ):
            return Answer.SKIP
        return Answer.APPLY

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """Inside its readers first, then at root, by threads and by one. Where a loop would compute the same
        again, and what it reads is computed here too, inside comes last."""
        work = iterations(stage) * max(1, operations(stage.op.body) // PLAIN)
        threads = [False] if inside_scan(stage) else where.threads(work)
        found = [] if stage.state.is_output or inside_scan(stage) else places(s, stage)
        first, last = (
            once_first(s, stage, found)
            if any(isinstance(t.op, te.ComputeOp) for t in stage.op.input_tensors)
            else (found, [])
        )
        root = _in_tiles if _turns(stage) else _root
        bands = threads if root is _root and _reads_neighbours(s, stage) else []
        return ways(
            s,
            *[partial(_inside, stage.name, place, where) for place in first],
            *[partial(root, stage.name, parallel, where) for parallel in threads],
            *[partial(_in_bands, stage.name, parallel, where) for parallel in bands],
            *[partial(_inside, stage.name, place, where) for place in last],
        )


def _inside(name: str, place: tuple[str, str], where: Where, s: tl.Schedule) -> None:
    stage, at = s[name], s[place[0]]
    stage.compute_at(at, at.loop(place[1]))
    _vector(s, stage, where)


def _root(name: str, parallel: bool, where: Where, s: tl.Schedule) -> None:
    stage = s[name]
    loops = _vector(s, stage, where)
    if parallel:
        share_out(s, stage, loops)


def _reads_neighbours(s: tl.Schedule, stage: tl.Stage) -> bool:
    """Whether an element reads several of a stage that waits for its place, in rows of an image."""
    if len([a for a in stage.op.axis if constant(a.extent) != 1]) < 2:
        return False
    places: dict[te.Tensor, set[tuple[int, ...]]] = {}
    for t, indices in reads_of(stage.op).plain:
        places.setdefault(t, set()).add(tuple(map(id, indices)))
    return any(
        len(at) > 1 and isinstance(t.op, te.ComputeOp) and untouched(s[s.state.of(t).name])
        for t, at in places.items()
    )


def _in_bands(name: str, parallel: bool, where: Where, s: tl.Schedule) -> None:
    """The last of the loops around a vector in bands of rows, of which threads take one at a time."""
    stage = s[name]
    *around, rows, _ = _vector(s, stage, where)
    band = s.sample_tile(
        rows, candidates=BANDS, values=BANDS[1], role="tile", name=s.free_decision(f"band_{name}")
    )
    outer, _ = stage.split(rows, band)
    if parallel:
        stage.parallel(fuse(stage, [*around, outer]))


def _turns(stage: tl.Stage) -> bool:
    """Whether tiles of a stage are transposed, and are known to be large enough."""
    found = None if inside_scan(stage) else transposed(stage.op)
    return (
        found is not None
        and found.every is None
        and min(constant(a.extent) or 0 for a in (found.axis, stage.op.axis[-1])) >= SIDES[0]
    )


def _in_tiles(name: str, parallel: bool, where: Where, s: tl.Schedule) -> None:
    """Rows of a tile are neighbours in what is read, vectors are neighbours in what is written."""
    stage = s[name]
    found = transposed(stage.op)
    assert found is not None
    *outer, last = [a for a in stage.op.axis if a is not found.axis]
    if outer and _in_line(stage, outer[-1], last):
        # rows that lie one after the other are walked as one line: one tail in all, not one a row
        last = stage.fuse(outer.pop(), last)
    side = s.sample_tile(
        found.axis, candidates=SIDES, values=SIDES[-1], role="unroll", name=s.free_decision(f"side_{name}")
    )
    ahead, behind = stage.split(found.axis, side)
    lanes = where.lanes(stage)
    width = s.sample_tile(
        last,
        candidates=[lanes, 2 * lanes],
        values=lanes,
        role="vector",
        name=s.free_decision(f"width_{name}"),
    )
    around, inner = stage.split(last, width)
    stage.reorder(*outer, ahead, around, behind, inner)
    stage.unroll(behind)
    stage.vectorize(inner)
    if parallel:
        stage.parallel(fuse(stage, [*outer, ahead]))


def _in_line(stage: tl.Stage, line: te.IterVar, last: te.IterVar) -> bool:
    """Whether all that is read and written along two neighbouring axes lies there as along one."""
    axes = stage.op.axis
    d = next(n for n, a in enumerate(axes) if a is line)
    n = constant(last.extent)
    if d + 1 >= len(axes) or axes[d + 1] is not last or n is None:
        return False
    for t, indices in reads_of(stage.op).plain:
        at = [k for k, i in enumerate(indices) if i is line.var]
        if not at and not any(i is last.var for i in indices):
            continue
        k = at[0] if len(at) == 1 else len(indices)
        if k + 1 >= len(indices) or indices[k + 1] is not last.var or constant(t.shape[k + 1]) != n:
            return False
    return True


def _vector(s: tl.Schedule, stage: tl.Stage, where: Where) -> list[te.IterVar]:
    """Split the last axis by the width of a vector loop; the loops around it, without one along which most
    of an element is the same: its places are computed together."""
    axes, lanes, beside = list(stage.op.axis), where.lanes(stage), read_again(stage, inlined=True)
    n = constant(axes[-1].extent)
    if n is not None and n < 2:
        return axes[:-1] or axes
    allowed = [lanes * v for v in VECTORS] if n is None else sorted({min(n, lanes * v) for v in VECTORS})
    width = s.sample_tile(
        axes[-1],
        candidates=allowed,
        values=allowed[0],
        role="vector",
        name=s.free_decision(f"width_{stage.name}"),
    )
    outer, inner = stage.split(axes[-1], width)
    stage.vectorize(inner)
    loops = [*(a for a in axes[:-1] if a is not beside), outer]
    if beside is not None:
        stage.reorder(*loops, beside, inner)
        stage.unroll(beside)
    return loops


def share_out(s: tl.Schedule, stage: tl.Stage, loops: list[te.IterVar]) -> None:
    """The outermost loops as one parallel loop: all but the last of them, or chunks of the only one of
    more than one iteration."""
    around = [x for x in loops[:-1] if x.dom is None or constant(x.extent) != 1]
    if around:
        stage.parallel(loops[0] if len(loops) == 2 else stage.fuse(*loops[:-1]))
        return
    chunk = s.sample_tile(
        loops[-1],
        max_factor=MAX_CHUNK,
        values=16,
        role="parallel",
        name=s.free_decision(f"chunk_{stage.name}"),
    )
    outer, _ = stage.split(loops[-1], chunk)
    stage.parallel(outer)
