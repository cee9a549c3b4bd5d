"""What is known of variables, and what follows from it: numeric intervals, symbolic bounds, proofs. Knows
expressions only.

``Facts`` is a value: :meth:`Facts.bind` and :meth:`Facts.assume` give new ones. A proof answers True (always
holds), False (never holds) or None (unknown); unknown is a normal answer, and callers turn it into a guard or
a constraint.

How proofs work: ``a <= b`` is the question whether a polynomial is never negative. Atoms are eliminated from
the innermost variable outwards, each replaced by the end of its range that makes the polynomial smallest; ``x
// c`` is relaxed to ``(x - c + 1) / c <= x // c <= x / c`` so that ``n - c * (n // c) >= 0`` and the extents
of split loops come out exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from math import gcd

from ..expr import make
from ..expr.deep import ask_below, is_deep
from ..expr.divisor import Gcd
from ..expr.linear import Poly, add_poly, from_poly, is_multiple, mul_poly, poly, split_by_atom
from ..expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    RANGED,
    And,
    Cast,
    Choice,
    Compare,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Var,
)
from ..expr.walk import preorder, variables
from .inequalities import (
    all_variables,
    assumed,
    is_converted,
    is_factor,
    less,
    nonneg_forms,
    of_one_dim,
    one_end,
    primitive,
    unconverted,
    undivided,
    whole,
    without_quotients,
)
from .intervals import UNBOUNDED, Interval, Number, interval_floordiv, interval_mul, times
from .quotients import by_knobs, multiplied, quotient, unbroken
from .wrapping import held, is_sum, settled

Ends = dict[Expr, Expr | None]
_MAX_DEPTH = 14


class Facts:
    """Ranges of variables, in the order they were bound, and conditions assumed to hold."""

    __slots__ = (
        "_cache",
        "_ends",
        "_outer",
        "_proofs",
        "_speaks_of",
        "closely",
        "known",
        "level",
        "ranges",
        "sizes",
    )

    def __init__(
        self,
        ranges: dict[Var, tuple[Expr, Expr]] | None = None,
        level: dict[Var, int] | None = None,
        known: tuple[Poly, ...] = (),
        sizes: frozenset[Var] = frozenset(),
    ) -> None:
        self.ranges = {} if ranges is None else ranges
        self.level = {} if level is None else level
        self.known = known
        self.sizes = sizes  # variables that are sizes of tensors: never negative
        self.closely = False  # whether quotients of different divisors are compared, which takes longer
        self._cache: dict[Expr, Interval] = {}
        self._proofs: dict[Expr, bool | None] = {}
        # those to which something about ``_speaks_of`` was added; what speaks of nothing of it they can tell
        self._outer: Facts | None = None
        self._speaks_of: frozenset[Var] = frozenset()
        # the last `gone` that bounds were asked for, and its bounds
        self._ends: tuple[Callable[[Var], bool], tuple[Ends, Ends]] | None = None

    def bind(self, var: Var, lo: Expr, hi: Expr) -> Facts:
        """Also knowing ``lo <= var <= hi`` (the bounds may speak of variables bound before)."""
        facts = Facts(
            {**self.ranges, var: (lo, hi)}, {**self.level, var: len(self.level)}, self.known, self.sizes
        )
        if var not in self.ranges and not self.closely and var not in all_variables(self.known):
            facts._outer, facts._speaks_of = self, frozenset((var,))
        return facts

    def bind_all(self, ranges: Iterable[tuple[Var, Expr, Expr]]) -> Facts:
        """Several :meth:`bind` at once."""
        new, level = dict(self.ranges), dict(self.level)
        for var, lo, hi in ranges:
            level[var] = len(level)
            new[var] = (lo, hi)
        return Facts(new, level, self.known, self.sizes)

    def grow(self, ranges: Iterable[tuple[Var, Expr, Expr]]) -> None:
        """Like :meth:`bind_all`, in place: for variables that nothing was asked about yet, by the one who
        made these facts."""
        after = next(reversed(self.level.values()), -1) + 1
        for n, (var, lo, hi) in enumerate(ranges, after):
            self.level[var] = n
            self.ranges[var] = (lo, hi)

    def looking_closely(self) -> Facts:
        """The same, by which quotients of different divisors are compared too: ``(n + 3) // 4 <= (n + 15) //
        16 * 4``. For questions that are few and worth it."""
        facts = Facts(self.ranges, self.level, tuple(map(unconverted, self.known)), self.sizes)
        facts._cache, facts.closely = self._cache, True
        return facts

    def assume(self, cond: Expr) -> Facts:
        """Also knowing that ``cond`` holds."""
        found = tuple(
            whole(undivided(p)) for p in nonneg_forms(cond, partial(settled, interval=self.interval))
        )
        if not found:
            return self
        facts = Facts(self.ranges, self.level, self.known + found, self.sizes)
        # of one dim alone: only such narrow an interval
        dims = [next(m[0] for m in p if m) for p in found if of_one_dim(p)]
        if all(facts._var(v) == self.interval(v) for v in dims):  # type: ignore[arg-type]
            facts._cache = self._cache
            if not self.closely and all(variables(a) for p in found for mono in p for a in mono):
                facts._outer, facts._speaks_of = self, all_variables(found)
        return facts

    # -- numeric intervals -----------------------------------------------------------------------------------

    def interval(self, e: Expr) -> Interval:
        """Inclusive numeric bounds of an integer expression."""
        result = self._cache.get(e)
        if result is None:
            if self._outer is not None and self._speaks_of.isdisjoint(variables(e)):
                result = self._cache[e] = self._outer.interval(e)
                return result
            if is_deep(e):
                ask_below(e, self._cache.__contains__, self.interval)
            result = self._cache[e] = self._interval(e)
        return result

    def _interval(self, e: Expr) -> Interval:
        t = type(e)
        if t is Const:
            v = int(e.value)  # type: ignore[attr-defined]
            return v, v
        if t is Var:
            return self._var(e)  # type: ignore[arg-type]
        if e.dtype.is_index:
            p = poly(e)
            if not _is_atom(p, e):
                return held(e, self.interval_poly(p))
        if isinstance(e, FloorDiv):
            return self._divided(e)
        if isinstance(e, FloorMod):
            return self._remainder(e)
        if isinstance(e, Gcd):
            return int(self.positive(e.a) or self.positive(e.b)), None
        if isinstance(e, Min):
            (al, ah), (bl, bh) = self.interval(e.a), self.interval(e.b)
            return (None if al is None or bl is None else min(al, bl)), (
                bh if ah is None else ah if bh is None else min(ah, bh)
            )
        if isinstance(e, Max):
            (al, ah), (bl, bh) = self.interval(e.a), self.interval(e.b)
            return (bl if al is None else al if bl is None else max(al, bl)), (
                None if ah is None or bh is None else max(ah, bh)
            )
        if isinstance(e, Choice):
            (al, ah), (bl, bh) = self.interval(e.a), self.interval(e.b)
            return (None if al is None or bl is None else min(al, bl)), (
                None if ah is None or bh is None else max(ah, bh)
            )
        if isinstance(e, Cast) and e.dtype.is_index and (e.a.dtype.is_int or e.a.dtype.is_bool):
            return held(e, self.interval(e.a))
        if isinstance(e, Mul):
            return interval_mul(self.interval(e.a), self.interval(e.b))
        if (e.dtype.is_int and e.dtype.bits < 32) or e.dtype.is_bool:
            return e.dtype.limits()
        return UNBOUNDED

    def _divided(self, e: FloorDiv) -> Interval:
        lo, hi = interval_floordiv(self.interval(e.a), self.interval(e.b))
        if lo == 0 and self.interval_poly(add_poly(poly(e.a), poly(e.b), -1))[0] == 0:
            # ceil(n / d) written as (n + d - 1) // d, where the ranges of n and d alone do not tell that
            # n >= 1
            lo = 1
        return lo, hi

    def _remainder(self, e: FloorMod) -> Interval:
        lo, hi = self.interval(e.b)
        if lo is not None and lo >= 0:
            hi = None if hi is None else max(1, hi)
            a = self.interval(e.a)
            if a[0] is not None and a[0] >= 0 and a[1] is not None and a[1] < lo:
                return a
            return 0, (None if hi is None else hi - 1) if a[0] is None or a[0] < 0 or a[1] is None else (
                a[1] if hi is None else min(a[1], hi - 1)
            )
        return UNBOUNDED

    def _var(self, v: Var) -> Interval:
        lo: Number = v.lo
        hi: Number = v.hi
        if v.kind == "dim":
            for p in self.known:
                c = p.get((v,), 0) if of_one_dim(p) else 0  # of c * v + k >= 0
                if c > 0:
                    least = -(p.get((), 0) // c)
                    lo = least if lo is None else max(lo, least)
                elif c < 0:
                    most = p.get((), 0) // -c
                    hi = most if hi is None else min(hi, most)
        if v in self.sizes:
            lo = 0 if lo is None else max(lo, 0)
        bound = self.ranges.get(v)
        if bound is not None:
            blo, bhi = self.interval(bound[0])[0], self.interval(bound[1])[1]
            lo = blo if lo is None else lo if blo is None else max(lo, blo)
            hi = bhi if hi is None else hi if bhi is None else min(hi, bhi)
        return lo, hi

    def interval_poly(self, p: Poly) -> Interval:
        """Numeric bounds of a polynomial."""
        lo: Number = 0
        hi: Number = 0
        cached = self._cache
        for mono, c in p.items():
            r: Interval = (1, 1)
            if len(mono) == 1:  # of nearly all; many are asked for again and again
                r = cached.get(mono[0]) or self.interval(mono[0])
            else:
                for atom in mono:
                    r = interval_mul(r, self.interval(atom))
            a, b = (times(r[0], c), times(r[1], c)) if c > 0 else (times(r[1], c), times(r[0], c))
            lo = None if lo is None or a is None else lo + a
            hi = None if hi is None or b is None else hi + b
        return lo, hi

    # -- proofs ----------------------------------------------------------------------------------------------

    def prove(self, cond: Expr) -> bool | None:
        """Whether a condition always holds (True), never holds (False), or cannot be decided (None)."""
        if cond in self._proofs:
            return self._proofs[cond]
        if self._outer is not None and self._speaks_of.isdisjoint(variables(cond)):
            # nests hold many conditions, and each of them is asked about under all sets of the others
            known = self._proofs[cond] = self._outer.prove(cond)
            return known
        if is_deep(cond) and isinstance(cond, And | Or | Not):
            ask_below(cond, lambda e: not isinstance(e, And | Or | Not) or e in self._proofs, self.prove)
        known = self._proofs[cond] = self._prove(cond)
        return known

    def _prove(self, cond: Expr) -> bool | None:
        if isinstance(cond, Compare):
            if not cond.a.dtype.is_index:
                return None
            cond = settled(cond, self.interval)
        t = type(cond)
        if t is Const:
            return bool(cond.value)  # type: ignore[attr-defined]
        if (t is LT or t is LE) and cond.a.dtype.is_index:  # type: ignore[attr-defined]
            p = add_poly(poly(cond.b), poly(cond.a), -1)  # type: ignore[attr-defined]
            if t is LT:
                p = add_poly(p, {(): -1})
            if self.nonneg(p):
                return True
            if self.nonneg(add_poly({(): -1}, p, -1)):
                return False
            other = multiplied(cond, self.positive) if self.known and cond.contains & RANGED else cond
            return None if other is cond else self.prove(other)
        if (t is EQ or t is NE) and cond.a.dtype.is_index:  # type: ignore[attr-defined]
            p = add_poly(poly(cond.a), poly(cond.b), -1)  # type: ignore[attr-defined]
            lo, hi = self.interval_poly(p)
            same: bool | None = None
            if (lo is not None and lo > 0) or (hi is not None and hi < 0):
                same = False
            elif lo == 0 and hi == 0:
                same = True
            elif self.nonneg(add_poly(p, {(): -1})) or self.nonneg(add_poly({(): -1}, p, -1)):
                same = False
            elif assumed(p) and self.nonneg(p) and self.nonneg(add_poly({}, p, -1)):
                same = True
            return same if same is None or t is EQ else not same
        if isinstance(cond, And):
            a, b = self.prove(cond.a), self.prove(cond.b)
            return False if a is False or b is False else (True if a and b else None)
        if isinstance(cond, Or):
            a, b = self.prove(cond.a), self.prove(cond.b)
            return True if a or b else (False if a is False and b is False else None)
        if isinstance(cond, Not):
            a = self.prove(cond.a)
            return None if a is None else not a
        return None

    def nonneg(self, p: Poly, cases: int = 4) -> bool:
        """Whether the polynomial is provably never negative. Where neither ranges nor what is assumed tell,
        so many min and max are taken apart into both of their sides."""
        p = primitive(unconverted(undivided(p))) if self.closely else undivided(p)
        if self._nonneg(p, _MAX_DEPTH):
            return True
        if any(
            self._nonneg(primitive(rest), _MAX_DEPTH) if self.closely else self._nonneg(rest, _MAX_DEPTH // 2)
            for k in (*self.known, *assumed(p))
            for rest in (*less(p, k), *without_quotients(p, k, self.interval_poly))
        ):
            return True
        for mono, c in p.items() if self.known and cases else ():
            if len(mono) == 1 and isinstance(mono[0], Min if c > 0 else Max):
                rest = {m: k for m, k in p.items() if m is not mono}
                return all(
                    self.nonneg(add_poly(rest, poly(side), c), cases - 1) for side in mono[0].children()
                )
        return False

    def _nonneg(self, p: Poly, depth: int) -> bool:
        lo, hi = self.interval_poly(p)
        if lo is not None and lo >= 0:
            return True
        if (hi is not None and hi < 0) or depth == 0:
            return False
        atom = self._innermost(p := one_end(p))
        if atom is None:
            return False
        q, r = split_by_atom(p, atom)
        sign = self.sign(q)
        if sign == 0:
            return False
        every, some = self._replacements(atom, sign < 0, q)
        if every:
            return all(self._nonneg(_replace(q, e, r), depth - 1) for e in every)
        if any(self._nonneg(_replace(q, e, r), depth - 1) for e in some):
            return True
        times = _indivisible(atom, q) if self.closely else 1
        if times == 1:
            return False
        q, r = split_by_atom(add_poly({(): times - 1}, p, times), atom)
        _, some = self._replacements(atom, sign < 0, q)
        return any(self._nonneg(primitive(_replace(q, e, r)), depth - 1) for e in some)

    def sign(self, q: Poly) -> int:
        """1 for what is never negative, -1 for what is never positive, 0 when neither is known."""
        lo, hi = self.interval_poly(q)
        return 1 if lo is not None and lo >= 0 else (-1 if hi is not None and hi <= 0 else 0)

    def depth_of(self, e: Expr) -> float:
        """How far inside the bound variables an atom lives; -1 for one that has no bounds to replace it
        by."""
        if type(e) is Var:
            return self.level.get(e, -1)
        inner = max((self.level.get(v, -1) for v in variables(e)), default=-1)
        return inner + 1 - 0.5 ** clamps_within(e)

    def _innermost(self, p: Poly) -> Expr | None:
        best: Expr | None = None
        best_depth = (-1.0, False)  # of those as deep, first the one of which both sides must hold
        seen: dict[Expr, None] = {}
        for mono in p:
            for atom in mono:
                if atom not in seen:
                    seen[atom] = None
                    d = (
                        self.depth_of(atom),
                        len(mono) == 1 and isinstance(atom, Min if p[mono] > 0 else Max),
                    )
                    if d > best_depth and (type(atom) is not Var or atom in self.ranges):
                        best, best_depth = atom, d
        return best

    def _replacements(self, atom: Expr, upper: bool, q: Poly) -> tuple[list[Poly], list[Poly]]:
        """Polynomials to put in place of ``atom``: (all must be tried and hold, any one suffices). ``upper``
        asks for upper bounds.

        A replacement may be scaled: for ``x // c`` the returned polynomial is exact only after multiplying
        with ``q``.
        """
        if type(atom) is Var:
            lo, hi = self.ranges[atom]
            bound = hi if upper else lo
            if isinstance(bound, Min if upper else Max):
                return [], [poly(bound.a), poly(bound.b)]
            return [], [poly(bound)]
        if isinstance(atom, Min | Max):
            both = [poly(atom.a), poly(atom.b)]
            if isinstance(atom, Min) != upper:
                return both, []
            total = add_poly(
                both[0], both[1]
            )  # the smaller one is at most half of both: min(x, 2 * n - x) <= n
            return [], both if any(c % 2 for c in total.values()) else [
                *both,
                {m: c // 2 for m, c in total.items()},
            ]
        if self.closely and is_converted(atom):
            return [], [poly(atom.a)]
        if isinstance(atom, FloorDiv) and type(atom.b) is Const and atom.b.value > 0:
            c = int(atom.b.value)
            if all(k % c == 0 for k in q.values()):
                x = (
                    poly(atom.a)
                    if upper or is_multiple(poly(atom.a), c)
                    else add_poly(poly(atom.a), {(): 1 - c})
                )
                return [], [_scaled(x, c)]
        lo_n, hi_n = self.interval(atom)
        end = hi_n if upper else lo_n
        ends: list[Poly] = [] if end is None else [{(): end} if end else {}]
        if upper and isinstance(atom, FloorMod) and type(atom.b) is not Const and self.positive(atom.b):
            ends.append(add_poly(poly(atom.b), {(): -1}))  # x % n <= n - 1
        return [], ends

    # -- symbolic bounds -------------------------------------------------------------------------------------

    def bound(self, e: Expr, gone: Callable[[Var], bool], upper: bool) -> Expr | None:
        """A bound of ``e`` that does not speak of the variables for which ``gone`` is true; None when there
        is none."""
        if not any(gone(v) for v in variables(e)):
            return e
        if self._ends is None or self._ends[0] is not gone:
            self._ends = (gone, ({}, {}))
        ends = self._ends[1][upper]
        if e not in ends:
            if is_deep(e):
                ask_below(
                    e, ends.__contains__, lambda k: (self.bound(k, gone, False), self.bound(k, gone, True))
                )
            ends[e] = self._bound(e, gone, upper)
        return ends[e]

    def _bound(self, e: Expr, gone: Callable[[Var], bool], upper: bool) -> Expr | None:
        t = type(e)
        if is_sum(e):
            limit = self.interval(e)[1 if upper else 0]
            return None if limit is None else make.const(limit, e.dtype)
        if t is Var:
            lo, hi = self.ranges.get(e, (None, None))  # type: ignore[call-overload]
            end = hi if upper else lo
            return None if end is None else self.bound(end, gone, upper)
        if e.dtype.is_index:
            p = poly(e)
            if not _is_atom(p, e):
                return self._bound_poly(p, e, gone, upper)
        if isinstance(e, FloorDiv | FloorMod):
            if not self.positive(e.b) or any(gone(v) for v in variables(e.b)):
                return None
            if isinstance(e, FloorMod):
                return self._bound_mod(e, gone, upper)
            a = self.bound(e.a, gone, upper)
            return None if a is None else quotient(a, e.b)
        if isinstance(e, Min | Max):
            a, b = self.bound(e.a, gone, upper), self.bound(e.b, gone, upper)
            if a is None or b is None:
                # one side alone bounds a min from above and a max from below
                return (a if a is not None else b) if isinstance(e, Min) == upper else None
            return make.min_(a, b) if isinstance(e, Min) else make.max_(a, b)
        if isinstance(e, Choice):
            a, b = self.bound(e.a, gone, upper), self.bound(e.b, gone, upper)
            return None if a is None or b is None else (make.max_(a, b) if upper else make.min_(a, b))
        if isinstance(e, Cast) and e.dtype.is_index and e.a.dtype.is_index:
            a = self.bound(e.a, gone, upper)
            return None if a is None else make.cast(e.dtype, a)
        end_n = self.interval(e)[1 if upper else 0]
        return None if end_n is None else make.const(end_n, e.dtype)

    def _bound_mod(self, e: FloorMod, gone: Callable[[Var], bool], upper: bool) -> Expr:
        # a window x .. x + d keeps its shape under `% c` unless a multiple of c may lie inside it; then the
        # remainder is anything
        end = make.sub(e.b, 1) if upper else make.const(0, e.dtype)
        lo, hi = self.bound(e.a, gone, False), self.bound(e.a, gone, True)
        if lo is None or hi is None:
            return end
        least, most, whole = *self.interval(e.a), self.interval(e.b)[0]
        if least is not None and most is not None and whole is not None and least >= 0 and most < whole:
            return hi if upper else lo  # it is its own remainder
        d = make.sub(hi, lo)
        if not by_knobs(d):
            return end
        start = make.floormod(lo, e.b)
        return make.select(unbroken(lo, d, e.b), make.add(start, d) if upper else start, end)

    def _bound_poly(self, p: Poly, e: Expr, gone: Callable[[Var], bool], upper: bool) -> Expr | None:
        for _ in range(64):
            atom: Expr | None = None
            depth = -2.0
            for mono in p:
                for a in mono:
                    d = self.depth_of(a)
                    if d > depth and any(gone(v) for v in variables(a)):
                        atom, depth = a, d
            if atom is None:
                return from_poly(p, e.dtype)
            replaced = self.at_end(atom, *split_by_atom(p, atom), gone, upper)
            if replaced is None:
                return None
            p = replaced
        return None

    def at_end(self, atom: Expr, q: Poly, r: Poly, gone: Callable[[Var], bool], upper: bool) -> Poly | None:
        """A bound of ``q * atom + r``: with an end of the atom in its place."""
        sign = self.sign(q)
        end = self.end(atom, gone, upper == (sign > 0)) if sign else None
        product = None if end is None else mul_poly(q, poly(end))
        return None if product is None else add_poly(r, product)

    def positive(self, e: Expr) -> bool:
        """Whether a number is never zero or less, as that of columns is not in a loop over all elements."""
        lo = self.interval(e)[0]
        if lo != 0:
            return lo is not None and lo > 0
        return any(is_factor(e, p, self.interval_poly) for p in self.known)

    def end(self, atom: Expr, gone: Callable[[Var], bool], upper: bool) -> Expr | None:
        """What takes the place of an atom in a bound: an end of its own range, of a variable."""
        if type(atom) is Var and atom in self.ranges:
            return self.ranges[atom][1 if upper else 0]
        return self.bound(atom, gone, upper)

    def divisible(self, e: Expr, by: Expr) -> bool:
        """Whether ``e`` is provably a multiple of ``by``."""
        if type(by) is Const:
            n = int(by.value)
            if n == 0:
                return False
            return is_multiple(poly(e), n)
        r = poly(e) if isinstance(by, Mul) else split_by_atom(poly(e), by)[1]
        return not r or e is by


def clamps_within(e: Expr) -> int:
    """How many min and max there are in an atom: more in one that stands around another; at least 1."""
    return e.memo("clamps", lambda: max(1, sum(isinstance(n, Min | Max) for n in islice(preorder(e), 64))))  # type: ignore[no-any-return]


def _is_atom(p: Poly, e: Expr) -> bool:
    if len(p) != 1:
        return False
    (mono,) = p
    return len(mono) == 1 and mono[0] is e


class _Scaled(dict):  # type: ignore[type-arg]
    """A polynomial to be divided by ``scale`` after multiplication."""

    scale: int


def _scaled(p: Poly, scale: int) -> Poly:
    out = _Scaled(p)
    out.scale = scale
    return out


def _replace(q: Poly, end: Poly, r: Poly) -> Poly:
    if isinstance(end, _Scaled):
        q = {m: c // end.scale for m, c in q.items()}
    product = mul_poly(q, end)
    return {(): -1} if product is None else add_poly(r, product)


def _indivisible(atom: Expr, q: Poly) -> int:
    """How often ``q * atom`` has to be taken before a quotient by a number gives way to what is divided: of
    ``4 * (x // 16) - y // 4 > -1`` it is four times, ``16 * (x // 16) - 4 * (y // 4) > -4``; 1 for what is no
    such quotient."""
    if type(atom) is not FloorDiv or type(atom.b) is not Const or int(atom.b.value) <= 0:
        return 1
    c = int(atom.b.value)
    return c // gcd(c, *q.values())


EMPTY = Facts()
