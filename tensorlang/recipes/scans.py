"""Recurrences: the step of a scan in vectors along its last axis. What the step reads across memory is
transposed once before, so that it reads lines: so are the weights of a recurrent cell, whose products are
computed in vectors of neighbouring rows of the weight. Uses public primitives only.
"""

from __future__ import annotations

from .. import te
from ..analysis import cost_of, reads_lines, reads_of, transposed
from ..analysis import step as step_of
from ..schedule import Schedule, Stage
from ..target import Target
from .as_one import elements_of, stretch_of
from .common import plain_work, share_out, size, together_of, work
from .copies import transpose_in_tiles
from .lanes import reduce_in_lanes, vector_width
from .register_tile import tile_for

MOST_ROWS = 4  # rows of a step's product that are in registers at once
VECTORS = 8  # and vectors of each
# times as much as a loop that runs once a step has to do for threads to share it: they meet at each time.
# Each reads its part of the weight from its own cache. Measured (Zen 4, two threads): an LSTM of 128 for a
# batch of 8 takes 0.7 of the time, of 256 0.6, of 512 0.5 alone and for a batch of 12; of 64 for 16 0.8 and
# 1.4
MEETINGS = 8


def scan_step(s: Schedule, step: Stage, target: Target) -> set[str]:
    """Schedule the update of a scan, which hangs on the loop of the scan. The names of the stages that are
    done."""
    op = step.op
    if not op.axis or size(op.axis[-1]) in (0, 1):
        return {step.name}
    if op.reduce_axis and len(op.axis) == 1:  # one number of each time, such as the largest of a state
        before = {stage.name for stage in s.stages}
        reduce_in_lanes(s, step, target)
        return {step.name} | {stage.name for stage in s.stages} - before
    if op.reduce_axis:
        return _product(s, step, target)
    done = {step.name}
    for t in op.input_tensors:
        if (
            len(t.shape) != len(op.axis)
            or len(t.shape) < 2
            or s.state.of(t).within is not None
            or not s.can("cache_read", t, "global", [step.name])
        ):
            continue
        trial = s.copy()
        copy = trial[trial.cache_read(t, "global", [step.name])]
        copy.transform_layout(lambda *at: [at[-1], *at[:-1]])
        transposition = transposed(copy.op)
        if transposition is not None and not reads_lines(op, t):
            transpose_in_tiles(trial, copy, transposition, target)
            s.take(trial)
            done.add(copy.name)
    # a short row and those around it that lie behind one another are one. Measured (Zen 4, one thread): a
    # recurrence over 136 times 17 × 6 × 3 takes 0.56 of the time
    together = stretch_of(step, target)
    last = step.fuse(*together) if len(together) > 1 else step.op.axis[-1]
    n = elements_of(together) if together else size(last)
    outer, inner = step.split(last, vector_width(step, n, target))
    step.vectorize(inner)
    if _beside(s, step) < target.num_cores:
        # measured (Zen 4, two threads): an LSTM of 256 takes 0.87 of the time for a batch of 64, 0.97 for 32
        around = (a for a in step.op.axis[1:-1] if a not in together)
        loop = next((a for a in around if size(a) != 1), outer)
        share_out(step, [loop], plain_work(step) // MEETINGS, target)
    return done


def _product(s: Schedule, step: Stage, target: Target) -> set[str]:
    """A reduction of a step, such as the product of the state with a weight: rows × vectors in registers, the
    reduction loops around them. The names of the stages that are done."""
    done = {step.name} | _lines(s, step, target)
    fours = _in_fours(s, step, target)
    if not (fours or reads_of(step.op).along(step.op.axis[-1])) or not s.can(
        "cache_write", step.name, "local"
    ):
        return done
    inside = s[s.cache_write(step.name, "local")]
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    rows = [a for a in step.op.axis[1:-1] if size(a) != 1]
    height = 1 if not rows else MOST_ROWS if size(rows[-1]) is None else min(MOST_ROWS, size(rows[-1]) or 1)
    vectors = min(VECTORS, max(1, (target.vector_registers - 2) // (height + 1)))
    if fours:  # one vector of the loop IR, so that the products of a group are neighbours
        vectors = 1 << vectors.bit_length() - 1
    n = size(step.op.axis[-1])
    many = size(rows[-1]) if rows and not fours else None
    if many is not None and many > MOST_ROWS and n is not None:
        # tiles of one height, 5 rows are one. Fewer rows are wide tiles, for lines of weights may be pages
        # apart: 2 rows in tiles of four vectors took 1.5 times the time
        height, vectors = tile_for(many, n, lanes, target.vector_registers, cost_of(target).of_panels)
    elif n is not None and n % lanes == 0:
        # blocks of one width. Measured (Zen 4): 512 columns in blocks of four vectors take 0.9 of the time of
        # those of six, whose last one is masked
        even = (v for v in range(vectors, vectors // 2, -1) if n // lanes % v == 0)
        vectors = next(even, vectors)
    width = lanes * vectors
    jo, ji = step.split(step.op.axis[-1], width if n is None else min(width, n))
    around = jo
    if rows:
        around, ii = step.split(rows[-1], height)
        step.reorder(*[a for a in step.op.axis[:-1] if a is not rows[-1]], jo, around, ii, ji)
        step.unroll(ii)
    if _beside(s, step) < target.num_cores:
        share_out(step, [jo], work(inside) // MEETINGS, target)
    step.vectorize(ji)
    inside.compute_at(step, around)
    *own, last = inside.op.axis
    over = list(inside.op.reduce_axis)
    if fours:
        group, each = inside.split(over.pop(), 4)
        inside.reorder(*over, group, *own, each, last)
        inside.unroll(each)
    else:
        inside.reorder(*over, *own, last)
    inside.vectorize(last)
    if rows:
        inside.unroll(own[step.op.axis.index(rows[-1])])
    return done | {inside.name} | fours


def _beside(s: Schedule, step: Stage) -> int:
    """How many recurrences there are that need nothing of this one, nor this one of them, with itself: each
    may run in a thread of its own (the pass ``side by side``), and waits for nobody at each time."""
    mine = step.state.within
    names = {st.state.within for st in s.stages} - {None}
    scans = {name: s[name].op for name in names if name is not None}
    assert mine is not None
    own = set(te.graph.operations([scans[mine]]))
    return sum(
        name == mine or (op not in own and scans[mine] not in te.graph.operations([op]))
        for name, op in scans.items()
    )


def _in_fours(s: Schedule, step: Stage, target: Target) -> set[str]:
    """A weight of bytes from outside of the scan, copied before it so that four that are multiplied and added
    by one instruction lie side by side. The name of the copy."""
    last, over = step.op.axis[-1], step.op.reduce_axis
    reads = reads_of(step.op).plain
    if len(over) != 1 or (size(over[0]) or 1) % 4 or len(reads) != 2:
        return set()
    for (left, _), (right, at) in (reads, reads[::-1]):
        if (
            len(at) > 1
            and at[-1] is last.var
            and at[-2] is over[0].var
            and s.state.of(right).within is None
            and together_of(left, right, target) == 4
            and s.can("cache_read", right, "global", [step.name])
        ):
            copy = s[s.cache_read(right, "global", [step.name])]
            copy.transform_layout(lambda *i: [*i[:-2], i[-2] // 4, i[-1], i[-2] % 4])
            return {copy.name}
    return set()


def _lines(s: Schedule, step: Stage, target: Target) -> set[str]:
    """Tensors from outside of the scan, of which neighbouring results read elements that lie apart: copied
    before it, so that they lie side by side. The names of the copies."""
    last, done = step.op.axis[-1], set()
    for t, indices in reads_of(step.op).plain:
        apart = [d for d, i in enumerate(indices[:-1]) if step_of(i, last) != 0]
        if (
            len(apart) != 1
            or step_of(indices[-1], last) != 0
            or s.state.of(t).within is not None
            or not s.can("cache_read", t, "global", [step.name])
        ):
            continue
        copy = s[s.cache_read(t, "global", [step.name])]
        d = apart[0]
        copy.transform_layout(lambda *at, d=d: [*at[:d], *at[d + 1 :], at[d]])
        transposition = transposed(copy.op)
        if transposition is not None:
            transpose_in_tiles(s, copy, transposition, target)
        done.add(copy.name)
    return done
