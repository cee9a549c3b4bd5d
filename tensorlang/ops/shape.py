"""Operators that rename the places of elements: transpose, reshape and the like, broadcast, flip, tile and
repeat. All are ``injective``: each element of the result is one element of the tensor, in its dtype. Knows
the checks of arguments; no other operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import DeclareError
from ..expr import make
from ..expr.linear import quotient
from ..expr.make import ExprLike
from ..expr.nodes import Cast, Expr, Mul, Var, const_int
from ..te import Tensor, whole
from ..te.row_major import place
from . import inputs, tags
from .inputs import Axis

__all__ = [
    "broadcast_to",
    "expand_dims",
    "flatten",
    "flip",
    "repeat",
    "reshape",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
]


def moved(
    name: str, x: Tensor, shape: Sequence[ExprLike], place: Callable[..., Sequence[ExprLike]]
) -> Tensor:
    """The stage whose element ``i`` is ``x[place(*i)]``. An empty tensor is read at no place: any index that
    is not a number will do."""
    empty = any(const_int(n) == 0 for n in x.shape)
    return inputs.stage(
        name, tags.INJECTIVE, shape, lambda *i: x(*i[:1] * x.ndim) if empty else x(*place(*i))
    )


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Dimension ``d`` of the result is dimension ``axes[d]`` of ``x``; reversed when left out. Raises
    DeclareError for ``axes`` that do not name each dimension once.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.transpose(x)
    Tensor(transpose: float32[3, 2])
    """
    x = inputs.tensor("transpose", x)
    if axes is None:
        order = list(reversed(range(x.ndim)))
    else:
        order = [inputs.axis_of("transpose", a, x.ndim, "axes") for a in axes]
        if sorted(order) != list(range(x.ndim)):
            raise DeclareError(
                f"ops.transpose: axes={tuple(axes)} of {inputs.named(x)}",
                because="every dimension stands in it once",
            )
    # ``order`` says where sizes come from; to read, an index goes the other way
    back = [order.index(d) for d in range(x.ndim)]
    return moved("transpose", x, [x.shape[d] for d in order], lambda *i: [i[d] for d in back])


def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """``x`` with two dimensions exchanged.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.swapaxes(x, 0, 1)
    Tensor(swapaxes: float32[3, 2])
    """
    x = inputs.tensor("swapaxes", x)
    a, b = (
        inputs.axis_of("swapaxes", axis1, x.ndim, "axis1"),
        inputs.axis_of("swapaxes", axis2, x.ndim, "axis2"),
    )
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return moved("swapaxes", x, [x.shape[d] for d in order], lambda *i: [i[d] for d in order])


# --- reshape ------------------------------------------------------------------------------------------------


def reshape(x: Tensor, shape: ExprLike | Sequence[ExprLike]) -> Tensor:
    """The elements in their order, in another shape with as many; one size may be -1 and follows from the
    others.

    Raises DeclareError unless the numbers of elements are sure to be equal.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.reshape(x, (3, -1))
    Tensor(reshape: float32[3, 2])
    """
    x = inputs.tensor("reshape", x)
    wanted = list(shape) if isinstance(shape, tuple | list) else [shape]
    return _reshaped("reshape", x, _inferred(x, wanted))


def _inferred(x: Tensor, wanted: list[Any]) -> list[Expr]:
    free = [d for d, n in enumerate(wanted) if const_int(make.as_expr(n)) == -1]
    if len(free) > 1:
        raise DeclareError(
            f"ops.reshape: shape {inputs.text(wanted)} leaves {len(free)} sizes open",
            because="one -1 follows from the others, two do not",
        )
    sizes = [make.as_expr(n) for n in wanted]
    others = [n for d, n in enumerate(sizes) if d not in free]
    # -1 of a shape with a zero may be any number: numpy refuses it too
    total, known = inputs.product(x.shape), inputs.product(others)
    if free:
        if const_int(known) == 0:
            raise DeclareError(
                f"ops.reshape: -1 beside a 0 in shape {inputs.text(wanted)}", because="any size would do"
            )
        found = _quotient(x.shape, others)
        if found is None:  # a length with what pads it to whole blocks, over their number
            found = _quotient(*([whole.by_quotients(n) for n in side] for side in (x.shape, others)))
        if found is None:
            apart = _first_apart(x.shape, sizes[: free[0]])
            error = DeclareError(
                f"ops.reshape: {inputs.named(x)} to {inputs.text(wanted)}",
                because=f"{x.name} has {total} elements, which is not sure to be a multiple of {known}",
                try_=None
                if const_int(total) is not None
                else "te.dim with multiple_of= for the size to be divided",
            )
            raise error if apart is None else error.unless_equal(*apart)
        sizes[free[0]] = found
    # as many elements as far as symbols show
    elif not inputs.equal(known, total):
        sure = inputs.equal(known, total) is False
        error = DeclareError(
            f"ops.reshape: {inputs.named(x)} to {inputs.text(wanted)}",
            because=f"{x.name} has {total} elements, the shape {known}"
            + ("" if sure else ", which may differ when the kernel is called"),
            try_=None
            if sure
            else "-1 for the size that follows from the others, and te.dim with multiple_of= for the size to "
            "be divided",
        )
        raise error if sure else error.unless_equal(*_without_common_factors(total, known))
    return sizes


