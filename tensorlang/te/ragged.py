"""Reductions whose range depends on where the result stands: ``te.reduce_axis((0, i + 1))`` inside the
function of a ``te.compute``, or, for rows of data, ``te.reduce_axis((indptr[i], indptr[i + 1]))``.

The axis is given the range that holds for all elements, and the reduction the condition that leaves the rest
out (``where=``). So every schedule of a reduction is one of these too, and loops that nobody split or
vectorised end where the condition says.

Of a range that is data nothing is known: it holds for all elements where the tensors that are read with it
lie, for values beyond have nothing to read. So the range of all is as large as these tensors, whatever the
numbers say. Knows computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..arith.conditions import conjunction, conjuncts, limits
from ..arith.facts import Facts
from ..core.node import intern
from ..errors import DeclareError
from ..expr import make
from ..expr.linear import from_poly, poly, reads_data
from ..expr.nodes import Access, Expr, IfThenElse, Var
from ..expr.walk import preorder, rewrite
from .axis import IterVar, Range, dims_of
from .reducers import Reduce
from .tensor import TensorRead


def straightened(where: str, axes: Sequence[IterVar], body: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The body with every reduction over ranges that are the same for all elements.

    Raises DeclareError for a range that depends on an axis of another compute, or has no bounds.
    """
    first = body[0] if body else None
    if not isinstance(first, Reduce) or not any(_depends(a) for a in first.axes):
        return body
    reads = [
        r
        for e in body
        if isinstance(e, Reduce)
        for s in (*e.sources, e.condition)
        if s is not None
        for r in _always(s)
    ]
    sizes = dims_of(*(a.extent for a in axes), *(n for r in reads for n in r.tensor.shape))
    # what is known while elements are computed: axes are within their ranges, and sizes are not negative
    facts = Facts(sizes=frozenset(v for v in sizes if v.kind == "dim"))
    for a in axes:
        facts = _bind(facts, a)
    own = {a.var for a in axes}
    conditions: list[Expr] = []
    for a in first.axes:
        if _depends(a):
            conditions += _straighten(where, a, own, facts, reads)
        # a later axis may depend on this one
        own.add(a.var)
        facts = _bind(facts, a)
    return tuple(_where(e, conditions) if isinstance(e, Reduce) and e.axes is first.axes else e for e in body)


def _bind(facts: Facts, a: IterVar) -> Facts:
    assert a.dom is not None
    return facts.bind(a.var, a.dom.min, make.sub(make.add(a.dom.min, a.dom.extent), 1))


def _range(a: IterVar) -> Range:
    """The range as it was declared."""
    assert a.dom is not None
    return a.dom if a.declared is None else a.declared


def _loops(a: IterVar) -> list[Var]:
    return [v for e in _range(a) for v in preorder(e) if type(v) is Var and v.kind == "loop"]


def _depends(a: IterVar) -> bool:
    return bool(_loops(a)) or any(reads_data(e) for e in _range(a))


def _straighten(
    where: str, a: IterVar, own: set[Var], facts: Facts, reads: Sequence[TensorRead]
) -> list[Expr]:
    """Gives ``a`` the range for all elements; returns the conditions under which a value is in the range of
    one."""
    begin, end = _range(a).min, make.add(_range(a).min, _range(a).extent)
    foreign = next((v for v in _loops(a) if v not in own), None)
    if foreign is not None:
        raise DeclareError(
            f"{where}: the range of `{a.name}` depends on the axis `{foreign.name}`, which is not its own",
            because="a range may speak of the axes of the result, and of reduction axes named before it",
            try_="te.reduce_axis inside the function of this te.compute",
        )
    inside = list(_inside(a.var, reads)) if reads_data(begin) or reads_data(end) else []
    ends = [limits(c, a.var) or (None, None) for c in inside]
    lo = _tightest(
        facts, [_for_all(facts, begin, False), *(_for_all(facts, e[0], False, True) for e in ends)], False
    )
    hi = _tightest(
        facts, [_for_all(facts, end, True), *(_for_all(facts, e[1], True, True) for e in ends)], True
    )
    if lo is None or hi is None:
        data = reads_data(begin if lo is None else end)
        raise DeclareError(
            f"{where}: the range of `{a.name}`, {begin} to {end}, has no bounds that hold for every element",
            because="loops run over the largest range, and leave out the rest"
            + (f"; no tensor read at [{a.name}] bounds how large data may be" if data else ""),
            try_=f"te.reduce_axis(({begin}, te.min({end}, largest)))"
            if data and lo is not None
            else f"te.reduce_axis((0, largest)), and where=te.all({begin} <= {a.name}, {a.name} < {end}) in "
            "the reduction",
        )
    extent = make.sub(hi, lo)
    # of no element, where the data may say so: a loop with a negative extent would be malformed
    whole = Range(lo, extent if facts.prove(make.ge(extent, 0)) is True else make.max_(extent, 0))
    if a.declared is not None and not all(x is y for x, y in zip(whole, a.dom or (), strict=True)):
        raise DeclareError(
            f"{where}: `{a.name}` is an axis of another compute, where it runs over {a.dom}",
            because=f"here it would run over {whole}",
            try_="a te.reduce_axis of its own for each te.compute",
        )
    a.declared, a.dom = _range(a), whole
    facts = _bind(facts, a)
    return [
        *([] if begin is lo else [make.le(begin, a.var)]),
        *([] if end is hi else [make.lt(a.var, end)]),
        *(c for c in inside if facts.prove(c) is not True),
    ]


