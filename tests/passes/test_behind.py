"""What versions of a tile share: a function of mathematics for each row stands behind them, once."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

WIDE = "llvm -mcpu=skylake-avx512 -num-cores=1"
WEIGHT = np.random.default_rng(4).integers(-2, 3, (64, 48)).astype("float32") / 8


def product(function, target=None):
    """Rows of any number by a constant weight, and a function of each element."""
    m = te.dim("m", 1, 4096)
    a, b = te.placeholder((m, 64), name="a"), te.placeholder((64, 48), name="b")
    return tl.compile([a, function(ops.matmul(a, b))], target, constants={b: WEIGHT})


@pytest.mark.parametrize("rows", (1, 2, 5, 6, 7, 11, 12, 13, 40))
def test_all_heights_of_the_last_tile(rows):
    x = np.random.default_rng(rows).integers(-2, 3, (rows, 64)).astype("float32")
    want = 1 / (1 + np.exp(-(x.astype("float64") @ WEIGHT)))
    np.testing.assert_allclose(product(ops.sigmoid)(x), want, rtol=1e-6)
    assert np.array_equal(product(ops.relu)(x), np.maximum(x @ WEIGHT, 0))


def test_a_function_stands_once_for_a_row():
    text = product(ops.sigmoid, WIDE).get_source("ir")
    heights = text.count("for k")
    assert heights > 4  # a loop for each number of rows, and for whole tiles
    assert text.count("sigmoid(") <= 6 * heights  # not a triangle of them


def test_the_last_tile_is_a_function_of_its_own():
    assert product(ops.sigmoid, WIDE).get_source("ll").count(".nest(") == 2  # its definition and the call
    assert ".nest(" not in product(ops.relu, WIDE).get_source("ll")


def test_what_is_short_stays_in_each_version():
    text = product(ops.relu, WIDE).get_source("ir")
    assert text.count("max(") > 6 * text.count("for k")