def _quotient(sizes: Sequence[Expr], others: Sequence[Expr]) -> Expr | None:
    """The product of ``sizes`` over that of ``others``, of which factors that stand in both are struck out;
    None when it is not sure to be whole."""
    # symbols first: n m / m is n, while a proof that m divides n m needs more than it has
    left, over = _struck(*([f for n in side for f in _listed(n)] for side in (sizes, others)))
    total, known = inputs.product(left), inputs.product(over)
    fixed, divisor = inputs.product([n for n in left if const_int(n) is not None]), const_int(known)
    if divisor is not None and const_int(fixed) is not None and inputs.divides(divisor, fixed):
        return make.mul(
            inputs.product([n for n in left if const_int(n) is None]), make.floordiv(fixed, divisor)
        )
    if inputs.divides(known, total):
        return make.floordiv(total, known)
    # a sum, such as what is left of sizes that were joined and put together
    return quotient(total, known)


def _first_apart(sizes: Sequence[Expr], wanted: Sequence[Expr]) -> tuple[Expr, Expr] | None:
    """The first two sizes that are not the same, where both are symbols: mostly two names of one size."""
    for a, b in zip(sizes, wanted, strict=False):
        if a is not b:
            return (a, b) if isinstance(a, Var) and isinstance(b, Var) else None
    return None


