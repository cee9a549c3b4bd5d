"""Rounds of turns of several kernels. Knows neither kernels nor how long a turn is: the tuner and the suite
that judges it time their turns each in its own way, and take from here only who goes when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence


def rounds(
    turns: Sequence[Callable[[], float]], apart: Callable[[], bool]
) -> Iterator[tuple[tuple[float, ...], bool]]:
    """Without end, what each turn says in a round, and whether the processors were ``apart`` before and after
    it. Every second round goes backwards: what drifts favours nobody."""
    before = apart()
    for number in itertools.count():
        order = range(len(turns))
        said = {i: turns[i]() for i in (reversed(order) if number % 2 else order)}
        after = apart()
        yield tuple(said[i] for i in order), before and after
        before = after
