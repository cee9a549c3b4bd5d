"""The recipe for large pools: two passes where they are much less work, right bit for bit, in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small

RNG = np.random.default_rng(19)
MEAN, LARGEST = ops.avg_pool2d, ops.max_pool2d

# (channels, height, width, kernel, stride, padding): rows of whole vectors, with a rest, shorter than one
SHAPES = [
    (3, 56, 56, 5, 3, 0),
    (3, 41, 50, 5, 3, 2),
    (2, 45, 47, 5, 1, 2),
    (5, 35, 35, 7, 7, 0),
    (4, 20, 20, 13, 1, 6),
    (2, 33, 29, 4, 3, 1),
    (2, 100, 75, 7, 2, 3),
    (1, 19, 140, (17, 18), (1, 2), (8, 9)),
]


def taken(out, target):
    """Whether the default schedule computes it in two passes."""
    s = default_schedule(out, target)
    return any(stage.name.endswith(".part") for stage in s.stages)


@pytest.mark.each_value
@pytest.mark.parametrize("pool", [LARGEST, MEAN])
@pytest.mark.parametrize(("channels", "height", "width", "kernel", "stride", "padding"), SHAPES, ids=str)
def test_odd_shapes(pool, channels, height, width, kernel, stride, padding):
    X = te.placeholder((2, channels, height, width), name="X")
    out = pool(X, kernel, stride, padding)
    assert taken(out, AVX512)
    x = small(RNG, (2, channels, height, width))
    want = images.pool(x, "max" if pool is LARGEST else "avg", kernel, stride, padding)
    f = tl.compile([X, out])
    if pool is LARGEST:
        exact(f(x), want, "float32")
    else:
        np.testing.assert_allclose(f(x), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_taps_are_loaded_and_picked_in_vectors(target, stride):
    X = te.placeholder((1, 64, 56, 56), name="X")
    out = ops.max_pool2d(X, 5, stride, 2)
    s = default_schedule(out, target)
    asm = tl.build(s, [X, out], target=target).get_source("asm")
    assert "maxss" not in asm and "gather" not in asm and "insertps" not in asm


def test_a_reduction_of_each_row_and_column_of_a_window():
    """Of 9 × 9 elements 18 are compared and not 81."""
    X = te.placeholder((1, 16, 32, 24), name="X")
    out = ops.max_pool2d(X, 9, 1, 4)
    s = default_schedule(out, AVX512)
    text = str(tl.lower(s, [X, out]))
    assert text.count("= max(") == 18


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (2, 1), (3, 1)])
def test_small_windows_stay_in_one_pass(kernel, stride):
    X = te.placeholder((1, 16, 56, 56), name="X")
    assert not taken(ops.max_pool2d(X, kernel, stride), AVX512)


@pytest.mark.each_value
@pytest.mark.parametrize("pool", [LARGEST, MEAN])
@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize(
    ("height", "width", "kernel", "stride", "padding"),
    [
        (57, 61, 3, 3, 1),
        (57, 61, 3, 2, 1),
        (23, 29, 4, 3, 2),
        (40, 47, 4, 4, 2),
        (9, 19, 3, 2, 1),
        (12, 131, (3, 5), (3, 2), (1, 2)),
    ],
    ids=str,
)
def test_a_margin_of_rows_that_are_read_once_is_not_copied(
    pool, target, height, width, kernel, stride, padding
):
    X = te.placeholder((2, 3, height, width), name="X")
    out = pool(X, kernel, stride, padding)
    s = default_schedule(out, target)
    assert taken(out, target)
    func = tl.lower(s, [X, out])
    assert ".pad: " not in str(func)
    x = small(RNG, (2, 3, height, width))
    want = images.pool(x, "max" if pool is LARGEST else "avg", kernel, stride, padding)
    got = np.zeros(want.shape, "float32")
    interpret(func, x, got)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tl.compile([X, out])(x), want, rtol=1e-6, atol=1e-6)


def test_rows_shorter_than_a_vector_are_copied_where_there_are_no_masks():
    X = te.placeholder((1, 64, 7, 7), name="X")
    out = ops.max_pool2d(X, 3, 2, 1)
    assert taken(out, AVX512) and not taken(out, AVX2)


def test_weights_stay_in_one_pass():
    X, W = te.placeholder((1, 16, 56, 56), name="X"), te.placeholder((16, 1, 5, 5), name="W")
    assert not taken(ops.conv2d(X, W, groups=16), AVX512)


@pytest.mark.each_value
@pytest.mark.parametrize("pool", [LARGEST, MEAN])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(5, 3, 0), (5, 1, 2), (7, 4, 0), (9, 1, 4), (3, 4, 1), (7, 2, 3)]
)
def test_open_sizes(pool, kernel, stride, padding):
    """Heights and widths that are known at the call, from one window on: 7 × 7 at stride 4 was summed one tap
    after the other."""
    n, h, w = te.dim("n"), te.dim("h"), te.dim("w")
    X = te.placeholder((n, 2, h, w), name="X")
    out = pool(X, kernel, stride, padding)
    # a margin that has a stride, or small windows, is copied for nothing
    assert taken(out, AVX512) is (kernel > 3 and (padding == 0 or (kernel > 5 and stride == 1)))
    f = tl.compile([X, out])
    least = kernel - 2 * padding
    for size in [(least, least), (least + 1, 90), (67, least), (31, 37), (20, 20), (113, 97)]:
        x = small(RNG, (2, 2, *size))
        want = images.pool(x, "max" if pool is LARGEST else "avg", kernel, stride, padding)
        np.testing.assert_allclose(f(x), want, rtol=1e-6, atol=1e-6)
    assert f(small(RNG, (0, 2, 40, 40))).shape[0] == 0
    if not padding:
        assert f(small(RNG, (1, 2, 40, least - 1))).size == 0


def test_volumes_and_what_is_done_to_sums():
    X = te.placeholder((1, 3, 9, 40, 40), name="X")
    out = ops.relu(ops.max_pool3d(X, 3, 2, 1))
    assert taken(out, AVX512)
    x = small(RNG, (1, 3, 9, 40, 40))
    exact(tl.compile([X, out])(x), np.maximum(images.pool(x, "max", 3, 2, 1), 0), "float32")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "float64"])
def test_other_types(dtype):
    X = te.placeholder((1, 3, 43, 50), dtype, name="X")
    out = ops.max_pool2d(X, 6, 2, 0)
    x = RNG.integers(0, 100, (1, 3, 43, 50)).astype(dtype)
    (right,) = te.reference.evaluate([out], {X: x})
    assert np.array_equal(tl.compile([X, out])(x), right)


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize(("height", "strips"), [(18, 1), (37, 1), (75, 5)])
def test_a_small_plane_is_one_strip(target, height, strips):
    """9 rows of results were strips of 5 and 4."""
    X = te.placeholder((1, 3, height, height), name="X")
    out = ops.relu(ops.max_pool2d(X, 3, stride=2, padding=1))
    func = tl.lower(default_schedule(out, target), [X, out])
    rows = -(-height // 2)
    assert f"part: float32[1, 1, {-(-rows // strips)}, " in str(func), func
    x = small(RNG, (1, 3, height, height))
    want = np.maximum(images.pool(x, "max", 3, 2, 1), 0)
    got = np.zeros(want.shape, "float32")
    interpret(func, x, got)
    exact(got, want, "float32")
