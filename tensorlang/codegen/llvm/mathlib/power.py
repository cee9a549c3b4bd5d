"""pow and cbrt for any number of lanes, in float32 and float64: pow at most 4 ulp, and the special cases of C
(ISO C, F.10.4.4); cbrt at most 1 ulp.

``x**y = 2**(y log2 x)``. For the product to be precise enough as an exponent, the logarithm is a sum of two
floats (Dekker, Numer. Math. 18, 1971). Positive normal ``x`` with a normal result is the common case; all
others go the long way.
"""

from __future__ import annotations

import math

from .exponential import exp2_fraction
from .kit import Kit, Num
from .logarithm import UNIT, outside, split, unusual

# The rest of log(1 + f) on -0.192 <= f <= 0.2155, float32: after two terms, over f**3, relative error in the
# logarithm 2**-31.3; float64: after three terms, over f**4, relative error 2**-63
_TAIL = {
    32: (
        0.3333333730697632,
        -0.2500016987323761,
        0.19999176263809204,
        -0.16644926369190216,
        0.1432170867919922,
        -0.13344085216522217,
        0.10992812365293503,
    ),
    64: (
        -0.24999999999999967,
        0.2000000000000108,
        -0.16666666666690877,
        0.14285714285226342,
        -0.12499999993707044,
        0.11111111194459812,
        -0.1000000081828379,
        0.09090901939236455,
        -0.08333272996340205,
        0.07692643806784681,
        -0.07145494275634626,
        0.0665810922588121,
        -0.06182521375534822,
        0.059830983865952175,
        -0.06480655731672505,
        0.05130647185656439,
    ),
}
_THIRD = (0.3333333333333333, 1.850371707708594e-17)
_LOWEST = 0.81
_MIDDLE = 8 / 7  # from here on the mantissa is taken times 3/4
_LOG2_4_3 = (0.4150390625, -1.5632211561814537e-06)
_SPLIT = {
    32: 2.0**100,
    64: 2.0**900,
}  # y above cannot be split for an exact product, and makes the result 0, 1 or infinite
_LOG2_E = {32: (1.4426950216293335, 1.925963033500011e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)}


def _log2(m: Kit, x: Num) -> tuple[Num, Num]:
    """log2 of positive normal numbers as the sum of a float and a smaller one: relative error about 2**-29
    (float32), 2**-61 (float64)."""
    e, mantissa = split(m, x, _LOWEST)
    large = mantissa > _MIDDLE
    f = m.fma(mantissa, -m.select(large, 0.25, m.num(0.0)), mantissa - 1.0)  # exact
    e = m.fma(e, UNIT[m.bits], m.select(large, _LOG2_4_3[0], m.num(0.0)))  # exact
    half, half_rest = m.product(f, f * 0.5)
    u = f - half
    rest = ((f - u) - half) - half_rest
    if m.bits == 32:
        rest = m.fma(m.polynomial(f, _TAIL[32]), half * (f + f), rest)
    else:
        square, square_rest = half + half, half_rest + half_rest
        cube, cube_rest = m.product(square, f)
        third, third_rest = m.product(cube, _THIRD[0])
        third_rest = third_rest + m.fma(cube, _THIRD[1], m.fma(square_rest, f, cube_rest) * _THIRD[0])
        v = u + third
        rest = ((u - v) + third) + (rest + third_rest)
        rest = m.fma(m.polynomial(f, _TAIL[64]), square * square, rest)
        u = v + rest
        rest = (v - u) + rest
    factor, factor_rest = _LOG2_E[m.bits]
    high, low = m.product(u, factor)
    low = low + m.fma(u, factor_rest, rest * factor)
    total = e + high
    return total, ((e - total) + high) + (low + m.select(large, _LOG2_4_3[1], m.num(0.0)))


def pow(m: Kit, x: Num, y: Num) -> Num:
    """4 ulp: what is taken from the logarithm as negligible counts up to 128 (float64: 1,024) times in the
    exponent."""
    high, low = _log2(m, x)
    z, rest = m.product(high, y)
    total = m.fma(low, y, z)  # the low part is not small enough to be left out here
    whole, n = m.rounded(total)
    fast = m.moved_exponent(exp2_fraction(m, (z - whole) + m.fma(low, y, rest)), n)
    rare = unusual(m, x) | m.abs(total).beyond(m.format.bias - 1.5)
    if not m.em.target.has_fma:
        rare = rare | m.abs(y).beyond(_SPLIT[m.bits])
    return m.repaired(fast, rare, wide_pow, x, y)


