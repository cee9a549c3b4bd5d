"""Smart constructors: the only way expressions are built. They convert, promote, fold and canonicalise at
birth.

Index arithmetic (scalar int32 / int64) becomes a canonical polynomial (``expr.linear``). Floats are never
reordered. Knows nothing of ranges of variables beyond what a Var says of itself; reasoning with loop ranges
is ``arith``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import BOOL, FLOAT32, INT32, INT64, DType, dtype, promote
from ..core.node import intern
from ..errors import DeclareError
from . import linear
from .intrinsics import EFFECTS, TABLE
from .literal import FALSE as FALSE
from .literal import TRUE as TRUE
from .literal import ExprLike, as_expr, broadcast, const, further
from .mixed import refuse_loss
from .nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    CCall,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)


def unify(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both as expressions of one type (lanes included), by the promotion rules."""
    if not isinstance(a, Expr):
        b = as_expr(b)
        a = as_expr(a, b.dtype)
    elif not isinstance(b, Expr):
        b = as_expr(b, a.dtype)
    if a.dtype is b.dtype:
        return a, b
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    if lanes > 1:
        if a.dtype.lanes == 1:
            a = broadcast(a, lanes)
        if b.dtype.lanes == 1:
            b = broadcast(b, lanes)
        if a.dtype is b.dtype:
            return a, b
    t = promote(a.dtype, b.dtype)
    if not (t.holds(a.dtype) and t.holds(b.dtype)):
        refuse_loss(a, b, t)
    return cast(t, a), cast(t, b)


def _need_number(op: str, a: Expr, b: Expr) -> None:
    for e in (a, b):
        if e.dtype.is_bool:
            raise DeclareError(
                f"`{op}` needs numbers, got a bool",
                because=f"{e} is a condition",
                try_="te.if_then_else(cond, a, b), or cond.astype('int32')",
            )


def _spread(op: Callable[..., Expr], a: Expr, b: Expr) -> Expr | None:
    """Vector simplification shared by the arithmetic operators: uniform vectors are computed once."""
    if type(a) is Broadcast and type(b) is Broadcast:
        return broadcast(op(a.value, b.value), a.lanes)
    return None


def _fold(
    t: DType, f: Callable[[Any, Any], Any], again: Callable[..., Expr], a: Expr, b: Expr
) -> Expr | None:
    """The literal ``f(a, b)`` of two literals, or the operation done once on two uniform vectors; None
    otherwise."""
    if type(a) is Const and type(b) is Const:
        if t.is_int:
            return const(t.wrap(f(int(a.value), int(b.value))), t)
        if t.code == "float":
            with np.errstate(all="ignore"):
                kind = t.to_numpy().type
                return const(float(f(kind(a.value), kind(b.value))), t)
        return None
    return _spread(again, a, b)


def add(a: ExprLike, b: ExprLike) -> Expr:
    """``a + b``; indices become a canonical sum."""
    a, b = unify(a, b)
    t = a.dtype
    if t is INT32 or t is INT64:  # t.is_index
        return linear.add(a, b, t)
    if t.is_bool:
        _need_number("+", a, b)
    if t.lanes > 1 and t.code == "int":
        if type(a) is Ramp and type(b) is Broadcast:
            return ramp(add(a.base, b.value), a.stride, a.lanes)
        if type(b) is Ramp and type(a) is Broadcast:
            return ramp(add(a.value, b.base), b.stride, b.lanes)
        if type(a) is Ramp and type(b) is Ramp:
            return ramp(add(a.base, b.base), add(a.stride, b.stride), a.lanes)
    found = _fold(t, operator.add, add, a, b)
    if found is None:
        found = _drop(t, a, b, 0)
    return intern(Add, a, b) if found is None else found


def sub(a: ExprLike, b: ExprLike) -> Expr:
    """``a - b``; indices become a canonical sum."""
    a, b = unify(a, b)
    t = a.dtype
    if t is INT32 or t is INT64:  # t.is_index
        return linear.sub(a, b, t)
    if t.is_bool:
        _need_number("-", a, b)
    if t.lanes > 1 and t.code == "int":
        if type(a) is Ramp and type(b) is Broadcast:
            return ramp(sub(a.base, b.value), a.stride, a.lanes)
        if type(a) is Broadcast and type(b) is Ramp:
            return ramp(sub(a.value, b.base), neg(b.stride), b.lanes)
        if type(a) is Ramp and type(b) is Ramp:
            return ramp(sub(a.base, b.base), sub(a.stride, b.stride), a.lanes)
    found = _fold(t, operator.sub, sub, a, b)
    if found is None and t.is_int and uniform(b, 0):
        found = a
    return intern(Sub, a, b) if found is None else found


