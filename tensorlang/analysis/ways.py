"""In how many ways the elements of a result are computed in turn. Knows te and expressions; no schedules."""

from __future__ import annotations

import math
from typing import Any

from ..expr.linear import poly
from ..expr.nodes import LE, LT, Choice, Expr, FloorDiv, FloorMod, Max, Min, const_int
from ..expr.walk import preorder, variables
from ..te import ComputeOp, IterVar
from ..te.patterns import constant, reads_of, step, typical

MOST = 4  # ways whose elements are put in order
LEAST = 4  # elements of each way in a row
MOST_ALIKE = 16  # iterations that are read alike, of which whole numbers are taken together


def ways_of(op: ComputeOp) -> int | None:
    """In how many ways the elements along the last axis are computed in turn, as those of pairs are; None
    where they are not, or in more than four."""
    if not op.axis or op.reduce_axis or len(op.body) != 1:
        return None
    last, n = op.axis[-1], constant(op.axis[-1].extent)
    tests = [c.cond for c in preorder(op.body[0]) if isinstance(c, Choice)]
    asked = [t for t in tests if any(v is last.var for v in variables(t))]
    if n is None or not asked:
        return None
    if 2 <= n <= MOST:
        long = len(op.axis) > 1 and typical(op.axis[-2].extent, LEAST) >= LEAST
        return n if long else None
    found = {_period(t, last.var) for t in asked}
    p = found.pop() if len(found) == 1 else None
    return p if p is not None and n % p == 0 and n // p >= LEAST else None


def edges_of(op: ComputeOp, axis: IterVar) -> set[int]:
    """The places along an axis at which elements begin to be computed in another way, as the halves of a row
    whose pairs are turned: where it is compared with numbers in what chooses."""
    found = set()
    for choice in (e for body in op.body for e in preorder(body) if isinstance(e, Choice)):
        for test in preorder(choice.cond):
            if isinstance(test, LT | LE) and (test.a is axis.var or test.b is axis.var):
                other = const_int(test.b if test.a is axis.var else test.a)
                above = isinstance(test, LE) is (test.a is axis.var)  # x <= 3 and 3 < x
                found |= set() if other is None else {other + above}
    return found


def planes_of(op: ComputeOp) -> int | None:
    """How many planes the elements along the last axis are read from in turn, each of which lies along the
    axis before, as those of images with their channels first are where they come last; None where they are
    not, or of more than four."""
    if len(op.axis) < 2 or op.reduce_axis or len(op.body) != 1:
        return None
    *_, row, last = op.axis
    n = constant(last.extent)
    if n is None or not 2 <= n <= MOST or typical(row.extent, LEAST) < LEAST:
        return None
    for _, at in reads_of(op).plain:
        if at and step(at[-1], row) == 1 and step(at[-1], last) == 0:
            if any(step(i, last) == 1 for i in at[:-1]):
                return n
    return None


def read_alike(op: ComputeOp, axis: IterVar) -> int:
    """Of how many iterations of an axis, or a multiple, all are read alike wherever they begin, as each two
    are of rows that are repeated twice: where they lie is known then, but for a number. Not of many."""
    found = _repeating(op, axis, FloorDiv | FloorMod)
    return math.lcm(*(n for n in found if n <= MOST_ALIKE))


def uneven_over(op: ComputeOp, axis: IterVar) -> int:
    """The same of quotients alone, as of the places of an image in another size, and of any number."""
    return math.lcm(*_repeating(op, axis, FloorDiv))


def _repeating(op: ComputeOp, axis: IterVar, kinds: Any) -> list[int]:
    found = []
    for e in (e for body in op.body for e in preorder(body)):
        if isinstance(e, kinds) and axis.var in variables(e.a):
            by = constant(e.b) or 1
            found.append(by // math.gcd(by, _coefficient(e.a, axis.var)))
    return found


def _coefficient(e: Expr, var: Expr) -> int:
    """How far ``e`` moves with a variable, between limits; 1 where that is not known."""
    if isinstance(e, Min | Max):
        return math.gcd(*(_coefficient(side, var) for side in (e.a, e.b) if var in variables(side)))
    return poly(e).get((var,), 1)


def cut_within(op: ComputeOp, axis: IterVar) -> tuple[bool, bool]:
    """Whether an axis is cut somewhere along it: as of tensors that are joined, of margins, and of edges that
    are repeated; and as of places that start again at the beginning."""
    cut = again = False
    for e in (e for body in op.body for e in preorder(body)):
        if isinstance(e, Choice):
            cut = cut or axis.var in variables(e.cond)
        elif isinstance(e, Min | Max) and e.dtype.is_index:
            cut = cut or axis.var in variables(e)
        elif isinstance(e, FloorMod) and axis.var in variables(e.a):
            again = again or not 0 < (constant(e.b) or 0) <= MOST_ALIKE
    return cut, again


def _period(test: Expr, var: Expr) -> int | None:
    """After how many elements a condition on an axis repeats, where it asks for the rest of a division
    alone."""
    rests = [e for e in preorder(test) if isinstance(e, FloorMod) and e.a is var]
    periods = {const_int(e.b) for e in rests}
    p = periods.pop() if len(periods) == 1 else None
    return p if p is not None and 2 <= p <= MOST and not _asks_else(test, var) else None


def _asks_else(e: Expr, var: Expr) -> bool:
    """Whether an expression asks for an axis other than by the rest of a division."""
    if isinstance(e, FloorMod) and e.a is var:
        return False
    return e is var or any(_asks_else(c, var) for c in e.children())
