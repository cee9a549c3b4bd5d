"""Running sums and products against numpy: every axis, dtype, and symbolic sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.te.loops import LoopsOp
from tests.ops.arrays import compiled, exact, near, real, sample, stored, whole

ops = tl.ops


@pytest.mark.parametrize("t", ["float32", "float64", "int8", "uint8", "int32", "bool", "float16"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_cumsum(t, axis):
    a = sample((3, 17), t, 2) if t in ("bool", "uint8") else whole((3, 17), t, 2)
    x = te.placeholder(a.shape, t, name="x")
    want = np.cumsum(a, axis)
    exact(compiled(ops.cumsum(x, axis), {x: a}), want, str(want.dtype))


@pytest.mark.parametrize(
    ("shape", "axis"), [((1,), 0), ((33,), 0), ((3, 5, 7), 1), ((3, 1, 17), 2), ((1, 33), 0)]
)
def test_shapes(shape, axis):
    a = whole(shape, "float32", 3)
    x = te.placeholder(shape, name="x")
    exact(compiled(ops.cumsum(x, axis), {x: a}), np.cumsum(a, axis), "float32")


@pytest.mark.parametrize("axis", [0, 1])
def test_exclusive_and_reverse(axis):
    n = te.dim("n", 1, 9)
    a = whole((5, 17), "float32", 3)
    x = te.placeholder((n, 17), name="x")
    ways = [(e, r) for e in (False, True) for r in (False, True)]
    got = compiled(
        [
            *[ops.cumsum(x, axis, exclusive=e, reverse=r) for e, r in ways],
            ops.cumprod(x, axis, exclusive=True),
        ],
        {x: a},
    )
    for (e, r), g in zip(ways, got, strict=False):
        given = np.flip(a, axis) if r else a
        want = np.cumsum(given, axis) - (given if e else 0)
        exact(g, np.flip(want, axis) if r else want, "float32")
    ones = np.ones_like(a[:1] if axis == 0 else a[:, :1])
    before = a[:-1] if axis == 0 else a[:, :-1]
    exact(got[-1], np.cumprod(np.concatenate([ones, before], axis), axis), "float32")


def test_cumprod():
    a = np.where(whole((3, 17), "float32") > 0, 2, -1).astype("float32")
    x = te.placeholder(a.shape, name="x")
    rows, columns = compiled([ops.cumprod(x, 0), ops.cumprod(x, 1)], {x: a})
    exact(rows, np.cumprod(a, 0), "float32")
    exact(columns, np.cumprod(a, 1), "float32")


def test_the_type_may_be_given():
    a = np.full((17,), 100, "int8")
    x = te.placeholder((17,), "int8", name="x")
    exact(compiled(ops.cumsum(x, dtype="int8"), {x: a}), a.cumsum(dtype="int8"), "int8")


def test_sixteen_bits_are_summed_in_thirty_two():
    a = stored(np.full((3000,), 0.1), "bfloat16")
    x = te.placeholder((3000,), "bfloat16", name="x")
    near(compiled(ops.cumsum(x), {x: a}), np.cumsum(real(a, "bfloat16")), "bfloat16", 1)


def test_it_feeds_and_is_fed():
    a = whole((3, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    exact(
        compiled(ops.max(ops.cumsum(ops.relu(x), 1), 1), {x: a}),
        np.cumsum(np.maximum(a, 0), 1).max(1),
        "float32",
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_one_kernel_for_all_sizes(axis):
    n, m = te.dim("n", 1, 100), te.dim("m", 1, 100)
    x = te.placeholder((n, m), name="x")
    kernel = tl.compile([x, ops.cumsum(x, axis)])
    for shape in ((1, 1), (3, 17), (33, 3)):
        a = whole(shape, "float32", sum(shape))
        exact(kernel(a), np.cumsum(a, axis), "float32")


@pytest.mark.parametrize("n", [0, te.var("n")])
@pytest.mark.parametrize("f", ["cumsum", "cumprod"])
def test_over_nothing_there_is_nothing(n, f):
    x = te.placeholder((n, 3), "int8", name="x")
    kernel = tl.compile([x, getattr(ops, f)(x, 0)])
    for rows in (0,) if isinstance(n, int) else (0, 1, 4):
        a = whole((rows, 3), "int8", 3)
        exact(kernel(a), getattr(np, f)(a, 0), "int64")


def test_a_scan_that_begins_with_more_rows_than_there_are_is_refused_at_the_call():
    n = te.var("n")
    x, state = te.placeholder((n, 3), name="x"), te.placeholder((n, 3), name="state")
    first = te.compute((2, 3), lambda t, i: 1.0, name="first")
    y = te.scan(
        first, te.compute((n, 3), lambda t, i: state[t - 2, i] + x[t, i], name="step"), state, name="y"
    )
    f = tl.compile([x, y])
    assert f(np.ones((4, 3), "float32"))[:, 0].tolist() == [1, 1, 2, 2]
    with pytest.raises(tl.CallError, match="the scan y over n rows begins with 2"):
        f(np.ones((1, 3), "float32"))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_running_sum_of_a_running_sum(axis):
    a = whole((4, 3), "float32", 2)
    x = te.placeholder(a.shape, name="x")
    y = ops.cumsum(ops.cumsum(x, axis), axis)
    want = a.cumsum(axis).cumsum(axis)
    exact(te.reference.evaluate(y, {x: a})[0], want, "float32")
    exact(tl.compile([x, y])(a), want, "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "int64", "float16"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (4, 1), (2, 3, 19), (0, 3), (3, 0)])
def test_rows_of_every_number(t, shape):
    """Four rows are taken at once; the last of them may be taken again."""
    n, m = te.dim("n"), te.dim("m")
    a = np.sign(whole(shape, t, 3))
    x = te.placeholder((*shape[:-2], n, m), t, name="x")
    y, z = ops.cumsum(x, -1, t), ops.cumprod(x, -1, t, reverse=True)
    got = compiled([y, z], {x: a})
    exact(got[0], np.cumsum(a, -1, dtype=t), t)
    exact(got[1], np.flip(np.cumprod(np.flip(a, -1), -1, dtype=t), -1), t)


@pytest.mark.parametrize("shape", [(9,), (4, 5, 7), (2, 3, 5, 11), (3, 1, 4), (2, 0, 3), (6, 4, 0)], ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_of_several_dimensions_are_read_where_they_lie(shape, exclusive):
    """They were copied to a matrix before, and back from one: 64 × 64 × 64 took twice the time."""
    a = whole(shape, "float32", 5)
    x = te.placeholder(shape, name="x")
    y = ops.cumsum(x, -1, exclusive=exclusive)
    assert list(y.op.input_tensors) == [x] or 0 in shape
    want = np.cumsum(a, -1)
    exact(compiled(y, {x: a}), want - a if exclusive else want, "float32")
    exact(te.reference.evaluate(y, {x: a})[0], want - a if exclusive else want, "float32")


COLUMNS = {
    "in registers": ((5, 9, 6, 3), 1),
    "of no whole vectors, of all": ((7, 13), 0),
    "line by line": ((2, 4, 300), 1),
    "in two blocks": ((1, 5, 3, 700), 1),
    "a rest of a block": ((3, 9001), 0),
    "one dimension in front is one": ((1, 3, 5), 1),
}


@pytest.mark.each_value
@pytest.mark.parametrize("case", COLUMNS)
@pytest.mark.parametrize("t", ["float32", "int8", "float64"])
def test_columns_are_summed_where_they_lie(case, t):
    """Rows were laid in front of all other dimensions before, and back again: 50 × 100 × 64 took twice the
    time."""
    shape, axis = COLUMNS[case]
    a = whole(shape, t, 2)
    x = te.placeholder(shape, t, name="x")
    ways = [(e, r) for e in (False, True) for r in (False, True)]
    y = [ops.cumsum(x, axis, exclusive=e, reverse=r) for e, r in ways]
    assert all(list(s.op.input_tensors) == [x] for s in y)
    made = [np.empty(shape, s.dtype.to_numpy()) for s in y]
    interpret(tl.lower(tl.recipes.default_schedule(y), [x, *y]), a, *made)
    others = te.reference.evaluate(y, {x: a})
    for (e, r), g, m, i in zip(ways, compiled(y, {x: a}), others, made, strict=True):
        given = np.flip(a, axis) if r else a
        want = np.cumsum(given, axis, dtype=g.dtype) - (given if e else 0)
        want = np.flip(want, axis) if r else want
        exact(g, want, str(g.dtype))
        exact(m, want, str(g.dtype))
        exact(i, want, str(g.dtype))


def test_columns_behind_an_open_number_of_rows():
    n = te.dim("n")
    x = te.placeholder((n, 4, 70), name="x")
    kernel = tl.compile([x, ops.cumsum(x, 1)])
    for rows in (0, 1, 5):
        a = whole((rows, 4, 70), "float32", 2)
        exact(kernel(a), np.cumsum(a, 1), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 5, 7), 0), ((3, 5, 7), 1), ((3, 5, 7), -1), ((17,), 0)])
def test_extremes_so_far(t, shape, axis):
    a = np.random.default_rng(4).integers(0, 5, shape).astype(t)
    if t == "float32":
        a.flat[5] = a.flat[9] = np.nan
    x = te.placeholder(shape, t, name="x")
    for f, g in ((ops.cummax, np.maximum), (ops.cummin, np.minimum)):
        values, places = compiled(f(x, axis), {x: a})
        want = g.accumulate(a, axis)
        assert np.array_equal(values, want, equal_nan=t[0] == "f") and places.dtype == np.int64
        there = np.take_along_axis(a, places, axis)
        assert np.array_equal(there, want, equal_nan=t[0] == "f")
        # of equal ones the last
        own = (a == want) | (a != a)
        at = np.arange(a.shape[axis]).reshape([-1 if d == axis % a.ndim else 1 for d in range(a.ndim)])
        assert np.array_equal(places, np.maximum.accumulate(np.where(own, at, 0), axis))
    (empty, _) = compiled(ops.cummax(y := te.placeholder((0, 3), t, name="y"), 0), {y: np.zeros((0, 3), t)})
    assert empty.shape == (0, 3)


@pytest.mark.parametrize("t", ["float32", "float64", "float16"])
@pytest.mark.parametrize("n", [32, 64, 200, 0])
def test_extremes_of_long_rows_in_pieces(t, n):
    """Drawn, in order, and with equal ones, zeros of both signs and NaN; 0: an open length."""
    size, rng = n or 151, np.random.default_rng(6)
    rows = [rng.standard_normal(size), np.sort(rng.standard_normal(size)), rng.integers(-2, 3, size) * 1.0]
    rows += [np.where(rng.random(size) < 0.02, np.nan, rows[0]), np.zeros(size) * rng.choice([-1, 1], size)]
    a = np.stack([*rows, -np.sort(-rows[0])]).astype(t)
    x = te.placeholder((6, n or te.dim("n", 1, 1000)), t, name="x")
    for f, g in ((ops.cummax, np.maximum), (ops.cummin, np.minimum)):
        values, places = compiled(f(x, 1), {x: a})
        want = g.accumulate(a, 1)
        own = np.where((a == want) | (a != a), np.arange(size), 0)
        assert np.array_equal(values, want, equal_nan=True)
        assert np.array_equal(places, np.maximum.accumulate(own, 1))


def test_extremes_of_which_one_result_is_computed_on():
    """The other result of the scan is the caller's, and its values are memory of the kernel's own."""
    a = np.random.default_rng(5).integers(0, 9, (5, 7)).astype("float32")
    x = te.placeholder(a.shape, name="x")
    values, places = ops.cummax(x, 0)
    doubled, there = compiled([ops.multiply(values, 2.0), places], {x: a})
    exact(doubled, 2 * np.maximum.accumulate(a, 0), "float32")
    assert np.array_equal(np.take_along_axis(a, there, 0), np.maximum.accumulate(a, 0))


@pytest.mark.parametrize("columns", [4, 33])
@pytest.mark.parametrize("reverse", [False, True])
def test_no_rows_of_an_open_number_are_read(columns, reverse):
    """Lines are longer than registers hold: the first one is read before there is a loop."""
    n = te.size_var("n")
    a = te.placeholder((n, columns), "float64", name="a")
    f = tl.compile([a, ops.cumsum(a, 0, reverse=reverse)])
    assert f(np.zeros((0, columns))).shape == (0, columns)
    x = np.arange(3.0 * columns).reshape(3, columns)
    want = x[::-1].cumsum(0)[::-1] if reverse else x.cumsum(0)
    assert (f(x) == want).all()


def scanned(a, axis, product=False, exclusive=False, reverse=False):
    """numpy's, of the element type of ``a``, in float32 for halves."""
    inside = "float32" if a.dtype == np.float16 else a.dtype
    given = np.flip(a, axis) if reverse else a
    total = (np.cumprod if product else np.cumsum)(given, axis, dtype=inside)
    if exclusive:
        first = np.full_like(total.take([0], axis), int(product)) if a.shape[axis] else total
        total = np.concatenate([first, total.take(range(a.shape[axis] - 1), axis)], axis)
    return (np.flip(total, axis) if reverse else total).astype(a.dtype)


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float32", "int16", "int64"])
def test_open_columns_of_every_number_lie_where_they_are(t):
    """They were laid in front of all and back again: 41 × 53 × 151 × 3 took five times as long."""
    x = te.placeholder([te.dim(n) for n in "abcd"], t, name="x")
    ways = [(p, e, r) for p in (False, True) for e in (False, True) for r in (False, True)]
    for axis in (1, 2):
        ys = [(ops.cumprod if p else ops.cumsum)(x, axis, t, exclusive=e, reverse=r) for p, e, r in ways]
        assert all(y.op.kind.startswith("loops") for y in ys)
        for m in (1, 3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 70, 128, 129, 300):
            a = np.sign(whole((2, 3, 4, m), t, m))
            for got, way in zip(compiled(ys, {x: a}) if m in (3, 33, 70) else (), ways, strict=False):
                exact(got, scanned(a, axis, *way), t)
            if m not in (3, 33, 70):
                exact(tl.compile([x, ys[5]])(a), scanned(a, axis, *ways[5]), t)
        for shape in ((2, 3, 0, 5), (2, 0, 4, 5), (0, 3, 4, 5), (2, 3, 4, 0)):
            a = np.zeros(shape, t)
            exact(tl.compile([x, ys[1]])(a), scanned(a, axis, *ways[1]), t)


