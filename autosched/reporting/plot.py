"""Pictures of a tune: the only file that imports matplotlib, and only when one is asked for. Knows numbers
only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.entries import share


def tuning_curve(
    costs: Sequence[float], begun: float | None, flops: float, title: str, axes: Any = None
) -> Any:
    """A dot for each candidate over trials and the best so far as a staircase, in GFLOP/s (runs a second when
    no operations are counted); a dashed line for the schedule the search began with. ``costs`` are seconds,
    infinite for candidates that failed. Returns the axes.

    Raises TensorLangError when matplotlib is missing.
    """
    if axes is None:
        _, axes = _library().subplots(figsize=(7, 3.2), layout="constrained")
    per_cost = flops / 1e9 if flops else 1.0
    speeds = np.array([per_cost / c for c in costs], np.float64)
    trials = np.arange(1, len(speeds) + 1)
    worked = speeds > 0
    axes.step(
        trials,
        np.maximum.accumulate(speeds) if len(speeds) else [],
        where="post",
        color="#1f6feb",
        label="best so far",
        zorder=3,
    )
    axes.scatter(trials[worked], speeds[worked], s=9, color="#9aa4b2", label="a candidate")
    if not worked.all():
        axes.scatter(
            trials[~worked],
            np.zeros(int((~worked).sum())),
            s=22,
            marker="|",
            color="#c62828",
            label="failed",
            clip_on=False,
        )
    if begun is not None:
        axes.axhline(per_cost / begun, color="#9aa4b2", linestyle="--", linewidth=1, label="began with")
    axes.set_xlabel("trials")
    axes.set_ylabel("GFLOP/s" if flops else "runs a second")
    axes.set_ylim(0, 1.08 * float(speeds.max(initial=0.0)) or 1.0)
    axes.set_title(title, loc="left", fontsize=10)
    axes.legend(
        fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, borderaxespad=0.1
    )  # above: dots are everywhere
    return axes


def rank_plot(groups: Sequence[Sequence[tuple[int, int]]], title: str, axes: Any = None) -> Any:
    """A dot for each candidate: its place by the clock over its place by the model; those of a good model lie
    near the diagonal. A colour for each model. Returns the axes.

    Raises TensorLangError when matplotlib is missing.
    """
    if axes is None:
        _, axes = _library().subplots(figsize=(4, 4), layout="constrained")
    most = max((max(place) for places in groups for place in places), default=1)
    axes.plot([1, most], [1, most], color="#9aa4b2", linestyle="--", linewidth=1)
    for places in groups:
        axes.scatter([p for p, _ in places], [t for _, t in places], s=12)
    axes.set_xlabel("place by the model")
    axes.set_ylabel("place by the clock")
    axes.set_title(title, loc="left", fontsize=10)
    return axes


def _library() -> Any:
    try:
        import matplotlib.pyplot
    except ImportError as e:
        raise tl.TensorLangError(
            "a picture needs matplotlib", because=str(e), try_="pip install 'tensorlang[viz]'"
        ) from None
    return matplotlib.pyplot


share(__name__)
