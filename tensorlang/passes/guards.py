"""Guards below a statement: which there are, and the statement without some of them. For ``partition`` and
``peel``; knows nothing of what they prove."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..arith.conditions import conjunction, conjuncts
from ..arith.facts import Facts
from ..arith.simplify import is_hard
from ..expr import make
from ..expr.linear import poly, split_by_atom
from ..expr.nodes import And, Expr, FloorDiv, FloorMod, IfThenElse, Max, Min, Or, Var, const_int
from ..expr.walk import preorder as walk
from ..expr.walk import rewrite as rewrite_expr
from ..expr.walk import substitute, variables
from ..loopir.stmt import If, Load, Stmt, Store, loads, preorder, rewrite

# places beyond its ends that an index may reach which mostly is a sum, and not a remainder
FEW_BEYOND = 64
_SIDES = (Min, Max, FloorMod)
TURNS = (0, 1)  # which of its periods that is: ``(i - 1) % n`` may be written ``(i + n - 1) % n``


def tested(s: Stmt) -> list[Expr]:
    """The conditions that a statement itself tests: a test, or the choices that the value of a store
    makes."""
    if isinstance(s, If):
        return conjuncts(s.cond)
    return [c for e in _choices(s) for c in conjuncts(e.cond)]


def clamped(s: Stmt, lanes: Container[Var], facts: Facts) -> list[Expr]:
    """Under what conditions an index that a store reads at, as the mirrored edge of an image, is the side of
    its ``min`` and ``max`` over ``lanes`` that it is most of the time, or does not start again within a
    remainder, as one of ``tile`` does: an affine index, which lanes read as it lies."""
    found: list[Expr] = []
    stretch = False  # quotients and remainders together are one

    def side(e: Expr) -> Expr | None:
        if loads(e):
            return None
        over = [v for v in variables(e) if v in lanes]
        if isinstance(e, FloorMod) and over:
            whole = _once(e, facts)
            if whole is not None and not stretch:
                found.extend(_within(e, whole))
                return whole
            started = _unwrapped(e, over[0]) if len(over) == 1 else None
            if started is None or (stretch and not _by_rows(e)):
                return None
            found.append(_kept(e, started, started))
            return started
        if not isinstance(e, Min | Max) or not over:
            return None
        kept, other = (e.a, e.b) if _usual(e, over, facts) else (e.b, e.a)
        found.append(_kept(e, kept, other))
        return kept

    for read in loads(s.value) if isinstance(s, Store) else ():
        hard = [i for i in read.indices if is_hard(i)]
        parts = [e for i in hard for e in walk(i, _hard) if type(e) is FloorDiv]
        stretch = any(v in lanes for e in parts for v in variables(e))
        for index in dict.fromkeys(hard):
            rewrite_expr(index, side)
    return found


def _usual(e: Min | Max, lanes: Sequence[Var], facts: Facts) -> bool:
    """Whether it is its first side most of the time: the one that lanes read as it lies, where it is one of
    both; else by how far each is beyond the other."""
    lies = [any(split_by_atom(poly(x), v)[0] == {(): 1} for v in lanes) for x in (e.a, e.b)]
    if lies[0] is not lies[1]:
        return lies[0]
    low, high = facts.interval(make.sub(e.a, e.b))
    return (high is None or (low is not None and high > -low)) is isinstance(e, Max)


def _once(e: FloorMod, facts: Facts) -> Expr | None:
    """What a remainder is nearly everywhere, if that is a sum: of an index that leaves its range by a few
    places at its ends, as those of a grid's neighbours that are periodic."""
    low, high = facts.interval(e.a)
    n, turns = const_int(e.b), 0
    if n and low is not None and high is not None:
        turns = (low + high) // 2 // n
    if turns not in TURNS:
        return None
    whole = _turned(e, turns)
    inside = (make.le(-FEW_BEYOND, whole), make.lt(whole, make.add(e.b, FEW_BEYOND)))
    return whole if all(facts.prove(c) is True for c in inside) else None


def _turned(e: FloorMod, turns: int) -> Expr:
    return make.sub(e.a, make.mul(e.b, turns))