@pytest.mark.each_value
@pytest.mark.parametrize("t", ["float16", "bfloat16"])
@pytest.mark.parametrize("open_size", [False, True])
def test_rows_of_halves_are_converted_in_pieces(t, open_size):
    """Each element went through memory, and was converted for itself: six times as long."""
    for shape in (
        (1,),
        (15,),
        (16,),
        (17,),
        (63,),
        (64,),
        (65,),
        (80,),
        (81,),
        (300,),
        (1, 130),
        (5, 2),
        (9, 4),
        (3, 5),
        (5, 100),
        (3, 64),
        (0,),
        (3, 0),
    ):
        a = stored(np.sign(whole(shape, "float32", 3)), t)
        sizes = [te.dim(f"n{d}") for d in range(len(shape))] if open_size else shape
        if not open_size and 0 in shape:
            continue
        x = te.placeholder(sizes, t, name="x")
        for exclusive, reverse in ((False, False), (True, True)):
            y = ops.cumsum(x, -1, exclusive=exclusive, reverse=reverse)
            # short rows of known sizes are several at once
            assert isinstance(y.op, LoopsOp) or (not open_size and len(shape) > 1 and shape[-1] < 64)
            want = scanned(real(a, t).astype("float32"), len(shape) - 1, False, exclusive, reverse)
            exact(compiled(y, {x: a}), stored(want, t), t)


