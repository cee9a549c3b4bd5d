"""Pictures of a tune: the only file that imports matplotlib, and only when one is asked for. Knows numbers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorlang as tl


def tuning_curve(curve: Sequence[tuple[int, float]], flops: float, title: str, axes: Any = None) -> Any:
    """Best GFLOP/s (milliseconds when no operations are counted) over measurements, as a staircase; returns the axes.

    Raises TensorLangError when matplotlib is missing.
    """
    if axes is None:
        _, axes = _library().subplots(figsize=(7, 3), layout="constrained")
    axes.step([n for n, _ in curve], [flops / c / 1e9 if flops else c * 1e3 for _, c in curve], where="post")
    axes.set_xlabel("measurements")
    axes.set_ylabel("best GFLOP/s" if flops else "best ms")
    axes.set_ylim(0, 1.05 * max((flops / c / 1e9 if flops else c * 1e3 for _, c in curve), default=1.0))
    axes.set_title(title)
    return axes


def _library() -> Any:
    try:
        import matplotlib.pyplot
    except ImportError as e:
        raise tl.TensorLangError("a picture needs matplotlib", because=str(e), try_="pip install 'tensorlang[viz]'") from None
    return matplotlib.pyplot
