"""Fourier transforms of known lengths in steps (``fourier_steps``), and when they take less work than
products with matrices. Knows no arguments of operators.

A transform of an even number of real elements is one of half as many complex ones, ``x[2 t] + i x[2 t + 1]``,
whose results are taken apart; with real results it is the same backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .. import te
from ..core.dtype import DType
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .fourier_chirps import chirped, length_for
from .fourier_matrix import Transform, factors_of
from .fourier_steps import LANES, PASS, TRANSPOSED, Complex, Element, Plan, angles, plan, spectrum, turned

HALVES = 24  # sums that a pair of results of real elements takes the time of: loads, an angle, stores
PASSES = 60  # and two products beside themselves: parts are put together, turned, and put in order
# of an element: rows are laid across vectors and back, and results wait for that
ACROSS = 2 * TRANSPOSED + PASS
SHORT = 64  # elements of rows of which a vector's lanes hold one each


def in_steps(t: Transform) -> Tensor | None:
    """The transform, None where a matrix takes less work, or the length is not known or has a large prime
    factor."""
    n = const_int(t.length)
    if n is None or n == 1:
        return None
    rest = [const_int(k) for k in t.shape[t.d + 1 : -1]]
    along = None in rest or math.prod(k or 1 for k in rest) >= LANES
    half = n % 2 == 0 < n - 2 and (t.real_result or const_int(t.shape[-1]) == 1)
    size = n // 2 if half else n
    steps = plan(size, along)
    if steps is None:
        return _by_chirps(t, n, along)
    across = not along and _across(t, size, steps)
    if across:
        steps = plan(size, True) or steps
    cost = steps.cost + (ACROSS if across else 0)
    cost = (cost + HALVES) / 2 if half else cost
    if cost > _cost_of_matrix(t, n):
        return None
    return _Known(t, n, steps, along, across, half).made()


def _by_chirps(t: Transform, n: int, along: bool) -> Tensor | None:
    """A length with a large prime factor, where a convolution takes less work than a matrix."""
    found = length_for(n, along)
    if found is None or found[-1] > _cost_of_matrix(t, n):
        return None
    size, steps, _ = found
    return _Known(t, n, steps, along, False, False, size).made()


def _across(t: Transform, size: int, steps: Plan) -> bool:
    """Whether vectors run across rows, an element of each: what is read and what is written is transposed
    then. For short rows, which fill no vectors; several of longer ones would not fit the first cache."""
    rows = const_int(t.shape[t.d - 1]) if t.d else 1
    last = all(const_int(k) == 1 for k in t.shape[t.d + 1 : -1])
    together = plan(size, True)
    if not last or size > SHORT or (rows is not None and rows < LANES) or together is None:
        return False
    return together.cost + ACROSS < steps.cost


def _cost_of_matrix(t: Transform, n: int) -> float:
    """Sums of vectors that a vector of elements takes the time of: a product and a sum together take two."""
    ways = 1 if const_int(t.shape[-1]) == 1 or t.real_result else 2
    two = None if t.real_result else factors_of(t.length)
    if two is not None:
        return 4 * ways * two[0] + 8 * two[1] + PASSES
    return 4 * ways * n * (0.5 if t.onesided else 1)


class _Known:
    """One transform in the making."""

    def __init__(
        self, t: Transform, n: int, steps: Plan, along: bool, across: bool, half: bool, convolved: int = 0
    ) -> None:
        self.plan, self.convolved = steps, convolved
        self.t, self.n, self.steps, self.half = t, n, steps.steps, half
        self.inside: DType = t.inside
        self.real = const_int(t.shape[-1]) == 1
        before, after = t.shape[: t.d], t.shape[t.d + 1 : -1]
        # vectors run along what lies behind, if that is long enough to be worth it
        self.before, self.behind = (before, after) if along else ((*before, *after), ())
        self.across = across
        if across:
            self.before, self.behind = before[:-1], before[-1:]

    def made(self) -> Tensor:
        t, n, half = self.t, self.n, self.half
        read = (
            (self._joined if half else self._mirrored) if t.real_result else self._pair if half else self._one
        )
        size = n // 2 if half else n
        if self.convolved:
            element = chirped(
                t.op, self.before, n, self.behind, read, self.convolved, self.plan, t.inverse, self.inside
            )
        else:
            element = spectrum(t.op, self.before, size, self.behind, read, self.steps, t.inverse, self.inside)
        if t.real_result:
            return self._result(n, 1, self._in_turn(element) if half else element)
        if half:
            element = self._apart(element)
            if not t.onesided:
                element = self._whole(element)
        return self._result(n // 2 + 1 if t.onesided else n, 2, element)

    # --- what the first step reads --------------------------------------------------------------------------

    def _one(self, at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        return self._input(at, time, rest, 0), None if self.real else self._input(at, time, rest, 1)

    def _pair(self, at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        """Two neighbours of real elements."""
        return self._input(at, time * 2, rest, 0), self._input(at, time * 2 + 1, rest, 0)

    def _bin(self, at: Sequence[Any], k: Any, rest: Sequence[Any], end: Any) -> tuple[Expr, Expr]:
        """An element of half a spectrum. What the ones at its ends have beside a real part is ignored."""
        zero = make.const(0.0, self.inside)
        im = zero if self.real else te.select(end, zero, self._input(at, k, rest, 1))
        return self._input(at, k, rest, 0), im

    def _mirrored(self, at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        """Half a spectrum, and its conjugates backwards."""
        end = te.any(make.eq(time, 0), make.eq(time * 2, self.n))
        here, there = (self._bin(at, i, rest, end) for i in (time, self.n - time))
        first = time < self.n // 2 + 1
        return te.if_then_else(first, here[0], there[0]), te.if_then_else(first, here[1], make.neg(there[1]))

    def _joined(self, at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        """The spectrum of ``x[2 t] + i x[2 t + 1]``, from that of x: twice the one of the even elements, and
        of the odd ones times i."""
        end = make.eq(time, 0)  # the other end is read with it
        a, b = self._bin(at, time, rest, end), self._bin(at, self.n // 2 - time, rest, end)
        odd = turned((a[0] - b[0], a[1] + b[1]), *self._angle(time), True)
        return a[0] + b[0] - odd[1], a[1] - b[1] + odd[0]

    def _input(self, at: Sequence[Any], time: Any, rest: Sequence[Any], part: int) -> Expr:
        """An element of the input, zero behind its end."""
        if self.across:
            return self._columns(*at, *rest, time, part)
        return self.t.element((*at, *rest), time, part, self._longest)

    @property
    def _longest(self) -> int:
        return self.n // 2 + 1 if self.t.real_result else self.n

    @cached_property
    def _columns(self) -> Tensor:
        """The input, of which a schedule lays elements of several rows side by side."""
        t = self.t
        ones = (0,) * (len(t.shape) - t.d - 2)
        return inputs.stage(
            f"{t.op}.columns",
            tags.FOURIER,
            [*self.before, *self.behind, make.as_expr(self._longest), t.shape[-1]],
            lambda *i: t.element((*i[:-2], *ones), i[-2], i[-1], self._longest),
            {"columns": True},
        )

    # --- what is made of the last step ----------------------------------------------------------------------

    def _in_turn(self, element: Element) -> Element:
        """Real elements, pairs of which are complex ones."""
        return lambda at, part, k, rest: _by_parts(k % 2, *(element(at, p, k // 2, rest) for p in (0, 1)))

    def _apart(self, element: Element) -> Element:
        """Of the spectrum of ``x[2 t] + i x[2 t + 1]`` that of x, half of it: a half of the sum of an element
        and the conjugate of the one across is that of the even elements, of their difference that of the odd
        ones times i."""
        half = self.n // 2
        by = make.const(0.5, self.inside)

        def result(at: Sequence[Any], part: int, k: Any, rest: Sequence[Any]) -> Expr:
            within = te.all(k > 0, k < half)
            a, b = ([element(at, p, i, rest) for p in (0, 1)] for i in (k, half - k))
            odd = turned((a[1] + b[1], b[0] - a[0]), *self._angle(k), self.t.inverse)
            # the first one is across from itself, and both ends are made of it
            if part:
                return te.if_then_else(within, (a[1] - b[1] + odd[1]) * by, make.const(0.0, self.inside))
            even, other = (element(at, p, 0, rest) for p in (0, 1))
            end = te.select(make.eq(k, 0), even + other, even - other)
            return te.if_then_else(within, (a[0] + b[0] + odd[0]) * by, end)

        return result

    def _whole(self, element: Element) -> Element:
        """Both halves, of which the second is the conjugate of the first, backwards."""
        half = self.n // 2
        m = len(self.before)
        # rows of which vectors hold one element each stay in front, as in a result
        front = m + len(self.behind) if self.across else m
        lies = [*self.before, *self.behind]
        shape = [*lies[:front], make.as_expr(half + 1), *lies[front:], make.as_expr(2)]

        def read(*i: Any) -> Expr:
            others = (*i[:front], *i[front + 1 : -1])
            return _by_parts(i[-1], *(element(others[:m], p, i[front], others[m:]) for p in (0, 1)))

        first = inputs.stage(f"{self.t.op}.half", tags.INJECTIVE, shape, read)

        def result(at: Sequence[Any], part: int, k: Any, rest: Sequence[Any]) -> Expr:
            lies = (*at, *rest)
            other: Expr = first(*lies[:front], self.n - k, *lies[front:], part)
            other = make.neg(other) if part else other
            return te.if_then_else(k < half + 1, first(*lies[:front], k, *lies[front:], part), other)

        return result

    def _angle(self, k: Any) -> tuple[Expr, Expr]:
        """The angle of a frequency of the whole length."""
        cos, sin = self._angles
        return cos(0, k), sin(0, k)

    @cached_property
    def _angles(self) -> tuple[Tensor, Tensor]:
        return angles(self.t.op, 1, self.n // 2, self.n, self.inside)

    def _result(self, size: int, parts: int, element: Element) -> Tensor:
        t = self.t
        scale = make.const(1 / self.n, self.inside)

        def body(*i: Any) -> Expr:
            before, k, after = i[: t.d], i[t.d], i[t.d + 1 : -1]
            if self.across:
                at, rest = before[:-1], before[-1:]
            else:
                at, rest = ((*before, *after), ()) if not self.behind else (before, after)
            e = _by_parts(i[-1], *(element(at, p, k, rest) for p in range(parts)))
            return te.cast(t.dtype, e * scale if t.inverse else e)

        shape = [*t.shape[: t.d], make.as_expr(size), *t.shape[t.d + 1 : -1], make.as_expr(parts)]
        return inputs.stage(t.op, tags.INJECTIVE, shape, body)


def _by_parts(part: Any, re: Expr, im: Expr | None = None) -> Expr:
    return re if im is None else te.if_then_else(make.eq(part, 0), re, im)
