"""Reductions: the commutative reducers and the Reduce node, which stands only at the top of a compute's body.

The functions have TVM's two forms: over reduction axes (``te.max(A[i, k], axis=k)``) they reduce, on plain
expressions (``te.max(a, b)``, ``te.all(c1, c2, c3)``) they fold their arguments.

An empty maximum is minus infinity, an empty minimum infinity: the true neutral elements, so that a maximum
over numbers that are all minus infinity comes out right. :func:`min_value` and :func:`max_value` are, as in
TVM, the outermost *finite* values.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..boundary import guarded
from ..core.dtype import DType, dtype
from ..core.node import intern
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Access, Choice, Expr, Var, over, together
from ..expr.printer import Pieces, listed, rules
from ..expr.walk import preorder, substitute
from .axis import REDUCE, IterVar


class Reducer:
    """How two partial results combine, and what an empty reduction gives.

    ``combine(lhs, rhs)`` maps two tuples of expressions to one; ``identity(dtypes)`` gives the initial
    values. ``kind`` names the built-in ones (add, mul, min, max, and, or), which the code generator knows as
    vector reductions; others are ``custom``.
    """

    __slots__ = ("combine", "identity", "kind", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        combine: Callable[[tuple[Expr, ...], tuple[Expr, ...]], tuple[Expr, ...]],
        identity: Callable[[tuple[DType, ...]], tuple[Expr, ...]],
    ) -> None:
        self.name = name
        self.kind = kind
        self.combine = combine
        self.identity = identity

    def __repr__(self) -> str:
        return f"Reducer({self.name})"


class Reduce(Expr):
    """Output ``index`` of reducing the ``sources`` over ``axes`` where ``condition`` holds, starting from
    ``init``."""

    __slots__ = ("axes", "condition", "index", "init", "reducer", "sources")
    _fields = ("reducer", "sources", "axes", "condition", "init", "index")

    def __init__(
        self,
        reducer: Reducer,
        sources: tuple[Expr, ...],
        axes: tuple[IterVar, ...],
        condition: Expr | None,
        init: tuple[Expr, ...] | None,
        index: int,
    ) -> None:
        self._memo = None
        self.reducer = reducer
        self.sources = sources
        self.axes = axes
        self.condition = condition
        self.init = init
        self.index = index
        self.dtype = sources[index].dtype
        kids = self.children()
        self.contains = together(0, kids)
        self._height = over(kids)

    def children(self) -> tuple[Expr, ...]:
        cond = () if self.condition is None else (self.condition,)
        return (*self.sources, *cond, *(self.init or ()))

    def with_children(self, *kids: Expr) -> Expr:
        n = len(self.sources)
        rest = list(kids[n:])
        cond = rest.pop(0) if self.condition is not None else None
        init = tuple(rest) if self.init is not None else None
        return intern(Reduce, self.reducer, tuple(kids[:n]), self.axes, cond, init, self.index)

    def with_axes(self, axes: tuple[IterVar, ...]) -> Reduce:
        """The same reduction over other axes (the sources must already speak of them)."""
        return intern(Reduce, self.reducer, self.sources, axes, self.condition, self.init, self.index)

    def within(self, inside: Expr) -> Reduce:
        """The same where ``inside`` holds; elsewhere the initial values (0 for those that are given), with
        nothing read."""
        init = (
            None
            if self.init is None
            else tuple(make.if_then_else(inside, e, make.const(0, e.dtype)) for e in self.init)
        )
        condition = inside if self.condition is None else make.and_(inside, self.condition)
        return intern(Reduce, self.reducer, self.sources, self.axes, condition, init, self.index)

    def start(self) -> tuple[Expr, ...]:
        """The value before the first step, one per source."""
        if self.init is not None:
            return self.init
        return self.reducer.identity(tuple(s.dtype for s in self.sources))


@rules.on(Reduce)
def _show_reduce(e: Reduce, outer: int, name: Any) -> Pieces:
    where = () if e.condition is None else (", where=", (e.condition, 0))
    suffix = f".v{e.index}" if len(e.sources) > 1 else ""
    return (
        f"{e.reducer.name}(",
        *listed(e.sources),
        f", axis=[{', '.join(a.name for a in e.axes)}]",
        *where,
        f"){suffix}",
    )


def _is_reduction(axis: Any) -> bool:
    """Whether a positional argument names reduction axes."""
    listed = axis if isinstance(axis, tuple | list) else (axis,)
    return builtins.any(isinstance(a, IterVar) and a.kind == REDUCE for a in listed)


def _axes(what: str, axis: IterVar | Sequence[IterVar]) -> tuple[IterVar, ...]:
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if not axes:
        raise DeclareError(
            f"{what}(axis=[]): no axis to reduce over",
            because="a reduction over nothing is the expression itself",
            try_="leave the reduction out",
        )
    for a in axes:
        if not isinstance(a, IterVar) or a.kind != REDUCE:
            shown = getattr(a, "name", a)
            why = (
                f"`{shown}` is an axis of the result: each element has its own"
                if isinstance(a, IterVar)
                else "an axis is made by te.reduce_axis, not counted as in numpy"
            )
            raise DeclareError(
                f"{what}(axis={shown}): not a reduction axis",
                because=why,
                try_="k = te.reduce_axis((0, K), name='k'), then axis=k",
            )
    if len({id(a) for a in axes}) != len(axes):
        raise DeclareError(
            f"{what}(axis=[{', '.join(a.name for a in axes)}]): an axis is named twice",
            because="each value is taken once",
            try_="name it once",
        )
    return axes


def reduce(
    reducer: Reducer,
    sources: Sequence[ExprLike],
    axis: IterVar | Sequence[IterVar],
    where: ExprLike | None,
    init: ExprLike | Sequence[ExprLike] | None,
) -> tuple[Expr, ...]:
    """One Reduce node per source."""
    axes = _axes(reducer.name, axis)
    exprs = tuple(make.as_expr(s) for s in sources)
    for e in exprs:
        forbid_nested(reducer.name, e)
    if reducer.kind in ("or", "and") and not exprs[0].dtype.is_bool:
        raise DeclareError(
            f"{reducer.name} of {exprs[0]}: needs a condition, got {exprs[0].dtype}",
            try_="a comparison, such as x != 0",
        )
    if reducer.kind in ("add", "mul", "min", "max") and exprs[0].dtype.is_bool:
        raise DeclareError(
            f"{reducer.name} of {exprs[0]}: needs numbers, got a bool",
            try_="cond.astype('int32') to count, te.any or te.all to ask",
        )
    cond = None
    if where is not None:
        cond = make.as_expr(where)
        if not cond.dtype.is_bool:
            raise DeclareError(
                f"{reducer.name}(where={cond}): a condition is a bool, not {cond.dtype}",
                try_="a comparison, such as where=x != 0",
            )
    start = None
    if init is None and len(exprs) == 1:
        cond, exprs = _left_out(reducer, cond, exprs[0])
    if init is not None:
        given = tuple(init) if isinstance(init, tuple | list) else (init,)
        if len(given) != len(exprs):
            raise DeclareError(
                f"{reducer.name}(init=…): {len(given)} initial value(s) for {len(exprs)} source(s)",
                because=f"what is reduced is ({', '.join(map(str, exprs))})",
            )
        # in the type of the sources, in which the reduction is made
        start = tuple(make.cast(e.dtype, make.as_expr(v, e.dtype)) for v, e in zip(given, exprs, strict=True))
        for v in start:
            for node in preorder(v):
                if type(node) is Var and builtins.any(node is a.var for a in axes):
                    raise DeclareError(
                        f"{reducer.name}(init={v}): depends on the axis `{node.name}` it reduces over",
                        because="the initial value is there before the first step",
                    )
    # one node for each value of a tuple, which differ in their index only: lowering makes one loop of them
    return tuple(intern(Reduce, reducer, exprs, axes, cond, start, i) for i in range(len(exprs)))


def _left_out(reducer: Reducer, cond: Expr | None, e: Expr) -> tuple[Expr | None, tuple[Expr]]:
    """The condition of a reduction, and what is reduced: of ``if_then_else(k < i, e, 0)`` in a sum that is
    ``e`` where ``k < i``, which loops can end at. Not where data decide, which lanes ask one by one."""
    while reducer.kind != "custom" and isinstance(e, Choice):
        start = reducer.identity((e.dtype,))[0]
        if e.b is not start or builtins.any(isinstance(node, Access) for node in preorder(e.cond)):
            break
        cond, e = e.cond if cond is None else make.and_(cond, e.cond), e.a
    return cond, (e,)


def forbid_nested(where: str, e: Expr) -> None:
    """Raises DeclareError when a reduction hides inside ``e``."""
    for node in preorder(e):
        if type(node) is Reduce:
            raise DeclareError(
                f"a reduction inside an expression: {node}",
                because=f"it stands inside {where}, but a reduction is the whole body of a compute",
                try_="give the reduction a te.compute of its own, and read that here",
            )


Binary2 = Callable[[ExprLike, ExprLike], Expr]


def _builtin(name: str, kind: str, op: Binary2, identity: Callable[[DType], Expr]) -> Reducer:
    return Reducer(name, kind, lambda a, b: (op(a[0], b[0]),), lambda ts: (identity(ts[0]),))


_HUGE = {
    "float16": 65504.0,
    "bfloat16": float(0xFF << 120),
    "float32": float(0xFFFFFF << 104),
    "float64": float(0x1FFFFFFFFFFFFF << 971),
}


def max_value(dtype_: str | DType) -> Expr:
    """The largest finite value of the type.

    >>> te.max_value("int8")
    int8(127)
    """
    t = dtype(dtype_)
    return make.const(_HUGE[t.name] if t.is_float else t.limits()[1], t)


def min_value(dtype_: str | DType) -> Expr:
    """The smallest value of the type: of floats the lowest finite one, as in TVM (``-te.infinity(t)`` is
    lower).

    >>> te.min_value("int8")
    int8(-128)
    """
    t = dtype(dtype_)
    return make.const(-_HUGE[t.name] if t.is_float else t.limits()[0], t)


def infinity(dtype_: str | DType = "float32") -> Expr:
    """Positive infinity. Raises DeclareError for a type that has none.

    >>> te.infinity("float32")
    inf
    """
    t = dtype(dtype_)
    if not t.is_float:
        raise DeclareError(f"infinity({t.name!r}): integers have none", try_=f"te.max_value({t.name!r})")
    return make.const(float("inf"), t)


def _highest(t: DType) -> Expr:
    return infinity(t) if t.is_float else max_value(t)


def _lowest(t: DType) -> Expr:
    return make.neg(infinity(t)) if t.is_float else min_value(t)


# each with the value that changes nothing: a partial result may begin with it, and lanes that are left out
# hold it
SUM = _builtin("sum", "add", make.add, lambda t: make.const(0, t))
PROD = _builtin("prod", "mul", make.mul, lambda t: make.const(1, t))
MIN = _builtin("min", "min", make.min_, _highest)
MAX = _builtin("max", "max", make.max_, _lowest)
ANY = _builtin("any", "or", make.or_, lambda t: make.const(False))
ALL = _builtin("all", "and", make.and_, lambda t: make.const(True))

# what a part of a reducer of the user's may be, and the value that it begins with where that matters
_ALONE = ((make.add, 0), (make.mul, 1), (make.min_, None), (make.max_, None), (make.or_, 0), (make.and_, 1))


def parts_alone(e: Reduce) -> bool:
    """Whether the reducer is known, or each of its parts is combined as one that is, whatever the others
    hold: two sums at once, a minimum beside a maximum. Lanes of vectors may be combined then as those of a
    sum."""
    return e.reducer.kind != "custom" or bool(e.memo("parts alone", lambda: _parts_alone(e)))


def _parts_alone(e: Reduce) -> bool:
    types = tuple(s.dtype for s in e.sources)
    lhs, rhs = (tuple(Var(f"{side}{i}", t) for i, t in enumerate(types)) for side in ("lhs", "rhs"))
    parts = zip(e.reducer.combine(lhs, rhs), lhs, rhs, e.reducer.identity(types), strict=True)
    return builtins.all(_alone(*part) for part in parts)


def _alone(combined: Expr, lhs: Expr, rhs: Expr, start: Expr) -> bool:
    for combine, begin in _ALONE:
        if lhs.dtype.is_bool is not (combine in (make.or_, make.and_)):
            continue
        # a reducer of one's own rounds halves at each step, in the order of the elements; te.sum is free to
        # be exact for longer
        if combine in (make.add, make.mul) and lhs.dtype.is_float and lhs.dtype.bits == 16:
            continue
        if combined is combine(lhs, rhs) or combined is combine(rhs, lhs):
            return begin is None or start is make.const(begin, lhs.dtype)
    return False


Axis = IterVar | Sequence[IterVar]


def sum(expr: ExprLike, axis: Axis, where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The sum of ``expr`` over the axes, in the dtype of ``expr``; only where ``where`` holds, beginning with
    ``init`` (0).

    >>> A = te.placeholder((2, 4), name="A")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> S = te.compute((2,), lambda i: te.sum(A[i, k], axis=k), name="S")
    >>> te.reference.evaluate(S, {A: np.ones((2, 4), np.float32)})[0].tolist()
    [4.0, 4.0]
    """
    return reduce(SUM, (expr,), axis, where, init)[0]


