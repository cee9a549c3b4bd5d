"""Rows of a tile that are computed though they may not exist, so that two heights of a tile share their code:
what they read is what the last row reads that does exist, and they are not written. Knows no versions:
``hoist_guards`` says which rows.

``if i * 4 + 3 < m: acc[3] = acc[3] + A[i * 4 + 3, k]`` → ``acc[3] = acc[3] + A[min(i * 4 + 3, m - 1), k]``
"""

from __future__ import annotations

from ..arith.conditions import conjunction, conjuncts, never_negative
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import add_poly, from_poly, poly, reads_data
from ..expr.nodes import Const, Expr, Var
from ..expr.walk import rewrite, variables
from ..loopir.stmt import Alloc, Buffer, If, Load, Seq, Stmt, Store, load, loads, map_exprs, preorder, rebuilt

Place = tuple[Buffer, int, Expr]  # of a buffer in one dimension

_KNOWN = -1  # the row of what has no test, the first one's among it
_OTHER = 1 << 30  # the row of what is done where a row does not exist


class SpareRows:
    """The rows of a tile that may be computed though they do not exist: their sums stay in its own buffers,
    and they read what the last row reads that does. Rows without a test exist."""

    def __init__(self, tile: Stmt, rows: tuple[tuple[Expr, ...], ...], dims: frozenset[Var]) -> None:
        self.tile = tile
        self.dims = dims
        self.held = {
            st.buffer for st in preorder(tile) if isinstance(st, Alloc) and st.buffer.scope == "local"
        }
        self.row = {c: n for n, conds in enumerate(rows) for c in conds}
        # how many rows follow that exist, if none is negative
        found = {n: never_negative(conds[0]) for n, conds in enumerate(rows)}
        self.room = {n: p for n, p in found.items() if p is not None}
        if 0 in self.room and 1 in self.room:
            self.room[_KNOWN] = add_poly(self.room[0], add_poly(self.room[0], self.room[1], -1))
        # the places of ``held`` that are written and read, with the row whose test they stand under
        self.touched: list[tuple[int, Buffer, tuple[Expr, ...]]] = []
        # what rows read of the rest: the index in each dimension
        self.read: dict[int, dict[Place, None]] = {_KNOWN: {}}
        run(self._look(tile, _KNOWN))

    def _look(self, s: Stmt, row: int) -> Steps[None]:
        if isinstance(s, If):
            row = max([row, *(self.row.get(c, _KNOWN) for c in conjuncts(s.cond))])
        if isinstance(s, Store) and s.buffer in self.held:
            self.touched.append((row, s.buffer, s.indices))
        for e in s.exprs():
            for x in loads(e):
                if x.buffer in self.held:
                    self.touched.append((row, x.buffer, x.indices))
                else:
                    found = self.read.setdefault(row, {})
                    found.update({(x.buffer, d, i): None for d, i in enumerate(x.indices)})
        for n, part in enumerate(s.parts()):
            yield self._look(part, _OTHER if n and isinstance(s, If) else row)

    def _apart(self, n: int, b: Buffer) -> bool:
        """Whether a number in one dimension tells the places of a row from all others."""
        places = [(row == n, at) for row, buffer, at in self.touched if buffer is b]
        for d in range(len(b.shape)):
            if all(type(at[d]) is Const for _, at in places):
                mine, others = ({at[d] for own, at in places if own is side} for side in (True, False))
                if mine and mine.isdisjoint(others):
                    return True
        return False

    def _index(self, n: int, key: Place) -> Expr | None:
        """That index of a row no later than the last that exists; None when it cannot be said."""
        buffer, d, index = key
        if key in self.read[_KNOWN]:
            return index
        p = self.room.get(n)
        if p is None or index.dtype.lanes > 1 or reads_data(index):
            return None
        ours = poly(index)
        # by how much it grows with the row, as it does with the loops over tiles
        shared = {m: k for m, k in ours.items() if m in p and self._of_loops(m)}
        factors = {-k // p[m] for m, k in shared.items()}
        factor = next(iter(factors), 0)
        if any(k + factor * p[m] for m, k in shared.items()):
            return None
        at_last = add_poly(ours, p, factor)
        before = self.room.get(n - 1)
        if len(factors) != 1 or factor <= 0 or before is None:
            return None
        # the row before has the same last one
        others = (*self.read[_KNOWN], *self.read.get(n - 1, ()))
        near = [poly(e) for b, at, e in others if b is buffer and at == d]
        if not any(add_poly(other, before, factor) == at_last for other in near):
            return None
        return make.min_(index, from_poly(at_last, index.dtype))

    def _of_loops(self, monomial: tuple[Expr, ...]) -> bool:
        return any(v not in self.dims for x in monomial for v in variables(x))

    def computed(self, rows: range) -> Stmt | None:
        """The tile where these rows ask nothing until they are written; None where one has no places of its
        own among the sums, or may read out of bounds."""
        for n in rows:
            used = {b for row, b, _ in self.touched if row == n}
            if not used or not all(self._apart(n, b) for b in used):
                return None
            if any(self._index(n, key) is None for key in self.read.get(n, ())):
                return None
        return run(self._computed(self.tile, rows))

    def _computed(self, s: Stmt, rows: range) -> Steps[Stmt]:
        if isinstance(s, If) and s.orelse is None:
            mine = [c for c in conjuncts(s.cond) if self.row.get(c) in rows]
            inner = [st for st in preorder(s.then) if not isinstance(st, Seq)]
            if mine and all(isinstance(st, Store) and st.buffer in self.held for st in inner):
                then = s.then
                for n in sorted({self.row[c] for c in mine}):
                    then = self._bounded(then, n)
                left = [c for c in conjuncts(s.cond) if c not in mine]
                return If(conjunction(left), then) if left else then
        parts = []
        for p in s.parts():
            parts.append((yield self._computed(p, rows)))
        return rebuilt(s, parts)

    def _bounded(self, s: Stmt, n: int) -> Stmt:
        def swap(e: Expr) -> Expr | None:
            if type(e) is not Load or e.buffer in self.held:
                return None
            at = [self._index(n, (e.buffer, d, i)) for d, i in enumerate(e.indices)]
            return load(e.buffer, tuple(i for i in at if i is not None), e.mask)

        return map_exprs(s, lambda e: rewrite(e, swap))
