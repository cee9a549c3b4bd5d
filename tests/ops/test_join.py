"""Joining, cutting and padding against numpy, bit by bit, of constant and symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr.nodes import IfThenElse
from tests.ops.arrays import compiled, exact, sample

ops = tl.ops


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        (((3, 5), (1, 5), (17, 5)), 0),
        (((3, 1), (3, 17), (3, 33)), 1),
        (((3, 5, 2), (3, 4, 2)), -2),
        (((7,),), 0),
        (((0, 3), (2, 3)), 0),
        (((2, 0), (2, 3), (2, 0)), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("t", ["float32", "int8"])
def test_concatenate(shapes, axis, t):
    feed = {te.placeholder(s, t, name=f"x{k}"): sample(s, t, k) for k, s in enumerate(shapes)}
    exact(compiled(ops.concatenate(list(feed), axis), feed), np.concatenate(list(feed.values()), axis), t)


def test_concatenate_promotes_and_has_a_short_name():
    feed = {te.placeholder((3,), t, name=t): sample((3,), t) for t in ("int8", "float32", "float16")}
    exact(compiled(ops.concat(list(feed)), feed), np.concatenate(list(feed.values())), "float32")


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stack(axis):
    feed = {te.placeholder((3, 17), name=f"x{k}"): sample((3, 17), "float32", k) for k in range(3)}
    exact(compiled(ops.stack(list(feed), axis), feed), np.stack(list(feed.values()), axis), "float32")


@pytest.mark.parametrize(
    ("parts", "axis"), [(3, 0), (1, 1), (17, 1), ([1, 4], 0), ([3, 3, 9], 1), ([0, 6], 0)], ids=str
)
def test_split(parts, axis):
    a = sample((6, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    found = ops.split(x, parts, axis)
    want = np.split(a, parts, axis)
    assert isinstance(found, tuple) and len(found) == len(want)
    for got, w in zip(
        compiled(found, {x: a}) if len(found) > 1 else [compiled(found[0], {x: a})], want, strict=True
    ):
        exact(got, w, "float32")


@pytest.mark.parametrize(
    ("begin", "end", "strides"),
    [
        ((1, 2), (3, 9), None),
        ((0, 16), (6, 2), (1, -3)),
        ((None, None), (None, None), (2, -1)),
        ((-3, -100), (-1, 100), (1, 4)),
        ((5,), (2,), None),
        ((4, 1), (None, None), (-2, 5)),
    ],
    ids=str,
)
def test_strided_slice(begin, end, strides):
    a = sample((6, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    cut = tuple(slice(*b) for b in zip(begin, end, strides or [1] * len(begin), strict=True))
    exact(compiled(ops.strided_slice(x, begin, end, strides), {x: a}), a[cut], "float32")


def test_slices_of_open_sizes_that_are_as_long() -> None:
    """x[1:] and x[:-1], which are subtracted from one another."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    rows = ops.strided_slice(x, [1, 0], [n, m]) - ops.strided_slice(x, [0, 0], [-1, m])
    columns = ops.strided_slice(x, [0, 3], [n, m]) - ops.strided_slice(x, [0, 0], [n, -3])
    f, g = tl.compile([x, rows]), tl.compile([x, columns])
    for shape in ((5, 4), (1, 3), (2, 2), (30, 17), (1, 1)):
        a = np.random.default_rng(3).integers(0, 9, shape).astype("float32")
        np.testing.assert_array_equal(f(a), a[1:] - a[:-1])
        np.testing.assert_array_equal(g(a), a[:, 3:] - a[:, :-3])


def test_strided_slice_of_named_axes():
    a = sample((3, 5, 17), "int32")
    x = te.placeholder(a.shape, "int32", name="x")
    exact(compiled(ops.strided_slice(x, [1], [-1], [3], axes=[-1]), {x: a}), a[:, :, 1:-1:3], "int32")


MARGINS = [2, (1, 3), ((1, 0), (0, 4)), ((0, 0), (2, 2)), ((0, 0), (0, 0))]


