"""Functions of their own for the loop nests of a long kernel.

LLVM takes longer than its share for a function of many loops (256 stencils in one function 2.8 ms each, 32 of
them 1.1), and a function costs it 2 ms by itself. So the nests of a long kernel go into functions, a group of
neighbours each. Nests share nothing with their neighbours but buffers and sizes: a group is called with these
as arguments, as the body of a parallel loop is. What only one group uses is allocated there, so that no
function holds hundreds of buffers. A call takes two nanoseconds; kernels of few nests stay whole. Knows where
nests stand; what a loop becomes is the business of ``statement``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from ...core.recursion import Steps, run
from ...expr.nodes import CALLS, Const, Expr, Ramp
from ...loopir.stmt import (
    Alloc,
    Buffer,
    Extern,
    For,
    If,
    Let,
    OpenedWithin,
    Seq,
    Stmt,
    Store,
    loads,
    preorder,
    rebuilt,
    rewrite,
    seq,
    touched,
)
from .emitter import Emitter
from .parallel import captured, inner_function, name_within, variable_type

MOST_NESTS = 24  # of a function
MOST_WITHIN = 64  # of the body of a loop, whose iterations share addresses when it is one function
MOST_STATEMENTS = 1500  # of a function of several nests
LEAST_PLAIN = 32  # statements without loops that are worth a function
TAIL_ROWS = 4  # of a tile at the end that is a function


class Apart(Stmt):
    """What is to be a function of its own. Made here, for ``statement`` to emit; no statement of the loop
    IR."""

    __slots__ = ("body",)

    def __init__(self, body: Stmt) -> None:
        self.body = body

    def parts(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_parts(self, *parts: Stmt) -> Stmt:
        return Apart(parts[0])


Opened = list[tuple[int, "Alloc | Let"]]  # what holds all that follows, before the item of that number


class Size(NamedTuple):
    """Of a statement: the loops that stand in no other, all loops, and statements."""

    nests: int
    loops: int
    statements: int


def _tail(s: Stmt) -> Stmt | None:
    """A tile at the end with a function of its own, where rows that are there or not call functions of
    mathematics: whole tiles have the registers for themselves then."""
    if not isinstance(s, If) or s.orelse is None or isinstance(s.orelse, If):
        return None
    loops = [any(isinstance(one, For) for one in preorder(side)) for side in (s.then, s.orelse)]
    if not all(loops):
        return None
    rows = sum(isinstance(one, If) and one.orelse is None and _calls(one.then) for one in preorder(s.orelse))
    return If(s.cond, s.then, Apart(s.orelse)) if rows >= TAIL_ROWS else None


def _calls(s: Stmt) -> bool:
    """Whether ``s`` is nothing but stores, and one of what a function gives."""
    stores = s.stmts if isinstance(s, Seq) else (s,)
    return all(isinstance(one, Store) for one in stores) and any(
        e.contains & CALLS for one in stores for e in one.exprs()
    )


Sizes = dict[Stmt, Size]  # of what holds others


def apart(body: Stmt) -> Stmt:
    """The body of a kernel with its nests in functions of their own, where many stand side by side."""
    body = rewrite(body, _tail)
    sizes = _sizes(body)
    return run(_cut(body, MOST_NESTS, sizes)) if _size(body, sizes).loops > MOST_NESTS else body


def _sizes(body: Stmt) -> Sizes:
    result: Sizes = {}
    for s in reversed(list(preorder(body))):  # what a statement holds comes before it
        parts = s.parts()
        if parts:
            nests, loops, statements = map(sum, zip(*(_size(p, result) for p in parts), strict=True))
            loop = isinstance(s, For)
            result[s] = Size(1 if loop else nests, loops + loop, statements + 1)
    return result


def _size(s: Stmt, sizes: Sizes) -> Size:
    return sizes.get(s, _ONE)


_ONE = Size(0, 0, 1)


def _cut(s: Stmt, most: int, sizes: Sizes) -> Steps[Stmt]:
    opened, items = _opened(s, sizes)
    cut = []
    for item in items:
        many = _size(item, sizes).loops > MOST_NESTS
        cut.append((yield _within(item, most, sizes)) if many else item)
    if sum(_size(i, sizes).nests for i in items) > most:
        return _in_groups(opened, cut, [_size(i, sizes) for i in items])
    same = all(a is b for a, b in zip(items, cut, strict=True))
    return s if same else _closed(opened, cut)


def _within(item: Stmt, most: int, sizes: Sizes) -> Steps[Stmt]:
    parts = []
    for p in item.parts():
        parts.append((yield _cut(p, MOST_WITHIN if isinstance(item, For) else most, sizes)))
    return rebuilt(item, parts)


def _opened(s: Stmt, sizes: Sizes) -> tuple[Opened, list[Stmt]]:
    """The statements of a block one after the other, and what is opened among them for all that follow."""
    opened: Opened = []
    items: list[Stmt] = []
    within = OpenedWithin()
    while True:
        if isinstance(s, Seq) and s.stmts:
            items += s.stmts[:-1]
            s = s.stmts[-1]
        elif isinstance(s, Let) or (
            isinstance(s, Alloc)
            and (s.buffer.scope != "local" or _size(s, sizes).loops >= MOST_NESTS)
            and not within.have(s.buffer, items)
        ):
            opened.append((len(items), s))
            s = s.body
        else:  # what may live in registers stays in one function
            return opened, [*items, s]


def _closed(opened: Opened, items: list[Stmt]) -> Stmt:
    """The block that ``_opened`` took apart."""
    after: list[Stmt] = []
    for at in reversed(range(len(items))):
        after.append(items[at])
        while opened and opened[-1][0] == at:
            after = [opened.pop()[1].with_parts(seq(*reversed(after)))]
    return seq(*reversed(after))


def _in_groups(opened: Opened, items: list[Stmt], sizes: list[Size]) -> Stmt:
    """Neighbours as functions, and in each the buffers that no other touches."""
    life = _lives(opened, items)
    starts = _starts(opened, sizes, life)
    group_of = [n for n, (a, b) in enumerate(itertools.pairwise([*starts, len(items)])) for _ in range(a, b)]
    outside: Opened = []
    inside: list[list[Alloc]] = [[] for _ in starts]
    for at, w in opened:
        n = group_of[at]
        first, last = life.get(w.buffer, (at, -1)) if isinstance(w, Alloc) else (at, -1)
        if isinstance(w, Alloc) and first >= starts[n] and last >= 0 and group_of[last] == n:
            inside[n].append(w)
        else:
            outside.append((n, w))
    groups: list[Stmt] = []
    for n, (a, b) in enumerate(itertools.pairwise([*starts, len(items)])):
        body = seq(*items[a:b])
        for w in reversed(inside[n]):
            body = w.with_parts(body)
        loops = any(n.loops for n in sizes[a:b])
        groups.append(Apart(body) if b - a >= LEAST_PLAIN or loops else body)
    return _closed(outside, groups)


def _starts(opened: Opened, sizes: list[Size], life: dict[Buffer, tuple[int, int]]) -> list[int]:
    """Where groups begin: where the one before is full and nothing lives that might be in registers."""
    values = {at for at, w in opened if isinstance(w, Let)}
    local = {
        first: last for b, (first, last) in sorted(life.items(), key=lambda x: x[1]) if b.scope == "local"
    }
    starts, nests, size, alive = [0], 0, 0, -1
    for at, one in enumerate(sizes):
        excess = max((nests + one.nests) / MOST_NESTS, (size + one.statements) / MOST_STATEMENTS)
        if at > starts[-1] and (at in values or excess > (2 if alive >= at else 1)):
            starts.append(at)
            nests = size = 0
        nests, size, alive = nests + one.nests, size + one.statements, max(alive, local.get(at, -1))
    return starts


def _lives(opened: Opened, items: list[Stmt]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last item that touch each buffer that is opened here. What a name stands for is read
    before the item that follows it."""
    life: dict[Buffer, tuple[int, int]] = {}
    own = {w.buffer for _, w in opened if isinstance(w, Alloc)}
    named: dict[int, set[Buffer]] = {}
    for at, w in opened:
        if isinstance(w, Let):
            named.setdefault(at, set()).update(n.buffer for n in loads(w.value))
    for at, item in enumerate(items):
        here = set().union(named.get(at, ()), *(touched(s) for s in preorder(item)))
        for b in own & here:
            life[b] = (life.get(b, (at, at))[0], at)
    return life


