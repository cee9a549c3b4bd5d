"""Trees fitted to predicted times."""

from __future__ import annotations

import numpy as np

from autosched.dynamic.decision_tree import count, fit, guarded, picks


def curve(n: int = 600):
    shapes = np.arange(1, n + 1)[:, None]
    x = shapes[:, 0]
    return shapes, np.stack([x * 1.0 + 50, x * 2.0, np.where(x % 7 == 0, 1.0, 400.0) + x * 0.9], axis=1)


def test_a_tree_finds_the_regions():
    shapes, _ = curve()
    seconds = np.stack(
        [np.where(shapes[:, 0] < 100, 1.0, 3.0), np.where(shapes[:, 0] < 100, 2.0, 1.0)], axis=1
    )
    f = fit(["m"], shapes, seconds, np.ones(len(shapes)), True)
    assert f.tree == ("m", 99, 0, 1) and f.worst_loss == 0 and f.leaves == 2


def test_losses_are_those_of_the_picks():
    shapes, seconds = curve()
    f = fit(["m"], shapes, seconds, np.ones(len(shapes)), True, leaves=16)
    picked = seconds[np.arange(len(shapes)), picks(f.tree, ["m"], shapes)]
    loss = picked / seconds.min(axis=1) - 1
    assert np.isclose(f.worst_loss, loss.max()) and f.worst_shape == tuple(shapes[loss.argmax()])
    assert np.isclose(f.mean_loss, np.exp(np.log1p(loss).mean()) - 1)
    assert f.leaves == count(f.tree) <= 16


def test_leaves_that_lose_little_are_merged():
    shapes, _ = curve()
    noise = np.random.default_rng(0).random((len(shapes), 3)) * 0.008 + 1
    assert fit(["m"], shapes, noise, np.ones(len(shapes)), True).leaves == 1


def test_weights_decide_where_leaves_are_few():
    shapes = np.arange(100)[:, None]
    x = shapes[:, 0]
    seconds = np.stack([np.where(x % 2, 1.0, 1.5), np.where(x % 2, 1.5, 1.0)], axis=1)
    even = fit(["m"], shapes, seconds, np.where(x % 2, 0.01, 1.0), True, leaves=2)
    odd = fit(["m"], shapes, seconds, np.where(x % 2, 1.0, 0.01), True, leaves=2)
    assert (even.tree, odd.tree) == (1, 0)


def test_two_dims_and_the_guard():
    rng = np.random.default_rng(1)
    shapes = rng.integers(1, 200, (3000, 2))
    seconds = np.stack(
        [np.where(shapes[:, 0] > shapes[:, 1], 1.0, 2.0), np.where(shapes[:, 0] > shapes[:, 1], 2.0, 1.0)],
        axis=1,
    )
    f = fit(["m", "n"], shapes, seconds, np.ones(len(shapes)), False)
    assert f.mean_loss < 0.1 and 2 < f.leaves <= 64
    tree = guarded(f.tree, {"m": (5, 100), "n": (0, 50)}, 7)
    got = picks(tree, ["m", "n"], np.array([[4, 9], [101, 9], [50, 51], [50, 50], [5, 0]]))
    assert got[:3].tolist() == [7, 7, 7] and (got[3:] != 7).all()


def test_no_shape_and_one_route():
    assert fit(["m"], np.zeros((0, 1), int), np.ones((0, 3)), np.ones(0), True).tree == 2
    assert fit(["m"], np.arange(9)[:, None], np.ones((9, 1)), np.ones(9), True).tree == 0
