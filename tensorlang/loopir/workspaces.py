"""Workspaces as parameters: whoever calls a kernel gives it the memory for what it keeps meanwhile, so that a
plan of many kernels knows of it. Knows loop IR; nothing of plans.

What is opened once in a call, of a size that follows from the dims, becomes a parameter. What is opened in a
loop lies in one, with a row for each thread where threads share the loop. What is small enough for the stack
stays.
"""

from __future__ import annotations

from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import Const, Expr
from ..expr.walk import variables
from .stmt import PARALLEL, Alloc, Buffer, For, Func, Seq, Stmt, rebuilt

LINE = 64  # bytes of a line of the cache


def elements_of(b: Buffer) -> Expr:
    """How many elements a compact buffer has; 0 where a size is negative."""
    total: Expr = make.const(1, "int64")
    for extent in b.shape:
        total = make.mul(total, make.cast("int64", make.max_(extent, make.const(0, extent.dtype))))
    return total


def _space(b: Buffer, rows: int) -> Buffer:
    """Rows of whole cache lines, each with room for the buffer."""
    line = make.const(LINE // b.dtype.bytes, "int64")
    lines = make.floordiv(make.add(elements_of(b), make.sub(line, make.const(1, "int64"))), line)
    return Buffer(f"{b.name}.rows", b.dtype, (make.const(rows, "int64"), make.mul(lines, line)))


def with_workspaces(func: Func, least: int, threads: int = 1) -> Func:
    """The kernel with its workspaces, which may be larger than ``least`` bytes, as parameters behind its
    outputs; those of parallel loops have rows for so many threads."""
    found: list[Buffer] = []
    dims = set(func.dims)

    def large(b: Buffer) -> bool:
        size = make.mul(elements_of(b), make.const(b.dtype.bytes, "int64"))
        most = size.value if isinstance(size, Const) else Facts().interval(size)[1]
        return most is None or most > least

    def planned(b: Buffer) -> bool:
        sizes = {v for n in b.shape for v in variables(n)}
        return b.scope == "global" and b.strides is None and sizes <= dims and large(b)

    def opened(s: Stmt) -> Steps[Stmt]:
        """The statement without what is opened in it once."""
        if isinstance(s, Alloc) and planned(s.buffer):
            found.append(s.buffer)
            return (yield opened(s.body))
        if not isinstance(s, Seq | Alloc):
            return (yield in_rows(s, 1))
        parts = []
        for part in s.parts():
            parts.append((yield opened(part)))
        return rebuilt(s, parts)

    def in_rows(s: Stmt, rows: int) -> Steps[Stmt]:
        """The statement with what is opened in it again and again in rows of parameters."""
        if isinstance(s, For) and s.kind == PARALLEL:
            if rows > 1:
                return s  # it runs in its thread, as others do at the same time
            rows = threads
        parts = []
        for part in s.parts():
            parts.append((yield in_rows(part, rows)))
        if isinstance(s, Alloc) and s.within is None and planned(s.buffer):
            found.append(_space(s.buffer, rows))
            return Alloc(s.buffer, parts[0], found[-1])
        return rebuilt(s, parts)

    body = run(opened(func.body))
    if not found:
        return func
    last = max(i for i, p in enumerate(func.params) if any(p is o for o in func.outputs))
    params = (*func.params[: last + 1], *found, *func.params[last + 1 :])
    new = func.changed(params=params, body=body, outputs=(*func.outputs, *found))
    new.ready = func.ready
    return new
