"""Reports of indices out of bounds: a record in memory for each kernel with checks, and a function that hands
it out.

The record is an array of i64: the number of the check plus 1, the index, the extent, the iterations of the
loops. The first thread that fails claims it by writing its number where 0 was. The kernel then ends with
``OUT_OF_BOUNDS``.
"""

from __future__ import annotations

from ...interface.signature import Check
from ...loopir.stmt import Func, Report, preorder
from .emitter import Emitter
from .text import Block, Function, Module


def sites(func: Func) -> tuple[Check, ...]:
    """The checks of a kernel, each once however often its statement was copied."""
    found = dict.fromkeys(s.site() for s in preorder(func.body) if isinstance(s, Report))
    return tuple(Check(*site) for site in sorted(found))


def prepare(module: Module, func: Func, name: str) -> None:
    """The record of a kernel, and the function that copies it out and empties it."""
    checks = sites(func)
    module.recording = f"{name}.record" if checks else ""
    module.numbers = {c: n for n, c in enumerate(checks, 1)}
    if not checks:
        return
    size = 3 + max(len(c.loops) for c in checks)
    module.records[name] = f"@{name}.record = internal global [{size} x i64] zeroinitializer, align 8"
    out = Function(f"define void @{name}.report(ptr %out) #0")
    em = Emitter(module, out, "default")
    for i in reversed(range(size)):
        at = em.ins(f"getelementptr i64, ptr @{name}.record, i64 {i}")
        value = em.ins(
            f"load i64, ptr {at}, align 8" if i else f"atomicrmw xchg ptr {at}, i64 0 seq_cst, align 8"
        )
        em.do(f"store i64 {value}, ptr {em.ins(f'getelementptr i64, ptr %out, i64 {i}')}, align 8")
    out.entry.end = "  ret void"
    module.add(out)


def values(em: Emitter, s: Report) -> list[str]:
    """What is to be recorded, as i64."""
    return [em.index(e) for e in s.exprs()]


def record(em: Emitter, failed: Block, s: Report, numbers: list[str]) -> Block:
    """In block ``failed``: write the record, unless it is taken. The block where that ends."""
    place = f"@{em.module.recording}"
    fresh = em.function.fresh
    claim, first = fresh(), fresh()
    write, leave = em.function.block("record"), em.function.block("leave")
    failed.lines.append(
        f"  {claim} = cmpxchg ptr {place}, i64 0, i64 {em.module.numbers[Check(*s.site())]} seq_cst seq_cst, "
        "align 8"
    )
    failed.lines.append(f"  {first} = extractvalue {{ i64, i1 }} {claim}, 1")
    failed.end = f"  br i1 {first}, label %{write.label}, label %{leave.label}"
    for i, operand in enumerate(numbers, 1):
        at = fresh()
        write.lines += [
            f"  {at} = getelementptr i64, ptr {place}, i64 {i}",
            f"  store i64 {operand}, ptr {at}, align 8",
        ]
    write.end = f"  br label %{leave.label}"
    return leave
