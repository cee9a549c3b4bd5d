"""Sizes: torch's symbols and arithmetic as te expressions. Knows sympy as torch uses it, by the names of its
classes, and expressions; no graphs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import SymT, symbol_is_type

from ... import te
from ...errors import DeclareError
from ...expr.linear import poly
from ...expr.nodes import Expr, Var
from ...ops.inputs import at_most
from ...te import dim
from ...te.whole import shortest

MAX_DIM = 10**9
EMPTY: Mapping[Any, Any] = MappingProxyType({})
MOST_BELOW = 1024  # of a float in arithmetic of sizes


class Sizes:
    """The dims of a graph. ``ranges`` has for a symbol the least and the largest value, where they are
    known; ``same`` symbols stand for others that they are taken to be equal to."""

    def __init__(self, ranges: Any = None, same: Mapping[Any, Any] = EMPTY) -> None:
        self.ranges = ranges or {}
        self.same = same
        self.dims: dict[Any, Expr] = {}
        self.opaque: dict[Any, Expr] = {}
        self.late: dict[Any, Callable[[], Expr]] = {}  # numbers that are data become sizes when one is needed
        self.multiples: dict[Any, int] = {}  # of what number torch knows symbols to be multiples
        self.below: dict[Any, Expr] = {}  # what symbols that may be negative are less than 0

    def read(self, n: Any) -> int | Expr:
        """The size of an axis that is given: of arithmetic that cannot be said here, a dim."""
        self._ranges_of(n)
        e = None if isinstance(n, int) else n.node.expr
        e = self.same.get(e, e)
        if e is not None and e.is_Symbol and e not in self.dims:
            low, high = self._range(e)
            self.dims[e] = self._dim(e, max(low, 0), high)
        try:
            return self.of(n)
        except DeclareError:
            # a call tells it, and what is computed of it torch writes with the very same expression
            return self.opaque.setdefault(e, dim(f"size{len(self.opaque)}", 0, MAX_DIM))

    def of(self, n: Any) -> int | Expr:
        """A size of torch, or a float made of sizes, a number or symbolic, as a number or an expression.
        Raises DeclareError for arithmetic that is not known here."""
        if isinstance(n, int):
            return n
        self._ranges_of(n)
        if isinstance(n, torch.SymFloat):
            return self.number(n.node.expr)
        node = getattr(n, "node", None)
        return self.expression(n if node is None else node.expr)

    def _ranges_of(self, n: Any) -> None:
        node = getattr(n, "node", None)
        env = getattr(node, "shape_env", None)
        if env is None:
            return
        self.ranges = self.ranges or env.var_to_range
        if not self.multiples:
            tested = [g.expr for g in getattr(env, "guards", ())]
            # of a remainder that is 0, or not more, the program has the branch that the sample took
            none = [t.args[0] for t in tested if type(t).__name__ in _NONE and t.args[1] == 0]
            for e in (*getattr(env, "divisible", ()), *none):
                if _is_mod(e) and e.args[1].is_Integer:
                    self._multiple(e.args[0], int(e.args[1]))

    def _multiple(self, e: Any, n: int) -> None:
        """Notes what follows for a symbol where ``e`` is a multiple of ``n``."""
        # of what is taken off, as of ``16 - s % 16``, only its own remainder counts
        e = e.replace(
            lambda x: _is_mod(x) and x.args[1].is_Integer and x.args[1] % n == 0, lambda x: x.args[0]
        )
        times = {s: int(c) % n for s, c in e.expand().as_coefficients_dict().items()}
        left = [s for s, c in times.items() if c]
        if len(left) == 1 and left[0].is_Symbol:
            s = left[0]
            self.multiples[s] = math.lcm(self.multiples.get(s, 1), n // math.gcd(times[s], n))

    def _dim(self, s: Any, low: int, high: int) -> Expr:
        n = self.multiples.get(s, 1)
        low = -(-low // n) * n
        return dim(str(s), low, high, multiple_of=n) if n > 1 and low <= high else dim(str(s), low, high)

    def expression(self, e: Any) -> int | Expr:
        if e in self.opaque:
            return self.opaque[e]
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            return self.symbol(e)
        kind = type(e).__name__
        if kind in _ROUNDED:
            above, below = self._part(e.args[0]) or self._fraction(e.args[0])
            return _ROUNDED[kind](above, below) if below > 1 else above
        f = _FUNCTIONS.get(kind)
        if f is None:
            raise DeclareError(f"the size {e}", because=f"{type(e).__name__} is not arithmetic of sizes here")
        return f(*map(self.expression, e.args))

    def _part(self, e: Any) -> tuple[int | Expr, int] | None:
        """A size times a float that is near a short fraction, as ``n * 0.3``, where its product with every
        size, rounded as Python does, lies on the same side of every whole number as that of the fraction."""
        if type(e).__name__ != "Mul" or len(e.args) != 2 or not e.args[0].is_Float:
            return None
        factor, size = (
            float(e.args[0]),
            e.args[1].args[0] if type(e.args[1]).__name__ == "ToFloat" else e.args[1],
        )
        near = Fraction(factor).limit_denominator(MOST_BELOW)
        # half of what a float may be off: such a product is rounded to the whole number that is meant
        if near <= 0 or not size.is_integer or abs(Fraction(factor) / near - 1) > Fraction(1, 2**54):
            return None
        return self.expression(size) * near.numerator, near.denominator

    def _fraction(self, e: Any) -> tuple[int | Expr, int]:
        """A number of torch's float arithmetic on sizes, as ``n * 1.5``: above and below the line."""
        kind = type(e).__name__
        if e.is_Float:
            top, bottom = float(e).as_integer_ratio()
            # of 0.1 the next float is meant, and a whole product may be rounded to either side
            if bottom > MOST_BELOW:
                raise DeclareError(f"the size {e}", because="it is no short binary fraction")
            return top, bottom
        if kind in ("Mul", "Add"):
            parts = [self._fraction(x) for x in e.args]
            if kind == "Mul":
                return _product(*(a for a, _ in parts)), math.prod(b for _, b in parts)
            below = math.lcm(*(b for _, b in parts))
            return _sum(*(a * (below // b) for a, b in parts)), below
        if kind in ("IntTrueDiv", "FloatTrueDiv"):
            (above, below), (by, over) = map(self._fraction, e.args)
            if not isinstance(by, int) or by == 0:
                raise DeclareError(f"the size {e}", because="it is divided by what is no number")
            return (above * over, below * by) if by > 0 else (0 - above * over, below * -by)
        return self.expression(e.args[0] if kind == "ToFloat" else e), 1

    def number(self, e: Any) -> Expr:
        """A number of torch's float arithmetic on sizes, as ``1 / n`` and ``math.sqrt(n)``, in float64 as
        Python computes it. Raises DeclareError for arithmetic that is not known here."""
        if e.is_Number:
            return te.const(float(e), "float64")
        kind = type(e).__name__
        if e.is_Symbol and not e.is_integer:
            raise DeclareError(f"the number {e}", because="it is a float that comes with the call")
        if e.is_integer:
            return te.cast("float64", self.expression(e))
        if kind not in _OF_FLOATS:
            raise DeclareError(f"the number {e}", because=f"{kind} is not arithmetic of numbers here")
        return _OF_FLOATS[kind](*map(self.number, e.args))

    def symbol(self, s: Any) -> Expr:
        """The dim of a symbol; of one that may be negative, as no size is, the difference of two."""
        s = self.same.get(s, s)
        if s not in self.dims and s in self.late:
            self.dims[s] = self.late[s]()
        if s not in self.dims:
            low, high = self._range(s)
            if low >= 0:
                self.dims[s] = self._dim(s, low, high)
            else:
                below = self.below[s] = dim(f"{s}_below", max(-high, 0), -low)
                self.dims[s] = 0 - below if high <= 0 else dim(str(s), 0, high) - below
        return self.dims[s]

    def equal(self, a: Expr, b: Expr) -> dict[Any, Any]:
        """Which symbol stands for which other one if ``a == b``; none where that is not all it takes."""
        names = {d: s for s, d in self.dims.items() if isinstance(d, Var)}
        terms = list(poly(a - b).items())
        if sorted(c for _, c in terms) != [-1, 1] or not all(len(m) == 1 and m[0] in names for m, _ in terms):
            return {}
        # the one that came later
        first, later = sorted((names[m[0]] for m, _ in terms), key=list(self.dims).index)  # type: ignore[index]
        return {later: first}

    def _range(self, s: Any) -> tuple[int, int]:
        found = self.ranges.get(s)
        if found is None:
            return 0, MAX_DIM
        low, high = found.lower, found.upper
        return (
            max(int(low), -MAX_DIM) if low.is_Integer else -MAX_DIM,
            min(int(high), MAX_DIM) if high.is_Integer else MAX_DIM,
        )


_NONE = ("Equality", "LessThan")


def _is_mod(e: Any) -> bool:
    return type(e).__name__ in ("Mod", "PythonMod")


def symbols_of(val: Any) -> set[Any]:
    """The symbols in a size, a shape or the shapes of several."""
    if isinstance(val, torch.SymInt):
        return set(val.node.expr.free_symbols)
    if isinstance(val, torch.Tensor):
        return {s for n in val.shape for s in symbols_of(n)}
    if isinstance(val, list | tuple):
        return {s for v in val for s in symbols_of(v)}
    return set()


def made_by_data(node: Any) -> set[Any]:
    """The sizes that the elements of a node's result decide, and nothing that it reads."""
    made = {s for s in symbols_of(node.meta.get("val")) if symbol_is_type(s, SymT.UNBACKED_INT)}
    return made and made - {s for r in node.all_input_nodes for s in symbols_of(r.meta.get("val"))}


def _sum(*xs: Any) -> Any:
    return functools.reduce(lambda a, b: a + b, xs)


def _product(*xs: Any) -> Any:
    return functools.reduce(lambda a, b: a * b, xs)


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or exponent < 1:
        raise DeclareError(f"the size {base} ** {exponent}")
    return _product(*[base] * exponent)


def _towards_0(above: Any, below: int) -> Any:
    if not at_most(0, above):
        raise DeclareError(f"the size {above} // {below} towards 0, of what may be negative")
    return te.floordiv(above, below)


def _nearest(above: Any, below: int) -> Any:
    """Halves to the even one, as Python rounds."""
    if below % 2:
        return te.floordiv(2 * above + below, 2 * below)
    odd = te.floormod(te.floordiv(above, below), 2)
    return te.floordiv(above + odd + (below // 2 - 1), below)


_ROUNDED: dict[str, Any] = {
    "CeilToInt": te.ceildiv,
    "FloorToInt": te.floordiv,
    "TruncToInt": _towards_0,
    "RoundToInt": _nearest,
}
_FUNCTIONS: dict[str, Any] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": lambda a, b: shortest(te.floordiv(a, b)),
    "CleanDiv": lambda a, b: shortest(te.floordiv(a, b)),
    "CeilDiv": te.ceildiv,
    "Mod": te.floormod,
    "PythonMod": te.floormod,
    "Max": lambda *xs: functools.reduce(te.max, xs),
    "Min": lambda *xs: functools.reduce(te.min, xs),
}
_OF_FLOATS: dict[str, Any] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": te.pow,
    "FloatPow": te.pow,
    "PowByNatural": te.pow,
    "ToFloat": lambda x: x,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "Max": lambda *xs: functools.reduce(te.max, xs),
    "Min": lambda *xs: functools.reduce(te.min, xs),
    "Abs": te.abs,
    **{
        f"OpaqueUnaryFn_{name}": getattr(te, name)
        for name in (
            "sqrt",
            "exp",
            "log",
            "log2",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "asin",
            "acos",
            "atan",
        )
    },
}
