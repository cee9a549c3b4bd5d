"""Places that are data, read and written, against numpy: every reduction, negative indices, indices out of
range, repeated ones, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, exact, sample, whole

ops = tl.ops
UFUNC = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def placeholders(*arrays):
    return [te.placeholder(a.shape, str(a.dtype), name=f"x{k}") for k, a in enumerate(arrays)]


def test_an_index_counts_from_the_end_and_is_clipped():
    a, i = sample((5, 17), "float32"), np.array([[0, -1, 2], [100, -100, -5]], "int64")
    x, at = placeholders(a, i)
    exact(
        compiled(ops.take(x, at, 0, "index"), {x: a, at: i}),
        a[np.clip(np.where(i < 0, i + 5, i), 0, 4)],
        "float32",
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis):
    a = sample((5, 17), "float32")
    shape = (5, 33) if axis else (3, 17)
    n = a.shape[axis]
    i = np.random.default_rng(0).integers(-n, n, shape)
    x, at = placeholders(a, i)
    exact(
        compiled(ops.gather_elements(x, at, axis), {x: a, at: i}), np.take_along_axis(a, i, axis), "float32"
    )


@pytest.mark.parametrize("t", ["float32", "bool"])
def test_gather_nd(t):
    a = sample((4, 5, 6), t)
    one, two = np.array([[0], [-1]], "int32"), np.array([[[0, 1], [3, -2]], [[-4, 4], [2, 0]]], "int64")
    rows = np.array([[1], [-1], [0], [4]], "int64")
    x, i, j, r = placeholders(a, one, two, rows)
    got = compiled(
        [ops.gather_nd(x, i), ops.gather_nd(x, j), ops.gather_nd(x, r, 1)], {x: a, i: one, j: two, r: rows}
    )
    exact(got[0], a[one[:, 0]], t)
    exact(got[1], a[two[..., 0], two[..., 1]], t)
    exact(got[2], a[np.arange(4), rows[:, 0]], t)


@pytest.mark.parametrize("t", ["float32", "int8"])
@pytest.mark.parametrize("reduction", ["none", *UFUNC])
def test_scatter_elements(reduction, t):
    a, u = whole((4, 5), t), whole((3, 5), t, 1)
    i = np.random.default_rng(1).integers(-4, 4, u.shape)
    x, at, v = placeholders(a, i, u)
    want = a.copy()
    for r, c in np.ndindex(i.shape):
        old = want[i[r, c], c]
        want[i[r, c], c] = u[r, c] if reduction == "none" else UFUNC[reduction](old, u[r, c])
    exact(compiled(ops.scatter_elements(x, at, v, 0, reduction), {x: a, at: i, v: u}), want, t)


@pytest.mark.parametrize("reduction", ["none", *UFUNC])
def test_scatter_nd(reduction):
    n = te.var("n")
    a, u = whole((4, 5, 3), "float32"), whole((6, 3), "float32", 1)
    i = np.array([[0, 1], [-1, -1], [0, 1], [2, 4], [9, 0], [0, -9]], "int32")
    x, at, v = (
        te.placeholder((n, 5, 3), name="x"),
        te.placeholder((6, 2), "int32", name="at"),
        te.placeholder((6, 3), name="v"),
    )
    want = a.copy()
    for (r, c), new in zip(i[:4], u, strict=False):  # the last two are out of range
        want[r, c] = new if reduction == "none" else UFUNC[reduction](want[r, c], new)
    exact(compiled(ops.scatter_nd(x, at, v, reduction), {x: a, at: i, v: u}), want, "float32")


def test_scatter_takes_what_was_computed_and_leaves_it_alone():
    a, i, u = whole((5,), "float32"), np.array([[3]], "int64"), np.array([9], "float32")
    x, at, v = placeholders(a, i, u)
    y = ops.relu(x)
    kept, changed = compiled([y, ops.relu(ops.scatter_nd(y, at, v))], {x: a, at: i, v: u})
    exact(kept, np.maximum(a, 0), "float32")
    exact(changed, np.where(np.arange(5) == 3, 9, np.maximum(a, 0)).astype("float32"), "float32")


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_reverse_sequence(time, batch):
    a, n = sample((4, 5, 3), "float32"), np.array([1, 3, 0, 99, 2][: (4, 5, 3)[batch]], "int64")
    x, k = placeholders(a, n)
    want = np.moveaxis(a.copy(), (batch, time), (0, 1))
    for row, length in zip(want, n, strict=True):
        m = min(int(length), len(row))
        row[:m] = row[:m][::-1].copy()
    got = compiled(ops.reverse_sequence(x, k, time, batch), {x: a, k: n})
    exact(got, np.moveaxis(want, (0, 1), (batch, time)), "float32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, i: ops.gather_nd(x, ops.reshape(i, (2, 3))), "last dimension of indices .* is 3"),
        (lambda x, i: ops.gather_nd(x, x), "integers are needed"),
        (lambda x, i: ops.gather_nd(x, i, 2), "batch_dims=2"),
        (
            lambda x, i: ops.scatter_nd(i, ops.expand_dims(i, 1), te.placeholder((6,))),
            "updates .* are float32",
        ),
        (lambda x, i: ops.scatter_nd(x, ops.expand_dims(i, 1), x), r"\(6, 5\) are needed|is 4, 6 is needed"),
        (lambda x, i: ops.scatter_elements(x, i, x), "same number of dimensions"),
        (lambda x, i: ops.scatter_elements(x, ops.cast(x, "int32"), x, 0, "sum"), "reduction='sum'"),
        (lambda x, i: ops.reverse_sequence(x, i), "size of lengths i is 6, 5 is needed"),
        (lambda x, i: ops.reverse_sequence(x, i, 1, 1), "time_axis and batch_axis are both 1"),
        (lambda x, i: ops.take(x, i, 0, "up"), "'index'"),
    ],
)
def test_refusals(call, text):
    x, i = te.placeholder((4, 5), name="x"), te.placeholder((6,), "int32", name="i")
    with pytest.raises(tl.DeclareError, match=text):
        call(x, i)
