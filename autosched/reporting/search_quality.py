"""How good a search was, in words and ranks: which sketch won, what the model was worth, whether the gain is
more than noise. Knows numbers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..cost_model import pairwise_accuracy, top_share
from .units import seconds_text

SHOWN = 3  # sketches in words
BUSY = 0.3  # of the processors: with more in use by others, times repeat badly
APART = 1.25  # times as long at the end as in the search: a person asks why
Pairs = Sequence[tuple[float, float]]  # a score and the seconds


def gain_text(interval: tuple[float, float] | None) -> str:
    """Whether a gain means something."""
    if interval is None:
        return ""
    said = "significant" if interval[0] > 1 else "not significant"
    return f"  (95 % confidence: {interval[0]:.2f} to {interval[1]:.2f}, {said})"


def machine_text(noise: float | None, drift: float | None, others: float | None) -> str:
    """What the machine was like; empty where nothing is known."""
    parts = [] if noise is None else [f"noise {noise:.0%}"]
    parts += [] if drift is None else [f"drift {drift:+.0%}"]
    parts += [] if others is None else [f"others took {others:.0%} of its processors"]
    return ", ".join(parts) + (", too busy to tell small gains" if (others or 0.0) > BUSY else "")


def apart_text(single: float | None, final: float, others: float | None) -> str:
    """Why the end says more time than the search did; empty where it does not."""
    if single is None or final < APART * single:
        return ""
    busy = others is not None and others > BUSY
    why = f"others took {others:.0%} of the processors" if busy else "the machine was slower at the end"
    return f"{seconds_text(single)} in the search: {why}; only times taken side by side are compared"


def sketch_texts(sketches: Sequence[tuple[str, int, float]]) -> list[str]:
    """The fastest few, and by how much each is behind the first."""
    if not sketches or sketches[0][2] == float("inf"):
        return []
    best = sketches[0][2]
    return [
        f"{name}: {seconds_text(cost)}, {n} tried" + ("" if cost == best else f", {cost / best:.2f}× as long")
        for name, n, cost in sketches[:SHOWN]
        if cost < float("inf")
    ]


def model_text(ranks: Sequence[Pairs]) -> str:
    """How well the model knew before each measurement what it would be; the mean of several models, by the
    number of candidates."""
    enough = [np.array(pairs) for pairs in ranks if len(pairs) > 1]
    if not enough:
        return "too few candidates to judge it by"
    weights = [len(p) for p in enough]
    order = np.average([pairwise_accuracy(p[:, 0], p[:, 1]) for p in enough], weights=weights)
    best = np.average([top_share(p[:, 0], p[:, 1], 5) for p in enough], weights=weights)
    five = f"the best of the five it liked most has {best:.0%} of the best speed"
    return f"put {order:.0%} of pairs in order before they were measured; {five}"


def placed(pairs: Pairs) -> list[tuple[int, int]]:
    """For each candidate its place by the score, and its place by the clock, from 1 on."""
    table = np.array(pairs, np.float64).reshape(-1, 2)
    by_score, by_clock = (np.argsort(np.argsort(v, kind="stable")) + 1 for v in (-table[:, 0], table[:, 1]))
    return list(zip(by_score.tolist(), by_clock.tolist(), strict=True))
