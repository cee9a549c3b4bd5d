"""Rows of an open length that a vector holds: one masked vector each, whose mask is made once for all of them;
right for sizes of none, one, primes, a whole vector and more."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(7)
LENGTHS = (0, 1, 2, 3, 7, 13, 16, 17, 33, 64, 67)


def bias(n, m, c, kind):
    x, b = te.placeholder((n, c), kind, "x"), te.placeholder((c,), kind, "b")
    return [x, b], x + b


def flipped(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    return [x], ops.flip(x, 1)


def triangle(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    return [x], ops.tril(x)


def between(n, m, c, kind):
    x, b = te.placeholder((n, m, c), kind, "x"), te.placeholder((m,), kind, "b")
    return [x, b], te.compute((n, m, c), lambda i, j, k: x[i, j, k] + b[j], name="o")


def compared(n, m, c, kind):
    x, b = te.placeholder((n, c), kind, "x"), te.placeholder((c,), kind, "b")
    return [x, b], te.compute((n, c), lambda i, j: x[i, j] > b[j], name="o")


MADE = {
    "bias": (bias, lambda x, b: x + b),
    "flipped": (flipped, lambda x: x[:, ::-1]),
    "triangle": (triangle, np.tril),
    "between": (between, lambda x, b: x + b[:, None]),
    "compared": (compared, lambda x, b: x > b),
}


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("kind", list(MADE))
def test_rows_of_an_open_length(kind, dtype, target):
    made, meant = MADE[kind]
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    xs, out = made(n, m, c, dtype)
    f = tl.compile([*xs, out])
    texts = []
    for given in ({}, {c: 16}):
        with asking(given):
            texts.append(tl.lower(default_schedule(out, target), [*xs, out]))
    for rows in (0, 1, 5, 37):
        for length in LENGTHS:
            sizes = {"n": rows, "m": 3, "c": length}
            arrays = [
                RNG.integers(0, 99, [sizes[e.name] for e in x.shape]).astype(dtype)  # of variables alone
                for x in xs
            ]
            want = np.ascontiguousarray(meant(*arrays))
            assert np.array_equal(f(*arrays), want), (rows, length)
            if rows * length < 200:
                for text in texts[: 2 if length <= 16 else 1]:
                    got = np.zeros_like(want)
                    interpret(text, *arrays, got)
                    assert np.array_equal(got, want), (rows, length)


@pytest.mark.parametrize("kind", list(MADE))
def test_a_mask_is_made_once_for_all_rows(kind):
    """The loop over the vectors of a row stood within that over rows: 1000 rows of 3 took three times as
    long."""
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    xs, out = MADE[kind][0](n, m, c, "float32")
    with asking() as asked:
        default_schedule(out, AVX512)
    assert (c, 16) in [(e, most) for e, most in asked.choices() if e is c]
    with asking({c: 16}):
        loops = [line for line in default_schedule(out, AVX512).tree().splitlines() if "loop" in line]
    assert f"{out.op.axis[-1].name}.outer" in loops[0], loops
    assert "vectorized" in loops[-1] and len(loops) == 3, loops
    with asking({c: 16}):  # without masks a row is taken apart by tests
        loops = [line for line in default_schedule(out, AVX2).tree().splitlines() if "loop" in line]
    assert f"{out.op.axis[-1].name}.outer" not in loops[0], loops


def by_vectors(n, m, p, kind):
    x, y = te.placeholder((n, m, p), kind, "x"), te.placeholder((n, p), kind, "y")
    r = te.reduce_axis((0, p), name="r")
    return [x, y], te.compute((n, m), lambda i, j: te.sum(x[i, j, r] * y[i, r], axis=r), name="o")


def largest(n, m, p, kind):
    x, y = te.placeholder((n, m, p), kind, "x"), te.placeholder((n, p), kind, "y")
    r = te.reduce_axis((0, p), name="r")
    return [x, y], te.compute((n, m), lambda i, j: te.max(x[i, j, r] + y[i, r], axis=r), name="o")


ALONG = {
    "sums": (by_vectors, lambda x, y: (x @ y[..., None])[..., 0]),
    "largest": (largest, lambda x, y: (x + y[:, None]).max(-1)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "int32", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("known", [False, True], ids=["open", "known"])
@pytest.mark.parametrize("kind", list(ALONG))
def test_reductions_of_rows_of_an_open_length(kind, known, dtype):
    """A loop over vectors, of which the only one is masked, took three times as long."""
    made, meant = ALONG[kind]
    n, m, p = te.dim("n"), te.dim("m"), te.dim("p")
    n, m = (n, 3) if known else (n, m)
    xs, out = made(n, m, p, dtype)
    f = tl.compile([*xs, out])
    with asking({p: 8 if dtype == "float64" else 16}):
        short = tl.lower(default_schedule(out, AVX512), [*xs, out])
    assert ".rf" not in str(short)  # no partial results
    for rows in (0, 1, 5, 37):
        for length in LENGTHS if kind == "sums" else LENGTHS[1:]:
            a = RNG.integers(-9, 9, (rows, 3, length)).astype(dtype)
            b = RNG.integers(-9, 9, (rows, length)).astype(dtype)
            want = meant(a, b)
            assert np.array_equal(f(a, b), want), (rows, length)
            if length <= 8 and rows < 9:
                got = np.zeros_like(want)
                interpret(short, a, b, got)
                assert np.array_equal(got, want), (rows, length)
