"""Inverses of the trigonometric and hyperbolic functions, and hypot, for any number of lanes, in float32 and
float64: at most 2 ulp.

asinh, acosh, atanh and hypot of float32 are computed in float64 and rounded.
"""

from __future__ import annotations

import math

from .kit import Kit, Num
from .logarithm import log1p

# (asin(x) / x - 1) / x**2 in x**2 on |x| <= 1/2: relative errors 2**-27.6 and 2**-55.9
_ASIN = {
    32: (
        0.16666752099990845,
        0.0749531164765358,
        0.04546874389052391,
        0.02418709732592106,
        0.04215408116579056,
    ),
    64: (
        0.16666666666665403,
        0.07500000000338747,
        0.04464285682683935,
        0.03038195920053755,
        0.022371756479164756,
        0.017359729106744853,
        0.01388498909297102,
        0.012170865657845774,
        0.006520672963981009,
        0.019548637551473652,
        -0.016256805978612395,
        0.03193496951025663,
    ),
}
# (atan(x) / x - 1) / x**2 in x**2 on |x| <= 1: relative errors 2**-30.8 and 2**-57.6
_ATAN = {
    32: (
        -0.33333325386047363,
        0.1999962329864502,
        -0.1427927166223526,
        0.11054851114749908,
        -0.08799313753843307,
        0.06716292351484299,
        -0.04435054585337639,
        0.022262880578637123,
        -0.007192108314484358,
        0.0010893776779994369,
    ),
    64: (
        -0.3333333333333307,
        0.19999999999951465,
        -0.14285714282575404,
        0.11111111007034095,
        -0.09090907003117724,
        0.07692279840601342,
        -0.06666404066934242,
        0.05880527862656924,
        -0.052535187345340024,
        0.04722322730215161,
        -0.042191800464591644,
        0.036641928266663265,
        -0.029903878805918698,
        0.02198487012811049,
        -0.01390056881305202,
        0.0071965047691584525,
        -0.002884917104410829,
        0.0008313206693852222,
        -0.00015216047073960458,
        1.3225023198213427e-05,
    ),
}
_FAR = 2.0**28  # where x**2 and x**2 + 1 are one float64
_HALF_PI = {32: (1.5707963705062866, -4.371138828673793e-08), 64: (1.5707963267948966, 6.123233995736766e-17)}


def _arcsine(m: Kit, x: Num) -> tuple[Num, Num, Num, Num]:
    """Whether ``|x| > 1/2``; with ``s = sqrt((1 - |x|) / 2)`` there and ``|x|`` else: ``s``, what rounding
    took from it, and ``asin(s) - s``."""
    size = m.abs(x)
    large = size > 0.5
    square = m.select(large, 0.5 - size * 0.5, x * x)
    root = m.sqrt(square)
    s = m.select(large, root, size)
    high, low = m.product(root, root)
    rest = m.select(large & (root > 0.0), ((square - high) - low) / (root + root), 0.0)
    return large, s, rest, m.polynomial(square, _ASIN[m.bits]) * square * s


def asin(m: Kit, x: Num) -> Num:
    """2 ulp. ``asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2))`` above 1/2."""
    large, s, rest, tail = _arcsine(m, x)
    high, low = _HALF_PI[m.bits]
    far = (high - 2.0 * s) + (low - 2.0 * (tail + rest))
    return m.copysign(m.select(large, far, s + tail), x)


def acos(m: Kit, x: Num) -> Num:
    """2 ulp."""
    large, s, rest, tail = _arcsine(m, x)
    high, low = _HALF_PI[m.bits]
    near = m.copysign(s, x)
    middle = (high - near) + (low - m.copysign(tail, x))
    twice = 2.0 * (s + (tail + rest))
    far = m.select(x < 0.0, (2 * high - 2.0 * s) + (2 * low - 2.0 * (tail + rest)), twice)
    return m.select(large, far, middle)


def _arctangent(m: Kit, t: Num) -> Num:
    square = t * t
    return m.fma(m.polynomial(square, _ATAN[m.bits]) * square, t, t)


