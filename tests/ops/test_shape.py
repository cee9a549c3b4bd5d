"""Transpose, reshape and their kin against numpy, bit by bit, of constant and symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.te import whole
from tests.ops.arrays import compiled, exact, sample

ops = tl.ops


def check(declare, numpys, shape, t="float32", **dims):
    """The operator on a tensor of that shape is numpy's function on the array."""
    a = sample(shape, t, 1)
    x = te.placeholder(shape, t, name="x")
    exact(compiled(declare(x), {x: a}), numpys(a), t)


@pytest.mark.parametrize("t", ["float32", "float64", "int8", "bool", "float16", "uint32"])
@pytest.mark.parametrize("axes", [None, (0, 1, 2), (0, 2, 1), (2, 0, 1), (-1, 1, 0)])
def test_transpose(axes, t):
    check(lambda x: ops.transpose(x, axes), lambda a: a.transpose(axes), (3, 17, 5), t)


def test_transpose_of_bfloat16_moves_bits():
    a = sample((3, 17), "bfloat16")
    x = te.placeholder(a.shape, "bfloat16", name="x")
    np.testing.assert_array_equal(compiled(ops.transpose(x), {x: a}), a.T)


def test_swapaxes():
    check(lambda x: ops.swapaxes(x, 0, -1), lambda a: a.swapaxes(0, -1), (3, 17, 5))


@pytest.mark.parametrize(
    ("shape", "new"),
    [
        ((3, 17), (17, 3)),
        ((3, 17), (51,)),
        ((51,), (3, 1, 17)),
        ((2, 3, 5, 7), (6, 35)),
        ((6, 35), (2, 3, 5, 7)),
        ((4, 9), (6, 6)),
        ((3, 4, 5), (3, -1)),
        ((3, 4, 5), (2, 6, 5)),
        ((1, 3, 1), (3,)),
        ((3,), (1, 3, 1)),
        ((1,), ()),
        ((), (1, 1)),
        ((0, 3), (3, 0)),
        ((2, 0), (0, 5)),
        ((8, 3), (2, 2, 2, 3)),
        ((5, 1, 3), (5, 3, 1)),
        ((33,), -1),
    ],
    ids=str,
)
def test_reshape(shape, new):
    check(lambda x: ops.reshape(x, new), lambda a: a.reshape(new), shape)


