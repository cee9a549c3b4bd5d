"""Fourier transforms as products with matrices of cosines and sines, which are made from one table of a
period: n² work for n elements, of any length, also one that a call tells. One of a known length a b is made
in two steps, of n (a + b) work. Knows no arguments of operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .. import te
from ..core.dtype import FLOAT64, INT32, DType
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .fourier_steps import turned


@dataclass(frozen=True)
class Transform:
    """What is to be transformed, the elements ``x(*i)`` of that ``shape`` along dimension ``d``, and how (see
    ``ops.dft``); ``op`` begins the names of its stages."""

    op: str
    shape: tuple[Expr, ...]
    d: int
    x: Callable[..., Expr]
    length: Expr
    inverse: bool
    onesided: bool

    @cached_property
    def dtype(self) -> DType:
        return self.x(*[0] * len(self.shape)).dtype

    @property
    def inside(self) -> DType:
        """The type of sums."""
        return inputs.wide(self.dtype)

    @property
    def real_result(self) -> bool:
        return self.inverse and self.onesided

    def element(self, at: Sequence[Any], time: Any, part: Any, longest: int | None = None) -> Expr:
        """A part of an element, by its time and its place ``at`` in the other dimensions; zero behind the
        end, where times up to ``longest`` may lie."""
        e = te.cast(self.inside, self.x(*at[: self.d], time, *at[self.d :], part))
        if longest is None or inputs.at_most(longest, self.shape[self.d]):
            return e
        # not a select, which would read behind the end of a shorter signal
        return te.if_then_else(time < self.shape[self.d], e, make.const(0.0, self.inside))


def by_matrix(t: Transform) -> Tensor:
    """The transform as a product, or as two where that is less than half of the work."""
    if not isinstance(t.x, Tensor):  # so that a product reads a tensor
        t = replace(t, x=inputs.stage(f"{t.op}.frames", tags.BROADCAST, t.shape, t.x))
    two = factors_of(t.length)
    if two is not None and not t.real_result:
        return _in_two_steps(t, two)
    return _product(t)


def factors_of(length: Expr) -> tuple[int, int] | None:
    """The factors of a length with the least sum, where two steps are less than half of the work."""
    n = const_int(length)
    # the divisor nearest the root, below it
    small = max((b for b in range(1, math.isqrt(n) + 1) if n % b == 0), default=1) if n else 1
    return (n // small, small) if n and 2 * (n // small + small) <= n else None


def _product(a: Transform) -> Tensor:
    op, shape, d, length = a.op, a.shape, a.d, a.length
    inverse, onesided, real_result, kind = a.inverse, a.onesided, a.real_result, a.dtype
    parts = const_int(shape[-1])
    half = make.add(make.floordiv(length, 2), 1)
    # a longer signal is cut off, a shorter one padded with zeros, which need not be summed
    given = make.min_(shape[d], half) if real_result else make.min_(shape[d], length)
    given = shape[d] if inputs.equal(given, shape[d]) else given
    size = half if onesided and not inverse else length
    inside = a.inside
    cos, sin = _tables(op, given, size, length, inside)

    def twice(t: Any) -> Expr:  # of a onesided spectrum all but the ends stand for two
        # the mean, and of an even length the last one, which are their own conjugates
        alone = te.any(make.eq(t, 0), make.eq(make.mul(t, 2), length))
        return te.select(alone, make.const(1.0, inside), make.const(2.0, inside))

    if real_result:  # in the tables, so that the sum is one of two factors
        cos, sin = (
            inputs.stage(f"{m.name}.twice", tags.TABLE, m.shape, lambda t, k, m=m: m(t, k) * twice(t))
            for m in (cos, sin)
        )

    outer = [size if k == d else m for k, m in enumerate(shape[:-1])]

    def total(name: str, imaginary: bool) -> Tensor:
        # real and imaginary parts are stages of their own: one reduction has one result
        t = te.reduce_axis((0, given), "t")

        def body(*i: Any) -> Expr:
            at = (*i[:d], *i[d + 1 :])
            im = a.element(at, t, 1) if parts == 2 else None
            e = turned((a.element(at, t, 0), im), cos(t, i[d]), sin(t, i[d]), inverse)[imaginary]
            return te.sum(e, axis=t)

        return inputs.stage(name, tags.REDUCE, outer, body)

    real = total(f"{op}.real", False)
    imaginary = None if real_result else total(f"{op}.imaginary", True)
    scale = te.cast(inside, length)

    def result(*i: Any) -> Expr:
        e: Expr = real(*i[:-1])
        if imaginary is not None:
            e = te.if_then_else(make.eq(i[-1], 0), e, imaginary(*i[:-1]))
        return te.cast(kind, e / scale if inverse else e)

    return inputs.stage(op, tags.INJECTIVE, [*outer, 1 if real_result else 2], result)


def _in_two_steps(t: Transform, factors: tuple[int, int]) -> Tensor:
    """The transform of a length ``a b`` (Cooley and Tukey 1965): of every b-th element a transform of a,
    turned by an angle for each, and of those with the same number a transform of b."""
    op, shape, d, inverse, kind, inside = t.op, t.shape, t.d, t.inverse, t.dtype, t.inside
    a, b = factors
    n, parts = a * b, const_int(shape[-1])
    before, after = shape[:d], shape[d + 1 : -1]

    def split(i: Sequence[Any]) -> tuple[Sequence[Any], Any, Any, Sequence[Any]]:
        return i[:d], i[d], i[d + 1], i[d + 2 :]

    cos, sin = _tables(f"{op}.first", a, a, a, inside)

    def first(part: int) -> Callable[..., Expr]:
        j = te.reduce_axis((0, a), "t")

        def body(*i: Any) -> Expr:
            at, low, k, rest = split(i)
            re = t.element((*at, *rest), j * b + low, 0, n)
            im = t.element((*at, *rest), j * b + low, 1, n) if parts == 2 else None
            return te.sum(turned((re, im), cos(j, k), sin(j, k), inverse)[part], axis=j)

        return body

    inner: list[ExprLike] = [*before, b, a, *after]
    names = ("real", "imaginary")
    once = [inputs.stage(f"{op}.first.{names[p]}", tags.REDUCE, inner, first(p)) for p in (0, 1)]
    between = _tables(f"{op}.angle", b, a, n, inside)

    def angle(part: int) -> Callable[..., Expr]:
        def body(*i: Any) -> Expr:
            _, low, k, _ = split(i)
            return turned((once[0](*i), once[1](*i)), between[0](low, k), between[1](low, k), inverse)[part]

        return body

    seen = [inputs.stage(f"{op}.angle.{names[p]}", tags.LINES, inner, angle(p)) for p in (0, 1)]
    cos_b, sin_b = _tables(f"{op}.second", b, b, b, inside)

    def second(part: int) -> Callable[..., Expr]:
        t = te.reduce_axis((0, b), "t")

        def body(*i: Any) -> Expr:
            at, k, low, rest = split(i)
            re, im = (v(*at, t, low, *rest) for v in seen)
            return te.sum(turned((re, im), cos_b(t, k), sin_b(t, k), inverse)[part], axis=t)

        return body

    both = [inputs.stage(f"{op}.second.{names[p]}", tags.REDUCE, inner, second(p)) for p in (0, 1)]
    size = n // 2 + 1 if t.onesided and not inverse else n
    scale = make.const(float(n), inside)

    def result(*i: Any) -> Expr:
        # the second step leaves element k1 + a k2 at [k2, k1]
        place = (*i[:d], i[d] // a, i[d] % a, *i[d + 1 : -1])
        e = te.if_then_else(make.eq(i[-1], 0), both[0](*place), both[1](*place))
        return te.cast(kind, e / scale if inverse else e)

    return inputs.stage(op, tags.INJECTIVE, [*before, make.as_expr(size), *after, 2], result)


def _tables(
    name: str, rows: Expr | int, columns: Expr | int, length: Expr | int, inside: DType
) -> tuple[Tensor, Tensor]:
    """The cosines and the sines."""
    m, n, size = make.as_expr(rows), make.as_expr(columns), make.as_expr(length)
    return (
        _table(f"{name}.cos", te.cos, m, n, size, inside),
        _table(f"{name}.sin", te.sin, m, n, size, inside),
    )


def _table(
    name: str, f: Callable[[Expr], Expr], rows: Expr, columns: Expr, length: Expr, inside: DType
) -> Tensor:
    """``f(2 pi t k / length)`` [t, k], from one period in float64: no angle grows."""
    turn = make.const(2 * math.pi, FLOAT64)
    one = inputs.stage(
        f"{name}.period",
        tags.TABLE,
        [length],
        lambda j: te.cast(inside, f(te.cast(FLOAT64, j) * turn / te.cast(FLOAT64, length))),
    )
    n = const_int(length)

    def rest(t: Any, k: Any) -> Expr:
        # the product of two indices fits 32 bits
        if n is not None and n * n < 1 << 31:
            return make.floormod(make.mul(te.cast(INT32, t), te.cast(INT32, k)), make.const(n, INT32))
        # a quotient of integers is rounded to the next one only from 2**53 on, and floats divide in vectors
        whole, by = te.cast(FLOAT64, t) * te.cast(FLOAT64, k), te.cast(FLOAT64, length)
        return te.cast(INT32, whole - te.floor(whole / by) * by)

    return inputs.stage(name, tags.TABLE, [rows, columns], lambda t, k: one(rest(t, k)))
