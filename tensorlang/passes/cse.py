"""cse: a mask that many accesses share gets a name, in front of the loops that do not change it.

``for k: t[0 : 16] = (B[k, j : j + 16] if ramp(j, 1, 16) < x16(n)) … if ramp(j, 1, 16) < x16(n)`` →
``mask = ramp(j, 1, 16) < x16(n)`` and ``for k: t[0 : 16] = (B[k, j : j + 16] if mask) … if mask``

Only masks: equal nodes are one object, and the code generator computes each once where its variables are
known, so naming other expressions would change neither the code nor the time to make it; masks are named
because they are what makes a kernel with tails hard to read. A name is not carried into a parallel loop: what
such a loop takes along it would have to pack and unpack.
"""

from __future__ import annotations

from ..core.recursion import Steps, run
from ..expr.linear import reads_data
from ..expr.nodes import Broadcast, Const, Expr, Var
from ..expr.walk import rewrite as rewrite_expr
from ..expr.walk import variables
from ..loopir.stmt import PARALLEL, For, Func, Let, Seq, Stmt, Store, loads, map_exprs, preorder, rebuilt, seq

LEAST_USES = 2
# a name keeps a mask alive between its uses: many of them are more registers than there are
MOST_NAMES = 64


def cse(func: Func) -> Func:
    """The pass."""
    body = func.body
    used: _Used = {}
    below: _Below = {}
    for mask in _masks(body, used)[:MOST_NAMES]:
        body = run(_Naming(mask, body, used, below).walk(body))
    return func if body is func.body else func.with_body(body)


_Used = dict[Stmt, list[Expr]]  # the masks of a statement itself, one for each access
_Below = dict[Stmt, frozenset[Expr]]  # those of all that it holds; a statement never changes


def _masks_of(s: Stmt, used: _Used) -> list[Expr]:
    found = used.get(s)
    if found is None:
        found = used[s] = [node.mask for e in s.exprs() for node in loads(e) if node.mask is not None]
        if isinstance(s, Store) and s.mask is not None:
            found.append(s.mask)
    return found


def _masks(body: Stmt, used: _Used) -> list[Expr]:
    """The masks worth a name, in order of first use."""
    uses: dict[Expr, int] = {}
    for s in preorder(body):
        for m in _masks_of(s, used):
            uses[m] = uses.get(m, 0) + 1
    return [
        m
        for m, n in uses.items()
        if n >= LEAST_USES
        and m.dtype.lanes > 1
        and not isinstance(m, Var | Const | Broadcast)
        and not reads_data(m)
    ]


def _using(mask: Expr, body: Stmt, used: _Used, below: _Below) -> list[Stmt]:
    """The statements with an access under that mask in them, parents first."""

    def masks(s: Stmt) -> Steps[frozenset[Expr]]:
        found = below.get(s)
        if found is None:
            found = frozenset(_masks_of(s, used))
            for p in s.parts():
                found |= yield masks(p)
            below[s] = found
        return found

    run(masks(body))
    out = []
    stack = [body]
    while stack:
        s = stack.pop()
        if mask in below[s]:
            out.append(s)
            stack += reversed(s.parts())
    return out


class _Naming:
    """One mask, named wherever it is used more than once in one scope of ``body``."""

    def __init__(self, mask: Expr, body: Stmt, used: _Used, below: _Below) -> None:
        self.mask = mask
        self.vars = variables(mask)
        self.count: dict[Stmt, int] = {}  # the uses in a statement, of those that have any
        # Where something in a statement must stay around the name: what binds a variable of the mask, or a
        # parallel loop that uses it.
        self.binds: dict[Stmt, bool] = {}
        for s in reversed(_using(mask, body, used, below)):  # what a statement holds comes before it
            parts = [p for p in s.parts() if p in self.count]
            n = sum([m is mask for m in _masks_of(s, used)]) + sum([self.count[p] for p in parts])
            self.count[s] = n
            self.binds[s] = (
                isinstance(s, For | Let)
                and (s.var in self.vars or (isinstance(s, For) and s.kind == PARALLEL))
            ) or any([self.binds[p] for p in parts])

    def walk(self, s: Stmt) -> Steps[Stmt]:
        if self.count.get(s, 0) < LEAST_USES:
            return s
        if isinstance(s, Seq):
            using = [n for n, x in enumerate(s.stmts) if x in self.count]
            if len(using) > 1 and not any(self.binds[s.stmts[n]] for n in using):
                return seq(*s.stmts[: using[0]], self.named(seq(*s.stmts[using[0] :])))
        elif not self.binds[s] and (
            isinstance(s, For) or not s.parts() or sum(p in self.count for p in s.parts()) > 1
        ):
            return self.named(s)
        parts = s.parts()
        walked = []
        for p in parts:
            walked.append((yield self.walk(p)))
        return rebuilt(s, walked)

    def named(self, s: Stmt) -> Stmt:
        name = Var("mask", self.mask.dtype, "value")
        done: dict[Expr, Expr] = {}

        def swap(e: Expr) -> Expr | None:
            return name if e is self.mask else None

        return Let(name, self.mask, map_exprs(s, lambda e: rewrite_expr(e, swap, done)))
