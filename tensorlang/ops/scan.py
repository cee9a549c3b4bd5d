"""Running sums and products along one dimension. Knows the checks of arguments, and how tensors are laid out
anew; no other operator.

Along any dimension but the last they are recurrences of ``te.scan``, whose steps are lines of memory. A scan
takes each step for the whole tensor, so that rows along memory have to be transposed twice (those of 16-bit
floats still are); a program of loops takes a few rows to their end at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from ..te.loops import LoopBuilder, Memory
from . import inputs, tags
from .shape import flatten, reshape

__all__ = ["cumprod", "cumsum"]

ROWS = 4  # at once: the sum of one waits for the sum before, those of others do not


def cumsum(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The running sum along ``axis`` (of the flattened tensor for None), in ``dtype``: 64 bits of integers
    and bools, else that of ``x``.

    ``exclusive`` leaves out the element itself, so that the first sum is 0; ``reverse`` adds from the end.
    The terms are added one after the other; 16-bit floats in float32, rounded once. Over nothing there is
    nothing: an empty result. Raises DeclareError for ``dtype="bool"``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.cumsum(x, 1)
    Tensor(cumsum: float32[2, 3])
    """
    return _running("cumsum", x, axis, dtype, make.add, 0, exclusive, reverse)


def cumprod(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The running product along ``axis`` (of the flattened tensor for None), arguments as for :func:`cumsum`.
    Raises DeclareError for ``dtype="bool"``."""
    return _running("cumprod", x, axis, dtype, make.mul, 1, exclusive, reverse)


def _running(
    op: str,
    x: Any,
    axis: int | None,
    dtype: str | DType | None,
    combine: Callable[[Expr, Expr], Expr],
    identity: int,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    x = inputs.tensor(op, x)
    if axis is None and x.ndim != 1:
        x, axis = flatten(x), 0
    d = inputs.axis_of(op, 0 if axis is None else axis, x.ndim)
    out = inputs.sum_type(x.dtype) if dtype is None else as_dtype(dtype)
    if out.is_bool:
        raise DeclareError(f"ops.{op}: dtype=bool", because="sums and products are numbers")
    inside, rows = inputs.wide(out), x.shape[d]
    # a recurrence has a first row
    if const_int(rows) == 0:
        return inputs.stage(op, tags.ELEMENTWISE, x.shape, lambda *i: te.cast(out, x(*i)))
    if d == x.ndim - 1 and out.bits != 16:  # whose conversions pay in vectors
        return _of_rows(op, x, out, exclusive, reverse)
    begin = make.const(1, rows.dtype) if inputs.at_most(1, rows) else make.min_(rows, 1)
    rest = list(inputs.without(x.shape, (d,)))

    def element(t: Any, *i: Any) -> Expr:  # the recurrence runs over the first dimension of its state
        return te.cast(inside, x(*i[:d], rows - 1 - t if reverse else t, *i[d:]))

    state = te.placeholder((rows, *rest), inside, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [begin, *rest], element)
    step = inputs.stage(
        f"{op}.step", tags.ELEMENTWISE, [rows, *rest], lambda t, *i: combine(state(t - 1, *i), element(t, *i))
    )
    # the scan itself is the result: no copy of it
    straight = d == 0 and inside is out and not exclusive and not reverse
    total = te.scan(first, step, state, name=op if straight else f"{op}.scan", tag=tags.SCAN)
    if straight:
        return total  # type: ignore[no-any-return]
    nothing = make.const(identity, inside)

    def placed(*i: Any) -> Expr:
        t, others = (rows - 1 - i[d] if reverse else i[d]), list(inputs.without(i, (d,)))
        if not exclusive:
            return te.cast(out, total(t, *others))
        # not a select, which would read the row before the first
        return te.cast(out, te.if_then_else(make.gt(t, 0), total(t - 1, *others), nothing))

    return inputs.stage(op, tags.INJECTIVE, x.shape, placed)


def _of_rows(op: str, x: Tensor, out: DType, exclusive: bool, reverse: bool) -> Tensor:
    """Along the last dimension."""
    flat = matrix(x)
    (total,) = te.loops(
        _running_rows,
        [flat],
        [flat.shape],
        [out],
        name=op,
        tag=tags.LOOPS,
        attrs={
            "product": op == "cumprod",
            "dtype": str(out),
            "exclusive": bool(exclusive),
            "reverse": bool(reverse),
        },
    )
    return total if flat is x else reshape(total, x.shape)


def matrix(x: Tensor) -> Tensor:
    """As a program of rows takes it: rows of several dimensions are counted where those are known, else they
    are copied to a matrix."""
    # of none there is no remainder
    if x.ndim == 2 or all(const_int(n) for n in x.shape[:-1]):
        return x
    return reshape(x, (make.as_expr(inputs.product(x.shape[:-1])), x.shape[-1]))


@contextlib.contextmanager
def blocks_of_rows(b: LoopBuilder, shape: Sequence[Expr]) -> Iterator[list[list[Expr]]]:
    """A loop over rows [..., n], some at once: their places in the dimensions before the last."""
    front = shape[:-1]
    rows = make.as_expr(inputs.product(front))
    once = min(ROWS, max(1, const_int(rows) or ROWS))

    def place(row: Expr) -> list[Expr]:
        at: list[Expr] = []
        for size in reversed(front[1:]):
            at, row = [row % size, *at], row // size
        return [row, *at] if front else []

    with b.loop("block", make.ceildiv(rows, once), parallel=True) as block:
        # behind the last row it is taken again: the same numbers to the same places
        yield [place(b.let(f"row{q}", te.min(block * once + q, rows - 1))) for q in range(once)]


def _in_numpy(x: np.ndarray, product: bool, dtype: str, exclusive: bool, reverse: bool) -> list[np.ndarray]:
    f = np.cumprod if product else np.cumsum
    out = as_dtype(dtype)
    # in the type of the kernel's cells, so that both round alike
    inside = x.astype(inputs.wide(out).to_numpy())
    if reverse:
        inside = inside[..., ::-1]
    total = f(inside, -1, dtype=inside.dtype)
    if exclusive:
        total = np.concatenate([np.full_like(total[..., :1], product), total[..., :-1]], -1)
    return [(total[..., ::-1] if reverse else total).astype(out.to_numpy())]


@te.loop_program("running_rows", _in_numpy)
def _running_rows(
    b: LoopBuilder,
    given: Sequence[Memory],
    made: Sequence[Memory],
    product: bool,
    dtype: str,
    exclusive: bool,
    reverse: bool,
) -> None:
    """The running sums or products of rows [..., n], some rows at once."""
    (x,), (sums,) = given, made
    n = x.shape[-1]
    inside = inputs.wide(as_dtype(dtype))
    combine = make.mul if product else make.add
    with blocks_of_rows(b, x.shape) as here:
        totals = [b.cell(f"total{q}", inside, int(product)) for q in range(len(here))]
        with b.loop("step", n) as step:
            at = b.let("at", n - 1 - step) if reverse else step
            for row, total in zip(here, totals, strict=True):
                before = b.let("before", total.value)
                total.set(combine(before, te.cast(inside, x[(*row, at)])))
                sums[(*row, at)] = te.cast(sums.dtype, before if exclusive else total.value)
