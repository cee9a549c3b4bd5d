"""Special functions against the standard library's, numpy's, and what they mean: sums and inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled

ops = tl.ops


def of(f, a):
    x = te.placeholder(a.shape, str(a.dtype), name="x")
    return compiled(f(x), {x: a})


def close(got, want, rtol, atol=0.0):
    np.testing.assert_allclose(got, np.asarray(want, got.dtype), rtol=rtol, atol=atol)


FLOATS = {"float32": 2e-6, "float64": 3e-14}


@pytest.mark.parametrize("t", FLOATS)
def test_the_complement_of_erf(t):
    a = np.linspace(-6, 9 if t == "float32" else 26, 300).astype(t)
    close(of(ops.erfc, a), [math.erfc(v) for v in a], FLOATS[t])


@pytest.mark.parametrize("t", FLOATS)
def test_the_inverse_of_erf(t):
    a = np.concatenate([np.linspace(-0.999, 0.999, 301), [1e-20, 0]]).astype(t)
    close(np.array([math.erf(v) for v in of(ops.erfinv, a)], t), a, FLOATS[t], 1e-30)
    assert of(ops.erfinv, np.array([1, -1, 2, -2], t)).tolist()[:2] == [math.inf, -math.inf]


@pytest.mark.parametrize("t", FLOATS)
def test_the_logarithm_of_gamma(t):
    a = np.concatenate([np.linspace(-5.02, 30.05, 700), 10.0 ** np.arange(-20, 20)]).astype(t)
    close(of(ops.lgamma, a), [math.lgamma(v) for v in a], FLOATS[t], 1e-14)
    assert of(ops.lgamma, np.array([1, 2, 0, -1, math.inf], t)).tolist() == [0, 0] + 3 * [math.inf]


@pytest.mark.parametrize("t", FLOATS)
def test_its_derivatives(t):
    a = np.linspace(-3.33, 14.24, 176).astype(t)
    wide, one = a.astype("float64"), np.ones((), t)
    # psi(x + 1) = psi(x) + 1 / x, and so of its derivatives
    for n in range(4):
        f = lambda x, n=n: ops.polygamma(n, x)
        now, further = of(f, a), of(f, (wide + 1).astype(t))
        step = (-1) ** n * math.factorial(n) / wide ** (n + 1)
        size = np.maximum(np.maximum(abs(now), abs(step)), 1)
        # how exactly x is known counts as much as the sums do: by the slope around poles
        apart = abs(further - now - step) / (size * (1 + abs(a) / abs(a - np.round(a))))
        assert apart.max() < 20 * FLOATS[t]
    euler, zeta2, zeta3 = 0.5772156649015329, math.pi**2 / 6, 1.2020569031595942
    for n, at_one in enumerate((-euler, zeta2, -2 * zeta3, math.pi**4 / 15)):
        close(of(lambda x, n=n: ops.polygamma(n, x), one[None]), [at_one], 2 * FLOATS[t])
    assert np.isnan(of(ops.digamma, np.array([-1, -2], t))).all()


@pytest.mark.parametrize("t", FLOATS)
def test_bessel_of_order_0(t):
    a = np.linspace(-40, 40, 301).astype(t)
    close(of(ops.i0, a), np.i0(a.astype("float64")), 2 * FLOATS[t])
    close(of(ops.i0e, a), np.i0(a.astype("float64")) * np.exp(-abs(a.astype("float64"))), FLOATS[t])


@pytest.mark.parametrize("t", FLOATS)
def test_bessel_of_order_1(t):
    """The derivative of order 0, and odd."""
    a = np.linspace(-40, 40, 301).astype(t)
    wide, h = a.astype("float64"), 1e-5
    slope = (np.i0(wide + h) - np.i0(wide - h)) / (2 * h)
    close(of(ops.i1, a), slope, 5 * max(FLOATS[t], 1e-9), 1e-9)
    close(of(ops.i1e, a), of(ops.i1, a) * np.exp(-abs(wide)), 2 * FLOATS[t], 1e-30)
    close(of(ops.i1, np.array([0, 1e-30], t)), [0, 5e-31], FLOATS[t])


@pytest.mark.parametrize("t", FLOATS)
def test_the_scaled_complement_of_erf(t):
    a = np.linspace(-5, 8, 200).astype(t)
    close(of(ops.erfcx, a), [math.erfc(v) * math.exp(v * v) for v in a.astype("float64")], FLOATS[t])
    large = 10.0 ** np.arange(8, 30)
    close(of(ops.erfcx, large.astype(t)), 1 / (large * math.sqrt(math.pi)), FLOATS[t])


@pytest.mark.parametrize("t", FLOATS)
def test_the_normal_distribution(t):
    """Its logarithm, and the number below which it has so much: each undoes the other."""
    a = np.linspace(-5, 5, 101).astype(t)
    below, above = ([0.5 * math.erfc(s * v / math.sqrt(2)) for v in a.astype("float64")] for s in (-1, 1))
    close(of(ops.log_ndtr, a), np.where(a < 0, np.log(below), np.log1p(-np.array(above))), 4 * FLOATS[t])
    back = of(ops.ndtri, np.array(below[:70], t))
    close(back, a[:70], 20 * FLOATS[t], 1e-6 if t == "float32" else 1e-13)
    far = -np.linspace(6, 36, 61).astype(t) if t == "float64" else -np.linspace(6, 12, 61).astype(t)
    close(of(ops.ndtri, np.exp(of(ops.log_ndtr, far))), far, 5 * FLOATS[t])
    assert of(ops.ndtri, np.array([0, 1, 0.5], t)).tolist() == [-math.inf, math.inf, 0]
    assert np.isnan(of(ops.ndtri, np.array([-0.1, 1.1], t))).all()


def test_products_with_logarithms_and_numbers_beside():
    a = np.array([0, 0, 0, 2, 3], "float32")
    b = np.array([0, math.inf, math.nan, 1.5, 0.25], "float32")
    x, y = te.placeholder(a.shape, name="x"), te.placeholder(b.shape, name="y")
    first, second, beside = compiled([ops.xlogy(x, y), ops.xlog1py(x, y), ops.nextafter(x, y)], {x: a, y: b})
    assert first[:2].tolist() == second[:2].tolist() == [0, 0] and math.isnan(first[2])
    close(first[3:], a[3:] * np.log(b[3:]), 1e-6)
    close(second[3:], a[3:] * np.log1p(b[3:]), 1e-6)
    assert np.array_equal(beside, np.nextafter(a, b), equal_nan=True)


def test_orders_beyond():
    with pytest.raises(tl.DeclareError, match="order 13"):
        ops.polygamma(13, te.placeholder((3,), name="x"))
