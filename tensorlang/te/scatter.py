"""``scatter``: updates of elements whose places are computed, a histogram or a row of a cache. Knows tensors
and computes; no schedules.

A compute says what every element of its result *is*; a scatter says where every element of a domain *goes*.
Points are taken in row-major order and one after the other, so several that meet in one place give the same
result every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.dtype import INT32, DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Const, Expr
from ..protocols import Row
from .axis import IterVar, known_dtype, plain_name
from .compute import axis_names, compute
from .extern import OpaqueOp
from .tensor import ComputeOp, PlaceholderOp, Tensor

COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": make.add,
    "mul": make.mul,
    "min": make.min_,
    "max": make.max_,
    "set": lambda old, new: new,
}
_NUMPY: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


class ScatterOp(OpaqueOp):
    """``domain`` are the axes of the updates, ``where`` the indices of one and ``value`` what it brings;
    ``start`` is the tensor they change, whose memory the result takes over. ``body`` holds what is read, over
    the domain and over the axes of ``start``."""

    __slots__ = ("combine", "domain", "start", "value", "where")
    kind = "a scatter: its updates come in order"

    def __init__(
        self,
        name: str,
        start: Tensor,
        domain: tuple[IterVar, ...],
        where: tuple[Expr, ...],
        value: Expr,
        combine: str,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.start = start
        self.domain = domain
        self.where = where
        self.value = value
        self.combine = combine
        spatial = list(domain)
        body = (value, *where, self.whole(spatial, start))
        self.spatial = tuple(spatial)
        # no axes: updates come in an order that no loop may change
        super().__init__(name, (), (), body, tag, attrs, ())
        self.outputs = Row("op.outputs", [Tensor(self, 0, start.shape, start.dtype)])

    @property
    def inplace(self) -> bool:
        """Whether it changes an array of the caller."""
        return isinstance(self.start.op, PlaceholderOp)

    def updates(self) -> ComputeOp:
        """The values and the places as a computation over the domain: what each update is, before any is
        made."""
        return ComputeOp(self.name, self.domain, (), (self.value, *self.where))


def scatter(
    start: Tensor | ExprLike,
    domain: ExprLike | tuple[ExprLike, ...] | list[ExprLike],
    where: Callable[..., Any],
    value: Callable[..., ExprLike],
    combine: str = "add",
    shape: Any = None,
    dtype: str | DType | None = None,
    *,
    inplace: bool = False,
    name: str = "scatter",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """``start`` after updates: for each point of ``domain``, in row-major order, ``out[where(point)] =
    combine(out[where(point)], value(point))``.

    ``start`` is a tensor, or a number with ``shape`` and ``dtype`` (float32). ``domain`` is the shape of the
    updates; ``where`` and ``value`` take an index for each of its dimensions, like the function of
    ``te.compute``. ``where`` gives an integer, or a tuple of one for each dimension of the result: elements
    of tensors, as a rule. **A point whose place is outside the result is left out.** ``combine`` is
    ``"add"``, ``"mul"``, ``"min"``, ``"max"`` or ``"set"``, where the last point wins.

    A histogram of ``X`` in 256 bins::

        H = te.scatter(0, X.shape, lambda i: X[i], lambda i: 1, shape=(256,), dtype="int32", name="H")

    ``inplace=True``, of a placeholder, changes the array of the caller: no copy is made, and the result,
    named among the arguments of a kernel or not, is not a parameter of it. ``f(cache, rows, new)`` of
    ``te.scatter(cache, …, combine="set", inplace=True)`` writes rows of ``cache``. Nothing else may read the
    placeholder.

    It runs at root, on one thread: points may meet. For more threads, scatter into a result with one more
    dimension and sum over that. Raises DeclareError for parts that do not fit together.
    """
    what = f"scatter {plain_name('te.scatter', name)!r}"
    if combine not in COMBINE:
        raise DeclareError(f"{what}: combine={combine!r} is not known", legal=", ".join(COMBINE))
    if inplace and not (isinstance(start, Tensor) and isinstance(start.op, PlaceholderOp)):
        raise DeclareError(
            f"{what}: inplace=True, but what it starts from is not an argument",
            because="memory of the kernel's own is taken over anyway",
            try_="leave inplace out",
        )
    first = start if inplace and isinstance(start, Tensor) else _start(what, start, shape, dtype, name)
    axes, body = _points(what, domain, where, value, first, name)
    if combine != "set" and first.dtype.is_bool:
        raise DeclareError(
            f"{what}: combine={combine!r} of truth values", try_="combine='set', or dtype='int32'"
        )
    return ScatterOp(name, first, axes, body[1:], body[0], combine, tag, attrs).outputs[0]


def _start(what: str, start: Any, shape: Any, t: Any, name: str) -> Tensor:
    """The tensor that is changed: one of its own, for nobody else may see the changes."""
    if isinstance(start, Tensor) and start.ndim:
        if shape is not None or t is not None:
            raise DeclareError(
                f"{what}: the result has the shape and the dtype of {start.name}",
                try_="leave shape and dtype out",
            )
        # a copy: other readers of the tensor see it as it was
        return compute(start.shape, lambda *i: start[i], name=f"{name}.start")
    if shape is None:
        raise DeclareError(
            f"{what}: the shape of the result is missing",
            because="it starts from a number",
            try_="shape=(256,), dtype='int32'",
        )
    kind = known_dtype(what, "float32" if t is None else t, "dtype is that of the result")
    return compute(shape, lambda *i: make.cast(kind, make.as_expr(start)), name=f"{name}.start")


def _points(
    what: str, domain: Any, where: Any, value: Any, start: Tensor, name: str
) -> tuple[tuple[IterVar, ...], tuple[Expr, ...]]:
    """The axes of the domain; the value of a point and its place."""
    rank = len(domain) if isinstance(domain, tuple | list) else 1
    for word, f in (("where", where), ("value", value)):
        if not callable(f):
            raise DeclareError(
                f"{what}: {word} is not a function",
                because="it is called once, with the axes of the domain",
                try_=f"{word}=lambda i: …",
            )
        names = axis_names(f"{what}, {word}", f, rank, None)

    def point(*i: Any) -> tuple[Any, ...]:
        brought, place = make.as_expr(value(*i)), where(*i)
        return (
            make.cast(start.dtype, brought) if isinstance(brought, Const) else brought,
            *(place if isinstance(place, tuple | list) else (place,)),
        )

    # a compute of value and place, for its checks and its messages; the tensors it has are dropped
    op = compute(domain, point, name=name, varargs_names=names)[0].op  # type: ignore[index]
    assert isinstance(op, ComputeOp)
    brought, *place = op.body
    if len(place) != start.ndim:
        raise DeclareError(
            f"{what}: where gives {len(place)} of {start.ndim} indices",
            because=f"the result has {start.ndim} dimension(s)",
            try_="a tuple with an index for each",
        )
    for d, e in enumerate(place):
        if not e.dtype.is_int:
            raise DeclareError(
                f"{what}: index {d} is {e.dtype}, not an integer",
                because=f"it is {e}",
                try_="te.floor(…).astype('int32')",
            )
    if op.reduce_axis:
        raise DeclareError(
            f"{what}: a reduction is neither a value nor a place", try_="a te.compute of its own for it"
        )
    if brought.dtype is not start.dtype:
        raise DeclareError(
            f"{what}: the value is {brought.dtype}, the result {start.dtype}",
            try_=f".astype({start.dtype.name!r}) on the value",
        )
    return op.axis, op.body


def scattered(op: ScatterOp, start: Any, updates: tuple[Any, ...], rounded: Callable[[Any], Any]) -> Any:
    """The meaning in numpy: ``start`` changed by the values and places of the updates. ``rounded`` brings a
    result into the dtype."""
    out = start.copy()
    value, *where = (np.asarray(u).reshape(-1) for u in updates)
    inside = np.ones(value.shape, bool)
    for index, n in zip(where, out.shape, strict=True):
        # what lies outside is left out, as in the kernel
        inside &= (index >= 0) & (index < n)
    places = tuple(index[inside].astype(np.int64) for index in where)
    if op.combine == "set":
        for *at, v in zip(*places, value[inside], strict=True):  # in order: the last one stays
            out[tuple(at)] = v
    elif not places or (op.start.dtype.is_float and op.start.dtype.bits < 32):
        for *at, v in zip(*places, value[inside], strict=True):  # each sum is rounded
            # numpy would sum halves exactly for longer than a kernel that stores each
            out[tuple(at)] = rounded(np.asarray(_NUMPY[op.combine](out[tuple(at)], v)))
    else:
        # not out[places] += value, which counts one of several updates of a place
        _NUMPY[op.combine].at(out, places, value[inside])
    return out


def place(index: Expr) -> Expr:
    """An index as it is compared with the bounds of the result: narrow and unsigned ones in a type that holds
    both."""
    return index if index.dtype.is_index else make.cast("int64" if index.dtype.bits > 16 else INT32, index)
