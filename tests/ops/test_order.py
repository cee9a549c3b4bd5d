"""Operators that go where data lead them, by compiled code, the interpreter of the loop IR and te.reference,
against numpy: order, ties, NaN, what counts, what overlaps, symbolic sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify
from tensorlang.lowering.written_out import missing_outputs
from tensorlang.ops.network import exchanges
from tensorlang.ops.sorting import SHORT_VALUES
from tensorlang.te.reference import evaluate
from tests.ops.arrays import compiled, exact, real, sample, stored

FUZZ = pytest.mark.fuzz  # seconds each, with others like them beside

ops = tl.ops
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint32", "bool"]
RNG = np.random.default_rng(7)


def everywhere(outputs, feed):
    """The arrays by compiled code, which the reference and the interpreter agree with."""
    got = tl.compile([*feed, *outputs])(*feed.values())
    got = [got] if len(outputs) == 1 else list(got)
    for g, want in zip(got, evaluate(outputs, feed), strict=True):
        np.testing.assert_array_equal(g, want)
    s = te.create_schedule([t.op for t in outputs])
    func = tl.lower(s, [*feed, *outputs])
    verify(func)
    unnamed = missing_outputs(s.state, [*feed, *outputs])  # of programs with several results
    outs = [np.zeros_like(g) for g in (*got, *evaluate(unnamed, feed))]
    interpret(func, *feed.values(), *outs)
    for g, o in zip(got, outs, strict=False):
        np.testing.assert_array_equal(g, o)
    return got


def few(shape, t, nan=False):
    """Few different numbers, so that many are equal."""
    a = RNG.integers(0, 4, shape)
    if t == "bool":
        return np.asarray(a > 1)
    a = stored(np.asarray(a), t)
    if nan and t in ("float32", "float64", "float16"):
        a.reshape(-1)[::5] = np.nan
    return a


@pytest.mark.each_value
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("t", TYPES)
def test_sorting_is_stable_and_puts_nan_behind(t, descending):
    a = few((3, 17), t, nan=True)
    x = te.placeholder(a.shape, t, name="x")
    values, at = compiled([ops.sort(x, -1, descending), ops.argsort(x, -1, descending)], {x: a})
    r = real(a, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r.astype("int64")
    want = np.argsort(-key if descending else key, -1, kind="stable")
    exact(at, want, "int64")
    exact(values, np.take_along_axis(r, want, -1), t)


@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), 0), ((4, 5, 6), 1), ((4, 5), 0), ((3, 4), None), ((2, 1), 1)]
)
def test_axes(shape, axis):
    a = sample(shape, "float32")
    x = te.placeholder(shape, name="x")
    values, at = everywhere([ops.sort(x, axis), ops.argsort(x, axis)], {x: a})
    exact(values, np.sort(a, axis), "float32")
    exact(at, np.argsort(a, axis), "int64")


@pytest.mark.parametrize("t", ["float32", "int64", "int8"])
def test_values_of_rows_of_any_length(t):
    """Whole tiles of the network and parts of one, runs that lack a partner, and rows sorted by digits."""
    x = te.placeholder((te.dim("m", 1, 9), te.dim("n", 1, 5000)), t, name="x")
    kernel = tl.compile([x, ops.sort(x)])
    for shape in (
        (1, 1),
        (3, 2),
        (2, 8),
        (2, 17),
        (2, 64),
        (3, 65),
        (2, 129),
        (2, 200),
        (1, 1025),
        (1, 3000),
    ):
        a = few(shape, t)
        exact(kernel(a), np.sort(a, -1), t)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("t", ["float32", "int64"])
def test_short_rows_of_an_open_length_are_sorted_in_lanes(t, descending):
    """Any number of rows, the least and largest elements, NaN and the two zeros among them: what an open row
    lacks to its network stands behind all of it. A row by itself filled a tile of 64, 20 times as slow."""
    x = te.placeholder((te.dim("m"), te.dim("n")), t, name="x")
    results = (ops.sort(x, -1, descending), ops.argsort(x, -1, descending))
    by_values, by_places = (tl.compile([x, y]) for y in results)
    best = tl.compile([x, *ops.top_k(x, 3, -1, descending)])
    for m, n in itertools.product((0, 1, 7, 8, 17), (0, 1, 2, 7, 8, 9, 16, 17, 24, 25, 32, 33, 64, 65)):
        a = np.asarray(RNG.integers(-2, 3, (m, n)), t)
        odd = RNG.random((m, n))
        if t == "int64":
            a[odd < 0.3], a[odd < 0.1] = np.iinfo(t).min, np.iinfo(t).max
        else:
            a[odd < 0.5], a[odd < 0.3], a[odd < 0.2], a[odd < 0.1] = -0.0, np.nan, -np.inf, np.inf
        flipped = np.flip(a, -1) if descending else a
        want = np.argsort(flipped, -1, kind="stable")
        want = n - 1 - np.flip(want, -1) if descending else want
        np.testing.assert_array_equal(by_places(a), want)
        values = by_values(a)
        np.testing.assert_array_equal(values, np.take_along_axis(a, want, -1))
        for got, whole in zip(best(a), (np.take_along_axis(a, want, -1), want), strict=True):
            np.testing.assert_array_equal(got, whole[:, :3])
        zeros = values == 0
        assert np.array_equal(np.signbit(values)[zeros], np.signbit(np.take_along_axis(a, want, -1))[zeros])


def test_open_rows_have_a_network_for_each_room():
    """And none for those of more elements than the last."""
    x = te.placeholder((te.dim("m"), te.dim("n")), name="x")
    values = ops.sort(x)
    func = tl.lower(te.create_schedule(values.op), [x, values])
    verify(func)
    text = str(func)
    assert f"if n <= {SHORT_VALUES[0]}:" in text and f"if {SHORT_VALUES[-1]} < n:" in text
    for less, room in itertools.pairwise(SHORT_VALUES):
        assert f"if {less} < n and n <= {room}:" in text


@pytest.mark.parametrize(("n", "t"), [(70, "float32"), (150, "int32"), (19, "float64"), (40, "int64")])
def test_the_network_of_rows_of_a_known_length(n, t):
    a = few((2, n), t, nan=True)
    x = te.placeholder(a.shape, t, name="x")
    falling, rising = everywhere([ops.sort(x, -1, True), ops.sort(x)], {x: a})
    exact(rising, np.sort(a, -1), t)
    exact(falling, np.flip(np.sort(a, -1), -1), t)


@pytest.mark.each_value
@pytest.mark.parametrize("descending", [True, pytest.param(False, marks=FUZZ)])
@pytest.mark.parametrize(
    ("n", "t"),
    [
        *((n, "float32") for n in (2, 3, 7, 16, 32)),
        *((5, t) for t in ("float16", "bool", "int64")),
        *(pytest.param(5, t, marks=FUZZ) for t in ("float64", "bfloat16", "int8", "uint32")),
        (16, "float64"),
        pytest.param(16, "int64", marks=FUZZ),
        (31, "uint8"),
    ],
)
def test_short_rows_are_lanes_of_vectors(n, t, descending):
    """Two blocks of rows and five rows; zeros keep their order, NaN stands behind."""
    a = few((37, n), t, nan=True)
    if t.startswith("float"):
        a[RNG.random(a.shape) < 0.2] *= -1.0
    x = te.placeholder(a.shape, t, name="x")
    (values,) = everywhere([ops.sort(x, -1, descending)], {x: a})
    (at,) = everywhere([ops.argsort(x, -1, descending)], {x: a})
    want = np.take_along_axis(a, at, -1)
    np.testing.assert_array_equal(values, want)
    if t.startswith("float"):
        np.testing.assert_array_equal(np.signbit(values)[values == 0], np.signbit(want)[want == 0])


@pytest.mark.parametrize("n", range(1, 34))
def test_a_network_of_exchanges_puts_zeros_and_ones_in_order(n):
    """That is enough for all keys (Knuth 3, 5.3.4, theorem Z); of more than 12 keys drawn ones."""
    rows = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 if n <= 12 else RNG.integers(0, 2, (4000, n))
    want = -np.sort(-rows, -1)
    for i, j in exchanges(n):
        rows[:, i], rows[:, j] = np.maximum(rows[:, i], rows[:, j]), np.minimum(rows[:, i], rows[:, j])
    np.testing.assert_array_equal(rows, want)


def test_many_short_rows_of_an_open_number():
    x = te.placeholder((te.var("m"), 6), name="x")
    kernel = tl.compile([x, ops.sort(x)])
    for m in (0, 1, 15, 16, 17, 64, 100):
        a = few((m, 6), "float32")
        exact(kernel(a), np.sort(a, -1), "float32")


@pytest.mark.parametrize("t", ["int64", "float64"])
def test_one_row_of_any_length(t):
    """A long kernel, part of which became a function of its own: a name for what a cell holds was outside of
    it, the cell within."""
    x = te.placeholder((te.dim("n", 1, 5000),), t, name="x")
    kernel = tl.compile([x, ops.argsort(x)])
    for n in (1, 64, 200, 3000):
        a = few((n,), t) - 2
        exact(kernel(a), np.argsort(a, -1, kind="stable"), "int64")


def test_rows_of_any_length():
    m, n = te.dim("m", 1, 9), te.dim("n", 1, 5000)
    x = te.placeholder((m, n), name="x")
    kernel = tl.compile([x, ops.argsort(x)])
    for shape in ((1, 1), (3, 2), (2, 7), (2, 8), (2, 9), (1, 17), (2, 33), (1, 1025)):
        a = few(shape, "float32")
        exact(kernel(a), np.argsort(a, -1, kind="stable"), "int64")


@pytest.mark.parametrize(
    ("t", "descending"),
    [
        *((t, False) for t in ("float32", "float16", "int64", "bool", "uint64")),
        *(pytest.param(t, False, marks=FUZZ) for t in ("float64", "bfloat16", "int8", "uint32", "int16")),
        *((t, True) for t in ("float32", "int16", "uint64")),
        *(pytest.param(t, True, marks=FUZZ) for t in TYPES if t != "float32"),
    ],
)
def test_long_rows_are_distributed_by_digits(t, descending):
    """Also numbers of all digits and the ends of a type; the order of the two zeros is kept."""
    a = np.asarray(RNG.standard_normal((3, 2100)) * 100)
    a = a > 0 if t == "bool" else stored(np.abs(a) if t.startswith("u") else a, t)
    if "int" in t:
        a[0, :40:3], a[1, 5::99] = np.iinfo(t).max, np.iinfo(t).min
    elif t != "bool":
        a[0, ::7], a[0, 3::7], a[1, ::50] = stored(np.float64(-0.0), t), 0, stored(np.float64("nan"), t)
        a[2, 9::60], a[2, 8::60] = stored(np.float64("inf"), t), stored(np.float64("-inf"), t)
    x = te.placeholder(a.shape, t, name="x")
    rows, n = te.dim("rows", 1, 9), te.dim("n", 1, 5000)
    z = te.placeholder((rows, n), t, name="z")
    r = real(a, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r
    nan_last = np.isnan(r) if r.dtype.kind == "f" else np.zeros(r.shape, bool)
    step = -1 if descending else 1  # of the reversed rows, so that of equals the first stays first
    pairs = zip(key[:, ::step], nan_last[:, ::step], strict=True)
    want = np.stack([np.lexsort((k, last)) for k, last in pairs])[:, ::step]
    want = 2099 - want if descending else want
    for given in (x, z):
        kernel = tl.compile([given, ops.sort(given, -1, descending), ops.argsort(given, -1, descending)])
        assert "counts" in kernel.get_source("ir")
        values, at = kernel(a)
        exact(at, want, "int64")
        exact(values, np.take_along_axis(r, want, -1), t)
        if r.dtype.kind == "f":
            turned = np.signbit(np.take_along_axis(r, want, -1))
            ordered = ~np.isnan(real(values, t))
            np.testing.assert_array_equal(np.signbit(real(values, t))[ordered], turned[ordered])


@pytest.mark.parametrize(("t", "n"), [("float32", 1100), ("int64", 260)])
def test_digits_by_the_interpreter(t, n):
    a = few((2, n), t, nan=True)
    if t == "int64":
        a[0, 3], a[0, 70] = np.iinfo(t).max, np.iinfo(t).min
    x = te.placeholder(a.shape, t, name="x")
    everywhere([ops.sort(x), ops.argsort(x, -1, True)], {x: a})


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("n", "t"), [(53, "float32"), (150, "float16"), (70, "float64"), (49, "int64"), (40, "bool")]
)
@pytest.mark.parametrize("descending", [False, True])
def test_places_of_short_rows_by_a_network(n, t, descending):
    """They were counted and merged: 37 rows of 53 floats took 3.6 times as long. A network forgets the order of
    equal keys, which places put beside them keep."""
    a = few((5, n), t, nan=True)
    if t.startswith("float"):
        a[RNG.random(a.shape) < 0.2] *= -1.0
    elif t == "int64":
        a[1, ::7] = np.iinfo(t).min if descending else np.iinfo(t).max  # the key of what lies behind a row
    x = te.placeholder(a.shape, t, name="x")
    (at,) = everywhere([ops.argsort(x, -1, descending)], {x: a})
    r = real(a, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r.astype("int64")
    step = -1 if descending else 1
    want = np.argsort(key[:, ::step], -1, kind="stable")[:, ::step]
    exact(at, n - 1 - want if descending else want, "int64")


@pytest.mark.each_value
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("n", "t"), [(2, "float32"), (31, "int64"), (48, "uint8"), (17, "float64")])
def test_places_of_many_short_rows_in_lanes(n, t, descending):
    a = few((21, n), t, nan=True)
    x = te.placeholder(a.shape, t, name="x")
    (at,) = everywhere([ops.argsort(x, -1, descending)], {x: a})
    key = np.where(np.isnan(a), np.inf, a) if a.dtype.kind == "f" else a.astype("int64")
    step = -1 if descending else 1
    want = np.argsort(key[:, ::step], -1, kind="stable")[:, ::step]
    exact(at, n - 1 - want if descending else want, "int64")


@pytest.mark.parametrize(("rows", "n", "k"), [(37, 19, 19), (20, 64, 20), (3, 60, 5), (2, 200, 120)])
def test_a_good_part_of_a_short_row_is_found_by_sorting_it(rows, n, k):
    a = few((rows, n), "float32", nan=True)
    x = te.placeholder(a.shape, name="x")
    values, at = everywhere(list(ops.top_k(x, k)), {x: a})
    key = np.where(np.isnan(a), np.inf, a)
    want = n - 1 - np.argsort(key[:, ::-1], -1, kind="stable")[:, ::-1][:, :k]
    exact(at, want, "int64")
    exact(values, np.take_along_axis(a, want, -1), "float32")


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_many_of_a_much_longer_row_are_found_without_sorting_it(order):
    a = few((2, 1700), "float32", nan=True)
    a = a if order == "mixed" else np.sort(a)[:, :: 1 if order == "rising" else -1].copy()
    x = te.placeholder(a.shape, name="x")
    kernel = tl.compile([x, *ops.top_k(x, 40)])
    assert "keys: int32[1, 160]" in kernel.get_source("ir")
    want = np.argsort(-np.where(np.isnan(a), np.inf, a), -1, kind="stable")[:, :40]
    values, at = kernel(a)
    exact(at, want, "int64")
    exact(values, np.take_along_axis(a, want, -1), "float32")


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(axis, largest):
    a = few((6, 9), "float32")
    x = te.placeholder(a.shape, name="x")
    values, at = everywhere(list(ops.top_k(x, 4, axis, largest)), {x: a})
    want = np.take(np.argsort(-a if largest else a, axis, kind="stable"), range(4), axis)
    exact(at, want, "int64")
    exact(values, np.take_along_axis(a, want, axis), "float32")


@pytest.mark.parametrize("k", [1, 5, 33, 40])
@pytest.mark.parametrize("t", ["float32", "float16", "int8"])
def test_few_and_many_of_long_rows(t, k):
    a = few((3, 40), t, nan=True)
    x = te.placeholder(a.shape, t, name="x")
    values, at = compiled(list(ops.top_k(x, k)), {x: a})
    r = real(a, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r.astype("int64")
    want = np.argsort(-key, -1, kind="stable")[:, :k]
    exact(at, want, "int64")
    exact(values, np.take_along_axis(r, want, -1), t)


@pytest.mark.each_value
@pytest.mark.parametrize("n, k", [(64, 2), (37, 5), (9, 7), (17, 16), (100, 16)])
@pytest.mark.parametrize("rows", [16, 35, None])
@pytest.mark.parametrize("t", ["float32", "float64", "int64"])
def test_few_of_many_short_rows_are_kept_in_lanes(n, k, rows, t):
    """A row in each lane, no matter how many rows there are; none is collected and dropped."""
    x = te.placeholder((te.var("m") if rows is None else rows, n), t, name="x")
    kernel = tl.compile([x, *ops.top_k(x, k)])
    ir = kernel.get_source("ir")
    assert f"at: int32[{16 * k}] " in ir
    assert rows != 16 or "for i in" not in ir
    for m in [rows] if rows else [0, 5, 16, 50]:
        a = few((m, n), t, nan=t != "int64")
        want = np.argsort(-np.where(np.isnan(a), np.inf, a), -1, kind="stable")[:, :k]
        values, at = kernel(a)
        exact(at, want, "int64")
        exact(values, np.take_along_axis(a, want, -1), t)


@pytest.mark.each_value
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("copies", [1, 5])
@pytest.mark.parametrize(
    "t",
    [
        "float32",
        "int64",
        "uint32",
        *(pytest.param(t, marks=FUZZ) for t in ("float64", "int32", "uint64", "bfloat16")),
    ],
)
def test_the_first_of_rows_with_the_ends_of_a_type(t, copies, largest):
    """Rows of which more is dropped than there is room for, again and again, sorted either way or not; and so
    many rows that each is in a lane."""
    a = stored(np.arange(-250, 250) if t not in ("uint32", "uint64") else np.arange(500), t)
    if t in ("float32", "float64", "bfloat16"):
        a[240:256] = np.tile(stored(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]), t), 2)
    else:
        a[[7, 50, 300]], a[[8, 90, 301]] = np.iinfo(t).max, np.iinfo(t).min
    rows = np.stack([a, a[::-1], RNG.permutation(a), RNG.permutation(a)] * copies)
    x = te.placeholder(rows.shape, t, name="x")
    r = real(rows, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r
    nan_first = np.isnan(r) if r.dtype.kind == "f" else np.zeros(r.shape, bool)
    order = np.stack([np.lexsort((k, n)) for k, n in zip(key, nan_first, strict=True)])
    if largest:  # of the reversed rows, so that of equals the first stays first
        turned = zip(key[:, ::-1], nan_first[:, ::-1], strict=True)
        order = 499 - np.stack([np.lexsort((k, n)) for k, n in turned])[:, ::-1]
    for k in (1, 6, 64, 65, 499):
        values, at = compiled(list(ops.top_k(x, k, largest=largest)), {x: rows})
        exact(at, order[:, :k], "int64")
        exact(values, np.take_along_axis(r, order[:, :k], -1), t)


@pytest.mark.each_value
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape, axis", [((7,), 0), ((1,), -1), ((5, 37), 0), ((5, 37), 1), ((3, 4, 19), 1)])
@pytest.mark.parametrize("t", ["float32", "float16", "bool", "uint8", "int64"])
def test_the_first_alone_is_found_by_reductions(t, shape, axis, largest):
    """Where there is one for certain; a program would ask element by element."""
    a = few(shape, t, nan=True)
    x = te.placeholder(shape, t, name="x")
    values, at = ops.top_k(x, 1, axis, largest)
    assert "LoopsOp" not in [type(s.op).__name__ for s in te.create_schedule([values.op, at.op]).stages]
    r = real(a, t)
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r.astype("int64")
    want = np.expand_dims((np.argmax if largest else np.argmin)(key, axis), axis)
    got, places = compiled([values, at], {x: a})
    exact(places, want, "int64")
    exact(got, np.take_along_axis(r, want, axis), t)


def test_the_first_of_rows_that_may_be_empty():
    x = te.placeholder((3, te.var("n")), name="x")
    f = tl.compile([x, *ops.top_k(x, 1)])
    assert [v.shape for v in f(np.zeros((3, 0), "float32"))] == [(3, 0), (3, 0)]
    values, at = f(np.array([[1, 3], [2, 0], [5, 5]], "float32"))
    assert values.tolist() == [[3], [2], [5]] and at.tolist() == [[1], [0], [0]]


@pytest.mark.parametrize("t", ["float32", "bool", "int8"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 4)])
def test_nonzero(shape, t):
    a = few(shape, t)
    x = te.placeholder(shape, t, name="x")
    places, count = everywhere(list(ops.nonzero(x)), {x: a})
    want = np.stack(np.nonzero(np.atleast_1d(a)))
    assert count == want.shape[1] and places.shape == (max(1, len(shape)), a.size)
    exact(places[:, :count], want, "int64")
    assert not places[:, count:].any()


@pytest.mark.parametrize("often", [0, 0.05, 0.5, 1])
@pytest.mark.parametrize("n", [0, 1, 16, 53])
def test_places_and_elements_of_vectors_that_count(n, often):
    chance = np.random.default_rng(n)
    c, a = chance.random(n) < often, few((n + 2,), "int16")
    on, x = te.placeholder((n,), "bool", name="on"), te.placeholder((n + 2,), "int16", name="x")
    places, many, got, count = everywhere([*ops.nonzero(on), *ops.compress(on, x)], {on: c, x: a})
    assert many == count == c.sum()
    exact(places[0, :count], np.nonzero(c)[0], "int64")
    exact(got[:count], a[:n][c], "int16")
    assert not places[:, count:].any() and not got[count:].any()


def test_no_branch_guesses_which_elements_count():
    on, x = te.placeholder((100,), "bool", name="on"), te.placeholder((100,), name="x")
    for args in ([on, x, *ops.compress(on, x)], [x, *ops.nonzero(x)], [on, *ops.nonzero(on)]):
        text = str(tl.lower(te.create_schedule(args[-2:]), args))
        assert [line.strip() for line in text.splitlines() if "if " in line] == ["if 0 < some[0]:"]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis):
    n = te.dim("n", 1, 9)
    a, c = sample((5, 7), "float32"), np.array([1, 0, 1, 1], bool)
    x, on = te.placeholder((n, 7), name="x"), te.placeholder((4,), "bool", name="on")
    got, count = everywhere(list(ops.compress(on, x, axis)), {on: c, x: a})
    want = np.compress(c, a, axis)
    assert count == 3
    exact(np.take(got, range(3), axis or 0), want, "float32")
    assert not np.take(got, range(3, 4), axis or 0).any()


@pytest.mark.each_value
@pytest.mark.parametrize("sorted", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"), [((20,), None), ((3, 4), None), ((6, 2), 0), ((2, 6), 1), ((5, 2, 2), 0)]
)
def test_unique(shape, axis, sorted):
    a = RNG.integers(0, 2 if axis is not None else 5, shape).astype("float32")
    x = te.placeholder(shape, name="x")
    values, first, inverse, counts, count = everywhere(list(ops.unique(x, axis, sorted)), {x: a})
    want = list(np.unique(a, True, True, True, axis))
    want[2] = want[2].reshape(-1)
    if not sorted:
        order = np.argsort(want[1])
        number = np.argsort(order)
        want = [np.take(want[0], order, axis or 0), want[1][order], number[want[2]], want[3][order]]
    n = len(want[1])
    assert count == n
    exact(np.take(values, range(n), axis or 0), want[0], "float32")
    exact(inverse, want[2], "int64")
    for got, w in ((first, want[1]), (counts, want[3])):
        exact(got[:n], w, "int64")
        assert not got[n:].any()


def overlap(p, q):
    sides = [max(0.0, min(p[d + 2], q[d + 2]) - max(p[d], q[d])) for d in (0, 1)]
    area = [(c[2] - c[0]) * (c[3] - c[1]) for c in (p, q)]
    shared = sides[0] * sides[1]
    return shared / (sum(area) - shared) if shared else 0.0


@pytest.mark.parametrize("center", [False, True])
def test_non_max_suppression(center):
    corner = RNG.uniform(0, 10, (2, 30, 2))
    boxes = np.concatenate([corner, corner + RNG.uniform(1, 5, (2, 30, 2))], -1).astype("float32")
    scores = RNG.random((2, 3, 30)).astype("float32")
    given = boxes
    if center:
        given = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
        given = given.astype("float32")
    else:
        given[:, ::3] = given[:, ::3][..., [2, 3, 0, 1]]  # the corners in another order
        boxes = np.concatenate(
            [np.minimum(given[..., :2], given[..., 2:]), np.maximum(given[..., :2], given[..., 2:])], -1
        )
    x, s = te.placeholder(given.shape, name="x"), te.placeholder(scores.shape, name="s")
    got, count = everywhere(list(ops.non_max_suppression(x, s, 5, 0.2, 0.3, center)), {x: given, s: scores})
    want = []
    for n, c in np.ndindex(2, 3):
        kept = []
        for i in np.argsort(-scores[n, c], kind="stable"):
            free = all(overlap(boxes[n, i], boxes[n, k]) <= 0.2 for k in kept)
            if scores[n, c, i] > 0.3 and len(kept) < 5 and free:
                kept.append(i)
        want += [(n, c, k) for k in kept]
    assert count == len(want) and got.shape == (30, 3)
    exact(got[:count], np.array(want), "int64")
    assert not got[count:].any()


@pytest.mark.parametrize("count, most", [(1, 4), (2, 1), (40, 40), (100, 17), (70, 0)])
def test_non_max_suppression_of_many_boxes_with_equal_scores(count, most):
    """More than are compared at once, levels of the heap filled and not, equal ones in their order."""
    corner = RNG.integers(0, 30, (1, count, 2)).astype("float32")
    boxes = np.concatenate([corner, corner + RNG.integers(1, 9, (1, count, 2))], -1).astype("float32")
    scores = RNG.integers(-3, 6, (1, 2, count)).astype("float32") / 4
    scores[0, 1, ::7] = np.nan  # no candidates
    x, s = te.placeholder(boxes.shape, name="x"), te.placeholder(scores.shape, name="s")
    everywhere(list(ops.non_max_suppression(x, s, most, 0.1, -0.5)), {x: boxes, s: scores})


def test_non_max_suppression_takes_tensors_and_keeps_none_of_none():
    boxes, scores = np.zeros((1, 4, 4), "float32"), np.zeros((1, 1, 4), "float32")
    n = te.dim("n", 1, 99)
    x, s = te.placeholder((1, n, 4), name="x"), te.placeholder((1, 1, n), name="s")
    most, most_overlap = te.placeholder((1,), "int64", name="most"), te.placeholder((), name="overlap")
    f = tl.compile([x, s, most, most_overlap, *ops.non_max_suppression(x, s, most, most_overlap)])
    got, count = f(boxes, scores, np.array([2]), np.array(0.5, "float32"))
    assert count == 2 and got.shape == (4, 3)  # boxes without an area overlap nothing
    exact(got[:2], np.array([[0, 0, 0], [0, 0, 1]]), "int64")
    got, count = f(boxes, scores, np.array([0]), np.array(0.5, "float32"))
    assert count == 0 and not got.any()


def test_they_feed_and_are_fed():
    a = sample((4, 9), "float32")
    x = te.placeholder(a.shape, name="x")
    values, at = ops.top_k(ops.relu(x), 3)
    got = compiled([ops.sum(values, 1), ops.gather(x, 1, at)], {x: a})
    exact(got[1], np.take_along_axis(a, np.argsort(-np.maximum(a, 0), kind="stable")[:, :3], 1), "float32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.top_k(x, 9), "legal +0 to 5"),
        (lambda x: ops.top_k(x, -1), "k=-1"),
        (lambda x: ops.compress(x, x), "1 is needed"),
        (lambda x: ops.compress(te.placeholder((9,), "bool"), x, 0), "for 4 slices"),
        (lambda x: ops.non_max_suppression(x, x), "3 are needed"),
        (lambda x: ops.non_max_suppression(te.placeholder((1, 6, 5)), te.placeholder((1, 1, 6))), "is 5, 4"),
        (lambda x: ops.sort(x, 2), "axis=2"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((4, 5), name="x"))


@pytest.mark.parametrize("axis", [0, 1])
def test_few_of_an_open_row_are_found_in_one_pass(axis):
    """Whatever its size is: a whole sort took fifty times as long."""
    x = te.placeholder((te.dim("m"), te.dim("n")), name="x")
    values, places = ops.top_k(x, 3, axis=axis)
    f = tl.compile([x, values, places])
    programs = [t.op.program.name for t in _behind(values) if hasattr(t.op, "program")]
    assert programs == ["best_rows"]
    for shape in [(1, 7), (7, 1), (2, 2), (5, 9), (0, 4), (3, 0)]:
        a = np.random.default_rng(0).integers(0, 5, shape).astype("float32")
        order = np.take(np.argsort(-a, axis=axis, kind="stable"), np.arange(min(3, shape[axis])), axis=axis)
        v, p = f(a)
        assert np.array_equal(p, order) and np.array_equal(v, np.take_along_axis(a, order, axis))


def _behind(t):
    return [t, *[u for read in t.op.input_tensors for u in _behind(read)]]
