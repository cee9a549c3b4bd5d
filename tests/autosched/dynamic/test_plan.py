"""Costs of plans: cuts, curves, predictions between measured shapes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.dynamic.plan import Curve, Measured, RowPlans, cut, grid, plans_of, rows_cost


@pytest.mark.parametrize("highest", [1, 2, 5, 6, 14])
def test_cuts_are_balanced_and_complete(highest):
    for m in range(200):
        c = cut(m, highest)
        assert c.high * c.height + c.low * (c.height - 1) == m
        assert c.height <= highest and c.high + c.low == -(-m // highest)


def test_curves():
    c = Curve((1, 2, 4), (10.0, 12.0, 16.0))
    assert c.at([0, 1, 3, 4, 8]).tolist() == [0, 10, 14, 16, 24]
    assert Curve((2,), (6.0,)).at([1, 4]).tolist() == [3, 12]


def test_rows_cost_is_that_of_the_cut():
    rng = np.random.default_rng(0)
    curves = {h: Curve((1, 2, 8), tuple(sorted(rng.random(3)))) for h in range(1, 7)}
    rows = np.arange(60)
    for highest in range(1, 7):
        for m, cost in zip(rows, rows_cost(rows, highest, curves), strict=True):
            c = cut(int(m), highest)
            want = sum(float(curves[h].at(n)) for h, n in ((c.height, c.high), (c.height - 1, c.low)) if n)
            assert cost == pytest.approx(want)


def test_grid():
    assert list(grid(5)) == [1, 2, 3, 4] and grid(100)[-1] == 64 and list(grid(0)) == [1]


def test_measured_times_are_met_and_scaled():
    m = Measured(
        (("a", "one"), ("b", "two")), ((8,), (64,), (512,)), ((1e-6, 2e-6), (8e-6, 7e-6), (64e-6, 40e-6))
    )
    cost = m.cost(np.array([[8], [64], [512], [4096]]))
    assert cost[:3] == pytest.approx(np.array(m.seconds), rel=0.1)
    assert cost[3, 1] < cost[3, 0] and cost[3, 0] > 3 * cost[2, 0]
    assert Measured((("a", "one"),), (), ()).cost(np.array([[1]])) is None


def test_plans_as_plain_data():
    rows = RowPlans((2, 1), {1: Curve((1,), (1.0,)), 2: Curve((1, 2), (1.0, 1.5))}, {1: "1×4v", 2: "2×4v"})
    assert plans_of(rows.to_json()) == rows
    assert rows.names == ("≤ 2 rows", "≤ 1 rows")
    assert (
        rows.describe(0, (5,)) == "2 × 2 rows + 1 × 1 rows, tiles 2×4v, 1×4v"
        and rows.describe(0, (0,)) == "nothing to compute"
    )
    measured = Measured((("a", "one"),), ((1, 2),), ((0.5,),))
    assert plans_of(measured.to_json()) == measured
    with pytest.raises((KeyError, ValueError)):
        plans_of({"kind": "other"})
