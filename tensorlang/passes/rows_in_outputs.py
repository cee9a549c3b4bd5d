"""rows in outputs: what is kept of a row until the row is done lies where its result will.

``for i: { E: float32[1, n]; nest of E; nest that reads E; nest of Y[i, …] }`` → E is written into Y[i, …]

The lines of a result that no cache holds come while the longest stage of a row is computed, which writes them
first; a last stage of a few operations would wait for each. And a row less is kept near. Measured (Zen 4,
one thread): softmax of 128 × 32,000 takes 0.75 of the time, of 64 × 50,257 0.85, of 500 × 6000 0.78, of one
row of 100,000 0.89. Rows that the first cache holds stay where they begin at a line: of 3500 × 870 it would
be 0.9 to 1.1.

A buffer of one row (its other dimensions are 1) moves where one nest writes all of the result's row behind
whatever reads the buffer, or reads it itself at the very element that it writes, each once; where nothing
else touches that result, and every turn of the loops around, if there are any, has a row of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Expr, FloorDiv, FloorMod, Var, const_int
from ..expr.walk import variables
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import Alloc, Buffer, Extern, For, Func, If, Stmt, Store, loads, preorder, rebuilt, touched
from .block import chain

LEAST = 1 << 14  # bytes of a row
STREAM = "stream_stores"  # past the caches, in which a row would have to stay


def rows_in_outputs(func: Func) -> Func:
    """The pass."""
    outputs = [b for b in func.outputs if b.strides is None and b not in func.updates]
    if not outputs or not any(isinstance(s, Alloc) for s in preorder(func.body)):
        return func
    stores: Counter[Buffer] = Counter()
    other: set[Buffer] = set()
    for s in preorder(func.body):
        if isinstance(s, Store):
            stores[s.buffer] += 1
        elif isinstance(s, Extern):
            other.update(s.buffers())
        other.update(node.buffer for e in s.exprs() for node in loads(e))
    free = {b for b in outputs if stores[b] == 1 and b not in other}
    if not free:
        return func
    body = run(_walk(func.body, (), free))
    return func if body is func.body else func.with_body(body)


def _walk(s: Stmt, loops: tuple[For, ...], free: set[Buffer]) -> Steps[Stmt]:
    if isinstance(s, For):
        if any(key == STREAM for key, _ in s.attrs):
            return s
        loops = (*loops, s)
    parts = []
    for p in s.parts():
        parts.append((yield _walk(p, loops, free)))
    s = rebuilt(s, parts)
    if isinstance(s, Alloc):
        moved = _moved(s, loops, free)
        if moved is not None:
            return moved
    return s


def _moved(s: Alloc, loops: tuple[For, ...], free: set[Buffer]) -> Stmt | None:
    """The block with its first buffer in the result that it stands for, None where there is none."""
    b = s.buffer
    if b.strides is not None or not _is_row(b):
        return None
    _, items = chain(s)
    uses = [n for n, item in enumerate(items) if any(b in touched(st) for st in preorder(item))]
    for n, item in enumerate(items):
        found = [st for st in preorder(item) if isinstance(st, Store) and st.buffer in free]
        for store in found:
            out = store.buffer
            if uses and out.dtype is b.dtype and len(out.shape) == len(b.shape) and uses[0] < n >= uses[-1]:
                row = _row(item, store, b, loops)
                if row is not None:
                    free.discard(out)
                    return _relocated(s, out, row)
    return None


def _is_row(b: Buffer) -> bool:
    """Whether only the last dimensions of a buffer are more than one element, and those are many."""
    size = 1
    for n in b.shape:
        size *= const_int(n) or LEAST
    return len(b.shape) > 1 and const_int(b.shape[0]) == 1 and size * b.dtype.bytes >= LEAST


def _row(item: Stmt, store: Store, b: Buffer, loops: tuple[For, ...]) -> list[Expr] | None:
    """The indices of the row of the result for the dimensions of ``b`` that are 1, 0 for the others; None
    where ``b`` may not lie there."""
    inner = {st.var for st in preorder(item) if isinstance(st, For)}
    row: list[Expr] = []
    for n, whole, i in zip(b.shape, store.buffer.shape, store.indices, strict=True):
        if const_int(n) == 1 and const_int(whole) != 1:
            if inner & variables(i):
                return None
            row.append(i)
        elif n is whole:
            row.append(make.const(0, i.dtype))
        else:
            return None
    if store.mask is not None or not _apart(row, loops) or not _always(item, store, inner):
        return None
    once = _once(store.indices, [st for st in preorder(item) if isinstance(st, For)])
    for st in preorder(item):
        reads = [node for e in st.exprs() for node in loads(e) if node.buffer is b]
        if (b in touched(st) and isinstance(st, Store) and st.buffer is b) or (reads and st is not store):
            return None
        if reads and not once:  # a last vector moved back would read what the one before it has written
            return None
        for node in reads:  # at the very element: a neighbour may be written before it is read
            at = [i if n is None else n for i, n in zip(node.indices, _ones(b), strict=True)]
            own = [i if n is None else n for i, n in zip(store.indices, _ones(b), strict=True)]
            if any(x is not y for x, y in zip(at, own, strict=True)):
                return None
    return row


def _once(place: Sequence[Expr], loops: Sequence[For]) -> bool:
    """Whether no two iterations have the same place, for sure: the loops are digits of its indices."""
    extents = {s.var: const_int(s.extent) for s in loops}
    left = {v for v, n in extents.items() if n != 1}
    for index in place:
        digits: list[tuple[int, Var]] = []
        for mono, c in poly(index).items():
            if len(mono) == 1 and isinstance(mono[0], Var) and mono[0] in extents:
                digits.append((c, mono[0]))
            elif any(v in extents for x in mono for v in variables(x)):
                return False
        reach: int | None = 1  # places that the digits before this one take
        for c, v in sorted(digits, key=lambda d: d[0]):
            if reach is None or c < reach:
                return False
            n = extents[v]
            reach = None if n is None else reach + c * (n - 1)
            left.discard(v)
    return not left


def _ones(b: Buffer) -> list[Expr | None]:
    """0 for the dimensions of one element, which are the row's own."""
    return [make.const(0, "int32") if const_int(n) == 1 else None for n in b.shape]


