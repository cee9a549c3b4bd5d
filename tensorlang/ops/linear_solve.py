"""Systems of linear equations, triangular ones, and the triangle of Cholesky: each by elimination, as
``ops.inverse``, whose steps over all matrices at once they share. Knows the checks of arguments; no other
operator.

Like those for many small matrices: of some 32 rows on LAPACK's blocks are faster.
"""

from __future__ import annotations

import math
from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .linear import Steps, square

__all__ = ["cholesky", "slogdet", "solve", "solve_triangular"]


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The x of ``a @ x = b`` for matrices a [..., n, n] and b [..., n, k]; not a number where there is none.
    n and k are numbers, dimensions before them may be symbolic and are those of both. 16-bit floats in
    float32, rounded once. Raises DeclareError for integers, and for shapes that do not go together.

    >>> a, b = te.placeholder((7, 3, 3), name="a"), te.placeholder((7, 3, 2), name="b")
    >>> ops.solve(a, b)
    Tensor(solve: float32[7, 3, 2])
    """
    op = "solve"
    a, n = square(op, a)
    b, columns = _right(op, a, b)
    k = const_int(columns)
    if k is None:
        raise DeclareError(
            f"ops.{op}: b {inputs.named(b)}", because="how many columns it has must be a number"
        )
    inside = inputs.wide(a.dtype)

    def first(at: tuple[Any, ...], i: Any, j: Any) -> Expr:
        left, right = a(*at, i, te.min(j, n - 1)), b(*at, i, te.max(j - n, 0))
        return te.if_then_else(j < n, te.cast(inside, left), te.cast(inside, right))

    steps = Steps(op, a, n, n + k, inside, first, math.nan)

    def row(t: Any, at: tuple[Any, ...], i: Any, j: Any) -> Expr:
        return te.select(make.eq(i, t - 1), steps.line(t, *at, j), steps.below(t, at, i, j))

    total: Any = te.scan(steps.first, steps.rows(row), steps.state, name=f"{op}.scan", tag=tags.SCAN)
    return inputs.stage(
        op, tags.INJECTIVE, b.shape, lambda *i: te.cast(a.dtype, total(n, *i[:-1], i[-1] + n))
    )


def _right(op: str, a: Tensor, b: Any) -> tuple[Tensor, Any]:
    b = inputs.floating(op, b, "b")
    if b.ndim != a.ndim or b.dtype != a.dtype:
        raise DeclareError(
            f"ops.{op}: b {inputs.named(b)} for {inputs.named(a)}",
            because="it has a row for each of the matrix, in matrices as many and of the same type",
        )
    for d, (x, y) in enumerate(zip(b.shape[:-1], a.shape[:-1], strict=True)):
        inputs.same_size(op, f"dimension {d} of b", x, y, f"the matrices are {inputs.named(a)}")
    return b, b.shape[-1]


def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the determinant of each matrix of x [..., n, n], and the logarithm of its absolute value,
    which is in the range of floats where the determinant is not: 0 and -inf where that is 0. Raises
    DeclareError for integers, and for what is not square."""
    op = "slogdet"
    x, n = square(op, x)
    inside, batch = inputs.wide(x.dtype), x.shape[:-2]
    steps = Steps(op, x, n, n, inside, lambda at, i, j: te.cast(inside, x(*at, i, j)), 0.0)
    sign, log = (te.placeholder((n + 1, *batch), inside, name=f"{op}.{w}") for w in ("sign", "log"))

    def begin(word: str, value: float) -> Tensor:
        return inputs.stage(
            f"{op}.{word}", tags.ELEMENTWISE, [1, *batch], lambda *_: make.const(value, inside)
        )

    def next_sign(t: Any, *at: Any) -> Expr:
        value = steps.pivot_value(t, *at)
        one, zero = make.const(1.0, inside), make.const(0.0, inside)
        own = te.select(value > 0.0, one, te.select(value < 0.0, make.neg(one), zero))
        own = te.select(make.eq(steps.pivot(t, *at), t - 1), own, make.neg(own))
        return sign(t - 1, *at) * own  # type: ignore[no-any-return]

    def next_log(t: Any, *at: Any) -> Expr:
        return log(t - 1, *at) + te.log(te.abs(steps.pivot_value(t, *at)))  # type: ignore[no-any-return]

    shape: list[Any] = [n + 1, *batch]
    scanned: Any = te.scan(
        [steps.first, begin("one", 1.0), begin("zero", 0.0)],
        [
            steps.rows(steps.below),
            inputs.stage(f"{op}.next_sign", tags.ELEMENTWISE, shape, next_sign),
            inputs.stage(f"{op}.next_log", tags.ELEMENTWISE, shape, next_log),
        ],
        [steps.state, sign, log],
        name=f"{op}.scan",
        tag=tags.SCAN,
    )
    signs, logs = (
        inputs.stage(f"{op}.{w}", tags.INJECTIVE, batch, lambda *i, s=s: te.cast(x.dtype, s(n, *i)))
        for w, s in (("of", scanned[1]), ("value", scanned[2]))
    )
    return signs, logs


