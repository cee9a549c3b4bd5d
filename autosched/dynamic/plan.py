"""What a plan costs: balanced blocks of rows by the measured times of their kernels. Plain numbers; knows no kernels.

After Zhang et al., "MikPoly" (ASPLOS 2024), whose cost of a composition is the sum of piecewise linear times of its parts: here the time of a
kernel over the number of its blocks, the first of which streams the weight while the others find it warm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NEAREST = 3  # measured shapes a prediction is made of
UNSERVED = 1e3  # "seconds" of a kernel that does not take a shape


@dataclass(frozen=True)
class Curve:
    """Seconds of a kernel over its number of row blocks: measured points, lines between them and beyond the last, with the slope of their upper
    half."""

    blocks: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, blocks: Any) -> Any:
        """Seconds for each number of blocks; nothing for none."""
        n = np.asarray(blocks, dtype=np.float64)
        x, y = np.array(self.blocks, dtype=np.float64), np.array(self.seconds)
        inside = np.interp(n, x, y)
        if len(x) > 1:
            middle = (len(x) - 1) // 2
            slope = max((y[-1] - y[middle]) / (x[-1] - x[middle]), 0.0)
            inside = np.where(n > x[-1], y[-1] + (n - x[-1]) * slope, inside)
        else:
            inside = y[0] * np.maximum(n, 1) / x[0]
        return np.where(n > 0, inside, 0.0)


@dataclass(frozen=True)
class Cut:
    """m rows as ``high`` blocks of ``height`` rows and ``low`` blocks of one row less."""

    height: int
    high: int
    low: int

    def __str__(self) -> str:
        parts = [f"{n} × {h} rows" for n, h in ((self.high, self.height), (self.low, self.height - 1)) if n]
        return " + ".join(parts) or "nothing"


def cut(rows: int, highest: int) -> Cut:
    """Balanced blocks of at most ``highest`` rows, as the dispatcher cuts them."""
    if rows == 0:
        return Cut(0, 0, 0)
    blocks = -(-rows // highest)
    height = -(-rows // blocks)
    low = blocks * height - rows
    return Cut(height, blocks - low, low)


def rows_cost(rows: Any, highest: int, curves: Mapping[int, Curve]) -> Any:
    """Seconds of a call of each number of rows in blocks of at most ``highest``."""
    m = np.asarray(rows, dtype=np.int64)
    safe = np.maximum(m, 1)
    blocks = -(-safe // highest)
    height = -(-safe // blocks)
    low = blocks * height - safe
    out = np.zeros(m.shape)
    for h in range(1, highest + 1):
        here = (height == h) & (m > 0)
        if np.any(here):
            out[here] += curves[h].at((blocks - low)[here])
            if h > 1:
                out[here] += curves[h - 1].at(low[here])
    return out


def grid(most: int) -> Sequence[int]:
    """Numbers of blocks to measure: close together where the first cache and the pool of threads matter, doubling further on."""
    small = [1, 2, 3, 4, 6, 8, 12, 16]
    while small[-1] * 2 <= most:
        small.append(small[-1] * 2)
    return [n for n in small if n <= most] or [1]


@dataclass(frozen=True)
class RowPlans:
    """Plans that cut one dim into rows: ``highest`` of each plan, the curve and the tile's name of each height."""

    highest: tuple[int, ...]
    curves: Mapping[int, Curve]
    tiles: Mapping[int, str]

    kind = "rows"

    @property
    def names(self) -> tuple[str, ...]:
        """What plans are called, by slot."""
        return tuple(f"≤ {h} rows" for h in self.highest)

    def cost(self, shapes: Any) -> Any:
        """Predicted seconds, [shapes, plans]."""
        rows = np.asarray(shapes)[:, 0]
        return np.stack([rows_cost(rows, h, self.curves) for h in self.highest], axis=1)

    def describe(self, slot: int, shape: Sequence[int]) -> str:
        """What a plan does for a shape."""
        made = cut(shape[0], self.highest[slot])
        used = [self.tiles[h] for h, n in ((made.height, made.high), (made.height - 1, made.low)) if n]
        return f"{made}, tiles {', '.join(used)}" if used else "nothing to compute"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        curves = {str(h): [list(c.blocks), list(c.seconds)] for h, c in self.curves.items()}
        return {"kind": self.kind, "highest": list(self.highest), "curves": curves, "tiles": {str(h): t for h, t in self.tiles.items()}}

    @staticmethod
    def of(data: Mapping[str, Any]) -> RowPlans:
        """Those of plain data."""
        return RowPlans(tuple(data["highest"]), {int(h): Curve(tuple(b), tuple(s)) for h, (b, s) in data["curves"].items()},
                        {int(h): t for h, t in data["tiles"].items()})


