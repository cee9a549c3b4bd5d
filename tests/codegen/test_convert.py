"""Numbers become 16-bit floats by rounding once, whatever they pass through."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret

from .test_assembly import AVX512

WIDEST = "llvm"
PLAIN = "llvm -mcpu=x86-64"


def doubles(halves: np.ndarray) -> np.ndarray:
    """These floats, the middles between neighbours, and what lies just beside both."""
    h = halves.astype("float64")
    middle = (h[1:] + h[:-1]) / 2
    x = np.concatenate([h, middle])
    near = [np.nextafter(x, 0), np.nextafter(x, np.inf), x * (1 + 2.0**-30), x * (1 - 2.0**-13)]
    x = np.concatenate([x, *near, [5e-324, 1e-300, 65519.999, 65520.0, 3.4e38, 1e300, np.inf, np.nan]])
    return np.concatenate([x, -x, np.array([0x7FF0000000000001], "uint64").view("float64")])


def rounded(x: float) -> int:
    """The bits of the bfloat16 nearest to a number, the even one of two."""
    near = np.float32(x).astype(ml_dtypes.bfloat16)
    bits, around = int(near.view("uint16")), []
    for b in (bits - 1, bits, bits + 1):
        value = float(np.array(b & 0xFFFF, "uint16").view(ml_dtypes.bfloat16))
        if np.isfinite(value) and (b & 0x8000) == (bits & 0x8000):
            around.append((abs(Fraction(value) - Fraction(x)), b & 1, b))
    return min(around)[2] if np.isfinite(float(near)) else bits


def converted(x: np.ndarray, dtype: str, target: str) -> np.ndarray:
    a = te.placeholder(x.shape, x.dtype.name, name="a")
    return tl.compile([a, ops.cast(a, dtype)], target=target)(x)


@pytest.mark.parametrize("target", [WIDEST, PLAIN])
def test_float64_is_rounded_to_float16_once(target: str) -> None:
    some = np.arange(0, 0x7C00, 7, dtype="uint16")
    x = doubles(np.concatenate([some, some + 1]).view("float16"))
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype("float16")
    np.testing.assert_array_equal(converted(x, "float16", target), want)


@pytest.mark.parametrize("target", [WIDEST, PLAIN])
def test_float64_is_rounded_to_bfloat16_once(target: str) -> None:
    some = [np.arange(0, 300), np.arange(0x3F00, 0x3F90), np.arange(0x7F00, 0x7F80)]
    with np.errstate(over="ignore", invalid="ignore"):
        x = doubles(np.concatenate(some).astype("uint16").view(ml_dtypes.bfloat16))
        x = x[np.isfinite(x) & np.isfinite(x.astype("float32").astype(ml_dtypes.bfloat16).astype("float32"))]
    got = converted(x, "bfloat16", target).view("uint16")
    np.testing.assert_array_equal(got, [rounded(float(v)) for v in x])


@pytest.mark.parametrize("target", [WIDEST, PLAIN])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_to_float16_once(kind: str, target: str) -> None:
    limits, rng = np.iinfo(kind), np.random.default_rng(3)
    near = (max(limits.min, -70000), min(limits.max, 70000))
    drawn = [rng.integers(*ends, 500, dtype=kind, endpoint=True) for ends in (near, (limits.min, limits.max))]
    x = np.concatenate([*drawn, np.array([limits.min, limits.max], kind)])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(converted(x, "float16", target), x.astype("float16"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_interpreter_agrees(dtype: str) -> None:
    x = np.random.default_rng(5).normal(size=50) * 100
    a = te.placeholder(x.shape, "float64", name="a")
    out = ops.cast(a, dtype)
    got = converted(x, dtype, WIDEST)
    want = np.zeros_like(got)
    interpret(tl.lower(te.create_schedule(out.op), [a, out]), x, want)
    np.testing.assert_array_equal(got.view("uint16"), want.view("uint16"))


@pytest.mark.parametrize("target", [WIDEST, PLAIN])
@pytest.mark.parametrize("kind", ["int32", "uint32"])
def test_integers_of_32_bits_are_rounded_to_bfloat16_once(kind: str, target: str) -> None:
    limits, rng = np.iinfo(kind), np.random.default_rng(7)
    whole = rng.integers(0, 256, 300) << rng.integers(0, 24, 300)
    middle = np.concatenate([whole, ((whole << 1) + 257) << 8, ((whole << 1) + 1) << 6, [1 << 24, 1 << 25]])
    near = np.concatenate([middle + d for d in (-257, -256, -255, -1, 0, 1, 255, 256)])
    x = np.concatenate([near, -near, rng.integers(limits.min, limits.max, 500), [limits.min, limits.max]])
    x = np.clip(x, limits.min, limits.max).astype(kind)
    got = converted(x, "bfloat16", target).view("uint16")
    np.testing.assert_array_equal(got, [rounded(float(v)) for v in x])


@pytest.mark.parametrize("target", [WIDEST, PLAIN])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_are_cut_to_what_an_integer_holds(source: str, kind: str, target: str) -> None:
    """The nearest limit out of range, 0 for NaN."""
    limits = np.iinfo(kind)
    edges = [e + d for e in (limits.min, limits.max) for d in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)]
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, -0.9, 0.9, 1e30, -1e30, 5e-324, *edges]
    drawn = np.random.default_rng(1).normal(size=100) * 2.0 * limits.max
    x = np.concatenate([special, drawn, np.roll(special, 3)]).astype(source)
    whole = [0 if np.isnan(v) else int(np.clip(v, -1e25, 1e25)) for v in x]
    want = np.array([min(max(v, limits.min), limits.max) for v in whole], kind)
    np.testing.assert_array_equal(converted(x, kind, target), want)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16"])
def test_rounded_floats_are_narrow_integers_at_once(kind):
    """The rounding of the conversion itself: whole numbers, halves, what no type holds, and no number."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    ends = np.array([low, high, 0, 2**31, -(2**31)])
    x = np.concatenate([ends, ends + 0.5, ends - 0.5, ends * 1.5, np.arange(-9, 10) / 2])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan, 3e38, -0.0, 0.49999997]]).astype("float32")
    want = np.where(np.isnan(x), 0, np.clip(np.rint(x), low, high)).astype(kind)
    for count in (3, 4, 7, len(x)):
        given = te.placeholder((count,), name="given")
        made = te.compute((count,), lambda i, x=given: te.cast(kind, te.nearbyint(x[i])), name="made")
        for target in (WIDEST, "llvm -mcpu=haswell", PLAIN):
            f = tl.compile([given, made], target=target)
            assert count < 7 or "cvtps2dq" in f.get_source("asm")
            assert np.array_equal(f(x[-count:]), want[-count:])
        got = np.zeros(count, kind)
        interpret(tl.lower(te.create_schedule(made.op), [given, made]), x[-count:], got)
        assert np.array_equal(got, want[-count:])


