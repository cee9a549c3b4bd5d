"""The session of a program of several heavy reductions: its pieces are searched, each in a session of its
own, and the best of them put together on the whole. Knows sessions and pieces; measures nothing.

The first candidate is the default schedule of the whole. Then the pieces take turns: each at first, later the
one that takes most of the time of the whole for the rounds it had (the hope that so much again brings as much
again, of Ansor's equation 7). A program of two heavy reductions is also searched as one, for the places where
the first is computed inside the second: it counts as one more piece. At the end what was fastest of every
piece is measured again, and the schedules put together of them are measured in turns with the default
schedule: what is fast by itself need not be so beside the others, and the default may win.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

import tensorlang as tl

from ..cost_model import CostModel
from ..measure import Job, Outcome
from ..records import Record, RecordLog
from ..records.database import ranked
from ..search import Strategy
from ..space.cut import TOGETHER, heavy
from ..task import SearchTask
from .extract import Pieces, pieces_of
from .session import ALONE, PARTS, Session, canonical_trace

# candidates of a piece in its first round, which says how much of the time it takes, and in any other
FIRST, LATER = 2, 8
WHOLE = -1  # the number of the piece that is the whole program
# of the candidates that its time would give the whole beside its pieces, as long as it is as fast as they say
# they will be together; the share falls with this power of how much slower it is
FUSED, FALL = 0.5, 8
AGAIN, AGAIN_ROUNDS = 3, 2  # of the fastest of a piece are measured again at the end, and as often
# of the time of its default schedule: a piece that gained less keeps that in one of the schedules put
# together
WORTH = 0.97


def session_of(
    task: SearchTask, log: RecordLog, strategy: Strategy, model: CostModel, seed: int, timeout: float
) -> Session:
    """The session of a task: of the whole, or of its pieces when there are several heavy reductions."""
    pieces = pieces_of(task, finely=True)
    if len(pieces.places) == 1:
        return Session(task, log, strategy, model, seed, timeout)
    return ProgramSession(pieces, log, strategy, model, seed, timeout)


class ProgramSession(Session):
    """A program with the sessions of its pieces. A candidate of piece 2 is ``2:`` and its trace, one of the
    whole is its trace."""

    def __init__(
        self, pieces: Pieces, log: RecordLog, strategy: Strategy, model: CostModel, seed: int, timeout: float
    ) -> None:
        few = len(heavy(pieces.program.schedule())) <= TOGETHER
        super().__init__(pieces.program, log, strategy, model, seed, timeout, variants=None if few else ())
        self.pieces = pieces
        self.members: dict[int, Session] = {}
        self.reasons: dict[int, str] = {}  # why a piece cannot be searched
        for i, task in enumerate(pieces.tasks):
            try:
                member = Session(task, log, strategy, model, seed, timeout)
            except tl.TensorLangError as e:
                self.reasons[i] = str(e)
                continue
            if member.variants.nothing:
                self.reasons[i] = f"{task.name}: {member.variants.nothing.partition(';')[0]}"
            else:
                self.members[i] = member
        # candidates of each piece that has more
        self._proposed = dict.fromkeys([*self.members, *([WHOLE] if few else [])], 0)
        self._begun = False
        self._joined: list[str] = []  # schedules put together of those of the pieces

    @property
    def tried(self) -> int:
        """How many different candidates were measured, of the whole and of its pieces."""
        return len(self.known) + sum(m.tried for m in self.members.values())

    @property
    def trials(self) -> int:
        """How many different candidates were measured or are on their way, of the whole and of its pieces."""
        return len(self.known) + len(self.waiting) + sum(m.trials for m in self.members.values())

    @property
    def best(self) -> float:
        """Seconds of the fastest schedule of the whole, or what its pieces say it will be."""
        return min(super().best, self._promised())

    def _promised(self) -> float:
        """Seconds of the default schedule of the whole, less what its pieces have gained."""
        begun = self.known.get(self.first, float("inf"))
        saved = sum(
            w * (was - m.best)
            for i, m in self.members.items()
            for w in [self.pieces.weights[i]]
            for was in [m.known.get(m.first, float("inf"))]
            if m.best <= was < float("inf")
        )
        return max(begun - saved, 0.1 * begun) if begun < float("inf") else begun

    @property
    def first(self) -> str:
        """The default schedule of the whole."""
        return super().first if self.variants else self._default

    @cached_property
    def _default(self) -> str:
        """The same where there are no variants, of which it is the first."""
        return canonical_trace(self.task.default_schedule().trace)

    def propose(self, n: int) -> list[str]:
        """The default schedule of the whole, then candidates of the pieces and of the whole, each time of one
        of them."""
        result = []
        if self.first not in self.known and self.first not in self.waiting:
            self.waiting[self.first] = (
                0,
                self.variants[0].present()[0] if self.variants else np.empty(0, np.int64),
            )
            result = [self.first]
        # a model learns of one task: each piece has its own, now that what there is to load is loaded
        if not self._begun:
            self._begun = True
            for m in self.members.values():
                m.model = copy.deepcopy(self.model)
        # so that they are built while the next ones are thought of
        while not result and self._proposed:
            i = max(self._proposed, key=self._hope)
            most = min(LATER if self._proposed[i] else FIRST, n)
            new = super().propose(most) if i == WHOLE else [f"{i}:{t}" for t in self.members[i].propose(most)]
            self._proposed[i] += len(new)
            result += new
            if not new:
                del self._proposed[i]
        self.exhausted = not result
        return result

    def _hope(self, i: int) -> float:
        """Seconds of the whole that a piece still takes for each of its candidates."""
        if not self._proposed[i]:
            return float("inf")
        if i != WHOLE:
            spent, share = self.members[i].best, float(self.pieces.weights[i])
        else:
            spent = min((c for s, c in self.known.items() if s != self.first), default=super().best)
            share = FUSED * min(1.0, self._promised() / spent) ** FALL if spent < float("inf") else 0.0
        return share * spent / self._proposed[i] if spent < float("inf") else 0.0

    def job(
        self,
        steps: str,
        *,
        seconds: float = 0.0,
        process: str = "",
        place: int = -1,
        also: Sequence[str] = (),
    ) -> Job:
        """The job to measure a candidate of the whole or of a piece; ``also`` are of the same."""
        member, trace = self._of(steps)
        also = [self._of(s)[1] for s in also]
        of = super().job if member is None else member.job
        return of(trace, seconds=seconds, process=process, place=place, also=also)

    def drop(self, traces: Iterable[str]) -> None:
        """Forget candidates that were proposed and will not be measured."""
        for steps in traces:
            member, trace = self._of(steps)
            (self if member is None else member).waiting.pop(trace, None)

    def record(self, steps: str, o: Outcome, turn: str = "") -> Record:
        """Remember an outcome, and write it down under the task it is of."""
        member, trace = self._of(steps)
        return super().record(trace, o, turn) if member is None else member.record(trace, o, turn)

    def _of(self, steps: str) -> tuple[Session | None, str]:
        number, colon, trace = steps.partition(":")
        return (self.members[int(number)], trace) if colon and number.isdecimal() else (None, steps)

    def finals(self) -> Iterator[tuple[list[str], str]]:
        """The fastest of each piece, then the whole put together of them, and the fastest of the whole, in
        turns with its default schedule."""
        for i, m in self.members.items():
            for _ in range(AGAIN_ROUNDS):
                yield [f"{i}:{t}" for t in m.fastest_few(AGAIN)], PARTS
        together = self._together()
        yield [t for t in together if t not in self.known], ALONE
        works = [t for t in together if self.known.get(t, float("inf")) < float("inf")]
        yield from self.in_turns(list(dict.fromkeys([*works, *self.fastest_few(AGAIN)])))

    def _together(self) -> list[str]:
        """Schedules of the whole: the best of every piece, the best where it is worth it, and the second best
        of every piece."""
        orders = {
            i: [r for r in ranked(m.measured(), m.key, m.target) if r.ok] for i, m in self.members.items()
        }
        costs = {i: {r.steps: r.cost for r in order} for i, order in orders.items()}
        best = {i: order[0] for i, order in orders.items() if order}
        second = {i: order[min(1, len(order) - 1)] for i, order in orders.items() if order}
        worth = {
            i: r
            for i, r in best.items()
            if r.cost < WORTH * costs[i].get(self.members[i].first, float("inf"))
        }
        result = []
        for chosen in (best, worth, second):
            try:
                result.append(
                    canonical_trace(self.pieces.put_together({i: r.trace() for i, r in chosen.items()}).trace)
                )
            except tl.ScheduleError:
                continue  # a record of another release
        self._joined = list(dict.fromkeys(result))
        return result

    def notes(self) -> list[str]:
        """That it was cut, and what could not be searched."""
        parts = [
            f"{w} × {t.name.removeprefix(self.task.name + ': ')}"
            for t, w in zip(self.pieces.tasks, self.pieces.weights, strict=True)
        ]
        cut = f"cut into {len(self.pieces.places)} pieces, {len(self.pieces)} different: {'; '.join(parts)}"
        return [cut, *[f"not searched: {why}" for why in self.reasons.values()], *super().notes()]

    def parts(self) -> dict[str, float]:
        """Seconds of each part of the work, on the whole and on its pieces."""
        every = [super().parts(), *[m.parts() for m in self.members.values()]]
        return {part: sum(p.get(part, 0.0) for p in every) for p in every for part in p}

    def ranks(self) -> list[list[tuple[float, float]]]:
        """Those of the whole and of each piece."""
        return [*super().ranks(), *[pairs for m in self.members.values() for pairs in m.ranks()]]

    def sketches(self, final: Mapping[str, float]) -> list[tuple[str, int, float]]:
        """Those of the whole, and the schedules put together of what the pieces gained."""
        costs = [final.get(t, float("inf")) for t in self._joined if t in self.known]
        joined = [("the best of its pieces, put together", len(costs), min(costs))] if costs else []
        return sorted([*super().sketches(final), *joined], key=lambda f: f[2])

    def weights(self) -> dict[str, float]:
        """Nothing: each piece has a model of its own."""
        return {}
