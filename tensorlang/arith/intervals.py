"""Numeric intervals of whole numbers, and what arithmetic makes of them. Knows no expressions."""

from __future__ import annotations

Number = int | None
Interval = tuple[Number, Number]  # inclusive; None is unbounded
UNBOUNDED: Interval = (None, None)


def times(a: Number, b: Number) -> Number:
    """A product of ends, of which 0 times anything is 0."""
    return 0 if a == 0 or b == 0 else (None if a is None or b is None else a * b)


def interval_mul(x: Interval, y: Interval) -> Interval:
    """The interval of a product."""
    if x[0] is not None and x[0] >= 0 and y[0] is not None and y[0] >= 0:
        return x[0] * y[0], times(x[1], y[1])
    if None in x or None in y:
        return (0, 0) if x == (0, 0) or y == (0, 0) else UNBOUNDED
    ends = [a * b for a in x for b in y]  # type: ignore[operator]
    return min(ends), max(ends)


def interval_floordiv(a: Interval, b: Interval) -> Interval:
    """Of a divisor that is never negative: by 0 nothing is divided (an error, and code divides by 1)."""
    if b[0] is None or b[0] < 0:
        return UNBOUNDED
    least, most = max(1, b[0]), None if b[1] is None else max(1, b[1])

    def end(x: Number, low: bool) -> Number:
        if x is None:
            return None
        divisor = least if (x < 0) == low else most  # the quotient nearest to minus infinity, or farthest
        if divisor is None:
            return -1 if x < 0 else 0
        return x // divisor

    return end(a[0], True), end(a[1], False)
