"""erf for any number of lanes, in float32 and float64: at most 2 ulp, without fma too."""

from __future__ import annotations

from .exponential import reduced
from .kit import Kit, Num

# erf(x) = x + x P(x**2) for small x; relative errors 2**-27 and 2**-62.7 (to 1)
_ERF = {
    32: (1.28379166e-1, -3.76125336e-1, 1.12819925e-1, -2.67681349e-2, 4.99119423e-3, -5.96761703e-4),
    64: (
        0.1283791670955126,
        -0.3761263890318375,
        0.11283791670954858,
        -0.02686617064507296,
        0.00522397762478137,
        -0.0008548326978765149,
        0.00012055331037551108,
        -1.4925593518728226e-05,
        1.6460972954153765e-06,
        -1.635002619207727e-07,
        1.4657883530919653e-08,
        -1.136567067182716e-09,
        5.945255584223488e-11,
    ),
}
# 1 - 2**(Q(|x|) |x|) above in float32, and 2**r on |r| <= 1/2: a relative error of 2**-23.7
_ERF_POWER = (
    -1.6283951997756958,
    -0.9158901572227478,
    -0.1540479063987732,
    0.034992024302482605,
    -0.005603376310318708,
    0.0005528365727514029,
    -2.4937484340625815e-05,
)
_POWER = (
    1.0000001192092896,
    0.6931469440460205,
    0.24022120237350464,
    0.05550713464617729,
    0.009675540961325169,
    0.0013276466634124517,
)
# 1 - e**(Q(|x|) |x| - |x|) above in float64: an error of 2**-58
_ERF_LARGE = (
    -0.12837911085804002,
    -0.6366202526745517,
    -0.10277082712362873,
    0.019124964862617083,
    0.00021203597114271582,
    -0.0016926071694309797,
    0.0005746577750513735,
    9.75757138672022e-07,
    -9.548728529996355e-05,
    5.603899374995127e-05,
    -2.035159179821297e-05,
    5.385327038095398e-06,
    -1.078150620495712e-06,
    1.630281261551224e-07,
    -1.8131277027592096e-08,
    1.4024656049331406e-09,
    -6.74496301677885e-11,
    1.5188901282782253e-12,
)
_ABOVE = {32: 0.927734375, 64: 1.0}
_ONE = {32: 4.0, 64: 5.93}  # from which it is 1


def erf(m: Kit, x: Num) -> Num:
    """2 ulp; 1.6 at most with fma in float32."""
    size = m.at_most(m.abs(x), _ONE[m.bits])
    small = m.fma(m.polynomial(x * x, _ERF[m.bits]), x, x)
    if m.bits == 32:
        # what is taken from 1 is less than 0.2, and needs fewer of its digits
        power = m.polynomial(size, _ERF_POWER) * size
        whole, n = m.rounded(power)
        large = 1.0 - m.moved_exponent(m.polynomial(power - whole, _POWER), n)
    else:
        n, p = reduced(m, m.fma(m.polynomial(size, _ERF_LARGE), size, -size))
        large = 1.0 - (p + 1.0) * m.power_of_two(n)
    # NaN is neither above nor changed by the first
    return m.select(m.abs(x) > _ABOVE[m.bits], m.copysign(large, x), small)
