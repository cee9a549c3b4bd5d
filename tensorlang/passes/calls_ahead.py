"""calls ahead: functions of what a loop does not change are called in front of it.

``for j: o[i, j] = x[i, j] * exp(e[i])`` → ``same = exp(e[i])`` and ``for j: o[i, j] = x[i, j] * same``

LLVM moves sums and products, but not these: a function of mathematics asks whether its operand is one of the
few that take longer, and a part of a loop that is not always run stays in it. Measured (Zen 4, one thread):
64 channels of 28 × 28, each scaled by a sigmoid, 0.93 of the time, of open sizes 0.41.

Only what every iteration computes moves, so nothing is read that was not read before; a loop that may have no
iteration is asked first. A value is not carried into a parallel loop, as in ``cse``.
"""

from __future__ import annotations

from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import CALLS, Broadcast, Expr, IfThenElse, Var, const_int
from ..expr.walk import preorder as walk
from ..expr.walk import rewrite as rewrite_expr
from ..expr.walk import variables
from ..loopir.stmt import (
    SERIAL,
    Alloc,
    Buffer,
    For,
    Func,
    If,
    Let,
    Load,
    Seq,
    Stmt,
    Store,
    loads,
    map_exprs,
    preorder,
    rebuilt,
)

MOST = 4  # values that wait in registers through a loop


def calls_ahead(func: Func) -> Func:
    """The pass."""
    if not any(e.contains & CALLS for s in preorder(func.body) for e in s.exprs()):
        return func
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    body = run(_walk(func.body, Facts(sizes=sizes)))
    return func if body is func.body else func.with_body(body)


def _walk(s: Stmt, facts: Facts) -> Steps[Stmt]:
    if isinstance(s, For):
        ahead = _same(s) if s.kind == SERIAL else []
        named = {e: Var("same", e.dtype, "value") for e in ahead}
        done: dict[Expr, Expr] = {}
        moved = map_exprs(s, lambda e: rewrite_expr(e, named.get, done)) if named else s
        assert isinstance(moved, For)
        inside = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
        body = yield _walk(moved.body, inside)
        out = moved if body is moved.body else moved.with_parts(body)
        for value, name in reversed(named.items()):
            out = Let(name, value, out)
        some = make.lt(0, s.extent)
        return If(some, out) if named and facts.prove(some) is not True else out
    if isinstance(s, If):
        parts = [(yield _walk(s.then, facts.assume(s.cond)))]
        if s.orelse is not None:
            parts.append((yield _walk(s.orelse, facts)))
        return rebuilt(s, parts)
    walked = []
    for part in s.parts():
        walked.append((yield _walk(part, facts)))
    return rebuilt(s, walked)


def _same(loop: For) -> list[Expr]:
    """What is called in every iteration of a loop with the same operands."""
    found = run(_always(loop.body))
    if not found:
        return []
    changing = {loop.var}
    written: set[Buffer] = set()
    for s in preorder(loop.body):
        written.update(s.written())
        if isinstance(s, For | Let):
            changing.add(s.var)
    kept = [
        e
        for e in found
        if changing.isdisjoint(variables(e)) and all(load.buffer not in written for load in loads(e))
    ]
    # of those within others the outer ones
    inner = {node for e in kept for kid in e.children() for node in walk(kid)}
    return [e for e in kept if e not in inner][:MOST]


def _always(s: Stmt) -> Steps[dict[Expr, None]]:
    """The expressions with calls that ``s`` computes whatever its conditions are."""
    found: dict[Expr, None] = {}
    if isinstance(s, Store):
        stack = [s.value]
        while stack:
            e = stack.pop()
            if not e.contains & CALLS or e in found or isinstance(e, Load):
                continue
            if not isinstance(e, Broadcast):
                found[e] = None
            stack += [e.cond] if isinstance(e, IfThenElse) else e.children()
    elif isinstance(s, Seq):
        for part in s.stmts:
            found.update((yield _always(part)))
    elif isinstance(s, Alloc | Let) or (isinstance(s, For) and (const_int(s.extent) or 0) > 0):
        found.update((yield _always(s.body)))
    elif isinstance(s, If) and s.orelse is not None:
        then = yield _always(s.then)
        orelse = yield _always(s.orelse)
        found.update((e, None) for e in then if e in orelse)
    return found
