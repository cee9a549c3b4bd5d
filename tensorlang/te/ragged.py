"""Reductions whose range depends on where the result stands: ``te.reduce_axis((0, i + 1))`` inside the
function of a ``te.compute``.

The axis is given the range that holds for all elements, and the reduction the condition that leaves the rest
out (``where=``). So every schedule of a reduction is one of these too, and loops that nobody split or
vectorised end where the condition says. Knows computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arith.conditions import conjunction
from ..arith.facts import Facts
from ..core.node import intern
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import preorder
from .axis import IterVar, Range, dims_of
from .reducers import Reduce


def straightened(where: str, axes: Sequence[IterVar], body: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The body with every reduction over ranges that are the same for all elements.

    Raises DeclareError for a range that depends on an axis of another compute, or has no bounds.
    """
    first = body[0] if body else None
    if not isinstance(first, Reduce) or not any(_loops(a) for a in first.axes):
        return body
    facts = Facts(sizes=frozenset(v for v in dims_of(*(a.extent for a in axes)) if v.kind == "dim"))
    for a in axes:
        assert a.dom is not None
        facts = facts.bind(a.var, a.dom.min, make.sub(make.add(a.dom.min, a.extent), 1))
    own = {a.var for a in axes}
    conditions: list[Expr] = []
    for a in first.axes:
        assert a.dom is not None
        if _loops(a):
            conditions += _straighten(where, a, own, facts)
        own.add(a.var)
        facts = facts.bind(a.var, a.dom.min, make.sub(make.add(a.dom.min, a.extent), 1))
    return tuple(_where(e, conditions) if isinstance(e, Reduce) and e.axes is first.axes else e for e in body)


def _loops(a: IterVar) -> list[Var]:
    assert a.dom is not None
    return [v for e in a.dom for v in preorder(e) if type(v) is Var and v.kind == "loop"]


def _straighten(where: str, a: IterVar, own: set[Var], facts: Facts) -> list[Expr]:
    """Gives ``a`` the range for all elements; returns the conditions under which a value is in the range of
    one."""
    assert a.dom is not None
    begin, end = a.dom.min, make.add(a.dom.min, a.dom.extent)
    foreign = next((v for v in _loops(a) if v not in own), None)
    if foreign is not None:
        raise DeclareError(
            f"{where}: the range of `{a.name}` depends on the axis `{foreign.name}`, which is not its own",
            because="a range may speak of the axes of the result, and of reduction axes named before it",
            try_="te.reduce_axis inside the function of this te.compute",
        )
    lo = facts.bound(begin, lambda v: v.kind == "loop", False)
    hi = facts.bound(end, lambda v: v.kind == "loop", True)
    if lo is None or hi is None:
        raise DeclareError(
            f"{where}: the range of `{a.name}`, {begin} to {end}, has no bounds that hold for every element",
            because="loops run over the largest range, and leave out the rest",
            try_=f"te.reduce_axis((0, largest)), and where=te.all({begin} <= {a.name}, {a.name} < {end}) in "
            "the reduction",
        )
    extent = make.sub(hi, lo)
    a.dom = Range(lo, extent if facts.prove(make.ge(extent, 0)) is True else make.max_(extent, 0))
    return ([] if begin is lo else [make.le(begin, a.var)]) + ([] if end is hi else [make.lt(a.var, end)])


def _where(e: Reduce, conditions: list[Expr]) -> Expr:
    cond = (
        conjunction([*conditions, *([] if e.condition is None else [e.condition])])
        if conditions
        else e.condition
    )
    return intern(Reduce, e.reducer, e.sources, e.axes, cond, e.init, e.index)  # type: ignore[no-any-return]