def _struck(sizes: Sequence[Expr], others: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Both without the factors that stand in both, but numbers."""
    left, over = list(sizes), []
    for n in others:
        # expressions are interned: equal ones are one object
        same = next((k for k, m in enumerate(left) if m is n and const_int(n) is None), None)
        if same is None:
            over.append(n)
        else:
            del left[same]
    return left, over


def _without_common_factors(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    (m, left), (n, over) = _factors(a), _factors(b)
    left, over = _struck(left, over)
    common = math.gcd(m, n) or 1
    return inputs.product([m // common, *left]), inputs.product([n // common, *over])


def _factors(e: Expr) -> tuple[int, list[Expr]]:
    """A product as a number and its other factors."""
    while isinstance(e, Cast):  # of a product that would not fit 32 bits
        e = e.a
    number = const_int(e)
    if number is not None:
        return number, []
    if not isinstance(e, Mul):
        return 1, [e]
    (m, left), (n, over) = _factors(e.a), _factors(e.b)
    return m * n, [*left, *over]


def _listed(e: Expr) -> list[Expr]:
    """The factors of a size, its number among them."""
    number, others = _factors(e)
    return [*([] if number == 1 and others else [make.as_expr(number)]), *others]


def _reshaped(name: str, x: Tensor, shape: Sequence[Expr]) -> Tensor:
    return moved(name, x, shape, lambda *i: place(x.shape, shape, i))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one. Raises DeclareError for dimensions in another order.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> ops.flatten(image)
    Tensor(flatten: float32[192])
    """
    x = inputs.tensor("flatten", x)
    if x.ndim == 0:
        return moved("flatten", x, [1], lambda _: [])
    first, last = (
        inputs.axis_of("flatten", start_dim, x.ndim, "start_dim"),
        inputs.axis_of("flatten", end_dim, x.ndim, "end_dim"),
    )
    if first > last:
        raise DeclareError(
            f"ops.flatten: start_dim={start_dim} stands behind end_dim={end_dim}",
            because=f"they are dimensions of {inputs.named(x)}",
        )
    return _reshaped(
        "flatten", x, [*x.shape[:first], inputs.product(x.shape[first : last + 1]), *x.shape[last + 1 :]]
    )


def squeeze(x: Tensor, axis: Axis = None) -> Tensor:
    """Without the dimensions ``axis``, which are of size 1; without all of that size when left out.

    >>> x = te.placeholder((1, 3), name="x")
    >>> ops.squeeze(x, 0)
    Tensor(squeeze: float32[3])
    """
    x = inputs.tensor("squeeze", x)
    axes = (
        tuple(d for d in range(x.ndim) if inputs.is_one(x.shape[d]))
        if axis is None
        else inputs.axes_of("squeeze", axis, x.ndim)
    )
    for d in axes:
        if not inputs.is_one(x.shape[d]):
            error = DeclareError(
                f"ops.squeeze: dimension {d} of {inputs.named(x)} is {x.shape[d]}",
                because="only a size of 1 can be left out",
            )
            raise error if const_int(x.shape[d]) is not None else error.unless_equal(x.shape[d], 1)

    def place(*i: Any) -> list[ExprLike]:
        own = iter(i)
        return [0 if d in axes else next(own) for d in range(x.ndim)]

    return moved("squeeze", x, list(inputs.without(x.shape, axes)), place)


def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """With new dimensions of size 1 at the places ``axis`` of the result.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.expand_dims(x, 0)
    Tensor(expand_dims: float32[1, 2, 3])
    """
    x = inputs.tensor("expand_dims", x)
    listed = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    axes = inputs.axes_of("expand_dims", listed, x.ndim + len(listed), of="the result")
    sizes = iter(x.shape)
    return moved(
        "expand_dims",
        x,
        [1 if d in axes else next(sizes) for d in range(x.ndim + len(axes))],
        lambda *i: list(inputs.without(i, axes)),
    )


# --- repetition and reversal --------------------------------------------------------------------------------


def broadcast_to(x: Tensor, shape: Sequence[ExprLike]) -> Tensor:
    """``x`` repeated to ``shape`` by numpy's rule. Raises DeclareError when it does not broadcast.

    >>> y = te.placeholder((3,), name="y")
    >>> ops.broadcast_to(y, (2, 3))
    Tensor(broadcast_to: float32[2, 3])
    """
    x = inputs.tensor("broadcast_to", x)
    sizes = [make.as_expr(n) for n in shape]
    apart = [
        (a, b)
        for a, b in zip(reversed(x.shape), reversed(sizes), strict=False)
        if not inputs.is_one(a) and not inputs.equal(a, b)
    ]
    if apart or len(sizes) < x.ndim:
        error = DeclareError(
            f"ops.broadcast_to: {inputs.named(x)} to {inputs.text(shape)}",
            because="aligned at the last dimension, a size is the one wanted or 1",
        )
        sure = len(sizes) < x.ndim or any(inputs.equal(a, b) is False for a, b in apart)
        raise error if sure else error.unless_equal(*apart[0])
    return inputs.stage("broadcast_to", tags.BROADCAST, sizes, lambda *i: whole.read(x, i))


def flip(x: Tensor, axis: Axis = None) -> Tensor:
    """The elements in reverse order along ``axis`` (all dimensions for None).

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.flip(x, 1)
    Tensor(flip: float32[2, 3])
    """
    x = inputs.tensor("flip", x)
    axes = inputs.axes_of("flip", axis, x.ndim)
    return moved(
        "flip", x, x.shape, lambda *i: [x.shape[d] - 1 - v if d in axes else v for d, v in enumerate(i)]
    )


def tile(x: Tensor, reps: ExprLike | Sequence[ExprLike]) -> Tensor:
    """The whole tensor ``reps`` times along each dimension, aligned at the last, as numpy's tile. Numbers of
    times may be expressions of sizes. Raises DeclareError for a negative number of times.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.tile(x, (1, 2))
    Tensor(tile: float32[2, 6])
    """
    x = inputs.tensor("tile", x)
    given = reps if isinstance(reps, tuple | list) else (reps,)
    times: list[ExprLike] = [r if isinstance(r, Expr) else _times("tile", r) for r in given]
    rank = max(len(times), x.ndim)
    times = [1] * (rank - len(times)) + times
    sizes = [make.as_expr(1)] * (rank - x.ndim) + list(x.shape)
    return moved(
        "tile",
        x,
        [n * r for n, r in zip(sizes, times, strict=True)],
        lambda *i: [
            v if const_int(make.as_expr(r)) == 1 else make.floormod(v, n)
            for v, n, r in list(zip(i, sizes, times, strict=True))[rank - x.ndim :]
        ],
    )


def repeat(x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Each element ``repeats`` times along ``axis`` (of the flattened tensor for None), as numpy's repeat
    with one number. Raises DeclareError for a negative number of times.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.repeat(x, 2, 1)
    Tensor(repeat: float32[2, 6])
    """
    x = inputs.tensor("repeat", x)
    times = _times("repeat", repeats)
    if axis is None:
        x, axis = flatten(x), 0
    d = inputs.axis_of("repeat", axis, x.ndim)
    return moved(
        "repeat",
        x,
        [n * times if k == d else n for k, n in enumerate(x.shape)],
        # the index is built even if the result is empty
        lambda *i: [make.floordiv(v, max(1, times)) if k == d else v for k, v in enumerate(i)],
    )  # 0 times: no element asks


def _times(op: str, value: Any) -> int:
    n = inputs.integer(op, "the number of times", value)
    if n < 0:
        raise DeclareError(f"ops.{op}: {n} times", because="a number of times is not negative")
    return n
