"""Python's operators on expressions and on everything that converts to one. Knows the smart constructors only."""

from __future__ import annotations

from typing import NoReturn

from ..core.dtype import DType
from ..errors import DeclareError
from . import make
from .make import ExprLike
from .nodes import Expr
from .printer import show


class Operators:
    """``+ - * / // % < <= > >= == != & | ~ abs`` for a class with ``as_expr()``. ``==`` builds a comparison, as in numpy."""

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

    def __neg__(self) -> Expr:
        return make.neg(make.as_expr(self))

    def __pos__(self) -> Expr:
        return make.as_expr(self)

    def __abs__(self) -> Expr:
        return make.call("abs", make.as_expr(self))

    def __pow__(self, other: ExprLike) -> Expr:
        return make.call("pow", make.as_expr(self), make.as_expr(other, make.as_expr(self).dtype))

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

    def __bool__(self) -> NoReturn:
        raise DeclareError(f"the truth of `{make.as_expr(self)}` is not known while a computation is declared",
                           because="it has no value until the kernel runs; Python's if / and / or / not ask for one now",
                           try_="te.if_then_else(cond, a, b), te.all(c1, c2), te.any(c1, c2), te.min / te.max, "
                                "or `a is b` to ask whether two expressions are the same")

    def astype(self, dtype: str | DType) -> Expr:
        """Converted to that dtype."""
        return make.cast(dtype, make.as_expr(self))

    def equal(self, other: ExprLike) -> Expr:
        """``self == other``."""
        return make.eq(make.as_expr(self), other)


def _install() -> None:
    for name, method in vars(Operators).items():
        if callable(method) and name not in ("__init__",):
            setattr(Expr, name, method)
    Expr.__str__ = lambda self: show(self)  # type: ignore[method-assign]
    Expr.__repr__ = lambda self: show(self)  # type: ignore[method-assign]


_install()
