"""The result of a tune and its report: curve, best schedule as Python, why it is fast, what failed; as text,
as a picture, as a page. Knows tasks and records; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.boundary import check_path
from tensorlang.entries import public
from tensorlang.errors import counted
from tensorlang.roofline import Position, position

from ..records import Record
from ..task import SearchTask
from ..whole_files import write_whole
from .page import document, section
from .plot import rank_plot, tuning_curve
from .search_quality import apart_text, gain_text, machine_text, model_text, placed, sketch_texts
from .units import best_text, seconds_text, shares_text

NEWLINE = "\n"
WEIGHTS = 8  # features shown
LONG = 2000  # characters of a reason


@public(
    tl.TensorLangError,
    "TuneResult",
    text="plain",
    page="autosched.reporting.objects:result_page",
    made="autosched.tune(task, trials=64)",
)
@dataclass(frozen=True, eq=False)
class TuneResult:
    """What a tune found. ``schedule`` and ``tensors`` go to ``tl.build``; None when nothing worked. ``costs``
    are the seconds of the candidates in the order of their first measurement, all measurements of one taken
    together, infinite for one that failed; ``begun`` those of the schedule the search began with (the default
    schedule, or the template as written), None when it was not measured. ``failures`` counts outcomes by
    status, with an example of each in ``reasons``; ``weights`` is what the cost model goes by, the share of
    each feature, when it can say so. ``spent`` are the seconds of each part of the work: ``space``,
    ``search``, ``model`` and ``finals`` one after the other, ``lower``, ``LLVM``, ``check`` and ``run`` in
    other processes side by side. ``sketches`` are those tried, as (rules, candidates, best seconds), fastest
    first; ``ranks`` has, for each model, pairs of its score of a candidate before it was measured and the
    seconds it took. Of the machine: ``noise`` is how far the middle half of the times of the first schedule
    is spread, ``drift`` by how much it took longer later than earlier, both as shares of its time; ``others``
    the share of the processors' time that went to others meanwhile. ``single`` are the seconds of the fastest
    measurement of the search, which its display showed before the end."""

    task: SearchTask
    best: Record | None
    trials: int
    measured: int
    seconds: float
    flops: float
    costs: tuple[float, ...] = ()
    begun: float | None = None
    failures: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    sketches: tuple[tuple[str, int, float], ...] = ()
    ranks: tuple[tuple[tuple[float, float], ...], ...] = ()
    noise: float | None = None
    drift: float | None = None
    others: float | None = None
    single: float | None = None

    @property
    def schedule(self) -> tl.Schedule | None:
        """The best schedule, with numbers in place of sampled values; None when no candidate succeeded."""
        return None if self.best is None else self.task.apply_best([self.best])[0]

    @property
    def tensors(self) -> list[te.Tensor]:
        """The arguments to build it with: ``tl.build(result.schedule, result.tensors)``."""
        return self.task.tensors

    @property
    def history(self) -> tuple[float, ...]:
        """The smallest of the costs so far, in seconds, after each candidate: the curve of a search."""
        return tuple(float(c) for c in np.minimum.accumulate(self.costs)) if self.costs else ()

    @property
    def gain(self) -> float | None:
        """How many times as fast the best is as the schedule the search began with; None when either is
        missing."""
        return None if self.best is None or self.begun is None else self.begun / self.best.cost

    @property
    def gain_interval(self) -> tuple[float, float] | None:
        """A range that holds the true gain with 95 % confidence; None where there is none to tell."""
        # the start itself has not gained
        if self.best is None or self.begun is None or self.best.start:
            return None
        low, high = self.best.interval
        return self.begun / high, self.begun / low

    @property
    def significant(self) -> bool:
        """Whether the best is faster than the schedule the search began with beyond what chance explains."""
        return self.gain_interval is not None and self.gain_interval[0] > 1.0

    @property
    def gflops(self) -> float:
        """Billions of operations per second of the best; 0 when no candidate succeeded.

        >>> def doubled(n):
        ...     x = te.placeholder((n,), name="x")
        ...     return [x, ops.multiply(x, 2.0)]
        >>> task = autosched.SearchTask(doubled, (1024,))
        >>> result = autosched.tune(task, trials=2, progress=False)
        >>> result.gflops > 0, len(result.history) == result.measured
        (True, True)
        >>> f = tl.build(result.schedule, result.tensors)
        """
        return 0.0 if self.best is None else self.flops / self.best.cost / 1e9

    @property
    def _again(self) -> str:
        """That the best time is of the end, where the fastest were timed again beside the schedule that the
        search began with: during the search a smaller one may have been shown."""
        if self.best is None or not self.spent.get("finals") or len(self.costs) < 2:
            return ""
        return (": none was clearly faster, " if self.best.start else ", ") + "timed again side by side"

    @property
    def _nothing(self) -> str:
        """Why there is no best."""
        return "no candidate worked" if self.trials or self.failures else "no trial was spent on it"

    def report(self) -> TuneReport:
        """The whole story: curve, schedule, why it is fast, what failed; ``report.plot()``,
        ``report.save("tune.html")``."""
        return TuneReport(self)

    def __str__(self) -> str:
        lines = [
            f"{self.task.name}: {counted(self.trials, 'trial')}, {self.measured} measured now, "
            f"in {self.seconds:.1f} s ({self.measured / max(self.seconds, 1e-9):.1f} a second)"
        ]
        if self.best is None:
            lines.append(f"  {self._nothing}")
        else:
            values = ", ".join(
                f"{k}={list(v) if len(v) > 1 else v[0]}" for k, v in self.best.trace().decisions.items()
            )
            gain = ""
            if self.gain is not None:
                begun = seconds_text(self.begun or 0.0)
                gain = f"  {self.gain:.2f}× as fast as the {begun} it began with{self._again}"
            lines += [f"  {best_text(self.best, self.flops)}{gain}", f"  {values}"]
            why = apart_text(self.single, self.best.cost, self.others) if self._again else ""
            lines += [f"  {why}"] if why else []
        lines += [f"  {note}" for note in self.notes]
        lines += [
            f"  {n} × {status}: {self.reasons[status].partition(NEWLINE)[0]}"
            for status, n in sorted(self.failures.items())
        ]
        return "\n".join(lines)


@public(tl.TensorLangError, "TuneReport")
class TuneReport:
    """What a tune found and how. ``print(report)``, ``report.save("tune.html")``, ``report.plot()``; a
    notebook shows it by itself."""

    def __init__(self, result: TuneResult) -> None:
        self.result = result

    def __repr__(self) -> str:
        r = self.result
        best = r._nothing if r.best is None else best_text(r.best, r.flops)
        return f"<report of {r.task.name}: {counted(r.trials, 'trial')}, {best}; print shows it>"

    @property
    def python(self) -> str:
        """The best schedule as a function ``apply(s)`` that a person can paste, with the numbers that were
        found; ``s`` is a fresh schedule of the task. Empty when nothing worked."""
        best = self.result.best
        return "" if best is None else best.trace().to_python(numbers=True)

    @cached_property
    def roofline(self) -> Position | None:
        """Where the best stands below the roof of this machine, which is measured when it is first asked for.
        None when nothing worked or operations are not counted."""
        r = self.result
        return None if r.best is None or not r.flops else position(r.tensors, r.flops, r.best.cost)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(trials, best seconds) wherever the best fell, and the end."""
        points: list[tuple[int, float]] = []
        for n, cost in enumerate(self.result.history, 1):
            if cost < float("inf") and (not points or cost < points[-1][1]):
                points.append((n, cost))
        # the last stretch, in which nothing better came, belongs to the curve
        if points and points[-1][0] < len(self.result.costs):
            points.append((len(self.result.costs), points[-1][1]))
        return points

    @property
    def weights(self) -> list[tuple[str, float]]:
        """(feature, its share in what the cost model goes by) of the heaviest few; empty when no model has
        learnt anything."""
        return list(self.result.weights.items())[:WEIGHTS]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What there is to say in a line each, with its title."""
        r = self.result
        rows = [
            ("task", f"{r.task.name}  {r.task.workload_key}"),
            ("target", str(r.task.target)),
            (
                "trials",
                f"{r.trials}, {r.measured} measured now in {r.seconds:.1f} s "
                f"({r.measured / max(r.seconds, 1e-9):.1f} a second)",
            ),
        ]
        if r.best is None:
            rows.append(("best", r._nothing))
        else:
            low, high = r.best.interval
            rows.append(
                (
                    "best",
                    f"{best_text(r.best, r.flops).removeprefix('best ')}  (median of {len(r.best.times)} "
                    "runs; 95 % confidence: "
                    f"{seconds_text(low)} to {seconds_text(high)})",
                )
            )
        if r.gain is not None and r.begun is not None:
            rows.append(
                (
                    "gain",
                    f"{r.gain:.2f}× as fast as the {seconds_text(r.begun)} of the schedule it began with"
                    f"{r._again}{gain_text(r.gain_interval)}",
                )
            )
        machine = machine_text(r.noise, r.drift, r.others)
        rows += [("machine", machine)] if machine else []
        rows += [("sketch", text) for text in sketch_texts(r.sketches)]
        if r.ranks:
            rows.append(("model", model_text(r.ranks)))
        if self.roofline is not None:
            rows.append(("roofline", str(self.roofline)))
        if r.spent:
            rows.append(("time spent", shares_text(r.spent, r.seconds)))
        return rows + [("note", note) for note in r.notes]

    @property
    def failures(self) -> list[tuple[str, int, str]]:
        """(outcome, how many, an example) of what failed, the most frequent first."""
        r = self.result
        return [
            (status, n, r.reasons[status][:LONG])
            for status, n in sorted(r.failures.items(), key=lambda kv: (-kv[1], kv[0]))
        ]

    def __str__(self) -> str:
        rows = self.facts
        if self.weights:
            rows.append(
                ("cost model", "goes by " + ", ".join(f"{name} {share:.0%}" for name, share in self.weights))
            )
        if self.curve:
            rows.append(("curve", ", ".join(f"{n}: {seconds_text(c)}" for n, c in self.curve)))
        rows += [
            ("failed", f"{n} × {status}: {why.splitlines()[0] if why else ''}")
            for status, n, why in self.failures
        ]
        width = max(len(title) for title, _ in rows)
        lines = [f"{title:<{width}}  {text}" for title, text in rows]
        return "\n".join([*lines, "", self.python] if self.python else lines)

    def plot(self, axes: Any = None) -> Any:
        """The tuning curve on matplotlib axes (new ones unless given); returns them. Raises TensorLangError
        without matplotlib."""
        r = self.result
        return tuning_curve(r.costs, r.begun, r.flops, r.task.name, axes)

    def plot_ranks(self, axes: Any = None) -> Any:
        """The place of each candidate by the clock over that by the model before it was measured, on
        matplotlib axes. Raises TensorLangError without matplotlib."""
        return rank_plot([placed(pairs) for pairs in self.result.ranks], self.result.task.name, axes)

    def to_html(self) -> str:
        """A section of HTML without links to anything, at most 500 kB."""
        return section(self)

    def save(self, path: str | Path) -> None:
        """Write a page. Raises TensorLangError when it cannot be written."""
        check_path(path, "TuneReport.save({})")
        try:
            write_whole(path, document(self))
        except OSError as e:
            why = e.strerror or str(e)
            raise tl.TensorLangError(f"cannot write the report to {path}", because=why) from None

    def _repr_html_(self) -> str:
        return self.to_html()
