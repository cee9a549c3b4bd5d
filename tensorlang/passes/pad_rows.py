"""pad rows: rows of a kernel's own buffers that masked vectors read and write end where the vectors end.

``C: float32[9, 43]``, ``C[i, 0 : 48] = … if lanes < 43`` → ``C: float32[9, 48]``, ``C[i, 0 : 48] = …``, and
so of vectors along a row: ``C[i, 16 * j : 16 * j + 16] = … if 16 * j + lanes < 43`` for j in 0..3

What is in the padding is never seen: it is read only into lanes that a store outside leaves out, and where
lanes are combined only as what something else is chosen for, such as zeros. Without a mask such a row becomes
registers, and no store with a mask, of which a Zen 3 begins one in 12 cycles, has to reach memory before the
next load of it.

A row of an open length that is known to be short, ``E: float32[8, n]`` where ``n <= 64``, has room for all of
its vectors, ``E: float32[8, 64]``. Measured (Zen 5): softmax of such rows of 13 takes 0.9 of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import REDUCED, Broadcast, Expr, Ramp, Select, const_int
from ..expr.walk import preorder as expr_preorder
from ..loopir.packed import Packed
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import (
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    If,
    Reduction,
    Stmt,
    Store,
    loads,
    preorder,
    rewrite,
)

MOST = 1 << 9  # elements of a row of an open length, at most: its place is kept whole


@dataclass
class _Row:
    """How far masked vectors reach that write and read rows of a buffer, whether all of them leave out just
    what is behind the end, and whether rows are set to one value, the padding too. Rows of an open length
    have ``most`` elements."""

    most: int | None = None
    written: int = 0
    read: int = 0
    alike: bool = True
    filled: bool = False

    @property
    def lanes(self) -> int:
        """The length of rows that needs no masks; 0 where masks stay. What is read has been written, or it
        might be numbers that take long to compute with."""
        sure = self.alike and (self.filled or self.read <= self.written)
        lanes = max(self.written, self.read)
        return lanes if sure and self.most is not None and lanes >= self.most else 0


def pad_rows(func: Func) -> Func:
    """The pass."""
    own = {s.buffer: _Row() for s in preorder(func.body) if isinstance(s, Alloc) and _of_rows(s)}
    if not own:
        return func
    run(_uses(func.body, own, Facts()))
    padded = {b: _padded(b, row.lanes) for b, row in own.items() if row.lanes}
    return func.with_body(_replaced(func.body, padded)) if padded else func


def _uses(s: Stmt, own: dict[Buffer, _Row], facts: Facts) -> Steps[None]:
    """Note what is done with the rows in ``s``; forget those that have to stay as they are."""
    if isinstance(s, Extern):
        for b in s.buffers():
            own.pop(b, None)
    elif isinstance(s, Alloc) and s.within is not None:
        own.pop(s.within, None)
    elif isinstance(s, Alloc) and s.buffer in own:
        own[s.buffer].most = _most(s.buffer.shape[-1], facts)
    elif isinstance(s, For):
        facts = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
    elif isinstance(s, Store) and s.buffer in own:
        row = own[s.buffer]
        reach = _reach(s.buffer, s.indices, s.mask, row.most, facts)
        row.written, row.alike = max(row.written, reach or 0), row.alike and reach is not None
        row.filled |= _filled(s)
    for e in s.exprs():
        for read in loads(e):
            if read.buffer in own:
                row = own[read.buffer]
                reach = _reach(read.buffer, read.indices, read.mask, row.most, facts)
                row.read, row.alike = max(row.read, reach or 0), row.alike and reach is not None
        # a sum of lanes has those that a mask leaves out, as zeros
        for lanes in expr_preorder(e) if e.contains & REDUCED else ():
            if type(lanes) in (Packed, Reduction):
                for read in loads(lanes):
                    if not (type(lanes) is Reduction and _chosen(lanes.value, read.mask)):
                        own.pop(read.buffer, None)
    for n, part in enumerate(s.parts()):
        yield _uses(part, own, facts.assume(s.cond) if isinstance(s, If) and n == 0 else facts)


def _most(n: Expr, facts: Facts) -> int | None:
    """The most elements that a row of ``n`` has; None where it may be long."""
    high = facts.interval(n)[1]
    return None if high is None or (const_int(n) is None and high > MOST) else int(high)


def _chosen(e: Expr, mask: Expr | None) -> bool:
    """Whether the lanes that ``mask`` leaves out are something else in ``e`` anyway, such as zeros."""
    return type(e) is Select and e.cond is mask and not any(map(_reads, (e.cond, e.b)))


def _reads(e: Expr) -> bool:
    return next(iter(loads(e)), None) is not None


def _of_rows(s: Alloc) -> bool:
    return (
        s.buffer.scope == "local" and s.within is None and s.buffer.strides is None and bool(s.buffer.shape)
    )


def _filled(s: Store) -> bool:
    """Whether a row is set to one value, as sums are to their first one."""
    others, last = s.indices[:-1], s.indices[-1] if s.indices else None
    return (
        type(last) is Ramp
        and const_int(last.base) == 0
        and const_int(last.stride) == 1
        and last.lanes == const_int(s.buffer.shape[-1])
        and all(i.dtype.lanes == 1 for i in others)
        and type(s.value) is Broadcast
        and s.mask is None
    )


def _reach(
    b: Buffer, indices: tuple[Expr, ...], mask: Expr | None, most: int | None, facts: Facts
) -> int | None:
    """Where an access ends at the latest: a vector along a row of ``most`` elements, masked behind its end; 0
    for what stays inside; None for anything else."""
    if mask is None or all(i.dtype.lanes == 1 for i in indices):
        return 0
    *others, last = indices
    if (
        most is None
        or type(last) is not Ramp
        or const_int(last.stride) != 1
        or any(i.dtype.lanes > 1 for i in others)
        or mask is not row_mask(last, b.shape[-1])
    ):
        return None
    low, high = facts.interval(last.base)
    # at least one lane of the last vector is inside: the padding is shorter than a vector
    return None if low is None or low < 0 or high is None or high >= most else int(high) + last.lanes


def row_mask(lanes: Expr, n: Expr) -> Expr:
    """The lanes of a row of ``n``, which the vector reaches past."""
    return make.lt(lanes, make.cast(lanes.dtype.element, n))


def _padded(b: Buffer, lanes: int) -> Buffer:
    return Buffer(b.name, b.dtype, (*b.shape[:-1], make.const(lanes, b.shape[-1].dtype)), b.scope)


def _replaced(body: Stmt, padded: dict[Buffer, Buffer]) -> Stmt:
    def place(at: Place) -> Place | None:
        vector = any(i.dtype.lanes > 1 for i in at.indices)
        new = padded.get(at.buffer)
        return Place(new, at.indices, None if vector else at.mask) if new else None

    def opened(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer in padded:
            return Alloc(padded[s.buffer], s.body)
        if isinstance(s, Store) and s.buffer in padded and _filled(s):
            b, value = padded[s.buffer], s.value
            lanes = const_int(b.shape[-1])
            assert lanes is not None and isinstance(value, Broadcast)
            row = make.ramp(make.const(0, "int32"), 1, lanes)
            return Store(b, make.broadcast(value.value, lanes), (*s.indices[:-1], row), None, s.of)
        return None

    return relocate(rewrite(body, opened), place)
