"""Reductions against numpy: axes, keepdims, dtypes, ties and NaN, stable variance, symbolic sizes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.ops.arrays import FLOATS, compiled, exact, near, real, sample, stored, whole

ops = tl.ops
AXES = (None, 0, 1, -1, (0, 2), (1, 2), (2, 0, 1), ())
PLAIN = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
    "mean": np.mean,
}


@pytest.mark.each_value
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", PLAIN)
def test_axes(name, axis):
    a = whole((3, 5, 17), "float32", 7)
    if name == "prod":
        a = np.where(a > 0, 2, np.where(a < 0, -1, 1)).astype("float32")  # powers of two: exact in any order
    x = te.placeholder(a.shape, name="x")
    kept, gone = compiled([getattr(ops, name)(x, axis, keepdims=True), getattr(ops, name)(x, axis)], {x: a})
    for got, keep in ((kept, True), (gone, False)):
        want = PLAIN[name](a, axis=axis, keepdims=keep)
        if name in ("mean", "prod"):
            near(got, PLAIN[name](a.astype("float64"), axis=axis, keepdims=keep), "float32", 2)
        else:
            exact(got, want, "bool" if name in ("any", "all") else "float32")


@pytest.mark.each_value
@pytest.mark.parametrize(
    "t",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint32",
        "int64",
        "uint64",
        "float64",
        "float32",
        "float16",
        "bfloat16",
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_dtypes(t, axis):
    a = (
        np.abs(whole((33, 17), t))
        if t == "uint8"
        else whole((33, 17), t)
        if t != "bfloat16"
        else stored(np.arange(33 * 17).reshape(33, 17) % 7, t)
    )
    x = te.placeholder(a.shape, t, name="x")
    names = ["sum", "max", "min", "any", "all", "mean"]
    got = dict(zip(names, compiled([getattr(ops, n)(x, axis) for n in names], {x: a}), strict=True))
    r = real(a, t)
    total = r.sum(axis)
    exact(
        got["sum"],
        real(stored(total, t), t) if t in ("float16", "bfloat16") else total,
        t if r.dtype.kind == "f" else str(total.dtype),
    )
    exact(got["max"], r.max(axis), t)
    exact(got["min"], r.min(axis), t)
    exact(got["any"], r.any(axis), "bool")
    exact(got["all"], r.all(axis), "bool")
    near(got["mean"], r.mean(axis), t if r.dtype.kind == "f" else "float64", 1)


def test_sums_in_a_given_type():
    a = np.full((17,), 100, "int8")
    x = te.placeholder((17,), "int8", name="x")
    narrow, floating = compiled([ops.sum(x, dtype="int8"), ops.sum(x, dtype="float32")], {x: a})
    exact(narrow, a.sum(dtype="int8"), "int8")
    exact(floating, np.float32(1700), "float32")


def test_a_sum_of_halves_does_not_stop_at_2048():
    a = np.ones((5000,), "float16")
    x = te.placeholder((5000,), "float16", name="x")
    total, mean = compiled([ops.sum(x), ops.mean(x)], {x: a})
    exact(total, np.float16(5000), "float16")
    exact(mean, np.float16(1), "float16")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "float64", "float16", "bfloat16", "int8", "int32", "uint8", "bool"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_argmax_takes_the_first_of_equals_and_the_first_nan(t, axis):
    a = sample((5, 33), t, 3) if t in ("bool", "uint8") else whole((5, 33), t, 3)  # small numbers: many ties
    if t in ("float32", "float64", "float16"):
        a[1, 7] = a[1, 20] = a[3, 0] = np.nan
        a[4] = -np.inf
    x = te.placeholder(a.shape, t, name="x")
    got = compiled([ops.argmax(x, axis), ops.argmin(x, axis), ops.argmax(x, axis, keepdims=True)], {x: a})
    r = real(a, t)
    exact(got[0], r.argmax(axis), "int64")
    exact(got[1], r.argmin(axis), "int64")
    exact(got[2], r.argmax(axis, keepdims=True), "int64")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "float64", "float16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(3, 1024), (2, 1025), (2, 1, 2047), (5003,)])
def test_argmax_of_long_rows_by_blocks(t, shape):
    """Blocks that overlap, equals in several of them, NaN in one, and rows of nothing but infinities."""
    spread = sample(shape, t, 5) if t in ("bool", "uint8") else whole(shape, t, 3)
    same = np.zeros(shape, spread.dtype)
    one = same.copy()
    one[..., -1] = 1
    x = te.placeholder(shape, t, name="x")
    results = [ops.argmax(x, -1), ops.argmin(x, -1), ops.argmax(x, -1, keepdims=True)]
    f = tl.compile([x, *results])
    for a in (spread, same, one):
        cases = [a]
        if t.startswith("float"):
            nan = a.copy()
            nan[..., shape[-1] // 2] = nan[..., -1] = np.nan
            cases += [nan, np.full_like(a, -np.inf), np.full_like(a, np.inf)]
        for case in cases:
            got = f(case)
            exact(got[0], np.asarray(case.argmax(-1)), "int64")
            exact(got[1], np.asarray(case.argmin(-1)), "int64")
            exact(got[2], case.argmax(-1, keepdims=True), "int64")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "float64", "float16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(6, 301), (3, 5, 7, 41), (2, 2, 1, 1025)], ids=str)
def test_argmax_of_all_elements_by_rows(t, shape):
    """Equals in several rows, NaN in one, nothing but infinities, and the extreme at either end."""
    spread = sample(shape, t, 5) if t in ("bool", "uint8") else whole(shape, t, 3)
    same = np.zeros(shape, spread.dtype)
    first, last = same.copy(), same.copy()
    first.flat[0] = last.flat[-1] = 1
    x = te.placeholder(shape, t, name="x")
    results = [ops.argmax(x), ops.argmin(x), ops.argmax(x, keepdims=True)]
    f = tl.compile([x, *results])
    # the first true one of bools is looked for at once
    assert ("argmax.rows" in f.get_source("ir")) is (t != "bool")
    for a in (spread, same, first, last):
        cases = [a]
        if t.startswith("float"):
            nan = a.copy()
            nan.flat[a.size // 2] = nan.flat[-1] = np.nan
            cases += [nan, np.full_like(a, -np.inf), np.full_like(a, np.inf), np.full_like(a, np.nan)]
        for case in cases:
            got = f(case)
            exact(got[0], np.asarray(case.argmax()), "int64")
            exact(got[1], np.asarray(case.argmin()), "int64")
            exact(got[2], case.argmax(keepdims=True), "int64")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(601, 7), (3, 1501), (51, 5, 21)], ids=str)
def test_argmax_of_all_elements_of_short_rows_is_that_of_one_row(t, shape):
    """Read once, by blocks, and not twice; beside what is made of them too."""
    a = sample(shape, t, 5) if t == "bool" else whole(shape, t, 3)
    last = np.zeros_like(a)
    last.flat[-1] = 1
    x = te.placeholder(shape, t, name="x")
    results = [ops.argmax(x), ops.argmin(x, keepdims=True), ops.logical_not(x)]
    f = tl.compile([x, *results])
    assert ("argmax.blocks" in f.get_source("ir")) is (t != "bool") and "reshape" not in f.get_source("ir")
    for case in (a, last):
        got = f(case)
        exact(got[0], np.asarray(case.argmax()), "int64")
        exact(got[1], case.argmin(keepdims=True), "int64")


def test_argmax_by_rows_means_the_same_to_the_interpreter():
    x = te.placeholder((4, 3, 130), name="x")
    made = ops.argmax(x)
    value = whole((4, 3, 130), "float32", 3)
    got = np.zeros((), "int64")
    interpret(tl.lower(default_schedule(made), [x, made]), value, got)
    assert got == value.argmax()


def test_long_rows_are_read_once_for_argmax():
    """A row's blocks, the block and the place in it one row after the other, while it is in the caches."""
    x = te.placeholder((300, 9000), name="x")
    text = tl.compile([x, ops.argmax(x, 1)]).get_source("ir")
    assert text.count("parallel(") == 1 and "argmax.blocks: float32[1, " in text


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("n", [32, 77])
def test_rows_are_asked_once_whether_they_have_a_nan(t, n):
    """Each element was compared twice: whether it is the largest, and whether it is NaN."""
    x = te.placeholder((6, n), t, name="x")
    made = [ops.argmax(x, 1), ops.argmin(x, 1)]
    func = tl.lower(default_schedule(made), [x, *made])
    assert "isnan(argmax.value[" in str(func) and "isnan(argmin.value[" in str(func)
    value = np.random.default_rng(n).standard_normal((6, n)).astype(t)
    value[0, 5], value[0, 9] = np.inf, np.nan
    value[1, 3:] = np.nan
    value[2] = -np.inf
    value[3, 4:] = np.inf
    value[4] = -0.0
    value[4, 7:] = 0.0
    wanted = value.argmax(1), value.argmin(1)
    found = [np.zeros(6, "int64") for _ in made]
    interpret(func, value, *found)
    compiled_too = tl.compile([x, *made])(value)
    for got in (found, compiled_too):
        assert all((a == b).all() for a, b in zip(got, wanted, strict=True))


