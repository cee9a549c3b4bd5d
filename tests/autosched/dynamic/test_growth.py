"""Times over sizes: what the sum of terms is, and what the measured shapes nearby correct."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.dynamic.growth import Growth, nonnegative, terms_of


def test_terms_are_the_products_and_their_parts():
    assert terms_of([(0, 1)]) == ((0,), (1,), (0, 1))
    assert terms_of([(), (0, 0)]) == ((0,), (0, 0))
    assert terms_of([(2, 0), (0,)]) == ((0,), (2,), (0, 2)) and terms_of([]) == ()


@pytest.mark.parametrize("seed", range(20))
def test_no_other_weights_are_nearer(seed):
    """What makes a minimum under x ≥ 0 (Karush, Kuhn, Tucker): no gain where x is positive, none to be had
    where it is zero."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((30, 1 + seed % 9)) * 10.0 ** rng.integers(-3, 4, 1 + seed % 9), rng.random(30)
    x = nonnegative(a, b)
    gain = a.T @ (b - a @ x) / np.abs(a).max(axis=0)
    assert (x >= 0).all() and (gain <= 1e-6).all() and np.abs(gain[x > 0]).max(initial=0) <= 1e-6
    assert np.allclose(nonnegative(a, a @ np.abs(x)), x, rtol=1e-6, atol=1e-9)


def test_a_time_that_is_a_sum_of_terms_is_found_from_few_shapes():
    def seconds(s):
        # rows, and whole tiles of 16 columns
        return 1e-7 + 2e-9 * s[:, 0] + 1e-10 * s[:, 0] * (-(-s[:, 1] // 16) * 16)

    rng = np.random.default_rng(0)
    known, asked = rng.integers(1, 500, (30, 2)), rng.integers(1, 500, (200, 2))
    assert Growth.of(known, seconds(known), terms_of([(0, 1)]), [(1, 16)]).at(asked) == pytest.approx(
        seconds(asked), rel=0.02
    )
    assert Growth.of(known, seconds(known), terms_of([(0, 1)])).at(asked) != pytest.approx(
        seconds(asked), rel=0.02
    )  # steps are needed


def test_what_the_sum_misses_is_corrected_nearby():
    """From 64 on everything takes twice as long, as if a cache were full."""
    shapes = np.unique(np.geomspace(1, 4096, 40).astype(int))[:, None]
    seconds = np.where(shapes[:, 0] < 64, 1e-9, 2e-9) * shapes[:, 0]
    made = Growth.of(shapes, seconds, ((0,),))
    asked = np.array([[9], [700], [3000]])
    want = np.array([9e-9, 1.4e-6, 6e-6])
    sums = made._columns(asked) @ made.weights
    assert (np.abs(np.log(made.at(asked) / want)) < np.maximum(0.12, np.abs(np.log(sums / want)))).all()
    assert np.abs(np.log(made.at(asked) / want)).max() < 0.6 * np.abs(np.log(sums / want)).max()
    far = Growth.of(np.array([[8], [9]]), np.array([8e-9, 9e-9]), ((0,),)).at(np.array([[80000]]))
    assert far == pytest.approx(8e-5, rel=1e-3)  # nothing near: the sum alone


def test_sizes_of_zero_have_a_time():
    made = Growth.of(np.array([[4, 4], [8, 8]]), np.array([1e-6, 4e-6]), terms_of([(0, 1)]), [(0, 4)])
    assert np.isfinite(made.at(np.array([[0, 0], [0, 9]]))).all()
