"""Reductions: the commutative reducers and the Reduce node, which stands only at the top of a compute's body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtype import DType, dtype
from ..core.node import intern
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, Var
from ..expr.printer import rules, show
from ..expr.walk import preorder, substitute
from .axis import REDUCE, IterVar


class Reducer:
    """How two partial results combine, and what an empty reduction gives.

    ``combine(lhs, rhs)`` maps two tuples of expressions to one; ``identity(dtypes)`` gives the start values. ``kind`` names the
    built-in ones (add, mul, min, max, and, or), which the code generator knows as vector reductions; others are ``custom``.
    """

    __slots__ = ("combine", "identity", "kind", "name")

    def __init__(self, name: str, kind: str, combine: Callable[[tuple[Expr, ...], tuple[Expr, ...]], tuple[Expr, ...]],
                 identity: Callable[[tuple[DType, ...]], tuple[Expr, ...]]) -> None:
        self.name = name
        self.kind = kind
        self.combine = combine
        self.identity = identity

    def __repr__(self) -> str:
        return f"Reducer({self.name})"


class Reduce(Expr):
    """Output ``index`` of reducing the ``sources`` over ``axes`` where ``condition`` holds, starting from ``init``."""

    __slots__ = ("axes", "condition", "index", "init", "reducer", "sources")
    _fields = ("reducer", "sources", "axes", "condition", "init", "index")

    def __init__(self, reducer: Reducer, sources: tuple[Expr, ...], axes: tuple[IterVar, ...], condition: Expr | None,
                 init: tuple[Expr, ...] | None, index: int) -> None:
        self._memo = None
        self.reducer = reducer
        self.sources = sources
        self.axes = axes
        self.condition = condition
        self.init = init
        self.index = index
        self.dtype = sources[index].dtype

    def children(self) -> tuple[Expr, ...]:
        cond = () if self.condition is None else (self.condition,)
        return (*self.sources, *cond, *(self.init or ()))

    def with_children(self, *kids: Expr) -> Expr:
        n = len(self.sources)
        rest = list(kids[n:])
        cond = rest.pop(0) if self.condition is not None else None
        return intern(Reduce, self.reducer, tuple(kids[:n]), self.axes, cond, tuple(rest) if self.init is not None else None, self.index)

    def with_axes(self, axes: tuple[IterVar, ...]) -> Reduce:
        """The same reduction over other axes (the sources must already speak of them)."""
        return intern(Reduce, self.reducer, self.sources, axes, self.condition, self.init, self.index)

    def start(self) -> tuple[Expr, ...]:
        """The value before the first step, one per source."""
        if self.init is not None:
            return self.init
        return self.reducer.identity(tuple(s.dtype for s in self.sources))


@rules.on(Reduce)
def _show_reduce(e: Reduce, name: Any, outer: int) -> str:
    body = ", ".join(show(s, name) for s in e.sources)
    where = "" if e.condition is None else f", where={show(e.condition, name)}"
    suffix = f".v{e.index}" if len(e.sources) > 1 else ""
    return f"{e.reducer.name}({body}, axis=[{', '.join(a.name for a in e.axes)}]{where}){suffix}"


def _axes(what: str, axis: IterVar | Sequence[IterVar]) -> tuple[IterVar, ...]:
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    for a in axes:
        if not isinstance(a, IterVar) or a.kind != REDUCE:
            raise DeclareError(f"{what}(axis={getattr(a, 'name', a)!r}): not a reduction axis", try_="k = te.reduce_axis((0, K), name='k')")
    if len({id(a) for a in axes}) != len(axes):
        raise DeclareError(f"{what}: an axis is named twice")
    return axes


def reduce(reducer: Reducer, sources: Sequence[ExprLike], axis: IterVar | Sequence[IterVar], where: ExprLike | None,
           init: ExprLike | Sequence[ExprLike] | None) -> tuple[Expr, ...]:
    """One Reduce node per source."""
    axes = _axes(reducer.name, axis)
    exprs = tuple(make.as_expr(s) for s in sources)
    for e in exprs:
        forbid_nested(reducer.name, e)
    cond = None
    if where is not None:
        cond = make.as_expr(where)
        if not cond.dtype.is_bool:
            raise DeclareError(f"{reducer.name}(where={cond}): a condition is a bool, not {cond.dtype}")
    start = None
    if init is not None:
        given = tuple(init) if isinstance(init, tuple | list) else (init,)
        if len(given) != len(exprs):
            raise DeclareError(f"{reducer.name}(init=…): {len(given)} start value(s) for {len(exprs)} source(s)")
        start = tuple(make.cast(e.dtype, make.as_expr(v, e.dtype)) for v, e in zip(given, exprs, strict=True))
    return tuple(intern(Reduce, reducer, exprs, axes, cond, start, i) for i in range(len(exprs)))


def forbid_nested(where: str, e: Expr) -> None:
    """Raises DeclareError when a reduction hides inside ``e``."""
    for node in preorder(e):
        if type(node) is Reduce:
            raise DeclareError(f"a reduction inside an expression: {node}", because=f"it stands below `{where}`, but a reduction is the whole body of a compute",
                               try_="give the reduction its own te.compute and read that here")


Binary2 = Callable[[ExprLike, ExprLike], Expr]


def _builtin(name: str, kind: str, op: Binary2, identity: Callable[[DType], Expr]) -> Reducer:
    return Reducer(name, kind, lambda a, b: (op(a[0], b[0]),), lambda ts: (identity(ts[0]),))


def min_value(dtype_: str | DType) -> Expr:
    """The smallest value of the type (minus infinity for floats, so that an empty max says so)."""
    t = dtype(dtype_)
    return make.const(float("-inf"), t) if t.is_float else make.const(t.limits()[0], t)


def max_value(dtype_: str | DType) -> Expr:
    """The largest value of the type (infinity for floats)."""
    t = dtype(dtype_)
    return make.const(float("inf"), t) if t.is_float else make.const(t.limits()[1], t)


SUM = _builtin("sum", "add", make.add, lambda t: make.const(0, t))
PROD = _builtin("prod", "mul", make.mul, lambda t: make.const(1, t))
MIN = _builtin("min", "min", make.min_, max_value)
MAX = _builtin("max", "max", make.max_, min_value)
ANY = _builtin("any", "or", make.or_, lambda t: make.const(False))
ALL = _builtin("all", "and", make.and_, lambda t: make.const(True))


def sum(expr: ExprLike, axis: IterVar | Sequence[IterVar], where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The sum of ``expr`` over the axes, in the dtype of ``expr``."""
    return reduce(SUM, (expr,), axis, where, init)[0]


