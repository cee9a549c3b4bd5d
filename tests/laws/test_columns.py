"""The law of columns: what the symbolic schedule says of a row is what the schedule replayed with that row
says of itself, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.analysis import Analysis, analyse, compile_columns
from tensorlang.errors import ScheduleError
from tensorlang.expr.nodes import Expr

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


def amounts_of(analysis: Analysis) -> dict[str, Expr]:
    """Every amount of the analysis under a name of its own."""
    result: dict[str, Expr] = {}
    for st in analysis.statements:
        result |= {f"{st.name}.iterations": st.iterations, f"{st.name}.points": st.points}
        result |= {f"{st.name}.loop{p}": loop.extent for p, loop in enumerate(st.loops)}
        for i, a in enumerate(st.accesses):
            at = f"{st.name}.{i}:{a.tensor}"
            result |= {f"{at}.extent{p}.{d}": e for p, box in enumerate(a.extents) for d, e in enumerate(box)}
            result |= {f"{at}.stride{p}": e for p, e in enumerate(a.strides)}
    return result | {f"{m.name}.bytes": m.bytes for m in analysis.storage}


@pytest.mark.parametrize("name", SPACES)
def test_columns_equal_the_replayed_schedule(name: str) -> None:
    s = SPACES[name]()
    symbolic = analyse(s)
    amounts = amounts_of(symbolic)
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
        numbers = {k: int(v.value) for k, v in amounts_of(analyse(concrete)).items()}  # type: ignore[attr-defined]
        assert numbers == dict(zip(amounts, values.tolist(), strict=False)), decisions
        checked += 1
    assert checked > ROWS // 2
