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

__all__ = [
    "digamma", "erfc", "erfcx", "erfinv", "i0", "i0e", "i1", "i1e", "lgamma", "log_ndtr", "ndtri",
    "nextafter", "polygamma", "xlog1py", "xlogy",
]  # fmt: skip

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
    y, scaled = te.abs(x), _scaled(te.abs(x))
    square, rest = _square(y)
    found = scaled * te.exp(-square) * te.exp(-rest)
    found = te.select(te.isinf(y), te.const(0, x.dtype), found)
    return te.select(x < 0, 2 - found, found)


def _scaled(y: Expr) -> Expr:
    """``erfc(y) exp(y²)`` of what is not negative."""
    least = 0.0 if y.dtype.bits == 64 else 1e-9
    t = 2 / (2 + y)
    series, _, before = _chebyshev(4 * t - 2, [te.const(c, y.dtype) for c in _ERFC if abs(c) > least])
    # the last coefficient counts half of itself, as the first of such a series does
    return t * te.exp(te.const(0.5, y.dtype) * (series - before))


def _square(y: Expr) -> tuple[Expr, Expr]:
    """A square as the exact one of the first half of the digits, and what is left, which is small."""
    whole, dropped = f"int{y.dtype.bits}", 32 if y.dtype.bits == 64 else 12
    short = te.float_of_bits(te.bitwise_and(te.float_bits(y), te.const(-1 << dropped, whole)))
    return short * short, (y - short) * (y + short)


def erfcx(x: Tensor) -> Tensor:
    """``exp(x²) erfc(x)``, which tells large numbers apart where ``erfc`` is 0. The shape is that of ``x``;
    floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("erfcx", x, _erfcx)


def _erfcx(x: Expr) -> Expr:
    y = te.abs(x)
    square, rest = _square(y)
    mirrored = 2 * te.exp(square) * te.exp(rest) - _scaled(y)
    return te.select(x < 0, te.select(te.isinf(y), y, mirrored), _scaled(y))


def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the normal distribution's function, exact far below 0 too. The shape is that of ``x``;
    floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("log_ndtr", x, _log_ndtr)


def _log_ndtr(x: Expr) -> Expr:
    t = x * te.const(math.sqrt(0.5), x.dtype)
    below = te.log(_scaled(te.abs(t)) / 2) - t * t
    return te.select(x < -1, te.select(te.isinf(x), x, below), te.log1p(-_erfc(t) / 2))


# Cephes' quotients: in the middle, and of the tails up to exp(-32) and beyond
# fmt: off
_MIDDLE = (
    (
        -59.9633501014107895, 98.0010754185999661, -56.6762857469070293, 13.9312609387279679,
        -1.23916583867381258,
    ),
    (
        1.0, 1.95448858338141760, 4.67627912898881538, 86.3602421390890590, -225.462687854119371,
        200.260212380060660, -82.0372256168333340, 15.9056225126211695, -1.18331621121330003,
    ),
)
_TAILS = (
    (
        4.05544892305962420, 31.5251094599893866, 57.1628192246421288, 44.0805073893200835,
        14.6849561928858024, 2.18663306850790268, -0.140256079171354496, -3.50424626827848203e-2,
        -8.57456785154685413e-4,
    ),
    (
        1.0, 15.7799883256466750, 45.3907635128879211, 41.3172038254672030, 15.0425385692907503,
        2.50464946208309416, -0.142182922854787789, -3.80806407691578277e-2, -9.33259480895457427e-4,
    ),
    (
        3.23774891776946036, 6.91522889068984212, 3.93881025292474443, 1.33303460815807542,
        0.201485389549179082, 1.23716634817820021e-2, 3.01581553508235416e-4, 2.65806974686737551e-6,
        6.23974539184983293e-9,
    ),
    (
        1.0, 6.02427039364742014, 3.67983563856160859, 1.37702099489081330, 0.216236993594496636,
        1.34204006088543189e-2, 3.28014464682127739e-4, 2.89247864745380684e-6, 6.79019408009981274e-9,
    ),
)
# fmt: on


def ndtri(x: Tensor) -> Tensor:
    """The number below which the normal distribution has ``x``: infinite at 0 and 1, NaN beyond. The shape is
    that of ``x``; floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("ndtri", x, _ndtri)


