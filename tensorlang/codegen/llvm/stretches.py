"""Loops whose body is one thing up to some iteration and another from there on, as a loop for each stretch.

``for i in 0..64: if i <= 61: A else: B`` → ``for i in 0..62: A`` and ``for i in 62..64: B``

No iteration asks which it is, addresses of a stretch advance by a constant, and a rest of one iteration has
constants for its masks. So is a loop of which a thread runs a piece, or of an open number of iterations,
where it does no more than store: each stretch has its part of what is run then, which may be none. The loop
IR keeps the one loop, which is easier to read. Knows loops and conditions; ``statement`` says what a loop is.

Measured (Zen 5, one thread): joins of six tensors of 600 kB 0.35 of the time, of five of 123 kB 0.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from ...arith.conditions import limits
from ...core.recursion import Steps
from ...expr import make
from ...expr.nodes import And, Expr, IfThenElse, Var, const_int
from ...expr.walk import substitute, variables
from ...loopir.stmt import SERIAL, For, If, Let, Seq, Stmt, Store, map_exprs, preorder
from .emitter import Emitter

MOST = 6  # stretches: each is code of its own
MOST_STORED = 18  # of those that store one vector, as of eight tensors that are joined, with what is between
# iterations that are written out where they are no more than so many statements: a rest of one vector and a
# seam between two
WRITTEN_OUT, FEW_STATEMENTS = 2, 3
Stretch = tuple[int, int, Stmt]  # the first iteration, the first behind the last, the body


def stretches(s: For) -> list[For] | None:
    """The loops that a loop of a known number of iterations is made of, which no other thread has a part of;
    None where it is one."""
    begin, extent = const_int(s.begin), const_int(s.extent)
    if begin is None or extent is None:
        return None
    parts = _known(s.var, begin, begin + extent, s.body)
    if parts is None:
        return None
    # one of them may have the variable of the loop that is no more
    own = next((n for n, (begin, end, _) in enumerate(parts) if end - begin > 1), None)
    loops = list[For]()
    for n, (begin, end, body) in enumerate(parts):
        first, count = (make.const(k, s.begin.dtype) for k in (begin, end - begin))
        # a variable of its own: what is remembered of a stretch does not hold in the next
        var, inside = (s.var, body) if n == own else _apart(s.var, begin, end, body)
        loops.append(For(var, first, count, SERIAL, inside, s.attrs))
    return loops


class Part(NamedTuple):
    """A stretch of a loop of which a call tells what is run: all iterations before ``past`` that no stretch
    before it has, None for all that are left. It has a variable of its own, of a value from ``lo`` to ``hi``
    where that is known."""

    var: Var
    past: Expr | None
    lo: int | None
    hi: int | None
    body: Stmt


def of_a_piece(var: Var, lo: int | None, hi: int | None, body: Stmt) -> list[Part] | None:
    """The stretches of a loop over some of the values from ``lo`` to ``hi``, or of an open number, whose
    iterations do no more than store; None where it is one."""
    if lo is None or hi is None:
        found = _open(var, body, None)
        if not 1 < len(found) <= MOST_STORED or not all(_stores(inside) for _, inside in found):
            return None
        return [
            Part(own, past, lo, hi, e) for past, (own, e) in ((p, _apart(var, 0, 2, e)) for p, e in found)
        ]
    known = _known(var, lo, hi + 1, body)
    if known is None or not all(_stores(inside) for _, _, inside in known):
        return None
    if [a for a, _, _ in known] != [lo, *[b for _, b, _ in known[:-1]]]:
        return None  # between two of them, or in front, nothing is to be done
    parts = list[Part]()
    for first, past, inside in known:
        own, moved = _apart(var, first, past, inside)
        parts.append(Part(own, make.const(past, var.dtype), first, past - 1, moved))
    return parts


def emit(
    em: Emitter, parts: Sequence[Part], begin: str, end: str, loop: Callable[..., Steps[None]]
) -> Steps[None]:
    """The stretches of a loop, each as much of it as there is from ``begin`` to ``end``."""
    for part in parts:
        to = end
        if part.past is not None:
            em.at = em.depth
            least = em.call("i64", "llvm.smin.i64", ("i64", em.index(part.past)), ("i64", end))
            to = em.call("i64", "llvm.smax.i64", ("i64", least), ("i64", begin))
        yield loop(em, part.var, begin, to, (part.lo, part.hi), False, part.body)
        begin = to


def _known(v: Var, begin: int, end: int, body: Stmt) -> list[Stretch] | None:
    """All stretches; None where they are one, or too many."""
    if _choice(body) is None:
        return None
    found = _cut(v, begin, end, body)
    most = MOST_STORED if all(_stores(inside) for _, _, inside in found) else MOST
    if len(found) > most or (len(found) == 1 and found[0][2] is body):
        return None
    return [part for stretch in found for part in _written_out(*stretch)]


def _stores(s: Stmt) -> bool:
    """Whether a statement is one store, or those of the pieces of a vector, and names of what they need."""
    return all(type(st) in (Store, Let, Seq) for st in preorder(s))


def _written_out(begin: int, end: int, body: Stmt) -> list[Stretch]:
    if end - begin > WRITTEN_OUT or len(list(islice(preorder(body), FEW_STATEMENTS + 1))) > FEW_STATEMENTS:
        return [(begin, end, body)]
    return [(at, at + 1, body) for at in range(begin, end)]


def _cut(v: Var, begin: int, end: int, body: Stmt | None) -> list[Stretch]:
    if body is None or begin >= end:
        return []
    if type(body) is Let:
        return [(a, b, _named(body, inside)) for a, b, inside in _cut(v, begin, end, body.body)]
    choice = _choice(body)
    within = None if choice is None else _within(choice.cond, v, begin, end)
    if choice is None or within is None:
        return [(begin, end, body)]
    first, past = within
    first = min(max(first, begin), end)
    past = min(max(past, first), end)
    return [
        *_cut(v, begin, first, choice.orelse),
        *_cut(v, first, past, choice.then),
        *_cut(v, past, end, choice.orelse),
    ]


def _open(v: Var, body: Stmt, past: Expr | None) -> list[tuple[Expr | None, Stmt]]:
    """The stretches in order, each up to an end where the next begins, the last up to ``past``."""
    if type(body) is Let:
        return [(end, _named(body, inside)) for end, inside in _open(v, body.body, past)]
    choice = _choice(body)
    ends = None if choice is None or choice.orelse is None else limits(choice.cond, v)
    if choice is None or choice.orelse is None or ends is None:
        return [(past, body)]
    (end,) = (e for e in ends if e is not None)
    least = end if past is None else make.min_(end, past)
    first, then = (choice.then, choice.orelse) if ends[0] is None else (choice.orelse, choice.then)
    return [*_open(v, first, least), *_open(v, then, past)]


def _choice(s: Stmt) -> If | None:
    """A statement that is one of two things, as the store of a value that is."""
    if type(s) is If:
        return s
    if type(s) is not Store or type(s.value) is not IfThenElse or s.value.cond.dtype.lanes > 1:
        return None
    a, b = (Store(s.buffer, value, s.indices, s.mask, s.of) for value in (s.value.a, s.value.b))
    return If(s.value.cond, a, b)


def _named(s: Let, inside: Stmt) -> Stmt:
    """A stretch where a name is known, if it asks for it."""
    asked = any(s.var in variables(e) for st in preorder(inside) for e in st.exprs())
    return Let(s.var, s.value, inside) if asked else inside


def _within(cond: Expr, v: Var, begin: int, end: int) -> tuple[int, int] | None:
    """The first iteration for which a condition holds, or several that all must, and the first behind the
    last; None where that is no number."""
    if type(cond) is And:
        a, b = (_within(e, v, begin, end) for e in (cond.a, cond.b))
        return None if a is None or b is None else (max(a[0], b[0]), min(a[1], b[1]))
    ends = limits(cond, v)
    if ends is None:
        return None
    first, past = (const_int(e) if e is not None else at for e, at in zip(ends, (begin, end), strict=True))
    return None if first is None or past is None else (first, past)


def _apart(v: Var, begin: int, end: int, body: Stmt) -> tuple[Var, Stmt]:
    """A variable for one stretch, and its body."""
    own = Var(v.name, v.dtype, v.kind)
    # of one iteration all is known: where the lanes of a vector are that reads over an edge, too
    at = make.const(begin, v.dtype) if end - begin == 1 else own
    done: dict[Expr, Expr] = {}
    return own, map_exprs(body, lambda e: substitute(e, {v: at}, done))
