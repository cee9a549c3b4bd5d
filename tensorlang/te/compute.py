"""``placeholder`` and ``compute``: how a user declares what to compute. Knows no schedules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.dtype import FLOAT32, DType, dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, Var
from ..expr.walk import preorder
from .axis import IterVar, fresh_axis, size
from .reducers import Reduce, forbid_nested
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead


def _shape(what: str, shape: ExprLike | Sequence[ExprLike]) -> tuple[Expr, ...]:
    listed = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple(size(s, f"{what}, dimension {d}") for d, s in enumerate(listed))


def placeholder(shape: ExprLike | Sequence[ExprLike], dtype: str | DType = FLOAT32, name: str = "placeholder") -> Tensor:
    """An argument of that shape and dtype; sizes may be symbolic.

    Raises DeclareError for an unknown dtype or a negative size.
    """
    where = f"placeholder {name!r}"
    return PlaceholderOp(name, _shape(where, shape), _dtype(dtype)).outputs[0]


def _dtype(t: str | DType) -> DType:
    found = dtype(t)
    if found.lanes != 1:
        raise DeclareError(f"dtype {found}: tensors hold scalars", try_=f"dtype={found.element.name!r} and vectorize in the schedule")
    return found


def compute(shape: ExprLike | Sequence[ExprLike], fcompute: Callable[..., Any], name: str = "compute", tag: str = "",
            attrs: Mapping[str, Any] | None = None) -> Any:
    """The tensor whose element at ``(i, j, …)`` is ``fcompute(i, j, …)``.

    ``fcompute`` takes one argument per dimension (or ``*indices``) and returns an expression, or a tuple of expressions for several
    outputs (then a tuple of tensors comes back). A reduction must be its whole result.
    Raises DeclareError with the place in the user's code for anything else.
    """
    where = f"compute {name!r}"
    extents = _shape(where, shape)
    names = _axis_names(where, fcompute, len(extents))
    axes = tuple(fresh_axis(n, e) for n, e in zip(names, extents, strict=True))
    result = fcompute(*axes)
    many = isinstance(result, tuple | list)
    body = tuple(_body(where, e) for e in (result if many else (result,)))
    if not body:
        raise DeclareError(f"{where}: the function returned no expression")
    op = ComputeOp(name, axes, _reduction_axes(where, body), body, tag, attrs)
    _known_variables(where, op)
    return op.outputs if many else op.outputs[0]


def _body(where: str, value: Any) -> Expr:
    if value is None:
        raise DeclareError(f"{where}: the function returned None", try_="return the expression of one element")
    if isinstance(value, Tensor):
        if value.ndim:
            raise DeclareError(f"{where}: the function returned the whole tensor {value.name}", try_=f"return {value.name}[…] with one index per dimension")
        value = value()
    return make.as_expr(value)


def _axis_names(where: str, f: Callable[..., Any], rank: int) -> list[str]:
    try:
        params = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"i{d}" for d in range(rank)]
    named = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    star = any(p.kind is p.VAR_POSITIONAL for p in params)
    if len(named) > rank or (len(named) < rank and not star):
        raise DeclareError(f"{where}: the function takes {len(named)} indices, the shape has {rank} dimension(s)",
                           try_="one parameter per dimension, or *indices")
    return named + [f"i{d}" for d in range(len(named), rank)]


def _reduction_axes(where: str, body: tuple[Expr, ...]) -> tuple[IterVar, ...]:
    reduces = [e for e in body if type(e) is Reduce]
    if not reduces:
        for e in body:
            forbid_nested(where, e)
        return ()
    first = reduces[0]
    same = all(type(e) is Reduce and e.reducer is first.reducer and e.axes == first.axes and e.condition is first.condition for e in body)
    if not same or len(body) != len(first.sources) or [e.index for e in reduces] != list(range(len(body))):
        raise DeclareError(f"{where}: several outputs of different reductions", because="outputs of one compute share their loops",
                           try_="one te.comm_reducer over a tuple, or one te.compute each")
    return first.axes


def _known_variables(where: str, op: ComputeOp) -> None:
    own = {a.var for a in (*op.axis, *op.reduce_axis)}
    for e in op.body:
        for node in preorder(e):
            if type(node) is Var and node.kind == "loop" and node not in own:
                raise DeclareError(f"{where}: uses the axis `{node.name}`, which is not its own",
                                   because=f"its axes are {', '.join(a.name for a in (*op.axis, *op.reduce_axis)) or 'none'}",
                                   try_="reduce over it with te.sum(…, axis=…), or use the parameters of the function")
            if type(node) is TensorRead and node.tensor in op.outputs:
                raise DeclareError(f"{where}: reads itself", try_="te.scan for recurrences")
