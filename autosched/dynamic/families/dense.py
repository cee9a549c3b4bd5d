"""Products with a constant right operand and an open number of rows: micro-kernels of register tiles over one
packed weight, rows cut into balanced blocks by the dispatcher. Knows tiles, curves and the dispatcher's rows.

The depth is not blocked: with 768 columns, depths of 768 and of 3072 run at 95–98 and 93–96 GFLOP/s of 101 on
one thread, at 185–195 and 183–195 on two (Zen 3, 24 to 384 rows), so that blocks of 768 could win 3 %, and
would pay for reading and writing the result four times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tensorlang as tl
from tensorlang.analysis import cost_of

from ..declaration import Declaration
from ..kernel_times import are_seconds, holds, times
from ..micro_kernel import Dense, Tile, dense_of, schedule, tiles
from ..plan import Curve, RowPlans, grid
from .base import Box, Options, Settings

# multiply-adds and blocks of the largest measured call: beyond, time is a line
MEASURED, MOST_BLOCKS = 6e7, 8
# rows: lower limits make blocks that are never the best but for fewer rows than that, which are cut alike
LEAST_LIMIT = 3
BLOCKS = (1, 4)  # at which the widths of one height are compared


def dense(decl: Declaration, box: Box, settings: Settings) -> Options | None:
    """The family, None when the computation is no such product."""
    tensors = decl.tensors
    found = dense_of(tensors, decl.values(tensors))
    if found is None or set(decl.dims) != {found.row}:
        return None
    lanes = decl.target.vector_lanes(tensors[-1].dtype)
    modules: dict[Tile, tl.Module] = {}
    most = box[found.row][1] if settings.closed else decl.dims[found.row].hi
    for tile in tiles(
        decl.target.vector_registers, lanes, found.columns, tl.num_threads(), cost_of(decl.target)
    ):
        if most is not None and tile.rows > max(1, most):  # no call is as high
            break
        made = _build(decl, found, tile, lanes, settings)
        if made is None or made.signature.needs:  # relations of sizes do not hold of single blocks of rows
            return None
        modules[tile] = made
    if not modules:
        return None
    runner = _Runner(decl, found, modules, box[found.row][1])
    what = ["dense", decl.key, [str(t) for t in modules], box[found.row][1]]
    best, curves, notes = _known(runner, settings, what) or _calibrated(runner, settings, what)
    kernels = {h: modules[t] for h, t in best.items()}
    heights = sorted(kernels)
    top = heights[-1]
    limits = [h for h in heights if h >= min(top, LEAST_LIMIT)]

    routes = [tl.Rows(found.row, {h: kernels[h] for h in heights if h <= most}) for most in limits]
    plans = RowPlans(tuple(limits), curves, {h: str(t) for h, t in best.items()})
    declared = decl.dims[found.row]
    signature = kernels[1].signature  # of any number of rows; callers are held to what was declared
    like = replace(
        signature,
        dims=tuple(
            replace(d, lo=declared.lo, hi=declared.hi, multiple_of=declared.multiple_of)
            for d in signature.dims
        ),
    )
    return Options("dense", like, (found.row,), routes, plans, len(limits) - 1, len(modules), notes)


def _build(decl: Declaration, found: Dense, tile: Tile, lanes: int, settings: Settings) -> tl.Module | None:
    d = decl.dims[found.row]
    tensors = decl.stated(
        {
            found.row: {
                "lo": 0,
                "hi": d.hi,
                "multiple_of": tile.rows,
                "hint": settings.opt[found.row] // tile.rows * tile.rows,
            }
        }
    )
    s = schedule(tensors, found, tile, lanes, tl.num_threads())
    if s is None:
        return None
    return tl.build(
        s,
        tensors,
        decl.target,
        name=f"{decl.short_name}_{tile.rows}x{tile.vectors}",
        constants=decl.values(tensors),
    )


class _Runner:
    """Calls of micro-kernels on arrays that are made once."""

    def __init__(self, decl: Declaration, found: Dense, modules: Mapping[Tile, tl.Module], most: int) -> None:
        self.modules = modules
        depth = max(1, math.prod(int(n) for n in next(iter(decl.constants.values())).shape) // found.columns)
        highest = max(t.rows for t in modules)
        self.rows = max(
            highest, min(most, max(highest * MOST_BLOCKS, int(MEASURED // (depth * found.columns))))
        )
        self._arrays = decl.arrays({found.row: self.rows})
        row = decl.dims[found.row]
        self._moves = [t.ndim > 0 and t.shape[0] is row for t in decl.tensors if t.name not in decl.constants]

    def call(self, tile: Tile, blocks: int) -> Any:
        """A call of this many blocks, checked and ready to be repeated."""
        rows = tile.rows * blocks
        args = [a[:rows] if moves else a for a, moves in zip(self._arrays, self._moves, strict=True)]
        entry = self.modules[tile].entry
        return lambda: entry(*args)

    def most(self, tile: Tile) -> int:
        return max(1, self.rows // tile.rows)


def _calibrated(
    runner: _Runner, settings: Settings, what: Any
) -> tuple[dict[int, Tile], dict[int, Curve], tuple[str, ...]]:
    """The best tile of each height and its curve, measured now."""
    first = {(t, n): runner.call(t, n) for t in runner.modules for n in BLOCKS if n <= runner.most(t)}
    seen = times(first, settings.seconds / 3)
    best: dict[int, Tile] = {}
    for h in sorted({t.rows for t in runner.modules}):
        same = [t for t in runner.modules if t.rows == h]
        least = {
            n: min(seen[t, n] for t in same if (t, n) in seen)
            for n in BLOCKS
            if any((t, n) in seen for t in same)
        }
        best[h] = min(same, key=lambda t: sum(seen[t, n] / s for n, s in least.items()))
    chosen = {(h, n): runner.call(t, n) for h, t in best.items() for n in grid(runner.most(t))}
    measured = times(chosen, settings.seconds * 2 / 3)
    curves = {h: _curve({n: s for (g, n), s in measured.items() if g == h}) for h in best}
    settings.tables.write(
        what,
        {
            str(h): {
                "tile": [t.rows, t.vectors, t.block],
                "blocks": curves[h].blocks,
                "seconds": curves[h].seconds,
            }
            for h, t in best.items()
        },
    )
    return best, curves, ()


def _curve(points: Mapping[int, float]) -> Curve:
    """Points in order, without what must be a disturbance: more blocks never take less time than fewer, nor
    more than two calls that share them."""
    blocks = sorted(points)
    seconds = [points[n] for n in blocks]
    for _ in range(2):
        for i, n in enumerate(blocks):
            curve = Curve(tuple(blocks[:i]), tuple(seconds[:i]))
            seconds[i] = min(
                [
                    seconds[i],
                    *(float(curve.at(a) + curve.at(n - a)) for a in blocks[:i] if n - a <= blocks[i - 1]),
                ]
            )
        for i in range(len(seconds) - 2, -1, -1):
            seconds[i] = min(seconds[i], seconds[i + 1])
    return Curve(tuple(blocks), tuple(seconds))


def _known(
    runner: _Runner, settings: Settings, what: Any
) -> tuple[dict[int, Tile], dict[int, Curve], tuple[str, ...]] | None:
    """The same from an earlier run, if its sentinels agree."""
    table = settings.tables.read(what)
    if table is None:
        return None
    try:
        best = {int(h): Tile(*row["tile"]) for h, row in table.items()}
        curves = {int(h): Curve(tuple(row["blocks"]), tuple(row["seconds"])) for h, row in table.items()}
        sound = all(t in runner.modules for t in best.values()) and sorted(best) == list(
            range(1, len(best) + 1)
        )
        sound = sound and all(
            are_seconds(c.seconds)
            and len(c.blocks) == len(c.seconds)
            and all(type(n) is int and n > 0 for n in c.blocks)
            for c in curves.values()
        )
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        settings.tables.misses.append("its contents make no sense")
        return None
    points = [(h, n) for h in (min(best), max(best)) for n in (curves[h].blocks[0], curves[h].blocks[-1])]
    now = times({(h, n): runner.call(best[h], n) for h, n in points}, settings.seconds / 20)
    why = holds([curves[h].seconds[curves[h].blocks.index(n)] for h, n in points], [now[p] for p in points])
    if why:
        settings.tables.misses.append(why)
        return None
    return best, curves, ("times from an earlier run, whose sentinels agree",)
