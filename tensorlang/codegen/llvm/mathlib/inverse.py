"""Inverses of the trigonometric and hyperbolic functions, and hypot, for any number of lanes, in float32 and
float64: at most 2 ulp.

hypot of float32 is computed in float64 and rounded.
"""

from __future__ import annotations

import math

from .kit import Kit, Num
from .logarithm import log1p, log_of_far, log_of_pair, outside

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
# (atanh(z) / z - 1) / z**2 in z**2 on |z| <= 1/2, float32: a relative error of 2**-29.4
_ATANH = (
    0.33333301544189453,
    0.2000245302915573,
    0.1422378569841385,
    0.11816386133432388,
    0.05160436034202576,
    0.1763785034418106,
)
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


def asinh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log(a + sqrt(a**2 + 1))`` for a = |x|, of which float32 keeps what
    rounding takes from each step."""
    a = m.abs(x)
    square, square_rest = m.product(a, a)
    if m.bits == 64:
        usual = a + square / (m.sqrt(square + 1.0) + 1.0)
        out = _precise_log(m, a > _FAR, usual, a - 1.0)
        return m.copysign(m.select(a < math.inf, out, x), x)
    total = square + 1.0
    rest = m.at_most(square, 1.0) - (total - m.at_least(square, 1.0)) + square_rest
    root, root_rest = _root(m, total, rest)
    near = log_of_pair(m, *_sum(root, a, root_rest))
    return m.repaired(m.copysign(near, x), a.beyond(2.0**60), far_asinh, x)


def far_asinh(m: Kit, x: Num) -> Num:
    """asinh of float32 from 2**60 on."""
    return m.copysign(log_of_far(m, m.abs(x), 1.0), x)


def acosh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log(x + sqrt(x**2 - 1))``, of which float32 keeps what rounding takes
    from each step."""
    if m.bits == 64:
        return _precise_acosh(m, x)
    square, square_rest = m.product(x, x)
    total = square - 1.0
    root, root_rest = _root(m, total, ((square - total) - 1.0) + square_rest)
    near = log_of_pair(m, *_sum(x, root, root_rest))
    return m.repaired(near, outside(m, x, 1.0, 2.0**60), far_acosh, x)


def far_acosh(m: Kit, x: Num) -> Num:
    """acosh of float32 from 2**60 on, and below 1."""
    return m.select(x < 1.0, math.nan, log_of_far(m, x, 1.0))


def _root(m: Kit, x: Num, rest: Num) -> tuple[Num, Num]:
    """The square root of the sum of two floats, as one."""
    root = m.sqrt(x)
    # the least number keeps the root of 0 from dividing 0
    return root, (m.less_product(x, root, root) + rest) / (root + (root + m.format.least))


def _sum(a: Num, b: Num, rest: Num) -> tuple[Num, Num]:
    """``a + b + rest`` as a sum of two floats, for ``a`` not below ``b`` (Dekker, Numer. Math. 18, 1971)."""
    total = a + b
    return total, (b - (total - a)) + rest


def _precise_log(m: Kit, far: Num, usual: Num, above: Num) -> Num:
    """``log1p(usual)``; where arguments are ``far`` from the ends of the range of their squares, ``log(2 x)``
    for ``above = x - 1``."""
    return log1p(m, m.select(far, above, usual)) + m.select(far, math.log(2.0), 0.0)


def _precise_acosh(m: Kit, x: Num) -> Num:
    """``log1p(t + sqrt(2 t + t**2))`` for t = x - 1."""
    t = x - 1.0
    root = m.sqrt(m.fma(t, t, t + t))
    total, far = t + root, t > _FAR
    out = _precise_log(m, far, total, t)
    # what the sum lost, times the derivative: (x + root) (x - root) = 1
    out = out + m.select(far, 0.0, ((root - total) + t) * (x - root))
    return m.select(x < 1.0, math.nan, out)


def atanh(m: Kit, x: Num) -> Num:
    """1 ulp in float32, 2 in float64. ``log1p(2 a / (1 - a)) / 2`` for a = |x|; in float32 ``n ln2 / 2 +
    atanh(z)`` for the ``z`` that tells ``(1 + a) / (1 - a)`` from ``2**n``, which is ``a`` below 1/2."""
    a = m.abs(x)
    if m.bits == 64:
        return m.copysign(log1p(m, (a + a) / (1.0 - a)) * 0.5, x)
    f = m.format
    apart = m.bits_of(a + 1.0) - m.bits_of(1.0 - a) + (1 << f.fraction - 1)
    bits = m.select(a < 0.5, m.num(0, "i"), apart & -1 << f.fraction)
    power = m.from_bits(bits + f.literal(1.0))
    less, more = 1.0 - power, power + 1.0
    z = (m.fma(a, power, less) + a) / (m.fma(-a, power, more) + a)  # products are exact
    square = z * z
    near = m.fma(m.polynomial(square, _ATANH), square * z, z)
    out = m.fma(m.to_float(bits.logical(f.fraction)), math.log(2.0) / 2, near)
    return m.repaired(m.copysign(out, x), a.beyond(1.0 - 2.0**-23), far_atanh, x)


def far_atanh(m: Kit, x: Num) -> Num:
    """atanh of what is not between -1 and 1, and of the float32 next to these, whose power of two less 1 is
    no float32."""
    out = m.select(m.abs(x).same(1.0), math.inf, math.nan)
    return m.copysign(m.select(m.abs(x) < 1.0, math.atanh(1.0 - 2.0**-24), out), x)


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
