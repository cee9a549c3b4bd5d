"""Calls of somebody else's functions: C symbols directly, Python functions through a callback the runtime
provides.

A callback is ``i32 symbol(ptr slots)``: 8-byte slots, for a buffer its pointer and then its extents as i64,
for an integer an i64, for a float a double, for a view its pointer, extents and strides. The symbol's name
says how the slots are to be read; a status that is not 0 ends the kernel with code 3.
"""

from __future__ import annotations

from ...expr.nodes import Expr
from ...interface.signature import Extern as ExternLayout
from ...loopir.stmt import Buffer, Extern, View
from .emitter import Emitter
from .memory import pointer

RAISED = 3


def layout(s: Extern) -> ExternLayout:
    """How the runtime is to read the slots of a packed call."""
    return ExternLayout(s.name, tuple(_kind(a) for a in s.args))


def _kind(a: Buffer | Expr) -> tuple[str, str, int]:
    if isinstance(a, Buffer):
        return "buffer", a.dtype.name, len(a.shape)
    if isinstance(a, View):
        return "view", a.buffer.dtype.name, len(a.extents)
    return ("float" if a.dtype.is_float else "int"), a.dtype.name, 0


def _address(em: Emitter, v: View) -> str:
    """Where a view begins."""
    return pointer(em, v.buffer, v.buffer.offset(v.corner))


def call_symbol(em: Emitter, s: Extern) -> None:
    """A C function: pointers for buffers, numbers in their own types."""
    args = [
        ("ptr", em.storage[a].pointer)
        if isinstance(a, Buffer)
        else ("ptr", _address(em, a))
        if isinstance(a, View)
        else (em.type(a.dtype), em.value(a))
        for a in s.args
    ]
    assert s.result is not None
    callee = em.module.declare(s.name, em.type(s.result), ", ".join(t for t, _ in args))
    em.ins(f"call {em.type(s.result)} {callee}({', '.join(f'{t} {v}' for t, v in args)})")


def call_nest(em: Emitter, s: Extern) -> str:
    """A part of the same kernel, which is compiled apart; the status it returned."""
    args = [("ptr", em.storage[a].pointer) if isinstance(a, Buffer) else ("i64", em.index(a)) for a in s.args]
    callee = em.module.declare(s.name, "i32", ", ".join(kind for kind, _ in args))
    return em.ins(f"call i32 {callee}({', '.join(f'{kind} {value}' for kind, value in args)})")


def call_packed(em: Emitter, s: Extern) -> str:
    """A registered Python function; the status it returned."""
    words: list[tuple[str, str]] = []
    for a in s.args:
        if isinstance(a, Buffer):
            words.append(("ptr", em.storage[a].pointer))
            words.extend(("i64", em.index(e)) for e in a.shape)
        elif isinstance(a, View):
            words.append(("ptr", _address(em, a)))
            words.extend(("i64", em.index(e)) for e in (*a.extents, *a.strides))
        else:
            words.append(_number(em, a))
    slots = em.function.fresh()
    em.function.entry.lines.insert(0, f"  {slots} = alloca [{max(1, len(words))} x i64], align 8")
    for i, (kind, operand) in enumerate(words):
        em.do(f"store {kind} {operand}, ptr {em.ins(f'getelementptr i64, ptr {slots}, i64 {i}')}, align 8")
    callee = em.module.declare(layout(s).symbol, "i32", "ptr")
    return em.ins(f"call i32 {callee}(ptr {slots})")


def _number(em: Emitter, a: Expr) -> tuple[str, str]:
    if a.dtype.is_index:
        return "i64", em.index(a)
    kind, operand = em.type(a.dtype), em.value(a)
    if a.dtype.is_float:
        return "double", operand if kind == "double" else em.ins(f"fpext {kind} {operand} to double")
    word = "zext" if a.dtype.code in ("uint", "bool") else "sext"
    return "i64", operand if kind == "i64" else em.ins(f"{word} {kind} {operand} to i64")
