"""sin, cos, tan for any number of lanes, in float32 and float64: at most 2 ulp over the whole range.

The argument less the nearest multiple of pi (for tan: pi / 2), by Cody and Waite's subtraction in parts while
that multiple is moderate. Far out, in lanes that have it so, float32 takes the reduction of Payne and Hanek
("Radian reduction for trigonometric functions", SIGNUM Newsletter 18, 1983), which needs only those bits of 1
/ pi that matter; float64 calls the C library for these lanes.
"""

from __future__ import annotations

import math

from .kit import Kit, Num
from .libm import lanewise

# (sin(r) / r - 1) / r**2 in r**2 on |r| <= 1.005 pi / 2: relative errors 2**-26 and 2**-61.4; in float32
# fitted to sin(r) less 2**-26 (2 r / pi)**8, so that rounding never makes more than 1 of it
_SIN = {
    32: (-0.16666659712791443, 0.00833306834101677, -0.00019809679361060262, 2.6055720354634104e-06),
    64: (
        -0.16666666666666666,
        0.008333333333333205,
        -0.00019841269841211408,
        2.755731921132879e-06,
        -2.5052106878238044e-08,
        1.6058939514928362e-10,
        -7.6429769044571e-13,
        2.720938255483049e-15,
    ),
}
# float32: (n / r - 1) / r**2 and (d - 1) / r**2 in r**2 with tan(r) = n / d on |r| <= 1.01 pi / 4: relative
# error 2**-31
_QUOTIENT = ((-0.11136017739772797, 0.0010750709334388375), (-0.44469350576400757, 0.015972880646586418))
# float64: (tan(r) / r - 1) / r**2 in r**2 on |r| <= 1.005 pi / 4: relative error 2**-58.3
_TAN = (
    0.33333333333333387,
    0.1333333333332447,
    0.05396825397337709,
    0.021869488386329558,
    0.008863238132713993,
    0.0035920986826716455,
    0.0014560611869554778,
    0.0005887863658251886,
    0.0002440308703655537,
    8.284010171334224e-05,
    6.853691151431101e-05,
    -2.730495626148506e-05,
    5.0037657981635074e-05,
    -2.4971471380965e-05,
    9.95498018337959e-06,
)
# pi in parts, all positive, so that -0 stays -0: with fma three of full precision; without, so short that the
# product of all but the last with the multiple is exact
_PI_FUSED = {
    32: (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
    64: (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32),
}
_PI_SHORT = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21, 1.69568553207378e-31)
_FAR = {32: 2.0**17, 64: 2.0**20}  # beyond, the multiple is too large for that
# 1 / pi, its first 256 bits behind the point
_INVERSE_PI = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5DE2B0


def _subtracted(m: Kit, x: Num, multiple: Num, unit: float = 1.0) -> Num:
    """``x - multiple * unit * pi``; ``unit`` is a power of two. In float64 for float32 without fma: 24 bits
    are too few for short parts."""
    fused = m.em.target.has_fma
    if m.bits == 32 and not fused:
        return _subtracted(m.doubles, m.wide(x), m.wide(multiple), unit)
    for part in _PI_FUSED[m.bits] if fused else _PI_SHORT:
        x = m.fma(multiple, -part * unit, x)
    return x


def _sine(m: Kit, r: Num) -> Num:
    """sin, in the width of ``r``, then rounded. Half of ``r`` is added last, not all of it: what is left has
    the sign of ``r``, so that -0 stays -0."""
    k = r.kit
    s = k.fma(r, k.horner(r * r, (0.5, *_SIN[m.bits])), r * 0.5)
    if m.bits == 64:
        s = m.at_least(m.at_most(s, 1.0), -1.0)  # rounding may go beyond
    return s if k.bits == m.bits else m.narrow(s)


