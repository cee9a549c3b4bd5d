"""Two guards that end the same iterations of a tile are one: nested splits of an open axis have one rest."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

TWO = "llvm -mcpu=skylake-avx512 -num-cores=2"


def line(target=None, stride=1):
    """A convolution along a line of open length, in stretches for two threads, and those in tiles."""
    n = te.var("n")
    x, k = te.placeholder((1, 32, n), name="x"), te.placeholder((32, 32, 3), name="k")
    weight = np.random.default_rng(1).integers(-3, 4, (32, 32, 3)).astype("float32")
    return tl.compile(
        [x, k, ops.conv1d(x, k, padding=1, stride=stride)], target, constants={k: weight}
    ), weight


def test_a_stretch_of_tiles_has_one_rest():
    text = line(TWO, stride=2)[0].get_source("ir")
    assert text.count("for rx") == 4  # whole tiles and those of one to three pixels, not of each pair
    assert "min(" in text


@pytest.mark.parametrize("stride", [1, 2])
def test_all_rests(stride):
    f, weight = line(stride=stride)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 31, 64, 65, 131):
        x = np.random.default_rng(n).integers(-3, 4, (1, 32, n)).astype("float32")
        around = np.pad(x[0], ((0, 0), (1, 1)))
        taps = np.stack([around[:, t : t + n : stride] for t in range(3)], 1)
        assert np.array_equal(f(x)[0], np.einsum("oct,ctx->ox", weight, taps)), n


def staged(read_again=False):
    """Rows of a tile that are read under the end of a stretch, and perhaps without it."""
    n = te.dim("n", 1, 100)
    a = te.placeholder((n, 16), name="a")
    b = te.compute((n, 16), lambda i, j: a[i, j] * 2.0, name="b")
    c = te.compute((n, 16), lambda i, j: b[i, j] + (b[i, 15 - j] if read_again else 1.0), name="c")
    s = te.create_schedule(c.op)
    stretch, i = s[c].split(c.op.axis[0], nparts=3)
    tile, row = s[c].split(i, 4)
    s[c].reorder(stretch, tile, row, c.op.axis[1])
    s[c].unroll(row)
    s[b].compute_at(s[c], tile)
    s[b].unroll(b.op.axis[0])
    s[b].set_scope("local")
    return s, [a, c]


@pytest.mark.parametrize("read_again", [False, True])
def test_rows_are_computed_as_far_as_they_are_read(read_again):
    s, args = staged(read_again)
    f = tl.build(s, args)
    for n in (1, 2, 3, 5, 8, 11, 12, 13, 37, 100):
        x = np.arange(n * 16, dtype="float32").reshape(n, 16)
        assert np.array_equal(f(x), 2 * x + (2 * x[:, ::-1] if read_again else 1))


def test_several_guards_of_which_two_are_one() -> None:
    """Guards are told apart by what they are: whether two expressions are equal is an expression."""
    x, w = te.placeholder((1, 3, 20, 20), name="x"), te.placeholder((3, 4, 3, 3), name="w")
    y = ops.conv_transpose2d(x, w, stride=3)
    a, b = (np.arange(np.prod(s), dtype="float32").reshape(s) % 5 for s in ((1, 3, 20, 20), (3, 4, 3, 3)))
    kernel = tl.compile([x, w, y])
    want = np.einsum("nchw,cors->nohrws", a, b).reshape(1, 4, 60, 60)
    assert np.array_equal(kernel(a, b), want)