@pytest.mark.parametrize("width", MARGINS, ids=str)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode, width):
    a = sample((5, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    exact(compiled(ops.pad(x, width, mode), {x: a}), np.pad(a, width, mode), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("mode", ["edge", "reflect"])
@pytest.mark.parametrize("t", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    "shape, width", [((3, 7, 56), 1), ((2, 5, 97), 3), ((4, 129), (0, 5)), ((2, 3, 512), 3)]
)
def test_rows_that_are_padded_at_both_ends_are_not_gathered(shape, width, t, mode):
    """Where the lanes of the first and the last vector of a row lie is known, so each is read at once and put
    in order; all others are copies."""
    a = sample(shape, t)
    x = te.placeholder(shape, t, name="x")
    margins = [(0, 0)] * (len(shape) - 1) + [width if isinstance(width, tuple) else (width, width)]
    y = ops.pad(x, margins, mode)
    exact(compiled(y, {x: a}), np.pad(a, margins, mode), t)
    for cpu in ("znver4", "znver3"):
        ll = tl.compile(
            [x, y], f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores=1"
        ).get_source("ll")
        assert "gather" not in ll and "shufflevector" in ll


@pytest.mark.parametrize("mode", ["edge", "reflect"])
@pytest.mark.parametrize("t", ["float32", "float64", "int8"])
def test_rows_of_open_length_that_are_padded_are_read_by_sides(t, mode):
    """Where masks cost nothing: each side of the edge is a masked load, and no lane is read by itself."""
    x = te.placeholder((3, te.var("h"), te.var("w")), t, name="x")
    y = ops.pad(x, ((0, 0), (1, 2), (3, 2)), mode)
    f = tl.compile([x, y])
    for h, w in ((3, 4), (4, 5), (9, 16), (5, 33), (6, 130), (3, 129)):
        a = sample((3, h, w), t)
        exact(f(a), np.pad(a, ((0, 0), (1, 2), (3, 2)), mode), t)
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=1"
    assert "gather" not in tl.compile([x, y], target).get_source("ll")


def test_margins_that_wrap_at_open_sizes():
    """They may be wider than the tensor: it is repeated."""
    n = te.var("n")
    x = te.placeholder((3, n), name="x")
    f = tl.compile([x, ops.pad(x, ((0, 0), (5, 2)), "wrap")])
    for size in (1, 2, 5, 9, 40):
        a = sample((3, size), "float32")
        exact(f(a), np.pad(a, ((0, 0), (5, 2)), "wrap"), "float32")
    with pytest.raises(tl.CallError, match="n >= 1"):
        f(np.empty((3, 0), "float32"))


def test_pad_with_a_value_that_is_data():
    a, v = sample((3, 5), "float32"), np.array([7], "float32")
    x, value = te.placeholder(a.shape, name="x"), te.placeholder((1,), name="value")
    exact(
        compiled(ops.pad(x, 1, constant_values=value), {x: a, value: v}),
        np.pad(a, 1, constant_values=7),
        "float32",
    )


def test_pad_with_a_value_of_every_type_and_of_nothing():
    for t in ("float32", "int8", "float16"):
        a = sample((3, 5), t)
        x = te.placeholder(a.shape, t, name="x")
        exact(compiled(ops.pad(x, 1, constant_values=-7), {x: a}), np.pad(a, 1, constant_values=-7), t)
    none = np.zeros((0, 3), "float32")
    x = te.placeholder((0, 3), name="x")
    exact(compiled(ops.pad(x, 1), {x: none}), np.pad(none, 1), "float32")


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad_of_what_is_computed(mode):
    a = sample((5, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    out = ops.sum(ops.pad(ops.softmax(x), 2, mode), 0)
    want = np.exp(a.astype("float64") - a.max(1, keepdims=True))
    want = np.pad(want / want.sum(1, keepdims=True), 2, mode).sum(0)
    np.testing.assert_allclose(compiled(out, {x: a}), want, rtol=1e-5)


def test_one_kernel_for_all_sizes():
    n, m = te.dim("n", 4, 64, multiple_of=2), te.dim("m", 3, 64)
    x, y = te.placeholder((n, m), name="x"), te.placeholder((2, m), name="y")
    table = [
        (ops.stack([x, x], 1), lambda a: np.stack([a, a], 1)),
        (ops.split(x, 2)[1], lambda a: np.split(a, 2)[1]),
        (ops.split(x, [1, n - 1])[1], lambda a: a[1:-1]),
        (ops.strided_slice(x, [1, None], [None, -1], [2, 1]), lambda a: a[1::2, :-1]),
        (ops.strided_slice(x, [None], [None], [-1]), lambda a: a[::-1]),
        (ops.pad(x, 2), lambda a: np.pad(a, 2)),
        (ops.pad(x, 2, "edge"), lambda a: np.pad(a, 2, "edge")),
        (ops.pad(x, 2, "reflect"), lambda a: np.pad(a, 2, "reflect")),
    ]
    kernels = [tl.compile([x, out]) for out, _ in table]
    joined = tl.compile([x, y, ops.concatenate([x, y, x])])
    for rows, columns in ((4, 3), (4, 17), (18, 33)):
        a, b = sample((rows, columns), "float32", rows), sample((2, columns), "float32", 1)
        for kernel, (_, numpys) in zip(kernels, table, strict=True):
            exact(kernel(a), numpys(a), "float32")
        exact(joined(a, b), np.concatenate([a, b, a]), "float32")


def test_slices_of_symbolic_sizes_are_cut_where_they_end():
    n, k = te.var("n"), te.var("k")
    x = te.placeholder((n,), name="x")
    table = [(2, 5, 1), (-3, None, 1), (None, -2, 2), (10, 1, -3), (1, -1, 1)]
    kernels = [tl.compile([x, ops.strided_slice(x, [b], [e], [s])]) for b, e, s in table]
    upto = tl.compile([x, k, *ops.split(x, [k])])
    for size in (0, 1, 3, 4, 17):
        a = sample((size,), "float32", size)
        for kernel, (b, e, s) in zip(kernels, table, strict=True):
            exact(kernel(a), a[b:e:s], "float32")
        for at in (0, 2, 17, 33):
            for got, want in zip(upto(a, at), np.split(a, [at]), strict=True):
                exact(got, want, "float32")


@pytest.mark.parametrize("size_type", ["int32", "int64", None])
def test_bounds_and_strides_beyond_every_size(size_type):
    """The largest numbers are what exporters write for an end, and a stride is any number."""
    far = [2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2]
    table = [(b, e, s) for b in (None, *far) for e in (None, *far) for s in far]
    n = 5 if size_type is None else te.var("n", size_type)
    x = te.placeholder((n,), name="x")
    a = sample((5,), "float32")
    f = tl.compile([x, *(ops.strided_slice(x, [b], [e], [s]) for b, e, s in table)])
    for got, (b, e, s) in zip(f(a), table, strict=True):
        exact(got, a[b:e:s], "float32")


def _deepest(e):
    """How many choices stand in one another."""
    inner = max((_deepest(k) for k in e.children()), default=0)
    return inner + isinstance(e, IfThenElse)


@pytest.mark.parametrize("open_sizes", [False, True])
def test_many_tensors_are_told_apart_by_halves(open_sizes):
    xs = [te.placeholder((te.dim(f"n{k}") if open_sizes else k % 3, 2), name=f"x{k}") for k in range(70)]
    y = ops.concatenate(xs, 0)
    assert _deepest(y.op.body[0]) <= 12  # 2^4 groups of at most 8
    data = [np.full((k % 3, 2), k, np.float32) for k in range(70)]
    assert (tl.compile([*xs, y])(*data) == np.concatenate(data)).all()


def test_many_tensors_are_stacked():
    xs = [te.placeholder((2,), name=f"x{k}") for k in range(19)]
    y = ops.stack(xs, 1)
    assert _deepest(y.op.body[0]) <= 9
    data = [np.full(2, k, np.float32) for k in range(19)]
    assert (tl.compile([*xs, y])(*data) == np.stack(data, 1)).all()
