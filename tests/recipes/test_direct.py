"""The recipe for convolutions of open sizes: right bit for bit on odd shapes, whole vectors in its sums."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small

RNG = np.random.default_rng(11)
# batch, height and width: empty, of one pixel, vectors with every kind of rest
SHAPES = [(1, 1, 1), (2, 3, 5), (1, 6, 16), (1, 2, 33), (2, 5, 47), (1, 9, 49), (0, 4, 4)]
# (channels, outputs, kernel, options): one output, a rest of outputs, taps that are written out and not
CASES = [
    (3, 24, (3, 3), {"padding": 1}),
    (5, 13, (3, 3), {"padding": 1, "stride": 2}),
    (4, 1, (3, 3), {"padding": 1}),
    (7, 17, (1, 1), {"stride": (2, 1)}),
    (2, 9, (5, 5), {"padding": 2, "stride": 3}),
    (3, 6, (3, 2), {"padding": ((2, 1), (1, 0)), "dilation": (1, 2)}),
    (8, 24, (3, 3), {"padding": 1, "groups": 2}),
    (10, 15, (4, 4), {"padding": 1, "groups": 5, "stride": (3, 1)}),
    (6, 26, (3, 3), {"padding": 1, "groups": 2, "stride": 2}),
    (6, 3, (1, 1), {"groups": 3}),
    (3, 49, (3, 3), {"padding": 1, "stride": 2}),
    (2, 48, (4, 3), {"padding": ((2, 1), (1, 3)), "stride": (1, 3), "dilation": (1, 2)}),
]


def declared(channels, outputs, kernel, types="float32", op=ops.conv2d, **options):
    n, sizes = te.var("n"), [te.var(f"s{i}") for i in range(len(kernel))]
    X = te.placeholder((n, channels, *sizes), types, name="X")
    W = te.placeholder((outputs, channels // options.get("groups", 1), *kernel), types, name="W")
    B = te.placeholder((outputs,), types if types != "int8" else "int32", name="B")
    return X, W, B, ops.relu(op(X, W, B, **options))


@pytest.mark.parametrize(("channels", "outputs", "kernel", "options"), CASES, ids=str)
def test_odd_shapes(channels, outputs, kernel, options):
    X, W, B, out = declared(channels, outputs, kernel, **options)
    w, b = small(RNG, tuple(map(int, W.shape))), small(RNG, (outputs,))
    f = tl.compile([X, B, out], constants={W: w})
    for n, height, width in SHAPES:
        x = small(RNG, (n, channels, height, width))
        exact(f(x, b), np.maximum(images.conv(x, w, b, **options), 0), "float32")


@pytest.mark.parametrize("types", ["float64", "int8"])
def test_dtypes(types):
    X, W, B, out = declared(4, 7, (3, 3), types, padding=1)
    x, w = small(RNG, (2, 4, 6, 21), types, -2, 3), small(RNG, (7, 4, 3, 3), types, -2, 3)
    b = small(RNG, (7,), str(B.dtype))
    want = np.maximum(images.conv(x, w, b, padding=1), 0)
    exact(tl.compile([X, W, B, out])(x, w, b), want, "int32" if types == "int8" else types)


@pytest.mark.parametrize(("op", "kernel"), [(ops.conv1d, (3,)), (ops.conv3d, (3, 3, 3))], ids=["1d", "3d"])
def test_one_and_three_dimensions(op, kernel):
    X, W, B, out = declared(3, 10, kernel, op=op, padding=1)
    w, b = small(RNG, (10, 3, *kernel)), small(RNG, (10,))
    f = tl.compile([X, B, out], constants={W: w})
    for shape in [(1, 3, *(2, 5)[: len(kernel) - 1], 37), (2, 3, *(1, 1)[: len(kernel) - 1], 4)]:
        x = small(RNG, shape)
        exact(f(x, b), np.maximum(images.conv(x, w, b, padding=1), 0), "float32")


def assembly(target, register, *case, **options):
    X, W, B, out = declared(*case, **options)
    s = default_schedule(out, target, constants=[W])
    asm = tl.build(s, [X, W, B, out], target=target).get_source("asm")
    return asm, inner_loop(asm, "vfmadd"), rf"vmov\w+\s+%{register}\d+, .*\(%rsp\)"


@pytest.mark.each_value
@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 1), (3, 2)])
def test_sums_are_whole_vectors_in_registers(target, register, kernel, groups):
    asm, body, spill = assembly(
        target, register, 32, 24, (kernel, kernel), padding=kernel // 2, groups=groups
    )
    sums = [x for x in body if re.search(rf"vfmadd\w+ps\s.*%{register}", x)]
    assert len(sums) >= 12
    assert not [x for x in body if re.search(spill, x) or "div" in x or "gather" in x]
    assert not re.search(r"vfmadd\w+ss", asm)


def test_phases_of_a_stride_are_put_apart_where_many_outputs_read_them():
    X, W, B, out = declared(64, 56, (3, 3), padding=1, stride=2)
    text = str(tl.lower(default_schedule(out, AVX512, constants=[W]), [X, W, B, out]))
    assert re.search(r"conv2d\.pad: float32\[1, 64, 9, 2, ", text)
    sums = [line for line in text.splitlines() if re.search(r"conv2d\[[^\]]*\] = conv2d", line)]
    assert sums and not any(re.search(r"conv2d\.pad\[[^\]]*: 2\]", line) for line in sums)


def test_a_margin_is_put_around_a_few_rows_at_a_time():
    X, W, B, out = declared(96, 24, (3, 3), padding=1)
    text = str(tl.lower(default_schedule(out, AVX512, constants=[W]), [X, W, B, out]))
    assert re.search(r"conv2d\.pad: float32\[1, 96, 6, \w+ \+ 2\]", text)


def test_a_last_tile_of_fewer_vectors_has_a_body_of_its_own():
    """Of 40 pixels, tiles of 32 and 16 are computed, not of 32 and 32."""
    X, W, B, out = declared(8, 12, (1, 1))
    text = str(tl.lower(default_schedule(out, AVX512, constants=[W]), [X, W, B, out]))
    bodies = re.findall(r"^( *)for rc in range.*\n((?:\1 +.*\n)+)", text, re.M)
    assert sorted(len(re.findall(r"conv2d\[[^\]]*\] = ", b)) for _, b in bodies) == [12, 24, 24]


@pytest.mark.parametrize("given", [True, False])
def test_pixels_far_apart_are_picked_where_a_row_has_few_taps(given):
    """The first convolution of wav2vec 2.0 was summed along ten taps, one output at a time."""
    X, W, B, out = declared(1, 40, (10,), op=ops.conv1d, stride=5)
    w, b = small(RNG, (40, 1, 10)), small(RNG, (40,))
    assert "recipes.direct" in str(tl.compile([X, W, B, out], AVX512).explain())
    f = tl.compile([X, B, out], constants={W: w}) if given else tl.compile([X, W, B, out])
    for n, length in [(1, 10), (2, 89), (1, 400), (0, 50)]:
        x = small(RNG, (n, 1, length))
        exact(f(x, b) if given else f(x, w, b), np.maximum(images.conv(x, w, b, stride=5), 0), "float32")