def emit(
    em: Emitter,
    s: Stmt,
    writes: frozenset[Buffer],
    emitted: Callable[[Emitter, Stmt], Steps[None]],
    leave_if: Callable[[Emitter, str], None],
) -> Steps[None]:
    """The statement ``s`` as a call. ``emitted`` and ``leave_if`` are those of ``statement``, which knows
    this file."""
    buffers, names = captured(s)
    if any(b.scope == "local" for b in buffers) and _in_registers(
        s, {b for b in buffers if b.scope == "local"}
    ):
        yield emitted(em, s)
        return
    name = name_within(em, "nest")
    row = ("i64 %row", f"i64 {em.row}") if em.row is not None else ()
    inner, body = inner_function(em, name, buffers, names, writes, *row[:1], row="%row" if row else None)
    body.streamed = em.streamed
    yield emitted(body, s)
    body.block.end = "  ret i32 0"
    em.module.add(inner)

    em.at = em.depth
    passed = [f"ptr {em.storage[b].pointer}" for b in buffers] + [
        f"{variable_type(em, v)} {em.vars[v]}" for v in names
    ]
    passed += row[1:]
    status = em.ins(f"call i32 @{name}({', '.join(passed)})")
    if body.may_fail:
        leave_if(em, status)


def _in_registers(s: Stmt, buffers: set[Buffer]) -> bool:
    """Whether one of the buffers may be registers: ``s`` reads and writes it at constant places only."""
    places: list[tuple[Buffer, tuple[Expr, ...]]] = []
    for one in preorder(s):
        places += [(n.buffer, n.indices) for e in one.exprs() for n in loads(e)]
        if isinstance(one, Store):
            places.append((one.buffer, one.indices))
        elif isinstance(one, Extern):
            buffers = buffers.difference(one.buffers())
    moving = {b for b, where in places if b in buffers and not all(map(_constant, where))}
    return bool(buffers - moving)


def _constant(e: Expr) -> bool:
    return isinstance(e, Const) or (isinstance(e, Ramp) and isinstance(e.base, Const))