def sin(m: Kit, x: Num) -> Num:
    """2 ulp; 1.86 at most in float32."""
    multiple, n = m.rounded(x, 1 / math.pi)
    near = m.flipped(_sine(m, _subtracted(m, x, multiple)), n)
    return m.repaired(near, m.abs(x).beyond(_FAR[m.bits]), far_sin, x)


def cos(m: Kit, x: Num) -> Num:
    """2 ulp; 1.86 at most in float32. ``cos(x) = sin(x + pi / 2)``: the multiples of pi are those by a half
    more than an integer."""
    size = m.abs(x)
    moved = m.fma(size, 1 / math.pi, 0.5) + m.format.magic
    multiple = (moved - m.format.magic) - 0.5
    r = _subtracted(m, size, multiple)
    near = m.flipped(_sine(m, r), m.bits_of(moved))
    return m.repaired(near, size.beyond(_FAR[m.bits]), far_cos, x)


def tan(m: Kit, x: Num) -> Num:
    """2 ulp; 1.36 at most in float32, where it is the rounded value or one beside it."""
    multiple, n = m.rounded(x, 2 / math.pi)
    if m.em.target.has_fma or m.bits == 64:
        r, rest = _subtracted_pair(m, x, multiple)
    else:
        r, rest = _pair(m, _subtracted(m.doubles, m.wide(x), m.wide(multiple), 0.5))
    near = _quotient(m, r, rest, n) if m.bits == 32 else _tangent(m, r, rest, n)
    return m.repaired(near, m.abs(x).beyond(_FAR[m.bits]), far_tan, x)


def _subtracted_pair(m: Kit, x: Num, multiple: Num) -> tuple[Num, Num]:
    """``x - multiple pi / 2`` and what rounding takes from it."""
    first, *parts, last = (0.5 * p for p in (_PI_FUSED[m.bits] if m.em.target.has_fma else _PI_SHORT))
    r, rest = m.fma(multiple, -first, x), m.num(0.0)
    if m.bits == 32:  # the first difference is exact
        high, low = m.product(multiple, parts[0])
        total = r - high
        rest = m.fma(multiple, -last, ((r - total) - high) - low)
        # beside a pole the rest is more than an ulp
        r = m.copysign(total + rest, total)
        return r, (total - r) + rest
    for part in parts:
        less = m.fma(multiple, -part, r)
        r, rest = less, rest + m.fma(multiple, -part, r - less)
    return r, m.fma(multiple, -last, rest)


def _pair(m: Kit, r: Num) -> tuple[Num, Num]:
    """A float64 as the sum of two float32."""
    high = m.narrow(r)
    return high, m.narrow(r - m.wide(high))


def _quotient(m: Kit, r: Num, rest: Num, n: Num) -> Num:
    """``tan(r + rest)``, or ``-1 / tan(r + rest)`` for odd ``n``, of float32: a quotient either way, of the
    same two. What rounding takes from both changes both quotients by as much, over the square of the divisor;
    what it takes from the quotient, the remainder tells."""
    square = r * r
    above, below = (m.horner(square, c) * square for c in _QUOTIENT)
    above = above * r
    top, bottom = m.copysign(r + above, r), below + 1.0  # of -0 the sum is 0
    # that of r, over the same square, is within a few hundredths of what stands here
    both = m.fma((r - top) + above, bottom, rest)
    both = m.fma((bottom - 1.0) - below, top, both)
    odd = (n & 1).same(1)
    inverse = 1.0 / m.select(odd, top, bottom)
    part, by = m.flipped(m.select(odd, bottom, top), n), m.select(odd, top, bottom)
    quotient = part * inverse
    # the signs are those that leave -0 as it is
    beyond = m.fma(-both, inverse, m.less_product(-part, -quotient, by))
    return m.fma(-beyond, inverse, quotient)


