"""Convolutions by 3×3 kernels, of images or of the planes of volumes, with fewer multiplications:
``s.winograd``, its transforms as vectors of channels, its products as a tiled nest. Knows schedules.

Rounding is another than that of the direct sum (see the primitive): ``SearchTask(without=["winograd"])``
keeps this rule out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, filter_of
from tensorlang.recipes import fuse

from .rule import Answer, Where, iterations, untouched, ways
from .tiled_reduction import Form, tile
from .tiling import BLOCKED

TILES = (4, 2)  # outputs along a side, the one with fewer multiplications first
SIDE = 16  # rows of a register tile that is transposed
FAR = 256  # elements: strides that are multiples of it fall into few sets of the first cache


class Winograd:
    """A convolution becomes transforms and products."""

    name = "winograd"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """For float32 where channels and outputs fill vectors, and the sums are many: the transforms are work
        too."""
        if not untouched(stage) or stage.state.within or iterations(stage) < BLOCKED:
            return Answer.SKIP
        found = filter_of(stage.op)
        if isinstance(found, str) or stage.op.body[0].dtype.name != "float32":
            return Answer.SKIP
        least = min(constant(a.extent) or 0 for a in (found.channels, found.outputs))
        return Answer.APPLY if least >= where.lanes(stage) else Answer.SKIP

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """By tiles of four by four outputs, and of two by two."""
        return ways(s, *[partial(_by_tiles, stage.name, m, where) for m in TILES])


def _by_tiles(name: str, m: int, where: Where, s: tl.Schedule) -> None:
    stage = s[name]
    shared = where.threads(iterations(stage))[0]
    lanes = where.lanes(stage)
    # Lavin and Gray's steps ("Fast Algorithms for Convolutional Neural Networks", CVPR 2016): both operands
    # are transformed, multiplied point by point, and the products transformed back in two steps
    products = s[s.winograd(name, m)]
    data, kernel = [s[s.state.of(t).name] for t in products.op.input_tensors]
    (back,) = [s[r.name] for r in s.state.readers(products.name)]
    (inverse,) = [s[r.name] for r in s.state.readers(back.name)]
    for stage in (data, products):
        _in_line(stage)
    for stage in (data, kernel, products):
        _spread(stage)
    _transform(s, kernel, lanes, shared)
    _transform(s, data, lanes, shared)
    _tile_back(s, back, inverse, m, lanes, shared)
    local = s[s.cache_write(products.name, "local")]
    # axes are the two of a point, a volume's images, the tile, the output channel: for each point a matrix
    # product of tiles by channels
    column = len(products.op.axis) - 1
    tile(s, s[products.name], local, Form(column=column, rows=(column - 1,), parallel=shared), where)


def _in_line(stage: tl.Stage) -> None:
    """The tiles of all planes of a volume, of which products sum several, counted as one axis: a tile of
    registers runs over the end of a plane."""
    if len(stage.op.axis) == 4:  # of images
        return
    plane = constant(stage.op.axis[-2].extent) or 1
    if plane > 1:
        stage.transform_layout(lambda *at: [*at[:-3], at[-3] * plane + at[-2], at[-1]])
    else:
        stage.transform_layout(lambda *at: [*at[:-3], at[-2], at[-3], at[-1]])


def _transform(s: tl.Schedule, stage: tl.Stage, lanes: int, shared: bool) -> None:
    """All points of a tile from a vector of its channels, in registers; what holds the channels elsewhere is
    transposed before."""
    rows = s[s.state.of(stage.op.input_tensors[0]).name]
    a, b, *tiles, last = stage.op.axis
    around, inner = stage.split(last, lanes)
    stage.reorder(*tiles, around, a, b, inner)
    _written_out(stage, (a, b), inner)
    if shared:
        stage.parallel(fuse(stage, tiles))
    rows.compute_at(stage, around)
    *tiles, a, column, last = rows.op.axis
    rows.reorder(*tiles, column, a, last)
    rows.set_scope("local")
    _written_out(rows, (column, a), last)
    source = s[s.state.of(rows.op.input_tensors[0]).name]
    if isinstance(source.op, te.ComputeOp):
        _channels_last(s, source, lanes, shared)


def _channels_last(s: tl.Schedule, stage: tl.Stage, lanes: int, shared: bool) -> None:
    """A copy with channels innermost, in tiles that are transposed in registers: an image row by row, taps of
    a weight in the order in which they lie beside each other."""
    *front, last = stage.op.axis
    if all(constant(a.extent) == 3 for a in front[-2:]):  # of an image these are longer
        *deep, channel, i, j = front
        taps = [channel, *deep, i, j]
        stage.reorder(*taps)
        front = [fuse(stage, taps)]
    along = front.pop()
    ahead, behind = stage.split(along, _side(s, stage, along))
    around, inner = stage.split(last, lanes)
    stage.reorder(*front, ahead, around, behind, inner)
    _written_out(stage, (behind,), inner)
    if shared:
        stage.parallel(fuse(stage, front or [ahead]))


def _side(s: tl.Schedule, stage: tl.Stage, along: te.IterVar) -> te.Expr:
    return s.sample_tile(
        along, candidates=[4, 8, SIDE], values=SIDE, role="unroll", name=s.free_decision(f"side_{stage.name}")
    )


def _tile_back(s: tl.Schedule, rows: tl.Stage, stage: tl.Stage, m: int, lanes: int, shared: bool) -> None:
    """All outputs of a tile from a vector of the products."""
    *batch, y, x, last = stage.op.axis
    (high, i), (wide, j), (around, inner) = stage.split(y, m), stage.split(x, m), stage.split(last, lanes)
    stage.reorder(*batch, high, wide, around, i, j, inner)
    _written_out(stage, (i, j), inner)
    if shared:
        stage.parallel(fuse(stage, [*batch, high]))
    rows.compute_at(stage, around)
    *batch, y, x, column, last = rows.op.axis
    rows.reorder(*batch, x, column, y, last)
    rows.set_scope("local")
    _written_out(rows, (column, y), last)


def _written_out(stage: tl.Stage, loops: Iterable[te.IterVar], inner: te.IterVar) -> None:
    for loop in loops:
        stage.unroll(loop)
    stage.vectorize(inner)


def _spread(stage: tl.Stage) -> None:
    """Rows of points one line further apart where their stride would have them meet in the first cache."""
    _, b, *within = stage.op.axis
    if math.prod(constant(axis.extent) or 1 for axis in within) % FAR == 0:
        stage.storage_align(b, FAR, SIDE)