def test_reshape_reads_the_dimensions_it_leaves_alone_straight():
    n = te.var("n")
    x = te.placeholder((n, 4, 5, 6), name="x")
    out = ops.reshape(x, (n, 20, 2, 3))
    i = [a.var for a in out.op.axis]
    assert str(out.op.body[0]) == str(x[i[0], i[1] // 5, i[1] % 5, i[2] * 3 + i[3]])


@pytest.mark.parametrize(("start", "end"), [(0, -1), (1, -1), (0, 1), (1, 2), (2, 2)])
def test_flatten(start, end):
    shape = (3, 5, 7, 2)
    last = end % 4
    check(
        lambda x: ops.flatten(x, start, end),
        lambda a: a.reshape(*shape[:start], -1, *shape[last + 1 :]),
        shape,
    )


def test_squeeze_and_expand_dims():
    check(ops.squeeze, np.squeeze, (1, 3, 1, 17))
    check(lambda x: ops.squeeze(x, 0), lambda a: np.squeeze(a, 0), (1, 3, 1))
    check(lambda x: ops.squeeze(x, (0, -1)), lambda a: np.squeeze(a, (0, -1)), (1, 3, 1))
    check(lambda x: ops.expand_dims(x, (0, -1)), lambda a: np.expand_dims(a, (0, -1)), (3, 17))
    check(lambda x: ops.expand_dims(x, 1), lambda a: np.expand_dims(a, 1), (3,))


def test_broadcast_to():
    check(lambda x: ops.broadcast_to(x, (5, 3, 17)), lambda a: np.broadcast_to(a, (5, 3, 17)), (3, 1))
    check(lambda x: ops.broadcast_to(x, (3, 17)), lambda a: np.broadcast_to(a, (3, 17)), ())


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_flip(axis):
    check(lambda x: ops.flip(x, axis), lambda a: np.flip(a, axis), (3, 17, 5))


@pytest.mark.parametrize("reps", [2, (2, 3), (1, 3), (2, 1, 1), (3, 1, 2), 0])
def test_tile(reps):
    check(lambda x: ops.tile(x, reps), lambda a: np.tile(a, reps), (3, 5))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_repeat(axis):
    check(lambda x: ops.repeat(x, 3, axis), lambda a: np.repeat(a, 3, axis), (3, 5))
    check(lambda x: ops.repeat(x, 1, axis), lambda a: np.repeat(a, 1, axis), (3, 5))
    check(lambda x: ops.repeat(x, 0, axis), lambda a: np.repeat(a, 0, axis), (3, 5))


def test_one_kernel_for_all_sizes():
    n, m = te.var("n"), te.dim("m", 4, 64, multiple_of=4)
    x = te.placeholder((n, 3, m), name="x")
    table = [
        (ops.transpose(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
        (ops.reshape(x, (n * 3, m)), lambda a: a.reshape(-1, a.shape[2])),
        (ops.reshape(x, (n, -1)), lambda a: a.reshape(len(a), -1)),
        (ops.reshape(x, (-1, 3)), lambda a: a.reshape(-1, 3)),
        (ops.reshape(x, (n, 3, -1, 4)), lambda a: a.reshape(len(a), 3, -1, 4)),
        (ops.flatten(x), lambda a: a.reshape(-1)),
        (ops.flip(x, (0, 2)), lambda a: np.flip(a, (0, 2))),
        (ops.tile(x, (2, 1, 1)), lambda a: np.tile(a, (2, 1, 1))),
        (ops.repeat(x, 2, 2), lambda a: a.repeat(2, 2)),
        (ops.broadcast_to(x, (5, n, 3, m)), lambda a: np.broadcast_to(a, (5, *a.shape))),
        (ops.expand_dims(x, 1), lambda a: a[:, None]),
    ]
    kernels = [tl.compile([x, out]) for out, _ in table]
    for rows, columns in ((1, 4), (3, 16), (17, 4), (5, 36)):
        a = sample((rows, 3, columns), "float32", rows)
        for kernel, (_, numpys) in zip(kernels, table, strict=True):
            exact(kernel(a), numpys(a), "float32")


def test_a_size_that_is_left_open_follows_from_factors_of_others():
    n = te.var("n")
    side = (n + 3) // 4
    x = te.placeholder((side * side, 8), name="x")
    assert [str(m) for m in ops.reshape(x, (side, side, -1)).shape] == [str(side), str(side), "8"]
    assert str(ops.reshape(x, (side, -1, 4)).shape[1]) == str(side * 2)
    with pytest.raises(tl.TensorLangError, match="not sure to be a multiple"):
        ops.reshape(x, (n, -1))


def test_a_chain_of_views_is_one_pass():
    a = sample((6, 35), "float32")
    x = te.placeholder(a.shape, name="x")
    out = ops.transpose(ops.reshape(ops.relu(x), (2, 3, 5, 7)), (0, 2, 1, 3))
    exact(compiled(out, {x: a}), np.maximum(a, 0).reshape(2, 3, 5, 7).transpose(0, 2, 1, 3), "float32")


@pytest.mark.parametrize("pad", [lambda n: -n % 32, lambda n: (32 - n % 32) % 32], ids=["less", "rest"])
def test_a_length_that_is_padded_to_whole_blocks_is_so_many_blocks(pad):
    n = te.dim("n")
    padded = n + pad(n)
    x = te.placeholder((3, n), name="x")
    wide = te.compute((3, padded), lambda i, j: te.if_then_else(j < n, x(i, te.min(j, n - 1)), te.const(0.0)))
    kernel = tl.compile([x, ops.reshape(wide, (3, padded // 32, 32))])
    for length in (1, 31, 32, 33, 64):
        a = sample((3, length), "float32", 1)
        expected = np.pad(a, ((0, 0), (0, -length % 32))).reshape(3, -1, 32)
        assert np.array_equal(kernel(a), expected)
    assert whole.equal(padded // (padded // 32), 32)
    with pytest.raises(tl.DeclareError, match="which may differ"):
        ops.reshape(te.placeholder((3, n + -n % 16), name="x"), (3, padded // 32, 32))
