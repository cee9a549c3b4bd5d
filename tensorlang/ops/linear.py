"""Inverses and determinants of matrices, each by elimination with row pivots. Knows the checks of arguments;
no other operator.

A step of ``te.scan`` takes one column out of all matrices at once, rows in vectors: many small matrices, of
which a library's call would take each by itself. A large one is better in blocks, as LAPACK has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import te
from ..core.dtype import INT32, DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .places import kept_within

__all__ = ["determinant", "inverse"]


def inverse(x: Tensor) -> Tensor:
    """The inverse of each matrix of x [..., n, n]; not a number in all elements where there is none.

    By Gauss and Jordan's elimination: n steps over all matrices, each with the largest element of its
    column. 16-bit floats in float32, rounded once. For many small matrices: of some 32 rows on LAPACK is
    faster. n is a number, dimensions before it may be symbolic. Raises DeclareError for integers, and for
    what is not square.

    >>> x = te.placeholder((7, 3, 3), name="x")
    >>> ops.inverse(x)
    Tensor(inverse: float32[7, 3, 3])
    """
    op = "inverse"
    x, n = square(op, x)
    inside = inputs.wide(x.dtype)

    def first(at: tuple[Any, ...], i: Any, j: Any) -> Expr:
        # the identity beside it becomes the inverse
        unit = te.select(make.eq(j - n, i), make.const(1.0, inside), make.const(0.0, inside))
        return te.if_then_else(j < n, te.cast(inside, x(*at, i, te.min(j, n - 1))), unit)

    steps = Steps(op, x, n, 2 * n, inside, first, math.nan)

    def row(t: Any, at: tuple[Any, ...], i: Any, j: Any) -> Expr:
        return te.select(make.eq(i, t - 1), steps.line(t, *at, j), steps.below(t, at, i, j))

    total: Any = te.scan(steps.first, steps.rows(row), steps.state, name=f"{op}.scan", tag=tags.SCAN)
    return inputs.stage(
        op, tags.INJECTIVE, x.shape, lambda *i: te.cast(x.dtype, total(n, *i[:-1], i[-1] + n))
    )


def determinant(x: Tensor) -> Tensor:
    """The determinant of each matrix of x [..., n, n]: [...].

    The product of the pivots of n steps of elimination, as ``ops.inverse`` makes them, with a sign for each
    exchange of rows. n is a number, dimensions before it may be symbolic. Raises DeclareError for integers,
    and for what is not square.

    >>> x = te.placeholder((7, 3, 3), name="x")
    >>> ops.determinant(x)
    Tensor(determinant: float32[7])
    """
    op = "determinant"
    x, n = square(op, x)
    inside, batch = inputs.wide(x.dtype), x.shape[:-2]
    steps = Steps(op, x, n, n, inside, lambda at, i, j: te.cast(inside, x(*at, i, j)), 0.0)
    product = te.placeholder((n + 1, *batch), inside, name=f"{op}.product")
    one = inputs.stage(f"{op}.one", tags.ELEMENTWISE, [1, *batch], lambda *_: make.const(1.0, inside))

    def times(t: Any, *at: Any) -> Expr:
        pivot, value = steps.pivot(t, *at), steps.pivot_value(t, *at)
        return product(t - 1, *at) * te.select(make.eq(pivot, t - 1), value, make.neg(value))  # type: ignore[no-any-return]

    scanned: Any = te.scan(
        [steps.first, one],
        [steps.rows(steps.below), inputs.stage(f"{op}.times", tags.ELEMENTWISE, [n + 1, *batch], times)],
        [steps.state, product],
        name=f"{op}.scan",
        tag=tags.SCAN,
    )
    return inputs.stage(op, tags.INJECTIVE, batch, lambda *i: te.cast(x.dtype, scanned[1](n, *i)))


def square(op: str, x: Any) -> tuple[Tensor, int]:
    """A tensor of square matrices, and how many rows they have. Raises DeclareError."""
    x = inputs.floating(op, x)
    n = const_int(x.shape[-1]) if x.ndim > 1 else None
    if n is None or n < 1 or const_int(x.shape[-2]) != n:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}",
            because="its last two dimensions are the rows and columns of a square matrix",
            legal="[..., n, n] with a number n of 1 or more",
        )
    return x, n


class Steps:
    """Elimination: row ``t`` of the ``state`` [n + 1, ..., n, width] has ``t`` columns taken out. ``pivot``
    [t, ...] is the row with the largest element of column ``t - 1`` at or below the diagonal, ``line`` that
    row divided by it, or ``without`` where all of them are 0."""

    def __init__(
        self,
        op: str,
        x: Tensor,
        n: int,
        width: int,
        inside: DType,
        element: Callable[[tuple[Any, ...], Any, Any], Expr],
        without: float,
    ) -> None:
        self.op, self.n, batch = op, make.const(n, INT32), x.shape[:-2]
        self.shape: list[ExprLike] = [n + 1, *batch, n, width]
        state = self.state = te.placeholder(self.shape, inside, name=f"{op}.state")
        self.first = inputs.stage(
            f"{op}.first", tags.ELEMENTWISE, [1, *self.shape[1:]], lambda t, *i: element(i[:-2], *i[-2:])
        )

        def size(t: Any, *i: Any) -> Expr:
            e: Expr = te.abs(state(t - 1, *i, te.max(t - 1, 0)))
            return te.select(i[-1] >= t - 1, e, make.const(-1.0, inside))

        sizes = inputs.stage(f"{op}.sizes", tags.ELEMENTWISE, [n + 1, *batch, n], size)
        r, p = te.reduce_axis((0, n), "r"), te.reduce_axis((0, n), "p")
        most = inputs.stage(
            f"{op}.most", tags.REDUCE, [n + 1, *batch], lambda *i: te.max(sizes(*i, r), axis=r)
        )

        def place(*i: Any) -> Expr:
            # the first of them, as LAPACK; the last row where they are no numbers
            found = te.select(make.eq(sizes(*i, p), most(*i)), te.cast(INT32, p), self.n - 1)
            return te.min(found, axis=p)  # type: ignore[no-any-return]

        pivot = self.pivot = inputs.stage(f"{op}.pivot", tags.REDUCE, [n + 1, *batch], place)

        def divided(t: Any, *i: Any) -> Expr:
            *at, j = i
            row = kept_within(pivot(t, *at), self.n)
            e = state(t - 1, *at, row, j) / state(t - 1, *at, row, te.max(t - 1, 0))
            return te.select(make.eq(most(t, *at), 0.0), make.const(without, inside), e)

        self.line = inputs.stage(f"{op}.line", tags.ELEMENTWISE, [n + 1, *batch, width], divided)

    def pivot_value(self, t: Any, *at: Any) -> Expr:
        """The element that a step divides by."""
        return self.state(t - 1, *at, kept_within(self.pivot(t, *at), self.n), te.max(t - 1, 0))  # type: ignore[no-any-return]

    def below(self, t: Any, at: tuple[Any, ...], i: Any, j: Any) -> Expr:
        """An element of a row without its part of the column; the pivot's row has changed places."""
        row = kept_within(te.select(make.eq(i, self.pivot(t, *at)), t - 1, i), self.n)
        e, part = (self.state(t - 1, *at, row, k) for k in (j, te.max(t - 1, 0)))
        return e - part * self.line(t, *at, j)  # type: ignore[no-any-return]

    def rows(self, f: Callable[[Any, tuple[Any, ...], Any, Any], Expr]) -> Tensor:
        """The stage of a step: ``f(t, batch, row, column)``."""
        return inputs.stage(
            f"{self.op}.rows", tags.ELEMENTWISE, self.shape, lambda t, *i: f(t, i[:-2], *i[-2:])
        )
