"""When a search ends: so many trials, so much time, so long without a gain. Knows the numbers of a session;
proposes and measures nothing."""

from __future__ import annotations

import numbers
import time
from collections.abc import Iterator

import tensorlang as tl
from tensorlang.errors import counted

from .session import Session

# of the time there is, at most this share and so many seconds are kept for measuring the finalists again
RESERVED, MOST_RESERVED = 0.25, 5.0
BETTER = 0.99  # of the best time: less is no gain


def check_limits(call: str, **limits: float | None) -> None:
    """Raises TensorLangError for a limit that leaves no room for a search."""
    for name, value in limits.items():
        if value is not None and (not isinstance(value, numbers.Real) or not 0 < value < float("inf")):
            raise tl.TensorLangError(
                f"{call}({name}={value!r}): {_WHY.get(name, 'it is a number above 0')}",
                try_=f"{name}={_USUAL.get(name, 1)}",
            )


def check_seed(call: str, seed: int) -> None:
    """Raises TensorLangError for what no random numbers begin with."""
    if not isinstance(seed, numbers.Integral):
        raise tl.TensorLangError(f"{call}(seed={seed!r}): a seed is a whole number", try_="seed=0")
    if seed < 0:
        raise tl.TensorLangError(f"{call}(seed={seed}): a seed is 0 or more", try_="seed=0")


_WHY = {
    "trials": "at least one candidate is measured",
    "seconds": "that is not a time to search in",
    "patience": "a search waits for one candidate at least",
    "batch": "at least one candidate is proposed at a time",
    "timeout": "a candidate needs time to be built and run",
}
_USUAL = {"trials": 64, "seconds": 60, "patience": 32, "batch": 16, "timeout": 20.0}


class Budget:
    """``trials`` candidates in all, proposed ``batch`` by batch; ``seconds`` from now all is to be over;
    ``patience`` candidates without a gain end it as well."""

    def __init__(self, trials: int, batch: int, seconds: float | None, patience: int | None) -> None:
        self.trials, self.batch, self.patience = trials, batch, patience
        # by ``time.perf_counter``: no candidate is begun after the one, nothing at all after the other
        self.last = self.end = float("inf")
        if seconds is not None:
            self.end = time.perf_counter() + seconds
            self.last = self.end - min(RESERVED * seconds, MOST_RESERVED)
        self._why = ""
        self._best, self._idle, self._new = float("inf"), 0, 0

    def batches(self, session: Session) -> Iterator[tuple[Session, list[str]]]:
        """Proposals, one by one, until there are enough, the space is exhausted, it is too late, or nobody
        hopes any more. The first candidate is measured whatever the time."""
        while session.trials < self.trials and not self._over(session):
            traces = session.propose(min(self._next(session.trials), self.trials - session.trials))
            if not traces:
                return
            for n, t in enumerate(traces):
                if n and self._over(session):
                    session.drop(traces[n:])
                    return
                yield session, [t]

    def _next(self, trials: int) -> int:
        """How many are proposed together. The first of all is by itself, for it is known without thinking: it
        is built, and the right answer computed, while the others of its batch are thought of."""
        return 1 if not trials else max(1, self.batch - 1) if trials == 1 else self.batch

    def note(self, session: Session) -> None:
        """One more candidate was measured."""
        self._new += 1
        if session.best < BETTER * self._best:
            self._best, self._idle = session.best, 0
        else:
            self._idle += 1

    def late(self) -> bool:
        """Whether the search is over by time: what is on its way is not waited for."""
        return time.perf_counter() > self.last

    def ended(self) -> bool:
        """Whether there is no time for anything more."""
        return time.perf_counter() > self.end

    def _over(self, session: Session) -> bool:
        if not session.trials:
            return False
        if self.late():
            self._why = "there was no more time"
        elif self.patience is not None and self._idle >= self.patience:
            self._why = f"{counted(self._idle, 'candidate')} brought no gain"
        return bool(self._why)

    def notes(self, session: Session) -> list[str]:
        """What ended it, where it was not the trials, and where there were none left."""
        if not self._why and self.late() and session.tried < self.trials:
            self._why = "there was no more time"
        if self._why:
            return [f"ended after {session.tried} of {self.trials} trials: {self._why}"]
        if not self._new and session.trials >= self.trials:
            more = f"trials={session.trials + self.trials} measures {self.trials} more"
            return [f"nothing was measured: trials={self.trials} counts those of the records; {more}"]
        return []