def test_argmax_of_the_lowest_integers():
    a = np.full((1, 17), -128, "int8")
    x = te.placeholder(a.shape, "int8", name="x")
    exact(compiled(ops.argmax(x, 1), {x: a}), a.argmax(1), "int64")


def test_max_and_min_hand_nan_on():
    a = sample((3, 33), "float32")
    a[1, 31] = np.nan
    x = te.placeholder(a.shape, name="x")
    for name in ("max", "min"):
        for axis in (0, 1):
            exact(compiled(getattr(ops, name)(x, axis), {x: a}), getattr(np, name)(a, axis), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize(("axis", "ddof"), [(None, 0), (0, 1), (1, 0), ((0, 1), 1)])
def test_variance(t, axis, ddof):
    a = sample((17, 33), t, 5)
    x = te.placeholder(a.shape, t, name="x")
    var, std, kept = compiled(
        [ops.var(x, axis, ddof), ops.std(x, axis, ddof), ops.var(x, axis, ddof, keepdims=True)], {x: a}
    )
    r = real(a, t)
    n = r.size if axis is None or axis == (0, 1) else r.shape[axis]
    ulps = n / 2 + 4 if t in ("float32", "float64") else 1  # every addition rounds once
    near(var, r.var(axis, ddof=ddof), t, ulps)
    near(std, r.std(axis, ddof=ddof), t, ulps)
    near(kept, r.var(axis, ddof=ddof, keepdims=True), t, ulps)


@pytest.mark.parametrize("shape", [(0, 5), (1, 3), (2, 3)])
def test_a_variance_of_no_more_elements_than_are_taken_off_is_no_number(shape):
    """As numpy has it: 0 / 0, or what there is by 0; never by less."""
    x = te.placeholder(shape, "float32", name="x")
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape) ** 2
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = a.var(0, ddof=2)
    np.testing.assert_array_equal(compiled(ops.var(x, 0, 2), {x: a}), wanted)


