"""What versions of a tile share: what stands behind its loops, once, where it is long. Knows no versions:
``hoist_guards`` makes them of what stands in front.

``for k: tested rows of acc; (if r + 1 < m: C[r + 1] = sigmoid(acc[1])) …`` → the loop over k, and the rest.

A function of mathematics for each row, in a copy for each number of rows, is most of the code of a kernel,
and a test for each row is little beside it. What is short has no test: ``acc`` is registers up to the
statement that writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..expr import make
from ..expr.nodes import CALLS, const_int
from ..loopir.stmt import NOTHING, Alloc, Buffer, Evaluate, For, Seq, Stmt, Store, preorder, seq, touched

LEAST = 4  # rows with a function of mathematics from which on it is worth it
# bytes of sums, half of the registers of AVX-512: beside more of them, what a function of mathematics keeps
# in registers takes the place of some (measured: 27 vectors of sums took 1.2 times as long)
MOST_BYTES = 1024
UNKNOWN = 64  # elements of a dimension that is open
_HERE = Evaluate(make.const(0))  # where what is shared has stood


@dataclass(frozen=True)
class Parted:
    """A tile as what versions are made of, which ends in a note, and what stands ``behind``; ``held`` are the
    local buffers of both."""

    front: Stmt
    held: tuple[Alloc, ...]
    behind: Stmt

    def closed(self, front: Stmt) -> Stmt:
        """The tile, with versions of its front."""
        return _closed([(0, a) for a in self.held], [front, self.behind])


def parted(tile: Stmt, tests: Callable[[Stmt], bool]) -> Parted | None:
    """A tile in two parts, the first with every loop in which ``tests`` finds a test; None where versions of
    the whole are better."""
    opened: list[tuple[int, Alloc]] = []
    items: list[Stmt] = []
    while not items or isinstance(tile, Alloc):
        while isinstance(tile, Alloc):
            opened.append((len(items), tile))
            tile = tile.body
        if not isinstance(tile, Seq):
            break
        items += tile.stmts[:-1]
        tile = tile.stmts[-1]
    items.append(tile)
    looping = [
        n for n, one in enumerate(items) if any(isinstance(s, For) and tests(s) for s in preorder(one))
    ]
    end = looping[-1] + 1 if looping else len(items)
    behind = items[end:]
    if not end or sum(tests(one) and _calls(one) for one in behind) < LEAST:
        return None
    used = {b for one in behind for s in preorder(one) for b in touched(s)}
    held = tuple(a for n, a in opened if n < end and a.buffer in used)
    if sum(bytes_of(a.buffer) for a in held) > MOST_BYTES:
        return None
    return Parted(
        _closed([(n, a) for n, a in opened if n < end and a not in held], [*items[:end], _HERE]),
        held,
        _closed([(n - end, a) for n, a in opened if n >= end], behind),
    )


def without_note(version: Stmt) -> Stmt:
    """A version of a front, which ends in the note that what is shared follows."""
    if isinstance(version, Alloc):
        body = without_note(version.body)
        return body if body is NOTHING else version.with_parts(body)
    if version is _HERE:
        return NOTHING
    assert isinstance(version, Seq)
    return seq(*version.stmts[:-1], without_note(version.stmts[-1]))


def _closed(opened: list[tuple[int, Alloc]], items: list[Stmt]) -> Stmt:
    out: Stmt = NOTHING
    for n in reversed(range(len(items))):
        out = seq(items[n], out)
        for at, a in reversed(opened):
            out = a.with_parts(out) if at == n else out
    return out


def _calls(s: Stmt) -> bool:
    return any(isinstance(one, Store) and one.value.contains & CALLS for one in preorder(s))


def bytes_of(b: Buffer) -> int:
    """Of a local buffer; what only a call can count is little."""
    n = b.dtype.bytes
    for e in b.shape:
        n *= const_int(e) or UNKNOWN
    return n
