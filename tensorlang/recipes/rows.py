"""Operators row by row: softmax, norms and whatever else is made of reductions over the last axes and of
elements that read them. All stages of a row are computed in one loop over rows, so that a row is fetched from
memory once and stays in the first caches until its result is written (one pass over memory, whatever the
number of stages). Only the first stage of a row waits for memory; so that it does not wait while the others
compute, the last one that reads it asks for the next row. Uses public primitives only.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..analysis import (
    bytes_of,
    constant,
    cost_of,
    has_calls,
    reads_of,
    reducer_kind,
    reduces_rows,
    row_of,
    slides,
    typical,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from .as_one import one_stretch
from .choices import bound
from .common import in_registers, plain_work, size, stream_stores, with_attached, work
from .lanes import reduce_in_lanes, vector_width
from .open_rows import FEW_REDUCED, in_few_vectors
from .register_tile import even

LONG_ROW = 2 << 10  # bytes, which take about as long as a line of the third cache takes to come
# elements of rows that may be written past the caches: their last vectors need no mask, with which stores are
# plain. Measured (Zen 4, one thread), rows in 24 MB: a layer norm of 500 takes 0.42 of the time with plain
# stores, of 1004 0.7, softmax of 40 0.14 and 0.07; but layer norms of 600 take 1.7 times as long
STREAMED = 8
IN_RESULT = 16 << 10  # bytes, from which on a row that is kept lies in the result
BLOCK = 8  # short rows that are computed together
MOST_BETWEEN = 64  # stages between a result and the reduction that makes it a matter of rows


@dataclass(frozen=True)
class Rows:
    """The stages of rows, the last one left out, readers first. A row is what belongs to one iteration of the
    first ``depth`` axes of the result, of which the last is taken ``every`` elements at a time (None:
    one)."""

    members: tuple[Stage, ...]
    depth: int
    every: int | None


def rows_of(s: Schedule, out: Stage) -> Rows | None:
    """The stages that ``out`` is made of row by row; None when no row reduction is read by it alone."""
    if out.op.reduce_axis or not out.op.axis:
        return None
    near = next(
        (
            st
            for n, st in enumerate(behind(s, out, lambda st: True, row_reduction))
            if n == MOST_BETWEEN or st.op.reduce_axis
        ),
        None,
    )
    if near is None or not near.op.reduce_axis:
        return None
    depth = _depth(near)
    every = 1

    def in_rows(st: Stage) -> bool:
        nonlocal every
        by_reader = [
            {
                row_of(indices[:depth], reader.compute.axis)
                for tensor, indices in reads_of(reader.compute).plain
                if tensor in st.op.outputs
            }
            for reader in s.state.readers(st.name)
        ]
        cuts = [c for found in by_reader for c in found]
        if (
            (st.op.reduce_axis and _depth(st) < depth)
            or None in cuts
            or any(len(found) > 1 for found in by_reader)  # this row and a far one: all between would be made
            or len({c for c in cuts if c != 1} | ({every} - {1})) > 1
        ):
            return False
        every = max(every, *[c for c in cuts if c is not None])
        return True

    members = tuple(behind(s, out, in_rows, row_reduction))
    sums = [st for st in members if st.op.reduce_axis]
    if not sums or depth > len(out.op.axis) or (depth == len(out.op.axis) and len(sums) == 1):
        return None
    if any(constant(a.extent) == 0 for st in (out, *members) for a in (*st.op.axis, *st.op.reduce_axis)):
        return None
    made = {t for st in members for t in st.op.outputs}
    if every > 1 and any(
        row_of(i[:depth], r.op.axis) not in (1, None)
        for r in members
        for t, i in reads_of(r.op).plain
        if t in made
    ):
        return None
    return Rows(members, depth, None if every == 1 else every)


def _depth(stage: Stage) -> int:
    """The axes of a reduction, without the dimensions that were kept with one element each: nothing is read
    along those. A row of its own is none of them, for its schedule may be replayed for more rows."""
    front = list(stage.op.axis)
    read = frozenset().union(*reads_of(stage.op).everywhere)
    while front and size(front[-1]) == 1 and front[-1].var not in read:
        front.pop()
    return len(front)


def behind(
    s: Schedule, out: Stage, joins: Callable[[Stage], bool], reduces: Callable[[Stage], bool]
) -> Iterator[Stage]:
    """The stages at root that only ``out`` and others of these read, directly or not, and that ``joins``
    takes, of reductions those that ``reduces`` knows; readers first. A stage that does not join takes what it
    reads with it."""
    found: dict[str, None] = {out.name: None}
    waiting: list[tuple[int, str]] = []
    reader = out
    while True:
        for t in reader.op.input_tensors:
            name = s.state.of(t).name
            heapq.heappush(waiting, (-s.state.position[name], name))
        while waiting:
            st = s.state.stage(heapq.heappop(waiting)[1])
            if (
                isinstance(st.op, ComputeOp)
                and not (st.is_opaque or st.is_output)
                and st.attach is None
                and st.name not in found
                and not (
                    st.relations or st.kinds
                )  # such as the last stage of an attention, which is scheduled already
                and (not st.op.reduce_axis or reduces(s[st.name]))
                and all(r.name in found for r in s.state.readers(st.name))
                and joins(s[st.name])
            ):
                break
        else:
            return
        found[st.name] = None
        reader = s[st.name]
        yield reader


def hides(s: Schedule, stage: Stage) -> bool:
    """Whether several stages of rows read ``stage``, and with it written into them their reductions would no
    longer be known as such: what is the same for all rows, as a scale, makes products of them.

    Measured (Zen 4): a layer norm of 51 rows of 384 that are scaled and added to others 0.33 of the time.
    """
    readers = s.state.readers(stage.name)
    sums = [r.name for r in readers if r.compute.reduce_axis]
    if len(readers) < 2 or not sums or not all(row_reduction(s[name]) for name in sums):
        return False
    written = s.copy()
    written[stage.name].compute_inline()
    return not all(row_reduction(written[name]) for name in sums)


def ends(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` has one element for each row and reads several of what its stages give, as the loss
    of a row does its largest score and the logarithm of its sum; and reductions over the rows read it.
    Written into those, each stage of the rows would be computed for all of them before the next one.

    Measured (Zen 4, one thread and two): cross entropies of 2 to 10 classes take 0.3 to 0.56 of the time, of
    20 0.85 and 0.66, of 512 × 1000 0.9, of 64 × 32,000 0.85 and 0.5.
    """
    readers = s.state.readers(stage.name)
    if not readers or not stage.op.axis or not all(r.compute.reduce_axis for r in readers):
        return False
    made = [st.name for st in (s.state.of(t) for t in stage.op.input_tensors) if isinstance(st.op, ComputeOp)]
    rows = rows_of(s, stage) if len(made) > 1 else None
    if rows is None or rows.every is not None or rows.depth != len(stage.op.axis):
        return False
    return sum(st.name in made for st in rows.members) > 1


