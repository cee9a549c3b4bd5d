"""Convolutions of single pixels of an image whose height and width are one open axis."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.recipes.planes import FEW
from tests.codegen.test_assembly import AVX2, AVX512, NEON, inner_loop

RNG = np.random.default_rng(31)
PIXELS = [0, 1, 7, 8, 15, 17, FEW, FEW + 1, 241, 960]


def tensors(outputs, channels, kind="float32", batch="n"):
    """relu(conv2d(x, w) + r) of [n, channels, 1, p], and its placeholders."""
    n = te.var("n") if batch == "n" else batch
    x = te.placeholder((n, channels, 1, te.var("p")), kind, name="x")
    w = te.placeholder((outputs, channels, 1, 1), kind, name="w")
    y = ops.conv2d(x, w)
    r = te.placeholder(y.shape, kind, name="r")
    return x, w, r, ops.relu(ops.add(y, r))


@pytest.mark.each_value
@pytest.mark.parametrize("target", [None, "llvm -mcpu=haswell", "llvm -mcpu=haswell -num-cores=2"])
@pytest.mark.parametrize(
    ("outputs", "channels", "kind"),
    [
        (24, 64, "float32"),
        (60, 72, "float32"),
        (96, 65, "float32"),
        (176, 64, "float32"),
        (24, 64, "float64"),
    ],
)
def test_every_number_of_pixels_is_right(outputs, channels, kind, target):
    x, w, r, y = tensors(outputs, channels, kind)
    weight = RNG.integers(-3, 4, (outputs, channels, 1, 1)).astype(kind)
    f = tl.compile([x, r, y], target, constants={w: weight})
    for n in (1, 3):
        for p in PIXELS:
            a = RNG.integers(-3, 4, (n, channels, 1, p)).astype(kind)
            b = RNG.integers(-3, 4, (n, outputs, 1, p)).astype(kind)
            out = np.full(b.shape, np.nan, kind)
            f(a, b, out)
            want = np.einsum("oc,ncyp->noyp", weight[:, :, 0, 0], a) + b
            assert np.array_equal(out, np.maximum(want, 0)), (n, p)


def test_few_pixels_have_loops_of_their_own_that_read_the_same_weight():
    """Loops for few pixels were once left out of every kernel with packed weights."""
    x, w, r, y = tensors(96, 64)
    f = tl.compile([x, r, y], "llvm -mcpu=haswell", constants={w: np.zeros((96, 64, 1, 1), "float32")})
    text = f.get_source("ir")
    assert f"if p <= {FEW}:" in text
    assert text.count("constant") == 1  # one packed weight, which both read


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm"), (NEON, "v")])
def test_sums_stay_in_registers(target, register):
    x, w, r, y = tensors(96, 96, batch=1)
    s = default_schedule(y, target, [w])
    f = tl.build(s, [x, w, r, y], target, constants={w: np.zeros((96, 96, 1, 1), "float32")}, load=False)
    body = inner_loop(f.get_source("asm"), "fmla" if target is NEON else "vfmadd")
    assert any(register in line for line in body)
    assert not [line for line in body if "rsp" in line or "[sp" in line]


def test_strides_taps_and_few_outputs_are_left_to_others():
    for shape, stride in [((96, 64, 1, 1), 2), ((96, 64, 1, 3), 1), ((16, 64, 1, 1), 1)]:
        x = te.placeholder((1, 64, 1, te.var("p")), name="x")
        w = te.placeholder(shape, name="w")
        y = ops.conv2d(x, w, stride=stride)
        s = default_schedule(y, "llvm -mcpu=haswell", [w])
        assert "x.global" not in {st.name for st in s.stages}
