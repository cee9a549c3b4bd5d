"""Inverses and determinants against numpy: sizes, types, batches, and matrices that have no inverse."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled

ops = tl.ops


def matrices(*shape: int, seed: int = 0) -> np.ndarray:
    """Far from singular, with pivots off the diagonal."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(shape[-1])
    return rng.uniform(-1, 1, shape) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])[order]


def both(a: np.ndarray, *batch: object) -> tuple[np.ndarray, np.ndarray]:
    x = te.placeholder((*(batch or a.shape[:-2]), *a.shape[-2:]), str(a.dtype), name="x")
    d, i = compiled([ops.determinant(x), ops.inverse(x)], {x: a})
    return d, i


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (5, 3, 3), (2, 3, 8, 8), (3, 17, 17), (1, 33, 33), (0, 4, 4)]
)
@pytest.mark.parametrize("t", ["float32", "float64"])
def test_shapes(shape, t):
    a = matrices(*shape).astype(t)
    d, i = both(a)
    eps = np.finfo(t).eps
    assert d.dtype == i.dtype == a.dtype and d.shape == shape[:-2] and i.shape == shape
    want = np.linalg.det(a.astype("float64"))
    np.testing.assert_allclose(d, want, rtol=50 * shape[-1] * eps)
    unit = np.broadcast_to(np.eye(shape[-1]), shape)
    np.testing.assert_allclose(a.astype("float64") @ i.astype("float64"), unit, atol=50 * shape[-1] * eps)


def test_sixteen_bits_are_eliminated_in_float32():
    a = matrices(4, 6, 6).astype("float16")
    d, i = both(a)
    wide = a.astype("float64")
    np.testing.assert_allclose(d, np.linalg.det(wide), rtol=2e-3)
    np.testing.assert_allclose(i, np.linalg.inv(wide), rtol=2e-3, atol=1e-3)


def test_an_open_batch_of_many():
    a = matrices(301, 4, 4).astype("float32")
    d, i = both(a, te.dim("b", 0))
    np.testing.assert_allclose(d, np.linalg.det(a.astype("float64")), rtol=1e-5)
    np.testing.assert_allclose(i, np.linalg.inv(a.astype("float64")), rtol=1e-4, atol=1e-5)


def test_rows_are_exchanged_exactly():
    """Permutations: every pivot is elsewhere, every number is exact."""
    rng = np.random.default_rng(3)
    a = np.stack([np.eye(7)[rng.permutation(7)] for _ in range(20)]).astype("float32")
    d, i = both(a)
    assert np.array_equal(i, a.transpose(0, 2, 1))
    assert np.array_equal(d, np.round(np.linalg.det(a))) and {-1.0, 1.0} == set(d.tolist())


def test_matrices_without_an_inverse_leave_the_others_alone():
    a = np.stack(
        [
            np.eye(3),
            np.zeros((3, 3)),
            [[1, 2, 3], [2, 4, 6], [1, 0, 1]],
            [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
            2 * np.eye(3),
        ]
    ).astype("float32")
    d, i = both(a)
    assert np.array_equal(d, [1, 0, 0, 0, 8])
    assert np.isnan(i[1:4]).all() and np.array_equal(i[[0, 4]], [np.eye(3), np.eye(3) / 2])
    a[0, 1, 1] = np.nan
    d, i = both(a)
    assert np.isnan(d[0]) and np.isnan(i[0]).any() and np.array_equal(i[4], np.eye(3) / 2)


@pytest.mark.parametrize("name", ["determinant", "inverse"])
def test_what_is_refused(name):
    f, n = getattr(ops, name), te.dim("n", 1)
    for shape, t in (((3, 4), "float32"), ((3,), "float32"), ((n, n), "float32"), ((0, 0), "float32")):
        with pytest.raises(tl.DeclareError, match=rf"ops.{name}"):
            f(te.placeholder(shape, t, name="x"))
    with pytest.raises(tl.DeclareError, match=rf"ops.{name}"):
        f(te.placeholder((3, 3), "int32", name="x"))


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_equations_and_triangles(t, batch):
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((*batch, 5, 5)).astype(t), rng.standard_normal((*batch, 5, 2)).astype(t)
    x, y = te.placeholder(a.shape, t, name="x"), te.placeholder(b.shape, t, name="y")
    within = {"rtol": 2e-3, "atol": 1e-4} if t == "float32" else {"rtol": 1e-9}
    np.testing.assert_allclose(compiled(ops.solve(x, y), {x: a, y: b}), np.linalg.solve(a, b), **within)
    definite = a @ np.swapaxes(a, -1, -2) + np.eye(5, dtype=t)
    np.testing.assert_allclose(
        compiled(ops.cholesky(x), {x: definite}), np.linalg.cholesky(definite), **within
    )
    for got, want in zip(compiled(ops.slogdet(x), {x: a}), np.linalg.slogdet(a), strict=True):
        np.testing.assert_allclose(got, want, **within)
    for upper in (False, True):
        whole = a + 4 * np.eye(5, dtype=t)
        want = np.linalg.solve(np.triu(whole) if upper else np.tril(whole), b)
        got = compiled(ops.solve_triangular(x, y, upper), {x: whole, y: b})
        np.testing.assert_allclose(got, want, **within)
        own = np.triu(a, 1) / 4 if upper else np.tril(a, -1) / 4
        want = np.linalg.solve(own + np.eye(5, dtype=t), b)
        got = compiled(ops.solve_triangular(x, y, upper, unit=True), {x: a / 4, y: b})
        np.testing.assert_allclose(got, want, **within)


def test_what_has_no_triangle_and_right_sides_that_do_not_fit():
    a = -np.eye(3, dtype="float32")[None]
    x, y = te.placeholder(a.shape, name="x"), te.placeholder((1, 4, 2), name="y")
    assert np.isnan(compiled(ops.cholesky(x), {x: a})).any()
    with pytest.raises(tl.DeclareError, match="dimension 1 of b"):
        ops.solve(x, y)
