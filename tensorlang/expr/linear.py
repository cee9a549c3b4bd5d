"""The canonical form of index arithmetic: integer polynomials over atoms. Knows nodes, not the smart
constructors.

A polynomial is a dict from a monomial (a tuple of atoms, sorted) to its integer coefficient; ``()`` is the
constant. Atoms are variables and everything that is not a sum or product: ``x // c``, ``min(...)``, reads.
Every index expression carries its polynomial, so ``a - b`` of equal expressions is 0 at birth and
simplification has little left to do.

The text form of a polynomial is one: positive terms first, larger strides before smaller, the constant last.
:func:`add` and :func:`scale` go there directly in the cases that loop nests are made of (a constant, one
more term at the end); everything else is :func:`from_poly`. Vectors of lanes are no polynomials.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from math import gcd
from typing import Any

from ..core.dtype import INT32, INT64, DType
from ..core.node import intern, intern_as
from ..errors import DeclareError
from .deep import ask_below, is_deep
from .nodes import CALLS, DATA, READS, Access, Add, Call, Cast, Const, Expr, FloorDiv, FloorMod, Mul, Sub, Var

Monomial = tuple[Expr, ...]
Poly = dict[Monomial, int]
Key = tuple[int, str, tuple[int, ...]]

_LONG = 1 << 12  # characters of a key that are kept as they are
# beyond this a product stays an atom: expanding it would cost more than it could ever prove
_MAX_PRODUCT_TERMS = 64


def sort_key(e: Expr) -> Key:
    """A deterministic order of atoms that does not depend on addresses or on what else the process has built:
    variables by name, then other atoms by their text, of which a very long one is cut to a digest (where
    parts are shared, the text doubles with each operation). What reads alike is told apart by the age of its
    variables."""
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    elif "key" in memo:
        return memo["key"]  # type: ignore[no-any-return]
    key: Key
    if type(e) is Var:
        # two variables of one name are told apart by age, which is the same in every run
        key = (0, e.name, (e.serial,))
    elif type(e) is Const:
        key = (2, str(e.value), ())
    else:
        if is_deep(e):
            ask_below(e, _has_key, sort_key)
        kids = [sort_key(c) for c in e.children()]
        name = e.name if type(e) is Call else type(e).__name__
        if type(e) is Cast:
            name = e.dtype.name
        elif isinstance(e, Access):
            name += e.label()  # type: ignore[attr-defined]
        key = _bounded(f"{name}({','.join([k[1] for k in kids])})", [k[2] for k in kids])
    memo["key"] = key
    return key


def _has_key(e: Expr) -> bool:
    return e._memo is not None and "key" in e._memo


def _bounded(text: str, ages: list[tuple[int, ...]]) -> Key:
    """The key of an operation. In a digest each variable counts once, in the order of the text; which stand
    where is part of it."""
    if len(text) <= _LONG:
        return (1, text, tuple([s for part in ages for s in part]))
    different = {s: n for n, s in enumerate(dict.fromkeys([s for part in ages for s in part]))}
    where = [[different[s] for s in part] for part in ages]
    return (1, f"{text[:32]}…{blake2b(f'{text}{where}'.encode()).hexdigest()}", tuple(different))


def poly(e: Any) -> Poly:
    """The polynomial of an index expression. Shared: never change it."""
    t = type(e)
    if t is Add or t is Sub or t is Mul:
        memo = e._memo
        if memo is None:
            memo = e._memo = {}
        else:
            result = memo.get("poly")
            if result is not None:
                return result
        # the inside of a sum, or a sum that `add` or `scale` put together
        if is_deep(e):
            ask_below(e, _has_poly, poly)
        if t is Mul:
            p = mul_poly(poly(e.a), poly(e.b))
            if p is None:
                return {(e,): 1}
        else:
            p = add_poly(poly(e.a), poly(e.b), 1 if t is Add else -1)
        memo["poly"] = p
        return p
    if t is Const:
        return {(): int(e.value)} if e.value else {}
    return {
        (e,): 1
    }  # not kept on the atom: it would refer to itself and live until the cyclic collector comes by


def _has_poly(e: Expr) -> bool:
    return type(e) not in (Add, Sub, Mul) or (e._memo is not None and "poly" in e._memo)


def add_poly(p: Poly, q: Poly, scale: int = 1) -> Poly:
    """``p + scale * q``."""
    return add_to(dict(p), q, scale)


def add_to(p: Poly, q: Poly, scale: int) -> Poly:
    """The same in ``p`` itself, which nobody else may hold."""
    for mono, c in q.items():
        new = p.get(mono, 0) + scale * c
        if new:
            p[mono] = new
        else:
            p.pop(mono, None)
    return p


def mul_poly(p: Poly, q: Poly) -> Poly | None:
    """``p * q``, or None when it would grow too large."""
    for one, other in ((p, q), (q, p)):
        if not one:
            return {}
        if len(one) == 1 and () in one:
            factor = one[()]
            return {mono: c * factor for mono, c in other.items()}
    if len(p) * len(q) > _MAX_PRODUCT_TERMS:
        return None
    out: Poly = {}
    for m1, c1 in p.items():
        for m2, c2 in q.items():
            # one order of factors, so that i * j and j * i are one monomial
            mono = m1 + m2 if not m1 or not m2 else tuple(sorted(m1 + m2, key=sort_key))
            new = out.get(mono, 0) + c1 * c2
            if new:
                out[mono] = new
            else:
                out.pop(mono, None)
    return out


_sizes: ContextVar[bool] = ContextVar("sizes", default=False)


@contextmanager
def sizes() -> Iterator[None]:
    """While operators work out their shapes: a literal that would wrap as data does is a size that nothing
    can have, and another one after wrapping. Raises DeclareError for it."""
    token = _sizes.set(True)
    try:
        yield
    finally:
        _sizes.reset(token)


SMALL = range(-256, 4097)  # literals every kernel uses: held for good, so that finding one is one look-up
_small: dict[DType, dict[int, Expr]] = {INT32: {}, INT64: {}}
_small32, _small64 = _small[INT32], _small[INT64]


def literal(value: int, dtype: DType) -> Expr:
    """The literal of an index type."""
    table = _small32 if dtype is INT32 else _small64
    result = table.get(value)
    if result is None:
        value = int(value)  # never True or 1.0, which are equal to 1
        if not -(1 << (dtype.bits - 1)) <= value < 1 << (dtype.bits - 1):  # data, then: it wraps
            if _sizes.get():
                raise DeclareError(
                    f"a size comes to {value}, beyond {dtype}",
                    because=f"sizes that are known here are numbers of {dtype.bits} bits",
                )
            value = dtype.wrap(value)
        result = intern_as((Const, dtype, value), lambda: Const(dtype, value))
        if value in SMALL:
            table[value] = result
    return result


def _order(mono: Monomial, c: int) -> tuple[Any, ...]:
    """Where a term stands in a sum."""
    return (c < 0, -len(mono), -abs(c), sort_key(mono[0]) if len(mono) == 1 else [sort_key(a) for a in mono])


def from_poly(p: Poly, dtype: DType) -> Expr:
    """The one expression for a polynomial: positive terms first, larger strides before smaller, the constant
    last."""
    p = joined(p)
    if not p:
        return literal(0, dtype)
    const = p.get((), 0)
    if len(p) == 1:
        ((mono, c),) = p.items()
        if not mono:
            return literal(c, dtype)
        if c == 1 and len(mono) == 1:
            return mono[0]
        terms = [(mono, c)]
    elif len(p) == 2 and const:
        # one term and the constant: nothing to sort
        terms = [item for item in p.items() if item[0]]
    else:
        terms = [(m, c) for _, m, c in sorted([(_order(m, c), m, c) for m, c in p.items() if m], key=_first)]
    total: Expr | None = None
    for mono, c in terms:
        product: Expr = mono[0]
        for factor in mono[1:]:
            product = intern(Mul, product, factor)
        if total is None:
            total = product if c == 1 else intern(Mul, product, literal(c, dtype))
        elif c > 0:
            total = intern(Add, total, product if c == 1 else intern(Mul, product, literal(c, dtype)))
        else:
            total = intern(Sub, total, product if c == -1 else intern(Mul, product, literal(-c, dtype)))
    assert total is not None
    if const:
        total = (
            intern(Add, total, literal(const, dtype))
            if const > 0
            else intern(Sub, total, literal(-const, dtype))
        )
    memo = total._memo
    if memo is None:
        total._memo = {"poly": p}
    elif "poly" not in memo and type(total) in (Add, Sub, Mul):
        memo["poly"] = p
    return total


def joined(p: Poly) -> Poly:
    """``x // n * n + x % n`` is ``x``: quotients and remainders that belong together, put together."""
    while True:
        found = _joined(p)
        if found is p:
            return p
        p = found


