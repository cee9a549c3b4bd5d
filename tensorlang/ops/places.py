"""Places that are computed: indices kept within a size, and the elements beside a place between them, with
their weights. Knows expressions; no tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce

from .. import te
from ..core.dtype import INT32
from ..expr import make
from ..expr.nodes import Expr


def kept_within(i: Expr, n: Expr) -> Expr:
    """The index nearest to ``i`` of a dimension of ``n`` elements."""
    # the maximum last: of an empty dimension this gives 0 and not -1
    return te.max(te.min(i, n - 1), 0)


def linear_weight(u: Expr) -> Expr:
    """The weight of an element at distance ``u``, not negative, in linear interpolation."""
    return make.max_(1.0 - u, make.const(0.0, u.dtype))


def cubic_weight(u: Expr, a: float) -> Expr:
    """The weight of an element at distance ``u``, not negative, in cubic interpolation (Keys 1981)."""
    # by Horner's rule, which torch uses too: another order of the terms rounds otherwise
    near = ((a + 2) * u - (a + 3)) * u * u + 1.0
    far = ((a * u - 5 * a) * u + 8 * a) * u - 4 * a
    return te.select(u <= 1.0, near, te.select(u < 2.0, far, make.const(0.0, u.dtype)))


def corners(place: Sequence[Expr]) -> list[tuple[list[Expr], Expr]]:
    """The elements around a place (int32 indices, which may lie outside) in linear interpolation, each with
    its weight."""
    low = [te.floor(e) for e in place]
    around = []
    for side in itertools.product((0, 1), repeat=len(place)):
        # the floor as an integer first: f + 1 of a large float may be f
        at = [te.cast(INT32, f) + s for f, s in zip(low, side, strict=True)]
        shares = [e - f if s else 1.0 - (e - f) for e, f, s in zip(place, low, side, strict=True)]
        around.append((at, reduce(make.mul, shares)))
    return around
