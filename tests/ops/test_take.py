"""Reading by data and tensors of indices against numpy and torch; indices out of range never read outside."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import DeclareError
from tests.ops.arrays import compiled, exact, sample

ops = tl.ops


@pytest.mark.parametrize("t", ["int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_take(axis, mode, t):
    a = sample((5, 17), "float32")
    i = np.array([[0, 4, 2], [100, 3, 16]], t) if t == "uint8" else np.array([[0, -1, 2], [100, -100, 16]], t)
    x, at = te.placeholder(a.shape, name="x"), te.placeholder(i.shape, t, name="at")
    exact(
        compiled(ops.take(x, at, axis, mode), {x: a, at: i}),
        np.take(a, i.astype("int64"), axis, mode=mode),
        "float32",
    )


def test_take_with_one_index_and_trusted_ones():
    a, i, many = sample((5, 17), "float32"), np.array(3, "int32"), np.array([4, 0, 0], "int32")
    x, at, those = (
        te.placeholder(a.shape, name="x"),
        te.placeholder((), "int32", name="at"),
        te.placeholder((3,), "int32", name="those"),
    )
    one, some = compiled([ops.take(x, at, 1), ops.take(x, those, 0, mode="fast")], {x: a, at: i, those: many})
    exact(one, a[:, 3], "float32")
    exact(some, a[many], "float32")


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(dim):
    a = sample((5, 17), "float32")
    i = np.random.default_rng(0).integers(0, 5, (5, 33) if dim in (1, -1) else (3, 17))
    x, at = te.placeholder(a.shape, name="x"), te.placeholder(i.shape, "int64", name="at")
    want = np.take_along_axis(a, i, dim)
    exact(compiled(ops.gather(x, dim, at), {x: a, at: i}), want, "float32")


def test_gather_reads_the_nearest_of_what_is_outside():
    a, i = sample((1, 5), "float32"), np.array([[-3, 99]])
    x, at = te.placeholder(a.shape, name="x"), te.placeholder((1, 2), "int64", name="at")
    exact(compiled(ops.gather(x, 1, at), {x: a, at: i}), a[:, [0, 4]], "float32")


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis):
    i = np.array([[0, 4, -1], [2, 5, 1]], "int32")
    at = te.placeholder(i.shape, "int32", name="at")
    want = np.moveaxis((i[..., None] == np.arange(5)), -1, axis)
    plain, marked = compiled(
        [ops.one_hot(at, 5, axis=axis), ops.one_hot(at, 5, 7, -1, axis, "int8")], {at: i}
    )
    exact(plain, want.astype("float32"), "float32")
    exact(marked, np.where(want, 7, -1).astype("int8"), "int8")


@pytest.mark.parametrize("given", [(5,), (2, 9), (9, 2, -3), (0.0, 1.0, 0.25), (3, 3), (1, 17, 4)], ids=str)
def test_arange(given):
    want = np.arange(*given)
    exact(compiled(ops.arange(*given), {}), want, str(want.dtype))
    exact(compiled(ops.arange(*given, dtype="float32"), {}), np.arange(*given).astype("float32"), "float32")


def test_full():
    one, flags = compiled([ops.full((3, 17), 2.5), ops.full(5, True, "bool")], {})
    exact(one, np.full((3, 17), 2.5, "float32"), "float32")
    exact(flags, np.full(5, True), "bool")


def test_one_kernel_for_all_sizes():
    n, m, k = te.dim("n", 1, 64), te.dim("m", 1, 64), te.dim("k", 1, 64)
    x, at = te.placeholder((n, m), name="x"), te.placeholder((k,), "int32", name="at")
    pairs = te.placeholder((n, k), "int32", name="pairs")
    take, whole = tl.compile([x, at, ops.take(x, at, 0)]), tl.compile([x, at, ops.take(x, at)])
    gather, hot = tl.compile([x, pairs, ops.gather(x, 1, pairs)]), tl.compile([at, ops.one_hot(at, 7)])
    for rows, columns, count in ((1, 1, 3), (3, 17, 1), (17, 3, 33)):
        a = sample((rows, columns), "float32", rows)
        i = np.random.default_rng(count).integers(-2, rows + 2, count).astype("int32")
        exact(take(a, i), np.take(a, i, 0, mode="clip"), "float32")
        exact(whole(a, i), np.take(a, i, mode="clip"), "float32")
        exact(hot(i), (i[:, None] == np.arange(7)).astype("float32"), "float32")
        p = np.random.default_rng(count).integers(0, columns, (rows, count)).astype("int32")
        exact(gather(a, p), np.take_along_axis(a, p.astype("int64"), 1), "float32")


def test_an_embedding_of_torch():
    torch = pytest.importorskip("torch")
    a, i = sample((33, 17), "float32"), np.array([[0, 32], [5, 5]], "int64")
    x, at = te.placeholder(a.shape, name="x"), te.placeholder(i.shape, "int64", name="at")
    exact(
        compiled(ops.take(x, at, 0), {x: a, at: i}),
        torch.nn.functional.embedding(torch.from_numpy(i), torch.from_numpy(a)).numpy(),
        "float32",
    )


@pytest.mark.parametrize("given", [(float("nan"),), (0, float("inf")), (0, 5, float("nan"))])
def test_arange_between_numbers_that_are_not_finite(given):
    with pytest.raises(DeclareError, match=r"ops\.arange"):
        ops.arange(*given)
