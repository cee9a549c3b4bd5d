"""Reductions over axes before the last one, as a sum over the rows of a matrix: rows are read as they lie in
memory and added, some at a time, to a strip of partial results that stays in the first cache. Threads take
groups of rows, which are one stretch of memory each (measured from 6 to 64 MiB: 1.4 times as fast as strips
of columns, on one thread and on two), or strips of columns where the rows are few. Uses public primitives
only.
"""

from __future__ import annotations

import math

from ..analysis import cost_of, reduces_columns, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from . import few_columns
from .as_one import elements_of, one_stretch
from .choices import at_most
from .common import far_inputs, size, work
from .integers import is_little
from .register_tile import even

ROWS = 8  # read for each time the partial results are read and written
# the same of a sum that is little beside a product: each rest of an open number of rows is code of its own
FEW_ROWS = 4
EVEN = 16  # rows for each thread, from which on one more for some of them makes no difference
OPEN_ROWS = 64  # of a group, of a number of rows that is open: to add up the groups takes a 64th of the time
# vectors of partial results that stay in registers from the first row to the last, as a share of the
# registers. Measured (Zen 4): 1625 rows of 21 take 0.55 of the time that they take in memory, 4000 of 64
# 0.92, 10,000 of 160 0.84, 5000 of 256 0.85, 2000 of 144 1.01, from memory 40,000 of 200 0.44, 63,205 of 152
# 0.45; on two threads, whose results may share a line of the caches, 50,000 rows of 24 0.36, 2000 of 100 0.75
# The processor sees such a stretch coming: asked for ahead, 138,458 rows of 96 to 128 take 1.5 to 1.7 times
# as long, 60,000 of 260 1.3. Of an open number at most a vector is asked for (Zen 5, one thread): of 100,003
# rows of 3 floats 0.47 of the time, their least ones' places 0.61, 1000 of 7 0.66, 20,000 of 16 bytes 0.37
IN_REGISTERS = 3 / 4
# vectors from which on two rows at a time are enough: of more LLVM adds whole numbers apart from the partial
# results, which leave the registers then. Measured (Zen 4): int32 of 152 columns take 0.41 of the time of
# eight rows, 128 float32 and 90 float64 the same, int32 of 48 in six vectors 1.12
MANY = 8
LONG = 32  # vectors of a row of which several are not taken as one


def applies(stage: Stage) -> bool:
    """Whether the stage reduces a tensor over axes of which none is the last dimension, and has something to
    do."""
    op = stage.op
    return (
        reduces_columns(op)
        and size(op.axis[-1]) != 1
        and all(size(a) != 0 for a in (*op.axis, *op.reduce_axis))
    )


def reduce_columns(s: Schedule, stage: Stage, target: Target) -> None:
    """Schedule the stage, for which :func:`applies` holds, at the root."""
    columns, lanes = _stretch(stage, target), target.vector_lanes(stage.op.body[0].dtype)
    together = few_columns.rows_of(stage, columns, target)
    if together is not None and s.can("rfactor", stage.name, stage.op.reduce_axis[-1]):
        few_columns.apply(s, stage, len(columns), together, target)
        return
    iterations, cores = work(stage), target.num_cores
    opened = len(columns) > 1 and elements_of(columns) is None and size(stage.op.reduce_axis[-1]) is None
    high = FEW_ROWS if opened or is_little(s, stage) else ROWS
    outer = stage.op.axis[: -len(columns)]
    matrices = math.prod(typical(a.extent, 8) for a in outer)
    results = matrices * math.prod(typical(a.extent, 64) for a in columns)
    few = results < 16 * cores * lanes
    shared = cost_of(target).shared(iterations)
    if shared and cores > 1 and (few or matrices < cores):
        part = _share_of_rows(s, stage, cores)
        if part is not None:
            _stream(s, part, target, list(part.op.axis[:1]), high)
            _stream(s, stage, target, [], high)
            return
    _stream(s, stage, target, list(outer) if shared else [], high, strips=shared)


def _stretch(stage: Stage, target: Target) -> list[IterVar]:
    """The axes of columns: of short ones several that are one stretch of memory in every row, which is read
    as it lies then and leaves one rest. Measured (Zen 4, one thread and two): 95 × 170 × 5 take 0.12 and 0.14
    of the time of columns of the last axis, 32 × 64 × 7 × 7 0.5, 64 × 128 × 56 0.55 and 0.65, 1000 × 64 × 144
    0.48 and 0.36, bytes of 10 × 480 × 640 × 3 0.03 to 0.43, 300 × 300 × 300 0.58 and 0.66; rows of 640
    and 1000 would take 1.2 and 1.35 times as long."""
    last = stage.op.axis[-1]
    short = (size(last) or 0) < LONG * target.vector_lanes(stage.op.body[0].dtype)
    return (one_stretch(stage.op, stage.op.axis) if short else []) or [last]


def _columns(stage: Stage, together: int) -> list[IterVar]:
    """The loops over results, the last of so many axes ``together``."""
    outer, found = stage.op.axis[:-together], stage.op.axis[-together:]
    return [*outer, stage.fuse(*found) if together > 1 else found[0]]


