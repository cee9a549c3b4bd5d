"""What a DynamicKernel has run, as numbers and as a table. Decides nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..tiers.serves import Shape
from ..tiers.stats import TierStats, table_of, text_of

if TYPE_CHECKING:
    from rich.table import Table

LISTED = 6  # shapes in the table


@dataclass(frozen=True)
class KernelStats:
    """``calls`` so far. Of those that the dispatcher remembers, the last few thousand, ``shapes`` and
    ``routes`` count the calls of each shape and by each route. ``tiers`` is what the tiers did, None while
    nobody looks after the kernel (see ``autosched.specialise``)."""

    name: str
    calls: int
    shapes: Counter[Shape] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    tiers: TierStats | None = None

    def rows(self) -> list[tuple[str, str]]:
        """Titles and texts."""
        seen = max(1, self.shapes.total())
        out = [
            ("calls", f"{self.calls:,}"),
            ("calls remembered", f"{self.shapes.total():,} of {len(self.shapes):,} shapes"),
        ]
        out += [
            (f"  {'×'.join(map(str, shape))}", f"{n:,} ({n / seen:.1%})")
            for shape, n in self.shapes.most_common(LISTED)
        ]
        out += [(f"by {route}", f"{n:,} ({n / seen:.1%})") for route, n in self.routes.most_common()]
        return out + ([] if self.tiers is None else self.tiers.rows())

    def __rich__(self) -> Table:
        return table_of(self.name, self.rows())

    def __str__(self) -> str:
        return text_of(self.__rich__())
