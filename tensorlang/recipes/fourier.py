"""Fourier transforms in steps (``ops.tags.FOURIER``): all steps of a row after one another, while it is in
the first caches, and for few long rows each step by all threads. Vectors run along frequencies, or along what
lies behind them; those of the first step run along times, and its results are transposed in registers. The
stages of a step of two factors are one tile. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis import cost_of, reads_of, typical, ways_of
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from . import interleaved
from .common import in_registers, share_out, size, with_attached, work

OPERATIONS = 8  # of an element of a step, in iterations of a plain loop
OPEN_ROWS = 64  # rows that an open number of them counts as


@dataclass(frozen=True)
class Chain:
    """The steps of a transform, the last one first, each with the stage of its first factor, if it has two;
    rows are told apart by so many axes in front."""

    steps: tuple[tuple[Stage, Stage | None], ...]
    before: int
    columns: Stage | None  # the input, of which vectors hold an element of several rows each


def chain_of(s: Schedule, out: Stage) -> Chain | None:
    """The steps that ``out`` is made of row by row, itself among them where it is the last one."""
    op = out.op
    if not isinstance(op, ComputeOp) or op.reduce_axis:
        return None
    last = out if op.tag == tags.FOURIER else _read_in_rows(s, out)
    # an input as columns is no step: who asks for it as well has it in a kernel without any
    if last is None or "columns" in last.op.attrs:
        return None
    steps = []
    stage: Stage | None = last
    while stage is not None and "columns" not in stage.op.attrs:
        before = _alone(s, stage)
        inner = before if before is not None and before.op.attrs.get("apart") else None
        steps.append((stage, inner))
        stage = _alone(s, inner) if inner is not None else before
    if stage is not None and not _across_rows(out, last):
        stage = None
    return Chain(tuple(steps), _before(last), stage)


def _across_rows(out: Stage, last: Stage) -> bool:
    """Whether ``out`` has the rows in front of its numbers that are vectors in the last step."""
    m = _before(last)
    if out.name == last.name or len(out.op.axis) < m + 2:
        return False
    places = [at for t, at in reads_of(out.op).plain if t in last.op.outputs]
    return all(at[-1] is out.op.axis[m].var for at in places)


def _before(stage: Stage) -> int:
    return int(stage.op.attrs["before"])


def _so_far(stage: Stage) -> int:
    return int(stage.op.attrs["so far"])


def _alone(s: Schedule, stage: Stage) -> Stage | None:
    """The step that a stage reads, and nobody else does."""
    for t in stage.op.input_tensors:
        found = s.state.of(t)
        if found.op.tag == tags.FOURIER and not found.is_output and found.attach is None:
            if len(s.state.readers(found.name)) == 1:
                return s[found.name]
    return None


def _read_in_rows(s: Schedule, out: Stage) -> Stage | None:
    """The last step of what ``out`` reads, whose rows are its own."""
    last = _alone(s, out)
    if last is None or "columns" in last.op.attrs or len(out.op.axis) <= _before(last):
        return None
    front = [a.var for a in out.op.axis[: _before(last)]]
    places = [at for t, at in reads_of(out.op).plain if t in last.op.outputs]
    rows = bool(places) and all(all(i is v for i, v in zip(at, front, strict=False)) for at in places)
    return last if rows else None


def apply(s: Schedule, out: Stage, chain: Chain, target: Target) -> set[str]:
    """Schedule all of it. The names of the stages that are done."""
    if chain.columns is not None:
        return _across(s, out, chain, chain.columns, target)
    last = chain.steps[0][0]
    own = out.name == last.name
    iterations = work(last) * OPERATIONS * len(chain.steps)
    front = list(out.op.axis[: chain.before])
    rows = math.prod(typical(a.extent, OPEN_ROWS) for a in front)
    apart = 2 * rows <= target.num_cores and cost_of(target).shared(iterations // 2)
    others = chain.steps[1:] if own else chain.steps
    cut = not own and _cut(out, last)
    if apart or not front:
        loops = _step(s, *chain.steps[0], target) if own else _result(s, out, False, target)
        share_out(out, loops, work(out) * OPERATIONS, target)
        for st, inner in others:
            share_out(st, _step(s, st, inner, target, cut and st is last), work(st) * OPERATIONS, target)
    else:
        if own:
            _step(s, *chain.steps[0], target)
        else:
            _result(s, out, True, target)
        front = list(out.op.axis[: chain.before])
        row = front[0] if len(front) == 1 else out.fuse(*front)
        if cost_of(target).shared(iterations):
            out.parallel(row)
        for st, inner in others:
            _step(s, st, inner, target, cut and st is last)
            s[st.name].compute_at(out, row)
    return with_attached(s, out.name, *(st.name for st, _ in others))


def _across(s: Schedule, out: Stage, chain: Chain, columns: Stage, target: Target) -> set[str]:
    """All steps of a vector of rows after one another, in vectors of an element of each: what is read and
    what is written is transposed in registers."""
    m, lanes = chain.before, target.vector_lanes(out.op.body[0].dtype)
    iterations = work(out) * OPERATIONS * len(chain.steps)
    made = s[s.cache_write(out.name, "global")]
    for stage in (made, columns):
        stage.transform_layout(lambda *i: [*i[:m], *i[m + 1 :], i[m]])
    out = s[out.name]
    front, row, numbers = list(out.op.axis[:m]), out.op.axis[m], list(out.op.axis[m + 1 :])
    ro, ri = out.split(row, lanes)
    number = numbers[0] if len(numbers) == 1 else out.fuse(*numbers)
    no, ni = out.split(number, lanes)
    out.reorder(*front, ro, no, ri, ni)
    out.unroll(ri)
    out.vectorize(ni)
    block = out.fuse(*front, ro) if front else ro
    if cost_of(target).shared(iterations):
        out.parallel(block)
    for stage in (made, columns):
        stage.compute_at(out, block)
        *own, lane = stage.op.axis
        several = stage.fuse(*own[m:]) if stage is columns else None
        if several is None:
            for a in own[m:]:
                stage.unroll(a)
        else:
            _, some = stage.split(several, lanes)
            stage.unroll(some)
        stage.vectorize(lane)
    for stage, inner in chain.steps:
        _step(s, stage, inner, target)
        s[stage.name].compute_at(out, block)
    return with_attached(s, out.name, made.name, columns.name, *(st.name for st, _ in chain.steps))


def _result(s: Schedule, out: Stage, in_rows: bool, target: Target) -> list[IterVar]:
    """Vectors along the last axis of what is made of the last step. The loops outside of them."""
    ways = ways_of(out.op)
    lanes = target.vector_lanes(out.op.body[0].dtype)
    *front, last = out.op.axis
    n = size(front[-1] if ways is not None and front and size(last) == ways else last)
    overlap = in_rows and _overlap(n, lanes)
    if ways is not None and s.can("cache_write", out.name):
        return interleaved.in_order(s, out, ways, target, "shift" if overlap else "auto")
    vo, vi = _vectors(out, last, n, lanes) if overlap else out.split(last, min(lanes, n or lanes))
    out.vectorize(vi)
    return [*front, vo]


def _cut(out: Stage, last: Stage) -> bool:
    """Whether ``out`` reads the first frequencies of the last step only."""
    m = _before(last)
    read, made = size(out.op.axis[m]), size(last.op.axis[m + 2])
    return read is not None and made is not None and read < made and _so_far(last) > 1


def _step(s: Schedule, stage: Stage, inner: Stage | None, target: Target, cut: bool = False) -> list[IterVar]:
    """Tiles of all results of a step for a vector. The loops outside of them. Of a step that is ``cut`` whole
    tiles are computed: within one each sum would ask whether it is read."""
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    m, before = _before(stage), _so_far(inner or stage)
    counts = list(dict.fromkeys((_so_far(stage), before)))
    if cut:
        so_far, counts = counts[0], counts[1:]
        stage.transform_layout(
            lambda *i: [*i[: m + 2], i[m + 2] // so_far, i[m + 2] % so_far, *i[m + 3 :]], pad_value="any"
        )
    own = list(stage.op.axis)
    end = len(own) - int(stage.op.attrs["behind"])
    front, (time, part), numbers, behind = own[:m], own[m : m + 2], own[m + 2 : end], own[end:]
    if not behind and before == 1:
        return _first(s, stage, inner, m, lanes)
    unrolled, loops = numbers, [time]
    n = size(behind[-1]) if behind else before
    # new ones, those of the first factor, and those so far
    for count in counts:
        if count > 1:
            *unrolled, last = unrolled
            unrolled += stage.split(last, count)
    if before > 1:
        loops.append(unrolled.pop())
    loops += behind
    *loops, along = loops
    vo, vi = _vectors(stage, along, n, lanes)
    new, *first = unrolled
    _written_out(stage, [*front, *loops, vo], [*first, new, part], vi)
    if inner is not None:
        inner.compute_at(stage, vo)
        in_registers(s, inner)
        own = list(inner.op.axis)
        number, one, part, new = own[m : m + 4]
        _written_out(inner, [*own[:m], one, *own[m + 4 : -1]], [number, new, part], own[-1])
    return [*front, *loops] if _overlap(n, lanes) else [*front, *loops, vo]


def _first(s: Schedule, stage: Stage, inner: Stage | None, m: int, lanes: int) -> list[IterVar]:
    """The first step: a vector of times is computed in registers, and laid along frequencies."""
    kept = s[s.cache_write(stage.name, "local")]
    kept.transform_layout(lambda *i: [*i[:m], i[m + 1], i[m + 2], i[m]])
    stage = s[stage.name]
    *front, time, part, k = stage.op.axis
    n = size(time)
    to, ti = _vectors(stage, time, n, lanes)
    ko, ki = stage.split(k, lanes)
    _written_out(stage, [*front, to], [part, ko, ti], ki)
    kept.compute_at(stage, to)
    *own, part, k, time = kept.op.axis
    numbers = [k] if inner is None else kept.split(k, _so_far(stage))[::-1]
    _written_out(kept, own, [*numbers, part], time)
    if inner is not None:
        inner.compute_at(stage, to)
        in_registers(s, inner)
        inner.transform_layout(lambda *i: [*i[: m + 1], *i[m + 2 :], i[m + 1]])
        *own, number, part, k, time = inner.op.axis
        _written_out(inner, own, [number, k, part], time)
    return front if _overlap(n, lanes) else [*front, to]


def _written_out(stage: Stage, around: Sequence[IterVar], numbers: Sequence[IterVar], along: IterVar) -> None:
    """Within the loops ``around`` a vector ``along`` an axis for each of these numbers, all written out."""
    stage.reorder(*around, *numbers, along)
    for a in numbers:
        stage.unroll(a)
    stage.vectorize(along)


def _vectors(stage: Stage, axis: IterVar, n: int | None, lanes: int) -> tuple[IterVar, IterVar]:
    """The loop over vectors and the one in a vector. The last one overlaps the one before, so that none has a
    mask: frequencies of other sums would be behind its end."""
    return stage.split(
        axis, lanes if n is None else min(lanes, n), tail="shift" if _overlap(n, lanes) else "auto"
    )


def _overlap(n: int | None, lanes: int) -> bool:
    """Whether vectors along ``n`` elements overlap, and so are not shared out."""
    return n is not None and n > lanes and n % lanes > 0
