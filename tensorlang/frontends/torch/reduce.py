"""ATen's reductions. Knows ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import BOOL, INT64
from ...expr import make
from ...expr.nodes import const_int
from ...ops.inputs import at_most
from ...te import Tensor
from ..words import constant_like
from .table import aten, graph_op, known, needs
from .types import as_type, floats, rounded_once


def _axes(dims: Any) -> Any:
    """No dimensions are all."""
    # an empty list is all dimensions for torch
    return tuple(dims) or None if isinstance(dims, list | tuple) else dims


def _whole(x: Tensor, kind: str | None) -> Tensor:
    """As it is summed: whole numbers in 64 bits."""
    return as_type(x, kind) if kind else x if x.dtype.is_float else as_type(x, INT64)


def _no_axes(x: Tensor) -> bool:
    return x.ndim == 0


def _how(args: Sequence[Any]) -> Sequence[Any]:
    """Dimensions, whether they stay, and a dtype, by the overloads' parameters: (dtype), or all three."""
    return args if len(args) == 3 else (None, False, *args)


@aten("sum", "sum.dim_IntList")
def sum_(x: Tensor, *args: Any) -> Tensor:
    dims, keepdim, kind = _how(args)
    return _total(ops.sum, _whole(x, kind), _axes(dims), keepdim)


def _total(f: Callable[..., Tensor], x: Tensor, axes: Any, keepdim: bool) -> Tensor:
    """In the type of ``x``: a sum of mask values that is asked for in 32 bits is counted in these."""
    if _no_axes(x):
        return x
    if x.dtype.is_bool:  # whether any is true, or all are
        return as_type(f(x, axes, INT64, keepdim), BOOL)
    return f(x, axes, x.dtype, keepdim)


@aten("mean", "mean.dim")
def mean(x: Tensor, *args: Any) -> Tensor:
    dims, keepdim, kind = _how(args)
    x = as_type(x, kind) if kind else x
    return x if _no_axes(x) else ops.mean(x, _axes(dims), keepdim)


@aten("prod", "prod.dim_int")
def prod(x: Tensor, *args: Any) -> Tensor:
    dim, keepdim, kind = _how(args)
    return _total(ops.prod, _whole(x, kind), dim, keepdim)


