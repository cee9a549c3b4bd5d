"""Quotients of floats by a known number of few bits, as 6, 255 or 0.1875: a product and a fused multiply-add,
which give the bits of the division in a fifth of its time.

``x / y = fma(x, high, x * low)`` with ``high + low`` near ``1 / y``: Brisebarre, Muller and Raina,
"Accelerating correctly rounded floating-point division when the divisor is known in advance" (IEEE
Transactions on Computers 53, 2004). For ``y = M * 2**e`` with an odd M of b bits a quotient is at least
``2**-(b + 1)`` ulp from where rounding turns, and the sum before its rounding is wrong by ``2**-22`` ulp
(float64: ``2**-51``) at most. ``high`` is rounded towards zero, so that ``low`` has its sign, and an infinite
x gives no difference of infinities. Where ``x * low`` is
subnormal (a float32 quotient below 2**-100) the last bit may differ. Knows expressions and emitters.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ...expr import make
from ...expr.nodes import Const, Div, lane_of
from .emitter import Emitter
from .types import mangle

# bits of the odd part of a divisor, and how far from 1 it may be, so that both parts of 1 / y are normal
MOST_BITS = {"float32": 20, "float64": 48}
FAR = {"float32": 2.0**60, "float64": 2.0**400}


def divided(em: Emitter, e: Div) -> str | None:
    """The quotient, where its divisor is such a number and the machine can."""
    kind = e.dtype.element.name
    scalar = lane_of(e.b)
    parts = reciprocal(scalar.value, kind) if type(scalar) is Const and em.target.has_fma else None
    if parts is None:
        return None
    x, t = em.value(e.a), em.type(e.dtype)
    high, low = (em.value(make.broadcast(make.const(part, kind), e.dtype.lanes)) for part in parts)
    rest = em.ins(f"fmul {t} {x}, {low}")
    name = f"llvm.fma.{mangle(em.element(e.dtype), e.dtype.lanes)}"
    return em.call(t, name, (t, x), (t, high), (t, rest))


def reciprocal(y: int | float, kind: str) -> tuple[float, float] | None:
    """``1 / y`` as two floats of that kind; None for a divisor that has too many bits, is a power of two, for
    which LLVM knows better, or is too large or small."""
    if kind not in MOST_BITS or not 1 / FAR[kind] < abs(y) < FAR[kind]:
        return None
    numerator, denominator = float(y).as_integer_ratio()
    odd = abs(numerator) // (abs(numerator) & -abs(numerator))
    if odd == 1 or odd.bit_length() > MOST_BITS[kind]:
        return None
    exact = Fraction(denominator, numerator)
    step = 2.0 ** (math.frexp(float(exact))[1] - (24 if kind == "float32" else 53))
    high = float(int(exact / Fraction(step)) * Fraction(step))  # int() rounds towards zero
    rest = float(exact - Fraction(high))
    return high, float(np.float32(rest)) if kind == "float32" else rest
