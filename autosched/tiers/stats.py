"""What the tiers have done, as numbers and as a table. Decides nothing."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .histogram import Histogram
from .serves import TIERS, Shape

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TierStats:
    """``hits`` are calls by the tier that served them; ``promotions`` count by tier; ``demotions`` went back
    for want of calls, ``evictions`` for want of room. ``dropped`` counts code that was made and did not stay,
    by reason; ``misses`` files that were not used, by reason. ``slow`` calls took a millisecond and eight
    times their shape's usual time longer, for whatever reason: the tiers themselves keep no call waiting.
    ``bytes`` of code of at most ``budget``. ``making`` are the seconds spent in the background on each tier,
    ``high`` the present threshold (see ``benefit``), ``latencies`` of calls, where the kernel takes them."""

    hits: Counter[int] = field(default_factory=Counter)
    promotions: Counter[int] = field(default_factory=Counter)
    demotions: int = 0
    evictions: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    ahead: int = 0
    slow: int = 0
    bytes: int = 0
    budget: int = 0
    entries: int = 0
    making: Counter[int] = field(default_factory=Counter)
    waiting: int = 0
    high: float = 0.0
    latencies: Histogram = field(default_factory=Histogram)
    published: dict[Shape, int] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        """Titles and texts."""
        out = [
            (f"hits, {TIERS[t]}", f"{n:,} ({n / max(1, self.hits.total()):.1%})")
            for t, n in sorted(self.hits.items())
        ]
        out += [
            (f"promotions to {TIERS[t]}", f"{n:,} in {self.making[t]:.2f} s of the background")
            for t, n in sorted(self.promotions.items())
        ]
        out += [
            ("demotions", f"{self.demotions:,}"),
            ("evictions", f"{self.evictions:,}"),
            ("slow calls", f"{self.slow:,}"),
            ("from files", f"{self.stored:,}"),
            ("made ahead of a call", f"{self.ahead:,}"),
            ("being made", f"{self.waiting:,}"),
            ("code", f"{self.entries:,} kernels, {self.bytes:,} of {self.budget:,} bytes"),
            ("threshold", f"{self.high:+.2f} of the cost"),
        ]
        out += [(f"dropped: {why}", f"{n:,}") for why, n in sorted(self.dropped.items())]
        out += [(f"file not used: {why}", f"{n:,}") for why, n in sorted(self.misses.items())]
        if self.latencies.total:
            out.append(
                (
                    "latency p50 / p90 / p99",
                    " / ".join(_seconds(self.latencies.percentile(p)) for p in (0.5, 0.9, 0.99)),
                )
            )
        return out

    def __rich__(self) -> Table:
        return table_of("tiers", self.rows())

    def __str__(self) -> str:
        return text_of(self.__rich__())


def table_of(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Titles and texts side by side."""
    from rich.table import Table

    table = Table(title=title, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def text_of(table: Table) -> str:
    """The table in plain characters."""
    from rich.console import Console

    text = io.StringIO()
    # in a notebook rich would display the table there and write nothing to the file
    Console(file=text, width=110, color_system=None, force_jupyter=False).print(table)
    return text.getvalue().rstrip("\n")


def _seconds(x: float) -> str:
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if x >= s), ("ns", 1e-9))
    return f"{x / scale:.3g} {unit}"
