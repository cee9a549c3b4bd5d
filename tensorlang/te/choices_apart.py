"""Reducers that choose one of two tuples by comparing one part, as the argmax of TVM's tutorials does: the
extreme of what is compared, the place of the first (last) element that is it, and what the sources are there.
The first two are reductions that vectors know. Exact, ties and NaN included. Knows te; not where it pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.node import intern
from ..expr import make
from ..expr.nodes import EQ, LE, LT, And, Cast, Choice, Compare, Expr, Max, Min, Or, Var
from ..expr.walk import substitute
from .axis import REDUCE, fresh_axis
from .compute import compute
from .reducers import MAX, MIN, Reduce, Reducer, max_value, min_value, reduce
from .tensor import ComputeOp, TensorRead


@dataclass(frozen=True, slots=True)
class Chosen:
    """A reduction whose result is the tuple with the extreme ``part``, by ``extreme`` the largest or the
    smallest, of equal ones the ``last`` or the first."""

    part: int
    extreme: Reducer
    last: bool


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison of two tuples: whether ``part`` of the left one is the larger (``more``) or the smaller.
    Of equal ones the left one, if ``equal``, or by the part ``other``, if that of the left one is
    ``less``."""

    part: int
    more: bool
    equal: bool = False
    other: int | None = None
    less: bool = False


def choice_of(op: ComputeOp) -> Chosen | None:
    """What a reduction over one axis chooses, if its reducer compares an element that is read, and of equal
    ones places; None for all else."""
    first = op.body[0] if op.body else None
    if type(first) is not Reduce or first.reducer.kind != "custom" or first.condition is not None:
        return None
    if len(first.axes) != 1:
        return None
    types = tuple(s.dtype for s in first.sources)
    lhs, rhs = (tuple(Var(f"{side}{i}", t) for i, t in enumerate(types)) for side in ("lhs", "rhs"))
    found = _chosen(first.reducer.combine(lhs, rhs), lhs, rhs)
    if found is None or types[found[0].part].is_bool:
        return None
    chosen, other = found
    if other is not None and not _is_place(first.sources[other], first.axes[0].var):
        return None
    key = first.sources[chosen.part]
    # an element that is computed could be rounded in another way when it is looked for
    return chosen if type(key.a if type(key) is Cast else key) is TensorRead else None


def _is_place(e: Expr, k: Var) -> bool:
    """Whether an expression is the place itself, in a type that holds it."""
    return e is k or (type(e) is Cast and e.a is k and e.dtype.code == "int" and e.dtype.bits >= k.dtype.bits)


def _chosen(
    combined: tuple[Expr, ...], lhs: tuple[Var, ...], rhs: tuple[Var, ...]
) -> tuple[Chosen, int | None] | None:
    """What a combination of two tuples is, each part of which is that of the one or of the other by one
    comparison; and the part that tells which of equal ones."""
    cond: Expr | None = None
    keeps = False  # whether the left one is taken where it holds
    extremes = dict[int, bool]()  # the parts that are the larger, or the smaller, of the two
    for i, (e, a, b) in enumerate(zip(combined, lhs, rhs, strict=True)):
        if not isinstance(e, Choice | Max | Min):
            return None
        if not _are(e, a, b):
            return None
        if isinstance(e, Max | Min):
            extremes[i] = type(e) is Max
            continue
        if cond is not None and (e.cond is not cond or (e.a is a) is not keeps):
            return None
        cond, keeps = e.cond, e.a is a
    found = None if cond is None else _compared(cond, lhs, rhs)
    if found is None:
        return None
    largest = found.more is keeps
    if any(i != found.part or larger is not largest for i, larger in extremes.items()):
        return None
    last = keeps is not (found.equal if found.other is None else found.less)
    return Chosen(found.part, MAX if largest else MIN, last), found.other


def _are(e: Choice | Compare | Max | Min, a: Var, b: Var) -> bool:
    """Whether the two sides of an expression are these, in whichever order."""
    return (e.a is a and e.b is b) or (e.a is b and e.b is a)


def _compared(cond: Expr, lhs: tuple[Var, ...], rhs: tuple[Var, ...]) -> _Compared | None:
    """What a condition compares, if it is of two parts, or of two parts and, where these are equal, of two
    others."""
    pairs = list(enumerate(zip(lhs, rhs, strict=True)))
    if isinstance(cond, LT | LE):
        part = next((i for i, (a, b) in pairs if _are(cond, a, b)), None)
        return None if part is None else _Compared(part, cond.b is lhs[part], isinstance(cond, LE))
    if type(cond) is not Or:
        return None
    for better, tie in ((cond.a, cond.b), (cond.b, cond.a)):
        if type(better) is not LT or type(tie) is not And:
            continue
        by = _compared(better, lhs, rhs)
        for same, then in ((tie.a, tie.b), (tie.b, tie.a)):
            other = _compared(then, lhs, rhs) if isinstance(then, LT | LE) else None
            if by is None or other is None or other.part == by.part or type(same) is not EQ:
                continue
            if _are(same, lhs[by.part], rhs[by.part]):
                return _Compared(by.part, by.more, other=other.part, less=not other.more)
    return None


def chosen_apart(
    op: ComputeOp, chosen: Chosen, named: Callable[[str], str]
) -> tuple[list[ComputeOp], tuple[Expr, ...]]:
    """Definitions of the extreme and of its place in front of ``op``, and what ``op`` is of them: reduced
    over that place alone. Where there is none, as beside a NaN or where nothing is better than what the
    reduction begins with, it is made as it is declared."""
    first = op.body[0]
    assert isinstance(first, Reduce)
    (axis,) = first.axes
    assert axis.dom is not None
    low, extent, kind = axis.dom[0], axis.extent, axis.var.dtype
    none = min_value(kind) if chosen.last else max_value(kind)
    key, start = first.sources[chosen.part], first.start()
    shape = tuple(a.extent for a in op.axis)
    own = tuple(a.var for a in op.axis)

    def over(reducer: Reducer, source: Callable[[Expr], Expr], what: str) -> tuple[ComputeOp, Expr]:
        def element(*at: Any) -> Expr:
            k = fresh_axis(axis.name, extent, REDUCE, low)
            moved = {a: make.as_expr(b) for a, b in zip(own, at, strict=True)} | {axis.var: k.var}
            return reduce(reducer, (substitute(source(axis.var), moved),), k, None, None)[0]

        made = compute(
            shape, element, name=named(f"{op.name}.{what}"), varargs_names=[a.name for a in op.axis]
        )
        assert isinstance(made.op, ComputeOp)
        return made.op, made(*own)

    extreme, best = over(chosen.extreme, lambda k: key, "extreme")
    same = lambda k: make.select(make.eq(key, best), k, none)
    at, place = over(MIN if not chosen.last else MAX, same, "place")
    begun = start[chosen.part]
    less, more = (begun, best) if chosen.extreme is MAX else (best, begun)
    found = make.and_(make.lt(less, more), make.ne(place, none))
    # the element at that place is better than what the reduction begins with
    begin, end = make.select(found, place, low), make.select(found, place, low + extent - 1)
    within = make.and_(make.le(begin, axis.var), make.le(axis.var, end))
    body = tuple(
        intern(Reduce, first.reducer, first.sources, first.axes, within, first.init, i)
        for i in range(len(op.body))
    )
    return [extreme, at], body