def _joined(p: Poly) -> Poly:
    for mono, c in p.items():
        for at, rest in enumerate(mono):
            if type(rest) is FloorMod:
                found = _with_quotient(p, mono, c, at)
                if found is not None:
                    return joined(found)
    return p


def _with_quotient(p: Poly, mono: Monomial, c: int, at: int) -> Poly | None:
    """The polynomial with the remainder at a place of a term and its quotient as one term, both times the
    other sizes in it; None where there is no such quotient."""
    rest: Any = mono[at]
    n, by = rest.b, mono[:at] + mono[at + 1 :]
    for other, k in p.items():
        if type(n) is Const:
            fits = len(other) == len(mono) and k == c * n.value  # type: ignore[operator]
        else:  # the product of the quotient and a symbolic size
            fits = k == c and len(other) == len(mono) + 1
        whole = _of_quotient(other, rest, by) if fits else None
        scaled = None if whole is None else mul_poly(whole, {by: c})
        if scaled is not None:
            return add_to({m: v for m, v in p.items() if m is not mono and m is not other}, scaled, 1)
    return None


def _of_quotient(mono: Monomial, rest: FloorMod, by: Monomial) -> Poly | None:
    """What is made whole by a remainder and a term that is a quotient times the sizes ``by``, and the size of
    the remainder where that is symbolic; None where the term is no such."""
    sizes = by if type(rest.b) is Const else (*by, rest.b)
    for d, a in enumerate(mono):
        if type(a) is FloorDiv and _alike(mono[:d] + mono[d + 1 :], sizes):
            whole = _whole(a, rest)
            if whole is not None:
                return whole
    return None


