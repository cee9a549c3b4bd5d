"""Which shape comes next: an order-1 Markov chain over shapes, and over the steps between them for shapes
never seen. Knows shapes only.

Prefetching by a first-order chain: Joseph and Grunwald, *Prefetching using Markov predictors*, 1997. The
chain over steps serves what the other cannot: a length that grows by one at each call, as when a model writes
text, meets a new shape every time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .serves import Shape

STATES, AGED = 1024, 64  # shapes with a history; observations of one before they are halved


@dataclass(frozen=True)
class Guess:
    """The likely next shape, how often it followed, and in how many cases."""

    shape: Shape
    share: float
    seen: int


class Chain:
    """What followed what."""

    def __init__(self, support: int = 4, share: float = 0.5) -> None:
        self.support, self.share = support, share
        self.after: dict[Shape, Counter[Shape]] = {}
        self.steps: Counter[Shape] = Counter()
        self.last: Shape | None = None

    def add(self, shape: Shape) -> None:
        """The next call. One of the same shape as the last tells nothing."""
        if shape == self.last:
            return
        if self.last is not None and len(self.last) == len(shape):
            row = self.after.pop(
                self.last, None
            )  # put back at the end: the first is the one longest not seen
            self.after[self.last] = row = Counter() if row is None else row
            _count(row, shape)
            _count(self.steps, tuple(b - a for a, b in zip(self.last, shape, strict=True)))
            if len(self.after) > STATES:
                del self.after[next(iter(self.after))]
        self.last = shape

    def next(self, shape: Shape | None = None) -> Guess | None:
        """What is likely to follow the shape (the last one); None when that cannot be predicted."""
        at = self.last if shape is None else shape
        if at is None:
            return None
        known = self._likely(self.after.get(at))
        if known is not None:
            return known
        step = self._likely(self.steps)
        if step is None or not any(step.shape):
            return None
        following = tuple(a + d for a, d in zip(at, step.shape, strict=True))
        # sizes that fall by one end with 1: code for no elements, or for fewer, is not worth making
        return Guess(following, step.share, step.seen) if min(following) > 0 else None

    def _likely(self, row: Counter[Shape] | None) -> Guess | None:
        if not row:
            return None
        (shape, n), total = row.most_common(1)[0], row.total()
        return Guess(shape, n / total, total) if total >= self.support and n >= self.share * total else None


def _count(row: Counter[Shape], shape: Shape) -> None:
    row[shape] += 1
    if row.total() > AGED:
        for key in list(row):
            row[key] //= 2
            if not row[key]:
                del row[key]
