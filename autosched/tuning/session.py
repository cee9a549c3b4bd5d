"""One task being tuned: its space, what is known of it, who proposes and who learns. Knows every room of the
package by its protocol and none by its inside; does not decide how many trials there are, nor measures.

Candidates may be proposed while others are still being measured: these count as seen, and nothing is learnt
of them yet.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

import tensorlang as tl
from tensorlang.analysis import cost_of
from tensorlang.core.collector import uncollected

from ..cost_model import CostModel, Explains, Informed
from ..measure import Job, Outcome, fingerprint
from ..records import Record, RecordLog
from ..records.ranking import counted, ranked
from ..records.record import LOOKING, SHARED, WORTH, canonical_trace
from ..search import Seen, Strategy, allocate
from ..search.strategy import ByFeatures, known_score
from ..space import Variant, Variants, variants_of
from ..statuses import OK, WRONG_ANSWER
from ..task import SearchTask
from .adopted import Adopted
from .near import from_near

T = TypeVar("T")
# at the end: this many of the fastest are measured again, and no more than one in this many
FINALISTS, SHARE = 8, 4
# seconds of timing: of a candidate; of a finalist, when it is chosen who is measured further, and in each
# process after that
BRIEF, LOOK, CAREFUL = 0.004, 0.01, 0.02
# after one look the KEPT best go on in CHOOSING processes, unless the first of these says with the look that
# none of them is worth it; who is best then is compared with the first in LEAST others, or in up to MOST
# until the gain is known to within NARROW of itself: what chose it flatters it. FEWER do where it is known
# twice as well, and who is not worth it in any of FEWEST goes no further
KEPT, CHOOSING, FEWEST, FEWER, LEAST, MOST = 3, 3, 3, 5, 7, 14
NARROW = 0.04
# how candidates are measured at the end; in ``turns`` they are built as users build them
ALONE, LOOKS, PARTS, TURNS = "alone", "looks", "parts", "turns"
_job_numbers = itertools.count(1)


class Measures(Protocol):
    """What the loop needs of measurement."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in order. Jobs may be taken some way ahead of the outcomes."""


