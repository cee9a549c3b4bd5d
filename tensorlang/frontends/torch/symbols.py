"""Sizes: torch's symbols and arithmetic as te expressions. Knows sympy as torch uses it, by the names of its
classes, and expressions; no graphs."""

from __future__ import annotations

import functools
from typing import Any

from ... import te
from ...errors import DeclareError
from ...expr.nodes import Expr
from ...te import dim

MAX_DIM = 10**9


class Sizes:
    """The dims of a graph. ``ranges`` has for a symbol the least and the largest value, where they are
    known."""

    def __init__(self, ranges: Any = None) -> None:
        self.ranges = ranges or {}
        self.dims: dict[Any, Expr] = {}

    def of(self, n: Any) -> int | Expr:
        """A size of torch, a number or symbolic, as a number or an expression. Raises DeclareError for
        arithmetic that is none of whole numbers."""
        if isinstance(n, int):
            return n
        node = getattr(n, "node", None)
        e = n if node is None else node.expr
        if node is not None and not self.ranges and node.shape_env is not None:
            self.ranges = node.shape_env.var_to_range
        return self.expression(e)

    def expression(self, e: Any) -> int | Expr:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return self.symbol(e)
        f = _FUNCTIONS.get(type(e).__name__)
        if f is None:
            raise DeclareError(f"the size {e}", because=f"{type(e).__name__} is not arithmetic of sizes here")
        return f(*map(self.expression, e.args))

    def symbol(self, s: Any) -> Expr:
        """The dim of a symbol."""
        if s not in self.dims:
            low, high = self._range(s)
            self.dims[s] = dim(str(s), low, high)
        return self.dims[s]

    def _range(self, s: Any) -> tuple[int, int]:
        found = self.ranges.get(s)
        if found is None:
            return 0, MAX_DIM
        low, high = found.lower, found.upper
        return (int(low) if low.is_Integer and low >= 0 else 0), (
            int(high) if high.is_Integer and high < MAX_DIM else MAX_DIM
        )


def _sum(*xs: Any) -> Any:
    return functools.reduce(lambda a, b: a + b, xs)


def _product(*xs: Any) -> Any:
    return functools.reduce(lambda a, b: a * b, xs)


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or exponent < 1:
        raise DeclareError(f"the size {base} ** {exponent}")
    return _product(*[base] * exponent)


_FUNCTIONS: dict[str, Any] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": te.floordiv,
    "CleanDiv": te.floordiv,
    "CeilDiv": te.ceildiv,
    "Mod": te.floormod,
    "PythonMod": te.floormod,
    "Max": lambda *xs: functools.reduce(te.max, xs),
    "Min": lambda *xs: functools.reduce(te.min, xs),
}
