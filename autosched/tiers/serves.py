"""What the tiers need of the kernel they serve, and of whoever makes specialised code: protocols and plain
data. Knows no kernel.

Tiers: 0 the generic kernel with run-time extents, 1 the plan from the table of micro-kernels, 2 a kernel of
the exact shape with all that is static baked in, 3 one whose schedule was searched for. The first two belong
to the kernel itself; the others come and go here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Shape = tuple[int, ...]  # the values of the dims, in the kernel's order
GENERIC, TABLE, SPECIALISED, TUNED = range(4)
TIERS = ("generic", "table", "specialised", "tuned")


@dataclass(frozen=True)
class Recent:
    """Calls, oldest first: ``shapes`` is an integer matrix [calls, dims], ``seconds`` what each took. There
    were ``total``; where this is more, the oldest of them are not listed."""

    shapes: Any
    seconds: Any
    total: int


class Serves(Protocol):
    """A kernel of many shapes into which specialised code is published while it is being called."""

    def recent(self) -> Recent:
        """The calls since this was last asked."""

    def publish(self, shape: Shape, module: Any) -> None:
        """Serve this shape with ``module`` from the next call on, instead of whatever served it: one atomic
        swap of a pointer."""

    def retire(self, shape: Shape) -> None:
        """Serve this shape by the tiers 0 and 1 again. The code is freed when no call can be inside."""

    def takes(self, shape: Shape) -> bool:
        """Whether it is a shape of this kernel."""

    def base(self, shape: Shape) -> int:
        """GENERIC or TABLE: what serves this shape when nothing is published for it."""


class Referee(Protocol):
    """Measures two ways to compute one shape against each other."""

    def trial(self, shape: Shape, now: Any, new: Any) -> Verdict:
        """Compare the answers of the two, then their times, measured in turns. ``now`` None: what serves the
        shape when nothing is published for it."""


@dataclass(frozen=True)
class Verdict:
    """Seconds of a call by either; ``right`` is False, with the reason, when the answers differ."""

    now: float
    new: float
    right: bool = True
    why: str = ""

    @property
    def ratio(self) -> float:
        """How long the new one takes, the old one being 1."""
        return self.new / self.now


@dataclass(frozen=True)
class Order:
    """Make code of tier ``tier`` for a shape."""

    shape: Shape
    tier: int


@dataclass(frozen=True)
class Made:
    """What became of an order: a module that runs, or None and why not. ``seconds`` is what it took, ``size``
    its bytes; ``stored``: it came from a file, not from the compiler."""

    order: Order
    module: Any
    seconds: float
    size: int = 0
    why: str = ""
    stored: bool = False
    shared: Mapping[int, int] = field(
        default_factory=dict
    )  # memory other kernels may hold too: identity → bytes


class Makes(Protocol):
    """Makes code in the background. ``misses`` counts files that were not used, by reason."""

    misses: Counter[str]

    def order(self, order: Order) -> None:
        """Begin. Never waits."""

    def finished(self) -> Sequence[Made]:
        """What has been made since the last time. Never waits."""

    def has(self, order: Order) -> bool:
        """Whether the order can be filled from a file."""

    def discard(self, order: Order) -> None:
        """Forget the file of an order: its code was no good."""

    def busy(self) -> int:
        """How many orders are on their way."""

    def close(self) -> None:
        """Give up what is on its way."""
