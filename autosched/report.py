"""What a person sees of a tune: one line a round, a live bar on a terminal, a summary at the end. Knows results; decides
nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .records import Record

if TYPE_CHECKING:
    from .tune import TuneResult


class Report(Protocol):
    """Told of every round."""

    def begin(self, name: str, trials: int, done: int) -> None:
        """A tune begins; so many trials of it are known from records."""

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """A batch was measured."""

    def end(self, result: TuneResult) -> None:
        """The tune is over."""


class Silent:
    """Says nothing."""

    def begin(self, name: str, trials: int, done: int) -> None:
        """Nothing."""

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """Nothing."""

    def end(self, result: TuneResult) -> None:
        """Nothing."""


class Lines:
    """A plain line for each round."""

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.trials = self.done = 0

    def begin(self, name: str, trials: int, done: int) -> None:
        self.trials, self.done = trials, done
        print(f"tune {name}: {trials} trials" + (f", {done} of them from records" if done else ""), file=self.out)

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        self.done += len(records)
        print(f"  {self.done:4}/{self.trials}  {_best_text(best, flops)}{_failures(records)}", file=self.out, flush=True)

    def end(self, result: TuneResult) -> None:
        print(result, file=self.out, flush=True)


class Live:
    """A bar that moves, for a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.progress = Progress(
            TextColumn("tune {task.fields[name]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[best]}"),
            TextColumn("[red]{task.fields[failed]}"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self.id: Any = None
        self.failed: Counter[str] = Counter()

    def begin(self, name: str, trials: int, done: int) -> None:
        self.progress.start()
        self.id = self.progress.add_task("tune", total=trials, completed=done, name=name, best="", failed="")

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        self.failed.update(r.status for r in records if not r.ok)
        self.progress.update(
            self.id,
            advance=len(records),
            best=_best_text(best, flops),
            failed=", ".join(f"{n} {s}" for s, n in sorted(self.failed.items())),
        )

    def end(self, result: TuneResult) -> None:
        self.progress.stop()
        self.console.print(str(result), highlight=False, markup=False)


def reporter(progress: bool | None) -> Report:
    """The report for this process: live on a terminal, lines elsewhere, none when ``progress`` is False."""
    if progress is False:
        return Silent()
    return Live() if sys.stdout.isatty() else Lines()


def seconds_text(t: float) -> str:
    """``0.00123`` as ``1.23 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= scale:
            return f"{t / scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"


def _best_text(best: Record | None, flops: float) -> str:
    return "nothing works yet" if best is None else f"best {seconds_text(best.cost)}  {flops / best.cost / 1e9:.1f} GFLOP/s"


def _failures(records: Sequence[Record]) -> str:
    failed = Counter(r.status for r in records if not r.ok)
    return "".join(f"  {n} {status}" for status, n in sorted(failed.items()))