@dataclass(frozen=True)
class Measured:
    """Plans whose times were measured at some shapes: between them, the times of the nearest shape, by the work it has more or less.

    ``shapes`` [n][dims], ``seconds`` [n][plans] (UNSERVED where a plan does not take the shape), ``labels`` by plan as (name, what it does),
    ``least`` [plans][dims] the sizes a plan takes at least, ``steps`` by plan as (dim, step) for each axis of which it computes whole tiles. Work is
    the product of the sizes, and of what whole tiles have more.
    """

    labels: tuple[tuple[str, str], ...]
    shapes: tuple[tuple[int, ...], ...]
    seconds: tuple[tuple[float, ...], ...]
    least: tuple[tuple[int, ...], ...] = ()
    steps: tuple[tuple[tuple[int, int], ...], ...] = ()

    kind = "measured"

    @property
    def names(self) -> tuple[str, ...]:
        """What plans are called, by slot."""
        return tuple(name for name, _ in self.labels)

    def cost(self, shapes: Any) -> Any | None:
        """Predicted seconds, [shapes, plans]; None when nothing was measured."""
        if not self.shapes:
            return None
        known, wanted = np.array(self.shapes), np.asarray(shapes)
        far_known, far_wanted = (np.log(np.maximum(x.astype(np.float64), 1)) for x in (known, wanted))
        seconds = np.log(np.maximum(self.seconds, 1e-9))
        far = ((far_wanted[:, None] - far_known) ** 2).sum(axis=2)
        out = np.empty((len(wanted), len(self.labels)))
        for p in range(len(self.labels)):
            taken = np.flatnonzero(np.array(self.seconds)[:, p] < UNSERVED)
            work = far_known[taken].sum(axis=1) + self._more(p, known[taken])
            asked = far_wanted.sum(axis=1) + self._more(p, wanted)
            if len(taken):
                near = np.argsort(far[:, taken], axis=1, kind="stable")[:, :NEAREST]
                share = 1 / (np.take_along_axis(far[:, taken], near, axis=1) + 1e-3)
                out[:, p] = ((seconds[taken, p] - work)[near] * share).sum(axis=1) / share.sum(axis=1) + asked
            else:
                out[:, p] = np.log(UNSERVED)
            if p < len(self.least):
                out[(wanted < np.array(self.least[p])).any(axis=1), p] = np.log(UNSERVED)
        return np.exp(out)

    def _more(self, plan: int, shapes: Any) -> Any:
        """The logarithm of what whole tiles compute, over what is asked for."""
        out = np.zeros(len(shapes))
        for dim, step in self.steps[plan] if self.steps else ():
            n = np.maximum(shapes[:, dim], 1)
            out += np.log(-(-n // step) * step / n)
        return out

    def describe(self, slot: int, shape: Sequence[int]) -> str:
        """What a plan does."""
        return self.labels[slot][1]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        parts = {"labels": self.labels, "shapes": self.shapes, "seconds": self.seconds, "least": self.least, "steps": self.steps}
        return {"kind": self.kind, **{name: [list(row) for row in part] for name, part in parts.items()}}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Measured:
        """Those of plain data."""
        labels, shapes, seconds, least = (tuple(tuple(row) for row in data[part]) for part in ("labels", "shapes", "seconds", "least"))
        return Measured(labels, shapes, seconds, least, tuple(tuple((dim, step) for dim, step in row) for row in data["steps"]))


Plans = RowPlans | Measured


def plans_of(data: Mapping[str, Any]) -> Plans:
    """The plans that ``to_json`` told. Raises ValueError, KeyError or TypeError for anything else."""
    kinds: dict[str, Any] = {c.kind: c for c in (RowPlans, Measured)}
    return kinds[data["kind"]].of(data)  # type: ignore[no-any-return]
