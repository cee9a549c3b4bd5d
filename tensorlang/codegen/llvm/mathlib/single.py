"""Elementary functions in float32 for any number of lanes: at most 2 ulp; right for infinities, NaN, overflow, subnormals.

No branches and no tables, so one code serves every width, and every width gives the same bits. The coefficients were fitted here
by weighted least squares (Lawson's iteration) for the least relative error; the measured bounds stand beside each function.
"""

from __future__ import annotations

import math

from .kit import Kit, Num

# (e**r - 1 - r) / r**2 on |r| <= ln2 / 2
_EXP = (0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814467238262296)
# (2**r - 1) / r on |r| <= 1/2
_EXP2 = (0.6931471824645996, 0.24022650718688965, 0.055504102259874344, 0.00961803738027811, 0.0013333936221897602,
         0.0001546688290545717, 1.5196043932519387e-05)
# (log(1 + f) - f + f**2 / 2) / f**3 on sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (0.3333331048488617, -0.25000008940696716, 0.2000216692686081, -0.16668090224266052, 0.1421855390071869,
        -0.12403083592653275, 0.11893513053655624, -0.1169433444738388, 0.06757567822933197)
# (tanh(x) - x) / x**3 in x**2 on |x| <= 0.625
_TANH = (-0.3333333134651184, 0.13333210349082947, -0.05394720286130905, 0.021702969446778297, -0.008182677440345287,
         0.0021475397516041994)
_LN2_HI, _LN2_LO = 0.693359375, -2.12194440e-4  # the first has so few bits that n * _LN2_HI is exact


def _reduced(m: Kit, x: Num) -> tuple[Num, Num]:
    """``n`` and ``e**r - 1`` with x = n ln2 + r; for |x| < 2**21."""
    n_float, n = m.nearest(x * (1 / math.log(2)))
    r = m.fma(n_float, -_LN2_HI, x)
    r = m.fma(n_float, -_LN2_LO, r)
    return n, m.fma(m.horner(r, _EXP), r * r, r)


def _scaled(m: Kit, p: Num, n: Num) -> Num:
    """``p * 2**n`` in two steps: the first is exact, the second rounds into subnormals or overflows, as it should."""
    half = n >> 1
    return p * m.power_of_two(half) * m.power_of_two(n - half)


def exp(m: Kit, x: Num) -> Num:
    """1 ulp."""
    n, p = _reduced(m, m.at_least(m.at_most(x, 89.0), -104.0))
    return _scaled(m, p + 1.0, n)


def exp2(m: Kit, x: Num) -> Num:
    """1 ulp."""
    x = m.at_least(m.at_most(x, 129.0), -151.0)
    n_float, n = m.nearest(x)
    r = x - n_float
    return _scaled(m, m.fma(m.horner(r, _EXP2), r, 1.0), n)


def log(m: Kit, x: Num) -> Num:
    """1 ulp."""
    tiny = x < 1.1754943508222875e-38
    bits = m.bits_of(m.select(tiny, x * 8388608.0, x)) - 0x3F3504F3  # the bits of sqrt(1/2)
    e = m.to_float((bits >> 23) - m.select(tiny, m.num(23, "i"), m.num(0, "i")))
    f = m.from_bits((bits & 0x7FFFFF) + 0x3F3504F3) - 1.0
    square = f * f
    y = m.horner(f, _LOG) * (square * f)
    y = m.fma(e, _LN2_LO, y)
    y = m.fma(square, -0.5, y)
    out = m.fma(e, _LN2_HI, f + y)
    out = m.select(x < math.inf, out, x)  # infinity and NaN pass
    out = m.select(x < 0.0, math.nan, out)
    return m.select(x.same(0.0), -math.inf, out)


def tanh(m: Kit, x: Num) -> Num:
    """2 ulp."""
    size = m.abs(x)
    square = x * x
    small = m.fma(m.horner(square, _TANH) * square, x, x)
    n, p = _reduced(m, m.at_most(size, 10.0) * 2.0)
    large = 1.0 - 2.0 / ((p + 1.0) * m.power_of_two(n) + 1.0)
    return m.select(size < 0.625, small, m.copysign(large, x))


def sigmoid(m: Kit, x: Num) -> Num:
    """1 ulp. ``z / (1 + z)`` or ``1 / (1 + z)`` with z = e**-|x|, so that neither end overflows and small results keep their
    precision. What rounding took from z and from 1 + z is carried along and put back at the end."""
    n, t = _reduced(m, m.at_least(-m.abs(x), -104.0))
    p = t + 1.0
    z, z_rest = _scaled(m, p, n), _scaled(m, t - (p - 1.0), n)
    below = z + 1.0
    below_rest = z - (below - 1.0) + z_rest
    negative = x < 0.0
    above, above_rest = m.select(negative, z, 1.0), m.select(negative, z_rest, 0.0)
    inverse = 1.0 / below
    q = above * inverse
    missing = m.fma(-q, below, above) + (above_rest - q * below_rest)
    return m.fma(missing, inverse, q)


# erf(x) = x + x P(x**2) for small x; 1 - e**Q(|x|) above
_ERF = (1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3, -5.96761703e-4)
_ERF_LARGE = (-1.28717512e-1, -6.34846687e-1, -1.06777877e-1, 2.42546219e-2, -3.88396438e-3, 3.83197126e-4, -1.72853470e-5)


def erf(m: Kit, x: Num) -> Num:
    """1 ulp."""
    size = m.at_most(m.abs(x), 4.0)
    small = m.fma(m.horner(x * x, _ERF), x, x)
    r = m.fma(m.horner(size, _ERF_LARGE), size, -size)
    n, p = _reduced(m, r)
    large = 1.0 - (p + 1.0) * m.power_of_two(n)
    return m.select(m.abs(x) > 0.927734375, m.copysign(large, x), m.select(x.unordered(), x, small))
