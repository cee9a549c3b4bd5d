"""Matrix products whose rows or columns are open, both operands given in the call: schedules of register
tiles.

The last block of rows and the last panel of columns begin earlier instead of ending past the whole
(``tail="shift"``): every tile is full, without masks, at the price of sums that are computed twice. That
takes at least one tile of rows and of columns, so a schedule comes with the least sizes it serves. A right
operand that lies column by column is transposed one panel at a time, beside the tiles that read it, and never
leaves the first cache; one that lies row by row is read where it is, or copied so too. Uses public primitives
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Product, constant, cost_of, product_of
from tensorlang.recipes import Axes, Cut, nest, pack, sums

HEIGHTS = 4  # of the tiles of one width
VECTORS = 3  # of the widest tile
TRANSPOSED = 8  # elements of a column that are transposed together
IN_PLACE, PANEL, WHOLE = "", ", a panel copied", ", copied"


@dataclass(frozen=True)
class Tiled:
    """A schedule, the size each dim has at least, and the steps in which it counts them: (dim, step) for each
    axis that is tiled."""

    name: str
    schedule: tl.Schedule
    tensors: list[te.Tensor]
    least: Mapping[str, int]
    steps: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Open:
    """A product stage; its rows and columns are numbers or names of dims."""

    stage: tl.Stage
    product: Product
    rows: int | str
    columns: int | str


def product_stage(s: tl.Schedule) -> Open | None:
    """The one reduction of the schedule, when it is a product of two arguments with open rows or columns."""
    found = [st for st in s.stages if isinstance(st.op, te.ComputeOp) and st.op.reduce_axis]
    product = product_of(found[0].op) if len(found) == 1 else None
    if product is None or product.row is None or product.narrow or len(found[0].op.reduce_axis) != 1:
        return None
    rows, columns = size_of(product.row), size_of(product.column)
    given = all(isinstance(t.op, te.PlaceholderOp) for t in (product.left, product.right))
    if (
        not given
        or rows is None
        or columns is None
        or not (isinstance(rows, str) or isinstance(columns, str))
    ):
        return None
    return Open(found[0], product, rows, columns)


def size_of(axis: te.IterVar) -> int | str | None:
    """A number, the name of a dim, None for anything else."""
    fixed, extent = constant(axis.extent), axis.extent
    return (
        fixed
        if fixed is not None
        else getattr(extent, "name", None)
        if getattr(extent, "kind", None) == "dim"
        else None
    )


def shapes(registers: int, chains: int) -> list[tuple[int, int]]:
    """(rows, vectors) of the tiles that fill the registers and of lower ones, which waste less of few
    rows."""
    result = []
    for vectors in range(1, VECTORS + 1):
        lowest, top = -(-(chains - 1) // vectors), (registers - 1 - vectors) // vectors
        result += (
            [(h, vectors) for h in sorted({round(float(h)) for h in np.geomspace(lowest, top, HEIGHTS)})]
            if lowest <= top
            else []
        )
    return result


def schedules_of(stated: Any, target: tl.Target, constants: Sequence[str], threads: int) -> Iterator[Tiled]:
    """A schedule for each tile that is legal; none when the computation is no such product. ``stated`` makes
    the tensors, with the dims of at least the sizes that it is given."""
    for rows, vectors in shapes(target.vector_registers, cost_of(target).chains):
        tensors: list[te.Tensor] = stated({})
        s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
        found = product_stage(s)
        if found is None or any(t.name in constants for t in (found.product.left, found.product.right)):
            return
        width = vectors * target.vector_lanes(found.stage.op.body[0].dtype)
        least: dict[str, int] = {}
        steps = []
        for n, step in ((found.rows, rows), (found.columns, width)):
            if isinstance(n, str):
                least[n] = max(least.get(n, 0), step)
                steps.append((n, step))
            elif n < step:
                break
        else:
            tensors = stated(least)
            if not tensors:
                continue
            for copied in _copies(found.product, vectors):
                s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
                try:
                    if _apply(s, rows, width, copied, threads):
                        yield Tiled(
                            f"{rows} rows × {vectors} vectors{copied}", s, tensors, least, tuple(steps)
                        )
                except tl.ScheduleError:
                    continue


def _copies(product: Product, vectors: int) -> tuple[str, ...]:
    """How the right operand may be read: rows of a result far apart are better written one after the other,
    from a copy of all panels."""
    whole = (WHOLE,) if vectors > 1 and len(product.right_axes) > 2 else ()
    return (PANEL, *whole) if not product.in_lines else (IN_PLACE, *((PANEL, *whole) if vectors > 1 else ()))


def _apply(s: tl.Schedule, rows: int, width: int, copied: str, threads: int) -> bool:
    """Whether it could be applied."""
    found = product_stage(s)
    outputs = [st for st in s.stages if st.state.is_output]
    if found is None or len(outputs) != 1:
        return False
    stage, out = found.stage, outputs[0]
    if len(out.op.axis) != len(stage.op.axis):
        return False
    for st in s.stages:
        if isinstance(st.op, te.ComputeOp) and st.name not in (out.name, stage.name):
            st.compute_inline()
    inside = s[s.cache_write(out.name, "local")] if stage.name == out.name else stage
    product = product_of(inside.op)
    assert product is not None and product.row is not None
    own = dict(zip(inside.op.axis, out.op.axis, strict=True))
    keep = [a for a in inside.op.axis if a is not product.row and a is not product.column]
    if copied:
        copy = pack(s, inside, product.right, product.right_axes, product.column, None)
    # what is shared out may not overlap
    tail = "shift" if keep or threads == 1 else "auto"
    loops = nest(
        out,
        {
            "b": [own[a] for a in keep[:1]],
            "c": [own[a] for a in keep[1:]],
            "i": own[product.row],
            "j": own[product.column],
        },
        f"{'(b) c' if keep else '(jo)'} {'io jo' if copied == WHOLE else 'jo io' if keep else 'io'} | ii ji",
        {"j": (width, tail), "i": (rows, "shift")},
        parallel=threads > 1,
    )
    axes: Axes = {"b": keep, "k": inside.op.reduce_axis, "i": product.row, "j": product.column}
    sums(s, inside, out, loops.place, axes, "b k | i j")
    if copied:
        *_, deep, lane = copy.op.axis
        copy.compute_at(out, loops.around[-3 if copied == WHOLE else -2])
        transposed, panel = not product.in_lines, "jo" if copied == WHOLE else ""
        order = f"{panel} ko | ki ji" if transposed else f"k {panel} | ji"
        cuts: dict[str, Cut | None] = {
            "j": (width, "shift") if panel else None,
            "k": TRANSPOSED if transposed else None,
        }
        nest(copy, {"k": deep, "j": lane}, order, cuts)
    return True
