"""rows: a loop runs where data says, also when it is tested further in.

``for k in 0..n: for j in vectorized 0..8: if P[i] <= k and k < P[i + 1]: S`` → ``for k in max(P[i],
0)..min(P[i + 1], n): for j …: S``

``for ko in 0..n // 8: for ki in vectorized 0..8: if ko * 8 + ki < L[i]: S`` → ``for ko in 0..min(ceil(L[i] /
8), n // 8): for ki …: if …: S``

So the rows of a sparse matrix cost what they hold under every schedule. What is read in front of a loop is
proved to be there, and not written in it; nothing is assumed of the numbers: they are cut to the range of the
loop before anything is computed with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..arith.conditions import conjuncts, denied
from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import add_poly, from_poly, poly, reads_data, split_by_atom, wraps
from ..expr.nodes import LE, LT, Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..loopir.in_bounds import holds, within
from ..loopir.stmt import Buffer, For, Func, If, Let, Load, Stmt, loads, preorder, rebuilt
from .guards import without

Ends = tuple[Expr | None, Expr | None]  # the first value, and the first behind the last


def rows(func: Func) -> Func:
    """The pass."""
    if not any(isinstance(s, If) and reads_data(s.cond) for s in preorder(func.body)):
        return func
    return func.with_body(
        run(_rows(func.body, Facts(sizes=frozenset(v for v in func.dims if v.kind == "dim"))))
    )


def _rows(s: Stmt, facts: Facts) -> Steps[Stmt]:
    if isinstance(s, For):
        found = _bounded(s, facts) if s.kind in ("serial", "parallel") else s
        if isinstance(found, If):
            return rebuilt(found, [(yield _rows(found.then, facts))])
        s = found
        return rebuilt(s, [(yield _rows(s.body, within(facts, s)))])
    if isinstance(s, If):
        sides = [(yield _rows(s.then, facts.assume(s.cond)))]
        if s.orelse is not None:
            sides.append((yield _rows(s.orelse, facts.assume(denied(s.cond)))))
        return rebuilt(s, sides)
    if isinstance(s, Let):
        return rebuilt(s, [(yield _rows(s.body, within(facts, s)))])
    parts = []
    for p in s.parts():
        parts.append((yield _rows(p, facts)))
    return rebuilt(s, parts)


def _bounded(s: For, facts: Facts) -> For | If:
    """A loop with the bounds that data give it, tested in the nest below; where it is run at all, if only its
    iterations are sure that data is there."""
    end = make.add(s.begin, s.extent)
    first, past = s.begin, end
    inner: dict[Var, tuple[Expr, Expr]] = {}
    implied: set[Expr] = set()
    proved = True
    for cond, surely in _asked(s, facts, inner):
        ends = _ends(cond, s.var, s.begin, end, inner)
        there = ends is not None and all(_there(load, facts) for load in loads(cond))
        if ends is None or not (surely or there):
            continue
        proved = proved and there
        if ends[0] is not None:
            first = make.max_(ends[0], first)
        if ends[1] is not None:
            past = make.min_(ends[1], past)
        if variables(cond).isdisjoint(inner):
            implied.add(cond)
    if first is s.begin and past is end:
        return s
    # no row ends before the loop begins: its length is a number, then, whatever data say
    if first is not s.begin:
        past = make.max_(past, s.begin)
    out = For(s.var, first, make.sub(past, first), s.kind, without(s.body, implied), s.attrs)
    return out if proved or (const_int(s.extent) or 0) > 0 else If(make.le(1, s.extent), out)


def _asked(s: For, facts: Facts, inner: dict[Var, tuple[Expr, Expr]]) -> Iterator[tuple[Expr, bool]]:
    """The conditions around all of the body that compare data with the loop, and whether each iteration asks
    them. Fills ``inner`` with the ends of the loops between."""
    written = _written(s.body)
    facts = within(facts, s)
    # what the first iterations of the loops between ask, they ask before anything else is read
    start: dict[Var, Expr] = {}
    below, surely = s.body, True
    while True:
        if isinstance(below, If) and below.orelse is None:
            conds = conjuncts(below.cond)
            for c in conds:
                if _compares(c, s.var) and written.isdisjoint(load.buffer for load in loads(c)):
                    yield c, surely
            surely = surely and all(facts.prove(substitute(c, start)) is True for c in conds)
            below = below.then
        elif isinstance(below, For):
            inner[below.var] = below.begin, make.sub(make.add(below.begin, below.extent), 1)
            start[below.var] = substitute(below.begin, start)
            surely = surely and facts.prove(make.le(1, substitute(below.extent, start))) is True
            below = below.body
        else:
            return


def _written(s: Stmt) -> set[Buffer]:
    return {b for p in preorder(s) for b in p.written()}


def _there(load: Load, facts: Facts) -> bool:
    return all(
        holds(c, facts)
        for i, n in zip(load.indices, load.buffer.shape, strict=True)
        for c in (make.le(0, i), make.lt(i, n))
    )


def _compares(cond: Expr, v: Var) -> bool:
    """Whether it compares data with an index that ``v`` is in."""
    if not isinstance(cond, LT | LE) or not cond.a.dtype.is_index or wraps(cond.a) is wraps(cond.b):
        return False
    return v in variables(cond.b if wraps(cond.a) else cond.a)


def _ends(cond: Expr, v: Var, begin: Expr, end: Expr, inner: Mapping[Var, tuple[Expr, Expr]]) -> Ends | None:
    """Where ``v`` has to be for the condition to hold at some iteration of the loops inside. Exact for any
    number that data may be: it is compared with the ends of the range before anything is computed with it."""
    assert isinstance(cond, LT | LE)
    upper = wraps(cond.b)
    index, data = (cond.a, cond.b) if upper else (cond.b, cond.a)
    q, r = split_by_atom(poly(index), v)
    if list(q) != [()] or q[()] <= 0 or not variables(data).isdisjoint([v, *inner]):
        return None
    for u, (lo, hi) in inner.items():
        c = r.get((u,), 0)
        r = add_poly(r, {(u,): c}, -1)
        r = add_poly(r, poly(lo if (c > 0) is upper else hi), c)
    rest, c = from_poly(r, v.dtype), q[()]
    if not variables(rest).isdisjoint([v, *inner]):
        return None
    smallest, largest = (make.add(make.mul(e, c), rest) for e in (begin, end))
    # index <= data, data < index: the same as index < data + 1, data + 1 <= index
    inclusive = isinstance(cond, LE) is upper
    if inclusive:
        smallest, largest = make.sub(smallest, 1), make.sub(largest, 1)
    if r or c != 1:
        data = make.min_(make.max_(data, smallest), largest)
    elif inclusive:
        data = make.min_(data, largest)
    edge = make.ceildiv(make.sub(make.add(data, 1) if inclusive else data, rest), c)
    return (None, edge) if upper else (edge, None)