def _ndtri(p: Expr) -> Expr:
    cut = math.exp(-2)
    upper = p > te.const(1 - cut, p.dtype)
    y = te.select(upper, 1 - p, p)
    m = p - te.const(0.5, p.dtype)
    s = m * m
    middle = te.const(math.sqrt(2 * math.pi), p.dtype) * (
        m + m * (s * _horner(s, _MIDDLE[0]) / _horner(s, _MIDDLE[1]))
    )
    z = te.sqrt(-2 * te.log(y))
    w = 1 / z
    near, far = (_horner(w, over) / _horner(w, under) for over, under in (_TAILS[:2], _TAILS[2:]))
    tail = z - te.log(z) / z - w * te.select(z < 8, near, far)
    found = te.select(y > te.const(cut, p.dtype), middle, te.select(upper, tail, -tail))
    return te.select(make.eq(y, 0), te.copysign(te.const(math.inf, p.dtype), m), found)


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
# the same of exp(-x) I1(x) / x, and of exp(-x) √x I1(x)
_I1_NEAR = (
    2.7779141127610464e-18, -2.111421214358166e-17, 1.5536319577362005e-16, -1.1055969477353862e-15,
    7.600684294735408e-15, -5.042185504727912e-14, 3.223793365945575e-13, -1.9839743977649436e-12,
    1.1736186298890901e-11, -6.663489723502027e-11, 3.625590281552117e-10, -1.8872497517228294e-09,
    9.381537386495773e-09, -4.445059128796328e-08, 2.0032947535521353e-07, -8.568720264695455e-07,
    3.4702513081376785e-06, -1.3273163656039436e-05, 4.781565107550054e-05, -0.00016176081582589674,
    0.0005122859561685758, -0.0015135724506312532, 0.004156422944312888, -0.010564084894626197,
    0.024726449030626516, -0.05294598120809499, 0.1026436586898471, -0.17641651835783406,
    0.25258718644363365,
)
_I1_FAR = (
    7.517296310842105e-18, 4.414348323071708e-18, -4.6503053684893586e-17, -3.209525921993424e-17,
    2.96262899764595e-16, 3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15,
    1.0420276984128802e-14, 4.272440016711951e-14, -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.198551776245908e-13, 2.0356285441470896e-12, 1.4125807436613782e-11, 3.2526035830154884e-11,
    -1.8974958123505413e-11, -5.589743462196584e-10, -3.835380385964237e-09, -2.6314688468895196e-08,
    -2.512236237870209e-07, -3.882564808877691e-06, -0.00011058893876262371, -0.009761097491361469,
    0.7785762350182801,
)
# fmt: on


def i0(x: Tensor) -> Tensor:
    """Bessel's modified function of the first kind, of order 0. The shape is that of ``x``; floats keep their
    type. Raises DeclareError for what is not a tensor."""
    return _float("i0", x, lambda e: te.exp(te.abs(e)) * _i0e(e))


def i0e(x: Tensor) -> Tensor:
    """``exp(-|x|) i0(x)``, which is in the range of floats where ``i0`` is not."""
    return _float("i0e", x, _i0e)


def i1(x: Tensor) -> Tensor:
    """Bessel's modified function of the first kind, of order 1, which is odd. The shape is that of ``x``;
    floats keep their type. Raises DeclareError for what is not a tensor."""
    return _float("i1", x, lambda e: te.exp(te.abs(e)) * _i1e(e))


def i1e(x: Tensor) -> Tensor:
    """``exp(-|x|) i1(x)``, which is in the range of floats where ``i1`` is not."""
    return _float("i1e", x, _i1e)


def _i0e(x: Expr) -> Expr:
    return _bessel(x, _I0_NEAR, _I0_FAR, te.const(1, x.dtype))


def _i1e(x: Expr) -> Expr:
    found = _bessel(x, _I1_NEAR, _I1_FAR, te.abs(x))
    return te.select(x < 0, -found, found)


def _bessel(x: Expr, close: Sequence[float], beyond: Sequence[float], factor: Expr) -> Expr:
    """By two series, with a factor of the first."""
    y = te.abs(x)
    near = y <= 8
    at = te.select(near, y / 2 - 2, 32 / y - 2)
    # terms that float32 does not see are left out of its series
    least = 0.0 if x.dtype.bits == 64 else 1e-9
    first, second = ([c for c in series if abs(c) > least] for series in (close, beyond))
    second = [0.0] * (len(first) - len(second)) + second
    terms = [
        te.select(near, te.const(p, x.dtype), te.const(q, x.dtype))
        for p, q in zip(first, second, strict=True)
    ]
    a, _, c = _chebyshev(at, terms)
    found = te.const(0.5, x.dtype) * (a - c)
    return te.select(near, found * factor, found * te.rsqrt(y))


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
