"""Running sums and products along one dimension, as recurrences of ``te.scan``. Knows the checks of
arguments; no other operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .shape import flatten

__all__ = ["cumprod", "cumsum"]


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
    nothing: an empty result.

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
    """The running product along ``axis`` (of the flattened tensor for None), arguments as for
    :func:`cumsum`."""
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
    if const_int(rows) == 0:
        return inputs.stage(op, tags.ELEMENTWISE, x.shape, lambda *i: te.cast(out, x(*i)))
    begin = make.const(1, rows.dtype) if inputs.at_most(1, rows) else make.min_(rows, 1)
    rest = list(inputs.without(x.shape, (d,)))

    def element(t: Any, *i: Any) -> Expr:  # the recurrence runs over the first dimension of its state
        return te.cast(inside, x(*i[:d], rows - 1 - t if reverse else t, *i[d:]))

    state = te.placeholder((rows, *rest), inside, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [begin, *rest], element)
    step = inputs.stage(
        f"{op}.step", tags.ELEMENTWISE, [rows, *rest], lambda t, *i: combine(state(t - 1, *i), element(t, *i))
    )
    straight = d == 0 and inside is out and not exclusive and not reverse
    total = te.scan(first, step, state, name=op if straight else f"{op}.scan", tag=tags.SCAN)
    if straight:
        return total  # type: ignore[no-any-return]
    nothing = make.const(identity, inside)

    def placed(*i: Any) -> Expr:
        t, others = (rows - 1 - i[d] if reverse else i[d]), list(inputs.without(i, (d,)))
        if not exclusive:
            return te.cast(out, total(t, *others))
        return te.cast(out, te.if_then_else(make.gt(t, 0), total(t - 1, *others), nothing))

    return inputs.stage(op, tags.INJECTIVE, x.shape, placed)
