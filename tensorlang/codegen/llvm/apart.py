"""Functions of their own for the loop nests of a long kernel.

LLVM takes longer than its share for a function of many loops: 1,000 nests in one function 13 s, in a function each 4 s. A nest that
stands at the top of a kernel shares nothing with its neighbours but buffers and sizes, so it is called with these as arguments, as the body
of a parallel loop is. A call takes two nanoseconds; kernels of few nests stay whole. Knows where nests stand; what a loop becomes is the
business of ``statement``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.steps import Steps
from ...loopir.stmt import Alloc, For, Seq, Stmt
from .emitter import Emitter, Storage
from .parallel import captured, pointer_argument, variable_type
from .text import Block, Function

MOST_NESTS = 24  # of a function


def apart(body: Stmt) -> frozenset[Stmt]:
    """The nests that are to be functions of their own: those at the top of a kernel of many."""
    found: list[Stmt] = []
    stack = [body]
    while stack:
        s = stack.pop()
        if isinstance(s, Alloc | Seq):
            stack += s.parts()
        elif isinstance(s, For):
            found.append(s)
    return frozenset(found) if len(found) > MOST_NESTS else frozenset()


def emit(em: Emitter, s: For, writes: frozenset[object], emitted: Callable[[Emitter, Stmt], Steps[None]],
         leave: Callable[[Emitter, Block], None]) -> Steps[None]:
    """The loop ``s`` as a call. ``emitted`` and ``leave`` are those of ``statement``, which knows this file."""
    buffers, names = captured(s)
    name = em.module.unique(em.function.head.split("@")[1].split("(")[0].removesuffix(".body") + ".nest")
    arguments = [pointer_argument(b, f"%b{i}", b not in writes) for i, b in enumerate(buffers)]
    arguments += [f"{variable_type(em, v)} %s{i}" for i, v in enumerate(names)]
    inner = Function(f"define internal i32 @{name}({', '.join(arguments)}) #0")
    body = Emitter(em.module, inner, em.math)
    for i, b in enumerate(buffers):
        body.storage[b] = Storage(f"%b{i}", 0)
    for i, v in enumerate(names):
        body.bind(v, f"%s{i}", 0, *(em.ranges.get(v) or (v.lo, v.hi)))
    body.fail = lambda: setattr(body.block, "end", "  ret i32 1")
    yield emitted(body, s)
    body.block.end = "  ret i32 0"
    em.module.add(inner)

    em.at = em.depth
    passed = [f"ptr {em.storage[b].pointer}" for b in buffers] + [f"{variable_type(em, v)} {em.vars[v]}" for v in names]
    status = em.ins(f"call i32 @{name}({', '.join(passed)})")
    if body.may_fail:
        here = em.block
        failed, go_on = em.function.block("failed"), em.function.block("ran")
        here.end = f"  br i1 {em.ins(f'icmp ne i32 {status}, 0')}, label %{failed.label}, label %{go_on.label}"
        leave(em, failed)
        failed.end = f"  ret i32 {status}"
        em.scopes[-1].block = go_on
