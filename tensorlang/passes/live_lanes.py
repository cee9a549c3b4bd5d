"""live lanes: a masked store has no more lanes than can be on.

``if jo <= 7: … else: C[jo * 48 : jo * 48 + 48] = t[0 : 48] if ramp(jo * 48, 1, 48) < x48(391)`` →
``… else: C[jo * 48 : jo * 48 + 8] = t[0 : 8] if ramp(jo * 48, 1, 8) < x8(391)``

The last of several tiles of columns has a copy of its own, which ``partition`` made for its masks; there the
ranges of the loops say how many columns are left. ``dead_code`` then shortens the sums that were stored.
Measured (Zen 4, one thread): products of 729 × 701 × 391, whose ninth tile of 48 columns has 7, take 0.89 of
the time, of 729 × 701 × 295 and 450 × 300 × 110 0.87.

Runs when unrolled loops are written out and the versions of rows are made, for those tell which tile is last.
"""

from __future__ import annotations

from bisect import bisect_left

from ..arith.conditions import conjuncts, denied
from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import LT, Broadcast, Expr, Ramp, Var, const_int
from ..expr.walk import rewrite as rewrite_expr
from ..loopir.stmt import NOTHING, For, Func, If, Load, Stmt, Store, load, loads, rebuilt
from .split_lanes import first_lanes

STEP = 8  # lanes: half of them take no half of the time


def live_lanes(func: Func) -> Func:
    """The pass."""
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    body = run(_statement(func.body, Facts(sizes=sizes)))
    return func if body is func.body else func.with_body(body)


def divisible(s: Store) -> bool:
    """Whether each lane of a store is made of that lane of what it reads, all as wide as itself: narrower
    numbers are multiplied together, by an instruction that ``codegen`` finds in whole vectors."""
    lanes, size = s.value.dtype.lanes, s.value.dtype.bytes
    for x in loads(s.value):
        if x.dtype.bytes < size:
            return False
    return all([_by_lanes(e, lanes) for e in s.exprs()])


def _by_lanes(e: Expr, lanes: int) -> bool:
    return e.dtype.lanes == 1 or (e.dtype.lanes == lanes and _all_by_lanes(e))


def _all_by_lanes(e: Expr) -> bool:
    """Whether each lane of a vector is made of those lanes of others."""
    # of a vector that has a name the parts have none. Kept with the node: sums that are written out are asked
    # about once for each of their steps
    return type(e) is not Var and e.memo(  # type: ignore[no-any-return]
        "by lanes", lambda: all(_by_lanes(c, e.dtype.lanes) for c in e.children())
    )


def rounded(lanes: int) -> int:
    """The least number of lanes that is worth vectors of its own and holds so many."""
    return -(-lanes // STEP) * STEP


def _statement(s: Stmt, facts: Facts) -> Steps[Stmt]:
    if isinstance(s, For):
        inside = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
        body = yield _statement(s.body, inside)
        return s if body is s.body else For(s.var, s.begin, s.extent, s.kind, body, s.attrs)
    if isinstance(s, If):
        then = yield _statement(s.then, facts.assume(s.cond))
        orelse = None if s.orelse is None else (yield _statement(s.orelse, facts.assume(denied(s.cond))))
        return s if then is s.then and orelse is s.orelse else If(s.cond, then, orelse)
    if isinstance(s, Store):
        return _store(s, facts)
    new = []
    for p in s.parts():
        new.append(_store(p, facts) if isinstance(p, Store) else (yield _statement(p, facts)))
    return rebuilt(s, new)


def _store(s: Store, facts: Facts) -> Stmt:
    # registers that are written in parts of themselves would be memory
    if s.mask is None or s.buffer.scope == "local":
        return s
    lanes = s.mask.dtype.lanes
    most = min(_most(c, facts) for c in conjuncts(s.mask))
    if most == 0:
        return NOTHING
    if most == lanes or not divisible(s):
        return s
    return first_lanes(_unmasked(s) if _all_on(s.mask, most, facts) else s, most, {})


def _most(mask: Expr, facts: Facts) -> int:
    """How many lanes of a mask can be on, at most: its first ones."""
    lanes, ends = mask.dtype.lanes, _ends(mask)
    if ends is None:
        return lanes
    first, end = ends
    # how many are too few, and from which on they are enough
    fewer = range(0, lanes, STEP)
    at = bisect_left(fewer, True, key=lambda n: facts.prove(make.le(end, make.add(first, n))) is True)
    return fewer[at] if at < len(fewer) else lanes


def _all_on(mask: Expr, lanes: int, facts: Facts) -> bool:
    """Whether so many lanes of a mask, its first ones, are on."""
    ends = _ends(mask)
    return ends is not None and facts.prove(make.le(make.add(ends[0], lanes), ends[1])) is True


def _ends(mask: Expr) -> tuple[Expr, Expr] | None:
    """The index of a mask's first lane, and the number at which its lanes are off."""
    if type(mask) is not LT or type(mask.a) is not Ramp or type(mask.b) is not Broadcast:
        return None
    first, end = mask.a.base, mask.b.value
    known = const_int(mask.a.stride) == 1 and const_int(end) is not None and first.dtype.is_index
    return (first, end) if known else None


def _unmasked(s: Store) -> Store:
    """The store without its mask, and without the same one in what it reads."""

    def read(e: Expr) -> Expr | None:
        return load(e.buffer, e.indices) if isinstance(e, Load) and e.mask is s.mask else None

    return s.of_same(rewrite_expr(s.value, read), s.indices)
