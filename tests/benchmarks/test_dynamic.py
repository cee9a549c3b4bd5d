"""The benchmarks of kernels for every shape judge rightly: a wrong kernel is found, baselines are what their papers say, seconds are added up."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.dynamic.baselines import ABLATIONS, BASELINES, Arrays, DietCode, Ways, bucket, in_turns, residue, spread, up
from benchmarks.dynamic.correctness import Layer, faults
from benchmarks.dynamic.search_time import Row, repair, verdicts

# -- correctness: kernels that are wrong in one way each ------------------------------------------------------------------


@pytest.fixture(scope="module")
def layer():
    return Layer(20, 6, 5)


def test_a_right_kernel_has_no_faults(layer):
    assert not list(faults(layer, lambda x, y: np.matmul(x, layer.w, out=y), range(1, 21)))


@pytest.mark.parametrize(("harm", "why"), [
    (lambda x, w, y: np.matmul(x[:-1], w, out=y[:-1]), "differ"),  # the last row is not written
    (lambda x, w, y: np.matmul(x, w + np.float32(2e-6), out=y), "differ"),  # inexact
    (lambda x, w, y: np.matmul(beyond(x), w, out=beyond(y)), "beyond"),  # a row too many
    (lambda x, w, y: np.add(x @ w, 0 * beyond(x)[-1, 0], out=y), "differ"),  # what is beyond leaks
])
def test_a_wrong_kernel_is_found_at_its_rows(layer, harm, why):
    def kernel(x, y):
        if len(x) == 7:
            harm(x, layer.w, y)
        else:
            np.matmul(x, layer.w, out=y)

    (m, told), = faults(layer, kernel, range(1, 21))
    assert m == 7
    assert why in told


def beyond(a):
    """The array with one row more."""
    return np.lib.stride_tricks.as_strided(a, (len(a) + 1, a.shape[1]), a.strides)


# -- baselines ------------------------------------------------------------------------------------------------------------


def test_residues_are_full_tiles_and_one_remainder():
    assert residue(13, 6) == [(6, 0, 12), (1, 12, 13)]
    assert residue(12, 6) == [(6, 0, 12)]
    assert residue(4, 6) == [(4, 0, 4)]


def test_buckets_hold_their_rows():
    assert [bucket(m) for m in (1, 64, 65, 256, 257, 512)] == [64, 64, 128, 256, 512, 512]
    assert up(13, 6) == 18
    assert up(12, 6) == 12


def test_dietcode_pays_for_padding():
    cost = DietCode.cost({4: 1.0, 6: 0.9}, [4, 6, 12])
    np.testing.assert_allclose(cost, [[4, 5.4], [8, 5.4], [12, 10.8]])


def test_dietcode_takes_the_tile_of_a_listed_neighbour_for_a_shape_it_was_not_told_of():
    listed = [4, 8, 12, 60, 66, 72]
    diet = DietCode.fitted({4: 1.0, 6: 0.9}, listed)
    assert [diet.height(m) for m in listed] == [4, 4, 6, 6, 6, 6]
    assert diet.height(64) == 6
    assert diet.height(3) == 4


def test_padded_copies_give_the_rows_and_leave_the_rest():
    arrays = Arrays.of(12, 3, 3)
    seen = []

    def double(x, y):
        seen.append(len(x))
        y[:] = 2 * x

    arrays.copied(double, 5, 8)()
    assert seen == [8]
    np.testing.assert_array_equal(arrays.y[:5], 2 * arrays.x[:5])
    assert not arrays.y[5:].any()


def test_sampled_rows_are_spread_over_all():
    rows = spread(16, 0)
    assert rows == sorted(set(rows))
    assert all(32 * i < m <= 32 * (i + 1) for i, m in enumerate(rows))


def test_each_call_follows_one_of_its_own_and_the_others_in_any_order():
    seen = []
    found = in_turns({name: lambda name=name: seen.append(name) for name in "abc"}, 0.0)
    assert set(found) == set("abc")
    assert seen[::2] == seen[1::2]
    assert len({tuple(seen[i:i + 6:2]) for i in range(0, len(seen), 6)}) > 1


def test_a_way_that_is_wrong_is_named():
    ways = Ways.__new__(Ways)  # nothing of it but the arrays and the weight
    ways.arrays, ways.w = Arrays.of(4, 3, 3), np.eye(3, dtype=np.float32)
    good = ways.arrays.part(lambda x, y: np.copyto(y, x), 0, 2)
    assert ways.wrong({"good": good, "bad": lambda: None}, 2) == ["bad"]


def test_every_way_computes_the_product():
    ways = Ways(40, 9, seconds=0.02)
    for m in (1, 65, 512):
        calls = ways.calls(m)
        assert {*BASELINES, *ABLATIONS} < set(calls)
        assert not ways.wrong(calls, m)


# -- seconds to search ------------------------------------------------------------------------------------------------------


def test_what_is_lacking_costs_the_seconds_of_the_faster_kernel():
    made = {"plan 0": 0.1, "exact": 2.0}
    rows = [Row(1, 1.0, {"plan 0": 1.0, "exact": 1.2}, made), Row(2, 1.0, {"plan 0": 1.0, "exact": 0.5}, made),
            Row(3, 1.0, {"plan 0": 0.96, "exact": 1.2}, made), Row(4, 1.0, {"plan 0": 0.5, "exact": 0.6}, made)]
    assert [r.share(r.ours) for r in rows] == [1.0, 0.5, 0.96, 0.5]
    lacking, seconds = repair(rows, 8)
    assert lacking == 2
    assert seconds == pytest.approx((2.0 + 0.1) * 8 / 4)


def test_seconds_of_shapes_that_were_not_tuned_are_said_to_be_extrapolated():
    eight, all_ = verdicts(2.0, [5.0] * 8)
    assert "measured" in eight
    assert "20.0× ours, 20× wanted: passed" in eight
    assert "extrapolated from 5.0 s a shape" in all_
    assert "passed" in all_
    eight, all_ = verdicts(20.0, [5.0, 7.0])
    assert "extrapolated" in eight
    assert "2.4× ours" in eight
    assert "missed" in all_
