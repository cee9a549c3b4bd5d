"""Rows of an open length that a vector holds, or a few: masked vectors, whose masks are made once for all of
them; right for sizes of none, one, primes, a whole vector and more."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import Asking, asking
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
    for given in ({}, {c: 16}, {c: 64}):
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
                for text in texts:
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


OF_ROWS = {
    "softmax": (
        ops.softmax,
        lambda a: (e := np.exp(a - a.max(-1, keepdims=True))) / e.sum(-1, keepdims=True),
    ),
    "layer norm": (
        ops.layer_norm,
        lambda a: (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5),
    ),
    "sum": (lambda x: ops.sum(x, -1), lambda a: a.sum(-1)),
    "max": (lambda x: ops.max(x, -1), lambda a: a.max(-1)),
    "argmax": (lambda x: ops.argmax(x, -1), lambda a: a.argmax(-1)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("kind", list(OF_ROWS))
def test_operators_of_rows_that_a_few_vectors_hold(kind, dtype):
    made, meant = OF_ROWS[kind]
    n, c = te.dim("n"), te.dim("c")
    x = te.placeholder((n, c), dtype, name="x")
    out = made(x)
    f = tl.compile([x, out])
    texts = {}
    for most in (16, 32, 64, 128):
        with asking({c: most}):
            texts[most] = tl.lower(default_schedule(out, AVX512), [x, out])
    for rows in (0, 1, 5, 37):
        for length in (1, 2, 5, 6, 7, 16, 17, 31, 32, 33, 48, 64, 65, 67, 127, 128, 129, 131):
            a = RNG.integers(-9, 9, (rows, length)).astype(dtype)
            want = meant(a)
            assert np.allclose(f(a), want, rtol=1e-4, atol=1e-5), (rows, length)
            if rows == 5 and length in (1, 17, 33, 67):
                for most, text in texts.items():
                    got = np.zeros_like(want)
                    interpret(
                        text, a, got
                    )  # right also where there are more elements than were taken for granted
                    assert np.allclose(got, want, rtol=1e-4, atol=1e-5), (most, length)
    a = RNG.standard_normal((9, 40)).astype(dtype)
    a[[2, 5], [39, 0]] = np.nan
    assert np.array_equal(np.isnan(f(a)), np.isnan(meant(a)))
    if kind == "sum":
        assert not f(np.zeros((3, 0), dtype)).any()


@pytest.mark.parametrize("kind", ["softmax", "layer norm"])
def test_no_loop_runs_over_the_vectors_of_a_short_row(kind):
    """Of rows of up to eight vectors each was a loop of some whole ones and one with a mask that was made
    again: rows of 17 took three times as long as where the length is known."""
    x = te.placeholder((te.dim("n"), te.dim("c")), name="x")
    text = tl.compile([x, OF_ROWS[kind][0](x)], target=AVX512).get_source("ir")
    branches = re.split(r"\n    el(?:if|se)\b", text[text.index("if c <= ") :])
    assert [b.split(":")[0].split("<= ")[1] for b in branches[:-1]] == ["6", "16", "32", "64", "128"]
    for part in branches[1:-1]:
        loops = re.findall(r"for (\w+)", part)
        assert loops and all(name.startswith("i0") for name in loops), part
        assert "mask" in part and "x32(" not in part and "x64(" not in part, part  # each vector its own
        # whose rows are registers, without masks
        for buffer in re.findall(r"([\w.]+): float32\[8, \w+\] local", part):
            assert re.search(rf"{buffer}: float32\[8, (16|32|64|128)\]", part)
            assert not re.search(rf"\({buffer}\[\w+, \d+ : \d+\] if", part), part


def test_few_choices_of_several_sizes():
    """More are worth their code where one size alone is asked about."""
    found = Asking(asked={te.dim("a") + 0: {1, 2, 3, 4, 5, 6}})
    assert len(found.choices()) == 5
    found.asked[te.dim("b") + 0] = {1}
    assert len(found.choices()) == 3