def row_reduction(stage: Stage) -> bool:
    """Whether the stage reduces along memory and reads each element once, as windows that slide do not.
    Measured (Zen 4, one thread): variances of 5 × 5 pixels around each of 200 × 300 take 0.13 of the time,
    each sum by itself, a bilateral filter of as many 0.35."""
    op = stage.op
    return reducer_kind(op) not in (None, "custom") and reduces_rows(op) and not (op.axis and slides(op))


def row_by_row(s: Schedule, out: Stage, rows: Rows, target: Target) -> set[str]:
    """Schedule the stages of ``rows`` in one loop of ``out``. The names of the stages that are done."""
    axes = list(out.op.axis)
    outer, inner = axes[: rows.depth], axes[rows.depth :]
    iterations = max(work(st) for st in (out, *rows.members))
    if rows.every is not None:
        outer[-1], part = out.split(outer[-1], rows.every)
        inner = [part, *inner]
    run = math.prod(size(a) or 0 for a in axes[rows.depth :])
    axis, at_once = _at_once(out, rows, target)
    if at_once > 1:
        outer[axis:] = [out.split(outer[axis], at_once)[0]]  # those behind are of one row each
    row = outer[0] if len(outer) == 1 else out.fuse(*outer)
    if cost_of(target).shared(8 * iterations):
        out.parallel(row)
    whole = run * out.op.body[0].dtype.bytes >= LONG_ROW and (size(axes[-1]) or 0) % STREAMED == 0
    past = whole and stream_stores(out, row, target, run)
    for st in rows.members:
        st.compute_at(out, row)
    loops: list[tuple[Stage, IterVar | None]] = []
    if inner:
        several = rows.every is not None and len(inner) == 1
        loops.append((out, _elements(out, inner, rows.every if several else size(inner[-1]), target)))
    for st in rows.members:
        own = st.op.axis
        if not st.op.reduce_axis and len(own) > rows.depth:
            loops.append((st, _elements(st, own[rows.depth :], size(own[-1]), target)))
        elif st.op.reduce_axis:
            reduce_in_lanes(s, st, target)
        in_registers(s, st)
    if rows.every is None:
        requested = {t.name for st in rows.members for t in st.op.outputs}  # or made here
        # long chains of operations leave the most time. Measured (Zen 4, one thread): log softmax, whose exp
        # reads what its last stage reads too, of 3916 × 870 takes 0.87 of the time
        for st, vectors in sorted(loops, key=lambda at: not has_calls(at[0].op)):
            if vectors is not None:
                _prefetch_ahead(st, vectors, rows, target, requested)
        if loops and loops[0][1] is not None:
            longest = _element_stage(out, loops)
            if longest is None:
                _claim_ahead(out, loops[0][1], rows, target)
            elif not past:
                _claim_row(out, *longest, rows, target)
    return with_attached(s, out.name)


