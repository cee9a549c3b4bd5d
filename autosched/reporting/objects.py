"""What the classes of autosched show: a ``repr`` that a person wants, and a small picture in a notebook.
Knows what they offer to everybody; the words of HTML are those of ``tensorlang.display``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tensorlang.display import bars, box, code, details, strip, table
from tensorlang.errors import TensorLangError, counted

from ..records import best_of
from .units import measurements_text, seconds_text


def record(r: Any) -> str:
    outcome = seconds_text(r.cost) if r.ok else r.status
    return f"<record of {r.name or r.task}: {outcome}>"


def record_page(r: Any) -> str:
    """The outcome with every sample, and the schedule that was measured."""
    line = strip(r.times, r.cost, f"{len(r.times)} samples, the long tick is the median") if r.ok else ""
    rows = [("task", r.name or r.task), ("target", r.target), *([("why", r.error)] if r.error else [])]
    try:
        steps = details("the schedule", code(r.trace().to_python(numbers=True)))
    except TensorLangError:  # steps of another release
        steps = ""
    return box(record(r).strip("<>"), line, table(rows), steps)


def log(records: Any) -> str:
    where = records.path if records.path is not None else "in memory"
    skipped = f", {counted(len(records.bad), 'line')} skipped" if records.bad else ""
    return f"<records {where}: {len(records)} of {counted(len({r.task for r in records}), 'task')}{skipped}>"


def log_page(records: Any) -> str:
    rows = []
    for task, target in dict.fromkeys((r.task, r.target) for r in records):
        mine = records.of(task, target)
        best = best_of(mine, task, target)
        failed = Counter(r.status for r in mine if not r.ok)
        found = "nothing worked" if best is None else seconds_text(best.cost)
        rows.append(
            (
                mine[0].name,
                measurements_text(mine),
                found,
                ", ".join(f"{n} {s}" for s, n in failed.items()),
                target,
            )
        )
    bad = (
        details(f"{counted(len(records.bad), 'line')} skipped", code("\n".join(map(str, records.bad[:20]))))
        if records.bad
        else ""
    )
    return box(log(records).strip("<>"), table(rows, ("task", "measured", "best", "failed", "target")), bad)


def result_page(r: Any) -> str:
    story = (
        "" if r.best is None else details("the best schedule", code(r.best.trace().to_python(numbers=True)))
    )
    total = sum(r.spent.values()) or 1.0
    spent = bars([(part, s / total, seconds_text(s)) for part, s in r.spent.items()])
    return box("", code(str(r)), story, details("where the time went", spent) if r.spent else "")


def results_page(r: Any) -> str:
    rows = [
        (
            t.name,
            "not searched" if x is None or x.best is None else seconds_text(x.best.cost),
            r.closed.get(i, ""),
        )
        for i, (t, x) in enumerate(zip(r.tasks, r.results, strict=True))
    ]
    return box(
        f"{counted(len(r.tasks), 'task')} in {r.seconds:.1f} s", table(rows, ("task", "best", "closed"))
    )


def task_page(t: Any) -> str:
    rows = [("target", str(t.target)), ("operations", f"{t.flops:,.0f}"), ("key", t.workload_key)]
    stages = code("\n".join(f"{x.name}: {x.dtype}[{', '.join(map(str, x.shape))}]" for x in t.tensors))
    return box(f"task {t.name}", stages, table(rows))


def profile_page(p: Any) -> str:
    rows = [(d, s.least, s.opt, s.most) for d, s in p.dims.items()]
    return box(f"sizes; outside them: {p.out_of_range}", table(rows, ("dim", "least", "usual", "most")))


def dynamic_page(f: Any) -> str:
    profiles = "".join(table([(d, str(s)) for d, s in p.dims.items()], ("dim", "sizes")) for p in f.profiles)
    return box(repr(f).strip("<>"), profiles, details("how it was made", code(str(f.account))))
