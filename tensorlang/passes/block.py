"""A block of statements taken apart: the buffers it opens, its items one after the other, and what each reads
and writes. No pass by itself."""

from __future__ import annotations

from dataclasses import dataclass

from ..loopir.stmt import (
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    OpenedWithin,
    Report,
    Seq,
    Stmt,
    loads,
    preorder,
    seq,
)


def chain(s: Stmt) -> tuple[list[Buffer], list[Stmt]]:
    """The buffers of a block in the order of their Allocs, and its statements."""
    buffers: list[Buffer] = []
    items: list[Stmt] = []
    within = OpenedWithin()
    while True:
        if isinstance(s, Alloc) and not within.have(s.buffer, items):
            buffers.append(s.buffer)
            s = s.body
        elif isinstance(s, Seq) and s.stmts and isinstance(s.stmts[-1], Alloc):
            items += s.stmts[:-1]
            s = s.stmts[-1]
        else:
            return buffers, items + list(s.stmts if isinstance(s, Seq) else [s])


@dataclass(frozen=True, slots=True)
class Uses:
    """What a statement does with memory, in the order of first use. ``fixed``: it calls code of others or
    ends the kernel, so it stays."""

    reads: dict[Buffer, None]
    writes: dict[Buffer, None]
    fixed: bool


def uses(s: Stmt) -> Uses:
    """Of the whole statement, its own buffers included."""
    out = Uses({}, {}, False)
    fixed = False
    for one in preorder(s):
        out.writes.update(dict.fromkeys(one.written()))
        if isinstance(one, Extern):
            out.reads.update(dict.fromkeys(one.buffers()))
        fixed = fixed or isinstance(one, Extern | Report | Evaluate)
        for e in one.exprs():
            for node in loads(e):
                out.reads[node.buffer] = None
    return Uses(out.reads, out.writes, fixed)


def conflicts(found: list[Uses]) -> list[list[int]]:
    """For each item those that must stay in front of it: what wrote what it touches, and what read what it
    writes."""
    writer: dict[Buffer, int] = {}
    readers: dict[Buffer, list[int]] = {}
    out: list[list[int]] = []
    for i, u in enumerate(found):
        ahead = {writer[b] for b in (*u.reads, *u.writes) if b in writer}
        ahead.update(j for b in u.writes for j in readers.get(b, ()))
        out.append(sorted(ahead - {i}))
        for b in u.reads:
            readers.setdefault(b, []).append(i)
        for b in u.writes:
            writer[b] = i
            readers[b] = []
    return out


def opened(buffers: list[Buffer], items: list[Stmt], found: list[Uses]) -> Stmt:
    """The items, each buffer opened in front of the first that touches it."""
    first: dict[Buffer, int] = {}
    for at, u in enumerate(found):
        for b in (*u.reads, *u.writes):
            first.setdefault(b, at)
    opened: dict[int, list[Buffer]] = {}
    for b in buffers:
        opened.setdefault(first.get(b, 0), []).append(b)
    body: list[Stmt] = []
    for at in reversed(range(len(items))):
        body.append(items[at])
        for b in reversed(opened.get(at, ())):
            body = [Alloc(b, seq(*reversed(body)))]
    return seq(*reversed(body))
