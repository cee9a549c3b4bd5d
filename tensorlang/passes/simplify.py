"""simplify: expressions and statements under the ranges of the loops around them.

``if i < 8: S`` inside ``for i in 0..8`` → ``S``;  a loop of one iteration → its body;  a loop of none →
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from ..arith.conditions import conjunction, conjuncts
from ..arith.simplify import Simplifier, simplifier
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import RANGED, READS, Const, Expr, Var, const_int
from ..expr.walk import substitute
from ..loopir.stmt import (
    NOTHING,
    SERIAL,
    Alloc,
    For,
    Func,
    If,
    Let,
    Seq,
    Stmt,
    loads,
    map_exprs,
    preorder,
    rewrite,
    seq,
)

# a note on a loop of one iteration or none. It stays a loop for the passes that make versions of loops
ONCE = ("at most", "1")


def simplify(func: Func) -> Func:
    """The pass."""
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    return func.with_body(run(_stmt(func.body, simplifier(sizes))))


def simplify_versions(func: Func) -> Func:
    """The pass after the last that makes versions: loops of at most one iteration become tests. (LLVM moves
    all that a loop loads at one place in front of it, be it more than there are registers.)"""
    func = simplify(func)
    return func.with_body(rewrite(func.body, _tested))


def _tested(s: Stmt) -> Stmt | None:
    if not isinstance(s, For) or ONCE not in s.attrs:
        return None
    return If(make.gt(s.extent, 0), replace_var(s.body, s.var, s.begin))


def _is_nothing(s: Stmt) -> bool:
    return isinstance(s, Seq) and not s.stmts


def _stmt(s: Stmt, simp: Simplifier) -> Steps[Stmt]:
    if isinstance(s, Seq):
        new = []
        for x in s.stmts:
            new.append((yield _stmt(x, simp)) if x.parts() else _leaf(x, simp))
        return s if all(map(is_, new, s.stmts)) else seq(*new)
    if isinstance(s, For):
        return (yield _for(s, simp))
    if isinstance(s, If):
        return (yield _if(s, simp))
    if isinstance(s, Let):
        return (yield _lets(s, simp))
    if isinstance(s, Alloc):
        body = yield _stmt(s.body, simp)
        return NOTHING if _is_nothing(body) else s if body is s.body else Alloc(s.buffer, body)
    return _leaf(s, simp)


def _leaf(s: Stmt, simp: Simplifier) -> Stmt:
    """A statement that holds no others."""
    old = s.exprs()
    if not any([e.contains & RANGED for e in old]):  # most
        return s
    new = [simp(e) for e in old]
    return s if all(map(is_, old, new)) else s.with_exprs(*new)


def _lets(s: Stmt, simp: Simplifier) -> Steps[Stmt]:
    """Names one after the other, those of what is known replaced all at once: unrolled choices have many."""
    kept: list[tuple[Let, Expr]] = []
    known: dict[Var, Expr] = {}
    while isinstance(s, Let):
        value = simp(substitute(s.value, known) if known else s.value)
        if type(value) is Const or type(value) is Var:
            known[s.var] = value
        else:
            kept.append((s, value))
        s = s.body
    body = yield _stmt(_replace(s, known) if known else s, simp)
    for let, value in reversed(kept):
        body = let if value is let.value and body is let.body else Let(let.var, value, body)
    return body


def replace_var(s: Stmt, var: Var, value: Expr) -> Stmt:
    """``s`` with ``value`` in place of ``var``."""
    return _replace(s, {var: value})


def _replace(s: Stmt, values: Mapping[Var, Expr]) -> Stmt:
    done: dict[Expr, Expr] = {}
    return map_exprs(s, lambda e: substitute(e, values, done))


def _for(s: For, simp: Simplifier) -> Steps[Stmt]:
    begin, extent = simp(s.begin), simp(s.extent)
    n = const_int(extent)
    if n is not None and n <= 0:
        return NOTHING
    if n == 1:
        return (yield _stmt(replace_var(s.body, s.var, begin), simp))
    body = yield _stmt(s.body, simp.inside(s.var, begin, extent))
    if _is_nothing(body):
        return NOTHING
    attrs = s.attrs
    if n is None and s.kind == SERIAL and ONCE not in attrs and simp.facts.prove(make.le(extent, 1)):
        attrs = (*attrs, ONCE)
    if begin is s.begin and extent is s.extent and body is s.body and attrs is s.attrs:
        return s
    return For(s.var, begin, extent, s.kind, body, attrs)


def _within(simp: Simplifier, cond: Expr, branch: Stmt) -> Simplifier:
    """What holds in all of a branch, with its condition: but for what this says of elements that the branch
    writes, as where a loop asks whether what it looks for was found."""
    if not cond.contains & READS:
        return simp.under(cond)
    written = {b for inner in preorder(branch) for b in inner.written()}
    lasting = [c for c in conjuncts(cond) if not any(at.buffer in written for at in loads(c))]
    return simp.under(conjunction(lasting)) if lasting else simp


def _if(s: If, simp: Simplifier) -> Steps[Stmt]:
    left: list[Expr] = []
    held = simp  # what was tested before holds where the next is tested
    for c in conjuncts(s.cond):
        c = held(c)
        known = held.facts.prove(c)
        if known is False:
            return NOTHING if s.orelse is None else (yield _stmt(s.orelse, simp))
        if known is None:
            left.append(c)
            held = held.under(c)
    if not left:
        return (yield _stmt(s.then, simp))
    cond = conjunction(left)
    then = yield _stmt(s.then, _within(simp, cond, s.then))
    orelse = None
    if s.orelse is not None:
        orelse = yield _stmt(s.orelse, _within(simp, make.not_(cond), s.orelse))
    if orelse is not None and _is_nothing(orelse):
        orelse = None
    if _is_nothing(then):
        return NOTHING if orelse is None else If(make.not_(cond), orelse)
    if cond is s.cond and then is s.then and orelse is s.orelse:
        return s
    return If(cond, then, orelse)
