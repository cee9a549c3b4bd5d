"""Recurrences by the default schedule: the product of a turn is vectors of neighbouring rows of the weight,
which are made neighbours once before."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


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


def test_any_batch_and_number_of_times():
    X, W, S = cell(te.dim("t", 1, 9), te.dim("n", 1, 9), 16, True)
    kernel = tl.compile([X, W, S])
    x, w = np.ones((3, 5, 16), "float32"), np.eye(16, dtype="float32")
    assert np.array_equal(kernel(x, w), x * np.array([1, 2, 3], "float32")[:, None, None])
