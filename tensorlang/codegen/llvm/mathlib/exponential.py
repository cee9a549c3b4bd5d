"""exp and what is made of it, for any number of lanes, in float32 and float64: at most 2 ulp, right for
infinities, NaN, overflow and subnormals. No tables. What overflows or loses bits to subnormals is left to a
second formula where that is quicker.

All rest on ``x = n ln2 + r`` with ``|r| <= ln2 / 2`` and a polynomial for ``e**r - 1``.
"""

from __future__ import annotations

import math

from .kit import Kit, Num

# (e**r - 1 - r) / r**2 on |r| <= 1.01 ln2 / 2: relative errors in e**r 2**-28.1 and 2**-63.5
_EXP = {
    32: (
        0.4999999403953552,
        0.1666651964187622,
        0.04166839271783829,
        0.008368780836462975,
        0.0013814467238262296,
    ),
    64: (
        0.5,
        0.16666666666666685,
        0.0416666666666665,
        0.00833333333331569,
        0.0013888888888982918,
        0.0001984126989975526,
        2.48015871283554e-05,
        2.755723145867895e-06,
        2.7557437395931945e-07,
        2.511323325904818e-08,
        2.086608509680292e-09,
    ),
}
# (2**r - 1) / r on |r| <= 1/2: relative errors in 2**r 2**-28.3 and 2**-59.2
_EXP2 = {
    32: (
        0.6931471824645996,
        0.24022647738456726,
        0.05550359562039375,
        0.009618500247597694,
        0.0013390976237133145,
        0.00015328943845815957,
    ),
    64: (
        0.6931471805599453,
        0.24022650695910064,
        0.05550410866482291,
        0.009618129107631991,
        0.0013333558146173291,
        0.00015403530387605947,
        1.5252734027085884e-05,
        1.3215491066826446e-06,
        1.0177990051597896e-07,
        7.053443868676241e-09,
        4.464828003473794e-10,
        2.759589006631527e-11,
    ),
}
# the same of float32 with a term less: 1.82 ulp at most, of all remainders
_EXP2_SHORT = (
    0.693146824836731,
    0.24022237956523895,
    0.05550896003842354,
    0.009671720676124096,
    0.0013224551221355796,
)
# (10**r - 1) / r on |r| <= 1.01 log10(2) / 2: relative errors in 10**r 2**-30 and 2**-57.6
_EXP10 = {
    32: (
        2.3025851249694824,
        2.650949001312256,
        2.034669876098633,
        1.1712557077407837,
        0.5400479435920715,
        0.20751287043094635,
        0.052998218685388565,
    ),
    64: (
        2.302585092994046,
        2.6509490552392014,
        2.0346785922933477,
        1.1712551489109748,
        0.5393829292202764,
        0.2069958489327927,
        0.06808936303843305,
        0.01959767529629014,
        0.005014000926606979,
        0.0011552298441684687,
        0.00024096533840413972,
        3.6048009244806355e-05,
    ),
}
# (sinh(x) - x) / x**3 in x**2 on |x| <= 1: relative errors 2**-31.4 and 2**-73.8
_SINH = {
    32: (0.1666666716337204, 0.008333315141499043, 0.00019841664470732212, 2.7899995984626003e-06),
    64: (
        0.16666666666666666,
        0.008333333333333333,
        0.000198412698412696,
        2.755731922411629e-06,
        2.5052108346508814e-08,
        1.6059050601291434e-10,
        7.646482893473772e-13,
        2.8482330764282216e-15,
    ),
}

# ln2 and log10(2) in two parts, the first with so few bits that its product with n is exact
_LN2 = {32: (0.693359375, -2.12194440e-4), 64: (0.6931471805598903, 5.497923018708371e-14)}
_LG2 = {32: (0.301025390625, 4.605038981195214e-06), 64: (0.30102999566395283, 2.8363394551044964e-14)}

