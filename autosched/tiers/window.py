"""What is being called: the last calls in a ring, and how many more calls of a shape to expect. Knows shapes
and counts only.

Expected further calls of a shape are as many as it has had since it came up: whoever buys when the rent paid
equals the price never pays more than twice the optimum (the ski-rental rule; Karlin, Manasse, Rudolph and
Sleator, *Competitive snoopy caching*, 1988, section 3). Two corrections come from the ring of the last calls,
and none from a probability:

- A shape seen once among shapes that are never seen again will not come again: counts are discounted by D =
  n1 / (n1 + 2·n2), with n1 and n2 the numbers of shapes seen once and twice (absolute discounting: Ney, Essen
  and Kneser, *On structuring probabilistic dependences*, 1994).
- A shape that is on its way out counts less: by its share of the newer half of the ring, where this is the
  smaller one.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Mapping

from .serves import Shape


class Window:
    """The last ``size`` calls or the last ``batches`` batches of them, whichever are more, in an older and a
    newer half. Calls come in batches, since nobody looks after each."""

    def __init__(self, size: int = 4096, batches: int = 16) -> None:
        if size < 2 or batches < 2:
            raise ValueError(f"a window of {size} calls or {batches} batches has no two halves")
        self.size, self.batches = size, batches
        self.old, self.new = _Half(), _Half()
        self.since: dict[Shape, float] = {}  # calls of a shape since it came into the ring
        self._times: Counter[int] = Counter()  # how many shapes have this many calls in the ring

    def add(self, calls: Mapping[Shape, int], weight: float = 1.0) -> None:
        """A batch of calls, each of which stands for ``weight`` calls (more than 1 when not all are seen)."""
        for shape, n in calls.items():
            self.since[shape] = self.since.get(shape, 0.0) + n * weight
            before = self.calls(shape)
            self._recount(before, before + n)
        self.new.push(calls)
        while (
            len(self.old.rows) + len(self.new.rows) > self.batches
            and self._total() - self.old.oldest() >= self.size
        ):
            if not self.old.rows:
                break
            for shape, n in self.old.pop().items():
                left = self.calls(shape)
                self._recount(left + n, left)
                if not left:
                    del self.since[shape]
        while len(self.new.rows) > 1 and 2 * (self.new.total - self.new.oldest()) >= self._total():
            self.old.push(self.new.pop())

    def calls(self, shape: Shape) -> int:
        """Calls of a shape in the ring."""
        return self.old.counts[shape] + self.new.counts[shape]

    def shapes(self, most: int) -> list[Shape]:
        """Up to this many of the shapes in the ring, the most called first."""
        return [s for s, _ in heapq.nsmallest(most, self.since.items(), key=lambda item: (-item[1], item[0]))]

    def expected(self, shape: Shape) -> float:
        """How many further calls of the shape to expect; 0 for one that is not in the ring."""
        calls = self.calls(shape)
        if not calls:
            return 0.0
        # as many as this in the whole ring, if it were like its newer half
        newer = self.new.counts[shape] * self._total() / max(1, self.new.total)
        return self.since[shape] * min(1.0, newer / calls) * max(0.0, 1.0 - self.discount() / calls)

    def discount(self) -> float:
        """D, between 0 (whatever comes comes again) and 1 (nothing does)."""
        n1, n2 = self._times[1], self._times[2]
        return n1 / (n1 + 2 * n2) if n1 else 0.0

    def _total(self) -> int:
        return self.old.total + self.new.total

    def _recount(self, before: int, after: int) -> None:
        self._times[before] -= 1
        self._times[after] += 1


class _Half:
    """Batches, oldest first, and their counts together."""

    def __init__(self) -> None:
        self.rows: deque[Mapping[Shape, int]] = deque()
        self.sizes: deque[int] = deque()
        self.counts: Counter[Shape] = Counter()
        self.total = 0

    def oldest(self) -> int:
        """Calls of the oldest batch."""
        return self.sizes[0] if self.sizes else 0

    def push(self, calls: Mapping[Shape, int]) -> None:
        """One more batch."""
        self.rows.append(calls)
        self.sizes.append(sum(calls.values()))
        self.total += self.sizes[-1]
        for shape, n in calls.items():
            self.counts[shape] += n

    def pop(self) -> Mapping[Shape, int]:
        """The oldest batch."""
        calls = self.rows.popleft()
        self.total -= self.sizes.popleft()
        for shape, n in calls.items():
            self.counts[shape] -= n
            if not self.counts[shape]:
                del self.counts[shape]
        return calls
