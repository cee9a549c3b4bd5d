"""reuse storage: workspace that is no longer read becomes the workspace of what is computed next.

``X: float32[n]; nest of X; Y: float32[n]; nest of Y; Z: float32[n]; nest of Z reading Y`` → Z is written into
X

A buffer takes the memory of another when it has the same dtype and the other has at least its size and is not
touched any more. When the nest that first writes a buffer is also the last that reads the other, it may still
take it over (in place), provided that the buffers have one shape, that the nest has a single store, which
reads the other only at the very element it writes, and that it writes no element twice: a second time it
would read its own result. The same way a workspace is kept in the output it ends up in.

Runs before loops are copied, when each nest of a stage still stands once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Expr, Min, Var, const_int
from ..expr.walk import variables
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import (
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    Seq,
    Stmt,
    Store,
    loads,
    preorder,
    rebuilt,
    seq,
    touched,
)
from .block import chain


def reuse_storage(func: Func) -> Func:
    """The pass."""
    if not any(isinstance(s, Alloc) and s.buffer.scope == "global" for s in preorder(func.body)):
        return func
    # outputs last: a workspace that several others moved into is one buffer by then
    body = _into_outputs(run(_walk(func.body)), func.outputs)
    return func if body is func.body else func.with_body(body)


def workspace_bytes(func: Func) -> Expr:
    """Bytes of workspace alive at the same time, at most: a constant, or an expression of the symbolic sizes.
    Inside a parallel loop each thread has its own; one is counted."""
    return run(_bytes(func.body))


def _bytes(s: Stmt) -> Steps[Expr]:
    below: Expr = make.const(0, "int64")
    for p in s.parts():
        below = make.max_(below, (yield _bytes(p)))
    if isinstance(s, Alloc) and s.buffer.scope == "global":
        return make.add(below, make.mul(make.cast("int64", _span(s.buffer)), s.buffer.dtype.bytes))
    return below


def _span(b: Buffer) -> Expr:
    """Elements between the first and the last."""
    total: Expr = make.const(1, "int32")
    if b.strides is None:
        for extent in b.shape:
            total = make.mul(total, extent)
        return total
    for extent, stride in zip(b.shape, b.strides, strict=True):
        total = make.add(total, make.mul(make.sub(extent, 1), stride))
    return total


@dataclass
class _Life:
    """Of a buffer: the first and the last item of its block that touch it."""

    buffer: Buffer
    first: int
    last: int


@dataclass
class _Slot:
    """Memory shared by several buffers: ``tenants`` in the order in which they live there."""

    tenants: list[Buffer]
    elements: Expr
    last: int
    alike: bool = True  # all have one form
    compact: bool = True

    def takes(self, b: Buffer) -> bool:
        """Whether ``b`` may live here as far as its form goes: accesses of others become flat, which is done
        for constant sizes only."""
        if self.alike and _same_form(self.tenants[0], b):
            return True
        return (
            self.compact
            and b.strides is None
            and const_int(self.elements) is not None
            and const_int(_span(b)) is not None
        )

    def admit(self, b: Buffer, last: int) -> None:
        """``b`` lives here until item ``last``."""
        self.alike = self.alike and _same_form(self.tenants[0], b)
        self.tenants.append(b)
        self.elements = make.max_(self.elements, _span(b))
        self.last = last


def _walk(s: Stmt) -> Steps[Stmt]:
    """Each block of statements by itself, the inner ones first."""
    if isinstance(s, Alloc):
        return (yield _block(s))
    new = []
    for p in s.parts():
        new.append((yield _walk(p)))
    return rebuilt(s, new)


def _block(s: Stmt) -> Steps[Stmt]:
    """A chain of Allocs with the statements between them."""
    buffers, items = chain(s)
    inner = {}
    for item in items:
        inner[item] = yield _walk(item)
    if any(new is not old for old, new in inner.items()):
        s = run(_replace_items(s, inner))
        items = [inner[i] for i in items]
    shared = _share(own(buffers, items), items)
    return rename(s, shared) if shared else s


def _replace_items(s: Stmt, new: dict[Stmt, Stmt]) -> Steps[Stmt]:
    if s in new:
        return new[s]
    parts = []
    for p in s.parts():
        parts.append((yield _replace_items(p, new)))
    return s.with_parts(*parts)


def _lives(buffers: list[Buffer], items: list[Stmt]) -> list[_Life]:
    lives: dict[Buffer, _Life] = {}
    known = dict.fromkeys(buffers)
    for n, item in enumerate(items):
        for b in {b: None for st in preorder(item) for b in touched(st)}:
            if b in known:
                lives.setdefault(b, _Life(b, n, n)).last = n
    return list(lives.values())


def own(buffers: list[Buffer], items: list[Stmt]) -> list[Buffer]:
    """The workspaces among ``buffers`` that no code of others sees, which would mind their shape."""
    seen = {b for item in items for st in preorder(item) if isinstance(st, Extern) for b in st.buffers()}
    return [b for b in buffers if b.scope == "global" and b not in seen]


def _share(buffers: list[Buffer], items: list[Stmt]) -> dict[Buffer, Buffer]:
    """For each buffer that moves, the buffer it becomes."""
    slots: list[_Slot] = []
    # first fit in the order of births, as Poletto and Sarkar's linear scan: workspaces are few, and the best
    # packing is NP-hard
    for life in sorted(_lives(buffers, items), key=lambda x: x.first):
        b = life.buffer
        fits = [
            s
            for s in slots
            if s.tenants[0].dtype is b.dtype
            and (
                s.last < life.first
                or (s.last == life.first and in_place(items[life.first], s.tenants[-1], b))
            )
            and s.takes(b)
        ]
        if fits:
            # one of its own form if there is one: accesses then stay as they are, row by row
            best = min(fits, key=lambda s: not _same_form(s.tenants[0], b))
            best.admit(b, life.last)
        else:
            slots.append(_Slot([b], _span(b), life.last, compact=b.strides is None))
    out: dict[Buffer, Buffer] = {}
    for s in slots:
        if len(s.tenants) > 1:
            first = s.tenants[0]
            # a flat block where forms differ
            home = first if s.alike else Buffer(first.name, first.dtype, (s.elements,), first.scope)
            out.update((t, home) for t in s.tenants if t is not home)
    return out


def _same_form(a: Buffer, b: Buffer) -> bool:
    return _same(a.shape, b.shape) and a.strides is None and b.strides is None


def rename(s: Stmt, home: dict[Buffer, Buffer]) -> Stmt:
    """``s`` with buffers replaced, and without the Allocs of those that moved into another."""
    entered: set[Buffer] = set()

    def place(at: Place) -> Place | None:
        to = home.get(at.buffer)
        if to is None:
            return None
        same = _same_form(at.buffer, to)
        return Place(to, at.indices if same else (at.buffer.offset(at.indices),), at.mask)

    def allocs(st: Stmt) -> Steps[Stmt]:
        if isinstance(st, Alloc) and (st.buffer in home or st.buffer in entered):
            to = home.get(st.buffer, st.buffer)
            # allocated by the first that lives there, or by the caller
            if to in entered or to.scope == "arg":
                return (yield allocs(st.body))
            entered.add(to)
            return Alloc(to, (yield allocs(st.body)))
        if isinstance(st, Alloc):
            entered.add(st.buffer)
            return Alloc(st.buffer, (yield allocs(st.body)))
        if isinstance(st, Seq) and st.stmts and isinstance(st.stmts[-1], Alloc):
            return seq(*st.stmts[:-1], (yield allocs(st.stmts[-1])))
        return st

    return run(allocs(relocate(s, place)))


def in_place(item: Stmt, old: Buffer, new: Buffer) -> bool:
    """Whether the nest ``item``, which reads ``old`` and writes ``new``, may write into the memory of
    ``old``."""
    if not _same_form(old, new) or old.dtype is not new.dtype:
        return False
    found: list[tuple[Store, tuple[For, ...]]] = []

    def visit(s: Stmt, loops: tuple[For, ...]) -> Steps[bool]:
        if isinstance(s, Store) and s.buffer is new:
            found.append((s, loops))
            reads = [node for e in s.exprs() for node in loads(e)]
            if any(
                # at the very element: a neighbour may be written before it is read
                node.buffer is new or (node.buffer is old and not _same(node.indices, s.indices))
                for node in reads
            ):
                return False
            return not any(node.buffer is old for i in s.indices for node in loads(i))
        if isinstance(s, Store) and s.buffer is old:
            return False
        if any(node.buffer in (old, new) for e in s.exprs() for node in loads(e)):
            return False
        below = (*loops, s) if isinstance(s, For) else loops
        for p in s.parts():
            if not (yield visit(p, below)):
                return False
        return True

    return run(visit(item, ())) and len(found) == 1 and once(found[0][0].indices, found[0][1])


def _same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def once(indices: tuple[Expr, ...], loops: tuple[For, ...]) -> bool:
    """Whether no two iterations of the loops come to the same indices, for sure: every loop moves one index,
    and in each index the steps of the loops are larger than all the smaller ones reach together."""
    left = {s.var: s for s in loops if const_int(s.extent) != 1}
    for index in indices:
        if index.dtype.lanes != 1:
            return False
        moving: list[tuple[int, int | None]] = []
        for mono, c in poly(index).items():
            own = [v for v in mono if type(v) is Var and v in left]
            if own:
                if len(mono) != 1 or c <= 0:
                    return False
                v = own[0]
                moving.append((c, _most(left[v].extent)))  # type: ignore[index]
                begin = const_int(left[v].begin)  # type: ignore[index]
                if begin is None:
                    return False
                del left[v]  # type: ignore[arg-type]
            elif any(v in left for a in mono for v in variables(a)):
                return False
        reach = 0
        for c, iterations in sorted(moving, key=lambda x: x[0]):
            # of a loop without a known end nothing is known of what larger steps skip
            if c <= reach or reach < 0:
                return False
            reach = -1 if iterations is None else reach + c * (iterations - 1)
    return not left


def _most(extent: Expr) -> int | None:
    """The most iterations a loop takes, where that is a number: of ``min(8, n - i)`` it is 8."""
    if isinstance(extent, Min):
        ends = [n for n in (_most(extent.a), _most(extent.b)) if n is not None]
        return min(ends) if ends else None
    return const_int(extent)


def _into_outputs(body: Stmt, outputs: tuple[Buffer, ...]) -> Stmt:
    """Workspace whose last reader writes an output of the same form in place lives in that output from the
    beginning."""
    buffers, items = chain(body)
    moves: dict[Buffer, Buffer] = {}
    taken: set[Buffer] = set()
    lives = {x.buffer: x for x in _lives([*buffers, *outputs], items)}
    for b in own(buffers, items):
        mine = lives.get(b)
        if mine is None or mine.first == mine.last:
            continue
        for out in outputs:
            other = lives.get(out)
            if (
                other is not None
                and out not in taken
                and other.first == mine.last
                and in_place(items[mine.last], b, out)
            ):
                moves[b] = out
                taken.add(out)
                break
    return rename(body, moves) if moves else body
