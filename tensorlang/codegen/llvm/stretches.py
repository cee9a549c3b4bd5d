"""Loops whose body is one thing up to some iteration and another from there on, as a loop for each stretch.

``for i in 0..64: if i <= 61: A else: B`` → ``for i in 0..62: A`` and ``for i in 62..64: B``

No iteration asks which it is, addresses of a stretch advance by a constant, and a rest of one iteration has
constants for its masks. The loop IR keeps the one loop, which is easier to read. Knows loops and conditions;
writes no code.
"""

from __future__ import annotations

from itertools import islice

from ...arith.conditions import limits
from ...expr import make
from ...expr.nodes import And, Expr, Var, const_int
from ...expr.walk import substitute
from ...loopir.stmt import SERIAL, For, If, Stmt, map_exprs, preorder

MOST = 6  # stretches: each is code of its own
# iterations that are written out where they are no more than so many statements: a rest of one vector and a
# seam between two
WRITTEN_OUT, FEW_STATEMENTS = 2, 3
Stretch = tuple[int, int, Stmt]  # the first iteration, the first behind the last, the body


def stretches(s: For) -> list[For] | None:
    """The loops that a loop of a known number of iterations is made of; None where it is one."""
    begin, extent = const_int(s.begin), const_int(s.extent)
    if s.kind != SERIAL or begin is None or extent is None or type(s.body) is not If:
        return None
    found = _cut(s.var, begin, begin + extent, s.body)
    if len(found) > MOST or (len(found) == 1 and found[0][2] is s.body):
        return None
    parts = [part for stretch in found for part in _written_out(*stretch)]
    # one of them may have the variable of the loop that is no more
    first = next((n for n, (begin, end, _) in enumerate(parts) if end - begin > 1), None)
    return [_loop(s, *part, own=n == first) for n, part in enumerate(parts)]


def _written_out(begin: int, end: int, body: Stmt) -> list[Stretch]:
    if end - begin > WRITTEN_OUT or len(list(islice(preorder(body), FEW_STATEMENTS + 1))) > FEW_STATEMENTS:
        return [(begin, end, body)]
    return [(at, at + 1, body) for at in range(begin, end)]


def _cut(v: Var, begin: int, end: int, body: Stmt | None) -> list[Stretch]:
    if body is None or begin >= end:
        return []
    within = _within(body.cond, v, begin, end) if type(body) is If else None
    if within is None:
        return [(begin, end, body)]
    assert type(body) is If
    first, past = within
    first = min(max(first, begin), end)
    past = min(max(past, first), end)
    return [
        *_cut(v, begin, first, body.orelse),
        *_cut(v, first, past, body.then),
        *_cut(v, past, end, body.orelse),
    ]


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


def _loop(s: For, begin: int, end: int, body: Stmt, own: bool) -> For:
    first, count = (make.const(n, s.begin.dtype) for n in (begin, end - begin))
    if own:
        return For(s.var, first, count, s.kind, body, s.attrs)
    # a variable of its own: what is remembered of a stretch does not hold in the next
    v = Var(s.var.name, s.var.dtype, s.var.kind)
    done: dict[Expr, Expr] = {}
    # of one iteration all is known: where the lanes of a vector are that reads over an edge, too
    at = first if end - begin == 1 else v
    moved = map_exprs(body, lambda e: substitute(e, {s.var: at}, done))
    return For(v, first, count, s.kind, moved, s.attrs)
