"""A computation whose formulas begin with floats some ulp beside their own: the same but for rounding, which
says how much rounding matters to it. Knows te; evaluates nothing.

Decimal constants are moved, and integers that are cast to floats, as indices are: coordinates and angles are
products of the two. Constants of few bits are exact, and are often more than a factor: an exponent, a side of
a comparison. Half precision is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..expr import make
from ..expr.nodes import Cast, Const, Expr
from ..expr.walk import rewrite
from .exchange import anew, exchanged
from .tensor import ComputeOp, Tensor

_BITS, _LARGEST = 12, 1e30  # of constants that stay; of those that are moved, which must not become infinite


def nudged(outputs: Sequence[Tensor], ulp: float) -> list[Tensor]:
    """The outputs of the computation whose decimal constants and casts of integers are larger by ``ulp`` of
    their type. Definitions of several results are as they were, and so is all where a scan or an extern
    reads what would change."""

    def beside(e: Expr) -> Expr | None:
        if e.dtype.code != "float" or e.dtype.bits < 32:
            return None
        factor = 1 + ulp * float(np.finfo(e.dtype.to_numpy()).eps)
        if type(e) is Const:
            return None if _few_bits(e.value) else make.const(e.value * factor, e.dtype)
        if type(e) is Cast and e.a.dtype.code in ("int", "uint"):
            return make.mul(e, make.const(factor, e.dtype))
        return None

    def other(op: ComputeOp) -> Tensor | None:
        body = tuple(rewrite(e, beside) for e in op.body)
        if all(a is b for a, b in zip(body, op.body, strict=True)):
            return None
        return anew(op, body).outputs[0]

    return exchanged(outputs, other).of(outputs)


def _few_bits(value: float) -> bool:
    if not abs(value) < _LARGEST:
        return True
    mantissa = float(np.frexp(value)[0]) * 2.0**_BITS
    return mantissa == np.rint(mantissa)
