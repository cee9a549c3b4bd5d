"""Whether specialising pays: B = (t_now − t_specialised) · (expected further calls) − cost of compiling.
Knows seconds and counts only.

B is held against two thresholds, both in units of the cost, so that one number serves milliseconds of
compiling and minutes of tuning: above ``high`` a shape is promoted, below ``low`` it is demoted, and between
two changes of one shape at least ``dwell`` seconds pass. ``high`` begins at 0: buy when the rent paid equals
the price. It falls each time a specialisation has paid for itself, so that where shapes do come again the
next ones are made sooner, and rises when one had to go before it had paid.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from .serves import GENERIC, SPECIALISED, TABLE, TUNED, Shape

LOWEST, HIGHEST = -0.9, 3.0  # of ``high``: from a tenth of the price to four times it
EAGERER, WARIER = 0.8, 1.25  # what the required share of the price is multiplied with
PUBLISHING, LOADING = 1e-4, 5e-3  # seconds: code that is in memory, code that is in a file
GUESS = {SPECIALISED: 0.15, TUNED: 30.0}  # seconds to make code of a tier, before the first was made
PRIOR = {
    GENERIC: 0.6,
    TABLE: 0.9,
    SPECIALISED: 0.85,
}  # time against this tier, before the first trial: generic code has most to gain
KEPT = 256  # trials remembered for each tier


def benefit(now: float, then: float, calls: float, cost: float) -> float:
    """B, in seconds: a call takes ``now`` and would take ``then`` seconds, ``calls`` more are expected, the
    code costs ``cost`` seconds."""
    return (now - then) * calls - cost


@dataclass
class Thresholds:
    """``high`` and ``low`` in units of the cost, ``dwell`` in seconds."""

    high: float = 0.0
    low: float = -0.98
    dwell: float = 1.0

    def promotes(self, b: float, cost: float) -> bool:
        """Whether a benefit is enough to begin."""
        return b > self.high * cost

    def demotes(self, b: float, cost: float) -> bool:
        """Whether a benefit is too little to stay."""
        return b < self.low * cost

    def paid(self) -> None:
        """A specialisation has earned its cost."""
        self.high = max(LOWEST, (1 + self.high) * EAGERER - 1)

    def wasted(self) -> None:
        """One had to go before it had."""
        self.high = min(HIGHEST, (1 + self.high) * WARIER - 1)


class Experience:
    """What specialising took and brought so far, by tier: the only ground for guessing what the next one
    will."""

    def __init__(self) -> None:
        self._seconds = dict(GUESS)
        self._made = dict.fromkeys(GUESS, 0)
        self._ratios: dict[int, deque[tuple[Shape, float]]] = {tier: deque(maxlen=KEPT) for tier in GUESS}
        self._guessed: dict[tuple[int, Shape, int], float] = {}  # since the last trial

    def made(self, tier: int, seconds: float) -> None:
        """Code of a tier took so long to make."""
        n = self._made[tier] = min(self._made[tier] + 1, 8)
        self._seconds[tier] += (seconds - self._seconds[tier]) / n

    def cost(self, tier: int) -> float:
        """Seconds that the next will take."""
        return self._seconds[tier]

    def tried(self, tier: int, shape: Shape, ratio: float) -> None:
        """A trial: the new code took ``ratio`` times as long as the old. One that lost is dropped, so it
        counts as no gain, not as a loss."""
        self._ratios[tier].append((shape, math.log(min(1.0, ratio))))
        self._guessed.clear()

    def ratio(self, tier: int, shape: Shape, below: int) -> float:
        """The ratio to expect for a shape that is served by the tier ``below``: the geometric mean of the
        trials, near shapes weighing more (1 / (1 + d²), d the distance in powers of two), and of one trial's
        weight for the guess before any."""
        known = self._guessed.get((tier, shape, below))
        if known is not None:
            return known
        total, weights = math.log(PRIOR[below]), 1.0
        for other, value in self._ratios[tier]:
            w = 1 / (
                1 + sum((math.log2(a + 1) - math.log2(b + 1)) ** 2 for a, b in zip(shape, other, strict=True))
            )
            total += w * value
            weights += w
        guess = self._guessed[tier, shape, below] = math.exp(total / weights)
        return guess
