"""Rows of which a call tells the number, or how long they are, or both: joined, repeated and with margins they
are one stretch of memory, right for sizes of none, one and primes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(5)
COPIES = {
    "joined": (2, lambda a, b: ops.concatenate([a, b], 0), lambda a, b: np.concatenate([a, b])),
    "three": (3, lambda *x: ops.concatenate(x, 0), lambda *x: np.concatenate(x)),
    "margin": (
        1,
        lambda a: ops.pad(a, ((1, 2), (0, 0)), constant_values=7),
        lambda a: np.pad(a, ((1, 2), (0, 0)), constant_values=7),
    ),
    "repeated": (1, lambda a: ops.tile(a, (2, 1)), lambda a: np.tile(a, (2, 1))),
    "often": (1, lambda a: ops.tile(a, (5, 1)), lambda a: np.tile(a, (5, 1))),
}
ROWS = (0, 1, 2, 5, 17, 67, 131)


def kernel(kind, columns, dtype="float32", fixed=None):
    """The inputs, each with a number of rows of its own where they are joined, and the output."""
    count, declared, _ = COPIES[kind]
    c = te.dim("c") if columns is None else columns
    xs = [te.placeholder((fixed or te.dim(f"n{k}"), c), dtype, f"x{k}") for k in range(count)]
    return xs, declared(*xs)


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("columns", [None, 1, 3, 7, 64], ids=str)
@pytest.mark.parametrize("kind", list(COPIES))
def test_copies_of_open_rows(kind, columns, dtype, target):
    _, _, meant = COPIES[kind]
    xs, out = kernel(kind, columns, dtype)
    lowered, f = tl.lower(default_schedule(out, target), [*xs, out]), tl.compile([*xs, out])
    for n in ROWS:
        for c in (0, 1, 2, 3, 13, 16, 67) if columns is None else (columns,):
            arrays = [RNG.integers(0, 99, (max(0, n - 3 * k), c)).astype(dtype) for k in range(len(xs))]
            want = np.ascontiguousarray(meant(*arrays))
            assert np.array_equal(f(*arrays), want), (n, c)
            if n * c < 300:
                got = np.zeros_like(want)
                interpret(lowered, *arrays, got)
                assert np.array_equal(got, want), (n, c)


@pytest.mark.parametrize("columns", [None, 3], ids=str)
@pytest.mark.parametrize("kind", list(COPIES))
def test_no_place_is_divided_for_a_whole_vector(kind, columns):
    """Each row was a vector, mostly masked, and the loop over all elements kept its guards, which divided:
    joined rows of 3 took 7 times as long."""
    xs, out = kernel(kind, columns)
    text = str(tl.lower(default_schedule(out, AVX512), [*xs, out]))
    assert text.count("for ") == (2 if COPIES[kind][0] == 1 and kind != "margin" else 1), text
    tests = re.findall(r"(?:if|elif) (.*):$", text, re.M)
    assert tests and not any("//" in t for t in tests), text
    fast = text[: text.index("else:")]
    assert "mask" not in fast and "if_then_else" not in fast, text


def test_rows_of_a_known_number_and_an_open_length_are_a_stretch_too():
    for kind in ("joined", "margin"):
        xs, out = kernel(kind, None, fixed=8)
        assert str(tl.lower(default_schedule(out, AVX512), [*xs, out])).count("for ") == 1
        f = tl.compile([*xs, out])
        for c in (0, 1, 3, 5, 16, 131):
            arrays = [RNG.integers(0, 99, (8, c)).astype("float32") for _ in xs]
            assert np.array_equal(f(*arrays), COPIES[kind][2](*arrays))


def test_places_that_are_more_than_ends_are_no_stretch():
    """Of a stack it is the whole of which tensor an element is of, of numbers of rows a value, of rows that
    all have the same added what is read: each would be divided for in every lane (of a stack 40 times as
    long)."""
    n, c = te.dim("n"), te.dim("c")
    x, y, b = (
        te.placeholder((n, c), name="x"),
        te.placeholder((n, c), name="y"),
        te.placeholder((c,), name="b"),
    )
    a, d = (RNG.integers(0, 99, (37, 3)).astype("float32") for _ in range(2))
    row = RNG.integers(0, 99, 3).astype("float32")
    numbered = te.compute((n, c), lambda i, j: x[i, j] + i.astype("float32"), name="o")
    shifted = te.compute((n, c), lambda i, j: te.if_then_else(i < 3, x[i, j] + b[j], x[i, j]), name="o")
    every = te.compute((n, c), lambda i, j: te.if_then_else(i % 2 < 1, x[i, j], -x[i, j]), name="o")
    sign, rows = np.where(np.arange(37) % 2, -1, 1)[:, None], np.arange(37)[:, None]
    for xs, out, arrays, want in (
        ([x, y], ops.stack([x, y], 0), [a, d], np.stack([a, d])),
        ([x], numbered, [a], a + rows),
        ([x, b], shifted, [a, row], np.where(rows < 3, a + row, a)),
        ([x], every, [a], a * sign),
    ):
        assert re.search(r"i0\.i1\S*inner", default_schedule(out, AVX512).tree()) is None
        assert np.array_equal(tl.compile([*xs, out])(*arrays), want.astype("float32"))


def test_rows_of_several_open_axes_are_a_stretch_for_each_of_the_first():
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    x = te.placeholder((n, m, c), name="x")
    for out, meant in (
        (ops.concatenate([x, x], 0), lambda a: np.concatenate([a, a])),
        (ops.tile(x, (2, 1, 1)), lambda a: np.tile(a, (2, 1, 1))),
        (ops.pad(x, ((1, 1), (0, 0), (0, 0))), lambda a: np.pad(a, ((1, 1), (0, 0), (0, 0)))),
        (ops.concatenate([x, x], 1), lambda a: np.concatenate([a, a], 1)),
    ):
        f = tl.compile([x, out])
        for shape in ((0, 2, 3), (1, 1, 1), (2, 0, 3), (3, 7, 5), (5, 3, 17)):
            a = RNG.integers(0, 99, shape).astype("float32")
            assert np.array_equal(f(a), meant(a)), shape


def test_a_reshape_of_open_sizes_requires_nothing_of_what_is_empty():
    """Its loop has an element only where no size is none."""
    x = te.placeholder((te.dim("n"), te.dim("m"), te.dim("c")), name="x")
    out = ops.relu(ops.flatten(x))
    f = tl.compile([x, out])
    assert "require" not in str(tl.lower(default_schedule(out), [x, out]))
    for shape in ((0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0), (2, 3, 5)):
        a = RNG.integers(-9, 9, shape).astype("float32")
        assert np.array_equal(f(a), np.maximum(a, 0).ravel())
