"""Small buffers of 16-bit floats that the target computes in float32 hold float32: loop IR into loop IR.

``m[0 : 32] = max(m[0 : 32], x[…])`` would round to 16 bits what is exact already, and make it wide again, at
each iteration. Such buffers become registers, where a float32 takes no more than the value did in between.
It is done for local buffers that an operation reads and writes again; copies, and what code of others or a
view sees, stay 16 bits wide.
"""

from __future__ import annotations

from ...core.dtype import FLOAT32
from ...expr import make
from ...expr.nodes import Cast, Expr, const_int
from ...expr.walk import rewrite as rewrite_expr
from ...loopir.stmt import (
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    Func,
    Load,
    Stmt,
    Store,
    load,
    map_exprs,
    preorder,
    rewrite,
)
from ...target import Target
from . import types
from .emitter import buffers_read

MOST_BYTES = 4096  # of one buffer, twice of what are all registers


class WideBuffer(Buffer):
    """A buffer of float32 that holds values of a 16-bit float."""

    __slots__ = ()


def is_exact(e: Cast) -> bool:
    """Whether what is converted to a 16-bit float is one."""
    return type(e.a) is Load and type(e.a.buffer) is WideBuffer


def widened(func: Func, target: Target) -> Func:
    """The rewrite."""
    wide = _accumulators(func.body, target)
    return func.with_body(_replaced(func.body, wide)) if wide else func


def _accumulators(body: Stmt, target: Target) -> dict[Buffer, WideBuffer]:
    found: dict[Buffer, WideBuffer] = {}
    kept: set[Buffer] = set()
    opened: set[Buffer] = set()
    for s in preorder(body):
        if isinstance(s, Extern):
            kept.update(s.buffers())
        elif isinstance(s, Evaluate):  # a prefetch names elements and reads none
            kept.update(buffers_read(s.value))
        elif isinstance(s, Alloc):
            if s.within is None and s.buffer.scope == "local" and _small(s.buffer):
                opened.add(s.buffer)
        elif isinstance(s, Store) and _accumulates(s, target):
            b = s.buffer
            found[b] = WideBuffer(b.name, FLOAT32, b.shape, b.scope, b.strides)
    return {b: w for b, w in found.items() if b in opened and b not in kept}


def _accumulates(s: Store, target: Target) -> bool:
    t = s.buffer.dtype
    return (
        t.is_float
        and types.is_soft(t, target)
        and type(s.value) is not Load
        and (s.buffer in buffers_read(s.value))
    )


def _small(b: Buffer) -> bool:
    total = b.dtype.bytes
    for extent in b.shape:
        total *= const_int(extent) or MOST_BYTES
    return total <= MOST_BYTES


def _replaced(body: Stmt, wide: dict[Buffer, WideBuffer]) -> Stmt:
    def read(e: Expr) -> Expr | None:
        if type(e) is not Load or e.buffer not in wide:
            return None
        return make.cast(e.dtype.element, load(wide[e.buffer], e.indices, e.mask))

    def change(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer in wide:
            return Alloc(wide[s.buffer], s.body)
        if isinstance(s, Store) and s.buffer in wide:
            return Store(wide[s.buffer], make.cast(FLOAT32, s.value), s.indices, s.mask)
        return None

    done: dict[Expr, Expr] = {}
    return rewrite(map_exprs(body, lambda e: rewrite_expr(e, read, done)), change)
