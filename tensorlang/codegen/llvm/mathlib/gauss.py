"""erf for any number of lanes, in float32: at most 2 ulp, without fma too. float64 stays with libm: two
polynomials do not reach 53 bits."""

from __future__ import annotations

from .exponential import reduced
from .kit import Kit, Num

# erf(x) = x + x P(x**2) for small x; 1 - e**(Q(|x|) |x| - |x|) above
_ERF = (1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3, -5.96761703e-4)
_ERF_LARGE = (
    -1.28717512e-1,
    -6.34846687e-1,
    -1.06777877e-1,
    2.42546219e-2,
    -3.88396438e-3,
    3.83197126e-4,
    -1.72853470e-5,
)


def erf(m: Kit, x: Num) -> Num:
    """2 ulp; 1.09 at most with fma."""
    size = m.at_most(m.abs(x), 4.0)
    small = m.fma(m.polynomial(x * x, _ERF), x, x)
    r = m.fma(m.polynomial(size, _ERF_LARGE), size, -size)
    n, p = reduced(m, r)
    large = 1.0 - (p + 1.0) * m.power_of_two(n)
    return m.select(m.abs(x) > 0.927734375, m.copysign(large, x), m.select(x.unordered(), x, small))