def _extreme(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def of(x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor:
        if _no_axes(x):
            return x
        if x.dtype.is_bool:
            return as_type(f(as_type(x, "uint8"), _axes(dims), keepdim), BOOL)
        return f(x, _axes(dims), keepdim)

    of.__name__ = f.__name__
    return of


aten("amax", "max")(_extreme(ops.max))
aten("amin", "min")(_extreme(ops.min))


def _with_places(f: Callable[..., Tensor], place: Callable[..., Tensor]) -> Callable[..., Any]:
    def of(x: Tensor, dim: int, keepdim: bool = False) -> Any:
        if _no_axes(x):
            return x, ops.full((), 0, INT64)
        return f(x, dim, keepdim), as_type(place(x, dim, keepdim), INT64)

    of.__name__ = f.__name__
    return of


aten("max.dim")(_with_places(_extreme(ops.max), ops.argmax))
aten("min.dim")(_with_places(_extreme(ops.min), ops.argmin))


def _place(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def of(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        return ops.full((), 0, INT64) if _no_axes(x) else as_type(f(x, dim, keepdim), INT64)

    of.__name__ = f.__name__
    return of


argmax = aten("argmax")(_place(ops.argmax))
aten("argmin")(_place(ops.argmin))


def _whether(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``any`` or ``all``, of which torch gives bools, and bytes of bytes."""

    def of(x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor:
        told = as_type(x, BOOL)
        result = told if _no_axes(x) else f(told, _axes(dims), keepdim)
        return as_type(result, "uint8") if x.dtype.name == "uint8" else result

    of.__name__ = f.__name__
    return of


aten("any", "any.dim", "any.dims")(_whether(ops.any))
aten("all", "all.dim", "all.dims")(_whether(ops.all))


def _spread(x: Tensor, args: Sequence[Any], f: Callable[..., Tensor]) -> Tensor:
    """``f`` by the overloads' parameters: (unbiased), (dims, unbiased, keepdim), (dims, correction,
    keepdim)."""
    dims, correction, keepdim = args if len(args) == 3 else (None, args[0], False)
    axes = _axes(dims) if x.ndim else None  # torch lets a scalar have an axis 0
    return f(x, axes, 1 if correction is None else correction + 0, keepdim)  # True for 1


@aten("var", "var.dim", "var.correction")
def var(x: Tensor, *args: Any) -> Tensor:
    return _spread(x, args, ops.var)


@aten("std", "std.dim", "std.correction")
def std(x: Tensor, *args: Any) -> Tensor:
    return _spread(x, args, ops.std)


@aten("var_mean.correction", "var_mean.dim")
def var_mean(x: Tensor, dims: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return _spread(x, (dims, correction, keepdim), ops.var), mean(x, dims, keepdim, None)


@aten("linalg_vector_norm")
def vector_norm(
    x: Tensor, order: float = 2, dims: Any = None, keepdim: bool = False, kind: str | None = None
) -> Tensor:
    x = as_type(x, kind) if kind else x
    axes = None if _no_axes(x) else _axes(dims)
    if order == 0:
        nonzero = as_type(ops.not_equal(x, constant_like(x, 0)), x.dtype)
        return ops.sum(nonzero, axes, keepdims=keepdim)
    return ops.norm(x, order, axes, keepdim)


@aten("_cdist_forward")
def distances(x: Tensor, y: Tensor, order: float, mode: int | None = None) -> Tensor:
    apart = ops.subtract(ops.expand_dims(x, -2), ops.expand_dims(y, -3))
    return vector_norm(apart, order, [-1])


@aten("logsumexp")
def logsumexp(x: Tensor, dims: Any, keepdim: bool = False) -> Tensor:
    x = floats(x)
    return x if _no_axes(x) else ops.logsumexp(x, _axes(dims), keepdim)


@aten("cumsum")
def cumsum(x: Tensor, dim: int, kind: str | None = None) -> Tensor:
    x = _whole(x, kind)
    return x if _no_axes(x) else ops.cumsum(x, dim, x.dtype)


@aten("cumprod")
def cumprod(x: Tensor, dim: int, kind: str | None = None) -> Tensor:
    x = _whole(x, kind)
    return x if _no_axes(x) else ops.cumprod(x, dim, x.dtype)


@aten("logcumsumexp")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Each with the largest so far taken off, so that no exponential is too large. One turn after another:
    ``m = max(m, x)``, ``s = s exp(m_before - m) + exp(x - m)``."""
    needs(x.dtype.is_float, "logarithms of whole numbers")
    if _no_axes(x) or any(const_int(n) == 0 for n in x.shape):
        return x
    return rounded_once(_log_of_sums)(x, dim % x.ndim)


def _log_of_sums(x: Tensor, d: int) -> Tensor:
    rows, rest = x.shape[d], [n for k, n in enumerate(x.shape) if k != d]
    # a recurrence has a first row
    begin = make.const(1, rows.dtype) if at_most(1, rows) else make.min_(rows, 1)

    def element(t: Any, *i: Any) -> Any:  # the recurrence runs over the first dimension of its state
        return x(*i[:d], t, *i[d:])

    most, total = (te.placeholder((rows, *rest), x.dtype, n) for n in ("most", "total"))
    first = te.compute((begin, *rest), element, name="first")
    one = te.compute((begin, *rest), lambda *i: te.const(1, x.dtype), name="one")

    def larger(t: Any, *i: Any) -> Any:
        a, b = most(t - 1, *i), element(t, *i)
        # what is no number stays
        return te.select(te.any(a >= b, te.isnan(a)), a, b)

    now = te.compute((rows, *rest), larger, name="larger")

    def below(e: Any, m: Any) -> Any:
        # of two that are infinite the difference is no number, and means none
        return te.select(
            te.any(e == m, te.all(te.isnan(e), te.isnan(m))), te.const(1, x.dtype), te.exp(e - m)
        )

    def added(t: Any, *i: Any) -> Any:
        m = now(t, *i)
        return total(t - 1, *i) * below(most(t - 1, *i), m) + below(element(t, *i), m)

    sums = te.compute((rows, *rest), added, name="added")
    m, s = te.scan([first, one], [now, sums], [most, total], name="logcumsumexp")

    def result(*i: Any) -> Any:
        at = (i[d], *i[:d], *i[d + 1 :])
        infinite = te.abs(m(*at)) == te.infinity(str(x.dtype))
        return te.select(infinite, m(*at), m(*at) + te.log(s(*at)))

    return te.compute(x.shape, result, name="result")  # type: ignore[return-value]


@aten("histc")
def histc(x: Tensor, bins: int = 100, low: float = 0, high: float = 0) -> Tensor:
    """How many numbers are in each of equal parts from ``low`` to ``high``, or of the range of all where
    both are equal; those beyond are in none, nor is what is no number."""
    needs(x.dtype.is_float, "counts of whole numbers")
    return rounded_once(_counted)(x, bins, low, high)


def _counted(x: Tensor, bins: int, low: float, high: float) -> Tensor:
    kind = x.dtype
    flat = ops.reshape(x, (-1,)) if x.ndim != 1 else x
    if low == high:
        given = [ops.min(flat, 0), ops.max(flat, 0)] if const_int(flat.shape[0]) != 0 else [None, None]
        ends = [constant_like(flat, low) if g is None else g for g in given]
        single = lambda: ends[0]() == ends[1]()
        # all numbers are one: the parts are of what lies around it
        begin = te.compute((), lambda: te.select(single(), ends[0]() - 1, ends[0]()), name="begin")
        end = te.compute((), lambda: te.select(single(), ends[1]() + 1, ends[1]()), name="end")
    else:
        begin, end = (te.compute((), lambda v=v: te.const(v, kind), name="end") for v in (low, high))

    def place(i: Any) -> Any:
        at = te.cast("int64", (flat(i) - begin()) * bins / (end() - begin()))
        inside = te.all(flat(i) >= begin(), flat(i) <= end())
        # the last part has its end
        return te.select(inside, te.min(te.max(at, 0), bins - 1), te.const(-1, "int64"))

    return te.scatter(  # type: ignore[return-value]
        0, flat.shape, place, lambda i: te.const(1, kind), combine="add", shape=(bins,), dtype=str(kind)
    )


@graph_op("sort", "sort.stable")
def sort(g: Any, x: Any, *args: Any) -> Any:
    """Elements alone need no places, which take as long again."""
    *_, dim, descending = args
    how = {"dim": dim, "descending": descending}
    if len(g.asked) < 2:
        return lambda: g(_sorted_values, x, **how), lambda: g(_sorted_places, x, **how)
    both = functools.cache(lambda: g(sorted_with_places, x, **how))
    return lambda: both()[0], lambda: both()[1]


def sorted_with_places(x: Tensor, dim: int, descending: bool) -> Any:
    if _no_axes(x):
        return x, ops.full((), 0, INT64)
    # all of them, which gives the places too
    return ops.top_k(x, x.shape[dim], dim, descending)


def _sorted_values(x: Tensor, dim: int, descending: bool) -> Tensor:
    return x if _no_axes(x) else ops.sort(x, dim, descending)


def _sorted_places(x: Tensor, dim: int, descending: bool) -> Tensor:
    return ops.full((), 0, INT64) if _no_axes(x) else as_type(ops.argsort(x, dim, descending), INT64)


@aten("argsort", "argsort.stable")
def argsort(x: Tensor, *args: Any) -> Tensor:
    *_, dim, descending = args
    return _sorted_places(x, dim, descending)


@aten("topk")
def top_k(x: Tensor, k: Any, dim: int = -1, largest: bool = True, in_order: bool = True) -> Any:
    if _no_axes(x):
        return x, ops.full((), 0, INT64)
    values, places = ops.top_k(x, k, dim, largest, in_order)
    return values, as_type(places, INT64)


@aten("kthvalue")
def kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Of floats: among equal numbers, of which whole ones have many, torch may choose another place."""
    needs(x.dtype.is_float, "places among equal numbers")
    if _no_axes(x):
        return x, ops.full((), 0, INT64)
    return tuple(_kth(t, k - 1, dim, keepdim) for t in sorted_with_places(x, dim, False))


@aten("median.dim")
def median(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of two in the middle; NaN where there is one."""
    if _no_axes(x):
        return x, ops.full((), 0, INT64)
    middle = (known(x.shape[dim], "the elements of a median") - 1) // 2
    value, place = (_kth(t, middle, dim, keepdim) for t in sorted_with_places(x, dim, False))
    if not x.dtype.is_float:
        return value, place
    nans = ops.isnan(x)
    unordered, first = ops.any(nans, dim, keepdim), argmax(as_type(nans, "uint8"), dim, keepdim)
    return (
        ops.where(unordered, constant_like(value, float("nan")), value),
        ops.where(unordered, first, as_type(place, INT64)),
    )


@aten("median")
def median_of_all(x: Tensor) -> Tensor:
    found: Tensor = median(ops.reshape(x, (-1,)))[0]
    return found


def _kth(x: Tensor, k: int, dim: int, keepdim: bool) -> Tensor:
    """The slice ``k`` of a dimension."""
    found = ops.strided_slice(x, [k], [k + 1], [1], [dim % x.ndim])
    return found if keepdim else ops.squeeze(found, (dim % x.ndim,))