def _alike(some: Monomial, others: Monomial) -> bool:
    """Whether two products are of the same factors, told by identity: `==` of them builds a comparison."""
    return sorted(map(id, some)) == sorted(map(id, others))


def _whole(quotient: FloorDiv, rest: FloorMod) -> Poly | None:
    """What has this quotient and this remainder, None when they are of different things. Where it is itself a
    quotient, the quotient of it was divided once: ``x // (m * n)`` and ``x // m % n`` make ``x // m``."""
    n, inner = rest.b, rest.a
    if quotient.b is n:
        return poly(quotient.a) if _congruent(quotient.a, inner, n) else None
    p = poly(inner)
    if type(n) is Const and type(quotient.b) is Const and n.value > 0 and quotient.b.value > 0:
        whole, size, q = int(quotient.b.value), int(n.value), poly(quotient.a)
        # the remainder in lowest terms: 6 x // 56 and 3 x % 28 make 3 x
        g = whole // size
        if whole % size == 0 and all(c % whole == 0 for c in add_poly(q, p, -g).values()):
            return {mono: c // g for mono, c in q.items()}
        # the quotient likewise: (3 x + 1) // 28 and (6 x + 3) % 56 make 6 x + 3
        g = size // whole
        apart = add_poly(p, q, -g)
        if size % whole == 0 and not apart.keys() - {()} and 0 <= apart.get((), 0) < g:
            return p
    once = lone_atom(p)
    if type(once) is FloorDiv and all(type(d) is Const for d in (n, once.b, quotient.b)):
        m, whole = once.b.value, quotient.b.value  # type: ignore[attr-defined]
        apart = add_poly(add_poly(poly(quotient.a), poly(once.a), -1), {(): m * p.get((), 0)}, -1)
        if n.value > 0 and whole == m * n.value and all(c % whole == 0 for c in apart.values()):  # type: ignore[attr-defined]
            return add_poly(p, {mono: c // m for mono, c in apart.items()})
    return None


def _congruent(a: Expr, b: Expr, n: Expr) -> bool:
    """Whether ``a`` and ``b`` differ by a multiple of ``n`` for certain: a remainder keeps less of its
    operand than a quotient does."""
    if a is b:
        return True
    return type(n) is Const and all(c % n.value == 0 for c in add_poly(poly(a), poly(b), -1).values())  # type: ignore[operator]


def _first(item: tuple[Any, ...]) -> Any:
    return item[0]


def _is_sum(e: Any) -> bool:
    return type(e) is Add or type(e) is Sub


# Below, expressions are told apart by their exact type, which Any lets one write without a cast on every
# line.


def add(a: Any, b: Any, dtype: DType) -> Expr:
    """``a + b`` in the canonical form."""
    ta, tb = type(a), type(b)
    if tb is Const:
        return add_const(a, b.value, dtype)
    if ta is Const:
        return add_const(b, a.value, dtype)
    if ta is not Add and ta is not Sub:  # one term: the other side may be the sum it belongs to
        if tb is Add or tb is Sub or _place(b) < _place(a):
            a, b, tb = b, a, ta
    if tb is not Add and tb is not Sub:
        result = _append(a, b, dtype)
        if result is not None:
            return result
    return from_poly(add_poly(poly(a), poly(b)), dtype)


def sub(a: Any, b: Any, dtype: DType) -> Expr:
    """``a - b`` in the canonical form."""
    if type(b) is Const:
        return add_const(a, -b.value, dtype)  # type: ignore[arg-type]
    if a is b:
        return literal(0, dtype)
    if type(a) is Add and a.b is b:
        return a.a
    return from_poly(add_poly(poly(a), poly(b), -1), dtype)


def add_const(e: Any, n: int, dtype: DType) -> Expr:
    """``e + n`` in the canonical form: only the last term changes."""
    if not n:
        return e
    if type(e) is Const:
        return literal(e.value + n, dtype)  # type: ignore[arg-type]
    if _is_sum(e) and type(e.b) is Const:
        n += e.b.value if type(e) is Add else -e.b.value  # type: ignore[assignment]
        e = e.a
        if not n:
            return e
    return intern(Add, e, literal(n, dtype)) if n > 0 else intern(Sub, e, literal(-n, dtype))


def scale(e: Any, n: int, dtype: DType) -> Expr:
    """``e * n`` in the canonical form."""
    t = type(e)
    if n == 1:
        return e
    if t is Const or not n:
        return literal(e.value * n if n else 0, dtype)
    if t is Add or t is Sub:
        if n < 0:
            return from_poly({mono: c * n for mono, c in poly(e).items()}, dtype)
        terms = []
        while type(e) is Add or type(e) is Sub:  # the order of the terms stays
            terms.append((type(e), scale(e.b, n, dtype)))
            e = e.a
        out = scale(e, n, dtype)
        for kind, term in reversed(terms):
            out = intern(kind, out, term)
        return out
    if t is Mul and type(e.b) is Const:
        n *= e.b.value  # type: ignore[assignment]
        e = e.a
        if n == 1:
            return e
    return intern(Mul, e, literal(n, dtype))


def _place(e: Expr) -> tuple[Any, ...]:
    """Where a single term stands in a sum. Kept on the node, for it names no nodes."""
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    else:
        result = memo.get("place")
        if result is not None:
            return result
    ((mono, c),) = poly(e).items()
    result = memo["place"] = _order(mono, c)
    return result


def _append(a: Any, b: Expr, dtype: DType) -> Expr | None:
    """``a + b`` for a single positive term ``b`` that comes after all the terms of ``a``, or None when that
    is not so."""
    total, const = a, None
    if _is_sum(a) and type(a.b) is Const:
        total, const = a.a, a.b
    if type(total) is Sub:
        return None
    place = _place(b)
    if place[0] or not _place(total.b if type(total) is Add else total) < place:
        return None
    (mono,) = poly(b)
    before = poly(total)
    if mono in before:
        return None
    if any(type(a) is FloorMod for a in mono) and any(type(a) is FloorDiv for m in before for a in m):
        return None
    total = intern(Add, total, b)
    return total if const is None else intern(type(a), total, const)


def is_atom(e: Expr) -> bool:
    """Whether an index expression is its own and only term."""
    p = poly(e)
    if len(p) != 1:
        return False
    ((mono, c),) = p.items()
    return c == 1 and len(mono) == 1 and mono[0] is e


def reads_data(e: Expr) -> bool:
    """Whether the value depends on memory. Index arithmetic on loaded values may wrap, so divisions are left
    alone."""
    return e.contains & (READS | CALLS) != 0


def wraps(e: Expr) -> bool:
    """Whether ``e`` is data rather than an index: it depends on memory, or on a name given to what does. Sums
    and products of data wrap, those of indices never overflow, by contract."""
    return e.contains & (READS | CALLS | DATA) != 0


def without_mods(p: Poly, d: int) -> Poly:
    """A sum with ``x`` for ``x % m`` where that is the same for a remainder by ``d``: where ``c m`` is a
    multiple of it. So what pads a length to whole blocks is seen to do so."""
    found: Poly | None = None
    for m, c in p.items():
        e = m[0] if len(m) == 1 else None
        if type(e) is FloorMod and type(e.b) is Const and c * e.b.value % d == 0 and not wraps(e.a):
            if found is None:
                found = dict(p)
            del found[m]
            add_to(found, poly(e.a), c)
    # of a sum only where it becomes shorter: within the next remainder a longer one would be longer still
    return p if found is None or len(found) >= len(p) > 1 else found


def divisor_of(p: Poly) -> int:
    """A number that divides every value of the polynomial (0 when it is 0): by its coefficients, and by what
    is known of symbolic sizes."""
    g = 0
    for mono, c in p.items():
        for atom in mono:
            c *= _atom_divisor(atom)
        g = gcd(g, c)
    return g


def _atom_divisor(e: Expr) -> int:
    if type(e) is Var:
        return e.multiple_of
    if type(e) is not FloorDiv or type(e.b) is not Const or e.b.value <= 0 or not e.dtype.is_index:  # type: ignore[operator]
        return 1
    if not _has_divisor(e):
        if is_deep(e):
            ask_below(e, _has_divisor, _atom_divisor)
        g, c = divisor_of(poly(e.a)), int(e.b.value)
        return e.memo("divisor", lambda: g // c if g and g % c == 0 else 1)  # type: ignore[no-any-return]
    return e._memo["divisor"]  # type: ignore[index, no-any-return]


def _has_divisor(e: Expr) -> bool:
    return type(e) not in (Add, Sub, Mul, FloorDiv) or (e._memo is not None and "divisor" in e._memo)


def split_multiples(p: Poly, divisor: int) -> tuple[Poly, Poly]:
    """``(whole, rest)``: the terms that are multiples of the divisor for what is known of sizes, and the
    others."""
    whole = {mono: c for mono, c in p.items() if divisor_of({mono: c}) % divisor == 0}
    return whole, {mono: c for mono, c in p.items() if mono not in whole}


def without_remainders(p: Poly, divisor: int) -> Poly:
    """``x - x % 16`` as ``x // 16 * 16``, where that makes all but the number a multiple of the divisor."""
    found = p
    for mono, c in p.items():
        rest: Any = mono[0] if len(mono) == 1 else None
        whole = c % divisor == 0 or type(rest) is not FloorMod or type(rest.b) is not Const
        if not whole and c * rest.b.value % divisor == 0:
            q: Poly = {(intern(FloorDiv, rest.a, rest.b),): -rest.b.value}
            found = add_poly(add_poly(found, {mono: -c}), add_poly(poly(rest.a), q), c)
    return found if all(c % divisor == 0 for mono, c in found.items() if mono) else p


def is_multiple(p: Poly, divisor: int) -> bool:
    """Whether every value of the polynomial is a multiple for certain."""
    return divisor_of(without_remainders(p, divisor)) % divisor == 0


def split_divisible(p: Poly, divisor: int) -> tuple[Poly, Poly]:
    """``(q, r)`` with ``p = divisor * q + r``, every coefficient and the constant of r in ``0 .. divisor -
    1`` or as it was.

    A term goes wholly into q when its coefficient is divisible; the constant is split. Other terms stay in r.
    """
    p = without_remainders(p, divisor)
    q: Poly = {}
    r: Poly = {}
    for mono, c in p.items():
        if not mono:
            whole, rest = divmod(c, divisor)
            if whole:
                q[()] = whole
            if rest:
                r[()] = rest
        elif c % divisor == 0:
            q[mono] = c // divisor
        else:
            r[mono] = c
    return q, r


def quotient(a: Expr, b: Expr) -> Expr | None:
    """``a / b`` where that is one term, whatever sums they are; None where it is not, or not known to be."""
    p, q = poly(a), poly(b)
    if not q or len(p) != len(q):
        return None
    mono, c = next(iter(q.items()))
    for longer, k in p.items():
        rest = list(longer)
        # by identity: expressions are interned, and == of them builds a comparison
        for x in mono:
            at = next((i for i, y in enumerate(rest) if y is x), None)
            if at is None:
                break
            del rest[at]
        else:
            term = {tuple(rest): k // c}
            if k % c == 0 and mul_poly(q, term) == p:
                return from_poly(term, a.dtype)
    return None


def split_by_atom(p: Poly, atom: Expr) -> tuple[Poly, Poly]:
    """``(q, r)`` with ``p = atom * q + r`` where q takes every monomial that holds ``atom``."""
    q: Poly = {}
    r: Poly = {}
    for mono, c in p.items():
        for i, a in enumerate(mono):  # by identity: `in` would ask `==`, which builds a comparison
            if a is atom:
                q[mono[:i] + mono[i + 1 :]] = c
                break
        else:
            r[mono] = c
    return q, r


def lone_atom(p: Poly) -> Expr | None:
    """The atom of a polynomial that is one atom plus a constant; None for any other."""
    result: Expr | None = None
    for mono, c in p.items():
        if not mono:
            continue
        if result is not None or c != 1 or len(mono) != 1:
            return None
        result = mono[0]
    return result