def test_variance_far_from_zero_does_not_cancel():
    a = (1e4 + np.random.default_rng(0).standard_normal(4096)).astype("float32")
    x = te.placeholder((4096,), name="x")
    want = a.astype("float64").var()
    # the sum of squares less the square of the sum is off by tens of percent
    assert abs(float(compiled(ops.var(x), {x: a})) - want) < 1e-4 * want


def test_mean_and_variance_of_integers_are_float64():
    a = sample((3, 17), "int32", 1)
    x = te.placeholder(a.shape, "int32", name="x")
    mean, var = compiled([ops.mean(x, 1), ops.var(x, 1)], {x: a})
    near(mean, a.mean(1), "float64", 1)
    near(var, a.var(1), "float64", 20)


@pytest.mark.parametrize("order", [2, 1, 0, float("inf"), -float("inf"), 3, 2.5])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_norms(order, axis):
    a = whole((17, 33), "float32", 2)
    x = te.placeholder(a.shape, name="x")
    got = compiled(ops.norm(x, order, axis), {x: a})
    r = a.astype("float64")
    want = np.linalg.norm(r.reshape(-1), order) if axis is None else np.linalg.norm(r, order, axis=axis)
    near(got, want, "float32", 1 if order in (0, 1) or abs(order) == np.inf else 16)


