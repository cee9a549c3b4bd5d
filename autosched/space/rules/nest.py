"""The tiled nest of a reduction: structural choices as data, and the schedule calls they stand for. Knows
schedules; decides nothing.

The levels are Ansor's (section 4.1): SSRSRS has two levels of tiles around the reduction, the outer part of
the reduction, a level of tiles, the inner part of the reduction, and the innermost tile, whose rows are
unrolled and whose columns are one vector loop. SSRS is the same without the level in between: its tile stays
in registers for the whole reduction (Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, reads_of

from .rule import Where

WIDTHS = (1, 2, 3, 4, 6, 8)  # vectors of a tile when its width is free
MAX_ROWS = 16
MAX_BLOCK = 64
MAX_UNROLL = 8
MAX_TAPS = 8  # turns of a small reduction loop, such as those over a window
TURNED = 8  # rows of an operand that are turned into a panel side by side


@dataclass(frozen=True, slots=True)
class Form:
    """The structural decisions of a nest: ``column`` is the axis in the vector, ``rows`` the axes of the
    register tile, ``panel`` the vectors of a panel of the packed operand (0: it is read where it lies),
    ``at_root`` whether the panels are all made beforehand, ``column_first`` whether blocks of columns go
    around blocks of rows, ``taps`` whether small reduction loops are written out, ``levels`` SSRS or SSRSRS,
    ``merged`` whether the last two axes are tiled as one, ``parallel`` whether the outermost loops are shared
    out, ``by_rows`` whether those are only the ones around blocks of rows, so that what a block reads can be
    computed in its turn."""

    column: int
    rows: tuple[int, ...]
    panel: int = 0
    at_root: bool = False
    column_first: bool = False
    taps: bool = False
    levels: str = "SSRS"
    merged: bool = False
    parallel: bool = True
    by_rows: bool = False


def tile(s: tl.Schedule, out: tl.Stage, inside: tl.Stage, form: Form, where: Where) -> None:
    """Compute the reduction ``inside`` in tiles of ``out``, which has its shape and reads it at its own
    place.

    Raises ScheduleError when the structure is not legal here.
    """
    lanes = where.lanes(inside)
    n = len(inside.op.axis)
    column = form.column
    copy = _panels(s, inside, column, lanes * form.panel) if form.panel else None
    # dimensions of the tile in the order they lie in its buffer: the column last, the last two of the others
    # as one when they are merged
    groups: list[tuple[int, ...]] = [(d,) for d in range(n) if d != column]
    rows = [g for g in groups if g[0] in form.rows]
    if form.merged:
        groups[-2:] = [groups[-2] + groups[-1]]
        rows = [groups[-1], *[g for g in rows if g[0] not in groups[-1]]]
    if groups != [(d,) for d in range(n - 1)]:
        extents = [constant(a.extent) for a in inside.op.axis]
        inside.transform_layout(
            lambda *at: [
                *[at[g[0]] if len(g) == 1 else at[g[0]] * extents[g[1]] + at[g[1]] for g in groups],
                at[column],
            ]
        )
    own = dict(zip([*groups, (column,)], inside.op.axis, strict=True))

    axes = list(out.op.axis)
    loops = {g: axes[g[0]] if len(g) == 1 else out.fuse(*[axes[d] for d in g]) for g in groups}
    blocked = form.levels == "SSRSRS"
    inner, middle, outer = {}, {}, {}
    for g in rows:
        rest, inner[g] = out.split(
            loops[g],
            _knob(
                s,
                loops[g],
                MAX_ROWS * (4 if blocked else 1),
                6 if len(rows) == 1 else 4 if g == rows[0] else 1,
            ),
        )
        outer[g], middle[g] = out.split(rest, _knob(s, rest, MAX_BLOCK, 8, "block"))
    width = lanes * form.panel if form.panel else _width(s, axes[column], lanes, 4 if blocked else 2)
    rest, ji = out.split(axes[column], width)
    jq, jo = out.split(rest, _knob(s, rest, MAX_BLOCK, 8, "block"))
    around = [loops[g] for g in groups if g not in rows]
    blocks = [outer[g] for g in groups if g in rows]
    orders = {
        "panels": [*around, jq],
        "rows": [*around, *blocks],
        "columns first": [*around, jq, *blocks],
        "rows first": [*around, *blocks, jq],
    }
    shared = orders[
        "panels"
        if copy is not None and not form.at_root
        else "rows"
        if form.by_rows
        else "columns first"
        if form.column_first
        else "rows first"
    ]
    rest_of = [b for b in [*blocks, jq] if not any(b is x for x in shared)]
    last = rows[-1] if rows else None
    # neighbours in memory are rows of the tile: it is turned as it is written
    turned = column != n - 1 and last is not None
    tile_loops = [inner[g] for g in groups if g in rows and not (turned and g == groups[-1])]
    tile_loops = [*tile_loops, ji, inner[groups[-1]]] if turned and groups[-1] in inner else [*tile_loops, ji]
    out.reorder(*shared, *rest_of, *[middle[g] for g in groups if g in rows], jo, *tile_loops)
    if not blocked:
        for loop in tile_loops[:-1]:
            out.unroll(loop)
    out.vectorize(tile_loops[-1])
    place = shared[0] if len(shared) == 1 else out.fuse(*shared)
    if form.parallel:
        out.parallel(place)
    inside.compute_at(out, jo)
    if inside.state.scope != "local":
        inside.set_scope("local")
    _inside(s, inside, [own[g] for g in groups if g in rows], own[(column,)], form, lanes)
    if copy is not None:
        _copy(copy, out, None if form.at_root else place, form.parallel, len(inside.op.reduce_axis))


def _inside(
    s: tl.Schedule, inside: tl.Stage, rows: list[te.IterVar], column: te.IterVar, form: Form, lanes: int
) -> None:
    """The loops of the reduction in its tile."""
    reduce = list(inside.op.reduce_axis)
    main = max(reduce, key=lambda a: constant(a.extent) or 1 << 20)
    small = [a for a in reduce if a is not main and (constant(a.extent) or MAX_TAPS + 1) <= MAX_TAPS]
    large = [a for a in reduce if a is not main and not any(a is b for b in small)]
    others = [a for a in inside.op.axis if a is not column and not any(a is r for r in rows)]
    if form.levels == "SSRSRS":
        ko, ki = inside.split(main, _knob(s, main, 512, 64, "depth"))
        between, innermost = [], []
        for r in rows:
            a, b = inside.split(
                r, _knob(s, r, MAX_ROWS, 6 if len(rows) == 1 else 3, "register", role="unroll")
            )
            between.append(a)
            innermost.append(b)
        co, ci = inside.split(column, _width(s, column, lanes, 2))
        inside.reorder(*others, *large, ko, *between, co, *small, ki, *innermost, ci)
    else:
        ko, ki = inside.split(main, _knob(s, main, MAX_UNROLL, 1, "unroll", role="unroll"))
        innermost, ci = rows, column
        inside.reorder(*others, *large, ko, *small, ki, *innermost, ci)
        inside.unroll(ki)
    for loop in innermost:
        inside.unroll(loop)
    if form.taps:
        for loop in small:
            inside.unroll(loop)
    inside.vectorize(ci)


def _panels(s: tl.Schedule, inside: tl.Stage, column: int, width: int) -> tl.Stage:
    """A copy of the operand that has the column, in panels of that width: the other data dimensions, the
    panel, the reduction, the column."""
    axis = inside.op.axis[column]
    tensor, places = packable(inside, axis)  # type: ignore[misc]
    copy = s[s.cache_read(tensor, "global", [inside.name])]
    deep = [places[a] for a in inside.op.reduce_axis if a in places]
    front = [d for a, d in places.items() if a.kind != "reduce" and a is not axis]
    at_column = places[axis]
    copy.transform_layout(
        lambda *at: [
            *[at[d] for d in front],
            at[at_column] // width,
            *[at[d] for d in deep],
            at[at_column] % width,
        ]
    )
    return copy


def _copy(copy: tl.Stage, out: tl.Stage, place: te.IterVar | None, parallel: bool, deep: int) -> None:
    *others, lane = copy.op.axis
    source = reads_of(copy.op)
    if source.along(lane):
        panel = others.pop(len(others) - 1 - deep)
        copy.reorder(*others, panel, lane)  # whole lines are read one after the other
    else:
        copy.unroll(copy.split(others[-1], TURNED)[1])
    copy.vectorize(lane)
    if place is not None:
        copy.compute_at(out, place)
    elif parallel:
        copy.parallel(copy.leaf_iter_vars[0])


def packable(inside: tl.Stage, column: te.IterVar) -> tuple[te.Tensor, dict[te.IterVar, int]] | None:
    """The one operand that moves with ``column``, when each of its indices is an axis by itself; with the
    dimension of each axis."""
    by_var = {a.var: a for a in (*inside.op.axis, *inside.op.reduce_axis)}
    reads = reads_of(inside.op)
    found = [read for read, moves in zip(reads.plain, reads.everywhere, strict=True) if column.var in moves]
    if len(found) != 1:
        return None
    tensor, indices = found[0]
    axes = [by_var[i] for i in indices if i in by_var]  # type: ignore[index]
    places = {a: d for d, a in enumerate(axes)}
    return (tensor, places) if len(places) == len(indices) else None


def _knob(
    s: tl.Schedule, loop: te.IterVar, most: int, usual: int, what: str = "tile", role: str = "tile"
) -> te.Expr:
    extent = constant(loop.extent) if loop.dom is not None else None
    return s.sample_tile(
        loop,
        max_factor=most,
        values=max(1, min(usual, extent or usual)),
        name=s.free_decision(f"{what}_{loop.name}"),
        role=role,
    )


def _width(s: tl.Schedule, loop: te.IterVar, lanes: int, vectors: int) -> te.Expr:
    """The width of a vector loop: whole vectors, half a vector, or all of a short axis."""
    extent = constant(loop.extent) if loop.dom is not None else None
    allowed = [max(1, lanes // 2), *[lanes * v for v in WIDTHS]]
    usual = lanes * vectors
    if extent is not None:
        allowed = sorted({min(w, extent) for w in allowed})
        usual = min(usual, extent)
    return s.sample_tile(
        loop, candidates=allowed, values=usual, name=s.free_decision(f"width_{loop.name}"), role="vector"
    )
