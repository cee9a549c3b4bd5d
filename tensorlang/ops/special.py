"""Special functions of elements, with torch's names: what statistics and physics have beside ``exp`` and
``erf``.

Each is one expression without a loop, so that it runs in vectors and is fused like a product: where the
textbook takes steps until a number is large enough, all steps are made as one quotient of polynomials, and
where several formulas serve, a choice between them. Integers give floats, as for ``ops.exp``. Knows maps; no
other operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs
from .maps import Operand, nary, unary

__all__ = ["digamma", "erfc", "erfinv", "i0", "i0e", "lgamma", "nextafter", "polygamma", "xlog1py", "xlogy"]

STEPS = 10  # from where on the series of the gamma function have the precision of float64


def _float(op: str, x: Tensor, f: Callable[[Expr], Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    return unary(op, x, f, inputs.float_type(x.dtype))


def _horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial whose coefficients are given from the highest power on."""
    found = te.const(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        found = found * x + te.const(c, x.dtype)
    return found


def _nan(like: Expr) -> Expr:
    return te.const(math.nan, like.dtype)


# -- the inverse of the error function


def erfinv(x: Tensor) -> Tensor:
    """The number whose ``erf`` is ``x``: infinite at -1 and 1, NaN beyond. The shape is that of ``x``; floats
    keep their type. Raises DeclareError for what is not a tensor."""
    return _float("erfinv", x, _erfinv)


# M. Giles, "Approximating the erfinv function": the inner part and the tails
# fmt: off
_INNER = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)
# fmt: on


def _erfinv(x: Expr) -> Expr:
    w = -te.log((1 - x) * (1 + x))
    inner = w < 5
    at = te.select(inner, w - te.const(2.5, x.dtype), te.sqrt(w) - 3)
    found = te.select(inner, te.const(_INNER[0], x.dtype), te.const(_TAIL[0], x.dtype))
    for a, b in zip(_INNER[1:], _TAIL[1:], strict=True):
        found = found * at + te.select(inner, te.const(a, x.dtype), te.const(b, x.dtype))
    found = found * x
    if x.dtype.bits == 64:
        for _ in range(2):  # Newton's steps, which double the digits each
            found = found - (te.erf(found) - x) / (
                te.const(2 / math.sqrt(math.pi), x.dtype) * te.exp(-found * found)
            )
    ends = te.copysign(te.const(math.inf, x.dtype), x)
    return te.select(make.eq(te.abs(x), 1), ends, found)


