"""Terms of a formula that depend on some of its axes alone, as the angles of a rotation do on position and
channel and not on the head: what could be computed once for all others. Knows te; whether it pays is not
asked here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.node import intern
from ..expr import make
from ..expr.nodes import Const, Expr, FloorDiv, FloorMod, IfThenElse, TruncDiv, TruncMod, Var
from ..expr.walk import preorder, rewrite, substitute, variables
from .axis import IterVar, fresh_axis
from .compute import TABLE
from .patterns import constant, operations
from .reducers import Reduce
from .tensor import ComputeOp, TensorRead

LARGEST_TABLE = 1 << 18  # elements of a term that a kernel brings along


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a definition, and the axes that it depends on, in their order."""

    expr: Expr
    axes: tuple[IterVar, ...]


def terms_of(op: ComputeOp) -> list[Term]:
    """The terms of a definition that depend on some of its axes but not on all, each as large as it can be,
    outer ones first. Floats that an operation makes, and nothing of a place that is read. Not what a
    condition guards, for it may be out of range elsewhere, unless it reads nothing."""
    axes = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    whole = frozenset(v for v, a in axes.items() if not _single(a))
    found: dict[Expr, Term] = {}
    seen: set[tuple[Expr, bool]] = set()
    # a node, the axes of what it stands in, and whether a condition guards it
    todo: list[tuple[Expr, frozenset[Var], bool]] = [(e, whole, False) for e in reversed(op.body)]
    while todo:
        e, around, guarded = todo.pop()
        if (e, guarded) in seen:
            continue
        seen.add((e, guarded))
        own = variables(e) & whole
        if own and own != around and _can_move(e, guarded):
            read = variables(e)
            found.setdefault(e, Term(e, tuple(a for v, a in axes.items() if v in read)))
        if isinstance(e, IfThenElse):
            todo += [(e.b, own, True), (e.a, own, True), (e.cond, own, guarded)]
        elif isinstance(e, Reduce):
            todo += [(s, whole, e.condition is not None) for s in reversed(e.sources)]
        elif not isinstance(e, TensorRead):
            todo += [(c, own, guarded) for c in reversed(e.children())]
    return list(found.values())


def apart(op: ComputeOp, term: Term, name: str) -> tuple[ComputeOp, ComputeOp]:
    """The term as a definition called ``name``, and ``op`` as it reads that."""
    axes = tuple(fresh_axis(a.name, a.extent) for a in term.axes)
    begins = [make.as_expr(0 if a.dom is None else a.dom[0]) for a in term.axes]
    moved = {a.var: make.add(b.var, begin) for a, b, begin in zip(term.axes, axes, begins, strict=True)}
    made = ComputeOp(name, axes, (), (substitute(term.expr, moved),), TABLE if _is_table(term) else "")
    at = tuple(make.sub(a.var, begin) for a, begin in zip(term.axes, begins, strict=True))
    read = intern(TensorRead, made.outputs[0], at)
    body = tuple(rewrite(e, lambda node: read if node is term.expr else None) for e in op.body)
    return made, op.redefined(body)


def _is_table(term: Term) -> bool:
    """Whether the term is the same for all calls, for it reads nothing, and few enough elements to be
    computed once for all of them, and kept with the kernel."""
    sizes = [constant(a.extent) for a in term.axes]
    known = None not in sizes and math.prod(n or 0 for n in sizes) <= LARGEST_TABLE
    return known and not any(isinstance(n, TensorRead) for n in preorder(term.expr))


def _single(axis: IterVar) -> bool:
    return isinstance(axis.extent, Const) and axis.extent.value == 1


def _can_move(e: Expr, guarded: bool) -> bool:
    if not e.dtype.is_float or isinstance(e, TensorRead | Const | Reduce) or not operations((e,)):
        return False
    inside = list(preorder(e))
    if any(isinstance(n, Reduce) for n in inside):
        return False
    return not guarded or not any(isinstance(n, TensorRead) or _may_divide_by_zero(n) for n in inside)


def _may_divide_by_zero(e: Expr) -> bool:
    divides = isinstance(e, FloorDiv | FloorMod | TruncDiv | TruncMod)
    return divides and not isinstance(e.children()[1], Const)
