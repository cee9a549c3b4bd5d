"""one end: two guards that end the same iterations of a tile become one, at the smaller end.

``for i in unrolled 0..4: if io * 4 + i < m and s * m + io * 4 + i < n: S`` → ``for i in unrolled 0..4: if
io * 4 + i < min(m, n - s * m): S``

So are guards where a line is cut into stretches, one a thread, and those into tiles. Each would be a family
of its own for ``hoist_guards``, and tiles of four rows 16 bodies where four do. A local buffer of such a tile
was asked for by the bounds of the tensor alone: rows of it that are read under a smaller end need not be
computed beyond that.

Guards of plain loops become bounds of theirs (``tighten``), where the smaller end is as well.
"""

from __future__ import annotations

from ..arith.conditions import conjunction, conjuncts, never_negative
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import Poly, add_poly, from_poly, reads_data, wraps
from ..expr.nodes import Expr, Var
from ..expr.walk import substitute, variables
from ..loopir.stmt import (
    Alloc,
    Buffer,
    For,
    Func,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    loads,
    preorder,
    rewrite,
    touched,
)

_WRITTEN_OUT = ("unrolled", "vectorized")


def one_end(func: Func) -> Func:
    """The pass."""
    tiles = frozenset(s.var for s in preorder(func.body) if isinstance(s, For) and s.kind in _WRITTEN_OUT)
    if not tiles:
        return func

    # the ends under which rows are read come first, so that these and their own are joined in one way
    body = rewrite(func.body, lambda s: _as_read(s, tiles) if isinstance(s, Alloc) else None)
    body = rewrite(body, lambda s: _joined(s, tiles) if isinstance(s, If) else None)
    return func if body is func.body else func.with_body(body)


def _joined(s: If, tiles: frozenset[Var]) -> Stmt | None:
    """The test with guards of the same iterations as one."""
    left = list(conjuncts(s.cond))
    out: list[Expr] = []
    while left:
        cond = left.pop(0)
        others, left = left, []
        for other in others:
            smaller = _smaller(cond, other, tiles)
            if smaller is None:
                left.append(other)
            else:
                cond = smaller
        out.append(cond)
    return If(conjunction(out), s.then, s.orelse) if len(out) < len(conjuncts(s.cond)) else None


def _smaller(a: Expr, b: Expr, tiles: frozenset[Var]) -> Expr | None:
    """Both conditions as one that speaks of the smaller end, where they end the same iterations of a tile;
    else None."""
    p, q = _ends(a, tiles), _ends(b, tiles)
    if p is None or q is None:
        return None
    same = {m: c for m, c in p.items() if m and q.get(m) == c}
    counted = {v for m in same for x in m for v in variables(x)}
    ends = [{m: c for m, c in r.items() if m not in same} for r in (p, q)]
    if counted.isdisjoint(tiles) or any(
        v in counted for r in ends for m in r for x in m for v in variables(x)
    ):
        return None
    kind = a.a.dtype  # type: ignore[attr-defined]
    past = [from_poly(add_poly(r, {(): 1}), kind) for r in ends]
    return make.lt(from_poly({m: -c for m, c in same.items()}, kind), make.min_(*past))


def _ends(cond: Expr, tiles: frozenset[Var]) -> Poly | None:
    """What is not negative where a guard of a tile holds; None for other conditions."""
    if wraps(cond) or reads_data(cond) or tiles.isdisjoint(variables(cond)):
        return None
    return never_negative(cond)


# -- rows of a local buffer ----------------------------------------------------------------------------------


def _as_read(tile: Alloc, tiles: frozenset[Var]) -> Stmt | None:
    """Guards of what computes a local buffer, at the smaller end of those under which it is read."""
    if tile.buffer.scope != "local":
        return None
    inside = frozenset(s.var for s in preorder(tile.body) if isinstance(s, For | Let))
    reads: list[tuple[tuple[Expr, ...], tuple[Expr, ...]]] = []
    if not run(_reads(tile.body, tile.buffer, (), reads)) or not reads:
        return None
    body: Stmt = tile.body
    for d in range(len(tile.buffer.shape)):
        row = reads[0][0][d]
        if not isinstance(row, Var) or row not in tiles:
            continue
        asked = [c for c in reads[0][1] if row in variables(c) and inside & variables(c) == {row}]
        asked = [c for c in asked if all(_asks(c, row, at[d], conds, tiles) for at, conds in reads[1:])]
        for cond in asked:

            def ended(s: Stmt, cond: Expr = cond, row: Var = row, d: int = d) -> Stmt | None:
                return _ended(s, tile.buffer, d, cond, row, tiles)

            body = rewrite(body, ended)
    return None if body is tile.body else tile.with_parts(body)


def _asks(cond: Expr, row: Var, other: Expr, conds: tuple[Expr, ...], tiles: frozenset[Var]) -> bool:
    """Whether a read of row ``other`` stands under the same condition as that of ``row``."""
    if not isinstance(other, Var) or other not in tiles:
        return False
    same = substitute(cond, {row: other})
    return any(c is same for c in conds)


def _reads(
    s: Stmt, buffer: Buffer, conds: tuple[Expr, ...], found: list[tuple[tuple[Expr, ...], tuple[Expr, ...]]]
) -> Steps[bool]:
    """Collects the places at which a buffer is read other than to update the element itself, each with the
    conditions around it. False where something else has the buffer."""
    own = isinstance(s, Store) and s.buffer is buffer
    for e in s.exprs():
        for read in loads(e):
            if read.buffer is buffer and not (own and _same(read.indices, s.indices)):  # type: ignore[attr-defined]
                found.append((read.indices, conds))
    if not isinstance(s, Store | If | For | Let | Alloc | Seq) and buffer in touched(s):
        return False
    for n, part in enumerate(s.parts()):
        under = (*conds, *conjuncts(s.cond)) if isinstance(s, If) and n == 0 else conds
        if not (yield _reads(part, buffer, under, found)):
            return False
    return True


def _same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def _ended(s: Stmt, buffer: Buffer, d: int, cond: Expr, row: Var, tiles: frozenset[Var]) -> Stmt | None:
    """A test around nothing but stores to a row of a buffer, with ``cond``, that of reads of ``row``, where
    it ends the same iterations."""
    if not isinstance(s, If) or s.orelse is not None:
        return None
    own = _row(s.then, buffer, d)
    if own is None:
        return None
    asked = substitute(cond, {row: own})
    conds = conjuncts(s.cond)
    if any(c is asked for c in conds):
        return None
    same = any(own in variables(c) and _smaller(c, asked, tiles) is not None for c in conds)
    return If(conjunction([*conds, asked]), s.then) if same else None


def _row(s: Stmt, buffer: Buffer, d: int) -> Var | None:
    """The variable that is the place along ``d`` of all that a statement stores, if that is a buffer's."""
    row: Expr | None = None
    for x in preorder(s):
        if isinstance(x, Store):
            if x.buffer is not buffer or (row is not None and x.indices[d] is not row):
                return None
            row = x.indices[d]
        elif not isinstance(x, For | If | Seq):
            return None
    return row if isinstance(row, Var) else None
