"""About how much a kernel does in one call, as a function of its sizes: what decides whether a call gives up
the interpreter's lock.

The estimate counts statements, a vector of eight lanes as one, and an intrinsic as four more; of a result
that goes to memory also what is read there, which takes longer than a sum in registers. It is a polynomial in
the slots of the scalars (see ``interface.signature``): loop variables stand at their middle, divisions by
constants divide, of a minimum the constant counts. An extent nothing is known of, and a call of foreign code,
count as endless. Knows statements; nothing of locks.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...core.recursion import Steps, run
from ...expr.nodes import (
    CALLS,
    Access,
    Add,
    Broadcast,
    Call,
    Cast,
    Choice,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
)
from ...interface.timed_nests import START, STOP
from ...loopir.stmt import Buffer, Extern, For, Func, If, Let, Load, Seq, Stmt, Store, loads

Poly = dict[tuple[int, ...], float]  # a product of slots -> its coefficient
ENDLESS = 1e300
_LANES, _CALL = 8, 4
_ENDLESS: Poly = {(): ENDLESS}


def work(func: Func, slots: Mapping[Var, int]) -> tuple[tuple[float, tuple[int, ...]], ...]:
    """The terms of the estimate, the constant one first; ``slots`` says where the sizes and numbers of a call
    are."""
    known: dict[Var, Poly] = {v: {(i,): 1.0} for v, i in slots.items()}
    out = run(_stmt(func.body, known))
    if any(abs(c) >= ENDLESS for c in out.values()):
        return ((ENDLESS, ()),)
    return tuple((c, mono) for mono, c in sorted(out.items()) if c)


def estimate(s: Stmt, symbols: Mapping[Var, int]) -> Poly:
    """The same of one statement, in what ``symbols`` numbers; a coefficient of ENDLESS or more when nothing
    is known."""
    return run(_stmt(s, {v: {(i,): 1.0} for v, i in symbols.items()}))


def _add(a: Poly, b: Poly, factor: float = 1.0) -> Poly:
    out = dict(a)
    for mono, c in b.items():
        out[mono] = out.get(mono, 0.0) + factor * c
    return out


def _either(a: Poly, b: Poly) -> Poly:
    """What is at least as much as each of both: a tile that ends early has a body for each rest, and runs
    one."""
    return {mono: max(a.get(mono, 0.0), b.get(mono, 0.0)) for mono in {**a, **b}}


def _mul(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for x, c in a.items():
        for y, d in b.items():
            mono = tuple(sorted(x + y))
            out[mono] = out.get(mono, 0.0) + c * d
    return out


def _stmt(s: Stmt, known: dict[Var, Poly]) -> Steps[Poly]:
    if isinstance(s, For):
        begin, extent = _expr(s.begin, known), _expr(s.extent, known)
        known[s.var] = _ENDLESS if begin is None or extent is None else _add(begin, extent, 0.5)
        return _ENDLESS if extent is None else _mul(extent, (yield _stmt(s.body, known)))
    if isinstance(s, If):
        then = yield _stmt(s.then, known)
        return then if s.orelse is None else _either(then, (yield _stmt(s.orelse, known)))
    if isinstance(s, Let):
        known[s.var] = _expr(s.value, known) or _ENDLESS
        body = yield _stmt(s.body, known)
        # computed once for all that read it; what is only loaded is an operand of theirs
        alone = s.var.dtype.is_index or isinstance(s.value, Load | Broadcast)
        return body if alone else _add(body, {(): _units(s.value, _read(s.value))})
    if isinstance(s, Extern):
        return {} if s.name in (START, STOP) else _ENDLESS  # taking the time changes no decision
    if isinstance(s, Store):
        return {(): _units(s.value, _from_memory(s))}
    out: Poly = {} if s.parts() or isinstance(s, Seq) else {(): 1.0}
    for part in s.parts():
        out = _add(out, (yield _stmt(part, known)))
    return out


def _units(value: Expr, read: list[int]) -> float:
    """What a value counts, of which so many lanes are ``read``."""
    nodes = [value.dtype.lanes] + [_CALL * lanes for lanes in _calls(value)] + read
    return float(sum(-(-n // _LANES) for n in nodes))


def _from_memory(s: Store) -> list[int]:
    """The lanes of each value that is read in memory and goes to other memory: a relu of 64 × 3000 floats in
    the second cache takes 22 µs, a product of as many multiply-adds 2."""
    return [] if s.buffer.scope == "local" else _read(s.value, s.buffer)


def _read(value: Expr, written: Buffer | None = None) -> list[int]:
    """The lanes of what a value of several reads in memory that is not ``written``."""
    lanes = value.dtype.lanes
    return [
        lanes
        for x in loads(value)
        if x.dtype.lanes == lanes and x.buffer.scope != "local" and x.buffer is not written
    ]


def _calls(e: Expr) -> list[int]:
    """The lanes of each function that a value calls, which the places it reads do not."""
    if not e.contains & CALLS:
        return []
    result, seen, stack = [], {e}, [e]
    while stack:
        e = stack.pop()
        if isinstance(e, Call):
            result.append(e.dtype.lanes)
        if not isinstance(e, Access):
            new = [kid for kid in e.children() if kid not in seen]
            seen.update(new)
            stack += new
    return result


def _expr(e: Expr, known: Mapping[Var, Poly]) -> Poly | None:
    """The polynomial an extent is about, None when there is none."""
    if isinstance(e, Const):
        return {(): float(e.value)}
    if isinstance(e, Var):
        return known.get(e)
    if isinstance(e, Cast):
        return _expr(e.a, known)
    if isinstance(e, FloorDiv | TruncDiv | FloorMod | TruncMod):
        c, a = const_int(e.b), _expr(e.a, known)
        if not c or a is None:
            return None
        return (
            {(): abs(c) / 2} if isinstance(e, FloorMod | TruncMod) else {mono: x / c for mono, x in a.items()}
        )
    if not isinstance(e, Add | Sub | Mul | Min | Max | Choice):
        return None
    a, b = _expr(e.a, known), _expr(e.b, known)
    if isinstance(e, Min | Max | Choice):
        if a is None or b is None:
            return a or b
        constant = isinstance(e, Min)
        return a if (set(a) <= {()}) == constant else b
    if a is None or b is None:
        return None
    return _mul(a, b) if isinstance(e, Mul) else _add(a, b, -1.0 if isinstance(e, Sub) else 1.0)
