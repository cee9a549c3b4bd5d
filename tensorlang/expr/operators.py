"""Python's operators on expressions and on everything that converts to one. Knows the smart constructors
only."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ..boundary import HINTS, UnknownNameError, short
from ..core.dtype import DType
from ..errors import DeclareError
from . import make
from .intrinsics import TABLE
from .linear import wraps
from .make import ExprLike
from .nodes import EQ, NE, Cast, Const, Expr, Var, const_int
from .printer import show

MAX_POWER = 64  # of integers: a product is written out

declaring: ContextVar[bool] = ContextVar("declaring", default=False)
"""Whether a user's function that declares an element is running: there ``i == j`` is a question about
values, and has no truth yet. Anywhere else axes are loops of a schedule, and lists of them work (``axis in
loops``, ``loops.index(axis)``)."""


def absolute(x: ExprLike) -> Expr:
    """``abs(x)``; of an index the larger of it and its opposite, of which ranges are known."""
    e = make.as_expr(x)
    if e.dtype.is_index and not isinstance(e, Const) and not wraps(e):
        return make.max_(e, make.neg(e))
    return make.call("abs", e)


def power(x: ExprLike, y: ExprLike) -> Expr:
    """``x ** y``: of floats, or an integer to a literal power. Squares and cubes are products. Raises
    DeclareError for an integer to another power."""
    # 2 ** x: the number takes the type of the exponent
    if not isinstance(x, Expr) and not hasattr(x, "as_expr"):
        y = make.as_expr(y)
        x = make.as_expr(x, y.dtype)
    base = make.as_expr(x)
    exponent = make.as_expr(y, base.dtype)
    if base.dtype.is_int and exponent.dtype.is_int:
        n = const_int(exponent)
        if n is None or not 0 <= n <= MAX_POWER:
            raise DeclareError(
                f"{base} ** {exponent}: integers are raised to a literal power from 0 to {MAX_POWER} only",
                because=f"{base} is {base.dtype}, and so would the result be",
                try_="x.astype('float32') ** y",
            )
        return make.product(base, n)
    return make.call("pow", base, exponent)


class Operators:
    """``+ - * / // % < <= > >= == != & | ~ abs`` for a class with ``as_expr()``. ``==`` builds a comparison,
    as in numpy."""

    __slots__ = ()

    def __add__(self, other: ExprLike) -> Expr:
        return make.add(make.as_expr(self), other)

    def __radd__(self, other: ExprLike) -> Expr:
        return make.add(other, make.as_expr(self))

    def __sub__(self, other: ExprLike) -> Expr:
        return make.sub(make.as_expr(self), other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return make.sub(other, make.as_expr(self))

    def __mul__(self, other: ExprLike) -> Expr:
        return make.mul(make.as_expr(self), other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return make.mul(other, make.as_expr(self))

    def __truediv__(self, other: ExprLike) -> Expr:
        return make.div(make.as_expr(self), other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return make.div(other, make.as_expr(self))

    def __floordiv__(self, other: ExprLike) -> Expr:
        return make.floordiv(make.as_expr(self), other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return make.floordiv(other, make.as_expr(self))

    def __mod__(self, other: ExprLike) -> Expr:
        return make.floormod(make.as_expr(self), other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return make.floormod(other, make.as_expr(self))

    def __matmul__(self, other: Any) -> NoReturn:
        name = getattr(self, "name", "A") if getattr(self, "shape", ()) else "A"
        raise DeclareError(
            f"{make.as_expr(self) if not getattr(self, 'shape', ()) else name} @ …: no product of matrices",
            because="@ multiplies whole matrices, and a computation is declared element by element",
            try_="ops.matmul(A, B) of tensors, or te.sum(A[i, k] * B[k, j], axis=k)",
        )

    __rmatmul__ = __matmul__

    def __neg__(self) -> Expr:
        return make.neg(make.as_expr(self))

    def __pos__(self) -> Expr:
        return make.as_expr(self)

    def __abs__(self) -> Expr:
        return absolute(self)

    def __pow__(self, other: ExprLike) -> Expr:
        return power(self, other)

    def __rpow__(self, other: ExprLike) -> Expr:
        return power(other, self)

    def __lt__(self, other: ExprLike) -> Expr:
        return make.lt(make.as_expr(self), other)

    def __le__(self, other: ExprLike) -> Expr:
        return make.le(make.as_expr(self), other)

    def __gt__(self, other: ExprLike) -> Expr:
        return make.gt(make.as_expr(self), other)

    def __ge__(self, other: ExprLike) -> Expr:
        return make.ge(make.as_expr(self), other)

    def __eq__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return make.eq(make.as_expr(self), other)

    def __ne__(self, other: ExprLike) -> Expr:  # type: ignore[override]
        return make.ne(make.as_expr(self), other)

    __hash__ = object.__hash__

    def _bits(self, name: str, other: ExprLike, flipped: bool = False) -> Expr:
        me = make.as_expr(self)
        you = make.as_expr(other, me.dtype)
        a, b = (you, me) if flipped else (me, you)
        # Python's & and | of conditions are "and" and "or": the words of the language cannot be overloaded
        if me.dtype.is_bool and name in ("bitwise_and", "bitwise_or"):
            return make.and_(a, b) if name == "bitwise_and" else make.or_(a, b)
        return make.call(name, a, b)

    def __and__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_and", other)

    def __rand__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_and", other, True)

    def __or__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_or", other)

    def __ror__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_or", other, True)

    def __xor__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_xor", other)

    def __rxor__(self, other: ExprLike) -> Expr:
        return self._bits("bitwise_xor", other, True)

    def __lshift__(self, other: ExprLike) -> Expr:
        return self._bits("shift_left", other)

    def __rlshift__(self, other: ExprLike) -> Expr:
        return self._bits("shift_left", other, True)

    def __rshift__(self, other: ExprLike) -> Expr:
        return self._bits("shift_right", other)

    def __rrshift__(self, other: ExprLike) -> Expr:
        return self._bits("shift_right", other, True)

    def __invert__(self) -> Expr:
        me = make.as_expr(self)
        return make.not_(me) if me.dtype.is_bool else make.call("bitwise_not", me)

    def __format__(self, spec: str) -> str:
        if spec:
            raise DeclareError(
                f"{{…:{spec}}} of {self}: an expression has no digits until a kernel has run",
                try_=f"f'{{x}}' of the text {str(self)[:40]!r}",
            )
        return str(self)

    def __bool__(self) -> bool:
        me = make.as_expr(self)
        if type(me) is Const:
            return bool(me.value)
        if isinstance(me, EQ | NE) and not declaring.get():
            a, b = _loop(me.a), _loop(me.b)
            if a is not None and b is not None:
                # two loops: a question about which loop it is, asked by ``in`` and ``index`` of lists
                return (a is b) == (type(me) is EQ)
        raise DeclareError(
            f"the truth of `{me}` is not known while a computation is declared",
            because="it has no value until the kernel runs; Python's if / and / or / not ask for one now",
            try_="te.if_then_else(cond, a, b), te.all(c1, c2), te.any(c1, c2), te.min / te.max, "
            "or `a is b` to ask whether two expressions are the same",
        )

    def _number(self, word: str, instead: str) -> int | float | bool:
        me = make.as_expr(self)
        if type(me) is Const:
            return me.value
        what = (
            f"a number is needed where `{me}` stands"
            if word == "index"
            else f"{word}({me}): the value is not known while a computation is declared"
        )
        raise DeclareError(
            what,
            because="only a literal has one, such as A.shape[0] of a tensor of constant shape",
            try_=instead,
        )

    def __int__(self) -> int:
        return int(self._number("int", ".astype('int32') to convert in the kernel"))

    def __float__(self) -> float:
        return float(
            self._number(
                "float",
                "te.exp, te.sqrt and so on instead of those of math; "
                ".astype('float32') to convert in the kernel",
            )
        )

    def __index__(self) -> int:
        value = self._number(
            "index",
            "te.placeholder for a list indexed by an axis, te.reduce_axis to run over a symbolic range",
        )
        if not isinstance(value, int):
            raise DeclareError(f"index({value}): not an integer", try_="int(…)")
        return int(value)

    def __round__(self, digits: int | None = None) -> NoReturn:
        raise DeclareError(
            f"round({make.as_expr(self)}): Python's round is not part of a kernel",
            try_="te.round, te.nearbyint or te.floor",
        )

    def __divmod__(self, other: ExprLike) -> tuple[Expr, Expr]:
        return self // other, self % other  # type: ignore[return-value]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Expr:
        """numpy's functions: arithmetic between a numpy number and an expression works, for the others there
        is ``te``."""
        name = ufunc.__name__
        op = _ARITHMETIC.get(name)
        array = next((x for x in inputs if isinstance(x, np.ndarray) and x.ndim), None)
        # an array beside an expression would make a tensor without a name or a place in the program
        if op is None or method != "__call__" or options or array is not None:
            word = f"np.{name}" + ("" if method == "__call__" else f".{method}")
            if array is not None:
                raise DeclareError(
                    f"{word} of an array of shape {array.shape} and an expression",
                    because="an expression is one element, an array is many",
                    try_="te.placeholder(shape, dtype) for the array, and pass it when the kernel is called",
                )
            known = _IN_TE.get(name, name)
            shown = ", ".join(str(x if isinstance(x, np.generic) else make.as_expr(x)) for x in inputs)
            raise DeclareError(
                f"{word}({shown}): numpy computes with numbers, and an expression has none until the kernel "
                "runs",
                try_=f"te.{known}(…)" if known in TABLE else "the functions of te",
            )
        return op(*inputs)  # type: ignore[no-any-return]

    def astype(self, dtype: str | DType) -> Expr:
        """Converted to that dtype, as C converts: floats are cut off towards zero."""
        return make.cast(dtype, make.as_expr(self))

    def equal(self, other: ExprLike) -> Expr:
        """``self == other`` as an expression, true or false for each element."""
        return make.eq(make.as_expr(self), other)


def _loop(e: Expr) -> Var | None:
    """The axis or loop that ``e`` is, of whatever width it counts in."""
    while type(e) is Cast:
        e = e.a
    return e if type(e) is Var and e.kind == "loop" else None


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic | np.ndarray) else x


def _plainly(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operator with numpy's numbers turned into Python's, so that the expression's side decides."""
    return lambda a, b: op(_plain(a), _plain(b))


