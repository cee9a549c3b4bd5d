"""Functions of their own for the loop nests of a long kernel.

LLVM takes longer than its share for a function of many loops: 1,000 nests in one function 13 s, in a function
each 4 s. A nest that stands at the top of a kernel shares nothing with its neighbours but buffers and sizes,
so it is called with these as arguments, as the body of a parallel loop is. A call takes two nanoseconds;
kernels of few nests stay whole. Knows where nests stand; what a loop becomes is the business of
``statement``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ...core.steps import Steps, run
from ...loopir.stmt import Alloc, Buffer, For, If, Let, Seq, Stmt, preorder, rebuilt, seq
from .emitter import Emitter
from .parallel import captured, inner_function, name_within, variable_type
from .text import Block

MOST_NESTS = 24  # of a function
LEAST_PLAIN = 32  # statements without loops that are worth a function


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


def apart(body: Stmt) -> Stmt:
    """The body of a kernel with the nests at its top as functions of their own, when they are many."""
    nests, stack = 0, [body]
    while stack:
        s = stack.pop()
        nests += isinstance(s, For)
        if not isinstance(s, For):
            stack += s.parts()
    return run(_cut(body)) if nests > MOST_NESTS else body


def _cut(s: Stmt) -> Steps[Stmt]:
    if isinstance(s, Alloc) and s.buffer.scope == "local" and _few_nests(s):
        return Apart(s)  # what may live in registers stays in one function
    if isinstance(s, Alloc | Let):
        return rebuilt(s, [(yield _cut(s.body))])
    if isinstance(s, For | If):
        return Apart(s)
    if not isinstance(s, Seq):
        return s
    out: list[Stmt] = []
    plain: list[Stmt] = []
    for part in s.stmts:
        if part.parts():
            out += _grouped(plain)
            plain = []
            out.append((yield _cut(part)))
        else:
            plain.append(part)
    return seq(*out, *_grouped(plain))


def _grouped(plain: list[Stmt]) -> list[Stmt]:
    return [Apart(seq(*plain))] if len(plain) >= LEAST_PLAIN else plain


def _few_nests(s: Stmt) -> bool:
    loops = (x for x in preorder(s) if isinstance(x, For))
    return next(itertools.islice(loops, MOST_NESTS, None), None) is None


def emit(
    em: Emitter,
    s: Stmt,
    writes: frozenset[Buffer],
    emitted: Callable[[Emitter, Stmt], Steps[None]],
    leave: Callable[[Emitter, Block], None],
) -> Steps[None]:
    """The statement ``s`` as a call. ``emitted`` and ``leave`` are those of ``statement``, which knows this
    file."""
    buffers, names = captured(s)
    if any(b.scope == "local" for b in buffers):  # it may live in registers
        yield emitted(em, s)
        return
    name = name_within(em, "nest")
    inner, body = inner_function(em, name, buffers, names, writes)
    yield emitted(body, s)
    body.block.end = "  ret i32 0"
    em.module.add(inner)

    em.at = em.depth
    passed = [f"ptr {em.storage[b].pointer}" for b in buffers] + [
        f"{variable_type(em, v)} {em.vars[v]}" for v in names
    ]
    status = em.ins(f"call i32 @{name}({', '.join(passed)})")
    if body.may_fail:
        here = em.block
        failed, go_on = em.function.block("failed"), em.function.block("ran")
        here.end = (
            f"  br i1 {em.ins(f'icmp ne i32 {status}, 0')}, label %{failed.label}, label %{go_on.label}"
        )
        leave(em, failed)
        failed.end = f"  ret i32 {status}"
        em.scopes[-1].block = go_on
