"""What a plan costs: balanced blocks of rows by the measured times of their kernels. Plain numbers; knows no
kernels.

After Zhang et al., "MikPoly" (ASPLOS 2024), whose cost of a composition is the sum of piecewise linear times
of its parts: here the time of a kernel over the number of its blocks, the first of which streams the weight
while the others find it warm.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .growth import Growth, Step, Term, terms_of

T = TypeVar("T")
UNSERVED = 1e3  # "seconds" of a kernel that does not take a shape


@dataclass(frozen=True)
class Curve:
    """Seconds of a kernel over its number of row blocks: measured points, lines between them and beyond the
    last, with the slope of their upper half."""

    blocks: tuple[int, ...]
    seconds: tuple[float, ...]

    def at(self, blocks: Any) -> Any:
        """Seconds for each number of blocks; nothing for none."""
        n = np.asarray(blocks, dtype=np.float64)
        x, y = np.array(self.blocks, dtype=np.float64), np.array(self.seconds)
        inside = np.interp(n, x, y)
        if len(x) > 1:
            # the upper half: the first blocks also pay for streaming the weight, which the others find warm
            middle = (len(x) - 1) // 2
            slope = max((y[-1] - y[middle]) / (x[-1] - x[middle]), 0.0)
            inside = np.where(n > x[-1], y[-1] + (n - x[-1]) * slope, inside)
        else:
            # one point only: as if every block took as long
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
    # no rows cost nothing (``m > 0`` below); this only keeps the divisions defined
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
    """Numbers of blocks to measure: close together where the first cache and the pool of threads matter,
    doubling further on."""
    small = [1, 2, 3, 4, 6, 8, 12, 16]
    while small[-1] * 2 <= most:
        small.append(small[-1] * 2)
    return [n for n in small if n <= most] or [1]


@dataclass(frozen=True)
class RowPlans:
    """Plans that cut one dim into rows: ``highest`` of each plan, the curve and the tile's name of each
    height."""

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
        return {
            "kind": self.kind,
            "highest": list(self.highest),
            "curves": curves,
            "tiles": {str(h): t for h, t in self.tiles.items()},
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> RowPlans:
        """Those of plain data. Raises ValueError, KeyError or TypeError for anything else."""
        highest = _rows([data["highest"]], _whole)[0]
        curves = {
            int(h): Curve(_rows([b], _whole)[0], _rows([s], _seconds)[0])
            for h, (b, s) in data["curves"].items()
        }
        tiles = {int(h): str(t) for h, t in data["tiles"].items()}
        heights = range(1, min(max(highest), MAX_HEIGHT + 1) + 1)
        if (
            not all(h in curves and h in tiles for h in heights)
            or min(highest) < 1
            or heights[-1] > MAX_HEIGHT
        ):
            raise ValueError("plans without a kernel for each height")
        if any(
            not c.blocks
            or len(c.blocks) != len(c.seconds)
            or list(c.blocks) != sorted({*c.blocks})
            or c.blocks[0] < 1
            for c in curves.values()
        ):
            raise ValueError("no curve")
        return RowPlans(highest, curves, tiles)


@dataclass(frozen=True)
class Measured:
    """Plans whose times were measured at some shapes, and are predicted at others from how they grow
    (``growth``).

    ``shapes`` [n][dims], ``seconds`` [n][plans] (UNSERVED where a plan does not take the shape), ``labels``
    by plan as (name, what it does), ``least`` [plans][dims] the sizes a plan takes at least, ``steps`` by
    plan as (dim, step) for each axis of which it computes whole tiles, ``terms`` the products of sizes that
    the work is made of, by dim.
    """

    labels: tuple[tuple[str, str], ...]
    shapes: tuple[tuple[int, ...], ...]
    seconds: tuple[tuple[float, ...], ...]
    least: tuple[tuple[int, ...], ...] = ()
    steps: tuple[tuple[Step, ...], ...] = ()
    terms: tuple[Term, ...] = ()

    kind = "measured"

    @property
    def names(self) -> tuple[str, ...]:
        """What plans are called, by slot."""
        return tuple(name for name, _ in self.labels)

    def cost(self, shapes: Any) -> Any | None:
        """Predicted seconds, [shapes, plans]; None when nothing was measured."""
        if not self.shapes:
            return None
        wanted = np.asarray(shapes)
        out = np.full((len(wanted), len(self.labels)), UNSERVED)
        for p, grown in enumerate(self._growths):
            if grown is not None:
                out[:, p] = grown.at(wanted)
            if p < len(self.least):
                # after the prediction, which knows nothing of what a plan takes
                out[(wanted < np.array(self.least[p])).any(axis=1), p] = UNSERVED
        return out

    @functools.cached_property
    def _growths(self) -> list[Growth | None]:
        known, seconds = np.array(self.shapes), np.array(self.seconds)
        terms = self.terms or terms_of([range(known.shape[1])])
        taken = seconds < UNSERVED
        steps = self.steps or ((),) * len(self.labels)
        return [
            Growth.of(known[at], seconds[at, p], terms, steps[p]) if at.any() else None
            for p, at in enumerate(taken.T)
        ]

    def describe(self, slot: int, shape: Sequence[int]) -> str:
        """What a plan does."""
        return self.labels[slot][1]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        parts = {
            "labels": self.labels,
            "shapes": self.shapes,
            "seconds": self.seconds,
            "least": self.least,
            "steps": self.steps,
            "terms": self.terms,
        }
        return {"kind": self.kind, **{name: [list(row) for row in part] for name, part in parts.items()}}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Measured:
        """Those of plain data. Raises ValueError, KeyError or TypeError for anything else."""
        labels = tuple((str(name), str(what)) for name, what in data["labels"])
        shapes, seconds = _rows(data["shapes"], _whole), _rows(data["seconds"], _seconds)
        least, terms = _rows(data["least"], _whole), _rows(data["terms"], _whole)
        steps = tuple(tuple((_whole(dim), _whole(step, 1)) for dim, step in row) for row in data["steps"])
        dims, plans = {len(row) for row in (*shapes, *least)}, len(labels)
        if (
            len(dims) > 1
            or len(shapes) != len(seconds)
            or any(len(row) != plans for row in seconds)
            or not labels
        ):
            raise ValueError("tables of several forms")
        if len(least) not in (0, plans) or len(steps) not in (0, plans):
            raise ValueError("not a row for each plan")
        if any(
            dim >= next(iter(dims), 0)
            for dim in (*itertools.chain(*terms), *(d for row in steps for d, _ in row))
        ):
            raise ValueError("a dim that is not there")
        return Measured(labels, shapes, seconds, least, steps, terms)


Plans = RowPlans | Measured
MAX_HEIGHT = 1024  # rows of a tile, as a file may tell it


def _rows(rows: Iterable[Iterable[Any]], element: Callable[[Any], T]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(element(x) for x in row) for row in rows)


def _whole(x: Any, least: int = 0) -> int:
    # a bool is an int to isinstance; a size beyond 62 bits would overflow in the arrays that it goes into
    if type(x) is not int or not least <= x < 1 << 62:
        raise ValueError(f"{str(x)[:40]} is not a size")
    return x


def _seconds(x: Any) -> float:
    if type(x) not in (int, float) or not 0 < x < math.inf:
        raise ValueError(f"{str(x)[:40]} is not a time")
    return float(x)


def plans_of(data: Mapping[str, Any]) -> Plans:
    """The plans that ``to_json`` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    kinds: dict[str, Any] = {c.kind: c for c in (RowPlans, Measured)}
    return kinds[data["kind"]].of(data)  # type: ignore[no-any-return]