def erfc(x: Tensor) -> Tensor:
    """``1 - erf(x)``, which of large numbers tells what a difference has lost. The shape is
    that of ``x``; floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("erfc", x, _erfc)


# the series of Chebyshev of erfc(x) exp(x²) / t over 2t - 1, t = 2 / (2 + x): Numerical Recipes, 6.2.2
# fmt: off
_ERFC = (
    -2.8e-17, 1.21e-16, -9.4e-17, -1.523e-15, 7.106e-15, 3.81e-16, -1.12708e-13, 3.13092e-13, 8.94487e-13,
    -6.886027e-12, 2.394038e-12, 9.6467911e-11, -2.27365122e-10, -9.91364156e-10, 5.059343495e-9,
    6.529054439e-9, -8.5238095915e-8, 1.5626441722e-8, 1.303655835580e-6, -1.624290004647e-6,
    -2.0278578112534e-5, 4.2523324806907e-5, 3.66839497852761e-4, -9.46595344482036e-4,
    -9.561514786808631e-3, 1.9476473204185836e-2, 6.4196979235649026e-1, -1.3026537197817094,
)
# fmt: on


def _erfc(x: Expr) -> Expr:
    least, dropped = (0.0, 32) if x.dtype.bits == 64 else (1e-9, 12)
    y = te.abs(x)
    t = 2 / (2 + y)
    series, _, before = _chebyshev(4 * t - 2, [te.const(c, x.dtype) for c in _ERFC if abs(c) > least])
    # the last coefficient counts half of itself, as the first of such a series does
    power = te.const(0.5, x.dtype) * (series - before)
    # the square of the first half of the digits is exact; what is left of the other is small
    whole = f"int{x.dtype.bits}"
    short = te.float_of_bits(te.bitwise_and(te.float_bits(y), te.const(-1 << dropped, whole)))
    found = t * te.exp(-short * short) * te.exp(power + (short - y) * (short + y))
    found = te.select(te.isinf(y), te.const(0, x.dtype), found)
    return te.select(x < 0, 2 - found, found)


def _chebyshev(x: Expr, coefficients: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """The last three of the sums by which Clenshaw reads a series at ``x / 2``, from its highest term on."""
    a = b = c = te.const(0, x.dtype)
    for term in coefficients:
        a, b, c = x * a - b + term, a, b
    return a, b, c


# -- the gamma function


def _rising(y: Expr, power: int = 1) -> tuple[Expr, Expr]:
    """``y (y + 1) … (y + STEPS - 1)``, and its derivative."""
    product, slope = te.const(1, y.dtype), te.const(0, y.dtype)
    for k in range(STEPS):
        slope = slope * (y + k) + product if k else product
        product = product * (y + k) if k else y
    return product, slope


def lgamma(x: Tensor) -> Tensor:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and negative whole numbers.
    Floats are computed in float64: the logarithms it is made of cancel around 1 and 2. The shape is that of
    ``x``; floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("lgamma", x, lambda e: te.cast(e.dtype, _lgamma(te.cast("float64", e))))


# Cephes' series of Stirling, and its quotient of polynomials from 2 to 3
# fmt: off
_STIRLING = (
    8.11614167470508450300e-4, -5.95061904284301438324e-4, 7.93650340457716943945e-4,
    -2.77777777730099687205e-3, 8.33333333333331927722e-2,
)
_ABOVE = (
    -1.37825152569120859100e3, -3.88016315134637840924e4, -3.31612992738871184744e5,
    -1.16237097492762307383e6, -1.72173700820839662146e6, -8.53555664245765465627e5,
)
_BELOW = (
    1.0, -3.51815701436523470549e2, -1.70642106651881159223e4, -2.20528590553854454839e5,
    -1.13933444367982507207e6, -2.53252307177582951285e6, -2.01889141433532773231e6,
)
# fmt: on


def _lgamma(x: Expr) -> Expr:
    negative = x < 0
    y = te.abs(x)
    # below 3: from 2 to 3, and the logarithm of the steps there. Their product, less 1, is told exactly
    # around 1
    tiny, one = y < 1, y < 2
    t = te.select(tiny, y, te.select(one, y - 1, y - 2))
    steps = te.select(tiny, y * (y + 1), te.select(one, y, te.const(1, x.dtype)))
    around = t * _horner(t, _ABOVE) / _horner(t, _BELOW)
    # above: Stirling's series, ten steps further where it needs them
    near = y < STEPS
    product, _ = _rising(y)
    z = te.select(near, y + STEPS, y)
    w = 1 / (z * z)
    # z log z of the largest numbers is infinite though nothing is taken off: nor is that
    far = (z - te.const(0.5, x.dtype)) * te.log(z) - z + te.const(0.5 * math.log(2 * math.pi), x.dtype)
    far = far + _horner(w, _STIRLING) / z
    low = y < 3
    taken = te.log(te.select(low, steps, te.select(near, product, te.const(1, x.dtype))))
    found = te.select(low, around, far) - taken
    found = te.select(te.isinf(y), y, found)
    # Γ(-y) Γ(y) = -π / (y sin πy): the sine of what is left of the nearest whole number
    left = y - te.nearbyint(y)
    sine = te.abs(te.sin(te.const(math.pi, x.dtype) * left))
    mirrored = te.log(te.const(math.pi, x.dtype) / (y * sine)) - found
    mirrored = te.select(te.any(make.eq(left, 0), te.isinf(y)), te.const(math.inf, x.dtype), mirrored)
    return te.select(negative, mirrored, found)


# fmt: off
_DIGAMMA = (
    8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3,
    -4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3,
    8.33333333333333333333e-2,
)
# fmt: on


def digamma(x: Tensor) -> Tensor:
    """The derivative of ``lgamma``; infinite at 0, with the sign of ``-x``, and NaN at negative whole
    numbers. The shape is that of ``x``; floats keep their type. Raises DeclareError for what is not a
    tensor."""
    return _float("digamma", x, _digamma)


def _digamma(x: Expr) -> Expr:
    negative = x < 0
    y = te.select(negative, 1 - x, x)
    near = y < STEPS
    product, slope = _rising(y)
    z = te.select(near, y + STEPS, y)
    w = 1 / (z * z)
    found = te.log(z) - te.const(0.5, x.dtype) / z - w * _horner(w, _DIGAMMA)
    found = found - te.select(near, slope / product, te.const(0, x.dtype))
    left = x - te.nearbyint(x)
    pi = te.const(math.pi, x.dtype)
    mirrored = te.select(make.eq(left, 0), _nan(x), found - pi / te.tan(pi * left))
    return te.select(
        make.eq(x, 0), te.copysign(te.const(math.inf, x.dtype), -x), te.select(negative, mirrored, found)
    )


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def polygamma(n: int, x: Tensor) -> Tensor:
    """The derivative of order ``n`` of ``digamma``, infinite at 0 and negative whole numbers. Raises
    DeclareError for orders below 0, and above 12, whose numbers are beyond float32's."""
    if not 0 <= n <= 12:
        raise DeclareError(f"ops.polygamma: order {n}", because="orders are from 0 to 12")
    if n == 0:
        return digamma(x)
    return _float("polygamma", x, lambda e: te.cast(e.dtype, _polygamma(n, te.cast("float64", e))))


