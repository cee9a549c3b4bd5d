"""Workspaces as parameters: whoever calls a kernel gives it the memory for what it keeps meanwhile, so that a
plan of many kernels knows of it. Knows loop IR; nothing of plans.

What is opened once in a call, of a size that follows from the dims, becomes a parameter. What each thread
opens for itself, and what is small enough for the stack, stays.
"""

from __future__ import annotations

from ..arith.facts import Facts
from ..expr import make
from ..expr.nodes import Const, Expr
from ..expr.walk import variables
from .stmt import Alloc, Buffer, Func, Seq, Stmt


def elements_of(b: Buffer) -> Expr:
    """How many elements a compact buffer has; 0 where a size is negative."""
    total: Expr = make.const(1, "int64")
    for extent in b.shape:
        total = make.mul(total, make.cast("int64", make.max_(extent, make.const(0, extent.dtype))))
    return total


def with_workspaces(func: Func, least: int) -> Func:
    """The kernel with its workspaces, which may be larger than ``least`` bytes, as parameters behind its
    outputs."""
    found: list[Buffer] = []
    dims = set(func.dims)

    def large(b: Buffer) -> bool:
        size = make.mul(elements_of(b), make.const(b.dtype.bytes, "int64"))
        most = size.value if isinstance(size, Const) else Facts().interval(size)[1]
        return most is None or most > least

    def opened(s: Stmt) -> Stmt:
        """The statement without what is opened in it once."""
        if isinstance(s, Seq):
            return s.with_parts(*map(opened, s.parts()))
        if not isinstance(s, Alloc):
            return s
        b, body = s.buffer, opened(s.body)
        sizes = {v for n in b.shape for v in variables(n)}
        if b.scope == "global" and b.strides is None and sizes <= dims and large(b):
            found.append(b)
            return body
        return s.with_parts(body)

    body = opened(func.body)
    if not found:
        return func
    last = max(i for i, p in enumerate(func.params) if any(p is o for o in func.outputs))
    params = (*func.params[: last + 1], *found, *func.params[last + 1 :])
    new = func.changed(params=params, body=body, outputs=(*func.outputs, *found))
    new.ready = func.ready
    return new
