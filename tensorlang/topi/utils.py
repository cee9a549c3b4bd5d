"""What programs for TVM take from ``topi.utils``: sizes as numbers of Python. Knows expressions alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..entries import share
from ..errors import DeclareError
from ..expr.nodes import Expr, const_int

__all__ = ["get_const_int", "get_const_tuple"]


def get_const_int(expr: Expr | int) -> int:
    """The number that an expression is. Raises DeclareError for one that hangs on a size not known yet.

    >>> import tensorlang as tl
    >>> tl.topi.utils.get_const_int(8)
    8
    """
    n = const_int(expr)
    if n is None:
        raise DeclareError(
            f"get_const_int: {expr!r} is no whole number that is known", try_="get_const_int(C.shape[0])"
        )
    return n


def get_const_tuple(shape: Iterable[Expr | int]) -> tuple[Any, ...]:
    """A shape with its numbers as numbers of Python; sizes that are open stay expressions. Raises
    DeclareError for what is not a shape.

    >>> import tensorlang as tl
    >>> x = tl.te.placeholder((3, 4), name="x")
    >>> tl.topi.utils.get_const_tuple(x.shape)
    (3, 4)
    """
    if not isinstance(shape, Iterable):
        raise DeclareError(f"get_const_tuple: {shape!r} is not a shape", try_="get_const_tuple(C.shape)")
    return tuple(n if (known := const_int(n)) is None else known for n in shape)


share(__name__)
