"""A schedule without a single measurement: sketches, and evolution on what the analysis says they ought to
cost. Knows spaces, strategies and the analytic model; measures nothing, and reads no clock: the same task and
seed give the same schedule everywhere.

The default schedule is kept unless the guess ought to be clearly faster: its numbers are measured ones, and
the analysis is wrong by a factor now and then. It is kept where narrow products are summed several at a time:
the analysis counts each, and guesses took four times as long as the default for uint8 by int8, 3.5 for
bfloat16 (Zen 5). On the twenty tasks of Ansor's operators and two threads of an
Emerald Rapids the guesses were 0.96 to 3.5 times as fast as the default, and 0.92 as fast as the best of 200
trials (``python -m benchmarks.autosched guess``); each took at most a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.core.collector import uncollected
from tensorlang.recipes import together_of

from .records import Record
from .search import Evolutionary, Seen
from .space import variants_of
from .task import SearchTask
from .tuning.budget import check_seed
from .tuning.extract import Pieces, pieces_of

CLEARLY = 0.216  # of the binary logarithm of the time: what a guess must promise beyond the default schedule
# what is looked at in all, which bounds the time: sketches, and stages of these; of each piece at least LEAST
VARIANTS, STAGES, LEAST = 12, 72, 3


def best_guess(task: SearchTask, *, seed: int = 0) -> tl.Schedule:
    """The schedule that ought to be fastest, found within about a second and without measuring anything: the
    default schedule, or one that promises to be clearly faster. The pieces of a program are guessed
    apart. Sketches and evolution are those of Zheng et al., "Ansor", OSDI 2020, sections 4 and 5.

        s = autosched.best_guess(task)
        kernel = tl.build(s, task.tensors)

    Raises TensorLangError for a task that cannot be scheduled.
    """
    check_seed("best_guess", seed)
    with uncollected():  # as where variants are proposed
        pieces = pieces_of(task)
        most = VARIANTS // len(pieces)
        found = {i: _guess(t, most, seed) for i, t in enumerate(pieces.tasks)}
        return _made(pieces, {i: trace for i, trace in found.items() if trace is not None})


def _made(pieces: Pieces, traces: dict[int, tl.Trace]) -> tl.Schedule:
    """The default schedule of the whole where nothing better is known of any piece."""
    task = pieces.program
    if traces:
        try:
            return pieces.put_together(traces).concrete()
        except tl.ScheduleError:
            pass  # a piece is not always scheduled in the whole as it is alone
    return task.default_schedule()


def _guess(task: SearchTask, most: int, seed: int) -> tl.Trace | None:
    """The trace of a piece; None for that of its default schedule."""
    if _several_at_a_time(task):
        return None
    stages = sum(not st.state.is_placeholder for st in task.schedule().stages)
    most = max(LEAST, min(most, STAGES // max(1, stages)))
    try:
        variants = variants_of(task, most)
    except tl.TensorLangError:
        return None  # there is nothing to choose
    rng, chosen = np.random.default_rng(seed), None
    best = CLEARLY - float(variants[0].expected(variants[0].present())[0])
    for v in variants:
        score = lambda rows, v=v: -v.expected(rows)
        rows = Evolutionary().propose(v, 1, rng, score, Seen(len(v.domains)))
        if len(rows) and (said := float(score(rows)[0])) > best:
            best, chosen = said, v.trace_of(rows[0])
    return chosen


def _several_at_a_time(task: SearchTask) -> bool:
    """Whether the target has an instruction for the sums of the task that adds up several narrow products."""
    for op in te.graph.operations([t.op for t in task.tensors]):
        if isinstance(op, te.ComputeOp) and op.reduce_axis:
            narrow = [t for t in op.input_tensors if t.dtype.bits <= 16]
            if len(narrow) > 1 and together_of(narrow[0], narrow[1], task.target) > 1:
                return True
    return False


def compile(
    tensors: Sequence[te.Tensor],
    target: str | tl.Target | None = None,
    name: str = "main",
    *,
    records: str | Path | Sequence[Record] | None = None,
    seed: int = 0,
) -> tl.Module:
    """A kernel of ``tensors`` (inputs, then outputs) with the best measured schedule of ``records`` where
    they have one, else with :func:`best_guess`: ``autosched.compile([A, B, C])``, as ``tl.compile``.

    Raises TensorLangError when the last tensor is not computed.
    """
    check_seed("compile", seed)
    task = SearchTask.of(tensors, target, name=name)
    return tl.build(_known(task, records) or best_guess(task, seed=seed), tensors, task.target, name)


def _known(task: SearchTask, records: str | Path | Sequence[Record] | None) -> tl.Schedule | None:
    if records is None:
        return None
    try:
        return task.apply_best(records)[0]
    except tl.TensorLangError:
        return None
