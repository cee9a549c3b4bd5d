"""Reductions over any dimensions, with numpy's names and meaning: ``axis`` None (all), an int or several,
``keepdims``.

Sums and products of integers are made in 64 bits, those of float16 and bfloat16 in float32 and rounded once.
``max``, ``min``, ``argmax`` and ``argmin`` hand a NaN on and of equal values take the first, as numpy's do.
The reduction axes of a stage stand in the order of the dimensions, the innermost last. Of an empty range
``sum`` gives 0, ``prod`` 1, ``max`` minus infinity (or the least integer), ``mean`` NaN. Knows ``te``
reductions and the checks of arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import BOOL, FLOAT64, INT32, INT64, DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .inputs import Axis
from .places import kept_within
from .shape import reshape

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "logsumexp",
    "max",
    "mean",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
]

# elements of a row, and bytes, from which on it is searched by blocks, one of which is read twice
LONG, LONG_BYTES = 1024, 4000
ROW = 32  # elements from which on the lanes of a vector are those of one row
FEW_ROWS = 4  # of a tensor that is searched whole, below which one of them takes as long as all


def over(
    name: str,
    x: Tensor,
    axes: Sequence[int],
    reducer: Callable[..., Expr],
    f: Callable[[Expr], Expr] = lambda e: e,
    keepdims: bool = False,
    tag: str = tags.REDUCE,
) -> Tensor:
    """The stage ``reducer(f(element))`` over the dimensions ``axes`` of ``x``; with none, ``f`` of each
    element."""
    return _over_elements(name, x.shape, axes, reducer, lambda *i: f(x(*i)), keepdims, tag)


def _over_elements(
    name: str,
    shape: Sequence[Expr],
    axes: Sequence[int],
    reducer: Callable[..., Expr],
    element: Callable[..., Expr],
    keepdims: bool = False,
    tag: str = tags.REDUCE,
) -> Tensor:
    """The stage ``reducer(element(i, …))`` over the dimensions ``axes`` of a box of that shape. Its attrs
    hold the axes and the rank."""
    rest = [n if d not in axes else 1 for d, n in enumerate(shape) if keepdims or d not in axes]
    # of a dimension of one element there is no loop, unless a reduction would have none
    long = [d for d in axes if const_int(shape[d]) != 1] or axes[-1:]
    inner = {d: te.reduce_axis((0, shape[d]), name=f"k{d}") for d in long}

    def body(*i: Any) -> Expr:
        # a kept dimension has the index 0, which the axis of the reduction takes the place of
        given = iter(i if not keepdims else [v for d, v in enumerate(i) if d not in axes])
        at = [(inner.get(d, 0) if d in axes else next(given)) for d in range(len(shape))]
        e = element(*at)
        # no dimensions to reduce: the element itself, for a reduction needs an axis
        return reducer(e, axis=list(inner.values())) if inner else e

    return inputs.stage(name, tag, rest, body, {"axes": tuple(axes), "rank": len(shape)})


def scaled(name: str, total: Tensor, f: Callable[[Expr], Expr], result: DType) -> Tensor:
    """``f`` of each total, rounded to ``result``: the small stage after a reduction."""
    return inputs.stage(name, tags.ELEMENTWISE, total.shape, lambda *i: te.cast(result, f(total(*i))))


def count(shape: Sequence[Expr], axes: Sequence[int], t: DType) -> Expr:
    """How many elements of a box one result is made of, in the type ``t``."""
    return te.cast(t, inputs.product([te.cast(INT64, shape[d]) for d in axes]))


def mean_stages(
    name: str,
    shape: Sequence[Expr],
    axes: Sequence[int],
    element: Callable[..., Expr],
    out: DType | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum stage and the mean, rounded to ``out``, over the dimensions ``axes`` of a box."""
    total = _over_elements(f"{name}.sum", shape, axes, te.sum, element, keepdims)
    kind = total.dtype if total.dtype.is_float else FLOAT64
    return scaled(name, total, lambda e: te.cast(kind, e) / count(shape, axes, kind), out or kind)


def squares_about(
    name: str,
    shape: Sequence[Expr],
    axes: Sequence[int],
    element: Callable[..., Expr],
    center: Tensor,
    keepdims: bool = False,
) -> Tensor:
    """The sum of squared distances from ``center``, which has the dimensions of the box without ``axes``: the
    second pass of a variance."""

    def squared(*i: Any) -> Expr:
        d = element(*i) - center(*inputs.without(i, axes))
        return d * d

    return _over_elements(name, shape, axes, te.sum, squared, keepdims)


