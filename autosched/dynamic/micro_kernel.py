"""Register tiles of matrix products, one family for each (rows, vectors): which there are, and their
schedules. Knows te and schedules; does not run, measure or choose.

A kernel of the family h × v takes any number of rows that is a multiple of h. All families read the same copy
of the weight, in panels one vector wide, so it is packed once. Panels of 16 lanes instead lose nothing with
two vectors of 8, but then a tile of 3 × 3 vectors, the best of its height, does not exist (measured on Zen 3:
3 × 2 vectors 75, 3 × 3 93 of 101 GFLOP/s).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import ROOFLINE, Cost, Product, constant, product_of
from tensorlang.recipes import Axes, nest, pack, sums

WIDEST = 8  # vectors of a tile


@dataclass(frozen=True)
class Tile:
    """``rows`` × ``vectors`` sums in registers; ``block`` columns are finished before the next begin."""

    rows: int
    vectors: int
    block: int

    def __str__(self) -> str:
        return f"{self.rows}×{self.vectors}v/{self.block}"


def tiles(
    registers: int, lanes: int, columns: int, threads: int = 1, table: Cost = ROOFLINE
) -> Iterator[Tile]:
    """The tiles worth measuring: sums, a row of vectors and one broadcast fit the registers, and of each
    height the widest two, which need the fewest loads a multiply-add; heights that leave too few chains
    whatever their width are measured too, since few rows have no others."""
    wide = -(-columns // lanes)
    for rows in range(1, registers):
        fits = [
            v
            for v in range(1, WIDEST + 1)
            if rows * v + (v if rows > 1 else 1) + 1 <= registers and v <= wide
        ]
        if rows * max(fits, default=0) < table.chains and rows > 1 and wide >= WIDEST:
            break
        for v in fits[-2:]:
            if rows * v >= table.chains or v == fits[-1]:
                yield Tile(rows, v, _block(columns, v * lanes, threads, table.block_columns))


def _block(columns: int, width: int, threads: int, most: int) -> int:
    """Columns of a block, whole tiles, the blocks nearly equal; as many for each thread, for they are what is
    shared out: three blocks for two threads ran at two thirds of the speed of four."""
    tiles_ = -(-columns // width)
    blocks = max(1, round(tiles_ * width / most))
    return -(-tiles_ // min(-(-blocks // threads) * threads, tiles_)) * width


@dataclass(frozen=True)
class Dense:
    """A product ``out[m, n]`` of rows that no other row depends on, with whatever follows computed in its
    tile."""

    row: str
    columns: int
    product: str
    out: str


def dense_of(tensors: list[te.Tensor], constants: dict[te.Tensor, object]) -> Dense | None:
    """The matrix product of a computation with one output, an open number of rows and a constant right
    operand; None for any other."""
    outputs = [t for t in tensors if not isinstance(t.op, te.PlaceholderOp)]
    if len(outputs) != 1 or outputs[0].ndim != 2:
        return None
    out = outputs[0]
    rows, columns = out.shape[0], constant(out.shape[1])
    s = tl.create_schedule(outputs)
    found = [(st, p) for st in s.stages if (p := _product(st)) is not None]
    reduced = [st for st in s.stages if isinstance(st.op, te.ComputeOp) and st.op.reduce_axis]
    if (
        len(found) != 1
        or len(reduced) != 1
        or columns is None
        or columns == 0
        or getattr(rows, "kind", None) != "dim"
    ):
        return None
    stage, product = found[0]
    if (
        product.right not in constants
        or product.row is None
        or len(stage.op.axis) != 2
        or len(stage.op.reduce_axis) != 1
        or product.narrow
    ):
        return None
    depth = constant(stage.op.reduce_axis[0].extent)
    mine = product.left.op
    if (
        depth is None
        or depth == 0
        or not isinstance(mine, te.PlaceholderOp)
        or product.left_axes.get(product.row) != 0
    ):
        return None
    if not (stage.op.axis[0].extent is rows and constant(stage.op.axis[1].extent) == columns):
        return None
    for t in (
        tensors
    ):  # rows are cut by moving pointers: each argument has the dim as its first axis or not at all
        if any(_mentions(n, rows) for n in t.shape[1:]) or (
            t.ndim and t.shape[0] is not rows and _mentions(t.shape[0], rows)
        ):
            return None
    return Dense(str(rows), columns, stage.name, s[out].name)


def _product(stage: tl.Stage) -> Product | None:
    return product_of(stage.op) if isinstance(stage.op, te.ComputeOp) else None


def _mentions(size: object, dim: object) -> bool:
    children = getattr(size, "children", None)
    return size is dim or any(_mentions(c, dim) for c in (children() if children is not None else ()))


def schedule(
    tensors: list[te.Tensor], dense: Dense, tile: Tile, lanes: int, threads: int
) -> tl.Schedule | None:
    """The schedule of a family; None when what follows the product cannot be computed in its tile. The dim of
    the rows is a multiple of ``tile.rows``."""
    s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
    for stage in s.stages:
        if isinstance(stage.op, te.ComputeOp) and not stage.op.reduce_axis and stage.name != dense.out:
            if not s.can("compute_inline", stage.name):
                return None
            stage.compute_inline()
    out = s[dense.out]
    inside = s[s.cache_write(out.name, "local")] if dense.product == dense.out else s[dense.product]
    product = product_of(inside.op)
    assert product is not None and product.row is not None
    copy = pack(s, inside, product.right, product.right_axes, product.column, lanes)
    copy.vectorize(copy.op.axis[-1])
    i, j = out.op.axis
    width = lanes * tile.vectors
    blocks = tile.block // width if tile.block < dense.columns else None
    # panels are a vector wide, and so are the loops of a tile
    loops = nest(
        out,
        {"i": i, "j": j},
        "(joo) io joi | ii jio jii" if blocks else "(io) jo | ii jio jii",
        {"i": tile.rows, "j": width, "jo": blocks, "ji": lanes},
        parallel=threads > 1,
    )
    axes: Axes = {"k": inside.op.reduce_axis, "i": product.row, "j": product.column}
    sums(s, inside, out, loops.place, axes, "k | i jo ji", {"j": lanes})
    return s
