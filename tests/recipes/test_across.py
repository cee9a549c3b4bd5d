"""Weights that lie across the vectors of an image with its channels last are copied along them: right in
every order, and no gathers in the code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

IMAGE = (2, 6, 7, 5)


def convolved(order: str, groups: int = 1, constant: bool = False) -> None:
    rng = np.random.default_rng(0)
    sizes = {"O": 20, "I": IMAGE[-1] // groups, "H": 3, "W": 2}
    image, weight = (rng.integers(-4, 5, n).astype("float32") for n in (IMAGE, [sizes[c] for c in order]))
    x, w = te.placeholder(IMAGE, name="x"), te.placeholder(weight.shape, name="w")
    y = ops.conv2d(x, w, padding=1, groups=groups, layout="NHWC", weight_layout=order)
    want = te.reference.evaluate([y], {x: image, w: weight})[0]
    f = tl.compile([x, w, y], constants={w: weight} if constant else {})
    assert np.array_equal(f(image) if constant else f(image, weight), want)


@pytest.mark.parametrize("order", ["".join(p) for p in itertools.permutations("OIHW")][::3])
def test_every_order(order):
    convolved(order)
    convolved(order, constant=True)


def test_one_channel_a_group():
    convolved("OIHW", groups=5)


@pytest.mark.parametrize("order", ["OIHW", "OHWI"])
def test_vectors_of_outputs_read_what_lies_together(order):
    x = te.placeholder((1, 28, 28, 64), name="x")
    w = te.placeholder([{"O": 64, "I": 64, "H": 3, "W": 3}[c] for c in order], name="w")
    y = ops.conv2d(x, w, padding=1, layout="NHWC", weight_layout=order)
    asm = tl.compile([x, w, y], target="llvm -mcpu=x86-64-v4").get_source("asm")
    assert "vfmadd" in asm and "zmm" in asm
    assert "gather" not in asm


def test_an_operand_that_few_read_again_stays_where_it_is():
    a, b = te.placeholder((3, 64), name="a"), te.placeholder((50, 64), name="b")
    k = te.reduce_axis((0, 64), name="k")
    d = te.compute((3, 50), lambda i, j: te.sum(te.abs(a[i, k] - b[j, k]), axis=k), name="d")
    x, y = np.arange(192.0, dtype="f").reshape(3, 64), np.ones((50, 64), "f")
    f = tl.compile([a, b, d])
    assert np.array_equal(f(x, y), np.abs(x[:, None] - y[None]).sum(-1))
    assert "b.global" not in f.get_source("ir")


def test_a_vector_stays_in_its_group_of_channels():
    """Two groups of 32 outputs: one element of the image serves a vector; with 24 each, right all the same."""
    x, w = te.placeholder((1, 12, 12, 64), name="x"), te.placeholder((3, 3, 32, 64), name="w")
    y = ops.conv2d(x, w, padding=1, groups=2, layout="NHWC")
    asm = tl.compile([x, w, y], target="llvm -mcpu=x86-64-v4").get_source("asm")
    assert "zmm" in asm and "gather" not in asm and "vinsert" not in asm
    for order, each in (("HWIO", 24), ("OIHW", 32), ("HWIO", 16)):
        image, sizes = (1, 5, 7, 6), {"O": 2 * each, "I": 3, "H": 2, "W": 3}
        x, w = te.placeholder(image, name="x"), te.placeholder([sizes[c] for c in order], name="w")
        y = ops.conv2d(x, w, groups=2, layout="NHWC", weight_layout=order)
        rng = np.random.default_rng(1)
        a, b = (rng.integers(-4, 5, t.shape).astype("float32") for t in (x, w))
        assert np.array_equal(tl.compile([x, w, y])(a, b), te.reference.evaluate([y], {x: a, w: b})[0])


@pytest.mark.each_value
@pytest.mark.parametrize("fused", [False, True], ids=["alone", "fused"])
@pytest.mark.parametrize("sizes", [(26, 85, 68), (17, 31, 7), ("a", 13, 53), ("a", "b", 64)], ids=str)
def test_sums_along_memory_read_every_operand_along_it(sizes, fused):
    """abc,cb->a: the second operand was gathered, for every sum again: 54 µs of 26 × 85 × 68, now 10."""
    a, b, c = (te.dim(n, 1, 4096) if isinstance(n, str) else n for n in sizes)
    x, y = te.placeholder((a, b, c), name="x"), te.placeholder((c, b), name="y")
    z = ops.einsum("abc,cb->a", x, y)
    z = ops.relu(z) if fused else z
    f = tl.compile([x, y, z], target="llvm -mcpu=x86-64-v4")
    assert "y.global" in f.get_source("ir")
    if isinstance(sizes[1], int):  # of an open number of rows the last ones are copied by gathers
        assert "gather" not in f.get_source("asm")
    m, n, k = (19 if isinstance(n, str) else n for n in sizes)
    rng = np.random.default_rng(2)
    u, v = (rng.integers(-4, 5, s).astype("float32") for s in ((m, n, k), (k, n)))
    want = np.einsum("abc,cb->a", u, v)
    assert np.array_equal(tl.compile([x, y, z])(u, v), np.maximum(want, 0) if fused else want)


def test_an_operand_across_a_sum_that_is_read_once_stays_where_it_is():
    x, y = te.placeholder((3, 40, 50), name="x"), te.placeholder((50, 40), name="y")
    assert "y.global" not in tl.compile([x, y, ops.einsum("abc,cb->a", x, y)]).get_source("ir")


def far_apart(rows: int, centres: int, deep: int) -> list[te.Tensor]:
    """Squares of distances from centres, each dimension with a weight of its own."""
    x, mean = te.placeholder((rows, deep), name="x"), te.placeholder((centres, deep), name="mean")
    weight, k = te.placeholder((centres, deep), name="weight"), te.reduce_axis((0, deep), name="k")
    square = lambda i, j: (x[i, k] - mean[j, k]) * (x[i, k] - mean[j, k]) * weight[j, k]
    return [x, mean, weight, te.compute((rows, centres), lambda i, j: te.sum(square(i, j), axis=k), name="d")]


@pytest.mark.parametrize(
    ("rows", "centres", "deep", "copied"),
    [(40, 20, 8, True), (33, 64, 64, True), (50, 12, 400, True), (40, 5, 48, False), (30, 2, 200, False)],
)
def test_several_operands_that_lie_across(rows, centres, deep, copied):
    """Each distance was a sum along memory, 1.5 to 4 times as slow; of few deep ones it still is."""
    tensors = far_apart(rows, centres, deep)
    rng = np.random.default_rng(2)
    x, mean, weight = (rng.integers(-3, 4, [int(n) for n in t.shape]).astype("float32") for t in tensors[:3])
    want = ((x[:, None] - mean[None]) ** 2 * weight[None]).sum(-1)
    assert np.array_equal(tl.compile(tensors)(x, mean, weight), want)
    for target in ("llvm -mcpu=znver4", "llvm -mcpu=znver3"):
        tree = str(default_schedule(tensors[-1], target).tree())
        assert (tree.count("storage mean.global"), tree.count("storage weight.global")) == (copied, copied)


def test_one_number_beside_rows_moves_with_no_axis():
    """A tensor without dimensions, whose last index was asked for."""
    x, a, k = (
        te.placeholder((5, 33), name="x"),
        te.placeholder((), name="a"),
        te.reduce_axis((0, 33), name="k"),
    )
    out = te.compute((5,), lambda i: te.max(te.abs(x[i, k] - a()), axis=k), name="out")
    v = np.random.default_rng(2).integers(-4, 5, (5, 33)).astype("float32")
    assert np.array_equal(tl.compile([x, a, out])(v, np.array(2, "float32")), np.abs(v - 2).max(1))
