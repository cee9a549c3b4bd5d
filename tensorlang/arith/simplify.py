"""Simplification of expressions under facts: what the canonical form cannot know because it takes ranges.
Value-preserving and idempotent; an expression that nothing changes comes back as the same object. Knows
expressions and facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import gcd
from operator import is_

from ..expr import make
from ..expr.deep import is_deep
from ..expr.linear import Poly, from_poly, poly, split_by_atom, wraps
from ..expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    RANGED,
    And,
    Binary,
    Choice,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Not,
    Or,
    Var,
    const_int,
)
from ..expr.walk import variables
from .facts import Facts
from .quotients import parted
from .shorter import shorter

_CONDITIONS = frozenset((EQ, NE, LT, LE, And, Or, Not))
_DECIDED = frozenset((Min, Max, FloorDiv, FloorMod))


def is_hard(e: Expr) -> bool:
    """Whether ranges could simplify something in ``e``; plain sums and products are canonical already."""
    return e.contains & RANGED != 0


class Simplifier:
    """Simplifies under one set of facts; remembers what it has done."""

    __slots__ = ("_inside", "_under", "done", "facts")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.done: dict[Expr, Expr] = {}
        self._under: dict[Expr, Simplifier | None] = {}  # None: itself, without a cycle
        self._inside: dict[tuple[Var, Expr, Expr], Simplifier] = {}

    def under(self, cond: Expr) -> Simplifier:
        """One that also knows that ``cond`` holds."""
        if cond not in self._under:
            facts = self.facts.assume(cond)
            # a condition that adds nothing needs no memory of its own
            self._under[cond] = None if facts is self.facts else Simplifier(facts)
        return self._under[cond] or self

    def inside(self, var: Var, begin: Expr, extent: Expr) -> Simplifier:
        """One that also knows the range of the variable of a loop around it."""
        key = var, begin, extent
        result = self._inside.get(key)
        if result is None:
            facts = self.facts
            if const_int(extent) is None:
                facts = facts.assume(make.le(1, extent))  # inside the loop it has at least one iteration
            facts = facts.bind(var, begin, make.sub(make.add(begin, extent), 1))
            result = self._inside[key] = Simplifier(facts)
        return result

    def __call__(self, e: Expr) -> Expr:
        # a bit of the node, set when it was made: most expressions are left here
        if not e.contains & RANGED:
            return e
        result = self.done.get(e)
        if result is None:
            if is_deep(e):
                self._below(e)
            result = self.done[e] = self._simplify(e)
        return result

    def _below(self, e: Expr) -> None:
        """Simplify what stands below a deep expression, innermost first, and each of it only under what holds
        where it stands: asked under less first, a chain of choices would cost twice as much by every
        choice."""
        stack: list[tuple[Simplifier, Expr]] = [(self, e)]
        while stack:
            known, node = stack[-1]
            waiting = [(k, x) for k, x in known._parts(node) if is_hard(x) and x not in k.done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if stack and node not in known.done:
                known.done[node] = known._simplify(node)

    def _parts(self, e: Expr) -> list[tuple[Simplifier, Expr]]:
        """What is simplified before ``e``, and who does it; of a choice, first its condition."""
        if not isinstance(e, Choice):
            return [(self, k) for k in e.children()]
        cond = self.done.get(e.cond, e.cond)
        if cond is e.cond and is_hard(cond) and cond not in self.done:
            return [(self, cond)]
        # a condition with lanes is several conditions: facts speak of one
        known = self.facts.prove(cond) if cond.dtype.lanes == 1 else None
        if known is not None:
            return [(self, e.a if known else e.b)]
        if not isinstance(e, IfThenElse) or cond.dtype.lanes != 1:
            return [(self, e.a), (self, e.b)]
        return [(self.under(cond), e.a), (self.under(make.not_(cond)), e.b)]

    def _simplify(self, e: Expr) -> Expr:
        if isinstance(e, Choice):
            return self._choice(e)
        kids = e.children()
        # most are variables and numbers, which a call gives back
        new = [self(k) if k.contains & RANGED else k for k in kids]
        out = e if all(map(is_, kids, new)) else e.with_children(*new)
        # children first: rules see operands in their final form
        return self._shortened(self._rule(out)) if out.dtype.lanes == 1 else out

    def _shortened(self, e: Expr) -> Expr:
        short = shorter(e, self.facts)
        return e if short is e else self(short)

    def _choice(self, e: Choice) -> Expr:
        cond = self(e.cond)
        if cond.dtype.lanes == 1:
            known = self.facts.prove(cond)
            if known is not None:
                return self(e.a if known else e.b)
        # each branch is computed under its condition only, which so is known there; a select computes both
        if isinstance(e, IfThenElse) and cond.dtype.lanes == 1:
            a = self.under(cond)(e.a)
            b = self.under(make.not_(cond))(e.b)
        else:
            a, b = self(e.a), self(e.b)
        out = e if cond is e.cond and a is e.a and b is e.b else e.with_children(cond, a, b)
        return self._shortened(out) if out.dtype.lanes == 1 else out

    def _rule(self, e: Expr) -> Expr:
        kind = type(e)
        if kind in _CONDITIONS:
            known = self.facts.prove(e)
            return self._multiplied(e) if known is None else make.const(known)
        if not e.dtype.is_index or kind not in _DECIDED:
            return e
        assert isinstance(e, Binary)
        if kind is Min or kind is Max:
            first = self.facts.prove(make.le(e.a, e.b))
            if first is None:
                second = self.facts.prove(make.le(e.b, e.a))
                first = None if second is None else not second
            if first is None:
                return e
            return e.a if first == (kind is Min) else e.b
        if type(e.b) is Const and int(e.b.value) > 0:
            return divide(e, int(e.b.value), self.facts)  # type: ignore[arg-type]
        inside = self.facts.prove(make.lt(e.a, e.b)) and self.facts.prove(make.le(0, e.a))
        if inside:
            return e.a if kind is FloorMod else make.const(0, e.dtype)
        return self._divided_by_size(e)

    def _multiplied(self, e: Expr) -> Expr:
        """``x // d < n`` as ``x < n * d``, of a place along an open axis that was fused: whoever looks for
        the x for which it holds finds a line. Not where n moves: of the first row of a tile and a lane's more
        is known than of elements; nor of a quotient of few values."""
        found = parted(e, self.facts.positive, self._within_known) if e.contains & RANGED else None
        if found is None or any(v.kind == "loop" for v in variables(found[1])):
            return e
        x, end, below = found
        if self.facts.interval(x)[1] is not None:
            return e
        # of several axes that were fused each has a quotient
        return self._multiplied(make.lt(x, end) if below else make.le(end, x))

    def _within_known(self, product: Expr) -> bool:
        """Whether a sum of products of sizes is no more than one that is known to be more than a place, as
        all elements of a tensor are: it does not overflow where that does not."""
        p = poly(product)
        if not p:
            return True  # none, as of a margin that is cut off
        if () in p or any(self.facts.interval(a)[0] != 0 for m in p for a in m):
            return False
        first, *_ = p
        for known in self.facts.known:
            if any(k < 0 and m and not _moves(m) for m, k in known.items()):
                continue
            for m in known:
                more = _without(m, first)  # sizes of further axes
                if more is None or not all(map(self.facts.positive, more)):
                    continue
                times = {tuple(sorted((*m, *more), key=id)): k for m, k in p.items()}
                whole = {tuple(sorted(m, key=id)): k for m, k in known.items()}
                if all(0 <= k <= whole.get(m, 0) for m, k in times.items()):
                    return True
        return False

    def _divided_by_size(self, e: Binary) -> Expr:
        """``(k * n + x) % n`` as ``x``, and ``//`` as ``k``, where ``x`` is less than n."""
        multiple, rest = split_by_atom(poly(e.a), e.b)
        if not multiple or not rest or wraps(e.a):
            return e
        x = from_poly(rest, e.dtype)
        if not (self.facts.prove(make.lt(x, e.b)) and self.facts.prove(make.le(0, x))):
            return e
        return x if type(e) is FloorMod else from_poly(multiple, e.dtype)