def mul(a: ExprLike, b: ExprLike) -> Expr:
    """``a * b``; products of index sums are multiplied out."""
    a, b = unify(a, b)
    t = a.dtype
    if t is INT32 or t is INT64:  # t.is_index
        if type(b) is Const:
            return linear.scale(a, int(b.value), t)
        if type(a) is Const:
            return linear.scale(b, int(a.value), t)
        product = linear.mul_poly(linear.poly(a), linear.poly(b))
        if product is not None:
            return linear.from_poly(product, t)
        return intern(Mul, a, b)
    if t.is_bool:
        _need_number("*", a, b)
    if t.lanes > 1 and t.code == "int":
        if type(a) is Ramp and type(b) is Broadcast:
            return ramp(mul(a.base, b.value), mul(a.stride, b.value), a.lanes)
        if type(b) is Ramp and type(a) is Broadcast:
            return mul(b, a)
    found = _fold(t, operator.mul, mul, a, b)
    if found is None:
        found = _drop(t, a, b, 1)
    return intern(Mul, a, b) if found is None else found


def uniform(e: Expr, value: int) -> bool:
    return (type(e) is Const and e.value == value) or (type(e) is Broadcast and uniform(e.value, value))


def _drop(t: DType, a: Expr, b: Expr, unit: int) -> Expr | None:
    # x + 0 is kept for floats, where it changes -0.0; x * 1 changes nothing
    if t.is_float and unit == 0:
        return None
    if uniform(b, unit):
        return a
    return b if uniform(a, unit) else None


def neg(a: ExprLike) -> Expr:
    """``-a``, with the sign of zero right for floats."""
    a = as_expr(a)
    if type(a) is Const and not a.dtype.is_bool:
        return const(a.dtype.wrap(-int(a.value)) if a.dtype.is_int else -a.value, a.dtype)
    if a.dtype.is_float:  # -x, not 0 - x: the sign of zero
        return mul(a, const(-1.0, a.dtype))
    return sub(const(0, a.dtype), a)


def div(a: ExprLike, b: ExprLike) -> Expr:
    """True division. Raises DeclareError on two integers, where it would be unclear what is meant."""
    a, b = unify(a, b)
    t = a.dtype
    if not t.is_float:
        raise DeclareError(
            f"`/` on integers: {intern(Div, a, b)}",
            because=f"both sides are {t}",
            try_="`//` for the floor, te.truncdiv for C's rounding, or .astype('float32') first",
        )
    if type(b) is Const and b.value == 0 and type(a) is Const:
        return intern(Div, a, b)
    found = _fold(t, operator.truediv, div, a, b)
    return intern(Div, a, b) if found is None else found