@pytest.mark.each_value
@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, (0, 1), None])
def test_logsumexp(t, axis):
    a = sample((5, 17), t, 8)
    x = te.placeholder(a.shape, t, name="x")
    r = real(a, t)
    top = r.max()
    for keep in (False, True):
        got = compiled(ops.logsumexp(x, axis, keepdims=keep), {x: a})
        near(
            got,
            np.log(np.exp(r - top).sum(axis, keepdims=keep)) + top,
            t,
            4,
            4 * 2.0**-52 if t == "float64" else 2.0**-20,
        )


def test_logsumexp_of_huge_and_infinite_numbers():
    a = np.array(
        [[1000.0, 1000.0, 0.0], [-np.inf] * 3, [np.inf, 0.0, 1.0], [-1000.0, -1001.0, -np.inf]], "float32"
    )
    x = te.placeholder(a.shape, name="x")
    want = np.array([1000 + np.log(2), -np.inf, np.inf, -1000 + np.log1p(np.exp(-1))])
    near(compiled(ops.logsumexp(x, 1), {x: a}), want, "float32", 2)


NAMES = ("sum", "max", "mean", "var", "argmax", "logsumexp", "norm")


@pytest.mark.each_value
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_one_kernel_for_all_sizes(name, axis):
    n, m = te.var("n"), te.dim("m", 1, 100)
    x = te.placeholder((n, m), name="x")
    out = getattr(ops, name)(x, axis=axis)
    kernel = tl.compile([x, out])
    for shape in ((1, 1), (3, 17), (33, 3), (17, 33)):
        a = whole(shape, "float32", sum(shape))
        r = a.astype("float64")
        if name == "norm":
            want = np.sqrt((r * r).sum(axis))
        else:
            want = np.log(np.exp(r).sum(axis)) if name == "logsumexp" else getattr(np, name)(r, axis)
        near(
            kernel(a),
            want,
            str(out.dtype) if name != "argmax" else "float64",
            0 if name in ("sum", "max", "argmax") else 8,
            2.0**-21,
        )


def test_rank_zero_and_empty():
    x, e = te.placeholder((), name="x"), te.placeholder((3, 0), name="e")
    a = np.array(2.5, "float32")
    exact(compiled(ops.sum(x), {x: a}), a, "float32")
    none = np.zeros((3, 0), "float32")
    exact(compiled(ops.sum(e, 1), {e: none}), none.sum(1), "float32")
    exact(compiled(ops.prod(e, 1), {e: none}), none.prod(1), "float32")
    exact(compiled(ops.sum(e, 0), {e: none}), none.sum(0), "float32")


def test_reduction_axes_stand_in_the_order_of_the_dimensions():
    x = te.placeholder((3, 5, 17), name="x")
    op = ops.sum(x, (2, 0)).op
    assert (
        [a.name for a in op.reduce_axis] == ["k0", "k2"] and op.tag == "reduce" and op.attrs["axes"] == (0, 2)
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "bool"])
def test_the_mean_of_integers_is_that_of_their_exact_sum(dtype):
    x = np.resize(np.array([True] * 7 + [False] if dtype == "bool" else np.iinfo(dtype).max, dtype), (3, 999))
    a = te.placeholder(x.shape, dtype, name="a")
    got = tl.compile([a, ops.mean(a, 1)])(x)
    assert got.dtype == "float64"
    np.testing.assert_array_equal(got, x.astype("int64").sum(1) / 999)
