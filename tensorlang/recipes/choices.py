"""Decisions by sizes that only a call knows: a recipe that would choose otherwise for few rows asks, and
where nobody knows how many there are a schedule is made for each answer. Knows how to ask; schedules nothing.

Every schedule is right for every size, so an answer is advice, and which of them a call takes is one compare
in the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ..analysis import constant, limits
from ..te import Expr

# more answers are more code and time to compile: at most so many schedules beside that of large sizes, and
# more where all ask about one size, as the length of rows is: those are short loops. Measured (Zen 5): a
# layer norm of open rows is compiled in 0.14 s instead of 0.07
MOST, MOST_OF_ONE = 3, 5


@dataclass
class Asking:
    """What a schedule takes for granted: these sizes are ``at_most`` so large. ``asked`` is what else its
    recipes wanted to know, in order."""

    at_most: dict[Expr, int] = field(default_factory=dict)
    asked: dict[Expr, set[int]] = field(default_factory=dict)

    def choices(self) -> list[tuple[Expr, int]]:
        """The answers that are worth a schedule of their own, in the order in which a call asks: of each size
        the smallest first."""
        most = MOST_OF_ONE if len(self.asked) == 1 else MOST
        return [(extent, n) for extent, bounds in self.asked.items() for n in sorted(bounds)][:most]


_ASKING: ContextVar[Asking | None] = ContextVar("asking", default=None)


@contextmanager
def asking(at_most: dict[Expr, int] | None = None) -> Iterator[Asking]:
    """Schedules that are made within take ``at_most`` for granted, and note what else they ask."""
    found = Asking(at_most or {})
    token = _ASKING.set(found)
    try:
        yield found
    finally:
        _ASKING.reset(token)


def at_most(extent: Expr, n: int) -> bool:
    """Whether a size is at most ``n``. Of one that only a call knows: whether this schedule takes it for
    granted; if not, another one may be made that does."""
    most = bound(extent)
    if most is not None and most <= n:
        return True
    least = limits(extent)[0]
    context = _ASKING.get()
    if constant(extent) is None and context is not None and n > 0 and (least is None or least <= n):
        context.asked.setdefault(extent, set()).add(n)
    return False


def bound(extent: Expr) -> int | None:
    """The most that a size can be, as its declaration says or as this schedule takes for granted; None for
    any."""
    context = _ASKING.get()
    most = limits(extent)[1]
    given = None if context is None else context.at_most.get(extent)
    return min((n for n in (most, given) if n is not None), default=None)
