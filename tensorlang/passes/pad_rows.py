"""pad rows: rows of a kernel's own buffers that masked vectors read and write end where the vectors end.

``C: float32[9, 43]``, ``C[i, 0 : 48] = … if lanes < 43`` → ``C: float32[9, 48]``, ``C[i, 0 : 48] = …``

What is in the padding is never seen: it is read only into lanes that a store outside leaves out, and never
where lanes are combined. Without a mask such a row becomes registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import make
from ..expr.nodes import Broadcast, Expr, Ramp, const_int
from ..expr.walk import preorder as expr_preorder
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import Alloc, Buffer, Extern, Func, Reduction, Stmt, Store, loads, preorder, rewrite


@dataclass
class _Row:
    """The vectors that read and write rows of a buffer: of how many lanes, and whether all are alike."""

    lanes: int = 0
    alike: bool = True


def pad_rows(func: Func) -> Func:
    """The pass."""
    own = {s.buffer: _Row() for s in preorder(func.body) if isinstance(s, Alloc) and _of_rows(s)}
    if not own:
        return func
    for s in preorder(func.body):
        if isinstance(s, Extern):
            for b in s.buffers():
                own.pop(b, None)
        elif isinstance(s, Alloc) and s.within is not None:
            own.pop(s.within, None)
        elif isinstance(s, Store):
            if not _filled(s):
                _use(own, s.buffer, s.indices, s.mask)
        for e in s.exprs():
            for read in loads(e):
                _use(own, read.buffer, read.indices, read.mask)
            # a sum of lanes has those that a mask leaves out, as zeros
            for lanes in expr_preorder(e):
                if type(lanes) is Reduction:
                    for read in loads(lanes):
                        own.pop(read.buffer, None)
    padded = {b: _padded(b, row.lanes) for b, row in own.items() if row.alike and row.lanes}
    return func.with_body(_replaced(func.body, padded)) if padded else func


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


def _use(own: dict[Buffer, _Row], b: Buffer, indices: tuple[Expr, ...], mask: Expr | None) -> None:
    row = own.get(b)
    if row is None or all(i.dtype.lanes == 1 for i in indices):
        return
    *others, last = indices
    whole = (
        type(last) is Ramp
        and const_int(last.base) == 0
        and const_int(last.stride) == 1
        and all(i.dtype.lanes == 1 for i in others)
        and const_int(b.shape[-1]) is not None
        and mask is row_mask(last, b.shape[-1])
        and row.lanes in (0, last.lanes)
    )
    row.alike &= whole
    row.lanes = last.dtype.lanes


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
            return Store(b, make.broadcast(value.value, lanes), (*s.indices[:-1], row))
        return None

    return relocate(rewrite(body, opened), place)