def test_pieces_of_halves_are_vectors():
    x = te.placeholder((te.dim("n"),), "float16", name="x")
    code = tl.compile([x, ops.cumsum(x)], target="llvm -mcpu=znver5 -num-cores=1").get_source("asm")
    assert code.count("vcvtph2ps") >= 4 and "vcvtps2ph" in code
    assert not any("xmm" in line for line in code.splitlines() if "vcvtph2ps" in line)


@pytest.mark.parametrize("t", ["float32", "float64", "float16", "int16"])
def test_extremes_of_open_rows_of_every_length(t):
    """Short rows are side by side; the rest of a long one is a vector with a mask, as all of it is."""
    x = te.placeholder((te.dim("m"), te.dim("n")), t, name="x")
    for f, g in ((ops.cummax, np.maximum), (ops.cummin, np.minimum)):
        kernel, rng = tl.compile([x, *f(x, 1)]), np.random.default_rng(8)
        for n in (0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 80, 127, 128, 130, 200):
            a = rng.integers(-3, 3, (7, n)).astype(t)
            if t[0] == "f":
                a[a == 0] = rng.choice([0.0, -0.0], (a == 0).sum())
                a[rng.random(a.shape) < 0.03] = np.nan
                a[1], a[2] = -np.inf, np.inf
            values, places = kernel(a)
            want = g.accumulate(a, 1)
            own = np.where((a == want) | (a != a), np.arange(n), 0)
            assert np.array_equal(values, want, equal_nan=t[0] == "f")
            assert np.array_equal(places, np.maximum.accumulate(own, 1))


def test_integers_of_short_rows_of_floats_are_made_in_vectors():
    for n in (33, te.dim("n")):
        x = te.placeholder((te.dim("m"), n), "float32", name="x")
        y = ops.cummax(x, 1)
        code = str(tl.lower(tl.recipes.default_schedule(list(y)), [x, *y]))
        assert re.search(r"ranks3\[.* : .*\] = select", code) and "now_3 = ranks3[step]" in code
