"""What a person sees of a tune while it runs: a live bar on a terminal or in a notebook, plain lines elsewhere, a summary at the end. Knows
results; decides nothing."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .records import Record
from .roofline import peak_flops

if TYPE_CHECKING:
    from .tune import TuneResult


class Report(Protocol):
    """Told of every candidate."""

    def begin(self, name: str, trials: int, done: int) -> None:
        """A tune begins; so many trials of it are known from records."""

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """Candidates were measured; ``best`` is the fastest so far, ``flops`` the operations of its task."""

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
    """A plain line from time to time: after every tenth of the trials, and when nothing was said for a while."""

    SILENCE = 10.0  # seconds

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.trials = self.done = self.said = 0
        self.first = 0
        self.start = self.last = 0.0
        self.failed: Counter[str] = Counter()

    def begin(self, name: str, trials: int, done: int) -> None:
        self.trials, self.done, self.said = trials, done, done
        self.first, self.start = done, time.monotonic()
        self.last = self.start
        print(f"tune {name}: {trials} trials" + (f", {done} of them from records" if done else ""), file=self.out, flush=True)

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        self.done += len(records)
        self.failed.update(r.status for r in records if not r.ok)
        now = time.monotonic()
        if self.done - self.said < max(1, self.trials // 10) and self.done < self.trials and now - self.last < self.SILENCE:
            return
        self.said, self.last = self.done, now
        rate = (self.done - self.first) / max(now - self.start, 1e-9)
        left = f"  {(self.trials - self.done) / rate:.0f} s left" if self.done < self.trials and rate else ""
        said = f"{best_text(best, flops)}  {rate:.1f} a second{left}{_counted(self.failed, '  failed: ')}"
        print(f"  {self.done:4}/{self.trials}  {said}", file=self.out, flush=True)

    def end(self, result: TuneResult) -> None:
        print(result, file=self.out, flush=True)


class Live:
    """A bar that moves, for a terminal or a notebook."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.progress = Progress(
            TextColumn("tune {task.fields[name]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[best]}"),
            TextColumn("[red]{task.fields[failed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self.id: Any = None
        self.failed: Counter[str] = Counter()
        self.peak = 0.0

    def begin(self, name: str, trials: int, done: int) -> None:
        self.peak = peak_flops()
        self.progress.start()
        self.id = self.progress.add_task("tune", total=trials, completed=done, name=name, best="", failed="")

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        self.failed.update(r.status for r in records if not r.ok)
        self.progress.update(self.id, advance=len(records), best=best_text(best, flops, self.peak), failed=_counted(self.failed))

    def end(self, result: TuneResult) -> None:
        self.progress.stop()
        self.console.print(str(result), highlight=False, markup=False)


def reporter(progress: bool | None) -> Report:
    """The report for this process: live on a terminal, lines elsewhere, none when ``progress`` is False."""
    if progress is False:
        return Silent()
    console = Console()
    return Live(console) if console.is_terminal or console.is_jupyter else Lines()


def seconds_text(t: float) -> str:
    """``0.00123`` as ``1.23 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= scale:
            return f"{t / scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"


def best_text(best: Record | None, flops: float, peak: float = 0.0) -> str:
    """The best so far in words."""
    if best is None:
        return "nothing works yet"
    speed = flops / best.cost
    return f"best {seconds_text(best.cost)}  {speed / 1e9:.1f} GFLOP/s" + (f"  {speed / peak:.0%} of peak" if peak else "")


def _counted(failed: Counter[str], before: str = "") -> str:
    return before + ", ".join(f"{n} {status}" for status, n in sorted(failed.items())) if failed else ""