@pytest.mark.each_value
@pytest.mark.parametrize("zero", [0, 1, 120, 255, None])
def test_a_zero_point_is_added_behind_the_conversion(zero):
    """Rounded floats and a byte, as a byte: what no type holds, halves, and no number; ``None`` has a zero
    point for each element."""
    ends = np.array([0, 255, 2**31, -(2**31), 2**31 - 128, 2**24 + 2, -113, 100, -255])
    x = np.concatenate([ends, ends + 0.5, ends - 0.5, ends * 1.5, np.arange(-9, 10) / 2])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan, 3e38, -3e38, -0.0, 0.49999997]]).astype("float32")
    for count in (3, 4, 7, len(x)):
        given, z = te.placeholder((count,), name="given"), te.placeholder((count,), "uint8", name="z")
        one = te.placeholder((), "uint8", name="one")
        rounded = lambda i, x=given: te.nearbyint(x[i])
        number = lambda i, z=z, one=one: te.cast("float32", z[i] if zero is None else one[()])
        made = te.compute((count,), lambda i: te.cast("uint8", rounded(i) + number(i)), name="made")
        known = te.compute((count,), lambda i: te.cast("uint8", rounded(i) + float(zero or 7)), name="known")
        drawn = np.random.default_rng(count).integers(0, 256, count)
        zeros = np.asarray(drawn if zero is None else zero, "uint8")
        sums = [np.rint(x[-count:]) + np.asarray(n).astype("float32") for n in (zeros, zero or 7)]
        want = [np.where(np.isnan(s), 0, np.clip(s, 0, 255)).astype("uint8") for s in sums]
        for target in (WIDEST, "llvm -mcpu=haswell", PLAIN):
            f = tl.compile([given, z if zero is None else one, made], target=target)
            assert np.array_equal(f(x[-count:], zeros), want[0])
            assert np.array_equal(tl.compile([given, known], target=target)(x[-count:]), want[1])
            assert count < 16 or target == PLAIN or "vpaddd" in f.get_source("asm")


@pytest.mark.parametrize(("a", "zmm"), [("float64", "vcvttpd2dq"), ("float32", "vcvttps2dq")])
@pytest.mark.parametrize("t", ["int8", "int16"])
def test_what_is_cut_to_narrow_integers_asks_for_no_number(a, zmm, t):
    """Between two limits NaN stays, and becomes the least number of 32 bits, whose last bits are zeros."""
    x = te.placeholder((256,), a, name="x")
    text = tl.compile([x, ops.cast(x, t)], target=AVX512).get_source("asm")
    assert zmm in text and "vcmp" not in text
    lo, hi = np.iinfo(t).min, np.iinfo(t).max
    edges = [float(v) + d for v in (lo, 0, hi) for d in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)]
    v = np.resize([np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 1e30, -1e30, *edges], 256).astype(a)
    want = np.clip(np.trunc(np.nan_to_num(v.astype("float64"), posinf=1e30, neginf=-1e30)), lo, hi)
    for target in (None, "llvm -mcpu=haswell", "llvm -mcpu=x86-64"):
        assert np.array_equal(tl.compile([x, ops.cast(x, t)], target=target)(v), want.astype(t))
