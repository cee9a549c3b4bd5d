"""What versions of a tile share: a function of mathematics for each row stands behind them, once."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

WIDE = "llvm -mcpu=skylake-avx512 -num-cores=1"
WEIGHT = np.random.default_rng(4).integers(-2, 3, (32, 64, 1, 1)).astype("float32") / 8


def pixels(function, target=None):
    """Products of each pixel of an image of any size by a constant weight, and a function of each element."""
    h, w = te.dim("h", 1, 4096), te.dim("w", 1, 4096)
    x, k = te.placeholder((1, 64, h, w), name="x"), te.placeholder((32, 64, 1, 1), name="k")
    return tl.compile([x, function(ops.conv2d(x, k))], target, constants={k: WEIGHT})


def test_all_heights_of_the_last_tile():
    whole, short = pixels(ops.sigmoid), pixels(ops.relu)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 31):
        x = np.random.default_rng(n).integers(-2, 3, (1, 64, 1, n)).astype("float32")
        sums = np.einsum("oc,bchw->bohw", WEIGHT[:, :, 0, 0].astype("float64"), x)
        np.testing.assert_allclose(whole(x), 1 / (1 + np.exp(-sums)), rtol=1e-6)
        assert np.array_equal(short(x), np.maximum(sums, 0))


def test_a_function_stands_once_for_a_row():
    text = pixels(ops.sigmoid, WIDE).get_source("ir")
    heights = text.count("for rc")
    assert heights > 4  # a loop for each number of rows, and for whole tiles
    assert text.count("sigmoid(") <= 6 * heights  # not a triangle of them


@pytest.mark.parametrize("function, there", [(ops.sigmoid, True), (ops.relu, False)])
def test_the_last_tile_is_a_function_of_its_own_where_it_calls_one(function, there):
    assert (".nest(" in pixels(function, WIDE).get_source("ll")) is there


def test_many_sums_stay_in_their_registers():
    """Tiles of 9 rows of three vectors: a function that keeps constants beside them is written in each
    version."""
    m = te.dim("m", 1, 4096)
    a, b = te.placeholder((m, 64), name="a"), te.placeholder((64, 48), name="b")
    f = tl.compile([a, ops.sigmoid(ops.matmul(a, b))], WIDE, constants={b: np.ones((64, 48), "float32")})
    assert ".nest(" not in f.get_source("ll")
