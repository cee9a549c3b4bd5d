"""Many rows in order, each in a lane of long lines: values and places, against numpy and the interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import exact, real, stored
from tests.ops.test_order import FUZZ, everywhere

ops = tl.ops
RNG = np.random.default_rng(11)


def odd(shape, t):
    """Numbers of which many are equal, the ends of a type, NaN, and both zeros."""
    a = RNG.integers(-40 if t[0] in "ibf" else 0, 40, shape)
    if t == "bool":
        return np.asarray(a > 1)
    a = stored(np.asarray(a), t)
    drawn = RNG.random(shape)
    if "int" in t:
        a[drawn < 0.1], a[drawn < 0.05] = np.iinfo(t).max, np.iinfo(t).min
    else:
        for most, e in ((0.3, -0.0), (0.2, 0.0), (0.15, np.nan), (0.1, -np.inf), (0.05, np.inf)):
            a[drawn < most] = stored(np.float64(e), t)
    return a


def right(a, t, descending, values, at):
    r = real(a, t)
    n = r.shape[-1]
    key = np.where(np.isnan(r), np.inf, r) if r.dtype.kind == "f" else r
    behind = np.isnan(r) if r.dtype.kind == "f" else np.zeros(r.shape, bool)
    step = -1 if descending else 1  # of the reversed rows, so that of equals the first stays first
    pairs = zip(key[:, ::step], behind[:, ::step], strict=True)
    want = np.array([np.lexsort((k, last)) for k, last in pairs], np.int64).reshape(r.shape)[:, ::step]
    want = n - 1 - want if descending else want
    exact(at, want, "int64")
    wanted = np.take_along_axis(r, want, -1)
    exact(values, wanted, t)
    if r.dtype.kind == "f":
        zeros = wanted == 0
        np.testing.assert_array_equal(np.signbit(real(values, t))[zeros], np.signbit(wanted)[zeros])


KINDS = {  # lanes of values and of places
    "bool": (32, 16), "int8": (32, 16), "uint8": (32, 16), "int16": (32, 16), "uint16": (32, 16),
    "float16": (16, 8), "bfloat16": (16, 8), "float32": (16, 8), "int32": (16, 8), "uint32": (16, 8),
    "float64": (8, 8), "int64": (8, 8), "uint64": (8, 8),
}  # fmt: skip


@pytest.mark.each_value
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("t", KINDS)
def test_a_row_in_each_lane(t, descending):
    """A block and a part of one; parts of tiles, runs without a partner, columns that are no whole block. 1000
    rows of 100 of int16 took 17 times as long by their digits."""
    for rows, n in ((33, 101), (40, 65), (69, 300)):
        a = odd((rows, n), t)
        x = te.placeholder(a.shape, t, name="x")
        made = [tl.compile([x, y]) for y in (ops.sort(x, -1, descending), ops.argsort(x, -1, descending))]
        for kernel, lanes in zip(made, KINDS[t], strict=True):
            ir = kernel.get_source("ir")
            assert f"[1, {-(-n // 8) * 8 * lanes}]" in ir
            assert "counts" not in ir
        right(a, t, descending, *[kernel(a) for kernel in made])


@pytest.mark.parametrize(
    ("t", "rows", "n"),
    [("int16", 33, 50), ("float64", 9, 41), ("float32", 17, 67), pytest.param("uint32", 16, 129, marks=FUZZ)],
)
def test_by_the_interpreter(t, rows, n):
    a = odd((rows, n), t)
    x = te.placeholder(a.shape, t, name="x")
    for descending in (False, True):
        (values,) = everywhere([ops.sort(x, -1, descending)], {x: a})
        (at,) = everywhere([ops.argsort(x, -1, descending)], {x: a})
        right(a, t, descending, values, at)


@pytest.mark.parametrize("t", ["float32", "int64", "int16"])
def test_open_sizes(t):
    """Fewer rows than lanes go one by one, as rows do that are too long."""
    x = te.placeholder((te.dim("m"), te.dim("n")), t, name="x")
    made = [tl.compile([x, y]) for y in (ops.sort(x), ops.argsort(x))]
    for m, n in itertools.product((0, 1, 7, 8, 9, 15, 17, 32, 70), (0, 1, 33, 64, 71, 257)):
        a = odd((m, n), t)
        right(a, t, False, *[kernel(a) for kernel in made])


def test_values_with_their_places():
    a = odd((19, 90), "float32")
    x = te.placeholder(a.shape, name="x")
    for descending in (False, True):
        values, at = tl.compile([x, *ops.top_k(x, 90, largest=descending)])(a)
        right(a, "float32", descending, values, at)


@pytest.mark.parametrize(
    ("t", "n", "lines"), [("int8", 1024, True), ("int8", 1025, False), ("float32", 16384, True)]
)
def test_long_rows_of_few_digits_are_distributed(t, n, lines):
    """Places of 2000 bytes in lines took 1.1 of the time."""
    a = odd((16, n), t)
    x = te.placeholder(a.shape, t, name="x")
    kernel = tl.compile([x, ops.argsort(x)])
    assert ("counts" in kernel.get_source("ir")) is not lines
    exact(kernel(a), np.argsort(a, -1, kind="stable"), "int64")


@pytest.mark.parametrize("n", [100, 256])
def test_few_rows_of_few_digits_are_compared(n):
    """7 rows of 256 of int16 took twice as long by their digits."""
    a = odd((7, n), "int16")
    x = te.placeholder(a.shape, "int16", name="x")
    made = [tl.compile([x, y]) for y in (ops.sort(x), ops.argsort(x))]
    assert not any("counts" in kernel.get_source("ir") for kernel in made)
    right(a, "int16", False, *[kernel(a) for kernel in made])


@pytest.mark.parametrize("places", [False, True])
def test_keys_of_short_open_rows_are_made_in_a_loop(places):
    """Written out for each place they were most of the code: 0.49 s to compile instead of 0.34."""
    x = te.placeholder((te.var("m"), te.var("n")), "float64", name="x")
    out = ops.argsort(x) if places else ops.sort(x)
    text = str(tl.lower(te.create_schedule(out.op), [x, out]))
    assert text.count("isnan") < 24


@pytest.mark.parametrize("t", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 5, 8, 13, 24, 32])
def test_zeros_of_short_open_rows_keep_their_order(t, n):
    x = te.placeholder((te.var("m"), te.var("n")), t, name="x")
    f = tl.compile([x, ops.sort(x)])
    for rows in (1, 15, 16, 33):
        for signs in (RNG.random((rows, n)) < 0.5, np.zeros((rows, n), bool), np.arange(n) == 1):
            a = stored(np.where(signs, -0.0, 0.0) * np.ones((rows, n)), t)
            a[RNG.random((rows, n)) < 0.3] = -1
            got = f(a)
            want = np.take_along_axis(a, np.argsort(a, -1, kind="stable"), -1)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
            np.testing.assert_array_equal(got, want)
