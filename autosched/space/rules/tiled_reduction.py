"""The tiled nest of a reduction: structural choices as data, and the schedule calls they stand for. Knows
schedules; decides nothing.

The levels are Ansor's (section 4.1): SSRSRS has two levels of tiles around the reduction, the outer part of
the reduction, a level of tiles, the inner part of the reduction, and the innermost tile, whose rows are
unrolled and whose columns are one vector loop. SSRS is the same without the level in between: its tile stays
in registers for the whole reduction (Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34, 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, reads_of
from tensorlang.recipes import Axes, Cut, fill, fuse, nest, pack, sums

from .rule import Where

WIDTHS = (1, 2, 3, 4, 6, 8)  # vectors of a tile when its width is free
MAX_ROWS = 16
KEPT_FREE = 4  # registers of a tile's first guess for other things than its sums
MAX_BLOCK = 64
MAX_UNROLL = 8
MAX_TAPS = 8  # iterations of a small reduction loop, such as those over a window
TRANSPOSED = 8  # rows of an operand that are transposed into a panel side by side


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
    if form.panel:
        tensor, places = packable(inside, inside.op.axis[column])  # type: ignore[misc]
        copy = pack(s, inside, tensor, places, inside.op.axis[column], lanes * form.panel)
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
    # rows of the tile are p, q, … in the order of their knobs
    names = dict(zip(rows, "pq", strict=False))
    tiled = [names[g] for g in groups if g in names]
    fused = {g: fuse(out, [out.op.axis[d] for d in g]) for g in groups}
    axes: Axes = {"b": [fused[g] for g in groups if g not in names], "j": out.op.axis[column]}
    axes |= {names[g]: fused[g] for g in names}
    blocked = form.levels == "SSRSRS"
    fits = _fitting(where)
    # in SSRSRS this tile is cut again: it holds several that fit the registers
    high, usual = MAX_ROWS * (4 if blocked else 1), fits if len(rows) == 1 else -(-fits * 2 // 3)
    block = partial(_knob, s, most=MAX_BLOCK, usual=8, what="block")
    cuts: dict[str, Cut | None] = {}
    for r in names.values():
        cuts |= {r: partial(_knob, s, most=high, usual=usual if r == "p" else 1), r + "o": block}
    cuts["j"] = lanes * form.panel or partial(_width, s, lanes=lanes, vectors=4 if blocked else 2)
    cuts["jo"] = block
    order = _around(form, tiled)
    tile_loops = [*[r + "i" for r in tiled], "ji"]
    if column != n - 1 and groups[-1] in names:
        # neighbours in memory are rows of the tile: it is transposed as it is written
        tile_loops.append(tile_loops.pop(-2))
    order = f"{order} {' '.join(r + 'oi' for r in tiled)} joi | {' '.join(tile_loops)}"
    loops = nest(out, axes, order, cuts, parallel=form.parallel, unroll=not blocked)
    own = dict(zip([*groups, (column,)], inside.op.axis, strict=True))
    _sums(
        s,
        inside,
        out,
        loops.place,
        {names[g]: own[g] for g in groups if g in names},
        own[(column,)],
        form,
        where,
    )
    if form.panel:
        fill(copy, len(inside.op.reduce_axis), TRANSPOSED)
        if not form.at_root:
            copy.compute_at(out, loops.around[0])
        elif form.parallel:
            # all panels beforehand: one thread alone would make the others wait for them
            copy.parallel(copy.leaf_iter_vars[0])


def _around(form: Form, tiled: Sequence[str]) -> str:
    """The loops around the tile, parallel ones in brackets: a panel that is made in them belongs to one block
    of columns, so its loop is outside the rows that share it."""
    blocks = " ".join(r + "oo" for r in tiled)
    if form.panel and not form.at_root:
        return f"(b joo) {blocks}"
    if form.by_rows:
        return f"(b {blocks}) joo"
    return f"(b joo {blocks})" if form.column_first else f"(b {blocks} joo)"


def _sums(
    s: tl.Schedule,
    inside: tl.Stage,
    out: tl.Stage,
    place: te.IterVar,
    rows: dict[str, te.IterVar],
    column: te.IterVar,
    form: Form,
    where: Where,
) -> None:
    """The loops of the reduction in its tile."""
    lanes, fits = where.lanes(inside), _fitting(where)
    reduce = list(inside.op.reduce_axis)
    # an open size counts as the largest: it is the one a search cannot write out
    main = max(reduce, key=lambda a: constant(a.extent) or 1 << 20)
    small = [a for a in reduce if a is not main and (constant(a.extent) or MAX_TAPS + 1) <= MAX_TAPS]
    large = [a for a in reduce if a is not main and not any(a is b for b in small)]
    tile = [column, *rows.values()]
    others = [a for a in inside.op.axis if not any(a is r for r in tile)]
    axes: Axes = {"b": others, "l": large, "k": main, "t": small, "j": column, **rows}
    cuts: dict[str, Cut | None]
    if form.levels == "SSRSRS":
        usual = fits if len(rows) == 1 else fits // 2
        cuts = {"k": partial(_knob, s, most=512, usual=64, what="depth")}
        cuts |= {
            r: partial(_knob, s, most=MAX_ROWS, usual=usual, what="register", role="unroll") for r in rows
        }
        cuts["j"] = partial(_width, s, lanes=lanes, vectors=2)
        order = f"b l ko {' '.join(r + 'o' for r in rows)} jo t ki | {' '.join(r + 'i' for r in rows)} ji"
    else:
        cuts = {"k": partial(_knob, s, most=MAX_UNROLL, usual=1, what="unroll", role="unroll")}
        order = f"b l ko t | ki {' '.join(rows)} j"
    sums(s, inside, out, place, axes, order, cuts)
    for loop in small if form.taps else ():
        inside.unroll(loop)


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
    # fewer: some index is a sum of axes, or two are by the same axis, and a panel has no dimension for that
    return (tensor, places) if len(places) == len(indices) else None


def _fitting(where: Where) -> int:
    """Rows of two vectors whose sums stay in registers: 6 where there are 16 registers, 14 where 32."""
    return (where.target.vector_registers - KEPT_FREE) // 2


def _knob(
    s: tl.Schedule, loop: te.IterVar, *, most: int, usual: int, what: str = "tile", role: str = "tile"
) -> te.Expr:
    extent = constant(loop.extent) if loop.dom is not None else None
    return s.sample_tile(
        loop,
        max_factor=most,
        values=max(1, min(usual, extent or usual)),
        name=s.free_decision(f"{what}_{loop.name}"),
        role=role,
    )


def _width(s: tl.Schedule, loop: te.IterVar, *, lanes: int, vectors: int) -> te.Expr:
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