def _always(item: Stmt, store: Store, inner: set[Var]) -> bool:
    """Whether the nest writes its row in every turn of the loops around it: what guards the store speaks of
    its own loops only."""

    def visit(s: Stmt) -> Steps[bool | None]:
        """Whether the store stands in ``s``; None where something else decides about it."""
        if s is store:
            return True
        for p in s.parts():
            there = yield visit(p)
            if there is None:
                return None
            if there:
                guard = isinstance(s, If) and not variables(s.cond) <= inner
                return None if guard or (isinstance(s, If) and loads(s.cond)) else True
        return False

    return bool(run(visit(item)))


def _apart(row: list[Expr], loops: tuple[For, ...]) -> bool:
    """Whether every turn of the loops has another row, for sure: each loop is an index of it, or several of
    them are the digits of its number."""
    left = {s.var for s in loops if const_int(s.extent) != 1}
    digits: dict[Var, list[tuple[int, int | None]]] = {}
    for i in row:
        if const_int(i) is not None:
            continue
        size = const_int(i.b) if isinstance(i, FloorMod) else None
        if isinstance(i, FloorMod):
            if size is None:
                return False
            i = i.a
        step = const_int(i.b) if isinstance(i, FloorDiv) else 1
        if isinstance(i, FloorDiv):
            i = i.a
        if not isinstance(i, Var) or step is None:
            return False
        digits.setdefault(i, []).append((step, size))
    for v, found in digits.items():
        reach: int | None = 1
        for step, size in sorted(found, key=lambda x: x[0]):
            if step != reach:
                return False
            reach = None if size is None else step * size
        if reach is None:
            left.discard(v)
    return not left


def _relocated(s: Alloc, out: Buffer, row: list[Expr]) -> Stmt:
    """The block without its first buffer, whose elements lie in that row of ``out``."""
    b = s.buffer

    def place(at: Place) -> Place | None:
        if at.buffer is not b:
            return None
        return Place(out, tuple(make.add(r, i) for r, i in zip(row, at.indices, strict=True)), at.mask)

    moved = relocate(s, place)
    assert isinstance(moved, Alloc)
    return moved.body