def _total(
    op: str, x: Any, axis: Axis, dtype: str | DType | None, keepdims: bool, reducer: Callable[..., Expr]
) -> Tensor:
    x = inputs.tensor(op, x)
    axes = inputs.axes_of(op, axis, x.ndim)
    out = inputs.sum_type(x.dtype) if dtype is None else as_dtype(dtype)
    if out.is_bool:
        raise DeclareError(
            f"ops.{op}: dtype=bool", because="sums and products are numbers", try_="ops.any or ops.all"
        )
    inside = inputs.wide(out)
    if inside is out:
        return over(op, x, axes, reducer, lambda e: te.cast(out, e), keepdims)
    # a sum of halves stops growing at 2048 when each step is rounded
    total = over(f"{op}.wide", x, axes, reducer, lambda e: te.cast(inside, e), keepdims)
    return scaled(op, total, lambda e: e, out)


def sum(x: Tensor, axis: Axis = None, dtype: str | DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum over ``axis``, in ``dtype`` (64 bits of integers and bools, else the type of ``x``). Raises
    DeclareError for ``dtype="bool"``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.sum(x, axis=1)
    Tensor(sum: float32[2])
    """
    return _total("sum", x, axis, dtype, keepdims, te.sum)


def prod(x: Tensor, axis: Axis = None, dtype: str | DType | None = None, keepdims: bool = False) -> Tensor:
    """The product over ``axis``, in ``dtype`` (64 bits of integers and bools, else the type of ``x``). Raises
    DeclareError for ``dtype="bool"``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.prod(x, axis=1)
    Tensor(prod: float32[2])
    """
    return _total("prod", x, axis, dtype, keepdims, te.prod)


def _float_of(t: DType) -> DType:
    return t if t.is_float else FLOAT64


def mean(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over ``axis``; of integers and bools in float64, as in numpy. Those of up to 32 bits are
    summed as integers: exactly, and in less time. Stages ``mean.sum`` and ``mean``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.mean(x, axis=1)
    Tensor(mean: float32[2])
    """
    x = inputs.tensor("mean", x)
    axes, out = inputs.axes_of("mean", axis, x.ndim), _float_of(x.dtype)
    inside = inputs.wide(out) if x.dtype.is_float or x.dtype.bits > 32 else INT64
    return mean_stages("mean", x.shape, axes, lambda *i: te.cast(inside, x(*i)), out, keepdims)


def var(x: Tensor, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The variance over ``axis``, divided by ``n - ddof``; of integers in float64. Two passes, the second
    about the mean: no cancellation.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.var(x, axis=1)
    Tensor(var: float32[2])
    """
    return _spread("var", x, axis, ddof, keepdims, lambda e: e)


def std(x: Tensor, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation: the square root of :func:`var`.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.std(x, axis=1)
    Tensor(std: float32[2])
    """
    return _spread("std", x, axis, ddof, keepdims, te.sqrt)


def _spread(op: str, x: Any, axis: Axis, ddof: int, keepdims: bool, finish: Callable[[Expr], Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    axes, out, less = inputs.axes_of(op, axis, x.ndim), _float_of(x.dtype), inputs.number(op, "ddof", ddof)
    inside = inputs.wide(out)

    def element(*i: Any) -> Expr:
        return te.cast(inside, x(*i))

    # never with keepdims: the second pass reads it at the dimensions that are left
    center = mean_stages(f"{op}.mean", x.shape, axes, element)
    total = squares_about(f"{op}.squares", x.shape, axes, element, center, keepdims)
    n = count(x.shape, axes, inside)
    if (
        less
    ):  # than the elements there are: not a number, as numpy and torch have it, and no negative variance
        n = te.max(n - make.const(less, inside), make.const(0, inside))
    return scaled(op, total, lambda e: finish(e / n), out)


def max(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over ``axis``, NaN when there is one. Of bools, whether any holds.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.max(x, axis=1)
    Tensor(max: float32[2])
    """
    x = inputs.tensor("max", x)
    return over(
        "max",
        x,
        inputs.axes_of("max", axis, x.ndim),
        te.any if x.dtype.is_bool else te.max,
        keepdims=keepdims,
    )


def min(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over ``axis``, NaN when there is one. Of bools, whether all hold.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.min(x, axis=1)
    Tensor(min: float32[2])
    """
    x = inputs.tensor("min", x)
    return over(
        "min",
        x,
        inputs.axes_of("min", axis, x.ndim),
        te.all if x.dtype.is_bool else te.min,
        keepdims=keepdims,
    )


def any(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element over ``axis`` is true (not zero): bool.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.any(x, axis=1)
    Tensor(any: bool[2])
    """
    x = inputs.tensor("any", x)
    return over("any", x, inputs.axes_of("any", axis, x.ndim), te.any, lambda e: te.cast(BOOL, e), keepdims)


def all(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element over ``axis`` is true (not zero): bool.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.all(x, axis=1)
    Tensor(all: bool[2])
    """
    x = inputs.tensor("all", x)
    return over("all", x, inputs.axes_of("all", axis, x.ndim), te.all, lambda e: te.cast(BOOL, e), keepdims)


def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest element along ``axis``, or in the flattened tensor: int64. The first of
    equals; the first NaN, if any.

    Two passes, both of plain vector reductions: the maximum, then the least index at which it occurs. Raises
    DeclareError for a dimension that is empty; of a symbolic one that turns out to be, the result is the
    greatest int32 (int64 of several flattened ones).

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.argmax(x, axis=1)
    Tensor(argmax: int64[2])
    """
    return _where_extreme("argmax", x, axis, keepdims, te.max)


def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest element along ``axis``, or in the flattened tensor: int64. The first of
    equals; the first NaN, if any. Raises DeclareError for a dimension without elements.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.argmin(x, axis=1)
    Tensor(argmin: int64[2])
    """
    return _where_extreme("argmin", x, axis, keepdims, te.min)


def _where_extreme(op: str, x: Any, axis: int | None, keepdims: bool, reducer: Callable[..., Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    axes = tuple(range(x.ndim)) if axis is None else (inputs.axis_of(op, axis, x.ndim),)
    elements = inputs.product([x.shape[d] for d in axes])
    n = const_int(elements)
    if n == 0:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has no element to choose", because="the dimension reduced is empty"
        )
    index = (
        INT64
        if elements.dtype is INT64 or (n is None and len(axes) > 1) or (n is not None and n > 0x7FFFFFFF)
        else INT32
    )
    if x.dtype.is_bool:
        return _first_bool(op, x, axes, keepdims, reducer is te.max, elements, index)

    def is_best(value: Expr, found: Expr) -> Expr:
        same = make.eq(value, found)
        if not x.dtype.is_float:
            return same
        # a NaN is the extreme, as numpy has it, and equals nothing: a row that has one is asked for NaN, and
        # others for what equals the extreme. Where lanes are rows, each asks both. Measured (Zen 4, one
        # thread): 3000 rows of 64 float64 0.84 of the time, 10000 of 33 0.85, 300 of 500 0.91, 5000 of 40
        # float32 0.91, 64 of 4096 1.00
        if axes[-1] == x.ndim - 1 and (n is None or n >= ROW):
            return te.if_then_else(te.isnan(found), te.isnan(value), same)
        return te.any(same, te.isnan(value))

    if axes == (x.ndim - 1,) and n is not None and _long(n, x):
        first = _first_in_block(op, x, n, reducer, is_best, index)
        if keepdims:
            rest = (*x.shape[:-1], 1)
            return inputs.stage(op, tags.ELEMENTWISE, rest, lambda *i: te.cast(INT64, first(*i[:-1])))
        return scaled(op, first, lambda e: e, INT64)
    tail = _row_of(x.shape) if len(axes) == x.ndim > 1 else None
    if tail is not None:
        first = _first_in_rows(op, x, tail, reducer, is_best, index)
        return inputs.stage(
            op, tags.ELEMENTWISE, (1,) * x.ndim if keepdims else (), lambda *i: te.cast(INT64, first())
        )
    if len(axes) == x.ndim > 1 and n is not None and _long(n, x):
        first = _first_in_block(op, reshape(x, (n,)), n, reducer, is_best, index)
        return inputs.stage(
            op, tags.ELEMENTWISE, (1,) * x.ndim if keepdims else (), lambda *i: te.cast(INT64, first())
        )
    best = over(f"{op}.value", x, axes, reducer)

    def element(*i: Any) -> Expr:
        best_here = is_best(x(*i), best(*inputs.without(i, axes)))
        return te.select(best_here, _place(x, axes, i, index), te.max_value(index))

    first = _over_elements(f"{op}.first", x.shape, axes, te.min, element, keepdims, tags.ARG_REDUCE)
    return scaled(op, first, lambda e: e, INT64)


def _place(x: Tensor, axes: Sequence[int], at: Sequence[Any], index: DType) -> Expr:
    """The number of an element among those along ``axes``: in 32 bits where they suffice, twice as many lanes
    in a vector."""
    place = make.const(0, index)
    for d in axes:
        place = place * te.cast(index, x.shape[d]) + te.cast(index, at[d])
    return place


def _first_bool(
    op: str, x: Tensor, axes: Sequence[int], keepdims: bool, wanted: bool, elements: Expr, index: DType
) -> Tensor:
    """The index of the first ``wanted`` one of bools, or of the first of all where there is none: they are
    read once, and no further. Measured (Zen 5, one thread), every second one true: 500 rows of 300 4.7 → 1.2
    µs, 1000 of 100 5.4 → 1.8, of open lengths 10.9 → 1.9 and 12.4 → 2.8, 300,000 2.2 → 0.45."""
    none = te.max_value(index)

    def element(*i: Any) -> Expr:
        value = x(*i)
        return te.select(value if wanted else make.not_(value), _place(x, axes, i, index), none)

    first = _over_elements(f"{op}.first", x.shape, axes, te.min, element, keepdims, tags.ARG_REDUCE)
    # of no elements there is no first one
    least = te.select(make.gt(elements, 0), make.const(0, index), none)
    return scaled(op, first, lambda e: te.select(make.eq(e, none), least, e), INT64)


def _long(n: int, x: Tensor) -> bool:
    """Whether a row of ``n`` elements is searched by blocks."""
    return n >= LONG or n * x.dtype.bytes >= LONG_BYTES


def _row_of(shape: Sequence[Expr]) -> int | None:
    """The first of the dimensions, as few as make a row that is worth an end of its own, that are rows of a
    tensor which has several; None where sizes are not known or it has none."""
    sizes = [const_int(n) for n in shape]
    known = [n for n in sizes if n is not None]
    found = (d for d in range(len(known) - 1, 0, -1) if math.prod(known[d:]) >= LONG // 4)
    tail = next(found, 0) if len(known) == len(sizes) else 0
    return tail if tail and math.prod(known[:tail]) >= FEW_ROWS else None


def _first_in_rows(
    op: str,
    x: Tensor,
    tail: int,
    reducer: Callable[..., Expr],
    is_best: Callable[[Expr, Expr], Expr],
    index: DType,
) -> Tensor:
    """The index of the first extreme of all elements, which are read once: the extremes of rows, which are
    the dimensions from ``tail`` on, the first row that has the extreme of all, and its place in there.
    Measured (Zen 4, one thread, 1049 × 1049): float32 0.44 of the time of reading all twice, uint8 0.30,
    float64 0.42."""
    front, row = x.shape[:tail], x.shape[tail:]
    none = te.max_value(index)
    tops = over(f"{op}.rows", x, range(tail, x.ndim), reducer)
    best = over(f"{op}.value", tops, range(tail), reducer)

    def flat(places: Sequence[Any], sizes: Sequence[Expr]) -> Expr:
        at = make.const(0, index)
        for i, n in zip(places, sizes, strict=True):
            at = at * te.cast(index, n) + te.cast(index, i)
        return at

    def first_row(*i: Any) -> Expr:
        return te.select(is_best(tops(*i), best()), flat(i, front), none)

    which = _over_elements(f"{op}.row", front, range(tail), te.min, first_row, tag=tags.ARG_REDUCE)

    def first_of_row(*k: Any) -> Expr:
        # none where a NaN came up that is none: a place outside is read nowhere
        found = kept_within(which(), te.cast(index, inputs.product(front)))
        rest, places = found, list[Expr]()
        for n in reversed(front):
            places.insert(0, te.floormod(rest, te.cast(index, n)))
            rest = te.floordiv(rest, te.cast(index, n))
        value = x(*places, *k)
        return te.select(is_best(value, best()), found * flat_size + flat(k, row), none)

    flat_size = te.cast(index, inputs.product(row))
    return _over_elements(f"{op}.first", row, range(len(row)), te.min, first_of_row, tag=tags.ARG_REDUCE)


def _first_in_block(
    op: str,
    x: Tensor,
    n: int,
    reducer: Callable[..., Expr],
    is_best: Callable[[Expr, Expr], Expr],
    index: DType,
) -> Tensor:
    """The index of the first extreme of each row of ``n`` elements along memory, which are read once: the
    extremes of blocks, the first block that has the extreme of all, and its place in there. The last block
    overlaps the one before, so that none is shorter.

    The end of a block takes as long as 64 elements or so, of which follows the best size. Measured (Granite
    Rapids): a row of 50257 takes 0.4 of the time of reading all twice, rows of 5000 0.6; (Zen 4) of 500 and
    1000 of 64 bits 0.7 to 0.88, of 1000 of 32 bits 0.65 to 0.85, of 2000 of 16 0.6.
    """
    size = 1 << round(math.log2(64 * n) / 2)
    front, blocks = x.shape[:-1], -(-n // size)
    inner, outer, at, again = (
        te.reduce_axis((0, m), name=k) for m, k in ((size, "k"), (blocks, "b"), (blocks, "b"), (size, "j"))
    )

    def start(block: Any) -> Expr:
        return te.min(block * size, n - size)

    tops = inputs.stage(
        f"{op}.blocks",
        tags.REDUCE,
        (*front, blocks),
        lambda *i: reducer(x(*i[:-1], start(i[-1]) + inner), axis=inner),
    )
    best = inputs.stage(f"{op}.value", tags.REDUCE, front, lambda *i: reducer(tops(*i, outer), axis=outer))
    none = te.max_value(INT32)
    which = inputs.stage(
        f"{op}.block",
        tags.ARG_REDUCE,
        front,
        lambda *i: te.min(te.select(is_best(tops(*i, at), best(*i)), te.cast(INT32, at.var), none), axis=at),
    )

    def place(i: Sequence[Any]) -> Expr:
        block = te.cast(x.shape[-1].dtype, which(*i))
        return start(kept_within(block, make.const(blocks, block.dtype))) + again

    return inputs.stage(
        f"{op}.first",
        tags.ARG_REDUCE,
        front,
        lambda *i: te.min(
            te.select(is_best(x(*i, place(i)), best(*i)), te.cast(index, place(i)), te.max_value(index)),
            axis=again,
        ),
    )


def norm(x: Tensor, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The vector norm over ``axis``: ``sum(|x| ** ord) ** (1 / ord)``, of which 1, 2, inf and -inf are
    direct; 0 counts what is not zero.

    As torch.linalg.vector_norm, and numpy's norm of vectors. Integers give float64.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.norm(x)
    Tensor(norm: float32[])
    """
    x, p = inputs.tensor("norm", x), inputs.number("norm", "ord", ord)
    axes, out = inputs.axes_of("norm", axis, x.ndim), _float_of(x.dtype)
    inside = inputs.wide(out)

    def size(e: Expr) -> Expr:
        return te.abs(te.cast(inside, e))

    if math.isinf(p):
        total = over("norm.extreme", x, axes, te.max if p > 0 else te.min, size, keepdims)
        return scaled("norm", total, lambda e: e, out)
    if p == 2:
        total = over("norm.sum", x, axes, te.sum, lambda e: te.cast(inside, e) * te.cast(inside, e), keepdims)
        return scaled("norm", total, te.sqrt, out)
    # numpy's norm of order 0 counts what is not zero; no powers and roots for these
    if p in (0, 1):
        total = over(
            "norm.sum",
            x,
            axes,
            te.sum,
            size if p else lambda e: te.cast(inside, make.ne(e, make.const(0, e.dtype))),
            keepdims,
        )
        return scaled("norm", total, lambda e: e, out)
    total = over("norm.sum", x, axes, te.sum, lambda e: te.power(size(e), make.const(p, inside)), keepdims)
    return scaled("norm", total, lambda e: te.power(e, make.const(1 / p, inside)), out)


def logsumexp(x: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over ``axis`` without overflow: the maximum is taken out first. Of floats.

    A row of minus infinities gives minus infinity. Stages ``logsumexp.max``, ``logsumexp.exp``,
    ``logsumexp.sum``.
    """
    x = inputs.floating("logsumexp", x)
    axes, inside = inputs.axes_of("logsumexp", axis, x.ndim), inputs.wide(x.dtype)
    top = over("logsumexp.max", x, axes, te.max, lambda e: te.cast(inside, e))

    def shift(*i: Any) -> Expr:
        t = top(*i)
        # a row of -inf has -inf, and one with inf has inf, both by the logarithm alone
        return te.select(te.isinf(t), make.const(0.0, inside), t)  # inf - inf is not a number

    grown = inputs.stage(
        "logsumexp.exp",
        tags.BROADCAST,
        x.shape,
        lambda *i: te.exp(te.cast(inside, x(*i)) - shift(*inputs.without(i, axes))),
    )
    total = over("logsumexp.sum", grown, axes, te.sum, keepdims=keepdims)

    def element(*i: Any) -> Expr:
        own = list(inputs.without(i, axes)) if keepdims else i
        return te.cast(x.dtype, te.log(total(*i)) + shift(*own))

    return inputs.stage("logsumexp", tags.ELEMENTWISE, total.shape, element)
