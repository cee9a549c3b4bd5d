"""Products of rows in groups, each with a matrix of its own, as experts of a mixture are computed. Knows what
products share; no other operator.

Where a group ends is data. Rows are computed in tiles of a known height, each within one group, so that the
matrix of a group is read once for a tile and not once for a row; how many tiles there are at most follows
from the sizes alone. A group whose rows do not fill its last tile computes the last row again.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..core.dtype import INT32, DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .matmul import accumulator, rounded
from .places import kept_within
from .take import indices_of

__all__ = ["grouped_matmul"]

TILE = 8  # rows: as many as keep the arithmetic busy for each element of a matrix that is read


def grouped_matmul(x: Tensor, w: Tensor, ends: Tensor, out_dtype: str | DType | None = None) -> Tensor:
    """Rows ``x`` [S, K] that lie in G groups one behind the other, each multiplied by the matrix of its
    group: ``w`` [G, K, N], and ``ends`` [G] has the row behind each group, never less than that of the one
    before. A group may have no rows. Rows behind the last group give 0. Types as for :func:`matmul`.

    Raises DeclareError for ranks and sizes that do not fit, and for ends that are no integers.

    >>> x, w = te.placeholder((10, 4), name="x"), te.placeholder((3, 4, 5), name="w")
    >>> ops.grouped_matmul(x, w, te.placeholder((3,), "int64", name="ends"))
    Tensor(grouped_matmul: float32[10, 5])
    """
    op = "grouped_matmul"
    x, w, ends = inputs.tensor(op, x, "x"), inputs.tensor(op, w, "w"), indices_of(op, ends, "ends")
    for t, rank, what in ((x, 2, "[rows, K]"), (w, 3, "[groups, K, N]"), (ends, 1, "[groups]")):
        if t.ndim != rank:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), {rank} are needed",
                because=f"it is {what}",
            )
    rows, depth = x.shape
    groups, _, columns = w.shape
    inputs.same_size(op, f"K of {w.name}", w.shape[1], depth, f"{inputs.named(x)} is multiplied by it")
    inputs.same_size(op, "the size of ends", ends.shape[0], groups, f"{inputs.named(w)} has a group for each")
    inside, out = accumulator(op, x.dtype, w.dtype, out_dtype)

    end = lambda g: te.cast(INT32, ends(g))
    begin = inputs.stage(
        "begin", tags.INJECTIVE, (groups,), lambda g: te.if_then_else(g > 0, end(te.max(g - 1, 0)), 0)
    )
    needed = lambda g: te.floordiv(te.max(end(g) - begin(g), 0) + (TILE - 1), TILE)
    count = inputs.stage("tiles_of", tags.INJECTIVE, (groups,), needed)
    before = te.reduce_axis((0, groups), "before")
    until = lambda g: te.sum(te.select(before <= g, count(before), 0), axis=before)
    last = inputs.stage("last", tags.REDUCE, (groups,), until)  # the tile behind those of each group
    # a group of n rows has at most (n - 1) / TILE + 1 tiles, and none without rows
    tiles = te.min(rows, te.floordiv(rows, TILE) + groups)
    of_tile = _passed("of_tile", tiles, last)
    of_row = _passed("of_row", rows, inputs.stage("end", tags.INJECTIVE, (groups,), end))

    def row(t: Any, r: Any) -> Expr:
        g = kept_within(of_tile(t), groups)
        return kept_within(begin(g) + (te.cast(INT32, t) - last(g) + count(g)) * TILE + r, rows)

    taken = inputs.stage("taken", tags.INJECTIVE, (tiles, TILE, depth), lambda t, r, k: x(row(t, r), k))
    k = te.reduce_axis((0, depth), "k")

    def product(t: Any, r: Any, n: Any) -> Expr:
        own = w(kept_within(of_tile(t), groups), k, n)
        return te.sum(te.cast(inside, taken(t, r, k)) * te.cast(inside, own), axis=k)

    total = inputs.stage("tiles", tags.REDUCE, (tiles, TILE, columns), product)

    def element(s: Any, n: Any) -> Expr:
        g = kept_within(of_row(s), groups)
        own = te.cast(INT32, s) - begin(g)
        tile = last(g) - count(g) + te.floordiv(own, TILE)
        value = total(kept_within(tile, tiles), te.floormod(own, TILE), n)
        return te.if_then_else(of_row(s) < groups, value, make.const(0, inside))

    return rounded(op, inputs.stage(op, tags.INJECTIVE, (rows, columns), element), out)


def _passed(name: str, size: ExprLike, ends: Tensor) -> Tensor:
    """How many of ``ends`` are at or before each place: the group in which it lies."""
    e = te.reduce_axis((0, ends.shape[0]), "e")
    passed = lambda i: te.select(ends(e) <= te.cast(INT32, i), make.const(1, INT32), make.const(0, INT32))
    return inputs.stage(name, tags.REDUCE, (size,), lambda i: te.sum(passed(i), axis=e))
