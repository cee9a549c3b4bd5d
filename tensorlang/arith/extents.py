"""How wide a region is whose two ends move together: bounds of a difference in which what the ends have in
common cancels first. Knows expressions and facts.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.dtype import DType
from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, mul_poly, poly, split_by_atom
from ..expr.nodes import Expr, FloorDiv, Max, Min, Select, Var
from ..expr.walk import variables
from .facts import Facts
from .quotients import by_knobs, quotient_width

Gone = Callable[[Var], bool]
_CLAMPS = 24  # choices between the two sides of a min or max that one bound may try


def extent_bound(facts: Facts, difference: Expr, gone: Gone) -> Expr | None:
    """An upper bound of ``difference`` without the variables that are ``gone``, with the relaxed rule for
    ``x // c``, and for min and max side by side: of ``min(i + 1, n) - max(i - 1, 0)`` it is 2. None when
    there is none."""
    return _Extents(facts, difference.dtype, gone).of(poly(difference))


class _Extents:
    def __init__(self, facts: Facts, dtype: DType, gone: Gone) -> None:
        self.facts = facts
        self.dtype = dtype
        self.gone = gone
        self.clamps = _CLAMPS

    def of(self, p: Poly) -> Expr | None:
        for _ in range(64):
            atom = self.innermost(p)
            if atom is None:
                return from_poly(p, self.dtype)
            q, r = split_by_atom(p, atom)
            pair = None
            if isinstance(atom, FloorDiv) and self.facts.positive(atom.b) and not self.moves(atom.b):
                pair = self.division(atom, q, r)
            elif isinstance(atom, Select) and not self.moves(atom.cond):
                pair = self.choice(atom, q, r)
            if pair is not None:
                p = pair
                continue
            if isinstance(atom, Min | Max) and self.clamps > 0 and (sign := self.facts.sign(q)):
                self.clamps -= 1
                found = self.clamped(atom, q, r, sign)
                if found is not None:
                    return found
            replaced = self.facts.at_end(atom, q, r, self.gone, True)
            if replaced is None:
                return None
            p = replaced
        return None

    def moves(self, e: Expr) -> bool:
        return any(self.gone(v) for v in variables(e))

    def innermost(self, p: Poly) -> Expr | None:
        atom, depth = None, (-2.0, False)  # of those as deep, first the one that may be either of its sides
        for mono in p:
            for a in mono:
                d = self.facts.depth_of(a), len(mono) == 1 and isinstance(a, Max if p[mono] > 0 else Min)
                if d > depth and self.moves(a):
                    atom, depth = a, d
        return atom

    def clamped(self, atom: Min | Max, q: Poly, r: Poly, sign: int) -> Expr | None:
        """The bound with either side in the place of a min or max: the better one where any side will do, the
        worse one where it may be either. None when sides that hang on sizes do not compare."""
        sides = [
            None if product is None else self.of(add_poly(r, product))
            for product in (mul_poly(q, poly(side)) for side in (atom.a, atom.b))
        ]
        a, b = sides
        if isinstance(atom, Min) == (sign > 0):
            fixed = [e for e in sides if e is not None and by_knobs(e)]
            if len(fixed) == 2:
                return make.min_(*fixed)
            if fixed:
                return fixed[0]
            if a is None or b is None:
                return b if a is None else a
            least = self.facts.prove(make.le(a, b))
            return None if least is None else a if least else b
        return None if a is None or b is None else make.max_(a, b)

    def division(self, atom: FloorDiv, q: Poly, r: Poly) -> Poly | None:
        """``(x + d) // c - x // c``: the numerators are a bounded way apart."""
        found = self.partner(atom, q, r, lambda other: isinstance(other, FloorDiv) and other.b is atom.b)
        if found is None:
            return None
        high, low, times, rest = found
        d = self.difference(high.children()[0], low.children()[0])
        product = None if d is None else mul_poly(times, poly(quotient_width(low.children()[0], d, atom.b)))
        return None if product is None else add_poly(rest, product)

    def choice(self, atom: Select, q: Poly, r: Poly) -> Poly | None:
        """``select(c, a, b) - select(c, a1, b1)`` is ``select(c, a - a1, b - b1)``."""
        found = self.partner(atom, q, r, lambda other: isinstance(other, Select) and other.cond is atom.cond)
        if found is None:
            return None
        high, low, times, rest = found
        a, b = [self.difference(x, y) for x, y in zip(high.children()[1:], low.children()[1:], strict=True)]
        product = None if a is None or b is None else mul_poly(times, poly(make.select(atom.cond, a, b)))
        return None if product is None else add_poly(rest, product)

    def partner(
        self, atom: Expr, q: Poly, r: Poly, fits: Callable[[Expr], bool]
    ) -> tuple[Expr, Expr, Poly, Poly] | None:
        """Another atom with the opposite factor: which of the two is added and which is taken away, how
        often, and what else there is."""
        sign = self.facts.sign(q)
        for mono in r:
            for other in mono:
                if sign and other is not atom and fits(other):
                    opposite, rest = split_by_atom(r, other)
                    if not add_poly(opposite, q):
                        return (atom, other, q, rest) if sign > 0 else (other, atom, opposite, rest)
        return None

    def difference(self, a: Expr, b: Expr) -> Expr | None:
        return extent_bound(self.facts, make.sub(a, b), self.gone)
