"""Quotients and remainders of a loop's counter by sizes that are known at run time only: ``f // c`` and
``f % c``, and those of such quotients. A fused loop over open sizes has them for each of its parts, and a few
divisions take longer than copying a row of a hundred elements; so they are counted from iteration to
iteration instead, as an odometer counts. Knows the emitter; what a loop is, ``statement`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ...expr import make
from ...expr.deep import is_deep
from ...expr.nodes import RANGED, Expr, FloorDiv, FloorMod, Var, const_int
from ...expr.walk import preorder, variables
from ...loopir.stmt import Stmt
from .emitter import Emitter
from .index import interval
from .text import Block


@dataclass(frozen=True)
class Wheel:
    """``of // by`` and ``of % by``: the operand of the divisor, the two at the beginning, in an iteration,
    and in the next one."""

    of: Expr
    by: Expr
    divisor: str
    first: tuple[str, str]
    now: tuple[str, str]
    following: tuple[str, str]


def wheels(em: Emitter, var: Var, begin: str, low: int | None, body: Stmt) -> list[Wheel]:
    """Those that ``body`` needs of a loop over ``var``, which begins with the operand ``begin``, at least
    ``low``: what others are made of first. Their beginnings are written in front of the loop, where the
    emitter is."""
    if low is None or low < 0 or not any(v.kind == "dim" for v in em.vars):
        return []
    pairs = dict.fromkeys((e.a, e.b) for e in _divisions(em, var, body))
    quotients: dict[Expr, str] = {var: begin}
    found = []
    for of, by in sorted(pairs, key=lambda pair: _length(pair[0])):
        if of not in quotients:  # of a quotient that is not needed itself
            continue
        divisor = em.call("i64", "llvm.smax.i64", ("i64", em.index(by)), ("i64", "1"))
        first = (em.ins(f"{word} i64 {quotients[of]}, {divisor}") for word in ("udiv", "urem"))
        names = [em.function.fresh() for _ in range(4)]
        wheel = Wheel(of, by, divisor, (next(first), next(first)), (names[0], names[1]), (names[2], names[3]))
        quotients[make.floordiv(of, by)] = wheel.first[0]
        found.append(wheel)
    return found


def turning(em: Emitter, found: list[Wheel]) -> None:
    """In the body: what the wheels show stands for the divisions."""
    for w in found:
        for e, operand in ((make.floordiv(w.of, w.by), w.now[0]), (make.floormod(w.of, w.by), w.now[1])):
            em.remember(em.indices, e, operand, em.depth, frozenset())


def turned(em: Emitter, found: list[Wheel], start: Block, ahead: Block, latch: Block) -> None:
    """At the end of the body: one step further, a wheel that is around moves the next."""
    moved: dict[Expr, str] = {}
    for w in found:
        step = moved.get(w.of, "1")
        further = em.ins(f"add nuw nsw i64 {w.now[1]}, {step}")
        around = em.ins(f"icmp eq i64 {further}, {w.divisor}")
        carry = em.ins(f"zext i1 {around} to i64")
        em.do(f"{w.following[1]} = select i1 {around}, i64 0, i64 {further}")
        em.do(f"{w.following[0]} = add nuw nsw i64 {w.now[0]}, {carry}")
        moved[make.floordiv(w.of, w.by)] = carry
        for first, now, following in zip(w.first, w.now, w.following, strict=True):
            start.lines.insert(
                0, f"  {now} = phi i64 [ {first}, %{ahead.label} ], [ {following}, %{latch.label} ]"
            )


def _divisions(em: Emitter, var: Var, body: Stmt) -> Iterator[FloorDiv | FloorMod]:
    return (e for e in _by_sizes(em, body) if var in variables(e) and _counts(em, var, e))


def _by_sizes(em: Emitter, s: Stmt) -> Sequence[FloorDiv | FloorMod]:
    """The divisions by open sizes in a statement and all that it holds, found once for all the loops around
    them."""
    known, waiting = em.divisions, [s]
    # with a stack of its own: a network that sorts 33 elements is a thousand statements deep
    while waiting:
        node = waiting[-1]
        new = [p for p in node.parts() if p not in known]
        if new and node not in known:
            waiting += new
            continue
        waiting.pop()
        if node not in known:
            found = [f for f in (_own(node), *(known[p] for p in node.parts())) if f]
            known[node] = found[0] if len(found) == 1 else [e for f in found for e in f]
    return known[s]


def _own(s: Stmt) -> list[FloorDiv | FloorMod]:
    found: list[FloorDiv | FloorMod] = []
    for e in s.exprs():
        if e.contains & RANGED:  # no other has a division
            if _by_size(e):
                found.append(e)
            # a deep one's parts are not asked one by one: that would be as many calls
            deep = (n for n in preorder(e, _ranged) if n is not e and _by_size(n)) if is_deep(e) else None
            found += _below(e) if deep is None else deep
    return found


def _below(e: Expr) -> tuple[FloorDiv | FloorMod, ...]:
    """Those below an expression, parents first. Unrolled statements have most of theirs in common, so they
    are kept with the nodes."""
    found: tuple[FloorDiv | FloorMod, ...] = e.memo("divisions", lambda: _found_below(e))
    return found


def _found_below(e: Expr) -> tuple[FloorDiv | FloorMod, ...]:
    found: dict[FloorDiv | FloorMod, None] = {}
    for k in _ranged(e):
        if _by_size(k):
            found[k] = None
        found.update(dict.fromkeys(_below(k)))
    return tuple(found)


def _by_size(e: Expr) -> TypeGuard[FloorDiv | FloorMod]:
    return isinstance(e, FloorDiv | FloorMod) and const_int(e.b) is None


def _ranged(e: Expr) -> Sequence[Expr]:
    """The children in which a division may stand."""
    return [k for k in e.children() if k.contains & RANGED]


def _counts(em: Emitter, var: Var, e: FloorDiv | FloorMod) -> bool:
    """Whether it is a division of the counter, or of such a quotient, by sizes."""
    low = interval(em, e.b)[0]
    return (
        e.dtype.is_index
        and const_int(e.b) is None
        and low is not None
        and low >= 0
        and all(v in em.vars and v.kind == "dim" for v in variables(e.b))
        and (e.a is var or (type(e.a) is FloorDiv and _counts(em, var, e.a)))
    )


def _length(e: Expr) -> int:
    return 1 + _length(e.a) if type(e) is FloorDiv else 0
