"""Logarithms for any number of lanes, in float32 and float64: at most 2 ulp, right for infinities, NaN,
zeros, negatives, subnormals.

``x = 2**e (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``, and ``log(1 + f)`` as ``f`` plus a small
correction.
"""

from __future__ import annotations

import math

from .kit import Kit, Num

# float32: (log(1 + f) - f + f**2 / 2) / f**3, relative error in log(1 + f) 2**-27
_LOG = (
    0.3333331048488617,
    -0.25000008940696716,
    0.2000216692686081,
    -0.16668090224266052,
    0.1421855390071869,
    -0.12403083592653275,
    0.11893513053655624,
    -0.1169433444738388,
    0.06757567822933197,
)
# float32: (log(1 + f) / log(base) - a f) / f**2 for a, 1 / log(base) rounded: relative errors in all 2**-25.1
# and 2**-24.7
_LOG_IN = {
    "2": (
        -0.7213473916053772,
        0.48090898990631104,
        -0.36070045828819275,
        0.2879524230957031,
        -0.23901787400245667,
        0.21549426019191742,
        -0.20676881074905396,
        0.1257828325033188,
    ),
    "10": (
        -0.21714721620082855,
        0.14476637542247772,
        -0.10857993364334106,
        0.08672145009040833,
        -0.07200266420841217,
        0.06459774076938629,
        -0.06184072047472,
        0.03804773464798927,
    ),
}
# float64: (log((1 + s) / (1 - s)) / s - 2) / s**2 in s**2 for s = f / (2 + f), relative error in log(1 + f)
# 2**-59.5
_ATANH = (
    0.6666666666666734,
    0.399999999994171,
    0.28571428741874266,
    0.22222198623850498,
    0.18183561779551558,
    0.15314113792547737,
    0.1479533387450656,
)

# log(2) in the base, with so few bits in the first part that its product with an exponent is exact; 1 /
# log(base)
_TWO = {
    "e": {32: (0.693359375, -2.12194440e-4), 64: (0.6931471805598903, 5.497923018708371e-14)},
    "2": {32: (1.0, 0.0), 64: (1.0, 0.0)},
    "10": {32: (0.301025390625, 4.605038981195214e-06), 64: (0.30102999566395283, 2.8363394551044964e-14)},
}
_FACTOR = {
    "2": {32: (1.4426950216293335, 1.925963033500011e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)},
    "10": {
        32: (0.4342944920063019, -1.0103049952192578e-08),
        64: (0.4342944819032518, 1.098319650216765e-17),
    },
}


UNIT = {32: 2.0**-23, 64: 1.0}  # of the exponents that ``split`` gives


def split(m: Kit, x: Num, lowest: float = math.sqrt(0.5)) -> tuple[Num, Num]:
    """``e / UNIT`` and ``1 + f`` for ``x = 2**e (1 + f)`` with ``lowest <= 1 + f < 2 * lowest``, for positive
    normal numbers. The unit of float32 makes the exponent's bits, where they stand, the integer."""
    f = m.format
    least, one = f.literal(lowest), f.literal(1.0)
    if m.bits == 32:
        moved, mantissa = parted(m, x, lowest)
        return m.to_float(moved), mantissa
    bits = m.bits_of(x) + (one - least)
    e = m.to_float(bits.logical(f.fraction), f.bias)
    return e, m.from_bits((bits & ((1 << f.fraction) - 1)) + least)


def parted(m: Kit, x: Num, lowest: float = math.sqrt(0.5)) -> tuple[Num, Num]:
    """The bits of ``e`` in their place, and ``1 + f``, as in ``split``."""
    bits = m.bits_of(x)
    moved = (bits - m.format.literal(lowest)) & -1 << m.format.fraction
    return moved, m.from_bits(bits - moved)


def _correction(m: Kit, f: Num) -> tuple[Num, Num]:
    """``f**2`` and ``log(1 + f) - f + f**2 / 2``, in float64."""
    square = f * f
    s = f / (f + 2.0)
    z = s * s
    return square, s * m.fma(square, 0.5, m.polynomial(z, _ATANH) * z)


def _normal(m: Kit, base: str, e: Num, mantissa: Num) -> Num:
    f = mantissa - 1.0
    high, low = _exponents(m, base)
    if m.bits == 32:
        if base == "e":
            small = m.fma(e, low, f) if low else f
            return m.fma(e, high, m.fma(m.horner(f, (-0.5, *_LOG)), f * f, small))
        y = m.horner(f, _LOG_IN[base]) * (f * f)
        y = m.fma(e, low, y) if low else y
        factor = _FACTOR[base][32][0]
        if not m.em.target.has_fma:
            more, rest = m.product(f, factor)
            return e * high + (more + (y + rest))
        return m.fma(e, high, m.fma(f, factor, y))
    square, y = _correction(m, f)
    if base == "e":
        y = m.fma(square, -0.5, m.fma(e, low, y))
        return m.fma(e, high, f + y)
    a, b = _FACTOR[base][m.bits]
    y = m.fma(square, -0.5, y)
    y = m.fma(y, a, f * b)
    if low:
        y = m.fma(e, low, y)
    return m.fma(e, high, m.fma(f, a, y))


def _exponents(m: Kit, base: str) -> tuple[float, float]:
    """What to multiply exponents by, in two parts; the second is 0 where one is as good: float32 holds ln2
    with four bits more than it has, and fma rounds no product."""
    if m.bits == 32 and base == "e" and m.em.target.has_fma:
        return math.log(2.0) * UNIT[32], 0.0
    high, low = _TWO[base][m.bits]
    return high * UNIT[m.bits], low * UNIT[m.bits]


