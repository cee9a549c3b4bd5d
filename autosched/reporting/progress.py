"""What a person sees of a tune while it runs: two lines that move on a terminal, the same in a notebook,
plain lines elsewhere; a summary at the end. Knows results; decides nothing."""

from __future__ import annotations

import html
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tensorlang.entries import share
from tensorlang.errors import TensorLangError, counted
from tensorlang.roofline import peak_flops

from ..records import Record
from .units import best_text

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live as Moving


class Report(Protocol):
    """Told of every candidate."""

    def begin(self, name: str, trials: int, done: int, seconds: float | None = None) -> None:
        """A tune begins; this many trials of it are known from records, and it ends after this many seconds
        if not before."""

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """Candidates were measured; ``best`` is the fastest so far, ``flops`` the operations of its task. At
        the end once more with none: ``best`` is then the result, by the times that decided."""

    def end(self, result: object | None) -> None:
        """The tune is over; None when it was broken off."""


class Silent:
    """Says nothing."""

    def begin(self, name: str, trials: int, done: int, seconds: float | None = None) -> None:
        """Nothing."""

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """Nothing."""

    def end(self, result: object | None) -> None:
        """Nothing."""


class Standing:
    """How a tune stands, in numbers and words: what every display shows."""

    def __init__(self, name: str, trials: int, done: int, seconds: float | None) -> None:
        self.name, self.trials, self.known, self.done, self.seconds = name, trials, done, done, seconds
        self.start = time.monotonic()
        self.peak = peak_flops()
        self.best = "nothing measured yet"
        self.failed: Counter[str] = Counter()

    def add(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        """So many more were measured."""
        self.done += len(records)
        self.failed.update(r.status for r in records if not r.ok)
        if best is not None:
            self.peak = max(self.peak, flops / best.cost)  # others were at work when it was measured
        self.best = best_text(best, flops, self.peak)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.start

    @property
    def rate(self) -> float:
        """Candidates measured in a second."""
        return (self.done - self.known) / max(self.elapsed, 1e-9)

    @property
    def left(self) -> float | None:
        """The seconds it will probably take; None when that cannot be said yet."""
        # whichever limit comes first
        late = [] if self.seconds is None else [max(0.0, self.seconds - self.elapsed)]
        steady = [(self.trials - self.done) / self.rate] if self.rate else []
        return min([*late, *steady], default=None)

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return min(1.0, max(self.done / self.trials, self.elapsed / self.seconds if self.seconds else 0.0))

    @property
    def count(self) -> str:
        """``34/64``."""
        return f"{self.done}/{self.trials}"

    @property
    def pace(self) -> str:
        """The speed, and how long it will take."""
        left = "" if self.left is None or self.done >= self.trials else f"  {self.left:.0f} s left"
        return f"{self.rate:.1f} a second{left}" if self.rate else left.strip()

    @property
    def failures(self) -> str:
        """What failed, by reason; empty when nothing did."""
        return (
            "failed: " + ", ".join(f"{n} {status}" for status, n in sorted(self.failed.items()))
            if self.failed
            else ""
        )


class Lines:
    """A plain line from time to time: after every tenth of it, and when nothing was said for a while."""

    SILENCE = 10.0  # seconds

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.now: Standing | None = None
        self.said = self.last = 0.0

    def begin(self, name: str, trials: int, done: int, seconds: float | None = None) -> None:
        self.now = Standing(name, trials, done, seconds)
        self.said, self.last = self.now.share, 0.0
        most = "" if seconds is None else f", at most {seconds:.0f} s"
        print(
            f"tune {name}: {counted(trials, 'trial')}{most}"
            + (f", {done} of them from records" if done else ""),
            file=self.out,
            flush=True,
        )

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        now = self.now
        assert now is not None
        before = now.best
        now.add(records, best, flops)
        if not records:
            if now.best != before:
                print(f"  timed again  {now.best}", file=self.out, flush=True)
        elif (
            # a tenth, less what floats lose
            now.share - self.said >= 0.0999
            or now.done >= now.trials
            or now.elapsed - self.last >= self.SILENCE
        ):
            self.said, self.last = now.share, now.elapsed
            print(
                "  ".join(filter(None, ["", f"{now.count:>9}", now.best, now.pace, now.failures])),
                file=self.out,
                flush=True,
            )

    def end(self, result: object | None) -> None:
        if result is not None:
            print(result, file=self.out, flush=True)


class Live:
    """A bar that moves and what is known so far, for a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self.console = console or Console()
        self.now: Standing | None = None
        self.moving: Moving | None = None

    def begin(self, name: str, trials: int, done: int, seconds: float | None = None) -> None:
        from rich.live import Live as Moving

        self.now = Standing(name, trials, done, seconds)
        self.moving = Moving(get_renderable=self._picture, console=self.console, refresh_per_second=5)
        self.moving.start()

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        assert self.now is not None
        self.now.add(records, best, flops)

    def end(self, result: object | None) -> None:
        if self.moving is not None:
            self.moving.stop()
        if result is not None:
            self.console.print(str(result), highlight=False, markup=False)

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = self.now
        assert now is not None
        bar = Table.grid(padding=(0, 1), expand=False)
        bar.add_row(
            Text(f"tune {now.name}", no_wrap=True, overflow="ellipsis"),
            ProgressBar(1.0, now.share, width=24),
            Text(now.count),
            Text(f"{now.elapsed:.0f} s", style="cyan"),
            Text(now.pace, style="cyan", no_wrap=True),
        )
        return Group(
            bar,
            Text(f"  {now.best}", style="bold"),
            *([Text(f"  {now.failures}", style="red")] if now.failures else []),
        )


class Notebook:
    """The same in the output of a notebook's cell, which is replaced as it changes."""

    EVERY = 0.3  # seconds

    def __init__(self) -> None:
        self.now: Standing | None = None
        self.handle: Any = None
        self.last = 0.0

    def begin(self, name: str, trials: int, done: int, seconds: float | None = None) -> None:
        from IPython.display import DisplayHandle

        self.now, self.last = Standing(name, trials, done, seconds), 0.0
        self.handle = DisplayHandle()
        self.handle.display(self)

    def round(self, records: Sequence[Record], best: Record | None, flops: float) -> None:
        assert self.now is not None
        self.now.add(records, best, flops)
        if self.now.elapsed - self.last >= self.EVERY or self.now.done >= self.now.trials:
            self.last = self.now.elapsed
            self.handle.update(self)

    def end(self, result: object | None) -> None:
        if self.handle is not None:
            self.handle.update(self)
        if result is not None:
            print(result)

    def _repr_html_(self) -> str:
        e, now = html.escape, self.now
        assert now is not None
        failed = f'<div style="color:#b00020">{e(now.failures)}</div>' if now.failures else ""
        return (
            f'<div>tune {e(now.name)} <progress value="{now.share:.3f}" max="1"></progress> {e(now.count)} '
            f"&nbsp;{now.elapsed:.0f} s &nbsp;"
            f"{e(now.pace)}</div><div><b>{e(now.best)}</b></div>{failed}"
        )

    def __repr__(self) -> str:
        now = self.now
        return (
            ""
            if now is None
            else "  ".join(filter(None, [f"tune {now.name}", now.count, now.best, now.pace, now.failures]))
        )


def reporter(progress: bool | Report | None) -> Report:
    """The report for this process: live in a notebook and on a terminal, lines elsewhere, none when
    ``progress`` is False; or the one that is given. Raises TensorLangError for what is none."""
    if progress is not None and not isinstance(progress, bool):
        # any object with the three methods: users write their own without a base class
        if all(callable(getattr(progress, word, None)) for word in ("begin", "round", "end")):
            return progress
        raise TensorLangError(
            f"progress={progress!r}: neither True, False or None nor a report",
            legal="an object with begin, round and end, as autosched.reporting.progress.Lines has",
        )
    if progress is False:
        return Silent()
    from rich.console import Console

    console = Console()
    return Notebook() if console.is_jupyter else Live(console) if console.is_terminal else Lines()


share(__name__)