def _polygamma(n: int, x: Expr) -> Expr:
    def number(v: float) -> Expr:
        return te.const(v, x.dtype)

    def power(v: Expr, k: int) -> Expr:
        found = v
        for _ in range(k - 1):
            found = found * v
        return found

    negative = x < number(0.5)
    y = te.select(negative, 1 - x, x)
    near = y < STEPS
    steps = number(0)
    for k in range(STEPS):
        steps = steps + power(1 / (y + k), n + 1)
    z = te.select(near, y + STEPS, y)
    r, w = 1 / z, 1 / (z * z)
    # the sum from z on by Euler and Maclaurin: its integral, half its first term, and derivatives there
    found = power(r, n) / n + power(r, n + 1) / 2
    term = power(r, n) * w
    for k, b in enumerate(_BERNOULLI, 1):
        factor = math.prod(range(n + 1, n + 2 * k)) / math.factorial(2 * k)
        found = found + number(b * factor) * term
        term = term * w
    found = found + te.select(near, steps, number(0))
    found = found * number((-1) ** (n + 1) * math.factorial(n))
    # the mirror takes off a derivative of π cot πx, a polynomial in the cotangent
    slope = [1.0, 0.0]  # of cot, from the highest power on: each derivative multiplies by -(1 + cot²)
    for _ in range(n):
        derived = [c * (len(slope) - 1 - i) for i, c in enumerate(slope[:-1])]
        slope = [-a - b for a, b in zip([*derived, 0.0, 0.0], [0.0, 0.0, *derived], strict=True)]
    left = x - te.nearbyint(x)
    cotangent = 1 / te.tan(number(math.pi) * left)
    sign = (-1) ** n
    mirrored = number(sign) * found - number(math.pi ** (n + 1)) * _horner(cotangent, slope)
    pole = number(-sign * math.inf)
    return te.select(negative, te.select(make.eq(left, 0), pole, mirrored), found)


# -- Bessel's functions


# Cephes' series of Chebyshev: of exp(-x) I0(x) up to 8, and of exp(-x) √x I0(x) beyond
# fmt: off
_I0_NEAR = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16, 1.715391285555133e-15,
    -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13, 2.95505266312964e-12,
    -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09,
    -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07, 1.1173875391201037e-06,
    -4.4167383584587505e-06, 1.6448448070728896e-05, -5.754195010082104e-05, 0.00018850288509584165,
    -0.0005763755745385824, 0.0016394756169413357, -0.004324309995050576, 0.010546460394594998,
    -0.02373741480589947, 0.04930528423967071, -0.09490109704804764, 0.17162090152220877,
    -0.3046826723431984, 0.6767952744094761,
)
_I0_FAR = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15, 3.8116806693526224e-15,
    -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13,
    7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11, -3.1499165279632416e-11,
    1.1889147107846439e-11, 4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08,
    2.0489185894690638e-07, 2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943,
    0.8044904110141088,
)
# fmt: on


def i0(x: Tensor) -> Tensor:
    """Bessel's modified function of the first kind, of order 0. The shape is that of ``x``; floats keep their
    type. Raises DeclareError for what is not a tensor."""
    return _float("i0", x, lambda e: te.exp(te.abs(e)) * _i0e(e))


def i0e(x: Tensor) -> Tensor:
    """``exp(-|x|) i0(x)``, which is in the range of floats where ``i0`` is not."""
    return _float("i0e", x, _i0e)


def _i0e(x: Expr) -> Expr:
    y = te.abs(x)
    near = y <= 8
    at = te.select(near, y / 2 - 2, 32 / y - 2)
    # terms that float32 does not see are left out of its series
    least = 0.0 if x.dtype.bits == 64 else 1e-9
    first, second = ([c for c in series if abs(c) > least] for series in (_I0_NEAR, _I0_FAR))
    second = [0.0] * (len(first) - len(second)) + second
    terms = [
        te.select(near, te.const(p, x.dtype), te.const(q, x.dtype))
        for p, q in zip(first, second, strict=True)
    ]
    a, _, c = _chebyshev(at, terms)
    found = te.const(0.5, x.dtype) * (a - c)
    return te.select(near, found, found * te.rsqrt(y))


# -- of two tensors


def xlogy(x: Operand, y: Operand) -> Tensor:
    """``x log(y)``, broadcast, and 0 where ``x`` is 0 and ``y`` a number."""
    return _with_logarithm("xlogy", x, y, te.log)


def xlog1py(x: Operand, y: Operand) -> Tensor:
    """``x log1p(y)``, broadcast, and 0 where ``x`` is 0 and ``y`` a number."""
    return _with_logarithm("xlog1py", x, y, te.log1p)


def _with_logarithm(op: str, x: Operand, y: Operand, log: Callable[[Expr], Expr]) -> Tensor:
    def of(a: Expr, b: Expr) -> Expr:
        nothing = te.all(make.eq(a, 0), make.eq(b, b))
        return te.select(nothing, te.const(0, a.dtype), a * log(b))

    return nary(op, (x, y), of, inputs.float_type, inputs.float_type)


def nextafter(x: Operand, y: Operand) -> Tensor:
    """The number beside ``x`` on the way to ``y``, broadcast. Raises DeclareError for what is no float of
    IEEE."""
    return nary("nextafter", (x, y), te.nextafter)
