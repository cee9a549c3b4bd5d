"""What a suite found, as numbers: values by shape, their geometric mean, fifth percentile and worst. Knows
numbers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One value for each shape of a ``case`` (a layer, an operator, a trace), beside ``name``: how many times
    longer that takes than ours, unless ``unit`` is another; ``more``: whether more is better. Values are
    above 0 unless there is one only."""

    case: str
    name: str
    values: Mapping[str, float]
    unit: str = "×"
    more: bool = True

    @property
    def mean(self) -> float:
        """Geometric; of one value, that."""
        found = list(self.values.values())
        return found[0] if len(found) == 1 else float(np.exp(np.log(found).mean()))

    @property
    def low(self) -> float:
        """The percentile that 95 % of the values are better than."""
        return float(np.percentile(list(self.values.values()), 5 if self.more else 95))

    @property
    def worst(self) -> tuple[float, str]:
        """The worst value and its shape."""
        shape = (min if self.more else max)(self.values, key=lambda s: self.values[s])
        return self.values[shape], shape

    def __str__(self) -> str:
        worst, shape = self.worst
        if len(self.values) == 1:
            return f"  {self.name:<34} {worst:.4g} {self.unit}   ({shape})"
        unit = "" if self.unit == "×" else f" {self.unit}"
        return (
            f"  {self.name:<34} geometric mean {self.mean:.3f}   5th percentile {self.low:.3f}   worst "
            f"{worst:.3f} at {shape}{unit}"
            f"   ({len(self.values)} shapes)"
        )

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        worst, shape = self.worst
        return {
            "case": self.case,
            "name": self.name,
            "unit": self.unit,
            "more": self.more,
            "mean": self.mean,
            "low": self.low,
            "worst": worst,
            "worst_shape": shape,
            "values": dict(self.values),
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Figure:
        """That of plain data."""
        return Figure(data["case"], data["name"], data["values"], data["unit"], data["more"])


class Table:
    """Ratios that are found shape by shape, by what they are against."""

    def __init__(self, case: str) -> None:
        self.case = case
        self._found: dict[str, dict[str, float]] = {}

    def add(self, shape: object, ratios: Mapping[str, float]) -> str:
        """Take in those of a shape; them as text."""
        for name, ratio in ratios.items():
            self._found.setdefault(name, {})[str(shape)] = float(ratio)
        return "   ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())

    def figures(self) -> list[Figure]:
        """One for each name."""
        return [Figure(self.case, name, values) for name, values in self._found.items()]


def pooled(figures: Sequence[Figure]) -> list[Figure]:
    """Figures of the same name made one, in order, their shapes told apart by their case."""
    names = dict.fromkeys((f.name, f.unit, f.more) for f in figures)
    return [
        Figure(
            "all",
            name,
            {
                f"{f.case} {shape}": v
                for f in figures
                if (f.name, f.unit, f.more) == (name, unit, more)
                for shape, v in f.values.items()
            },
            unit,
            more,
        )
        for name, unit, more in names
    ]


def wanted(case: str, options: Any) -> bool:
    """Whether ``--case`` lets it through."""
    return options.case is None or options.case in case


def sizes(most: int, count: int, seed: int, always: Sequence[int] = ()) -> list[int]:
    """Log-uniform sizes up to ``most``, and those that are always among them."""
    rng = np.random.default_rng(seed)
    return sorted({*always, *np.exp(rng.uniform(0, np.log(most), count)).astype(int).tolist()})