USUAL = {32: 87.0, 64: 708.0}  # |x| up to which e**x is a normal number
USUAL2 = {32: 126.0, 64: 1022.0}  # and 2**x
_EXACT_SUM = {32: 16.0, 64: 36.0}  # |x| up to which 1 + 2**n has no rounding for e**x near 2**n
_LOWEST, _HIGHEST = {32: -104.0, 64: -746.0}, {32: 89.0, 64: 710.0}  # outside e**x is 0 or infinite


def _remainder(m: Kit, x: Num, whole: Num, parts: tuple[float, float]) -> Num:
    return m.fma(whole, -parts[1], m.fma(whole, -parts[0], x))


def _minus_one(m: Kit, r: Num) -> Num:
    """``e**r - 1``."""
    return m.fma(m.polynomial(r, _EXP[m.bits]), r * r, r)


def reduced(m: Kit, x: Num) -> tuple[Num, Num]:
    """``n`` and ``e**r - 1`` with x = n ln2 + r; for |x| below 2**21."""
    whole, n = m.nearest(x, 1 / math.log(2))
    return n, _minus_one(m, _remainder(m, x, whole, _LN2[m.bits]))


def exp(m: Kit, x: Num) -> Num:
    """2 ulp; 1.26 at most in float32."""
    return m.repaired(usual_exp(m, x), m.abs(x).beyond(USUAL[m.bits]), wide_exp, x)


def usual_exp(m: Kit, x: Num) -> Num:
    """exp of what is known to be no more than ``USUAL`` from 0, or NaN."""
    whole, n = m.rounded(x, 1 / math.log(2))
    r = _remainder(m, x, whole, _LN2[m.bits])
    p = m.fma(m.polynomial(r, _EXP[m.bits]), r * r, r + 1.0)
    return m.grown(p, whole) if m.scales else m.moved_exponent(p, n)


def wide_exp(m: Kit, x: Num) -> Num:
    """exp over the whole range."""
    n, p = reduced(m, m.at_least(m.at_most(x, _HIGHEST[m.bits]), _LOWEST[m.bits]))
    return m.scaled(p + 1.0, n)


def exp2_fraction(m: Kit, r: Num) -> Num:
    """``2**r`` for |r| not above 1/2 by more than rounding."""
    return m.polynomial(r, (1.0, *_EXP2[m.bits]))


def usual_exp2(m: Kit, x: Num) -> Num:
    """exp2 of what is known to be no more than ``USUAL2`` from 0, or NaN: 2 ulp; 1.82 at most in float32. As
    few instructions as there can be, in one chain: it is computed of many vectors that wait for nothing."""

    def fraction(r: Num) -> Num:
        return m.horner(r, (1.0, *_EXP2_SHORT)) if m.bits == 32 else exp2_fraction(m, r)

    if m.scales:
        # Measured (Zen 5): weights of a softmax in the first cache 0.77 of the time
        whole = m.rint(x)
        return m.grown(fraction(x - whole), whole)
    whole, n = m.rounded(x)
    return m.moved_exponent(fraction(x - whole), n)


def exp2(m: Kit, x: Num) -> Num:
    """2 ulp."""
    x = m.at_least(m.at_most(x, m.format.bias + 2.0), -m.format.bias - m.format.fraction - 1.0)
    whole, n = m.nearest(x)
    return m.scaled(exp2_fraction(m, x - whole), n)


def exp10(m: Kit, x: Num) -> Num:
    """2 ulp."""
    x = m.at_least(m.at_most(x, _HIGHEST[m.bits] / 2), _LOWEST[m.bits] / 2)
    whole, n = m.nearest(x, math.log2(10))
    r = _remainder(m, x, whole, _LG2[m.bits])
    return m.scaled(m.fma(m.polynomial(r, _EXP10[m.bits]), r, 1.0), n)


def expm1(m: Kit, x: Num) -> Num:
    """2 ulp. ``2**n (e**r - 1) + (2**n - 1)``, of which the second bracket is exact as long as the first
    matters."""
    whole, n = m.rounded(x, 1 / math.log(2))
    scale = m.moved_exponent(m.num(1.0), n)
    usual = m.fma(scale, _minus_one(m, _remainder(m, x, whole, _LN2[m.bits])), scale - 1.0)
    # of -0 the sum is 0
    return m.repaired(m.copysign(usual, x), m.abs(x).beyond(USUAL[m.bits]), wide_expm1, x)


