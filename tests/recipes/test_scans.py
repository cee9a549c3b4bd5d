"""Recurrences by the default schedule: the product of a turn is vectors of neighbouring rows of the weight,
which are made neighbours once before."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te.reference import evaluate
from tests.codegen.test_assembly import AVX512


def cell(times, batch, size, turned):
    X, W = te.placeholder((times, batch, size), name="X"), te.placeholder((size, size), name="W")
    state = te.placeholder((times, batch, size), name="state")
    k = te.reduce_axis((0, size), "k")
    first = te.compute((1, batch, size), lambda t, n, j: X[t, n, j], name="first")
    product = te.compute(
        (times, batch, size),
        lambda t, n, j: te.sum(state[t - 1, n, k] * (W[j, k] if turned else W[k, j]), axis=k),
        name="product",
    )
    new = te.compute((times, batch, size), lambda t, n, j: product[t, n, j] + X[t, n, j], name="new")
    return X, W, te.scan(first, new, state, name="S")


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("batch", [1, 7])
def test_the_product_of_a_turn(batch, turned):
    X, W, S = cell(4, batch, 37, turned)
    kernel = tl.compile([X, W, S])
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (4, batch, 37)).astype("float32")
    w = rng.integers(-1, 2, (37, 37)).astype("float32")
    want = x.copy()
    for t in range(1, 4):
        want[t] += want[t - 1] @ (w.T if turned else w)
    assert np.array_equal(kernel(x, w), want)
    text = kernel.get_source("ir")
    assert ("W.global" in text) is turned  # W as it stands is read in lines
    line = next(l for l in text.splitlines() if "product.local[" in l and "* " in l and "W" in l)
    assert re.search(r"x(16|32|37|64)\(", line), line


@pytest.mark.parametrize("shape", [(5, 4, 6, 3), (3, 700, 5, 3), (4, 7, 1)])
def test_short_rows_of_a_state_are_one(shape):
    """Which lie behind one another in all that a turn reads and writes."""
    X, state = te.placeholder(shape, name="X"), te.placeholder(shape, name="state")
    first = te.compute((1, *shape[1:]), lambda t, *i: X(t, *i), name="first")
    step = te.compute(shape, lambda t, *i: state(t - 1, *i) * 2 + X(t, *i), name="step")
    S = te.scan(first, step, state, name="S")
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, shape).astype("float32")
    want = x.copy()
    for t in range(1, shape[0]):
        want[t] += 2 * want[t - 1]
    made = np.empty_like(x)
    interpret(tl.lower(default_schedule(S), [X, S]), x, made)
    assert np.array_equal(made, want)
    assert np.array_equal(tl.compile([X, S])(x), want)


def test_any_batch_and_number_of_times():
    X, W, S = cell(te.dim("t", 1, 9), te.dim("n", 1, 9), 16, True)
    kernel = tl.compile([X, W, S])
    x, w = np.ones((3, 5, 16), "float32"), np.eye(16, dtype="float32")
    assert np.array_equal(kernel(x, w), x * np.array([1, 2, 3], "float32")[:, None, None])


def of_bytes(times, batch, size):
    """A state rounded to bytes and multiplied by a weight of bytes, step by step."""
    X, W = te.placeholder((times, batch, size), name="X"), te.placeholder((size, size), "int8", name="W")
    state = te.placeholder((times, batch, size), name="state")
    k, c = te.reduce_axis((0, size), "k"), te.reduce_axis((0, size), "c")
    first = te.compute((1, batch, size), lambda t, n, j: X[t, n, j], name="first")
    least = te.compute((times,), lambda t: te.min(state[t - 1, 0, c], axis=c), name="least")
    stored = te.compute(
        (times, batch, size),
        lambda t, n, j: te.cast(
            "uint8", te.nearbyint(te.max(state[t - 1, n, j], 0.0) / te.exp(least[t] * 0.0))
        ),
        name="stored",
    )
    product = te.compute(
        (times, batch, size),
        lambda t, n, j: te.sum(te.cast("int32", stored[t, n, k]) * te.cast("int32", W[k, j]), axis=k),
        name="product",
    )
    new = te.compute(
        (times, batch, size), lambda t, n, j: te.cast("float32", product[t, n, j]) + X[t, n, j], name="new"
    )
    return X, W, te.scan(first, new, state, name="S")


@pytest.mark.parametrize("size", [36, 37, 64])
@pytest.mark.parametrize("batch", [1, 7])
def test_bytes_of_a_turn_are_multiplied_in_fours(batch, size):
    X, W, S = of_bytes(4, batch, size)
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (4, batch, size)).astype("float32")
    w = rng.integers(-1, 2, (size, size)).astype("int8")
    want = x.copy()
    for t in range(1, 4):
        want[t] += want[t - 1].clip(0).astype("uint8").astype("int32") @ w.astype("int32")
    assert np.array_equal(tl.compile([X, W, S])(x, w), want)
    if size == 36:  # the end of a row may be multiplied otherwise
        return
    vnni = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu"
    asm = tl.compile([X, S], constants={W: w}, target=vnni).get_source("asm")
    assert ("vpdpbusd" in asm) is (size == 64)


def test_one_number_of_each_turn_is_reduced_in_vectors():
    """The largest of a state was found element by element."""
    times, size = 5, 64
    X = te.placeholder((times, size), name="X")
    state = te.placeholder((times, size), name="state")
    k = te.reduce_axis((0, size), "k")
    first = te.compute((1, size), lambda t, j: X[t, j], name="first")
    most = te.compute((times,), lambda t: te.max(state[t - 1, k], axis=k), name="most")
    new = te.compute((times, size), lambda t, j: state[t - 1, j] - most[t] + X[t, j], name="new")
    S = te.scan(first, new, state, name="S")
    kernel = tl.compile([X, S], target="llvm -mcpu=haswell -mtriple=x86_64-linux-gnu")
    assert re.search(r"most\.rf\[0 : \d+, 0\] = max\(", kernel.get_source("ir"))
    x = np.random.default_rng(0).integers(-9, 9, (times, size)).astype("float32")
    want = x.copy()
    for t in range(1, times):
        want[t] += want[t - 1] - want[t - 1].max()
    assert np.array_equal(tl.compile([X, S])(x), want)


@pytest.mark.parametrize("batch", [1, 5, 12])
def test_threads_share_the_columns_of_a_long_step(batch):
    """A step stayed in one thread, whatever it took: two threads took twice as long as those of others."""
    X, W, S = cell(3, batch, 1024, True)
    kernel = tl.build(
        default_schedule(S, f"{AVX512} -num-cores=2"), [X, W, S], f"{AVX512} -num-cores=2", load=False
    )
    text = kernel.get_source("ir")
    assert re.search(r"for t in range.*\n(.*\n)*? +for j.outer\S* in parallel\(", text), text
    rng = np.random.default_rng(1)
    x = rng.integers(-2, 3, (3, batch, 1024)).astype("float32")
    w = np.roll(np.eye(1024, dtype="float32"), 3, 0)
    want = x.copy()
    for t in range(1, 3):
        want[t] += want[t - 1] @ w.T
    assert np.array_equal(tl.compile([X, W, S])(x, w), want)


def test_recurrences_side_by_side_have_a_thread_each():
    """They wait for nobody at each time; of more threads each step has several."""
    X, W, S = cell(3, 12, 512, True)
    _, V, R = cell(3, 12, 512, True)

    def inside(cores):
        tree = str(default_schedule([S, R], f"{AVX512} -num-cores={cores}").tree())
        return len(re.findall(r"product\S*j.outer.*parallel", tree))

    assert (inside(2), inside(8)) == (0, 2)


def test_threads_share_the_gates_of_a_large_batch():
    """The products of a step were shared out, what is made of them was not."""
    x, h = te.placeholder((3, 64, 8), name="x"), te.placeholder((1, 64, 256), name="h")
    w, r = te.placeholder((1, 768, 8), name="w"), te.placeholder((1, 768, 256), name="r")
    y, _ = ops.gru(x, w, r, initial_h=h)
    target = f"{AVX512} -num-cores=2"
    text = tl.build(default_schedule(y, target), [x, w, r, h, y], target, load=False).get_source("ir")
    step = text[text.index("for t in range") :]
    assert re.search(r"for n\S* in parallel\(0, 64\):\n +for j.*\n.*sigmoid\(", step), step
    rng = np.random.default_rng(2)
    given = [rng.standard_normal([int(n) for n in t.shape]).astype("float32") * 0.1 for t in (x, w, r, h)]
    (want,) = evaluate(y, dict(zip((x, w, r, h), given, strict=True)))
    assert np.allclose(tl.compile([x, w, r, h, y])(*given), want, atol=1e-6)


def test_weights_of_two_directions_that_are_stacked_are_known():
    """A product with a weight that is stacked of constants packed nothing: each output was summed by itself,
    where that of one direction was computed in tiles."""
    x = te.placeholder((9, 1, 145), name="x")
    parts = [te.placeholder((272, n), name=f"w{d}{n}") for n in (145, 68) for d in range(2)]
    w, r = ops.stack(parts[:2]), ops.stack(parts[2:])
    y = ops.lstm(x, w, r, direction="bidirectional")[0]
    s = default_schedule(y, AVX512, constants=parts)
    text = tl.build(s, [x, *parts, y], AVX512, load=False).get_source("ir")
    assert "input.rf" not in text and "input.local[8, 0" in text, text
    rng = np.random.default_rng(3)
    given = [rng.standard_normal([int(n) for n in t.shape]).astype("float32") * 0.1 for t in (x, *parts)]
    kernel = tl.compile([x, y], constants=dict(zip(parts, given[1:], strict=True)))
    (want,) = evaluate(y, dict(zip((x, *parts), given, strict=True)))
    assert np.allclose(kernel(given[0]), want, atol=1e-6)
