"""Polynomials that are never negative: what a condition says in that form, and forms of one that are easier
to prove. Knows expressions only; what is known of variables is ``arith.facts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import TypeGuard

from ..expr.linear import Poly, add_poly, mul_poly, poly, reads_data, split_by_atom, wraps
from ..expr.nodes import EQ, LE, LT, Cast, Const, Expr, FloorDiv, Max, Min, Var
from ..expr.walk import variables
from .conditions import conjuncts


def undivided(p: Poly) -> Poly:
    """A polynomial that is never negative exactly when ``p`` is not, where the quotient that is all of ``p``
    but its constant has given way to what is divided: ``x // c <= n`` is ``x <= n * c + c - 1``, ``x // c >=
    n`` is ``x >= n * c``."""
    while True:
        terms = [(m, k) for m, k in p.items() if m]
        if len(terms) != 1 or len(terms[0][0]) != 1:
            return p
        ((q,), k), constant = terms[0], p.get((), 0)
        if type(q) is not FloorDiv or type(q.b) is not Const or q.b.value <= 0 or not q.a.dtype.is_index:  # type: ignore[operator]
            return p
        c = int(q.b.value)
        if k < 0:
            p = add_poly({(): (constant // -k + 1) * c - 1}, poly(q.a), -1)
        else:
            p = add_poly(poly(q.a), {(): 1}, (constant // k) * c)


def less(p: Poly, k: Poly) -> Iterator[Poly]:
    """What is left of ``p`` when ``k``, never negative, is taken from it: so often that a term they share
    vanishes, and once; ``p`` is never negative where one of these is not. Where ``k`` has a multiple of a
    term of ``p``, of that multiple of ``p``: from ``12 * (10 - y) + 11 >= 0`` follows ``y <= 10``.
    """
    atoms = {a for m in p for a in m}
    if not any(a in atoms for m in k for a in m):
        return
    shared = [(p[m], c) for m, c in k.items() if m and m in p]
    for n in sorted({1, *(abs(a // c) for a, c in shared)} - {0}):
        yield add_poly(p, k, -n)
    for scale in sorted({c // a for a, c in shared if c % a == 0} - {1}):
        if scale > 1:
            yield add_poly(add_poly({(): scale - 1}, p, scale), k, -1)


def without_quotients(
    p: Poly, k: Poly, interval: Callable[[Poly], tuple[int | None, int | None]]
) -> Iterator[Poly]:
    """``p`` with, in the place of each quotient by a number, the end it has because ``k`` is never negative:
    ``x // c <= n`` where ``c * n + c - 1 - x`` is not. Never negative only where ``p`` is not."""
    for m, times in p.items():
        if len(m) != 1 or type(q := m[0]) is not FloorDiv or type(q.b) is not Const or not q.a.dtype.is_index:
            continue
        c, x, side = int(q.b.value), poly(q.a), 1 if times < 0 else -1  # type: ignore[arg-type]
        # so often that a term they share vanishes
        times_x = next((-side * k[n] // v for n, v in x.items() if n and k.get(n, 0) % v == 0 and n in k), 0)
        if c <= 0 or times_x <= 0:
            continue
        end, c = add_poly(k if side > 0 else add_poly({}, k, -1), x, times_x), c * times_x
        whole_ones = {n: v // c for n, v in end.items() if n and v % c == 0}
        low, high = interval({n: v for n, v in end.items() if not n or v % c})
        rest = high if side > 0 else low
        if rest is not None:
            end = add_poly(whole_ones, {(): rest // c})
            yield add_poly({n: v for n, v in p.items() if n is not m}, end, times)


def whole(p: Poly) -> Poly:
    """``c * x + k >= 0`` over whole numbers: the constant goes down to the next multiple of ``c``."""
    c = gcd(*[k for m, k in p.items() if m])
    rest = p.get((), 0) % c if c > 1 else 0
    return add_poly(p, {(): -rest}) if rest else p


def one_end(p: Poly) -> Poly:
    """``p`` with one of the maxima and minima that choose by the same difference, and that difference in the
    place of the others: ``max(5 - n, 0)`` is ``max(n - 5, 0) + 5 - n``."""
    atoms = dict.fromkeys(a for m in p for a in m if isinstance(a, Min | Max))
    over: list[tuple[Poly, Poly]] = []  # a - b, and what it is above 0
    for atom in atoms if len(atoms) > 1 else ():
        a, b = poly(atom.a), poly(atom.b)
        d = add_poly(a, b, -1)
        turned = add_poly({}, d, -1)
        found = next((k if n == d else add_poly(k, d) for n, k in over if n in (d, turned)), None)
        if found is None:
            this: Poly = {(atom,): 1}
            over.append((d, add_poly(this, b, -1) if isinstance(atom, Max) else add_poly(a, this, -1)))
            continue
        times, rest = split_by_atom(p, atom)
        end = mul_poly(times, add_poly(b, found) if isinstance(atom, Max) else add_poly(a, found, -1))
        p = p if end is None else add_poly(rest, end)
    return p


def primitive(p: Poly) -> Poly:
    """A polynomial that is never negative exactly when ``p`` is not, without the factor that all its terms
    share."""
    c = gcd(*[k for m, k in p.items() if m])
    return p if c <= 1 else {m: n for m, k in p.items() if (n := k // c)}


def unconverted(p: Poly) -> Poly:
    """``p`` with indices in the place of what they are converted to: ``int64(x + 1)`` is ``x + 1``."""
    for mono, k in p.items():
        if len(mono) == 1 and is_converted(mono[0]):
            rest = add_poly({m: c for m, c in p.items() if m is not mono}, poly(mono[0].a), k)
            return unconverted(rest)
    return p


def is_converted(e: Expr) -> TypeGuard[Cast]:
    """Whether ``e`` is an index of another width."""
    return (
        isinstance(e, Cast)
        and e.dtype.is_index
        and e.a.dtype.is_index
        and not wraps(e.a)
        and not (e.dtype.bits < e.a.dtype.bits and reads_data(e))
    )


def assumed(p: Poly) -> list[Poly]:
    """What ``te.assume`` said of the sizes in ``p``, as polynomials that are never negative."""
    conds = {c: None for mono in p for atom in mono if type(atom) is Var for c in atom.assumed}
    return [whole(k) for c in conds for k in nonneg_forms(c)]


def nonneg_forms(cond: Expr, settle: Callable[[Expr], Expr] = lambda e: e) -> Iterable[Poly]:
    """What is never negative where ``cond`` holds; of each inequality of indices after ``settle``."""
    for c in conjuncts(cond):
        if isinstance(c, LT | LE | EQ) and c.a.dtype.is_index:
            c = settle(c)
        if not isinstance(c, LT | LE | EQ) or not c.a.dtype.is_index:
            continue
        d = add_poly(poly(c.b), poly(c.a), -1)
        yield add_poly(d, {(): -1}) if isinstance(c, LT) else d
        if isinstance(c, EQ):
            yield add_poly({}, d, -1)


def is_factor(e: Expr, p: Poly, interval: Callable[[Poly], tuple[int | None, int | None]]) -> bool:
    """Whether ``e`` is not 0 because ``p`` is never negative: what of it is no multiple of ``e`` is."""
    multiple, rest = split_by_atom(p, e)
    most = interval(rest)[1] if multiple else None
    return most is not None and most < 0


def all_variables(polys: Iterable[Poly]) -> frozenset[Var]:
    """Those that the polynomials speak of."""
    return frozenset().union(*[variables(a) for p in polys for mono in p for a in mono])


def of_one_dim(p: Poly) -> bool:
    """Whether ``p`` is a multiple of one size, and a constant."""
    terms = [m for m in p if m] if len(p) <= 2 else ()
    return len(terms) == 1 and len(terms[0]) == 1 and type(terms[0][0]) is Var and terms[0][0].kind == "dim"
