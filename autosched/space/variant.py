"""A variant: a schedule whose structure is fixed and whose tile sizes are knobs; its candidates are rows of
an integer matrix.

The schedule is analysed once; limits and features are compiled to numpy columns. Nothing here replays a
schedule but ``trace`` and ``schedule``, for the few rows that are measured. Knows analysis and feature
blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.analysis import Decision, Limits, analyse, compile_columns

from ..cost_model.features import BLOCKS, FeatureSet, expected

Rows = Any  # np.ndarray of int64, [candidates, knobs]
SOME = 128  # rows by which a variant is judged


@dataclass(frozen=True, slots=True)
class Domain:
    """The values one knob may take, ascending, and what they are for."""

    name: str
    role: str
    values: Any  # np.ndarray of int64


class Variant:
    """Candidates of one symbolic schedule: ``sample``, ``valid``, ``features`` work on whole matrices."""

    def __init__(
        self,
        schedule: tl.Schedule,
        target: tl.Target,
        limits: Limits | None = None,
        why: tuple[str, ...] = (),
        declared: int = 0,
        start: Variant | None = None,
    ) -> None:
        self.base = schedule
        self.start = start or self  # the variant whose present row others are compared with
        self.why = why  # the rules that made it
        self.declared = (
            declared  # operations of the computation, whatever the schedule makes of it; 0: unknown
        )
        self.target = target
        self.analysis = analyse(schedule)
        self.domains = tuple(x for d in self.analysis.decisions for x in _domains(d))
        knobs = self.analysis.knobs
        self.limits = self.analysis.limits(limits, lanes=target.vector_lanes("float32"))
        self._limits = compile_columns([x.condition for x in self.limits], knobs)

    @cached_property
    def feature_set(self) -> FeatureSet:
        """What a cost model sees, as expressions; made when the first model asks."""
        return FeatureSet(self.analysis, self.target, BLOCKS, declared=self.declared)

    @cached_property
    def _features(self) -> Any:
        return compile_columns(self.feature_set.exprs, self.analysis.knobs)

    @cached_property
    def _expected(self) -> Any:
        return compile_columns([expected(self.analysis, self.target, self.declared)], self.analysis.knobs)

    @cached_property
    def algorithm(self) -> frozenset[tuple[str, object]]:
        """How sums are computed otherwise than they are defined: ``winograd`` with the sides of its tiles."""
        return frozenset((p.name, p.arguments()["tile"]) for p in self.trace.steps if p.name == "winograd")

    @property
    def size(self) -> float:
        """The number of rows, before limits."""
        return float(np.prod([float(len(d.values)) for d in self.domains]))

    @property
    def trace(self) -> tl.Trace:
        """The steps, with the values the schedule has now."""
        return self.base.trace

    def valid(self, rows: Rows) -> Any:
        """Which rows keep to all limits: a bool for each."""
        return np.all(self._limits(rows) != 0, axis=1) if self.limits else np.ones(len(rows), np.bool_)

    def features(self, rows: Rows) -> Any:
        """What a cost model sees of each row, a float32 matrix: every feature, and how far it is from that of
        the candidate that a search starts from. The one tells how much there is of something, the other
        whether that is more or less than usual for the task."""
        table = self.feature_set.scaled(self._features(rows))
        return np.concatenate([table, table - self.start.first], axis=1)

    @cached_property
    def first(self) -> Any:
        """The features of the present row."""
        return self.feature_set.scaled(self._features(self.present()))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of ``features``."""
        names = self.feature_set.names
        return (*names, *[f"{name} against the start" for name in names])

    def remembered(self, rows: Rows) -> Any:
        """The features of rows that are asked for again and again, such as those that were measured: each is
        made once. A call of ``features`` takes milliseconds however few rows it has."""
        keys = [row.tobytes() for row in np.ascontiguousarray(rows, np.int64)]
        new = [k for k, key in enumerate(keys) if key not in self._memory]
        if new:
            self._memory.update(zip([keys[k] for k in new], self.features(rows[new]), strict=True))
        found = np.empty((len(keys), len(self.feature_names)), np.float32)
        for n, key in enumerate(keys):
            found[n] = self._memory[key]
        return found

    @cached_property
    def _memory(self) -> dict[bytes, Any]:
        return {}

    @cached_property
    def some(self) -> Rows:
        """Some valid rows, the same whenever they are asked for: by them a model judges a variant of which it
        has seen nothing."""
        return self.sample_valid(np.random.default_rng(0), SOME, tries=2)

    def expected(self, rows: Rows) -> Any:
        """What each row ought to cost, the logarithm to base 2: the first column of ``features`` without the
        others, which take ten times as long to make."""
        return FeatureSet.scaled(self._expected(rows))[:, 0]

    def sample(self, rng: np.random.Generator, n: int) -> Rows:
        """Rows drawn from the domains, each knob uniform in the logarithm of its value; limits are not
        asked."""
        if not self.domains:
            return np.empty((n, 0), np.int64)
        columns = []
        for d in self.domains:
            if len(d.values) == 1:
                columns.append(np.full(n, d.values[0]))
                continue
            edges = np.cumsum(_weights(d.values))
            columns.append(
                d.values[
                    np.searchsorted(edges, rng.random(n) * edges[-1], side="right").clip(0, len(d.values) - 1)
                ]
            )
        return np.stack(columns, axis=1).astype(np.int64)

    def sample_valid(self, rng: np.random.Generator, n: int, tries: int = 20) -> Rows:
        """About ``n`` rows that keep to the limits (fewer when hardly any do)."""
        found = np.empty((0, len(self.domains)), np.int64)
        for _ in range(tries):
            rows = self.sample(rng, max(64, n))
            found = np.concatenate([found, rows[self.valid(rows)]])
            if len(found) >= n:
                break
        return found[:n]

    def present(self) -> Rows:
        """The row of the values the template itself gave: the first candidate."""
        return np.array(
            [[v for d in self.analysis.decisions if d.knobs for v in d.values]], np.int64
        ).reshape(1, -1)

    def decisions(self, row: Any) -> dict[str, tuple[int, ...]]:
        """One row as the sampled values of a trace."""
        at = iter(np.asarray(row).tolist())
        return {
            d.name: tuple(next(at) for _ in d.knobs) if d.knobs else d.values for d in self.analysis.decisions
        }

    def row(self, decisions: dict[str, tuple[int, ...]]) -> Any:
        """The row of the sampled values of a trace, or None when they are not of this variant."""
        values: list[int] = []
        for d in self.analysis.decisions:
            given = decisions.get(d.name)
            if given is None or (not d.knobs and tuple(given) != d.values):
                return None  # a place is part of the structure
            values += given if d.knobs else ()
        return np.array(values, np.int64) if len(values) == len(self.domains) else None

    def adopt(self, decisions: dict[str, tuple[int, ...]]) -> Any:
        """The row nearest to sampled values of another variant: equal names take the nearest value allowed
        here, others stay as present."""
        row = self.present()[0]
        known = [
            values[k] if (values := decisions.get(d.name)) and k < len(values) else None
            for d in self.analysis.decisions
            for k in range(len(d.knobs))
        ]
        for k, value in enumerate(known):
            if value is not None:
                values_here = self.domains[k].values
                row[k] = values_here[np.abs(values_here - value).argmin()]
        return row

    def trace_of(self, row: Any) -> tl.Trace:
        """The trace of one candidate."""
        return self.trace.with_decisions(self.decisions(row))

    def schedule(self, row: Any) -> tl.Schedule:
        """One candidate as a schedule of plain numbers."""
        return self.base.concrete(self.decisions(row))


def _domains(d: Decision) -> list[Domain]:
    return [
        Domain(
            k.name,
            d.role,
            np.array(d.candidates if d.candidates is not None else range(lo, hi + 1), np.int64),
        )
        for k, (lo, hi) in zip(d.knobs, d.bounds[: len(d.knobs)], strict=True)
    ]  # a place has no knob


def _weights(values: Any) -> Any:
    # uniform in the logarithm: a tile of 3 or 4 is as likely as one of 33 to 64
    return np.log1p(1.0 / values)