def _within(e: FloorMod, whole: Expr) -> list[Expr]:
    """The conditions under which a remainder is ``whole``."""
    return [make.le(0, whole), make.lt(whole, e.b)]


def _unwrapped(e: FloorMod, lane: Var) -> Expr | None:
    """``(i + lane) % n`` where it does not start again, ``i % n + lane``; and the same of ``lane // c``."""
    first = substitute(e.a, {lane: make.const(0, lane.dtype)})
    moved = make.sub(e.a, first)
    if lane in variables(e.b) or not (moved is lane or (isinstance(moved, FloorDiv) and moved.a is lane)):
        return None
    return make.add(make.floormod(first, e.b), moved)


def _by_rows(e: FloorMod) -> bool:
    """Whether a remainder is of a place that was moved, as in an image that is rolled, by rows that are
    together in a vector; and no part of where they lie."""
    p = poly(e.a)
    return () in p and any(isinstance(a, FloorDiv) for mono in p for a in mono)


def _kept(e: Expr, kept: Expr, other: Expr) -> Expr:
    """The condition under which ``e`` is ``kept``."""
    if isinstance(e, FloorMod):
        return make.lt(kept, e.b)
    return make.le(other, kept) if isinstance(e, Max) else make.le(kept, other)


def alternatives(body: Stmt) -> list[Expr]:
    """The conditions of choices between two parts that are both read, as where tensors are joined."""
    found = [e for s in preorder(body) for e in _choices(s) if loads(e.a) and loads(e.b)]
    return list(dict.fromkeys(e.cond for e in found if not isinstance(e.cond, And | Or)))


def _indices(s: Stmt) -> list[Expr]:
    return [i for read in loads(s.value) for i in read.indices] if isinstance(s, Store) else []


def without(body: Stmt, decided: Container[Expr], refused: Container[Expr] = ()) -> Stmt:
    """``body`` where the conditions in ``decided`` hold, and those of choices in ``refused`` do not."""

    def drop(s: Stmt) -> Stmt | None:
        if isinstance(s, If) and s.orelse is None:
            left = [c for c in conjuncts(s.cond) if c not in decided]
            if len(left) < len(conjuncts(s.cond)):
                return If(conjunction(left), s.then) if left else s.then
        if any(c in decided or c in refused for e in _choices(s) for c in conjuncts(e.cond)) or any(
            type(x) in _SIDES for i in _indices(s) if is_hard(i) for x in walk(i, _hard)
        ):
            return s.with_exprs(*[rewrite_expr(e, taken) for e in s.exprs()])
        return None

    def taken(e: Expr) -> Expr | None:
        if isinstance(e, IfThenElse):
            if e.cond in refused:
                return rewrite_expr(e.b, taken)
            left = [c for c in conjuncts(e.cond) if c not in decided]
            if len(left) < len(conjuncts(e.cond)):
                return make.if_then_else(conjunction(left), e.a, e.b) if left else e.a
        if isinstance(e, Load):
            return e.with_children(*[rewrite_expr(k, kept) for k in e.children()])
        return None

    def kept(e: Expr) -> Expr | None:
        if isinstance(e, Min | Max):
            return next((a for a, b in ((e.a, e.b), (e.b, e.a)) if _kept(e, a, b) in decided), None)
        if isinstance(e, FloorMod):
            for turns in TURNS:
                whole = _turned(e, turns)
                if all(c in decided for c in _within(e, whole)):
                    return whole
            started = [a for v in variables(e.a) if (a := _unwrapped(e, v)) is not None]
            return next((a for a in started if _kept(e, a, a) in decided), None)
        return None

    return rewrite(body, drop)


def _choices(s: Stmt) -> list[IfThenElse]:
    if not isinstance(s, Store) or not is_hard(s.value):
        return []
    return [e for e in walk(s.value, _hard) if type(e) is IfThenElse]


def _hard(e: Expr) -> list[Expr]:
    """What stands below an expression and holds what ranges may decide."""
    return [k for k in e.children() if is_hard(k)]
