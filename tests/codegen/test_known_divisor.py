"""Divisions by known numbers of few bits: the bits of the division, for every mantissa."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen.llvm.known_divisor import reciprocal

DIVISORS = [3, 6, -6, 255, 0.1875, 1e5, 768, 2**20 - 1, -7 * 2.0**-40]


def quotient(y, kind, n):
    x = te.placeholder((n,), kind, name="x")
    return tl.compile([x, te.compute((n,), lambda i: x[i] / te.const(y, kind), name="q")])


@pytest.mark.parametrize("y", DIVISORS)
def test_every_mantissa_gives_the_bits_of_the_division(y):
    x = np.arange(1 << 23, 1 << 24, dtype="float32")
    f = quotient(y, "float32", x.size)
    np.testing.assert_array_equal(f(x), x / np.float32(y))
    assert "llvm.fma" in f.get_source("ll") or not tl.target.as_target(None).has_fma


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("y", DIVISORS)
def test_what_is_no_ordinary_number(y, kind):
    info = np.finfo(kind)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, 1, -1, 1 / 3], kind)
    with np.errstate(all="ignore"):
        want = x / np.array(y, kind)
    got = quotient(y, kind, x.size)(x)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    # below 2**-100 the last bit may differ
    np.testing.assert_allclose(got, want, rtol=0, atol=2.0**-140, equal_nan=True)


@pytest.mark.parametrize("y", DIVISORS)
def test_doubles_give_the_bits_of_the_division(y):
    x = np.random.default_rng(0).standard_normal(100_003) * 2.0 ** np.arange(-50, 50).repeat(1001)[:100_003]
    np.testing.assert_array_equal(quotient(y, "float64", x.size)(x), x / y)


@pytest.mark.parametrize("y", [0.0, 1.0, -8.0, 0.1, 2.0**20 + 1, float("inf"), float("nan"), 3e30])
def test_other_divisors_are_divided_by(y):
    """Powers of two, which LLVM multiplies with, and numbers of too many bits, too large or too small."""
    assert reciprocal(np.float32(y).item(), "float32") is None and reciprocal(y, "float16") is None


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_floats_are_divided(kind):
    x = te.placeholder((64,), kind, name="x")
    y = te.compute((64,), lambda i: x[i] / te.const(6, kind), name="q")
    a = np.linspace(-3, 3, 64).astype(x.dtype.to_numpy())
    np.testing.assert_array_equal(tl.compile([x, y])(a), te.reference.evaluate([y], {x: a})[0])
