"""Copies that change the order of elements: transposes and changes of layout. Read along one axis, written
along another, tile by tile: rows of a tile are neighbours in the source, vectors are neighbours in the
result, and the code generator transposes the tile in registers. Where both do not fit the caches a block is
transposed in the first cache and written in long rows. Uses public primitives only.
"""

from __future__ import annotations

from ..analysis import Transposition, constant, cost_of, reads_of, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import size, stream_stores, work

BLOCK = 64  # rows and columns of a block that is transposed in the first cache, in elements of 4 bytes
ALIAS = 4096  # bytes: rows this far apart meet in the same lines of the first cache
# rows of the source from which on walking down a column of tiles waits for addresses, as rows lie in pages of
# their own, and walking along a row of tiles does not, if they are as long. Measured (Emerald Rapids): 300 ×
# 330 and 1000 × 1500 take 0.7 and 0.55 of the time, 256 × 4000 the same, 160 × 2000 1.2
MANY_ROWS = 192


def transpose_in_tiles(s: Schedule, stage: Stage, transposition: Transposition, target: Target) -> None:
    """Schedule a stage for which ``analysis.transposed`` found ``transposition``."""
    op = stage.op
    bytes_each = op.body[0].dtype.bytes
    lanes = target.vector_lanes(op.body[0].dtype)
    last, along = op.axis[-1], transposition.axis
    outer = [a for a in op.axis if a is not last and a is not along]
    iterations = work(stage)
    fixed = all(size(a) is not None for a in op.axis)
    block = BLOCK * 4 // bytes_each if bytes_each > 4 else BLOCK
    blocked = (
        fixed
        and transposition.every is None
        and 2 * iterations * bytes_each >= target.l3_bytes
        and min(size(last) or 0, size(along) or 0) >= 2 * block
        and s.can("cache_write", stage.name, "local")
    )
    if blocked:
        _in_blocks(s, stage, outer, along, block, lanes, target)
        return
    far_source = fixed and _aliases(_source_row(stage, last), bytes_each)
    far_result = fixed and _aliases(typical(last.extent, 0), bytes_each)
    along_rows = far_source if far_source != far_result else fixed and _many_long_rows(stage, last, along)
    # of both sides, or else the code of a tile is very long
    long = 2 * lanes if fixed and bytes_each >= 4 else lanes
    high = min(transposition.every or (lanes if far_source or far_result else long), 16)
    wide = lanes if along_rows else long
    if (size(last) or 1) % wide or (size(along) or 1) % high:
        wide = min(wide, 16)  # nor in the copy of the tile with masks
    shared = cost_of(target).shared(iterations)
    jo, ji = _tiles(stage, last, wide, shared and along_rows)
    io, ii = _tiles(stage, along, high, (shared and not along_rows) or transposition.every is not None)
    order = [jo, io] if along_rows else [io, jo]
    stage.reorder(*outer, *order, ii, ji)
    stage.unroll(ii)
    stage.vectorize(ji)
    if shared:
        loops = [*outer, order[0]]
        stage.parallel(loops[0] if len(loops) == 1 else stage.fuse(*loops))


def _tiles(stage: Stage, axis: IterVar, high: int, parallel: bool) -> tuple[IterVar, IterVar]:
    """The loops over tiles and in a tile. A rest is a tile that overlaps the one before, unless tiles are
    shared out: the other copy of a tile, with masks, took LLVM longer than all else (1000 × 1000: 250 ms)."""
    n = size(axis)
    if n is None or n <= high or n % high == 0 or parallel:
        return stage.split(axis, high if n is None else min(high, n))
    return stage.split(axis, high, tail="shift")


def _in_blocks(
    s: Schedule, stage: Stage, outer: list[IterVar], along: IterVar, block: int, lanes: int, target: Target
) -> None:
    """A block is read in whole lines and transposed into a buffer, which is written row by row."""
    places = [list(stage.op.axis).index(a) for a in (*outer, along)]
    kept = s[s.cache_write(stage.name, "local")]
    *_, last = stage.op.axis
    *outer, along = [stage.op.axis[d] for d in places]
    io, ii = stage.split(along, block)
    jo, ji = stage.split(last, block)
    stage.reorder(*outer, io, jo, ii, ji)
    _, wide = stage.split(ji, min(block, 4 * lanes))
    stage.vectorize(wide)
    loops = [*outer, io]
    kept.compute_at(stage, jo)
    shared = loops[0] if len(loops) == 1 else stage.fuse(*loops)
    stage.parallel(shared)
    stream_stores(stage, shared, target)
    own = list(kept.op.axis)
    row, column = own[places[-1]], own[-1]
    ro, ri = kept.split(row, lanes)
    co, ci = kept.split(column, lanes)
    kept.reorder(*[a for a in own if a is not row and a is not column], co, ro, ri, ci)
    kept.unroll(ri)
    kept.vectorize(ci)


def _source_row(stage: Stage, last: IterVar) -> int:
    """Elements of the source between neighbours along the last axis of the result; 0 when it is not a plain
    index."""
    for tensor, indices in reads_of(stage.op).plain:
        for d, i in enumerate(indices[:-1]):
            if i is last.var:
                step = 1
                for n in tensor.shape[d + 1 :]:
                    step *= constant(n) or 0
                return step
    return 0


def _many_long_rows(stage: Stage, last: IterVar, along: IterVar) -> bool:
    """Whether the source has many rows, one for each element along ``last``, as long or longer."""
    rows = size(last) or 0
    return stage.op.body[0].dtype.bytes >= 4 and MANY_ROWS <= rows <= (size(along) or 0)


def _aliases(elements: int, bytes_each: int) -> bool:
    return elements > 0 and elements * bytes_each % ALIAS == 0
