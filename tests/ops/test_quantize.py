"""Quantised numbers and their products against numpy: each way of giving scales, every stored type, the ends
of ranges."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.te.graph import operations
from tests.ops import images
from tests.ops.arrays import compiled, exact, sample
from tests.ops.images import small

ops = tl.ops
RNG = np.random.default_rng(5)


def placeholders(*arrays):
    return [te.placeholder(a.shape, str(a.dtype), name=f"x{k}") for k, a in enumerate(arrays)]


def stored(x, scale, zero, t, limits=None):
    low, high = limits or (np.iinfo(t).min, np.iinfo(t).max)
    return np.clip(np.rint(x / scale) + zero, low, high).astype(t)


@pytest.mark.parametrize("t", ["uint8", "int8", "int16", "uint16"])
def test_one_scale(t):
    n = te.dim("n", 1, 9)
    a = sample((5, 7), "float32") * np.float32(40 if "8" in t else 9000)
    a[0] = [0.25, 0.75, -0.25, 1.25, np.inf, -np.inf, 1e9]
    s, z = np.array(0.5, "float32"), np.array([3], t)
    x, p, q = (
        te.placeholder((n, 7), name="x"),
        te.placeholder((), name="p"),
        te.placeholder((1,), t, name="q"),
    )
    y = ops.quantize_linear(x, p, q)
    got, back, plain = compiled(
        [y, ops.dequantize_linear(y, p, q), ops.quantize_linear(x, p, dtype=t)], {x: a, p: s, q: z}
    )
    want = stored(a, s, 3, t)
    exact(got, want, t)
    exact(back, ((want.astype("int32") - 3) * s).astype("float32"), "float32")
    exact(plain, stored(a, s, 0, t), t)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_for_each_index(axis):
    a = sample((3, 4, 5), "float32") * np.float32(9)
    n, shape = a.shape[axis], [1, 1, 1]
    shape[axis] = n
    s, z = np.array([0.25, 0.5, 1, 2, 4], "float32")[:n], RNG.integers(-5, 5, n).astype("int8")
    x, p, q = placeholders(a, s, z)
    y = ops.quantize_linear(x, p, q, axis)
    got, back = compiled([y, ops.dequantize_linear(y, p, q, axis)], {x: a, p: s, q: z})
    want = stored(a, s.reshape(shape), z.reshape(shape).astype("float32"), "int8")
    exact(got, want, "int8")
    exact(back, (want.astype("float32") - z.reshape(shape)) * s.reshape(shape), "float32")


@pytest.mark.parametrize(("bits", "limits"), [(4, (-8, 7)), (2, (-2, 1)), (None, None)])
def test_blocks_and_few_bits(bits, limits):
    a = sample((3, 8), "float32")
    s = np.abs(sample((3, 3), "float32", 1)) + np.float32(0.5)  # 8 elements in blocks of 3
    z = RNG.integers(-1, 1, (3, 3)).astype("int8")
    x, p, q = placeholders(a, s, z)
    y = ops.quantize_linear(x, p, q, 1, block_size=3, bits=bits)
    got, back = compiled([y, ops.dequantize_linear(y, p, q, 1, block_size=3)], {x: a, p: s, q: z})
    wide, zero = (np.repeat(v, 3, 1)[:, :8] for v in (s, z.astype("float32")))
    want = stored(a, wide, zero, "int8", limits)
    exact(got, want, "int8")
    exact(back, (want - zero) * wide, "float32")


def test_half_floats_and_wide_integers():
    a, s = sample((3, 5), "float16"), np.array(0.5, "float16")
    i, big = np.array([2**31 - 1, -(2**31), 7], "int32"), np.array(2.0, "float32")
    x, p, j, q = placeholders(a, s, i, big)
    half, back, wide = compiled(
        [
            ops.quantize_linear(x, p, dtype="int8"),
            ops.dequantize_linear(j, q),
            ops.quantize_linear(j, q, dtype="int16"),
        ],
        {x: a, p: s, j: i, q: big},
    )
    exact(half, stored(a.astype("float32"), 0.5, 0, "int8"), "int8")
    exact(back, i.astype("float32") * 2, "float32")
    exact(wide, np.clip(np.rint(i / 2), -32768, 32767).astype("int16"), "int16")


@pytest.mark.parametrize("shift", [0.0, 5.0, -5.0, None])
def test_dynamic(shift):
    a = np.zeros((3, 5), "float32") if shift is None else sample((3, 5), "float32") / 4 + np.float32(shift)
    n = te.dim("n", 1, 9)
    x = te.placeholder((n, 5), name="x")
    got, scale, zero = compiled(list(ops.dynamic_quantize_linear(x)), {x: a})
    low, high = min(a.min(), 0), max(a.max(), 0)
    s = np.float32(1) if high == low else np.float32(high - low) / np.float32(255)
    z = np.clip(np.rint(-low / s), 0, 255)
    exact(scale, s, "float32")
    exact(zero, np.uint8(z), "uint8")
    exact(got, stored(a, s, z, "uint8"), "uint8")


@pytest.mark.parametrize(("t", "u"), [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
def test_matmul_integer(t, u):
    a, b = (
        RNG.integers(np.iinfo(k).min, np.iinfo(k).max, s).astype(k) for k, s in ((t, (5, 33)), (u, (33, 17)))
    )
    one, rows, columns = np.array(9, t), RNG.integers(0, 9, 5).astype(t), RNG.integers(0, 9, 17).astype(u)
    x, y, p, r, c = placeholders(a, b, one, rows, columns)
    feed = {x: a, y: b, p: one, r: rows, c: columns}
    plain, shifted, each = compiled(
        [ops.matmul_integer(x, y), ops.matmul_integer(x, y, p), ops.matmul_integer(x, y, r, c)], feed
    )
    i, j = a.astype("int32"), b.astype("int32")
    exact(plain, i @ j, "int32")
    exact(shifted, (i - 9) @ j, "int32")
    exact(each, (i - rows.astype("int32")[:, None]) @ (j - columns.astype("int32")), "int32")


@pytest.mark.parametrize("n", [1, 2])
def test_conv_integer(n):
    a, w = (
        small(RNG, (2, 4, 7, 8)[: n + 2], "uint8", 0, 255),
        small(RNG, (6, 2, 3, 3)[: n + 2], "int8", -128, 127),
    )
    za, zw = np.array(7, "uint8"), RNG.integers(-9, 9, 6).astype("int8")
    x, y, p, q = placeholders(a, w, za, zw)
    got = compiled(ops.conv_integer(x, y, p, q, 2, 1, 1, 2), {x: a, y: w, p: za, q: zw})
    shift = (
        zw.astype("int32").reshape(6, 1, 1, 1)[(..., *[0] * (2 - n))]
        if n < 2
        else zw.astype("int32").reshape(6, 1, 1, 1)
    )
    want = images.conv(a.astype("int32") - 7, w.astype("int32") - shift, None, 2, 1, 1, 2)
    exact(got, want, "int32")


def test_qlinear_matmul():
    a, b = small(RNG, (2, 5, 9), "uint8", 0, 255), small(RNG, (9, 7), "int8", -128, 127)
    numbers = [
        np.array(v, t)
        for v, t in (
            (0.02, "float32"),
            (120, "uint8"),
            (0.01, "float32"),
            (5, "int8"),
            (0.3, "float32"),
            (110, "uint8"),
        )
    ]
    x, y, sa, za, sb, zb, sy, zy = placeholders(a, b, *numbers)
    feed = dict(zip((x, y, sa, za, sb, zb, sy, zy), (a, b, *numbers), strict=True))
    got = compiled(ops.qlinear_matmul(x, sa, za, y, sb, zb, sy, zy), feed)
    total = ((a.astype("int32") - 120) @ (b.astype("int32") - 5)).astype("float32")
    factor = numbers[0] * numbers[2] / numbers[4]
    exact(got, stored(total * factor, np.float32(1), 110, "uint8"), "uint8")


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("zeros", ["one", "rows", "none"])
def test_zero_points_apart_from_the_product(kind, zeros):
    """A weight without a zero point: the other operand is multiplied as it is stored, and its zero point taken
    away after, with sums of the weight. In whole numbers that is the same to the last bit."""
    lo, hi = np.iinfo(kind).min, np.iinfo(kind).max
    a, w = RNG.integers(lo, hi + 1, (3, 7, 33)).astype(kind), RNG.integers(-128, 128, (33, 20)).astype("int8")
    z = {"one": np.array(lo + 9), "rows": RNG.integers(lo, hi, 7), "none": None}[zeros]
    x, y = te.placeholder(a.shape, kind, name="x"), te.placeholder(w.shape, "int8", name="y")
    feed = {x: a, y: w}
    p = None
    if z is not None:
        p = te.placeholder(z.shape, kind, name="p")
        feed[p] = z.astype(kind)
    less = 0 if z is None else z.reshape(-1, 1) if z.ndim else z
    got = compiled(ops.matmul_integer(x, y, p), feed)
    assert np.array_equal(got, (a.astype("int32") - less) @ w.astype("int32"))
    if zeros == "rows":
        return
    image, kernel = (
        RNG.integers(lo, hi + 1, (2, 8, 9, 11)).astype(kind),
        w.reshape(-1)[:576].reshape(8, 8, 3, 3),
    )
    x, y = te.placeholder(image.shape, kind, name="x"), te.placeholder(kernel.shape, "int8", name="y")
    feed = {x: image, y: kernel} | ({p: z.astype(kind)} if p is not None else {})
    got = compiled(ops.conv_integer(x, y, p, None, 2, 1), feed)
    want = images.conv(image.astype("int32") - less, kernel.astype("int32"), stride=2, padding=1)
    assert np.array_equal(got, want)


@pytest.mark.each_value
@pytest.mark.parametrize(("kind", "other"), [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
@pytest.mark.parametrize("zeros", ["one", "columns", "none"])
@pytest.mark.parametrize("shape", [(7, 33), (2, 5, 33), (2, 33)])
def test_a_right_operand_with_zero_points_is_multiplied_as_int8(kind, other, zeros, shape):
    """They are taken away after, times the sums of rows: the same to the last bit."""
    a = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
    low, high = np.iinfo(other).min, np.iinfo(other).max
    w = RNG.integers(low, high + 1, (33, 20)).astype(other)
    za = np.array(np.iinfo(kind).min + 9, kind)
    zw = {"one": np.array(high - 5, other), "columns": RNG.integers(low, high, 20).astype(other)}.get(zeros)
    x, y, p = placeholders(a, w, za)
    feed, q = {x: a, y: w, p: za}, None
    if zw is not None:
        q = te.placeholder(zw.shape, other, name="q")
        feed[q] = zw
    out = ops.matmul_integer(x, y, p, q)
    # of a few rows differences of the operand cost less
    wide = [op for op in operations([out.op]) if str(op.outputs[0].dtype) == "int16"]
    assert bool(wide) is (shape[-2] < 4)
    less = 0 if zw is None else zw.astype("int32")
    want = (a.astype("int32") - za.astype("int32")) @ (w.astype("int32") - less)
    assert np.array_equal(compiled(out, feed), want)


@pytest.mark.each_value
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kind", "other"), [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
@pytest.mark.parametrize("zeros", ["one", "outputs", "dimensions", "none"])
def test_a_weight_with_a_zero_point_is_multiplied_as_int8(kind, other, zeros, groups):
    """Its zero point is taken away after, times the sums of windows: the same to the last bit."""
    a = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (2, 8, 9, 11)).astype(kind)
    low, high = np.iinfo(other).min, np.iinfo(other).max
    w = RNG.integers(low, high + 1, (32, 8 // groups, 3, 3)).astype(other)
    za = np.array(np.iinfo(kind).min + 9, kind)
    each = RNG.integers(low, high, 32)
    zw = {"one": np.array(high - 5), "outputs": each, "dimensions": each.reshape(-1, 1, 1, 1)}.get(zeros)
    x, y, p = placeholders(a, w, za)
    feed, q = {x: a, y: w, p: za}, None
    less = np.int32(0)
    if zw is not None:
        q = te.placeholder(zw.shape, other, name="q")
        feed[q] = zw.astype(other)
        less = zw.astype("int32").reshape(-1, 1, 1, 1) if zw.ndim else zw.astype("int32")
    got = compiled(ops.conv_integer(x, y, p, q, 2, ((1, 0), (0, 2)), 1, groups), feed)
    want = images.conv(
        a.astype("int32") - za.astype("int32"), w.astype("int32") - less, None, 2, ((1, 0), (0, 2)), 1, groups
    )
    exact(got, want, "int32")


@pytest.mark.parametrize(("kind", "other", "zero"), [("uint8", "int8", -5), ("int8", "uint8", 200)])
def test_a_zero_point_that_the_data_cannot_hold(kind, other, zero):
    """Margins count as the zero point: they were once that number cut to the type of the data."""
    lo, hi = np.iinfo(kind).min, np.iinfo(kind).max
    a, w = small(RNG, (1, 8, 6, 7), kind, lo, hi + 1), small(RNG, (16, 8, 3, 3), "int8", -128, 128)
    z = np.array(zero, other)
    x, y, p = placeholders(a, w, z)
    got = compiled(ops.conv_integer(x, y, p, None, 1, 1), {x: a, y: w, p: z})
    exact(got, images.conv(a.astype("int32") - zero, w.astype("int32"), padding=1), "int32")
    got = compiled(
        ops.matmul_integer(
            m := te.placeholder((6, 7), kind, name="m"), v := te.placeholder((7, 5), "int8"), p
        ),
        {m: a[0, 0], v: w.reshape(-1)[:35].reshape(7, 5), p: z},
    )
    exact(got, (a[0, 0].astype("int32") - zero) @ w.reshape(-1)[:35].reshape(7, 5).astype("int32"), "int32")


def test_qlinear_conv():
    a, w, bias = (
        small(RNG, (1, 3, 6, 6), "uint8", 0, 255),
        small(RNG, (4, 3, 3, 3), "int8", -128, 127),
        small(RNG, (4,), "int32", -900, 900),
    )
    sw, zw = np.array([0.01, 0.02, 0.03, 0.04], "float32"), np.zeros(4, "int8")
    numbers = [
        np.array(v, t) for v, t in ((0.02, "float32"), (120, "uint8"), (0.5, "float32"), (100, "uint8"))
    ]
    x, y, b, s, z, sx, zx, sy, zy = placeholders(a, w, bias, sw, zw, *numbers)
    feed = dict(zip((x, y, b, s, z, sx, zx, sy, zy), (a, w, bias, sw, zw, *numbers), strict=True))
    got = compiled(ops.qlinear_conv(x, sx, zx, y, s, z, sy, zy, b, padding=1), feed)
    total = images.conv(a.astype("int32") - 120, w.astype("int32"), bias, 1, 1).astype("float32")
    factor = (numbers[0] * sw / numbers[2]).astype("float32").reshape(1, 4, 1, 1)
    exact(got, stored(total * factor, np.float32(1), 100, "uint8"), "uint8")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, s, i: ops.quantize_linear(x, s, dtype="float32"), "holds no quantised numbers"),
        (lambda x, s, i: ops.quantize_linear(x, s, bits=3), "bits=3"),
        (lambda x, s, i: ops.quantize_linear(x, x), "block_size=32"),
        (lambda x, s, i: ops.quantize_linear(x, te.placeholder((3,), name="s"), axis=1), "is 3, 5 is needed"),
        (lambda x, s, i: ops.quantize_linear(x, s, s), "it is a stored number"),
        (lambda x, s, i: ops.dequantize_linear(x, s), "holds no quantised numbers"),
        (lambda x, s, i: ops.matmul_integer(x, i), "a x is float32"),
        (lambda x, s, i: ops.conv_integer(i, i), "3 to 5 are needed"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(
            te.placeholder((4, 5), name="x"),
            te.placeholder((), name="s"),
            te.placeholder((4, 5), "int8", name="i"),
        )
