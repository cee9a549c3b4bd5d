"""erf for any number of lanes, in float32 and float64: at most 2 ulp, without fma too."""

from __future__ import annotations

from .exponential import reduced
from .kit import Kit, Num

# erf(x) = x + x P(x**2) for small x; relative errors 2**-26.6 and 2**-62.7 (to 1)
_ERF = {
    32: (
        0.12837915122509003,
        -0.3761254549026489,
        0.112823985517025,
        -0.02678913064301014,
        0.005028335377573967,
        -0.0006181278149597347,
    ),
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
# 1 - 2**(Q(|x|) |x|) above in float32, an error of 0.05 ulp; as many coefficients as below
_ERF_POWER = (
    -1.6281124353408813,
    -0.9171136617660522,
    -0.15190468728542328,
    0.03305095061659813,
    -0.004646699875593185,
    0.0003097304725088179,
)
# 2**r on |r| <= 1/2: a relative error of 2**-23.7
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
_ABOVE = {32: 0.8798828125, 64: 1.0}
_ONE = {32: 4.0, 64: 5.93}  # from which it is 1


def erf(m: Kit, x: Num) -> Num:
    """2 ulp; 1.5 at most with fma in float32, 1.7 without."""
    size = m.at_most(m.abs(x), _ONE[m.bits])
    above = m.abs(x) > _ABOVE[m.bits]
    if m.bits == 32:
        square, fused = x * x, m.em.target.has_fma
        series = m.horner if fused else m.polynomial  # in fewer steps, or in shorter chains
        if fused:
            # one polynomial, whose coefficients each lane picks: of two there were more multiplications than
            # a processor has units for. Measured (Zen 4): gelu takes 0.78 of the time, with AVX2 0.98; with
            # SSE, which picks in three steps, 1.2
            picked = [m.select(above, high, low) for high, low in zip(_ERF_POWER, _ERF[32], strict=True)]
            low = high = series(m.select(above, size, square), picked)
        else:
            low, high = series(square, _ERF[32]), series(size, _ERF_POWER)
        small, power = m.fma(low, x, x), high * size
        # what is taken from 1 is less than 0.22, and needs fewer of its digits
        whole, n = m.rounded(power)
        large = 1.0 - m.moved_exponent(series(power - whole, _POWER), n)
    else:
        small = m.fma(m.polynomial(x * x, _ERF[64]), x, x)
        n, p = reduced(m, m.fma(m.polynomial(size, _ERF_LARGE), size, -size))
        large = 1.0 - (p + 1.0) * m.power_of_two(n)
    # NaN is neither above nor changed by the first
    return m.select(above, m.copysign(large, x), small)
