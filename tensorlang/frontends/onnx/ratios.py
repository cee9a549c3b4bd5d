"""Sizes that a file works out in floats, such as ``ceil((n - 1) / stride + 1)``: their whole numbers as
expressions of sizes. Knows nodes of the graph by their operators.

A float has 24 bits or more: quotients of sizes round as exact ones do, up to sizes of millions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ... import te
from ...arith.facts import Facts
from ...expr import make
from ...expr.nodes import Expr
from ...graph import Value

Ratio = tuple[Any, int]  # a whole number, or an expression of sizes, over a whole number
_MOST = 1 << 20  # of a denominator: what is beyond is a float that was rounded


def whole_of_ratio(v: Value) -> Expr | None:
    """The float ``v``, cut to a whole number; None where it is not known to be worked out of sizes."""
    found = _ratio(v) if all(n == 1 for n in v.sizes) else None
    if found is None or not isinstance(found[0], Expr):
        return None
    over, under = found
    # a cast cuts towards zero
    low, _ = Facts().interval(over)
    return make.floordiv(over, under) if under == 1 or (low is not None and low >= 0) else None


def steps_between(start: Value, stop: Value, step: Value) -> Expr | None:
    """How many numbers ``start, start + step, …`` lie before ``stop``; None where the floats are not known
    to be worked out of sizes."""
    first, last, by = map(_ratio, (start, stop, step))
    if first is None or last is None or by is None:
        return None
    parts = _divided(_added(last, _negative(first)), by)
    n = None if parts is None else _ceil(parts)[0]
    if not isinstance(n, Expr):
        return None
    low, _ = Facts().interval(n)
    return n if low is not None and low >= 0 else te.max(n, 0)


def _ratio(v: Value | None) -> Ratio | None:
    if v is None:
        return None
    if v.data is not None:
        return _constant(v.data)
    node = v.node
    if node is None or any(n != 1 for n in v.sizes):
        return None
    if node.op == "Sizes":
        return np.asarray(node.attrs["numbers"], object).reshape(-1)[0], 1
    parts = [_ratio(x) for x in node.inputs]
    combine = _OPERATORS.get(node.op)
    return None if combine is None or any(p is None for p in parts) else combine(*parts)


def _constant(a: np.ndarray) -> Ratio | None:
    if a.size != 1 or not np.isfinite(a).all():
        return None
    f = Fraction(float(a.reshape(())))
    return (f.numerator, f.denominator) if f.denominator <= _MOST else None


def _added(a: Ratio, b: Ratio) -> Ratio:
    return a[0] * b[1] + b[0] * a[1], a[1] * b[1]


def _negative(a: Ratio) -> Ratio:
    return a[0] * -1, a[1]


def _multiplied(a: Ratio, b: Ratio) -> Ratio:
    return a[0] * b[0], a[1] * b[1]


def _divided(a: Ratio, b: Ratio) -> Ratio | None:
    if isinstance(b[0], Expr) or b[0] == 0:
        return None
    sign = 1 if b[0] > 0 else -1
    return a[0] * (b[1] * sign), a[1] * abs(b[0])


def _floor(a: Ratio) -> Ratio:
    return make.floordiv(make.as_expr(a[0]), a[1]) if isinstance(a[0], Expr) else a[0] // a[1], 1


def _ceil(a: Ratio) -> Ratio:
    return _negative(_floor(_negative(a)))


_OPERATORS: dict[str, Any] = {
    "Add": _added,
    "Sub": lambda a, b: _added(a, _negative(b)),
    "Mul": _multiplied,
    "Div": _divided,
    "Cast": lambda a: a,  # of a whole number: from a float it is known to be one, see KNOWN
    "Floor": _floor,
    "Ceil": _ceil,
}