def _at_once(out: Stage, rows: Rows, target: Target) -> tuple[int, int]:
    """An axis, and how many of its rows have each of their stages computed before the next one. A stage of a
    short row waits for the sum before it, which is a chain of a few operations, and a processor looks hardly
    further than the row; those of several rows wait for nothing. Of a long row the vectors are enough, and
    several would leave the first cache. What stages read of rows of several axes is a box around them: all
    are of one.

    Measured (Zen 4, one thread): softmax of rows of 12 to 100 takes 0.63 to 0.8 of the time, of 197 0.91,
    layer norm 0.74 to 0.85 and 0.8, log softmax 0.59 to 0.75 and 0.82; in 24 MB of 120 and 400 they would
    take 1.28 and 1.6 times as long, as their lines do not come ahead.
    """
    counts = [typical(a.extent, BLOCK * target.num_cores) for a in out.op.axis[: rows.depth]]
    axis = max((d for d, n in enumerate(counts) if n > 1), default=0)
    lengths = [
        [bound(a.extent) for a in (*st.op.axis[rows.depth :], *st.op.reduce_axis)]
        for st in (out, *rows.members)
    ]
    # of an open row nothing is known but what a call tells. Measured (Zen 5, one thread, 1000 of 13 floats):
    # softmax takes 0.6 of the time, its logarithm 0.55, logsumexp 0.54
    run = max(math.prod(n or 0 for n in length) if None not in length else LONG_ROW for length in lengths)
    count, each = math.prod(counts), run * out.op.body[0].dtype.bytes
    far = 2 * count * each >= target.l3_bytes
    if not counts or rows.every is not None or not 0 < each < (LONG_ROW // 8 if far else LONG_ROW):
        return axis, 1
    mine = min(counts[axis], -(-count // target.num_cores))
    return axis, even(mine, BLOCK if each <= LONG_ROW // 2 else BLOCK // 2)


def too_few(out: Stage, rows: Rows, target: Target) -> bool:
    """Whether there are so few rows that threads are left without one, and each is long enough to be shared
    out: its stages then come one after the other, each by all threads. Measured (Zen 4, two threads): softmax
    of one row of 65,536 takes 0.66 of the time, of 128,256 0.68, log softmax 0.90 and 0.86; one of 20,000
    0.95 and 0.99."""
    units = 1
    for axis in out.op.axis[: rows.depth]:
        units *= typical(axis.extent, 64)
    if rows.every is not None:
        units //= rows.every
    most = max(plain_work(st) for st in (out, *rows.members))
    return 2 * units <= target.num_cores and cost_of(target).shared(most // 2)


def _elements(stage: Stage, loops: Sequence[IterVar], n: int | None, target: Target) -> IterVar | None:
    """Vectors along the last loop of a row, of ``n`` iterations (None: not known): the loop over them, if
    any. Loops of open sizes that are one stretch of memory become one."""
    if n is not None and n < 2:
        return None
    together = one_stretch(stage.op, loops) if n is None else []
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    if n is None and len(together) < 2 and target.has_masks:
        most = bound(loops[-1].extent)
        vectors = next((v for v in FEW_REDUCED if most is not None and most <= v * lanes), None)
        if vectors is not None:
            in_few_vectors(stage, loops[-1], vectors * lanes, lanes)
            return None
    last = stage.fuse(*together) if len(together) > 1 else loops[-1]
    width = vector_width(stage, n, target)
    # a rest of a short row is a masked vector, the same as that of the reductions beside it: what they read
    # is a register then, and not a load that no store can be forwarded to
    if target.has_masks and n is not None and lanes < n == width and n % lanes:
        outer, inner = stage.split(last, lanes)
        stage.unroll(outer)
        stage.vectorize(inner)
        return outer
    # the rest is a vector of its own behind the loop: of a known row its mask is a constant, and of an open
    # one no vector before it asks. Measured (Emerald Rapids, open lengths): softmax of rows of 197 and 512
    # takes 0.90 of the time, of 64 0.92, layer norm of 512 0.92, of 40 0.93
    outer, inner = stage.split(last, width, tail="peel" if n is None or n % width else "auto")
    stage.vectorize(inner)
    return outer


def _element_stage(
    out: Stage, loops: Sequence[tuple[Stage, IterVar | None]]
) -> tuple[Stage, IterVar | None] | None:
    """The stage of a row that has an element for each of the result, and takes the longest, with its
    vectors."""
    found = [
        (st, vectors)
        for st, vectors in loops
        if st.name != out.name
        and not st.op.reduce_axis
        and len(st.op.axis) == len(out.op.axis)
        and st.op.body[0].dtype is out.op.body[0].dtype
    ]
    return max(found, key=lambda at: has_calls(at[0].op), default=None)


def _claim_ahead(out: Stage, vectors: IterVar, rows: Rows, target: Target) -> None:
    """Ask, while a row of the result is written, for the lines of the next one, which come while that is
    computed: the last stage of a row is a few operations and a store, and would wait for each line. Where the
    result is small the caches have it, and what fits none is written past them. Measured (Zen 4, one thread),
    1509 × 1688 and 3916 × 870: softmax takes 0.88 and 0.82 of the time, log softmax 0.91 and 0.86, layer norm
    0.91 and 0.98; small ones of 1766 × 574 1.02, 1.01, 1.07; short rows of 150 are here before their lines,
    an RMS norm 1.18."""
    n, result = size(out.op.axis[-1]), out.op.outputs[0]
    whole = bytes_of(result) or 0
    if n is None or len(out.op.axis) != rows.depth + 1 or n * result.dtype.bytes < LONG_ROW:
        return
    if 2 * whole < target.l3_bytes <= 4 * whole:
        out.prefetch(out.name, vectors, -(-n // vector_width(out, n, target)))


def _claim_row(out: Stage, stage: Stage, vectors: IterVar | None, rows: Rows, target: Target) -> None:
    """Ask, while ``stage`` computes a row, for the lines of the result that is made of it next. Longer rows
    lie in the result from the beginning (the pass ``rows in outputs``); in rows that the first cache holds
    vectors would cross its lines. Measured (Zen 4, one thread), 3000 × 1000 and 3500 × 870: softmax takes
    0.8 of the time, log softmax 0.85; 5994 × 1001 and 9983 × 601 0.68 and 0.73, 0.9 and 0.89."""
    n, result = size(out.op.axis[-1]), out.op.outputs[0]
    whole = bytes_of(result) or 0
    if vectors is None or n is None or len(out.op.axis) != rows.depth + 1:
        return
    near = LONG_ROW <= n * result.dtype.bytes < IN_RESULT
    if near and target.l3_bytes <= 4 * whole:
        stage.prefetch(out.name, vectors, 0)


def _prefetch_ahead(stage: Stage, vectors: IterVar, rows: Rows, target: Target, requested: set[str]) -> None:
    """Ask, while ``stage`` reads a row in the loop ``vectors``, for the same place of the next row of
    every tensor from outside that is larger than the second cache and was not ``requested`` for by a later
    stage. Measured on 64 MiB: a layer norm 1.4 times, softmax 1.3 times as fast."""
    n = size(stage.op.axis[-1])
    if n is None or len(stage.op.axis) != rows.depth + 1:
        return
    # rows lie one behind the other: where one leaves a rest, the first elements of the next are asked for
    # with the last of the one before
    ahead = -(-n // vector_width(stage, n, target))
    for tensor, indices in reads_of(stage.op).plain:
        plain = len(indices) == len(stage.op.axis) and all(
            i is a.var for i, a in zip(indices, stage.op.axis, strict=True)
        )
        if (
            plain
            and tensor.name not in requested
            and constant(tensor.shape[-1]) == n
            and (bytes_of(tensor) or 0) > target.l2_bytes
        ):
            requested.add(tensor.name)
            stage.prefetch(tensor, vectors, ahead)
