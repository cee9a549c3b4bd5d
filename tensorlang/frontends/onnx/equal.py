"""Sizes that are taken to be equal, and what follows from that: which size stands for which. Knows
expressions, nothing of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from math import gcd
from typing import Any

from ...expr.linear import Monomial, Poly, add_poly, from_poly, poly
from ...expr.make import as_expr
from ...expr.nodes import Expr, Min, Var, const_int
from ...expr.walk import rewrite, variables
from ...te import const


class Equal:
    """``solved`` has the dims that others tell; ``known`` has these, and whole expressions that no dim can be
    worked out of, such as ``(n // 2)*2`` that is ``n``."""

    def __init__(self, solved: Mapping[Var, Expr] | None = None) -> None:
        self.solved: dict[Var, Expr] = dict(solved or {})
        self.known: dict[Expr, Expr] = {d: e for d, e in self.solved.items()}  # noqa: C416

    def fixed(self, n: Any) -> Any:
        """A size or number with what is known of it in the place of dims."""
        return fixed(n, self.known)

    def solve(self, a: Expr, b: Expr, dims: Collection[Var]) -> dict[Var, Expr]:
        """The dims that follow from ``a == b``, each in terms of others of ``dims``; they are replaced from
        now on. None where no dim can be told by the rest."""
        found = {d: e for d, e in _solved(poly(self.fixed(a)), poly(self.fixed(b)), dims) if _may_be(d, e)}
        if found:
            self._take(found)
            self.solved = {d: fixed(e, found) for d, e in self.solved.items()} | found
        return found

    def replace(self, old: Expr, new: Expr) -> None:
        """Let an expression stand for another."""
        self._take({old: new})

    @staticmethod
    def said_shorter(a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Two expressions that are equal where ``a`` and ``b`` are: without what multiplies both sides, and
        of a square its side."""
        p = add_poly(poly(a), poly(b), -1)
        reduced = _reduced(p)
        root = _root(reduced)
        if root is not None:
            return root
        if len(next(iter(reduced), ())) == len(next(iter(p), ())):
            return a, b
        for mono, c in reduced.items():
            if len(mono) == 1 and abs(c) == 1 and not isinstance(mono[0], Var):
                return mono[0], from_poly({m: -k * c for m, k in reduced.items() if m is not mono}, a.dtype)
        return a, b

    def _take(self, found: Mapping[Any, Expr]) -> None:
        # what was replaced by something that is replaced itself: one step leads to the end
        self.known = {**{fixed(a, found): fixed(b, found) for a, b in self.known.items()}, **found}


def fixed(n: Any, equal: Mapping[Any, Expr]) -> Any:
    """A size or number with what is equal to its parts in their place."""
    return rewrite(n, lambda _: None, dict(equal)) if equal and isinstance(n, Expr) else n


def likelier(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The equality to take for true where ``a`` and ``b`` should be equal or one of them 1: what is cut to
    its first element is empty, or 1."""
    one = next((e for e in (a, b) if isinstance(e, Min) and 1 in map(const_int, (e.a, e.b))), None)
    return (a, b) if one is None else (one, as_expr(1, one.dtype))


def _may_be(d: Var, e: Expr) -> bool:
    """Whether a dim with these bounds can be so much, for all that is known."""
    n = const_int(e)
    if n is None:
        return True
    return (d.lo is None or n >= d.lo) and (d.hi is None or n <= d.hi) and n % d.multiple_of == 0


def _solved(a: Poly, b: Poly, dims: Collection[Var]) -> Iterator[tuple[Var, Expr]]:
    p = _reduced(add_poly(a, b, -1))
    order = {d: i for i, d in enumerate(dims)}
    ones = _all_one(p)
    if ones:
        yield from ((d, const(1, d.dtype)) for d in ones if d in order)
        return
    ways = [w for mono, c in p.items() if (w := _told(p, mono, c, order)) is not None]
    if ways:
        # a number decides most, then another dim; the one that comes last is told by those before it
        yield min(ways, key=lambda w: (const_int(w[1]) is None, not isinstance(w[1], Var), -order[w[0]]))


def _reduced(p: Poly) -> Poly:
    """What is 0 where ``p`` is: without a factor that all terms have, for sizes of 0 apart."""
    if not p:
        return p
    common = gcd(*p.values())
    counts = [Counter(mono) for mono in p]
    shared = counts[0]
    for c in counts[1:]:
        shared &= c
    return {_without(mono, shared): c // common for mono, c in p.items()}


def _without(mono: Monomial, shared: Counter[Expr]) -> Monomial:
    left = Counter(shared)
    kept = []
    for x in mono:
        if left[x]:
            left[x] -= 1
        else:
            kept.append(x)
    return tuple(kept)


def _all_one(p: Poly) -> list[Var]:
    """The dims of a product that is 1."""
    rest = {mono: c for mono, c in p.items() if mono}
    if len(p) != 2 or len(rest) != 1:
        return []
    ((mono, c),) = rest.items()
    atoms = [x for x in mono if isinstance(x, Var)]
    return atoms if c == -p[()] and len(atoms) == len(mono) else []


def _root(p: Poly) -> tuple[Expr, Expr] | None:
    """What is a number when a power of it is."""
    rest = [mono for mono in p if mono]
    if len(p) != 2 or len(rest) != 1 or any(x is not rest[0][0] for x in rest[0]):
        return None
    number, left = divmod(-p[()], p[rest[0]])
    side = round(abs(number) ** (1 / len(rest[0])))
    if left or side ** len(rest[0]) != number:
        return None
    return rest[0][0], as_expr(side, rest[0][0].dtype)


def _told(p: Poly, mono: Monomial, c: int, order: Mapping[Var, int]) -> tuple[Var, Expr] | None:
    """The dim that is a term of its own, and the sum of the others that it is; sums that subtract are left,
    for nothing could be proved of such a size."""
    d = mono[0] if len(mono) == 1 else None
    rest = {m: -k * c for m, k in p.items() if m is not mono}
    if not isinstance(d, Var) or d not in order or abs(c) != 1 or min(rest.values(), default=0) < 0:
        return None
    e = from_poly(rest, d.dtype)
    own = variables(e)
    return (d, e) if d not in own and all(v in order for v in own) else None