def _inside(v: Var, reads: Sequence[TensorRead]) -> Iterator[Expr]:
    """That reads at sums with ``v`` in them are inside their tensors."""
    found: dict[Expr, None] = {}
    for read in reads:
        for index, extent in zip(read.indices, read.tensor.shape, strict=True):
            if not index.dtype.is_index or (v,) not in poly(index):
                continue
            rest = make.sub(index, v)
            if _from_data(rest):  # P[i] + k: as a loop over k ends, whatever P[i] holds
                found |= {make.le(make.neg(rest), v): None, make.lt(v, make.sub(extent, rest)): None}
            else:
                found |= {make.le(0, index): None, make.lt(index, extent): None}
    yield from (c for c in found if limits(c, v) is not None)


def _from_data(e: Expr) -> bool:
    """Whether ``e`` is one number that was read, and what is not data."""
    data = [(mono, c) for mono, c in poly(e).items() if any(reads_data(a) for a in mono)]
    return len(data) == 1 and len(data[0][0]) == 1 and data[0][1] == 1


def _for_all(facts: Facts, e: Expr | None, upper: bool, positions: bool = False) -> Expr | None:
    """A bound of ``e`` that holds for every element. Data that are ``positions`` count from 0; of others
    nothing is known."""
    if e is None:
        return None
    if positions:
        e = from_poly(
            {m: c for m, c in poly(e).items() if not (len(m) == 1 and reads_data(m[0]) and (c < 0) is upper)},
            e.dtype,
        )
    # what is read may be any number: a bound that needs it is none
    unknown = rewrite(e, lambda n: Var("data", n.dtype, "loop") if isinstance(n, Access) else None)
    return facts.bound(unknown, lambda v: v.kind == "loop", upper)


def _tightest(facts: Facts, candidates: Iterable[Expr | None], upper: bool) -> Expr | None:
    """The least of upper bounds, or the greatest of lower ones."""
    best: Expr | None = None
    for e in candidates:
        if best is None or e is None:
            best = e if best is None else best
        elif facts.prove(make.le(best, e) if upper else make.ge(best, e)) is not True:
            best = make.min_(best, e) if upper else make.max_(best, e)
    return best


def _always(e: Expr) -> Iterator[TensorRead]:
    """The reads that take place at every point."""
    # a read behind a choice may not take place: it proves nothing of the range
    nodes = preorder(e, lambda n: (n.cond,) if isinstance(n, IfThenElse) else n.children())
    return (n for n in nodes if type(n) is TensorRead)


def _where(e: Reduce, conditions: list[Expr]) -> Expr:
    """The reduction where ``conditions`` hold too. What it tests of data is tested only there: elsewhere
    there may be none to read."""
    if not conditions:
        return e
    inside = conjunction(conditions)
    given = [] if e.condition is None else conjuncts(e.condition)
    # what it reads may lie beyond the array outside the range
    lazy = (
        [make.if_then_else(inside, conjunction(data), make.const(False))]
        if (data := [c for c in given if reads_data(c)])
        else []
    )
    cond = conjunction([*conditions, *(c for c in given if not reads_data(c)), *lazy])
    return intern(Reduce, e.reducer, e.sources, e.axes, cond, e.init, e.index)  # type: ignore[no-any-return]
