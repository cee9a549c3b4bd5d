"""Which elements of an answer are wrong: blocks against the sentence that says it, for every kind of float."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched.measure import differing as room
from autosched.measure.differing import differing, largest

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def sentence(got: Any, right: Any, size: float, slack: float) -> Any:
    """Further apart than the bound, and neither equal nor both NaN; all in doubles."""
    eps = 2.0**-7 if got.dtype.name == "bfloat16" else float(np.finfo(got.dtype).eps)
    a, b = got.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= room.BOUND * eps * size + slack
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


@pytest.mark.parametrize("kind", FLOATS, ids=lambda k: np.dtype(k).name)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 41), (2, 5, 6)], ids=str)
@pytest.mark.parametrize("slack", [0.0, 3.0])
def test_blocks_find_what_the_whole_has(
    kind: Any, shape: tuple[int, ...], slack: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "BLOCK", 5)
    rng = np.random.default_rng(len(shape))
    right = np.asarray(rng.normal(0, 100, shape), kind)  # an array even without dimensions
    got = np.asarray(right + rng.choice([0.0, 0.01, 1.0, 2.5, 50.0, 1000.0], shape), kind)
    for value in (np.nan, np.inf, -np.inf):
        for side in (got, right, (got, right)):
            at = rng.random(shape) < 0.1
            for a in side if isinstance(side, tuple) else (side,):
                a[at] = value
    size = largest(right)
    finite = right[np.isfinite(right)].astype(np.float64)
    assert size == max(1.0, float(np.max(np.abs(finite), initial=0.0)))
    assert np.array_equal(differing(got, right, size, slack), sentence(got, right, size, slack))


def test_one_wrong_element_of_many_blocks_is_found() -> None:
    right = np.ones((300, 1001), np.float32)
    got = right.copy()
    got[299, 1000] = 2
    assert np.argwhere(differing(got, right, 1.0)).tolist() == [[299, 1000]]
    turned = np.asfortranarray(right)
    assert np.argwhere(differing(got, turned, largest(turned))).tolist() == [[299, 1000]]


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.bool_], ids=lambda k: np.dtype(k).name)
def test_integers_are_right_to_the_last_bit(kind: Any) -> None:
    right = np.ones(9, kind)
    got = right.copy()
    got[4] = 0
    assert np.flatnonzero(differing(got, right, 1.0)).tolist() == [4]


def test_a_bound_beyond_what_halves_hold_lets_nothing_else_pass() -> None:
    """64 ulp of 60,000 are beyond the largest half: compared as halves every element would be within it."""
    right = np.full(4, 60000, np.float16)
    got = np.array([60000, -60000, np.inf, np.nan], np.float16)
    assert differing(got, right, largest(right)).tolist() == [False, True, True, True]


def test_each_element_has_a_slack_of_its_own() -> None:
    right = np.zeros(room.BLOCK + 9, np.float32)
    got, slack = np.ones_like(right), np.zeros(right.shape)
    slack[[3, room.BLOCK + 2]] = 2.0
    bad = differing(got, right, 1.0, slack)
    assert np.flatnonzero(~bad).tolist() == [3, room.BLOCK + 2]
    whole = differing(got.astype(np.int32), right.astype(np.int32), 1.0, slack)
    assert np.flatnonzero(~whole).tolist() == [3, room.BLOCK + 2]
