"""Profiles: spans, weights, the shapes that are looked at."""

from __future__ import annotations

import pytest

import tensorlang as tl
from autosched import ShapeProfile
from autosched.dynamic.size_profile import hull, profiles_of


def test_spans():
    p = ShapeProfile({"m": (1, 4, 9), "n": (2, 50), "k": 7})
    assert [(s.least, s.opt, s.most) for s in p.dims.values()] == [(1, 4, 9), (2, 10, 50), (7, 7, 7)]
    assert p.size == 9 * 49
    assert p.holds({"m": 9, "n": 2, "k": 7}) and not p.holds({"m": 10, "n": 2, "k": 7})


@pytest.mark.parametrize(
    "bad", [{}, {"m": (3, 2, 5)}, {"m": (-1, 2, 5)}, {"m": (1, 2, 3, 4)}, {"m": "x"}, {"m": 1.5}, {"m": True}]
)
def test_bounds_out_of_order(bad):
    with pytest.raises(tl.TensorLangError):
        ShapeProfile(bad)
    with pytest.raises(tl.TensorLangError, match="out_of_range"):
        ShapeProfile({"m": 1}, out_of_range="maybe")


def test_small_profiles_are_looked_at_whole():
    shapes, whole = ShapeProfile({"m": (0, 3, 5), "n": (4, 12)}).samples(["n", "m"], {"n": 4})
    assert whole and sorted(map(tuple, shapes.tolist())) == [(n, m) for n in (4, 8, 12) for m in range(6)]


def test_large_profiles_are_sampled_with_every_remainder():
    shapes, whole = ShapeProfile({"m": (0, 128, 100_000)}).samples(["m"], {})
    assert not whole and len(shapes) < 6000
    assert shapes.min() == 0 and shapes.max() == 100_000 and 128 in shapes
    assert {int(m) % 48 for m in shapes[shapes[:, 0] > 10_000][:, 0]} == set(range(48))
    pairs, _ = ShapeProfile({"m": (3, 512), "n": (8, 4096)}).samples(["m", "n"], {"n": 8})
    assert (pairs[:, 1] % 8 == 0).all() and pairs[:, 0].min() == 3 and pairs[:, 1].max() == 4096


def test_weights():
    assert ShapeProfile({"m": (1, 9)}, weights={3: 5.0, (4,): 2.0}).weight((3,)) == 5
    assert ShapeProfile({"m": (1, 9)}, weights={(4,): 2.0}).weight((4,)) == 2
    assert ShapeProfile({"m": (1, 9)}, weights=lambda s: s[0] * 2.0).weight((4,)) == 8


def test_several():
    a, b = profiles_of([{"m": (1, 4)}, ShapeProfile({"m": (100, 200)})])
    assert hull([a, b]) == {"m": (1, 200)}
    with pytest.raises(tl.TensorLangError, match="other dims"):
        profiles_of([{"m": (1, 4)}, {"n": (1, 4)}])
    again = ShapeProfile.from_json(a.to_json())
    assert again.dims == a.dims and again.out_of_range == a.out_of_range
