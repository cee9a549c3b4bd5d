"""The arithmetic one iteration of a statement does, counted by kind. Knows te's bodies; index arithmetic is
not counted."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Access,
    Add,
    Binary,
    Call,
    Cast,
    Choice,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
)
from ..expr.walk import preorder
from ..te.reducers import Reduce
from ..te.tensor import ComputeOp

_DIVISIONS = (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)


@dataclass(slots=True)
class Work:
    """Operations per iteration: fused multiply-adds, additions, multiplications, divisions, calls of the
    mathematical library, minimum and maximum and comparisons and choices, conversions."""

    fma: int = 0
    add: int = 0
    mul: int = 0
    div: int = 0
    call: int = 0
    select: int = 0
    cast: int = 0

    @property
    def flops(self) -> int:
        """The number of operations, a fused multiply-add counting as two."""
        return 2 * self.fma + self.add + self.mul + self.div + self.call + self.select

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def work_of(op: ComputeOp) -> Work:
    """What one iteration of an operation's innermost loop computes."""
    work = Work()
    seen: dict[Expr, None] = {}
    for e in op.body:
        if isinstance(e, Reduce):
            for source in e.sources:
                _combine(e, source, work, seen)
            if e.condition is not None:
                _count(e.condition, work, seen)
        else:
            _count(e, work, seen)
    return work


def _combine(e: Reduce, source: Expr, work: Work, seen: dict[Expr, None]) -> None:
    kind = e.reducer.kind
    if kind == "add" and type(source) is Mul and source.dtype.is_float:
        work.fma += 1
        seen[source] = None
        _count(source.a, work, seen)
        _count(source.b, work, seen)
        return
    if kind == "add":
        work.add += 1
    elif kind == "mul":
        work.mul += 1
    else:
        work.select += 1
    _count(source, work, seen)


def _count(e: Expr, work: Work, seen: dict[Expr, None]) -> None:
    if e in seen or isinstance(e, Access):  # what stands inside an index is address arithmetic
        return
    seen[e] = None
    kids = e.children()
    if isinstance(e, EQ | NE | LT | LE) and not any(isinstance(x, Access) for x in preorder(e)):
        kids = ()  # where an element is, not what it is: address arithmetic
    # contracted by the code generator
    if isinstance(e, Add | Sub) and e.dtype.is_float and (type(e.a) is Mul or type(e.b) is Mul):
        product = e.a if type(e.a) is Mul else e.b
        other = e.b if product is e.a else e.a
        work.fma += 1
        kids = (*product.children(), other)
    elif isinstance(e, Add | Sub):
        work.add += 1
    elif isinstance(e, Mul):
        work.mul += 1
    elif isinstance(e, _DIVISIONS):
        work.div += 1
    elif isinstance(e, Choice | Binary):  # minimum, maximum, comparisons, conditions
        work.select += 1
    elif isinstance(e, Call):
        work.call += 1
    elif isinstance(e, Cast):
        work.cast += 1
    for kid in kids:
        _count(kid, work, seen)