def unusual(m: Kit, x: Num) -> Num:
    """Whether it is not a positive normal number."""
    return outside(m, x, m.format.least, math.inf)


def outside(m: Kit, x: Num, least: float, beyond: float) -> Num:
    """Whether it is not a number from ``least`` to below ``beyond``, of positive numbers. One comparison: the
    bits are moved so that these numbers are the least integers."""
    low, high, sign = m.format.literal(least), m.format.literal(beyond), 1 << (m.bits - 1)
    return m.bits_of(x) + (sign - low) > high - low - sign - 1


def _any(m: Kit, x: Num, base: str) -> Num:
    tiny = x < m.format.least
    e, mantissa = split(m, m.select(tiny, x * 2.0**m.format.fraction, x))
    e = e - m.select(tiny, m.format.fraction / UNIT[m.bits], 0.0)
    out = _normal(m, base, e, mantissa)
    out = m.select(x < math.inf, out, x)  # infinity and NaN pass
    out = m.select(x < 0.0, math.nan, out)
    return m.select(x.same(0.0), -math.inf, out)


def wide_log(m: Kit, x: Num) -> Num:
    """log over the whole range."""
    return _any(m, x, "e")


def wide_log2(m: Kit, x: Num) -> Num:
    """log2 over the whole range."""
    return _any(m, x, "2")


def wide_log10(m: Kit, x: Num) -> Num:
    """log10 over the whole range."""
    return _any(m, x, "10")


def log(m: Kit, x: Num) -> Num:
    """1 ulp; 0.95 at most in float32."""
    return m.repaired(_normal(m, "e", *split(m, x)), unusual(m, x), wide_log, x)


def log2(m: Kit, x: Num) -> Num:
    """2 ulp."""
    return m.repaired(_normal(m, "2", *split(m, x)), unusual(m, x), wide_log2, x)


def log10(m: Kit, x: Num) -> Num:
    """2 ulp."""
    return m.repaired(_normal(m, "10", *split(m, x)), unusual(m, x), wide_log10, x)


def log_of_pair(m: Kit, high: Num, low: Num, more: float = 0.0) -> Num:
    """``log(2**more (high + low))`` in float32, as a rule within 0.9 ulp, for positive normal ``high`` and a
    ``low`` of half an ulp of it, which may be all that tells the sum from 1."""
    moved, mantissa = parted(m, high)
    e, f = m.to_float(moved), mantissa - 1.0
    part = low * m.from_bits(m.num(m.format.literal(1.0), "i") - moved)
    g = f + part
    rest = (f - g) + part
    rest = m.fma(-rest, g, rest)
    first, second = _exponents(m, "e")
    if more:
        e = e + more / UNIT[32]
    rest = m.fma(e, second, rest) if second else rest
    return m.fma(e, first, g + m.fma(m.horner(g, (-0.5, *_LOG)), g * g, rest))


def log1p(m: Kit, x: Num) -> Num:
    """2 ulp; 0.9 at most in float32."""
    if m.bits == 64:
        return _precise_log1p(m, x)
    u = x + 1.0
    rest = m.at_most(x, 1.0) - (u - m.at_least(x, 1.0))
    # of -0 the sum is 0
    rare = outside(m, u, m.format.least, 2.0**60)
    return m.repaired(m.copysign(log_of_pair(m, u, rest), x), rare, far_log1p, x)


def log_of_far(m: Kit, x: Num, more: float) -> Num:
    """``log(2**more x)`` of float32 from 2**60 on."""
    return m.select(x < math.inf, log_of_pair(m, x * 2.0**-32, m.num(0.0), more + 32.0), x)


def far_log1p(m: Kit, x: Num) -> Num:
    """log1p of float32 from 2**60 on, and of what is no more than -1."""
    out = m.select(x < -1.0, math.nan, log_of_far(m, x, 0.0))
    return m.select(x.same(-1.0), -math.inf, out)


def _precise_log1p(m: Kit, x: Num) -> Num:
    """log1p of float64: of the rounded sum ``1 + x = 2**e (1 + f)`` and what rounding takes from it, which is
    added to ``f``, and once more what that sum leaves. Both are no more than half an ulp, so that a rough
    inverse of ``1 + f`` is good enough: one division, where a quotient of each took a quarter longer."""
    u = x + 1.0
    rest = m.at_most(x, 1.0) - (u - m.at_least(x, 1.0))
    e, mantissa = split(m, u)
    f = mantissa - 1.0
    # 2**-e, by the bits of the exponent
    part = rest * m.from_bits(m.num(m.format.literal(1.0), "i") - (m.bits_of(u) - m.bits_of(mantissa)))
    g = f + part
    low = (f - g) + part
    low = m.fma(-low, g, low)
    first, second = _TWO["e"][64]
    square, y = _correction(m, g)
    out = m.fma(e, first, g + m.fma(square, -0.5, y + m.fma(e, second, low)))
    # of -0 the sum is 0
    return m.repaired(m.copysign(out, x), outside(m, u, m.format.least, 2.0**1000), far_precise_log1p, x)


def far_precise_log1p(m: Kit, x: Num) -> Num:
    """log1p of float64 from 2**1000 on, and of what is no more than -1."""
    return m.select(x.same(-1.0), -math.inf, wide_log(m, x))