def atan(m: Kit, x: Num) -> Num:
    """2 ulp. ``atan(x) = pi / 2 - atan(1 / x)`` above 1."""
    size = m.abs(x)
    large = size > 1.0
    high, low = _HALF_PI[m.bits]
    t = _arctangent(m, m.select(large, -1.0 / size, size))
    return m.copysign(m.select(large, (t + low) + high, t), x)


def atan2(m: Kit, y: Num, x: Num) -> Num:
    """2 ulp."""
    up, side = m.abs(y), m.abs(x)
    steep = up > side
    least, most = m.select(steep, side, up), m.select(steep, up, side)
    q = least / most
    q = m.select(most.same(0.0), 0.0, m.select(least.same(math.inf), 1.0, q))
    t = _arctangent(m, q)
    left = m.bits_of(x) < 0
    t = m.select(steep ^ left, -t, t)
    high, low = _HALF_PI[m.bits]
    quarters = m.select(steep, 1.0, m.select(left, 2.0, 0.0))
    out = (t + quarters * low) + quarters * high
    out = m.copysign(m.select(steep | left, out, t), y)
    return m.select(x.unordered(), x, m.select(y.unordered(), y, out))


def _log_of_sum(m: Kit, far: Num, usual: Num, above: Num) -> Num:
    """``log1p(usual)``, in float64; where arguments are ``far`` from the ends of the range of their squares,
    ``log(2 x)`` for ``above = x - 1``."""
    if m.bits == 32:  # squares of float32 are in the range of float64
        return log1p(m.doubles, usual)
    return log1p(m, m.select(far, above, usual)) + m.select(far, math.log(2.0), 0.0)


def asinh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log1p(a + a**2 / (1 + sqrt(1 + a**2)))`` for a = |x|."""
    w = m.doubles
    a = w.abs(m.wide(x))
    square = a * a
    usual = a + square / (w.sqrt(square + 1.0) + 1.0)
    out = m.narrow(_log_of_sum(m, a > _FAR, usual, a - 1.0))
    return m.copysign(m.select(m.abs(x) < math.inf, out, x), x)


def acosh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log1p(t + sqrt(2 t + t**2))`` for t = x - 1."""
    w = m.doubles
    t = m.wide(x) - 1.0
    root = w.sqrt(w.fma(t, t, t + t))
    total, far = t + root, t > _FAR
    out = _log_of_sum(m, far, total, t)
    if m.bits == 64:  # what the sum lost, times the derivative: (x + root) (x - root) = 1
        out = out + m.select(far, 0.0, ((root - total) + t) * (x - root))
    return m.select(x < 1.0, math.nan, m.narrow(out))


def atanh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log1p(2 a / (1 - a)) / 2`` for a = |x|."""
    w = m.doubles
    a = w.abs(m.wide(x))
    return m.copysign(m.narrow(log1p(w, (a + a) / (1.0 - a)) * 0.5), x)


def hypot(m: Kit, x: Num, y: Num) -> Num:
    """1 ulp."""
    w = m.doubles
    a, b = w.abs(m.wide(x)), w.abs(m.wide(y))
    out = m.narrow(w.sqrt(w.fma(a, a, b * b)) if m.bits == 32 else _hypot(m, a, b))
    return m.select(m.abs(x).same(math.inf) | m.abs(y).same(math.inf), math.inf, out)


def _hypot(m: Kit, a: Num, b: Num) -> Num:
    """Of float64, scaled so that squares are in range, with what rounding takes from them."""
    larger = m.select(a > b, a, b)
    huge, tiny = larger > 2.0**500, larger < 2.0**-500
    scale = m.select(huge, 2.0**-600, m.select(tiny, 2.0**600, 1.0))
    back = m.select(huge, 2.0**600, m.select(tiny, 2.0**-600, 1.0))
    high, low = m.product(larger * scale, larger * scale)
    less = m.select(a > b, b, a) * scale
    more, least = m.product(less, less)
    total = high + more
    rest = ((high - total) + more) + (low + least)
    root = m.sqrt(total)
    return m.select(total > 0.0, root + rest / (root + root), total) * back