def prod(expr: ExprLike, axis: IterVar | Sequence[IterVar], where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The product of ``expr`` over the axes."""
    return reduce(PROD, (expr,), axis, where, init)[0]


def min(expr: ExprLike, axis: Any, where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The minimum over reduction axes; with an expression instead of axes, the smaller of the two."""
    return _min_or_reduce(MIN, make.min_, expr, axis, where, init)


def max(expr: ExprLike, axis: Any, where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The maximum over reduction axes; with an expression instead of axes, the larger of the two."""
    return _min_or_reduce(MAX, make.max_, expr, axis, where, init)


def _min_or_reduce(reducer: Reducer, op: Binary2, expr: ExprLike, axis: Any, where: Any, init: Any) -> Expr:
    listed = axis if isinstance(axis, tuple | list) else (axis,)
    if any(isinstance(a, IterVar) and a.kind == REDUCE for a in listed):
        return reduce(reducer, (expr,), axis, where, init)[0]
    return op(expr, axis)


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Callable[..., Any]:
    """A reduction of one's own, as in TVM: ``fcombine(x, y)`` combines two values or two tuples, ``fidentity(dtype, …)`` gives the
    start. The result is called like :func:`sum`: ``argmax((idx, val), axis=k)``; with tuples it returns one node per part.
    """

    def as_tuple(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, tuple | list) else (x,)

    def apply(expr: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        sources = tuple(make.as_expr(e) for e in as_tuple(expr))
        many = isinstance(expr, tuple | list)
        lhs = tuple(Var(f"lhs{i}", s.dtype) for i, s in enumerate(sources))
        rhs = tuple(Var(f"rhs{i}", s.dtype) for i, s in enumerate(sources))
        result = tuple(make.as_expr(e, s.dtype) for e, s in
                       zip(as_tuple(fcombine(lhs, rhs) if many else fcombine(lhs[0], rhs[0])), sources, strict=True))
        for r, s in zip(result, sources, strict=True):
            if r.dtype is not s.dtype:
                raise DeclareError(f"comm_reducer {name}: combining {s.dtype} gives {r.dtype}", try_=".astype() in the combiner")

        def combine(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
            values = dict(zip((*lhs, *rhs), (*a, *b), strict=True))
            return tuple(substitute(r, values) for r in result)

        def identity(types: tuple[DType, ...]) -> tuple[Expr, ...]:
            return tuple(make.cast(t, make.as_expr(v, t)) for v, t in zip(as_tuple(fidentity(*map(str, types))), types, strict=True))

        nodes = reduce(Reducer(name, "custom", combine, identity), sources, axis, where, init)
        return nodes if many else nodes[0]

    return apply