def _tangent(m: Kit, r: Num, rest: Num, n: Num) -> Num:
    """``tan(r + rest)``, or ``-1 / tan(r + rest)`` for odd ``n``, with what rounding takes from the tangent
    and from its inverse: each would cost half an ulp and more."""
    square = r * r
    tail = m.polynomial(square, _TAN) * square * r
    t = r + tail
    rest = m.fma(rest, m.fma(t, t, 1.0), (r - t) + tail)
    inverse = -1.0 / t
    wrong = m.fma(inverse, rest, m.less_product(m.num(1.0), -inverse, t))
    even = m.copysign(t + rest, r)
    return m.select((n & 1).same(1), m.fma(inverse, wrong, inverse), even)


def far_sin(m: Kit, x: Num) -> Num:
    """sin for large arguments, infinities and NaN."""
    if m.bits == 64:
        return lanewise(m, "sin", x)
    r, n = _payne_hanek(m, x, 0, 63)
    return m.flipped(_sine(m, _usual_width(m, r)), n ^ m.bits_of(x).logical(31))


def far_cos(m: Kit, x: Num) -> Num:
    """cos for large arguments, infinities and NaN."""
    if m.bits == 64:
        return lanewise(m, "cos", x)
    r, n = _payne_hanek(m, x, 1 << 62, 63)
    return m.flipped(_sine(m, _usual_width(m, r)), n)


def far_tan(m: Kit, x: Num) -> Num:
    """tan for large arguments, infinities and NaN."""
    if m.bits == 64:
        return lanewise(m, "tan", x)
    r, n = _payne_hanek(m, x, 0, 62)
    return m.flipped(_quotient(m, *_pair(m, r), n), m.bits_of(x).logical(31))


def _usual_width(m: Kit, r: Num) -> Num:
    return m.narrow(r) if m.em.target.has_fma else r


def _payne_hanek(m: Kit, x: Num, offset: int, point: int) -> tuple[Num, Num]:
    """``|x|`` (at least 2**17) less the nearest multiple of a unit, in float64, and that multiple in the
    lowest bit.

    With ``point`` 63 the unit is pi, with 62 it is pi / 2. |x| / pi modulo 2 is computed as an integer over
    2**63; ``offset`` is added to it. With ``|x| = M 2**e`` (M of 24 bits) only the bits of 1 / pi from the
    one of weight ``2**-e`` on can matter, of which 96 are used: the first 64 times M modulo 2**64, and the
    upper half of the next 32 times M. NaN for infinities and NaN.
    """
    w = m.doubles
    bits = w.emit("i", f"zext {m.type('i')} {(m.bits_of(x) & 0x7FFFFFFF).operand} to {w.type('i')}")
    mantissa = (bits & 0x7FFFFF) | 0x800000
    start = bits.logical(23) - (
        150 - 32 + 1
    )  # the first bit that matters, in 1 / pi with 31 zero bits and the point in front
    word, shift = start.logical(5), start & 31
    words = [(_INVERSE_PI >> (224 - 32 * i)) & 0xFFFFFFFF for i in range(8)]
    words = [0, *words]

    def chosen(ahead: int) -> Num:
        out = w.num(words[ahead], "i")
        for k in range(1, 5):
            out = w.select((word > k - 1), w.num(words[k + ahead], "i"), out)
        return out

    a, b = (chosen(0) << 32) | chosen(1), (chosen(2) << 32) | chosen(3)
    first, rest = w.funnel(a, b, shift), w.funnel(b, b, shift).logical(32)
    turns = w.times(mantissa, first) + w.times(mantissa, rest).logical(32) + offset
    n = (turns + (1 << (point - 1))).logical(point)
    r = w.emit("f", f"sitofp {w.type('i')} {(turns << (64 - point)).operand} to {w.type('f')}") * (
        math.pi * 2.0 ** (point - 127)
    )
    n = m.emit("i", f"trunc {w.type('i')} {n.operand} to {m.type('i')}")
    return w.select(m.abs(x) < math.inf, r, math.nan), n
