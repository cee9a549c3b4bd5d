"""matmul, batch_matmul and dense against numpy: bit for bit on small integers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops.arrays import exact, near, real, sample, stored
from tests.ops.images import run, small, symbolic

RNG = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 7), (7, 9)),
        ((3, 1, 5, 7), (4, 7, 9)),
        ((2, 5, 7), (7, 33)),
        ((7,), (4, 7, 9)),
        ((4, 7, 9), (9,)),
        ((9,), (9,)),
        ((1, 1), (1, 1)),
        ((2, 3, 1, 64), (1, 3, 64, 17)),
        ((0, 4), (4, 3)),
        ((3, 0), (0, 4)),
    ],
)
def test_shapes_are_numpys(a, b):
    x, y = small(RNG, a), small(RNG, b)
    exact(run(ops.matmul, x, y), x @ y, "float32")


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transposed(transpose_a, transpose_b):
    x, y = small(RNG, (2, 6, 20)), small(RNG, (20, 35))
    given = [
        np.ascontiguousarray(m.swapaxes(-1, -2)) if t else m for m, t in ((x, transpose_a), (y, transpose_b))
    ]
    exact(run(ops.matmul, *given, transpose_a=transpose_a, transpose_b=transpose_b), x @ y, "float32")


@pytest.mark.parametrize(
    ("types", "out", "result"),
    [
        (("float64", "float64"), None, "float64"),
        (("float32", "float64"), None, "float64"),
        (("int8", "int8"), None, "int32"),
        (("int8", "int8"), "int8", "int8"),
        (("uint8", "int8"), "int32", "int32"),
        (("int8", "float32"), None, "float32"),
    ],
)
def test_dtypes(types, out, result):
    lo = [0 if t == "uint8" else -100 if out else -3 for t in types]
    x, y = (
        small(RNG, (13, 40), types[0], lo[0], 100 if out else 4),
        small(RNG, (40, 21), types[1], lo[1], 100 if out else 4),
    )
    want = x.astype(out or result) @ y.astype(out or result)
    exact(run(ops.matmul, x, y, out_dtype=out), want, result)


@pytest.mark.parametrize("t", ["float16", "bfloat16"])
def test_half_floats_are_summed_in_single_and_rounded_once(t):
    x, y = sample((9, 300), t, 1), sample((300, 5), t, 2)
    a, b = te.placeholder((9, 300), t), te.placeholder((300, 5), t)
    want = real(x, t) @ real(y, t)
    near(tl.compile([a, b, ops.matmul(a, b)])(x, y), real(stored(want, t), t), t, 1, floor=1e-3)
    wide = ops.matmul(a, b, out_dtype="float32")
    assert wide.dtype.name == "float32"
    near(
        tl.compile([a, b, wide])(x, y),
        want,
        "float32",
        0,
        floor=300 * 2.0**-24 * float((np.abs(real(x, t)) @ np.abs(real(y, t))).max()),
    )


def test_batch_matmul():
    x, y = small(RNG, (3, 5, 7)), small(RNG, (1, 6, 7))
    exact(run(ops.batch_matmul, x, y, transpose_b=True), x @ y.swapaxes(1, 2), "float32")


@pytest.mark.parametrize("layout", ["OI", "IO"])
@pytest.mark.parametrize("shape", [(16,), (4, 16), (2, 3, 16)])
def test_dense(shape, layout):
    x, w, b = small(RNG, shape), small(RNG, (11, 16)), small(RNG, (11,))
    weight = w if layout == "OI" else np.ascontiguousarray(w.T)
    got = run(lambda x, w, b: ops.dense(x, w, b, ops.relu, weight_layout=layout), x, weight, b)
    exact(got, np.maximum(x @ w.T + b, 0), "float32")


def test_dense_of_small_integers_with_a_wide_bias():
    x, w, b = (
        small(RNG, (5, 70), "int8", -128, 128),
        small(RNG, (9, 70), "int8", -128, 128),
        small(RNG, (9,), "int32", -9999, 9999),
    )
    exact(run(ops.dense, x, w, b, out_dtype="int32"), x.astype("int32") @ w.T.astype("int32") + b, "int32")


def test_one_kernel_for_any_sizes():
    m, n, k, batch = te.var("m"), te.var("n"), te.var("k"), te.var("batch")
    f = symbolic(ops.matmul, [(batch, m, k), (k, n)])
    for b, i, j, kk in ((1, 5, 7, 9), (3, 33, 1, 2), (2, 8, 48, 64)):
        x, y = small(RNG, (b, i, kk)), small(RNG, (kk, j))
        exact(f(x, y), x @ y, "float32")


def test_one_dense_kernel_for_any_number_of_rows():
    m = te.var("m")
    f = symbolic(ops.dense, [(m, 24), (10, 24), (10,)])
    w, b = small(RNG, (10, 24)), small(RNG, (10,))
    for rows in (1, 7, 50):
        x = small(RNG, (rows, 24))
        exact(f(x, w, b), x @ w.T + b, "float32")


def test_stages_and_tags():
    x, w, b = (
        te.placeholder((4, 8), "float16"),
        te.placeholder((5, 8), "float16"),
        te.placeholder((5,), "float16"),
    )
    rounded = ops.dense(x, w, b)
    biased = rounded.op.input_tensors[0]
    total = biased.op.input_tensors[0]
    assert [(t.op.name, t.op.tag) for t in (rounded, biased, total)] == [
        ("dense.cast", "elementwise"),
        ("dense.bias", "broadcast"),
        ("dense", "dense"),
    ]
    assert (rounded.dtype.name, total.dtype.name) == ("float16", "float32")
    assert ops.matmul(x, w, transpose_b=True).op.input_tensors[0].op.tag == "matmul"
    y = te.placeholder((3, 8, 2))
    assert ops.matmul(te.placeholder((4, 8)), y).op.tag == "batch_matmul"