def cholesky(x: Tensor) -> Tensor:
    """The lower triangle whose product with its transpose is each symmetric matrix of x [..., n, n], of which
    the lower triangle is read; not a number where there is none. Raises DeclareError for integers, and for
    what is not square.

    >>> x = te.placeholder((7, 3, 3), name="x")
    >>> ops.cholesky(x)
    Tensor(cholesky: float32[7, 3, 3])
    """
    op = "cholesky"
    x, n = square(op, x)
    inside = inputs.wide(x.dtype)
    shape: list[Any] = [n + 1, *x.shape]
    state = te.placeholder(shape, inside, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [1, *x.shape], lambda t, *i: te.cast(inside, x(*i)))
    # the column that a step finishes, which all others are made less by
    root = inputs.stage(
        f"{op}.root",
        tags.ELEMENTWISE,
        shape[:-2],
        lambda t, *at: te.sqrt(state(t - 1, *at, te.max(t - 1, 0), te.max(t - 1, 0))),
    )
    column = inputs.stage(
        f"{op}.column",
        tags.ELEMENTWISE,
        shape[:-1],
        lambda t, *i: state(t - 1, *i, te.max(t - 1, 0)) / root(t, *i[:-1]),
    )

    def step(t: Any, *at: Any) -> Expr:
        *b, i, j = at
        less = state(t - 1, *at) - column(t, *b, i) * column(t, *b, j)
        done = te.select(make.eq(j, t - 1), column(t, *b, i), less)
        return te.select(te.all(i >= t - 1, j >= t - 1), done, state(t - 1, *at))

    steps = inputs.stage(f"{op}.step", tags.ELEMENTWISE, shape, step)
    total: Any = te.scan(first, steps, state, name=f"{op}.scan", tag=tags.SCAN)
    nothing = make.const(0.0, x.dtype)
    return inputs.stage(
        op,
        tags.INJECTIVE,
        x.shape,
        lambda *i: te.select(i[-1] <= i[-2], te.cast(x.dtype, total(n, *i)), nothing),
    )


def solve_triangular(a: Tensor, b: Tensor, upper: bool = False, unit: bool = False) -> Tensor:
    """The x of ``a @ x = b`` for triangular a [..., n, n], of which the other triangle is not read, nor with
    ``unit`` the diagonal, which is 1; b is [..., n, k]. Raises DeclareError for integers, and for shapes that
    do not go together."""
    op = "solve_triangular"
    a, n = square(op, a)
    b, _ = _right(op, a, b)
    inside = inputs.wide(a.dtype)
    shape: list[Any] = [n + 1, *b.shape]
    state = te.placeholder(shape, inside, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [1, *b.shape], lambda t, *i: te.cast(inside, b(*i)))

    def row(t: Any) -> Expr:  # the one that a step finishes
        return te.min(n - t, n - 1) if upper else te.max(t - 1, 0)

    def found(t: Any, *i: Any) -> Expr:
        *at, j = i
        value = state(t - 1, *at, row(t), j)
        return value if unit else value / te.cast(inside, a(*at, row(t), row(t)))  # type: ignore[no-any-return]

    line = inputs.stage(f"{op}.line", tags.ELEMENTWISE, [*shape[:-2], shape[-1]], found)

    def step(t: Any, *i: Any) -> Expr:
        *at, r, j = i
        rest = state(t - 1, *i) - te.cast(inside, a(*at, r, row(t))) * line(t, *at, j)
        later = te.select(r < row(t) if upper else r > row(t), rest, state(t - 1, *i))
        return te.select(make.eq(r, row(t)), line(t, *at, j), later)

    steps = inputs.stage(f"{op}.step", tags.ELEMENTWISE, shape, step)
    total: Any = te.scan(first, steps, state, name=f"{op}.scan", tag=tags.SCAN)
    return inputs.stage(op, tags.INJECTIVE, b.shape, lambda *i: te.cast(a.dtype, total(n, *i)))
