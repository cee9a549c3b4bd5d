"""``extract_tasks``: a program of many heavy reductions as tasks that are tuned one by one, and what was
found for them put together again. Knows tasks, where programs are cut, and records; nothing of search or
measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import counted

from ..records import Record, best_of, load
from ..space.cut import groups
from ..task import SearchTask
from .adopted import Adopted
from .transplant import transplant


@dataclass(frozen=True, eq=False)
class Pieces:
    """``tasks`` are the different pieces of a program, ``weights`` how often each is in it: ``tasks, weights
    = extract_tasks(program)``.

    ``places`` are the pieces in the order of the program: the number of the task, and for each stage of the
    task its stage in the program.
    """

    program: SearchTask
    tasks: tuple[SearchTask, ...]
    places: tuple[tuple[int, Mapping[str, str]], ...] = field(repr=False)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """How often the program has each task."""
        return tuple(sum(i == n for n, _ in self.places) for i in range(len(self.tasks)))

    def __iter__(self) -> Iterator[Sequence[object]]:
        return iter((list(self.tasks), list(self.weights)))

    def __len__(self) -> int:
        return len(self.tasks)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"{self.program.name}: {counted(len(self.tasks), 'task')}",
                *[f"  {w} × {t.name}" for t, w in zip(*self, strict=True)],
            ]
        )  # type: ignore[call-overload]

    def put_together(self, traces: Mapping[int, tl.Trace]) -> tl.Schedule:
        """A schedule of the program, with the trace of each task's number made in all its places; a task
        without one takes its default schedule.

        Raises ScheduleError when a trace does not apply.
        """
        whole = self.program.schedule()
        for n, (i, names) in enumerate(self.places):
            task = self.tasks[i]
            trace = traces.get(i)
            if trace is None:
                trace = task.default_schedule().trace
            transplant(trace, task.schedule(), whole, names, f"{n}/")
        return whole

    def apply_best(self, records: str | Path | Sequence[Record]) -> tuple[tl.Schedule, list[te.Tensor]]:
        """The best measured schedules of all tasks on a schedule of the program, and the tensors to build it
        with; a task of which no record succeeded takes its default schedule."""
        listed = load(records)[0] if isinstance(records, str | Path) else list(records)
        best = {
            i: best_of(Adopted(t).take(listed), t.workload_key, str(t.target))
            for i, t in enumerate(self.tasks)
        }
        return self.put_together({i: r.trace() for i, r in best.items() if r is not None}).concrete(), list(
            self.program.tensors
        )


def extract_tasks(program: SearchTask | Sequence[te.Tensor], target: str | tl.Target | None = None) -> Pieces:
    """Cut a program (a task, or its tensors, outputs last) at its heavy reductions into tasks; pieces that
    are the same are one task.

    The result unpacks as ``tasks, weights``, for ``tune_tasks(tasks, weights, records="f.jsonl")``; then
    ``.apply_best("f.jsonl")`` is the schedule of the whole program. A program of one or two heavy reductions,
    or with a scan or an extern, is one task: itself. ``tune`` does all this by itself::

        pieces = autosched.extract_tasks([x, w1, w2, w3, y])
        tasks, weights = pieces
        autosched.tune_tasks(tasks, weights, trials=512, records="f.jsonl")
        kernel = tl.build(*pieces.apply_best("f.jsonl"))
    """
    return pieces_of(
        program if isinstance(program, SearchTask) else SearchTask.of(program, target, name="program")
    )


def pieces_of(task: SearchTask, finely: bool = False) -> Pieces:
    """The pieces of a task, cut as ``space.cut.groups`` does; itself as one where there is nothing to cut."""
    whole = task.schedule()
    found = groups(whole, task.default_schedule, finely) if task.template is None else []
    if len(found) <= 1:
        return Pieces(task, (task,), ((0, {st.name: st.name for st in whole.stages}),))
    tasks: dict[str, int] = {}
    made: list[SearchTask] = []
    places = []
    for stages in found:
        piece, names = _piece(task, whole, stages)
        i = tasks.setdefault(piece.workload_key, len(tasks))
        if i == len(made):
            made.append(piece)
        # tasks of one key have equal structure, so their stages correspond by their order, whatever their
        # names
        first = [st.name for st in made[i].schedule().stages]
        places.append((i, dict(zip(first, [names[st.name] for st in piece.schedule().stages], strict=True))))
    return Pieces(task, tuple(made), tuple(places))


def _piece(task: SearchTask, whole: tl.Schedule, stages: Sequence[str]) -> tuple[SearchTask, dict[str, str]]:
    """Some stages as a task, in which everything they read is an input; and the names of its stages in the
    whole."""
    mine = set(stages)
    read = dict.fromkeys(t for name in stages for t in whole[name].op.input_tensors)
    computed = [t for t in read if isinstance(t.op, te.ComputeOp) and whole.stage_name(t) not in mine]
    given = {t: te.placeholder(t.shape, t.dtype, name=t.name) for t in computed}
    inputs = [given.get(t, t) for t in read if t in given or isinstance(t.op, te.PlaceholderOp)]
    needed = [
        name
        for name in stages
        if whole[name].state.is_output or any(r.name not in mine for r in whole.state.readers(name))
    ]
    outputs = [t for name in needed for t in whole[name].op.outputs]
    copies = te.graph.part(outputs, given)
    piece = SearchTask.of(
        [*inputs, *[copies[t] for t in outputs]],
        task.target,
        rules=task.rules,
        limits=task.limits,
        without=task.without,
        name=f"{task.name}: {', '.join(needed)}",
    )
    s = piece.schedule()
    names = {s.stage_name(new): whole.stage_name(old) for old, new in (*copies.items(), *given.items())}
    return piece, names | {s.stage_name(t): whole.stage_name(t) for t in inputs if t not in given.values()}
