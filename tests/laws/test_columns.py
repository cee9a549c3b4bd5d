"""The law of columns: what the symbolic schedule says of a row is what the schedule replayed with that row
says of itself, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.analysis import Analysis, analyse, compile_columns
from tensorlang.errors import ScheduleError

from .spaces import SPACES

ROWS = 120


def rows_of(analysis: Analysis, rng: np.random.Generator, n: int) -> np.ndarray:
    """Random knob values from their domains, small ones preferred."""
    columns = []
    for d in analysis.decisions:
        for lo, hi in d.bounds:
            choices = np.array(d.candidates if d.candidates is not None else range(lo, hi + 1))
            weight = 1.0 / np.arange(1, len(choices) + 1) ** 0.5
            columns.append(rng.choice(choices, n, p=weight / weight.sum()))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("name", SPACES)
def test_columns_equal_the_replayed_schedule(name: str) -> None:
    s = SPACES[name]()
    symbolic = analyse(s)
    amounts = symbolic.amounts()
    limits = {x.what: x.value for x in symbolic.limits()}
    rows = rows_of(symbolic, np.random.default_rng(7), ROWS)
    table = compile_columns([*amounts.values(), *limits.values()], symbolic.knobs)(rows)
    checked = 0
    for row, values in zip(rows, table, strict=True):
        at = iter(row.tolist())
        decisions = {d.name: tuple(next(at) for _ in d.knobs) for d in symbolic.decisions}
        try:
            concrete = s.concrete(decisions)
        except ScheduleError:
            continue  # lanes or unrolling beyond the limit of the primitive: a limit says so before
        numbers = {k: int(v.value) for k, v in analyse(concrete).amounts().items()}  # type: ignore[attr-defined]
        assert numbers == dict(zip(amounts, values.tolist(), strict=False)), decisions
        checked += 1
    assert checked > ROWS // 2