def wide_expm1(m: Kit, x: Num) -> Num:
    """expm1 over the whole range: all by half, because n may be one more than the largest exponent."""
    clamped = m.at_least(m.at_most(x, _HIGHEST[m.bits]), -2.0 * m.format.fraction)
    n, p = reduced(m, clamped)
    half = m.power_of_two(n - 1)
    return m.select(n.same(0), m.copysign(p, x), m.fma(p, half, half - 0.5) * 2.0)


def sinh(m: Kit, x: Num) -> Num:
    """2 ulp."""
    size = m.abs(x)
    up, down = _halves(m, size)
    square = x * x
    small = m.fma(m.polynomial(square, _SINH[m.bits]) * square, x, x)
    return m.select(size > 1.0, m.copysign(up - down, x), small)


def cosh(m: Kit, x: Num) -> Num:
    """2 ulp."""
    up, down = _halves(m, m.abs(x))
    return up + down


def _halves(m: Kit, size: Num) -> tuple[Num, Num]:
    """``e**size / 2`` and ``e**-size / 2``, for positive ``size``."""
    n, p = reduced(m, m.at_most(size, _HIGHEST[m.bits] + 0.5))  # n is at most 129, 1025
    up = (p + 1.0) * 2.0 * m.power_of_two(n - 2)
    return up, 0.25 / up


def tanh(m: Kit, x: Num) -> Num:
    """2 ulp; 1.8 at most in float32. ``y = h / (h + 1)`` with ``h = (e**2x - 1) / 2``, which is
    ``2**n (e**2r - 1) / 2 + (2**n - 1) / 2`` for ``x = n ln2 / 2 + r``: its second part is exact as long as
    the first matters. Of small ones ``h - h y``, which has the rounding of neither the sum nor the
    quotient."""
    size = m.at_most(m.abs(x), 10.0 if m.bits == 32 else 20.0)
    whole, n = m.rounded(size, 2 / math.log(2))
    r = _half_remainder(m, size, whole)
    # of e**2r, by half
    p = [c * 2.0 ** (k + 1) for k, c in enumerate(_EXP[m.bits])]
    scale = m.moved_exponent(m.num(1.0), n)
    # of NaN it is NaN, whatever a moved exponent makes of it
    h = m.fma(scale, m.fma(m.polynomial(r, p), r * r, r), m.fma(scale, 0.5, -0.5))
    y = h / (h + 1.0)
    return m.copysign(m.select(h < 0.5, m.fma(-y, h, h), y), x)


def _half_remainder(m: Kit, x: Num, whole: Num) -> Num:
    """``x - whole ln2 / 2`` for small ``whole``: float32 holds ln2 with four bits more than it has, so that
    with fma one step is as good as two."""
    if m.bits == 32 and m.em.target.has_fma:
        return m.fma(whole, -math.log(2) / 2, x)
    high, low = _LN2[m.bits]
    return _remainder(m, x, whole, (high / 2, low / 2))


def sigmoid(m: Kit, x: Num) -> Num:
    """2 ulp; 1.69 at most in float32. ``1 / (1 + e**-x)`` with ``1 + e**-x = (1 + 2**n) + 2**n (e**r - 1)``,
    while the first bracket is exact."""
    whole, n = m.rounded(x, -1 / math.log(2))
    t = _minus_one(m, _remainder(m, -x, whole, _LN2[m.bits]))
    scale = m.moved_exponent(m.num(1.0), n)
    return m.repaired(
        1.0 / m.fma(scale, t, scale + 1.0), m.abs(x).beyond(_EXACT_SUM[m.bits]), wide_sigmoid, x
    )


def wide_sigmoid(m: Kit, x: Num) -> Num:
    """sigmoid over the whole range: ``z / (1 + z)`` or ``1 / (1 + z)`` with z = e**-|x|, so that neither end
    overflows and small results keep their precision."""
    z = wide_exp(m, -m.abs(x))
    return m.select(x < 0.0, z, 1.0) / (z + 1.0)