_ARITHMETIC = {
    name: _plainly(op)
    for name, op in (
        ("add", operator.add),
        ("subtract", operator.sub),
        ("multiply", operator.mul),
        ("divide", operator.truediv),
        ("floor_divide", operator.floordiv),
        ("remainder", operator.mod),
        ("power", operator.pow),
        ("less", operator.lt),
        ("less_equal", operator.le),
        ("greater", operator.gt),
        ("greater_equal", operator.ge),
        ("equal", operator.eq),
        ("not_equal", operator.ne),
        ("bitwise_and", operator.and_),
        ("bitwise_or", operator.or_),
        ("bitwise_xor", operator.xor),
        ("left_shift", operator.lshift),
        ("right_shift", operator.rshift),
    )
}
_IN_TE = {
    "absolute": "abs",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "rint": "nearbyint",
    "float_power": "pow",
}


def _beside(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The operator of an expression, which leaves what is many elements to the other side."""

    def plain(self: Any, other: Any) -> Any:
        try:
            return method(self, other)
        except DeclareError as e:
            # a tensor: its own operator makes a tensor of both
            if isinstance(other, Operators) and getattr(other, "shape", None):
                return NotImplemented
            raise short(e) from None

    return functools.wraps(method)(plain)


def _shortened(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose errors stand at the user's line."""

    def plain(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except DeclareError as e:
            raise short(e) from None

    return functools.wraps(method)(plain)


def _absent(self: Expr, name: str) -> Any:
    if name.startswith("_"):  # of slots that are empty, and what Python and numpy ask for
        raise AttributeError(name)
    raise UnknownNameError(
        f"`{self}` has no {name!r}",
        because="it is an expression of one element, not an array",
        try_=f"te.{name}({self})" if name in TABLE else None,
    )


def _no_length(self: Expr) -> NoReturn:
    raise DeclareError(
        f"len({self}): an expression is one element",
        because="it has a value when the kernel runs",
        try_="A.shape[0] for the size of a tensor",
    )


def _no_items(self: Expr, index: Any) -> NoReturn:
    raise DeclareError(
        f"({self})[…]: an expression is one element", try_="A[i, j] with all indices of a tensor at once"
    )


# methods of expressions alone; type checkers need not see them, as they only raise
_REFUSED = {"__getattr__": _absent, "__len__": _no_length, "__getitem__": _no_items}


def install() -> None:
    """Give expressions their operators and their text: see ``wiring``."""
    for name, method in list(vars(Operators).items()):
        if isinstance(method, FunctionType):
            binary = name.startswith("__") and hasattr(Operators, f"__r{name[2:]}")
            setattr(Expr, name, _beside(method) if binary else _shortened(method))
            setattr(Operators, name, _shortened(method))
    for name, method in _REFUSED.items():
        if name not in vars(Expr) and (HINTS or name != "__getattr__"):
            setattr(Expr, name, method)
    Expr.__hash__ = object.__hash__  # type: ignore[method-assign, assignment]
    Expr.__str__ = show  # type: ignore[assignment, method-assign]
    Expr.__repr__ = show  # type: ignore[assignment, method-assign]