def _divisor(op: str, a: Expr, b: Expr) -> None:
    if not a.dtype.is_int:
        raise DeclareError(
            f"`{op}` needs integers, got {a.dtype}",
            because=f"in {a} {op} {b}",
            try_="te.floor(a / b)" if op in ("//", "truncdiv") else "te.fmod(a, b)",
        )
    if uniform(b, 0):
        raise DeclareError(f"division by zero: {a} {op} {b}", because="the divisor is the literal 0")


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """``a // b``, rounded down, as in Python; of integers.

    A divisor that is zero when the kernel runs is a mistake that a kernel does not look for: it divides by
    one. ``te.reference``, ``tl.interpret`` and ``tl.build(…, bounds_check=True)`` raise. Raises DeclareError
    for the literal 0 and for operands that are not integers.

    >>> te.floordiv(te.const(-7), 2), te.truncdiv(te.const(-7), 2)
    (-4, -3)
    """
    a, b = unify(a, b)
    _divisor("//", a, b)
    t = a.dtype
    folded = _fold(t, operator.floordiv, floordiv, a, b)
    if folded is not None:
        return folded
    if uniform(b, 1):
        return a
    if t.is_index and not linear.wraps(a) and not linear.wraps(b):
        p = linear.poly(a)
        if not p:
            return a
        if type(b) is Const:
            d = int(b.value)
            if d < 0:
                return floordiv(neg(a), -d)
            q, r = linear.split_divisible(p, d)
            whole, left = linear.split_multiples(r, d)
            if whole and left:  # (m + 15) // 16 is m // 16 for a size m known to be a multiple of 16
                g = math.gcd(d, *whole.values())
                parts = add(
                    floordiv(linear.from_poly({m: c // g for m, c in whole.items()}, t), d // g),
                    floordiv(linear.from_poly(left, t), b),
                )
                return add(linear.from_poly(q, t), parts) if q else parts
            if q:
                rest = linear.from_poly(r, t)
                if type(rest) is Const:  # 0 <= rest < d
                    return linear.from_poly(q, t)
                again = type(linear.lone_atom(r)) is FloorDiv
                return add(linear.from_poly(q, t), floordiv(rest, b) if again else intern(FloorDiv, rest, b))
            inner = linear.lone_atom(p)  # (x // c + k) // d is (x + k * c) // (c * d)
            if type(inner) is FloorDiv and type(inner.b) is Const and inner.b.value > 0:
                c = int(inner.b.value)
                return floordiv(add(inner.a, p.get((), 0) * c), c * d)
        elif type(b) is Var and b.lo is not None and b.lo >= 1:
            q, r = linear.split_by_atom(p, b)
            if list(r) == [()] and r[()] == -1:  # -1 // n is -1 for every n >= 1
                q, r = linear.add_poly(q, {(): -1}), {}
            if q:
                return add(linear.from_poly(q, t), floordiv(linear.from_poly(r, t), b))
        elif p == linear.poly(b):
            return const(1, t)
    return intern(FloorDiv, a, b)


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """``a % b``, with the sign of the divisor, as in Python. Raises DeclareError as ``floordiv``."""
    a, b = unify(a, b)
    _divisor("%", a, b)
    t = a.dtype
    folded = _fold(t, operator.mod, floormod, a, b)
    if folded is not None:
        return folded
    if uniform(b, 1):
        return const(0, t)
    if t.is_index and not linear.wraps(a) and not linear.wraps(b):
        p = linear.poly(a)
        if not p:
            return a
        if type(b) is Const and b.value > 0:
            d = int(b.value)
            flat = linear.without_mods(p, d)
            reduced = {m: c % d for m, c in flat.items() if linear.divisor_of({m: c}) % d}
            if reduced != p:
                return floormod(linear.from_poly(reduced, t), b)
            g = math.gcd(d, *p.values())
            if g > 1:  # 4 i % 16 = 4 (i % 4)
                return mul(floormod(linear.from_poly({m: c // g for m, c in p.items()}, t), d // g), g)
        elif type(b) is Var and b.lo is not None and b.lo >= 1:
            q, r = linear.split_by_atom(p, b)
            if q:
                return floormod(linear.from_poly(r, t), b)
    return intern(FloorMod, a, b)


def _trunc(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """C's division of integers: rounds towards zero. Raises DeclareError as ``floordiv``."""
    a, b = unify(a, b)
    _divisor("truncdiv", a, b)
    found = _fold(a.dtype, _trunc, truncdiv, a, b)
    if found is None and uniform(b, 1):
        found = a
    return intern(TruncDiv, a, b) if found is None else found


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """C's remainder of integers: the sign of the dividend. Raises DeclareError as ``floordiv``."""
    a, b = unify(a, b)
    _divisor("truncmod", a, b)
    found = _fold(a.dtype, lambda x, y: x - y * _trunc(x, y), truncmod, a, b)
    return intern(TruncMod, a, b) if found is None else found


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """The least integer that is at least ``a / b``, ``b`` positive: how many tiles of ``b`` cover ``a``."""
    a, b = unify(a, b)
    return floordiv(sub(add(a, b), 1), b)


def _extreme(
    cls: type[Binary], pick: Callable[[Any, Any], Any], larger: bool
) -> Callable[[ExprLike, ExprLike], Expr]:
    def op(a: ExprLike, b: ExprLike) -> Expr:
        a, b = unify(a, b)
        _need_number(cls.symbol, a, b) if a.dtype.is_bool else None
        if a is b:
            return a
        t = a.dtype
        folded = None if t.is_float else _fold(t, pick, op, a, b)
        folded = further(a, b, larger) if folded is None else folded
        if folded is not None:
            return folded
        if t.is_index:
            difference = linear.add_poly(linear.poly(a), linear.poly(b), -1)
            if not difference or (
                list(difference) == [()] and not linear.wraps(a)
            ):  # of data, x + 1 may be less than x
                return a if (difference.get((), 0) >= 0) == larger else b
            if linear.sort_key(b) < linear.sort_key(a):  # one order, so that min(a, b) is min(b, a)
                a, b = b, a
        return intern(cls, a, b)

    op.__doc__ = f"``{cls.symbol}(a, b)``, elementwise."
    return op


min_ = _extreme(Min, min, False)
max_ = _extreme(Max, max, True)


def _compare(cls: type[Any], test: Callable[[Any, Any], bool]) -> Callable[[ExprLike, ExprLike], Expr]:
    def op(a: ExprLike, b: ExprLike) -> Expr:
        a, b = unify(a, b)
        if type(a) is Const and type(b) is Const:
            return const(test(a.value, b.value))
        t = a.dtype
        if t.is_index:
            difference = linear.add_poly(linear.poly(a), linear.poly(b), -1)
            if not difference or (list(difference) == [()] and not linear.wraps(a)):
                return const(test(difference.get((), 0), 0))
        found = _spread(op, a, b)
        return intern(cls, a, b, BOOL.with_lanes(t.lanes)) if found is None else found

    op.__doc__ = f"``a {cls.symbol} b``, a bool."
    return op


eq = _compare(EQ, lambda x, y: x == y)
ne = _compare(NE, lambda x, y: x != y)
lt = _compare(LT, lambda x, y: x < y)
le = _compare(LE, lambda x, y: x <= y)


def gt(a: ExprLike, b: ExprLike) -> Expr:
    """``a > b``, built as ``b < a``."""
    return lt(b, a)


def ge(a: ExprLike, b: ExprLike) -> Expr:
    """``a >= b``, built as ``b <= a``."""
    return le(b, a)


def _condition(op: str, x: ExprLike) -> Expr:
    e = as_expr(x)
    if not e.dtype.is_bool:
        raise DeclareError(
            f"`{op}` needs conditions, got {e.dtype}",
            because=f"{e} is a number",
            try_="a comparison, such as x != 0",
        )
    return e


def and_(a: ExprLike, b: ExprLike) -> Expr:
    """Both conditions; both are evaluated."""
    a, b = unify(_condition("and", a), _condition("and", b))
    if uniform(a, True) or a is b:
        return b
    if uniform(b, True):
        return a
    if uniform(a, False):
        return a
    if uniform(b, False):
        return b
    found = _spread(and_, a, b)
    return intern(And, a, b) if found is None else found


def or_(a: ExprLike, b: ExprLike) -> Expr:
    """Either condition; both are evaluated."""
    a, b = unify(_condition("or", a), _condition("or", b))
    if uniform(a, False) or a is b:
        return b
    if uniform(b, False):
        return a
    if uniform(a, True):
        return a
    if uniform(b, True):
        return b
    found = _spread(or_, a, b)
    return intern(Or, a, b) if found is None else found


def not_(a: ExprLike) -> Expr:
    """The opposite condition; comparisons are turned round."""
    a = _condition("not", a)
    if type(a) is Const:
        return const(not a.value)
    if type(a) is Not:
        return a.a
    if a.dtype.lanes > 1 and type(a) is Broadcast:
        return broadcast(not_(a.value), a.lanes)
    if type(a) is LT and not a.a.dtype.is_float:
        return le(a.b, a.a)
    if type(a) is LE and not a.a.dtype.is_float:
        return lt(a.b, a.a)
    if type(a) is EQ:
        return ne(a.a, a.b)
    if type(a) is NE:
        return eq(a.a, a.b)
    return intern(Not, a)


def _choice(cls: type[Any], name: str) -> Callable[[ExprLike, ExprLike, ExprLike], Expr]:
    def op(cond: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
        cond = _condition(name, cond)
        a, b = unify(a, b)
        if uniform(cond, True) or a is b:
            return a
        if uniform(cond, False):
            return b
        if cond.dtype.lanes > a.dtype.lanes:
            a, b = broadcast(a, cond.dtype.lanes), broadcast(b, cond.dtype.lanes)
        elif a.dtype.lanes > cond.dtype.lanes and cls is Select:
            cond = broadcast(cond, a.dtype.lanes)
        return intern(cls, cond, a, b)

    return op


select = _choice(Select, "select")
select.__doc__ = """``a`` where ``cond`` holds, else ``b``; both are evaluated. Raises DeclareError where it
is no condition."""
if_then_else = _choice(IfThenElse, "if_then_else")
if_then_else.__doc__ = """``a`` where ``cond`` holds, else ``b``: only that side is evaluated, so ``cond`` may
guard a read outside a tensor. Raises DeclareError where it is no condition."""


def cast(dtype_: str | DType, a: ExprLike) -> Expr:
    """``a`` converted: floats to integers truncate, integers wrap; to bool not zero; other lanes raise."""
    a = as_expr(a)
    t = dtype(dtype_)
    if t.lanes != a.dtype.lanes:
        if t.lanes > 1 and a.dtype.lanes > 1:
            raise DeclareError(f"cannot cast {a.dtype} to {t}: the numbers of lanes differ")
        t = t.with_lanes(a.dtype.lanes)
    if t is a.dtype:
        return a
    if type(a) is Const:
        if t.is_int and not a.dtype.is_float:
            return const(t.wrap(int(a.value)), t)
        if (t.is_float and abs(a.value) <= 2**53) or t.is_bool:  # beyond, it would be rounded twice
            return const(a.value, t)
    if type(a) is Broadcast:
        return broadcast(cast(t.element, a.value), a.lanes)
    if type(a) is Ramp and t.code == "int" and t.bits >= 32:
        return ramp(cast(t.element, a.base), cast(t.element, a.stride), a.lanes)
    if t.is_bool:
        return ne(a, const(0, a.dtype.element))
    if t is INT64 and a.dtype is INT32 and not linear.is_atom(a) and not linear.wraps(a):
        # index arithmetic does not overflow by contract, so each term may be widened by itself: the sum stays
        # canonical
        return linear.from_poly(
            {tuple([cast(INT64, x) for x in mono]): c for mono, c in linear.poly(a).items()}, INT64
        )
    return intern(Cast, t, a)


def call(name: str, *args: ExprLike) -> Expr:
    """The intrinsic ``name`` on these arguments, converted as its row in ``expr.intrinsics`` says."""
    if name in EFFECTS:
        return intern(Call, INT32, name, tuple(as_expr(x) for x in args))  # type: ignore[no-any-return]
    row = TABLE[name]
    if len(args) != row.arity:
        raise DeclareError(f"{name} takes {row.arity} argument(s), got {len(args)}")
    es: list[Any] = list(args)
    if not all([isinstance(x, Expr) for x in args]):
        like = None
        for x in args:  # a number among the arguments takes the type of the others
            if not isinstance(x, int | float | np.generic):
                t = as_expr(x).dtype
                like = t if like is None else promote(like, t)
        if like is None and row.accepts(FLOAT32) and not row.accepts(INT32):  # numbers alone: te.sqrt(2)
            like = FLOAT32
        es = [as_expr(x, like) for x in args]
    if row.arity > 1:
        t0 = es[0].dtype
        for e in es[1:]:
            t0 = promote(t0, e.dtype)
        lanes = max(e.dtype.lanes for e in es)
        es = [cast(t0, broadcast(e, lanes) if e.dtype.lanes < lanes else e) for e in es]
    t = es[0].dtype
    if not row.accepts(t):
        if row.accepts(FLOAT32) and not t.is_float and not t.is_bool:
            raise DeclareError(
                f"{name}({', '.join(map(str, es))}): needs a float, got {t}", try_="x.astype('float32') first"
            )
        if row.accepts(INT32) and not row.accepts(FLOAT32):
            raise DeclareError(
                f"{name}({', '.join(map(str, es))}): needs an integer, got {t}",
                try_="x.astype('int32') first",
            )
        raise DeclareError(
            f"{name}({', '.join(map(str, es))}): not defined on {t}",
            try_="cond.astype('int32') first" if t.is_bool else None,
        )
    if name == "pow" and type(es[1]) is Const and es[1].value in (1, 2, 3):  # also where it was read as such
        return product(es[0], int(es[1].value))
    return intern(Call, row.result(t), name, tuple(es))


def product(x: Expr, n: int) -> Expr:
    """``x`` as often as that, by squaring."""
    if n == 0:
        return const(1, x.dtype)
    if n == 1:
        return x
    half = product(x, n // 2)
    square = mul(half, half)
    return mul(square, x) if n % 2 else square


def c_call(result: DType, name: str, *args: ExprLike) -> Expr:
    """The C function ``name`` of these arguments, which gives a ``result``."""
    es = [as_expr(a) for a in args]
    lanes = max([e.dtype.lanes for e in es], default=1)
    es = [broadcast(e, lanes) if e.dtype.lanes < lanes else e for e in es]
    return intern(CCall, result.with_lanes(lanes), name, tuple(es))  # type: ignore[no-any-return]


def ramp(base: ExprLike, stride: ExprLike, lanes: int) -> Expr:
    """The vector ``base, base + stride, …``."""
    base = as_expr(base)
    stride = as_expr(stride, base.dtype)
    if lanes == 1:
        return base
    if uniform(stride, 0):
        return broadcast(base, lanes)
    return intern(Ramp, base, stride, lanes)
