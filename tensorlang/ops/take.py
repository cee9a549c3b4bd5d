"""Reading by an index that is data, and tensors made of nothing but their indices: take, gather, one_hot,
arange, full.

An index out of range never reads outside: it is clipped, or wrapped round, as ``mode`` says. Knows the checks
of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .places import kept_within
from .shape import flatten

__all__ = ["arange", "full", "gather", "one_hot", "take"]


def indices_of(op: str, t: Any, what: str = "indices") -> Tensor:
    """``t``, which must be a tensor of integers. Raises DeclareError."""
    t = inputs.tensor(op, t, what)
    if not t.dtype.is_int:
        raise DeclareError(
            f"ops.{op}: {what} {t.name} are {t.dtype}, integers are needed",
            try_=f"ops.cast({t.name}, 'int32')",
        )
    return t


def index_rule(op: str, mode: str) -> Callable[[Expr, Expr], Expr]:
    """How an index that is data becomes one within a size. Raises DeclareError for another mode."""
    if mode == "fast":
        return lambda i, n: i
    if mode == "wrap":
        # an empty dimension is never read, and a remainder by zero cannot be built
        return lambda i, n: i if const_int(n) == 0 else make.floormod(signed(i), n)
    if mode == "index":
        return lambda i, n: i if const_int(n) == 0 else kept_within(counted(signed(i), n), n)
    if mode != "clip":
        why = "a kernel does not stop at an element" if mode == "raise" else None
        raise DeclareError(
            f"ops.{op}: mode={mode!r}",
            because=why,
            legal="'clip', 'wrap', 'index' (negative ones count from the end), 'fast' (the caller vouches "
            "for the indices)",
        )
    return lambda i, n: i if const_int(n) == 0 else kept_within(signed(i), n)


def counted(i: Expr, n: Expr) -> Expr:
    """An index that counts from the end when it is negative."""
    return te.select(make.lt(i, 0), i + n, i)


def signed(i: Expr) -> Expr:
    """An index in a type that holds its sign: unsigned ones become int64, small ones int32."""
    return te.cast(
        "int64" if i.dtype.bits > 32 or (i.dtype.code == "uint" and i.dtype.bits == 32) else "int32", i
    )


def take(x: Tensor, indices: Tensor, axis: int | None = None, mode: str = "clip") -> Tensor:
    """``x`` at ``indices`` along ``axis`` (of the flattened tensor for None): its shape with that dimension
    replaced by the shape of ``indices``.

    As numpy's take. ``mode``: ``clip`` takes an index out of range to the nearest (a negative one to 0),
    ``wrap`` counts round, ``index`` counts negative ones from the end as ``x[i]`` does and clips the others,
    ``fast`` trusts the caller. Raises DeclareError for numpy's ``raise``, and when
    something is taken from nothing; kernels refuse that when they are called.

    >>> x = te.placeholder((2, 3), name="x")
    >>> rows = te.placeholder((5,), "int32", name="rows")
    >>> ops.take(x, rows, 0)
    Tensor(take: float32[5, 3])
    """
    x, indices, at = inputs.tensor("take", x), indices_of("take", indices), index_rule("take", mode)
    if axis is None:
        x, axis = flatten(x), 0
    d, rank = inputs.axis_of("take", axis, x.ndim), indices.ndim
    out = inputs.stage(
        "take",
        tags.INJECTIVE,
        [*x.shape[:d], *indices.shape, *x.shape[d + 1 :]],
        lambda *i: x(*i[:d], at(indices(*i[d : d + rank]), x.shape[d]), *i[d + rank :]),
    )
    return inputs.needing("take", out, x, d, 1, unless_empty=True)


def gather(x: Tensor, dim: int, index: Tensor, mode: str = "clip") -> Tensor:
    """``x`` with the index along ``dim`` taken from ``index`` and the others unchanged, as torch.gather
    (numpy's take_along_axis).

    ``index`` has the dimensions of ``x``, none longer but ``dim``; the result has its shape. ``mode`` as for
    :func:`take`. Raises DeclareError for other dimensions.

    >>> x, i = te.placeholder((2, 3), name="x"), te.placeholder((2, 1), "int64", name="i")
    >>> values = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    >>> tl.compile([x, i, ops.gather(x, 1, i)])(values, np.array([[2], [0]]))
    array([[3.],
           [4.]], dtype=float32)
    """
    x, index, at = inputs.tensor("gather", x), indices_of("gather", index), index_rule("gather", mode)
    d = inputs.axis_of("gather", dim, x.ndim, "dim")
    if index.ndim != x.ndim:
        raise DeclareError(
            f"ops.gather: index {inputs.named(index)} for {inputs.named(x)}",
            because="both have the same number of dimensions",
            try_="ops.take for an index of its own shape",
        )
    for k in range(x.ndim):
        # torch lets the index be shorter: the rest of x is not read
        if k != d and inputs.equal(te.max(index.shape[k], x.shape[k]), x.shape[k]) is not True:
            inputs.same_size(
                "gather",
                f"dimension {k} of index {index.name}",
                index.shape[k],
                x.shape[k],
                f"only along dim={d} may the index be longer than {inputs.named(x)}",
            )
    out = inputs.stage(
        "gather", tags.INJECTIVE, index.shape, lambda *i: x(*i[:d], at(index(*i), x.shape[d]), *i[d + 1 :])
    )
    return inputs.needing("gather", out, x, d, 1, unless_empty=True)


def one_hot(
    indices: Tensor,
    num_classes: ExprLike,
    on_value: float = 1,
    off_value: float = 0,
    axis: int = -1,
    dtype: str | DType = "float32",
) -> Tensor:
    """A new dimension of size ``num_classes`` at ``axis`` of the result, ``on_value`` at the index and
    ``off_value`` elsewhere.

    An index out of range gives a row of ``off_value`` alone.

    >>> label = te.placeholder((4,), "int32", name="label")
    >>> ops.one_hot(label, 10)
    Tensor(one_hot: float32[4, 10])
    """
    indices, t = indices_of("one_hot", indices), as_dtype(dtype)
    d = inputs.axis_of("one_hot", axis, indices.ndim + 1, of="the result")
    on, off = (
        make.const(inputs.number("one_hot", what, v), t)
        for what, v in (("on_value", on_value), ("off_value", off_value))
    )
    return inputs.stage(
        "one_hot",
        tags.INJECTIVE,
        [*indices.shape[:d], num_classes, *indices.shape[d:]],
        lambda *i: te.select(make.eq(signed(indices(*inputs.without(i, (d,)))), i[d]), on, off),
    )


def arange(
    start: ExprLike, stop: ExprLike | None = None, step: float = 1, dtype: str | DType | None = None
) -> Tensor:
    """``start, start + step, …`` below ``stop`` (from 0 when one number is given): int64 of ints, else
    float64, as numpy's arange.

    ``start`` and ``stop`` may be expressions of sizes, of which the result is int64 as well; ``step`` is a
    number. Raises DeclareError for a step of 0.

    >>> ops.arange(8)
    Tensor(arange: int64[8])
    """
    first, last = (0, start) if stop is None else (start, stop)
    by = inputs.number("arange", "step", step)
    if by == 0:
        raise DeclareError("ops.arange: step is 0", because="it would never reach the end")
    # a float step between symbols would make a size that depends on rounding
    if isinstance(first, Expr) or isinstance(last, Expr):
        return _counting(first, last, inputs.integer("arange", "step", step), as_dtype(dtype or "int64"))
    first, last = inputs.number("arange", "start", first), inputs.number("arange", "stop", last)
    if not all(map(math.isfinite, (first, last, by))):
        raise DeclareError(
            f"ops.arange: from {first} to {last} by {by}",
            because="only between finite numbers is there an end",
        )
    whole = all(isinstance(v, int) for v in (first, last, by))
    t = as_dtype(dtype) if dtype is not None else as_dtype("int64" if whole else "float64")
    # numpy's length, in Python's floats
    n = max(0, math.ceil((last - first) / by))
    inside = inputs.wide(t)
    return inputs.stage(
        "arange",
        tags.INJECTIVE,
        [n],
        # multiplied and not added up: errors do not grow along it
        lambda i: te.cast(t, make.const(first, inside) + te.cast(inside, i) * make.const(by, inside)),
    )


def _counting(first: ExprLike, last: ExprLike, by: int, t: DType) -> Tensor:
    """``arange`` between sizes that are symbols."""
    for what, e in (("start", make.as_expr(first)), ("stop", make.as_expr(last))):
        if not e.dtype.is_int:
            raise DeclareError(f"ops.arange: {what} `{e}` is {e.dtype}", because="sizes are whole numbers")
    first, last = make.unify(first, last)
    span = make.sub(last, first) if by > 0 else make.sub(first, last)
    n = make.ceildiv(span, abs(by))
    n = n if inputs.at_most(0, n) else te.max(n, 0)
    return inputs.stage("arange", tags.INJECTIVE, [n], lambda i: te.cast(t, first + i * by))


def full(shape: ExprLike | Sequence[ExprLike], fill_value: float, dtype: str | DType = "float32") -> Tensor:
    """``fill_value`` everywhere; the shape may be symbolic.

    >>> ops.full((2, 3), 1.0)
    Tensor(full: float32[2, 3])
    """
    t = as_dtype(dtype)
    value = make.const(
        fill_value if isinstance(fill_value, bool) else inputs.number("full", "fill_value", fill_value), t
    )
    return inputs.stage(
        "full", tags.INJECTIVE, shape if isinstance(shape, tuple | list) else (shape,), lambda *i: value
    )


def pixels_of(name: str, x: Tensor, read: Expr) -> Callable[..., Expr]:
    """How to read an image [N, C, H, W] at (n, c, y, x), of which every channel is ``read`` at so many
    places: in a stage with the channels of a pixel side by side, unless that would copy more than is read."""
    n, c, h, w = x.shape
    places, all_pixels = const_int(read), const_int(make.mul(h, w))
    # few places read less than a copy of the image writes
    if places is not None and all_pixels is not None and 4 * places < all_pixels:
        return x
    pixels = inputs.stage(name, tags.TABLE, [n, h, w, c], lambda b, i, j, k: x(b, k, i, j))
    return lambda b, k, i, j: pixels(b, i, j, k)
