"""Kernels for C programs: a function with typed parameters, and all it needs but the C library. Knows no
files and no headers.

``int name(const float *A, ..., int64_t n)`` takes its parameters in the order of ``interface.c_header``,
checks the sizes against what is declared of them (the code relies on that) and calls the body. Temporary
buffers come from ``posix_memalign``. A parallel loop runs in the calling thread unless the program has a
function ``tensorlang_parallel`` of its own: the one here is weak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...core.dtype import FLOAT32, DType, dtype
from ...errors import TensorLangError
from ...expr.nodes import Var
from ...interface.c_header import BAD_SIZE, CParameter, check_name, parameters
from ...interface.c_helpers import C_HELPERS
from ...interface.signature import Dim, Signature
from ...loopir.stmt import Buffer, Func
from ...target import Target
from . import convert
from .emitter import Emitter
from .function import as_translated, constant_symbol, kernel, kernel_signature, scalar_type
from .text import Function, Module

MAX_CONSTANTS = 64 << 20  # bytes of constants that may become text


def emit_export(
    func: Func, target: Target, name: str, constants: Mapping[str, Any], math: str = "default"
) -> tuple[str, Signature]:
    """The LLVM text of a C function ``name``, and its signature. ``constants`` has an array for each constant
    of ``func`` by its symbol.

    Raises TensorLangError for a kernel that calls Python, or whose constants are too large for an object file
    made from text.
    """
    check_name(name, frozenset())
    symbols = [constant_symbol(func, c) for c in func.constants]
    named = func.changed(name=name)
    signature = kernel_signature(named)
    if signature.externs:
        raise TensorLangError(
            f"export: {func.name} calls {', '.join(sorted({e.name for e in signature.externs}))}",
            because="a Python function cannot be called from C",
            try_="te.call_extern with a C function",
        )
    module = Module(target)
    kernel(module, as_translated(named, target), math, _c_entry)
    for symbol, text in C_HELPERS.items():
        module.provide(symbol, text)
    size = sum(constants[s].nbytes for s in symbols)
    if size > MAX_CONSTANTS:
        raise TensorLangError(
            f"export: the constants of {func.name} take {size >> 20} MiB",
            because=f"at most {MAX_CONSTANTS >> 20} MiB can be part of an object file",
            try_="pass them as arguments, or save the kernel with f.save(path)",
        )
    for symbol, c in zip(symbols, named.constants, strict=True):
        data = "".join(f"\\{byte:02X}" for byte in constants[symbol].tobytes())
        here = constant_symbol(named, c)
        module.provide(here, f'@{here} = internal constant [{len(data) // 3} x i8] c"{data}", align 64')
    text = module.text()
    if signature.checks:
        text += f"\n@{name}_report = alias void (ptr), ptr @{name}.report\n"
    return text, signature


def _c_entry(module: Module, func: Func, name: str) -> Function:
    signature = replace(kernel_signature(func), name=name)
    taken = parameters(signature)
    entry = Function(
        f"define signext i32 @{name}({', '.join(f'{_argument(p)} %a{i}' for i, p in enumerate(taken))}) #0"
    )
    em = Emitter(module, entry, "default")
    at = {id(p.source): f"%a{i}" for i, p in enumerate(taken)}
    given = {
        p.source.name: f"%a{i}"
        for i, p in enumerate(taken)
        if isinstance(p.source, Dim) or p.source.kind == "scalar"
    }
    sizes = [
        given[d.name] if dtype(_dtype_of(taken, d)).bits == 64 else em.ins(f"sext i32 {given[d.name]} to i64")
        for d in signature.dims
    ]
    _check_sizes(
        em,
        [
            replace(d, lo=d.lo if v.kind == "stride" else max(0, d.lo or 0))
            for v, d in zip(func.dims, signature.dims, strict=True)
        ],
        sizes,
    )
    params, passed = iter(signature.params), []
    for p in func.params:
        if isinstance(p, Buffer) and any(p is c for c in func.constants):
            passed.append(f"ptr {module.data(constant_symbol(func, p))}")
            continue
        operand = at[id(next(params))]
        passed.append(
            f"ptr {operand}"
            if isinstance(p, Buffer)
            else f"{scalar_type(module, p)} {_number(em, p, operand)}"
        )
    operands = ", ".join([*passed, *(f"i64 {s}" for s in sizes)])
    em.block.end = f"  ret i32 {em.ins(f'call i32 @{name}.body({operands})')}"
    return entry


def _dtype_of(taken: tuple[CParameter, ...], d: Dim) -> str:
    """The type in which a size comes: that of the number that passes it, or int64."""
    return next(
        (
            p.source.dtype
            for p in taken
            if not isinstance(p.source, Dim) and p.source.kind == "scalar" and p.source.name == d.name
        ),
        "int64",
    )


def _argument(p: CParameter) -> str:
    """An LLVM parameter as the C compilers of all targets pass it."""
    if isinstance(p.source, Dim):
        return "i64"
    if p.source.kind == "buffer":
        return "ptr"
    t = dtype(p.source.dtype)
    if t.is_float:
        return "double" if t.bits == 64 else "float"
    if t.is_bool:
        return "i1 zeroext"
    # RISC-V extends every 32-bit integer by its sign
    extended = "signext" if t.code == "int" or t.bits == 32 else "zeroext"
    return f"i{t.bits} {extended}" if t.bits < 64 else "i64"


def _number(em: Emitter, v: Var, operand: str) -> str:
    """A number as the body takes it."""
    t: DType = v.dtype
    if t.is_index:
        return operand if t.bits == 64 else em.ins(f"sext i32 {operand} to i64")
    if t.is_float and t.bits == 16:
        return convert.cast(em, operand, FLOAT32, t)
    return operand


def _check_sizes(em: Emitter, dims: list[Dim], sizes: list[str]) -> None:
    wrong = []
    for d, size in zip(dims, sizes, strict=True):
        if d.lo is not None:
            wrong.append(em.ins(f"icmp slt i64 {size}, {d.lo}"))
        if d.hi is not None:
            wrong.append(em.ins(f"icmp sgt i64 {size}, {d.hi}"))
        if d.multiple_of > 1:
            wrong.append(em.ins(f"icmp ne i64 {em.ins(f'srem i64 {size}, {d.multiple_of}')}, 0"))
    if not wrong:
        return
    any_wrong = wrong[0]
    for one in wrong[1:]:
        any_wrong = em.ins(f"or i1 {any_wrong}, {one}")
    bad, good = em.function.block("badsize"), em.function.block("sizes")
    em.block.end = f"  br i1 {any_wrong}, label %{bad.label}, label %{good.label}"
    bad.end = f"  ret i32 {BAD_SIZE}"
    em.scopes[-1].block = good
