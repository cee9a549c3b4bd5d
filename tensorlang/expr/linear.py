"""The canonical form of index arithmetic: integer polynomials over atoms. Knows nodes, not the smart constructors.

A polynomial is a dict from a monomial (a tuple of atoms, sorted) to its integer coefficient; ``()`` is the constant.
Atoms are variables and everything that is not a sum or product: ``x // c``, ``min(...)``, reads. Every index expression
carries its polynomial, so ``a - b`` of equal expressions is 0 at birth and simplification has little left to do.
"""

from __future__ import annotations

from ..core.dtype import DType
from ..core.node import intern, intern_as
from .nodes import Access, Add, Call, Const, Expr, Mul, Sub, Var

Monomial = tuple[Expr, ...]
Poly = dict[Monomial, int]

_MAX_PRODUCT_TERMS = 64  # beyond this a product stays an atom: expanding it would cost more than it could ever prove


def sort_key(e: Expr) -> tuple[int, str, int]:
    """A deterministic order of atoms that does not depend on addresses or on what else the process has built."""
    memo = e._memo
    if memo is not None and "key" in memo:
        return memo["key"]  # type: ignore[no-any-return]
    if type(e) is Var:
        key = (0, e.name, e.serial)
    else:
        key = (1, f"{type(e).__name__}({','.join(sort_key(c)[1] for c in e.children())})", 0)
        if type(e) is Const:
            key = (2, str(e.value), 0)
        elif isinstance(e, Call):
            key = (1, f"{e.name}{key[1]}", 0)
    return e.memo("key", lambda: key)  # type: ignore[no-any-return]


def poly(e: Expr) -> Poly:
    """The polynomial of an index expression. Shared: never change it."""
    memo = e._memo
    if memo is not None:
        found = memo.get("poly")
        if found is not None:
            return found  # type: ignore[no-any-return]
    if type(e) is Const:
        p: Poly = {(): int(e.value)} if e.value else {}
    else:  # sums and products get theirs in from_poly; what arrives here is an atom
        p = {(e,): 1}
    return e.memo("poly", lambda: p)  # type: ignore[no-any-return]


def add_poly(p: Poly, q: Poly, scale: int = 1) -> Poly:
    """``p + scale * q``."""
    out = dict(p)
    for mono, c in q.items():
        new = out.get(mono, 0) + scale * c
        if new:
            out[mono] = new
        else:
            out.pop(mono, None)
    return out


def mul_poly(p: Poly, q: Poly) -> Poly | None:
    """``p * q``, or None when it would grow too large."""
    if len(p) * len(q) > _MAX_PRODUCT_TERMS:
        return None
    out: Poly = {}
    for m1, c1 in p.items():
        for m2, c2 in q.items():
            mono = m1 + m2 if not m1 or not m2 else tuple(sorted(m1 + m2, key=sort_key))
            new = out.get(mono, 0) + c1 * c2
            if new:
                out[mono] = new
            else:
                out.pop(mono, None)
    return out


def _const(value: int, dtype: DType) -> Expr:
    return intern_as((Const, dtype, value), lambda: Const(dtype, value))


def _order(item: tuple[Monomial, int]) -> tuple[object, ...]:
    mono, c = item
    return (c < 0, -len(mono), -abs(c), tuple(sort_key(a) for a in mono))


def from_poly(p: Poly, dtype: DType) -> Expr:
    """The one expression for a polynomial: positive terms first, larger strides before smaller, the constant last."""
    if not p:
        return _const(0, dtype)
    const = p.get((), 0)
    if len(p) == 1:
        ((mono, c),) = p.items()
        if not mono:
            return _const(c, dtype)
        if c == 1 and len(mono) == 1:
            return mono[0]
        terms = [(mono, c)]
    else:
        terms = sorted(((m, c) for m, c in p.items() if m), key=_order)
    total: Expr | None = None
    for mono, c in terms:
        product: Expr = mono[0]
        for factor in mono[1:]:
            product = intern(Mul, product, factor)
        if total is None:
            total = product if c == 1 else intern(Mul, product, _const(c, dtype))
        else:
            if abs(c) != 1:
                product = intern(Mul, product, _const(abs(c), dtype))
            total = intern(Add if c > 0 else Sub, total, product)
    assert total is not None
    if const:
        total = intern(Add if const > 0 else Sub, total, _const(abs(const), dtype))
    if total._memo is None or "poly" not in total._memo:
        total.memo("poly", lambda: p)
    return total


def reads_data(e: Expr) -> bool:
    """Whether the value depends on memory. Index arithmetic on loaded values may wrap, so divisions are left alone."""
    memo = e._memo
    if memo is not None and "data" in memo:
        return memo["data"]  # type: ignore[no-any-return]
    found = isinstance(e, Access | Call) or any(reads_data(c) for c in e.children())
    return e.memo("data", lambda: found)  # type: ignore[no-any-return]


def split_divisible(p: Poly, divisor: int) -> tuple[Poly, Poly]:
    """``(q, r)`` with ``p = divisor * q + r``, every coefficient and the constant of r in ``0 .. divisor - 1`` or as it was.

    A term goes wholly into q when its coefficient is divisible; the constant is split. Other terms stay in r.
    """
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


def split_by_atom(p: Poly, atom: Expr) -> tuple[Poly, Poly]:
    """``(q, r)`` with ``p = atom * q + r`` where q takes every monomial that holds ``atom``."""
    q: Poly = {}
    r: Poly = {}
    for mono, c in p.items():
        for i, a in enumerate(mono):  # by identity: `in` would ask `==`, which builds a comparison
            if a is atom:
                q[mono[:i] + mono[i + 1:]] = c
                break
        else:
            r[mono] = c
    return q, r