def wide_pow(m: Kit, x: Num, y: Num) -> Num:
    """pow for all arguments."""
    size = m.abs(x)
    shift = float(m.format.fraction)
    tiny = size < m.format.least
    high, low = _log2(m, m.select(tiny, size * 2.0**shift, size))
    less = m.select(tiny, shift, m.num(0.0))
    moved = high - less
    low = low + ((high - moved) - less)
    z, rest = m.product(moved, y)
    rest = m.fma(low, y, rest)
    z = m.select(size.same(0.0), -y * math.inf, m.select(size.same(math.inf), y * math.inf, z))
    top = m.format.bias + m.format.fraction + 4.0
    rest = m.select(m.abs(z).beyond(top) | m.abs(y).beyond(_SPLIT[m.bits]), 0.0, rest)
    z = m.at_least(m.at_most(z, top), -top)
    whole, n = m.nearest(z + rest)
    out = m.scaled(exp2_fraction(m, (z - whole) + rest), n)
    out = m.select(x.unordered(), x, m.select(y.unordered(), y, out))
    whole_y = m.integral(y)
    negative = m.bits_of(x) < 0
    nowhere = (x < 0.0) & (size < math.inf) & (whole_y ^ m.num(1, "b"))
    odd = negative & whole_y & (m.integral(y * 0.5) ^ m.num(1, "b"))
    out = m.select(odd, -out, m.select(nowhere, math.nan, out))
    out = m.select(size.same(1.0) & m.abs(y).same(math.inf), 1.0, out)
    return m.select(x.same(1.0) | y.same(0.0), 1.0, out)


# the bits from which a third of those of x leaves an estimate of x**(-1/3), off by 3.5 % at most; below what
# size a step would be subnormal, what brings x away from there, and its cube root back
_CUBE = {
    32: (0x54A1F000, 2.0**-62, 2.0**96, 2.0**-32),
    64: (0x553EE8E0632AE000, 2.0**-500, 2.0**600, 2.0**-200),
}
# (1 - e)**(-1/3) in e, from the second term on, on |e| <= 0.107: relative errors 2**-18.2 and 2**-31.8
_INVERSE = {
    32: (0.33332911133766174, 0.22359900176525116, 0.17455452680587769),
    64: (
        0.3333333497146985,
        0.2222222556927495,
        0.172827909199001,
        0.14401726162430914,
        0.1268585033330599,
        0.1131290226060674,
    ),
}


def cbrt(m: Kit, x: Num) -> Num:
    """1 ulp; 0.67 at most in float32. ``e = 1 - x r**3`` of an estimate ``r`` of the inverse cube root is put
    to rights by a polynomial in ``e`` (a step of Householder's method), and ``y = x r**2`` keeps half of the
    digits and one more: so few that its square is nearly exact, and enough that Newton's step from
    ``x - y**3`` is off by a quarter of an ulp at most."""
    size, least = m.abs(x), _CUBE[m.bits][1]
    near = _root_of_cube(m, size, x)
    rare = outside(m, size, least, 1 / least) & size.differs(0.0)
    return m.repaired(near, rare, far_cbrt, x)


def far_cbrt(m: Kit, x: Num) -> Num:
    """cbrt of what is tiny, huge, infinite or NaN."""
    size, (_, _, up, down) = m.abs(x), _CUBE[m.bits]
    tiny = size < 1.0
    a = size * m.select(tiny, up, 1 / up)
    out = _root_of_cube(m, a, a) * m.select(tiny, down, 1 / down)
    return m.select(size < math.inf, m.copysign(out, x), x)


def _root_of_cube(m: Kit, a: Num, x: Num) -> Num:
    """Of ``x``, whose size is ``a``."""
    start = _CUBE[m.bits][0]
    if m.bits == 32:
        r = m.from_bits(m.to_integer(m.fma(m.to_float(m.bits_of(a)), -1 / 3, float(start))))
    else:
        third = m.bits_of(a).logical(2)
        for n in (2, 4, 8, 16):
            third = third + third.logical(n)
        r = m.from_bits(m.num(start, "i") - third)
    product = a * r
    e = m.fma(-product, r * r, 1.0)
    r = m.fma(r * e, m.horner(e, _INVERSE[m.bits]), r)
    square = r * r
    half = m.format.fraction // 2
    y = m.from_bits(m.bits_of(x * square) + (1 << half - 1) & -1 << half)
    if m.em.target.has_fma:  # turned round, what is left of a negative zero leaves it one
        return m.fma(m.fma(y * y, y, -x) * square, -1 / 3, y)
    return m.copysign(m.fma(m.less_product(x, y * y, y) * square, 1 / 3, y), x)