def _share_of_rows(s: Schedule, stage: Stage, cores: int) -> Stage | None:
    """Partial results of groups of rows, as many groups as threads, or so many rows each where nobody knows
    how many there are: few are one group then. None where the rows are too few."""
    rows = _shared_axis(stage, cores)
    if math.prod(typical(a.extent, 64) for a in stage.op.reduce_axis) < 4 * ROWS * cores:
        return None
    # one group would be summed into results and then added up alone. Measured (Granite Rapids), open sizes:
    # 4 × 16 0.30 → 0.14 µs, 50 × 70 0.40 → 0.29
    if size(rows) is None and at_most(rows.extent, OPEN_ROWS):
        return None
    group, _ = stage.split(rows, OPEN_ROWS) if size(rows) is None else stage.split(rows, nparts=cores)
    return s[s.rfactor(stage.name, group)] if s.can("rfactor", stage.name, group) else None


def _shared_axis(stage: Stage, cores: int) -> IterVar:
    """The axis of rows that threads share: of several the outermost that gives each as much, whose groups are
    one stretch of memory, or the longest."""
    known = [(a, size(a) or 0) for a in stage.op.reduce_axis]
    longest = max(stage.op.reduce_axis, key=lambda a: typical(a.extent, 64))
    return next((a for a, n in known if n and (n % cores == 0 or n >= EVEN * cores)), longest)


def _in_registers(s: Schedule, stage: Stage, target: Target, shared: list[IterVar], high: int) -> bool:
    """Partial results that stay in registers from the first row to the last, where a row has few vectors.
    Whether it was done."""
    columns = _stretch(stage, target)
    n, rows = elements_of(columns), size(stage.op.reduce_axis[-1])
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    most = int(target.vector_registers * IN_REGISTERS)
    opened = n is None and target.has_masks and len(columns) == 1 and at_most(columns[0].extent, lanes)
    if opened:
        n = lanes  # one vector under a mask
    if n is None or -(-n // lanes) > most or not s.can("cache_write", stage.name):
        return False
    together = high if -(-n // lanes) < MANY else 2
    sums = s[s.cache_write(stage.name, "local")]
    *outer, last = _columns(stage, len(columns))
    place = outer[-1] if outer and not opened else stage.split(last, n)[0]
    *_, inner = stage.leaf_iter_vars
    if n > lanes:  # each vector written by itself: what is read by a loop's number has a place in memory, and
        block, inner = stage.split(inner, lanes)  # is stored in each round where a test stands in the loop
        stage.unroll(block)
    stage.vectorize(inner)
    sums.compute_at(stage, place)
    *above, row = sums.op.reduce_axis
    row, some = sums.split(row, together if rows is None else min(together, rows))
    block, lane = sums.split(_columns(sums, len(columns))[-1], min(lanes, n))
    sums.reorder(*above, row, some, block, lane)
    for loop in (some, block):
        sums.unroll(loop)
    sums.vectorize(lane)
    if shared:
        stage.parallel(shared[0] if len(shared) == 1 else stage.fuse(*shared))
    return True


def _stream(
    s: Schedule, stage: Stage, target: Target, shared: list[IterVar], high: int, strips: bool = False
) -> None:
    """The loops: ``shared`` (with the strips of columns) one parallel loop, then rows, strips of vectors,
    some rows unrolled."""
    if _in_registers(s, stage, target, shared, high):
        return
    columns = _stretch(stage, target)
    *outer, last = _columns(stage, len(columns))
    *above, rows = stage.op.reduce_axis
    n, m = elements_of(columns), size(rows)
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    # columns whose partial results take a quarter of the first cache
    strip = target.l1_bytes // 4 // stage.op.body[0].dtype.bytes
    if strips and not outer and n is not None:
        strip = min(
            strip, -(-n // (target.num_cores * 4 * lanes)) * 4 * lanes
        )  # at least one for each thread
    few = not above and m is not None and m <= high  # whose sums are never in memory
    cut = not few and (n is None or n > strip)
    places = [*outer]
    block, inner = stage.split(last, lanes if n is None else min(lanes, n))
    if cut:  # whole vectors, so that a strip ends with the last of a row
        wide = max(1, strip // lanes)
        if n is not None and len(columns) > 1:  # where no bound is told from a fused loop's guards
            wide = even(-(-n // lanes), wide)
        column, block = stage.split(block, wide)
        places.append(column)
    elif few:
        places.append(block)
    row, some = stage.split(rows, high if m is None else min(high, m))
    stage.reorder(*places, *above, row, *([] if few else [block]), some, inner)
    if n is not None and m is not None and m >= 2 * high and len(columns) == 1:
        for tensor in far_inputs(stage, target):  # the next rows, while these are added
            stage.prefetch(tensor, block, 1, level=2, outer=row)
    stage.unroll(some)
    stage.vectorize(inner)
    loops = [
        *[a for a in places if any(a is b for b in shared)],
        *(places[-1:] if (cut or few) and strips else []),
    ]
    loops = loops if [id(a) for a in loops] == [id(a) for a in places[: len(loops)]] else []
    if loops:
        stage.parallel(loops[0] if len(loops) == 1 else stage.fuse(*loops))