def prod(expr: ExprLike, axis: Axis, where: ExprLike | None = None, init: ExprLike | None = None) -> Expr:
    """The product of ``expr`` over the axes; only where ``where`` holds, beginning with ``init`` (1).

    >>> A = te.placeholder((2, 4), name="A")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> te.compute((2,), lambda i: te.prod(A[i, k], axis=k), name="P")
    Tensor(P: float32[2])
    """
    return reduce(PROD, (expr,), axis, where, init)[0]


def min(
    expr: ExprLike,
    *args: ExprLike,
    axis: Axis | None = None,
    where: ExprLike | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The minimum over reduction axes, ``te.min(A[i, k], axis=k)``; or the smallest of the arguments,
    ``te.min(a, b)``. Raises DeclareError for one argument without axis.

    >>> A = te.placeholder((2, 4), name="A")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> te.compute((2,), lambda i: te.min(A[i, k], axis=k), name="M")
    Tensor(M: float32[2])
    """
    return _fold_or_reduce(MIN, make.min_, (expr, *args), axis, where, init)


def max(
    expr: ExprLike,
    *args: ExprLike,
    axis: Axis | None = None,
    where: ExprLike | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The maximum over reduction axes, ``te.max(A[i, k], axis=k)``; or the largest of the arguments,
    ``te.max(a, b)``. Raises DeclareError for one argument without axis.

    >>> A = te.placeholder((2, 4), name="A")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> te.compute((2,), lambda i: te.max(A[i, k], axis=k), name="M")
    Tensor(M: float32[2])
    """
    return _fold_or_reduce(MAX, make.max_, (expr, *args), axis, where, init)


def all(
    *args: ExprLike, axis: Axis | None = None, where: ExprLike | None = None, init: ExprLike | None = None
) -> Expr:
    """Whether all conditions hold, ``te.all(0 <= i, i < n)``; or one condition over reduction axes,
    ``te.all(A[k] > 0, axis=k)``.

    Every condition is evaluated: one does not guard the reads of another (``te.if_then_else`` does). Raises
    DeclareError for what is no condition.

    >>> i = te.var("i")
    >>> te.all(i >= 1, i < 9)
    1 <= i and i < 9
    """
    return _fold_or_reduce(ALL, make.and_, args, axis, where, init, 1)


def any(
    *args: ExprLike, axis: Axis | None = None, where: ExprLike | None = None, init: ExprLike | None = None
) -> Expr:
    """Whether one of the conditions holds, ``te.any(i < 0, n <= i)``; or of one condition over reduction
    axes.

    Every condition is evaluated, as for :func:`all`. Raises DeclareError for what is no condition.

    >>> i = te.var("i")
    >>> te.any(i < 1, i >= 9)
    i < 1 or 9 <= i
    """
    return _fold_or_reduce(ANY, make.or_, args, axis, where, init, 1)


def _fold_or_reduce(
    reducer: Reducer, op: Binary2, args: tuple[Any, ...], axis: Any, where: Any, init: Any, least: int = 2
) -> Expr:
    name = reducer.name
    if axis is None and len(args) >= 2 and _is_reduction(args[1]):  # TVM's order: expr, axis, where, init
        given = dict(zip(("axis", "where", "init"), args[1:], strict=False))
        axis, where, init = given["axis"], given.get("where", where), given.get("init", init)
        args = args[:1]
    if axis is not None:
        if len(args) != 1:
            raise DeclareError(
                f"{name}({', '.join(map(str, args))}, axis=…): one expression is reduced, {len(args)} are "
                "given",
                try_=f"te.{name}(te.{name}(a, b), axis=k)" if len(args) > 1 else None,
            )
        return reduce(reducer, args, axis, where, init)[0]
    if where is not None or init is not None:
        raise DeclareError(
            f"{name}(…, {'where' if where is not None else 'init'}=…) without axis=",
            because="both speak of a reduction",
            try_=f"te.{name}(expr, axis=k, where=…, init=…)",
        )
    if len(args) < least:
        raise DeclareError(
            f"{name}({', '.join(map(str, args))}): nothing to choose from",
            because="it takes several expressions, or one and reduction axes",
            try_=f"te.{name}(expr, axis=k) with k = te.reduce_axis((0, K))",
        )
    total = make.as_expr(args[0])
    if reducer.kind in ("or", "and") and len(args) == 1:
        total = op(total, total)  # checks that it is a condition
    for x in args[1:]:
        total = op(total, x)
    return total


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction of one's own, as in TVM: ``fcombine(x, y)`` combines two values or two tuples,
    ``fidentity(dtype, …)`` gives the start. The result is called like :func:`sum`: ``argmax((idx, val),
    axis=k)``; with tuples it returns one node per part. Called with plain expressions it combines them:
    ``total(a, b, c)``.

    ``fcombine`` must be associative and commutative, and ``fidentity`` neutral for it: schedules reorder and
    split reductions. Raises DeclareError for functions of other arguments or results.

    >>> both = te.comm_reducer(lambda a, b: a * b, lambda dtype: te.const(1, dtype), name="product")
    >>> A, k = te.placeholder((2, 4), name="A"), te.reduce_axis((0, 4), name="k")
    >>> te.compute((2,), lambda i: both(A[i, k], axis=k), name="P")
    Tensor(P: float32[2])
    """
    _check_functions(name, fcombine, fidentity)

    def apply(expr: Any, axis: Any = None, where: Any = None, init: Any = None, *more: Any) -> Any:
        """Reduces ``expr``, an expression or a tuple of them, over the axes; or combines expressions."""
        # TVM's reducers combine values too: a number behind the first is a second value, not an axis
        if isinstance(axis, Expr | float):
            return _combined(fcombine, (expr, axis, where, init, *more))
        if axis is None:
            raise DeclareError(
                f"{name}({expr}): the axis is missing",
                try_=f"{name}({expr}, axis=k) with k = te.reduce_axis(…)",
            )
        many = isinstance(expr, tuple | list)
        sources = tuple(make.as_expr(e) for e in (expr if many else (expr,)))
        if not sources:
            raise DeclareError(f"{name}((), axis=…): nothing to reduce")
        reducer = _custom(name, fcombine, fidentity, tuple(s.dtype for s in sources), many)
        nodes = reduce(reducer, sources, axis, where, init)
        return nodes if many else nodes[0]

    apply.__name__ = name if name.isidentifier() else "reduce"
    return guarded(apply, name, DeclareError)


def _check_functions(name: str, fcombine: Any, fidentity: Any) -> None:
    for word, f in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(f):
            raise DeclareError(
                f"comm_reducer({word}={f!r}): not a function",
                try_="te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t))",
            )

    try:
        inspect.signature(fcombine).bind(None, None)
    except TypeError as e:
        raise DeclareError(
            f"comm_reducer: {name} combines two values",
            because=str(e),
            try_="te.comm_reducer(lambda x, y: …)",
        ) from None


def _combined(fcombine: Callable[..., Any], given: tuple[Any, ...]) -> Expr:
    """Expressions combined, without those at the end that were left out."""
    while given[-1] is None:
        given = given[:-1]
    total = make.as_expr(given[0])
    for e in given[1:]:
        total = make.as_expr(fcombine(*make.unify(total, make.as_expr(e))))
    return total


def _custom(
    name: str,
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    types: tuple[DType, ...],
    many: bool,
) -> Reducer:
    """The reducer of parts of these types; ``many``: the functions take and give tuples."""
    # the user's function is called once, on variables: what it does is then an expression like any other
    lhs = tuple(Var(f"lhs{i}", t) for i, t in enumerate(types))
    rhs = tuple(Var(f"rhs{i}", t) for i, t in enumerate(types))
    result = _parts(name, "fcombine", fcombine(lhs, rhs) if many else fcombine(lhs[0], rhs[0]), types, many)
    for i, (r, t) in enumerate(zip(result, types, strict=True)):
        if r.dtype is not t:
            part = f"part {i}, which is {t}" if many else str(t)
            raise DeclareError(
                f"{name}: fcombine gives {r.dtype} for {part}",
                because=f"its result {r} is combined with the next {t}",
                try_=f".astype('{t}') of what fcombine returns",
            )
        _check_alone(name, r, (*lhs, *rhs))

    def combine(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
        values = dict(zip((*lhs, *rhs), (*a, *b), strict=True))
        return tuple(substitute(r, values) for r in result)

    def identity(types: tuple[DType, ...]) -> tuple[Expr, ...]:
        values = _parts(name, "fidentity", fidentity(*[t.name for t in types]), types, many)
        return tuple(make.cast(t, v) for v, t in zip(values, types, strict=True))

    identity(types)  # its mistakes are reported at the call, not in lowering
    return Reducer(name, "custom", combine, identity)


def _check_alone(name: str, combined: Expr, own: tuple[Var, ...]) -> None:
    """Nothing but the arguments of ``fcombine`` is in its result."""
    for node in preorder(combined):
        if isinstance(node, Access) or (type(node) is Var and builtins.all(node is not v for v in own)):
            raise DeclareError(
                f"{name}: fcombine uses `{node}`",
                because="partial results are combined in any order and place, from its arguments alone",
                try_="put it into what is reduced, or into a tuple beside it",
            )


def _parts(name: str, word: str, value: Any, types: tuple[DType, ...], many: bool) -> tuple[Expr, ...]:
    """What a user's function of a reducer returned, one expression per source."""
    listed = tuple(value) if isinstance(value, tuple | list) else (value,)
    if (
        len(listed) != len(types)
        or (isinstance(value, tuple | list) != many and len(types) > 1)
        or value is None
    ):
        raise DeclareError(
            f"{name}: {word} returned {'None' if value is None else f'{len(listed)} value(s)'}, {len(types)} "
            "needed",
            because=f"{len(types)} value(s) are reduced together: {', '.join(map(str, types))}",
            try_="return a tuple with one value for each" if len(types) > 1 else "return one expression",
        )
    return tuple(make.as_expr(v, t) for v, t in zip(listed, types, strict=True))
