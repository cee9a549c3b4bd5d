"""Who is promoted, demoted and evicted, and when: one step looks at the calls since the last and does what is
due. Knows the rules and the protocols; no kernel, no compiler, no thread.

A shape climbs from what the kernel serves it with (tier 0 or 1) to code of its own (2) and to searched code
(3). Code is ordered when its benefit is above the threshold, made in the background, tried against what
serves the shape now, and published only if it wins. All changes of one shape are at least ``dwell`` apart,
whatever is the reason for them: what has just been published is not evicted either, so that traffic between
two working sets cannot make the tiers swing.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .benefit import LOADING, PUBLISHING, Experience, Thresholds, benefit
from .cache import CodeCache, Entry
from .histogram import Histogram
from .markov import Chain
from .serves import SPECIALISED, TUNED, Made, Makes, Order, Recent, Referee, Serves, Shape
from .stats import TierStats
from .window import Window

MARGIN, WORSE = (0.02, 0.1)
# a newcomer must be faster by this share; in use it may be slower by that, since the machine is not always
# the same
LOOKED_AT = 64  # shapes a step considers, the most called first
FOLLOWED = 64  # transitions of one step that the chain learns
TIMES, ENOUGH = 15, 9  # latencies kept for a shape, and how many tell what it takes
SLOW, OUTLIER = (
    1e-3,
    8.0,
)  # a slow call took longer than this many seconds and this many times the usual of its shape together
PATIENCE = (
    4.0  # after code of a shape was dropped, this many times the expected calls are needed to try again
)
Pause = Callable[[], None]


def let_others_run() -> None:
    """Give up the interpreter's lock if somebody waits for it: the tiers' work on the lock stays short."""
    time.sleep(0)


@dataclass
class Served:
    """A shape with published code."""

    entry: Entry
    since: float
    cost: float  # seconds
    before: float  # seconds of a call by what it replaced, as served
    calls: float = 0.0
    paid: bool = False


@dataclass
class _Counts:
    hits: Counter[int] = field(default_factory=Counter)
    promotions: Counter[int] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    making: Counter[int] = field(default_factory=Counter)
    demotions: int = 0
    evictions: int = 0
    stored: int = 0
    ahead: int = 0
    slow: int = 0


class Manager:
    """The rules at work on one kernel. ``step`` is called again and again, by one thread at a time; it never
    waits for anything but a trial.

    ``highest`` is the highest tier to make, ``parallel`` how many orders may be on their way; ``clock`` gives
    seconds.
    """

    def __init__(
        self,
        serves: Serves,
        makes: Makes,
        referee: Referee,
        *,
        thresholds: Thresholds | None = None,
        cache: CodeCache | None = None,
        window: Window | None = None,
        highest: int = SPECIALISED,
        parallel: int = 1,
        clock: Callable[[], float] = time.monotonic,
        pause: Pause = let_others_run,
    ) -> None:
        self.serves, self.makes, self.referee, self.clock, self.pause = serves, makes, referee, clock, pause
        self.thresholds = thresholds or Thresholds()
        self.cache = CodeCache() if cache is None else cache  # an empty one is false
        self.window = window or Window()
        self.highest, self.parallel = highest, parallel
        self.chain = Chain()
        self.experience = Experience()
        self.published: dict[Shape, Served] = {}
        self.latencies = Histogram()
        self._counts = _Counts()
        self._changed: dict[Shape, float] = {}
        self._ordered: set[Order] = set()
        self._ready: list[Made] = []  # made, and to wait until the shape's last change is long enough ago
        self._refused: dict[Order, float] = {}  # expected calls that are needed to try again
        self._times: dict[Shape, deque[float]] = {}

    def step(self) -> int:
        """Do what is due; how many calls there were since the last step."""
        calls = self.observe()
        now = self.clock()
        self.pause()
        self._ready += self.makes.finished()
        waiting, self._ready = self._ready, []
        for made in waiting:
            if now - self._changed.get(made.order.shape, -math.inf) < self.thresholds.dwell:
                self._ready.append(made)
            else:
                self._collect(made, now)
                self.pause()
        self._demote(now)
        self.pause()
        self._promote(now)
        return calls

    def observe(self) -> int:
        """Take in the calls since the last time, and decide nothing; how many there were."""
        recent = self.serves.recent()
        self.pause()
        self._observe(recent, self.clock())
        return recent.total

    def stats(self) -> TierStats:
        """What has happened so far, to the last call."""
        self.observe()
        c = self._counts
        return TierStats(
            Counter(c.hits),
            Counter(c.promotions),
            c.demotions,
            c.evictions,
            Counter(c.dropped),
            Counter(self.makes.misses),
            c.stored,
            c.ahead,
            c.slow,
            self.cache.bytes,
            self.cache.budget,
            len(self.cache),
            Counter(c.making),
            self.makes.busy(),
            self.thresholds.high,
            Histogram(self.latencies.counts),
            {s: p.entry.tier for s, p in self.published.items()},
        )

    def tier(self, shape: Shape) -> int:
        """What serves a shape now."""
        served = self.published.get(shape)
        return self.serves.base(shape) if served is None else served.entry.tier

    def _observe(self, recent: Recent, now: float) -> None:
        """Take in the calls."""
        n = len(recent.shapes)
        if not n:
            return
        self.latencies.add_all(recent.seconds)
        self.pause()
        # the ring forgets the oldest: each call that is left stands for so many
        weight = max(1.0, recent.total / n)
        order = np.lexsort(recent.shapes.T)  # the calls of a shape together, oldest first
        rows, seconds = recent.shapes[order], np.asarray(recent.seconds)
        starts = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1), [True]]))
        shapes, counts = rows[starts[:-1]], np.diff(starts)
        for i in np.flatnonzero(seconds > SLOW).tolist():
            # judged by what was usual before this batch: a slow call does not make itself usual
            known = self._times.get(tuple(recent.shapes[i].tolist()))
            self._counts.slow += known is not None and seconds[i] > SLOW + OUTLIER * statistics.median(known)
        seconds = seconds[order]
        batch = dict(zip(map(tuple, shapes.tolist()), counts.tolist(), strict=True))
        self.window.add(batch, weight)
        self.pause()
        for i, (shape, calls) in enumerate(batch.items()):
            self._counts.hits[self.tier(shape)] += round(calls * weight)
            self._times.setdefault(shape, deque(maxlen=TIMES)).extend(
                seconds[max(starts[i], starts[i + 1] - TIMES) : starts[i + 1]].tolist()
            )
            self._use(shape, calls * weight, now)
            if i % 32 == 31:
                self.pause()
        # in the order of calls, and the last ones only: a chain learns what follows what
        for row in recent.shapes[-FOLLOWED:].tolist():
            self.chain.add(tuple(row))
        for shape in (
            # a service may see millions of shapes; those the window has forgotten go when they are the larger
            # part
            [s for s in self._times if s not in self.window.since]
            if len(self._times) > 2 * len(self.window.since) + 64
            else ()
        ):
            del self._times[shape]

    def _use(self, shape: Shape, calls: float, now: float) -> None:
        served = self.published.get(shape)
        if served is None:
            return
        self.cache.used(served.entry, now, math.ceil(calls))
        served.calls += calls
        if not served.paid and served.entry.gain * served.calls >= served.cost:
            served.paid = True
            self.thresholds.paid()

    def _collect(self, made: Made, now: float) -> None:
        """Try what was made, and publish it if it is better than what there is."""
        order, tier = made.order, made.order.tier
        self._ordered.discard(order)
        if made.module is None:
            self._refuse(order, made.why or "not made")
            return
        if self.tier(order.shape) >= tier:
            self._refuse(order, "too late")
            return
        if not made.stored:
            self.experience.made(tier, made.seconds)
        self._counts.making[tier] += made.seconds  # type: ignore[assignment]
        self._counts.stored += made.stored
        self._try(made, LOADING if made.stored else made.seconds, now)

    def _try(self, made: Made, cost: float, now: float) -> None:
        order, shape = made.order, made.order.shape
        served = self.published.get(shape)
        verdict = self.referee.trial(shape, None if served is None else served.entry.module, made.module)
        if not verdict.right:
            self.makes.discard(order)
            # never again: what is wrong once is not to be trusted with fewer or more calls
            self._refuse(order, f"wrong: {verdict.why}", math.inf)
            return
        self.experience.tried(order.tier, shape, verdict.ratio)
        if verdict.ratio > 1 - MARGIN:
            self._refuse(order, "not faster than what it was to replace")
            return
        entry = Entry(
            shape, order.tier, made.module, made.size, made.seconds, made.shared, verdict.now - verdict.new
        )
        leaving = self.cache.put(entry, now, lambda e: self._stays(e, now))
        if leaving is None:
            self._refuse(order, "no room in the budget")
            return
        for e in leaving:
            self._evicted(e, now)
        self._publish(shape, entry, cost, now)

    def _publish(self, shape: Shape, entry: Entry, cost: float, now: float) -> None:
        self.serves.publish(shape, entry.module)
        times = self._times.get(shape, ())
        self.published[shape] = Served(
            entry, now, cost, statistics.median(times) if len(times) >= ENOUGH else math.inf
        )
        self._changed[shape] = now
        self._times.pop(shape, None)
        self._counts.promotions[entry.tier] += 1
        self._counts.ahead += not self.window.calls(shape)

    def _stays(self, e: Entry, now: float) -> bool:
        """Code that was published a moment ago is not evicted."""
        return any(p.entry is e and now - p.since < self.thresholds.dwell for p in self.published.values())

    def _evicted(self, entry: Entry, now: float) -> None:
        self._counts.evictions += 1
        for shape in [s for s, p in self.published.items() if p.entry is entry]:
            self._retire(shape, now)

    def _retire(self, shape: Shape, now: float) -> None:
        self.serves.retire(shape)
        if not self.published.pop(shape).paid:
            self.thresholds.wasted()
        self._changed[shape] = now
        self._times.pop(shape, None)

    def _refuse(self, order: Order, why: str, calls: float | None = None) -> None:
        self._counts.dropped[why] += 1
        self._refused[order] = (
            PATIENCE * max(1.0, self.window.expected(order.shape)) if calls is None else calls
        )

    def _demote(self, now: float) -> None:
        """Retire what serves its calls slower than what it replaced, whatever its trial said: where arrays
        lie can double the time of a kernel. And what is not called any more; its code stays in the cache
        while there is room."""
        for shape, served in list(self.published.items()):
            if now - served.since < self.thresholds.dwell:
                continue
            times = self._times.get(shape, ())
            if len(times) >= ENOUGH and statistics.median(times) > served.before * (1 + WORSE):
                self._retire(shape, now)
                self._counts.demotions += 1
                self.cache.drop(served.entry)
                self._refuse(Order(shape, served.entry.tier), "slower in use than what it replaced")
                continue
            b = benefit(served.entry.gain, 0.0, self.window.expected(shape), served.cost)
            if self.thresholds.demotes(b, served.cost):
                self._retire(shape, now)
                self._counts.demotions += 1

    def _promote(self, now: float) -> None:
        """Order the code of greatest benefit, and publish at once what is in memory."""
        offers: list[tuple[float, Order]] = []
        guess = self.chain.next()
        shapes = self.window.shapes(LOOKED_AT)
        if guess is not None and guess.shape not in shapes and self.serves.takes(guess.shape):
            shapes.append(guess.shape)
        for shape in shapes:
            self.pause()
            if now - self._changed.get(shape, -math.inf) < self.thresholds.dwell:
                continue
            calls = self.window.expected(shape)
            if guess is not None and shape == guess.shape and not self.window.calls(shape):
                calls = guess.share * self._visit()
            offers += self._offers(shape, calls)
        for _, order in sorted(offers, key=lambda x: -x[0]):
            known = self.cache.find(order.shape, order.tier)
            if known is not None:  # it has won its trial before
                self._publish(order.shape, known, PUBLISHING, now)
            elif self.makes.busy() < self.parallel and order not in self._ordered:
                self._ordered.add(order)
                self.makes.order(order)

    def _offers(self, shape: Shape, calls: float) -> list[tuple[float, Order]]:
        """What could be done for a shape, with its benefit in seconds."""
        seconds, tier = self._seconds(shape), self.tier(shape)
        out = []
        for goal in range(max(SPECIALISED, tier + 1), self.highest + 1):
            order = Order(shape, goal)
            if goal == TUNED and tier < SPECIALISED and Order(shape, SPECIALISED) not in self._refused:
                continue  # the search begins at the tier below
            if calls < self._refused.get(order, 0.0) or seconds is None:
                continue
            gain = seconds * (1 - self.experience.ratio(goal, shape, tier))
            if gain * calls <= PUBLISHING:
                continue
            cost = (
                PUBLISHING
                if self.cache.find(shape, goal)
                else LOADING
                if self.makes.has(order)
                else self.experience.cost(goal)
            )
            b = benefit(seconds, seconds - gain, calls, cost)
            if self.thresholds.promotes(b, cost):
                out.append((b, order))
        return out

    def _seconds(self, shape: Shape) -> float | None:
        """What a call takes now, by its last calls; for a shape that was not called, by those of the
        nearest."""
        times = self._times.get(shape)
        if not times and self._times:
            near = min(
                (s for s in self._times if self._times[s] and self.tier(s) < SPECIALISED),
                default=None,
                key=lambda s: sum(
                    (math.log2(a + 1) - math.log2(b + 1)) ** 2 for a, b in zip(s, shape, strict=True)
                ),
            )
            times = None if near is None or shape in self.published else self._times[near]
        return statistics.median(times) if times else None

    def _visit(self) -> float:
        """Calls that a shape has when it comes, on average."""
        return sum(self.window.since.values()) / max(1, len(self.window.since))
