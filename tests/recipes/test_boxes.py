"""The recipe for convolutions in tiles of outputs × rows × vectors of a row: right bit for bit on odd shapes,
chosen where a margin is wide beside the rows, whole vectors in its sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import boxes, default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, IN_VECTORS, NEON, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import both, declared

RNG = np.random.default_rng(17)
# (images, channels, outputs, image, kernel, options): rests of outputs, of rows and of vectors; strides, none
# and uneven margins
CASES = [
    (1, 2, 16, (15, 15), (5, 5), {"padding": 4, "dilation": 2}),
    (2, 3, 7, (11, 35), (3, 3), {"padding": 1}),
    (1, 4, 9, (13, 20), (5, 3), {"padding": ((2, 1), (1, 2))}),
    (3, 2, 5, (9, 66), (3, 3), {}),
    (1, 3, 11, (18, 37), (3, 3), {"padding": 1, "stride": 2}),
    (1, 4, 6, (16, 40), (5, 5), {"stride": (1, 3)}),
    (1, 3, 8, (7, 7), (7, 7), {"padding": 3}),
    (1, 2, 3, (1, 23), (1, 3), {"padding": (0, 1)}),
    (1, 8, 26, (5, 26), (3, 3), {"padding": 1, "groups": 2}),
    (2, 9, 12, (9, 14), (3, 3), {"padding": 2, "dilation": 2, "groups": 3}),
]


def taken(out, constants=(), target=AVX512):
    """Whether the default schedule computes it in such tiles."""
    s = default_schedule(out, target, constants=constants)
    tree = str(s.tree())
    return "conv2d.local.local" not in tree and bool(re.search(r"conv2d(\.local)?\.y +0\.\.", tree))


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX2, AVX512, f"{AVX512} -num-cores=3"])
@pytest.mark.parametrize(("n", "channels", "outputs", "image", "kernel", "options"), CASES, ids=str)
def test_odd_shapes(n, channels, outputs, image, kernel, options, target, monkeypatch):
    """Whether the table of costs chooses them or not."""
    monkeypatch.setattr(boxes, "SURE", 1e9)
    w = small(RNG, (outputs, channels // options.get("groups", 1), *kernel))
    x, b = small(RNG, (n, channels, *image)), small(RNG, (outputs,))
    X, W, B, out = declared(x, w, b, **options)
    s = default_schedule(out, target)
    assert ".local.local" not in str(s.tree())
    func = tl.lower(s, [X, W, B, out])
    want = np.maximum(images.conv(x, w, b, **options), 0)
    got = np.zeros(want.shape, "float32")
    interpret(func, x, w, b, got)
    exact(got, want, "float32")
    exact(both(x, w, b, **options), want, "float32")


@pytest.mark.parametrize(
    ("case", "options", "chosen"),
    [
        ((20, 24, 15, 5), {"padding": 4, "dilation": 2}, True),
        ((32, 70, 16, 3), {"padding": 2, "dilation": 2}, True),
        ((4, 18, 16, 7), {"padding": 3}, True),
        ((26, 36, 32, 5), {"padding": 2, "stride": 2}, True),
        ((16, 24, 15, 7), {"padding": 6, "dilation": 2, "groups": 4}, True),
        ((9, 57, 19, 7), {"padding": 3}, False),
        ((63, 26, 18, 3), {"padding": 2, "dilation": 2}, False),
    ],
    ids=str,
)
def test_a_margin_that_is_wide_beside_full_rows(case, options, chosen, monkeypatch):
    """15 pixels of 23 places were summed for nothing; rows of 18 and 19 would be two vectors each."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    channels, outputs, height, kernel = case
    X = te.placeholder((1, channels, height, height), name="X")
    W = te.placeholder((outputs, channels // options.get("groups", 1), kernel, kernel), name="W")
    zen4 = "llvm -mcpu=znver4 -num-cores=2"
    assert taken(ops.conv2d(X, W, **options), [W], zen4) is chosen


@IN_VECTORS
def test_sums_are_whole_vectors_in_registers(target, register, fma, stack, monkeypatch):
    monkeypatch.setattr(boxes, "SURE", 1e9)
    X, W = te.placeholder((1, 12, 32, 32), name="X"), te.placeholder((24, 12, 5, 5), name="W")
    out = ops.conv2d(X, W, padding=4, dilation=2)
    asm = tl.build(default_schedule(out, target), [X, W, out], target=target).get_source("asm")
    body = inner_loop(asm, fma)
    assert len([x for x in body if fma in x and re.search(rf"\b{register}\d", x)]) >= 8
    assert not [x for x in body if re.search(stack, x) or "div" in x or "gather" in x]