class Session:
    """A task with its variants and everything measured of it."""

    def __init__(
        self,
        task: SearchTask,
        log: RecordLog,
        strategy: Strategy,
        model: CostModel,
        seed: int,
        timeout: float,
        variants: Sequence[Variant] | None = None,
    ) -> None:
        self.task, self.log, self.strategy, self.model, self.timeout = task, log, strategy, model, timeout
        self.rng = np.random.default_rng(seed)
        self.key, self.target = task.workload_key, str(task.target)
        self.variants = variants_of(task) if variants is None else Variants(variants)
        self.seen = [Seen(len(v.domains)) for v in self.variants]
        self.known: dict[str, float] = {}
        self.waiting: dict[str, tuple[int, np.ndarray]] = {}
        self.flops = task.flops
        self.learnt = isinstance(model, Informed) and model.informed
        self.variant_of: dict[str, int] = {}  # candidate → number of the variant that it is of
        self.fastest: Record | None = None  # by one measurement; the last word is the log's
        self.unsaved: tl.TensorLangError | None = None
        self.exhausted = False  # there was nothing left to propose
        self.believed: dict[str, float] = {}  # what the model said of candidates before they were measured
        self.spent: dict[str, float] = {}  # seconds of each part, those of workers too
        self._news = False
        self._ahead: set[str] = set()  # built for the comparison at the end
        self._adopted = Adopted(task, [v.trace for v in self.variants])
        for r in self.measured():
            self._remember(r)
        self._near = from_near(log, self.variants, self.key, self.target)
        self.near = len(self._near)

    def measured(self) -> list[Record]:
        """The records of the task, in its names."""
        return self._adopted.own(self.log)

    @property
    def trials(self) -> int:
        """How many different candidates were measured or are on their way."""
        return self.tried + len(self.waiting)

    @property
    def tried(self) -> int:
        """How many different candidates were measured."""
        return len(self.known)

    @property
    def best(self) -> float:
        """Seconds of the fastest candidate; infinite when nothing worked yet."""
        return min(self.known.values(), default=float("inf"))

    def propose(self, n: int) -> list[str]:
        """Up to ``n`` new candidates as the texts of their traces; none when the space is exhausted."""
        for r in self._adopted.own(self.log.refresh()):  # of other processes
            self._remember(r)
        # features of a variant are made when it is first searched, in thousands of expressions that stay
        with uncollected():
            with self.timed("model"):
                self._learn()
            with self.timed("search"):
                return self._chosen(n)

    def _chosen(self, n: int) -> list[str]:
        learnt = self.learnt and not self.variants.nothing
        scores = [ByFeatures(self.model.predict, v) for v in self.variants] if learnt else None
        chosen = allocate(self.variants, self._seen(), self.strategy, n, self.rng, scores)
        begun = 0 if self.trials else 1  # what its author wrote comes first of all
        chosen = [*chosen[:begun], *self._near, *chosen[begun:]][:n]
        self._near = self._near[max(0, n - begun) :]
        found = {canonical_trace(self.variants[i].trace_of(row)): (i, row) for i, row in chosen}
        new = [t for t in found if t not in self.known and t not in self.waiting]
        self.waiting.update((t, found[t]) for t in new)
        if scores is not None:
            for i in dict.fromkeys(found[t][0] for t in new):
                mine = [t for t in new if found[t][0] == i]
                said = known_score(scores[i], np.stack([found[t][1] for t in mine]))
                self.believed.update(zip(mine, map(float, said), strict=True))
        self.exhausted = not new
        return new

    def drop(self, traces: Iterable[str]) -> None:
        """Forget candidates that were proposed and will not be measured."""
        for t in traces:
            self.waiting.pop(t, None)

    def spend(self, part: str, seconds: float) -> None:
        """Count time of a part."""
        self.spent[part] = self.spent.get(part, 0.0) + seconds

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Count what follows as time of a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spend(part, time.perf_counter() - start)

    def _seen(self) -> list[Seen]:
        """What was measured, and what is on its way as if it had failed: not proposed again, and not taken
        for good."""
        both = [Seen(len(v.domains)) for v in self.variants]
        for s, b in zip(self.seen, both, strict=True):
            b.add(s.rows, s.costs)
        for i, row in self.waiting.values():
            both[i].add(row[None, :], [np.inf])
        return both

    def job(
        self,
        steps: str,
        *,
        seconds: float = 0.0,
        process: str = "",
        place: int = -1,
        also: Sequence[str] = (),
    ) -> Job:
        """The job to measure a candidate; ``seconds``: so long, however slow it was; ``process``: in one that
        only jobs of that name have run in; ``place``: where its arrays are; ``also``: in turns with these."""
        best = 0.0 if seconds or self.best == float("inf") else self.best
        return Job(
            next(_job_numbers),
            self.task.graph,
            self.task.exact_key,
            self.target,
            steps,
            timeout=self.timeout,
            seconds=seconds or BRIEF,
            place=place,
            best=best,
            process=process,
            also=tuple(also),
        )

    def record(self, steps: str, o: Outcome, turn: str = "") -> Record:
        """Remember an outcome, and write it down. A file that cannot be written loses nothing: see
        ``unsaved``. ``turn`` names what was measured right before and after."""
        now, versions = time.time(), {"tensorlang": tl.__version__, "costs": cost_of(self.task.target).digest}
        for part, seconds in o.parts.items():
            self.spend(part, seconds)
        r = Record(
            self.key,
            self.target,
            steps,
            o.status,
            o.times,
            o.error,
            self.task.name,
            o.machine or fingerprint(),
            o.build_seconds,
            o.seconds,
            now,
            versions,
            start=steps == self.first,
            names=self.task.names,
            turn=turn,
        )
        try:
            self.log.append(r)
            self.unsaved = None
        except tl.TensorLangError as e:
            self.unsaved = e
        self._remember(r)
        return r

    @cached_property
    def first(self) -> str:
        """The candidate that the search begins with: the default schedule, or the template with the values it
        was written with."""
        return canonical_trace(self.variants[0].trace_of(self.variants[0].present()[0]))

    def finals(self) -> Iterator[tuple[list[str], str]]:
        """What is to be measured again at the end, each round when the one before has been: the fastest few
        beside the schedule the search began with, so that neither a lucky moment nor a drift of the machine
        decides; and how: LOOKS only choose who goes on."""
        order = self.fastest_few(max(2, min(FINALISTS, self.tried // SHARE)))
        if len(order) > 1:
            yield from self.in_turns(order)

    def fastest_few(self, n: int) -> list[str]:
        """The fastest so far, and the first candidate among them, which was measured while everything was
        cold: it must not lose by that."""
        order = [s for _, s in sorted((c, s) for s, c in self.known.items() if c < float("inf"))[:n]]
        if self.first not in order and self.known.get(self.first, float("inf")) < float("inf"):
            order.append(self.first)
        return order

    def in_turns(self, order: Sequence[str]) -> Iterator[tuple[list[str], str]]:
        """Rounds of some candidates, of which the best and the first go on, then the best of all."""
        yield list(order), LOOKS
        kept = [r.steps for r in self._rivals(order)][:KEPT]
        order = [s for s in order if s == self.first or s in kept]
        shared = self._times_shared()
        for number in range(2 * CHOOSING):
            alone = number - (self._times_shared() - shared)
            if alone >= CHOOSING or (alone and not self._worth_it(order)):
                break
            yield list(order), LOOKS
        best = self._worth_it(order)
        if self.first not in order or not best:
            return  # nothing to compare, or nobody is worth it
        order = [self.first, best[0].steps]
        for number in range(MOST):
            if number >= FEWEST and self._decided(order):
                return
            yield order, TURNS

    def _rivals(self, order: Sequence[str]) -> list[Record]:
        """What is known of them but of the first, the best first."""
        known = ranked(self.measured(), self.key, self.target)
        return [r for r in known if r.steps in order and r.steps != self.first]

    def _worth_it(self, order: Sequence[str]) -> list[Record]:
        """Those that may be worth leaving the first for, by all that is known, the best first."""
        worth = WORTH * self.start_seconds
        return [r for r in self._rivals(order) if r.interval[0] <= worth]

    def built_ahead(self, order: Sequence[str]) -> list[Job]:
        """A job to build one of the two that will be compared at the end, as users build it, if it looks as
        if there will be such a comparison."""
        rivals = self._rivals(order)
        if rivals and rivals[0].cost <= WORTH * self.start_seconds:
            for steps in (self.first, rivals[0].steps):
                if steps not in self._ahead:
                    self._ahead.add(steps)
                    return [replace(self.job(steps), whole=True, ahead=True)]
        return []

    @property
    def start_seconds(self) -> float:
        """Seconds of the first."""
        known = ranked(self.measured(), self.key, self.target)
        return next((r.cost for r in known if r.steps == self.first), float("inf"))

    def _decided(self, order: Sequence[str]) -> bool:
        """Whether it is known how much one is worth leaving the first for, or that it is not: with 95 %
        confidence, or by the most likely after as many rounds as a gain takes, for of what is kept nothing is
        told."""
        worth = WORTH * self.start_seconds

        def known(r: Record) -> bool:
            wide = (r.interval[1] - r.interval[0]) / r.cost
            return (len(r.times) >= LEAST and (r.cost > worth or wide < NARROW)) or (
                len(r.times) >= FEWER and wide < NARROW / 2
            )

        return all(map(known, self._worth_it(order)))

    def notes(self) -> list[str]:
        """What a person should know of how it went."""
        were = "that was" if self.near == 1 else "that were"
        near = [f"began with {self.near} {were} best for like computations"] if self.near else []
        whole = ["every candidate of the space was measured"] if self.exhausted else []
        measured = [self.variants.nothing] if self.variants.nothing else whole
        limits = [] if self.task.limits is None else [f"what is searched keeps to {self.task.limits}"]
        return [*near, *measured, *limits, *self._shared(), *self.variants.left_out]

    def _times_shared(self) -> int:
        """In how many turns processors shared a core."""
        return len({r.turn for r in self.measured() if SHARED in r.turn})

    def _shared(self) -> list[str]:
        """How often processors shared a core in the comparisons at the end."""
        turns = {r.turn for r in self.measured() if r.turn and not r.turn.endswith(LOOKING)}
        n = sum(SHARED in turn for turn in turns)
        left = ", which do not count" if not any(SHARED in t for t in counted(turns)) else ""
        return [f"processors shared a core in {n} of the last {len(turns)} comparisons{left}"] if n else []

    def parts(self) -> dict[str, float]:
        """Seconds of each part of the work."""
        return self.spent

    def ranks(self) -> list[list[tuple[float, float]]]:
        """For each model, its scores of candidates before they were measured, and the seconds they took."""
        costs = {r.steps: r.cost for r in ranked(self.measured(), self.key, self.target)}
        pairs = [(score, costs[t]) for t, score in self.believed.items() if t in costs]
        return [pairs] if pairs else []

    def sketches(self, final: Mapping[str, float]) -> list[tuple[str, int, float]]:
        """The sketches of which something was measured: their rules, how many candidates, and the seconds of
        the fastest by what was ``final`` of each candidate; fastest first."""
        found = []
        for n, v in enumerate(self.variants):
            costs = [final.get(t, float("inf")) for t, i in self.variant_of.items() if i == n]
            if costs:
                found.append((f"{n}: {', '.join(v.why) or 'template'}", len(costs), min(costs)))
        return sorted(found, key=lambda f: f[2])

    def noise(self) -> float | None:
        """How far the middle half of the measurements of the first candidate in turns with others is spread,
        as a share of its time; None where there are too few."""
        mine = [r for r in self.measured() if r.turn and r.steps == self.first and r.ok]
        times = sorted(t for r in mine for t in r.times)
        if len(times) < 4:
            return None
        return (times[3 * len(times) // 4] - times[len(times) // 4]) / times[len(times) // 2]

    def drift(self) -> float | None:
        """By how much the first candidate took longer in the later half of the turns with others than in the
        earlier, as a share of its time; None where there are too few."""
        costs = [r.cost for r in self.measured() if r.turn and r.steps == self.first and r.ok]
        half = len(costs) // 2
        return None if half < 2 else float(np.median(costs[-half:]) / np.median(costs[:half])) - 1.0

    def weights(self) -> dict[str, float]:
        """What the cost model goes by, heaviest first; empty when it cannot say or was not asked."""
        if self.variants.nothing:
            return {}
        self._learn()
        return self.model.weights(self.variants[0].feature_names) if isinstance(self.model, Explains) else {}

    def _remember(self, r: Record) -> None:
        place = self.waiting.pop(r.steps, None)
        if r.steps in self.known:
            return
        self.known[r.steps] = r.cost
        if r.ok and (self.fastest is None or r.cost < self.fastest.cost):
            self.fastest = r
        place = self._place(r) if place is None else place
        if place is not None and self.seen:  # of a program that is searched in pieces only there are none
            i, row = place
            self.variant_of[r.steps] = i
            self.seen[i].add(row[None, :], [r.cost])
            self._news = True

    def _place(self, r: Record) -> tuple[int, np.ndarray] | None:
        """The variant of a record, and its row there."""
        try:
            trace = r.trace()
        except tl.ScheduleError:
            return None
        for i, v in enumerate(self.variants):
            row = v.row(trace.decisions) if trace.steps == v.trace.steps else None
            if row is not None:
                return i, row
        return None

    def _learn(self) -> None:
        if self.variants.nothing:  # a computation whose loops have no features
            return
        rows = [v.remembered(s.rows) for v, s in zip(self.variants, self.seen, strict=True) if len(s.rows)]
        if rows and self._news:
            costs = np.concatenate([s.costs for s in self.seen if len(s.rows)])
            self.model.fit(np.concatenate(rows), costs)
            self.learnt = self.learnt or bool(np.isfinite(costs).sum() >= 2)
        self._news = False


def never() -> bool:
    """Nothing ends it."""
    return False


def measured(
    measurer: Measures,
    batches: Iterable[tuple[Session, list[str]]],
    *,
    seconds: float = 0.0,
    process: str = "",
    place: int = -1,
    turn: str = "",
    stop: Callable[[], bool] = never,
) -> Iterator[tuple[Session, Record]]:
    """The records of the candidates of all batches, in order. The next batch is asked for while the last
    candidates of the one before are still being measured. ``turn``: again, under that name. ``stop`` is asked
    after each: what is on its way then is dropped."""
    sent: deque[tuple[Session, str]] = deque()

    def jobs() -> Iterator[Job]:
        for session, traces in batches:
            for t in traces:  # one by one: how fast the best is is known better after each
                sent.append((session, t))
                yield session.job(t, seconds=seconds, process=process, place=place)

    outcomes = iter(measurer.run(jobs()))
    for outcome in outcomes:
        session, trace = sent.popleft()
        if not turn or outcome.status in (OK, WRONG_ANSWER):
            yield session, session.record(trace, outcome, turn)
        # else an accident: what was measured before still holds
        if stop():
            for session, trace in sent:
                session.drop([trace])
            getattr(outcomes, "close", never)()
            return


def measure_again(measurer: Measures, session: Session, stop: Callable[[], bool] = never) -> None:
    """Measure the finalists in turns, in several processes that have run nothing before: as in a program of
    the user, and not where the search has left its arrays. ``stop`` is asked after each measurement."""
    for n, (order, how) in enumerate(session.finals()):
        if stop():
            return
        if how == ALONE:
            for _ in measured(measurer, [(session, order)], stop=stop):
                pass
        elif len(order) > 1:
            _beside(measurer, session, order, 2 * n, how, stop)


def _beside(
    measurer: Measures, session: Session, order: Sequence[str], place: int, how: str, stop: Callable[[], bool]
) -> None:
    """Measure some candidates in turns in a fresh process. Where that fails, or ``measurer`` cannot do it,
    one after the other: so it is known who is guilty."""
    begin, look = f"{time.time():.6f}", how == LOOKS
    seconds = LOOK if look else CAREFUL
    job = session.job(order[0], seconds=seconds, process=begin, place=place, also=order[1:])
    # while some are looked at, a builder makes what will be compared: nobody waits for it
    beside = session.built_ahead(order) if look else []
    outcomes = iter(measurer.run([replace(job, whole=how == TURNS), *beside]))
    outcome = next(outcomes)
    getattr(outcomes, "close", never)()
    turn = begin + (SHARED if outcome.shared else "") + (LOOKING if look else "")
    times = [outcome.times, *outcome.also]
    if outcome.status == OK and len(times) == len(order):
        for trace, mine in zip(order, times, strict=True):
            session.record(trace, replace(outcome, times=mine, also=()), turn)
            outcome = replace(outcome, parts={})  # they are counted once
    elif not stop():
        again = [(session, list(order))]
        for _ in measured(measurer, again, seconds=seconds, process=begin, place=place, turn=turn, stop=stop):
            pass


class Preparing:
    """The models load what they need in a thread, which is to be waited for before anything is timed. One
    without ``prepare`` needs nothing.

    Raises TensorLangError for what is not a cost model.
    """

    def __init__(self, models: Sequence[CostModel]) -> None:
        for m in models:
            missing = [name for name in ("fit", "predict") if not callable(getattr(m, name, None))]
            if missing:
                raise tl.TensorLangError(
                    f"model: {type(m).__name__} has no {' and no '.join(missing)}",
                    because="a cost model learns by fit(features, costs) and scores by predict(features)",
                    try_='model="xgb", or model="random", which learns nothing',
                )
        self._models = models
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._load, daemon=True)
        self._thread.start()

    def _load(self) -> None:
        try:
            for m in self._models:
                getattr(m, "prepare", lambda: None)()
        except Exception as e:  # raised where it is awaited
            self._failed = e

    def join(self) -> None:
        """Wait. Raises TensorLangError when a model could not be loaded."""
        self._thread.join()
        if self._failed is not None:
            raise tl.TensorLangError(
                "the cost model cannot be loaded",
                because=f"{type(self._failed).__name__}: {self._failed}",
                try_='model="random", which learns nothing',
            ) from self._failed


def chosen(what: str, name: str, table: Mapping[str, T]) -> T:
    """The row of a table by name. Raises TensorLangError when there is none."""
    if name not in table:
        raise tl.TensorLangError(
            f"{what}={name!r}", because="there is none of that name", legal=", ".join(table)
        )
    return table[name]