def _moves(mono: tuple[Expr, ...]) -> bool:
    return any(v.kind == "loop" for a in mono for v in variables(a))


def _without(some: tuple[Expr, ...], others: tuple[Expr, ...]) -> list[Expr] | None:
    """``some`` without ``others``; None where one of these is not there."""
    rest = list(some)
    for e in others:
        at = next((n for n, x in enumerate(rest) if x is e), None)
        if at is None:
            return None
        rest.pop(at)
    return rest


def divide(e: FloorDiv | FloorMod, c: int, facts: Facts) -> Expr:
    """``x // c`` or ``x % c`` where the range of ``x``, or of the part of it below some stride, decides."""
    is_div = isinstance(e, FloorDiv)
    lo, hi = facts.interval(e.a)
    # all values lie between the same two multiples
    if lo is not None and hi is not None and lo // c == hi // c:
        return _within(e, lo // c, c)
    # a guard may tell, as that of the rest of a loop that was split twice
    if lo is not None and facts.known and facts.prove(make.lt(e.a, (lo // c + 1) * c)):
        return _within(e, lo // c, c)
    p = poly(e.a)
    whole = not wraps(e.a) or (lo is not None and hi is not None)  # a sum of data may have wrapped
    # the largest stride first: it leaves the smallest rest
    for g in sorted({gcd(k, c) for m, k in p.items() if m and whole}, reverse=True):
        if g == 1:
            break
        big: Poly = {m: k // g for m, k in p.items() if k % g == 0}
        small: Poly = {m: k for m, k in p.items() if k % g}
        lo, hi = facts.interval_poly(small)
        if lo is not None and hi is not None and lo >= 0 and hi < g and small:
            upper = from_poly(big, e.dtype)
            rest = make.const(c // g, e.dtype)
            if is_div:
                return make.floordiv(upper, rest)
            return make.add(make.mul(make.floormod(upper, rest), g), from_poly(small, e.dtype))
    return e


def _within(e: FloorDiv | FloorMod, q: int, c: int) -> Expr:
    """The same where all values lie from ``q * c`` to below the next multiple."""
    return make.const(q, e.dtype) if isinstance(e, FloorDiv) else make.sub(e.a, q * c)


def simplify_expr(e: Expr, facts: Facts) -> Expr:
    """``e`` simplified under ``facts``."""
    return Simplifier(facts)(e)


_KNOWN: ContextVar[dict[frozenset[Var], Simplifier] | None] = ContextVar("known", default=None)


def simplifier(sizes: frozenset[Var]) -> Simplifier:
    """One that knows that these are sizes; the same one again within ``remembered``."""
    known = _KNOWN.get()
    if known is None:
        return Simplifier(Facts(sizes=sizes))
    if sizes not in known:
        known[sizes] = Simplifier(Facts(sizes=sizes))
    return known[sizes]


@contextmanager
def remembered() -> Iterator[None]:
    """A context in which what was simplified under the same loops is not simplified again: several passes
    simplify one kernel, and most of it stays as it is."""
    before = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(before)
