"""Machine code from the loop IR. Knows expressions, the loop IR and targets; never sees schedules or tensors
of the language."""

from .llvm import (
    STACK_LIMIT,
    CompiledCode,
    Instruction,
    Located,
    compile_ll,
    emit,
    emit_export,
    kernel_signature,
    located,
)

__all__ = [
    "STACK_LIMIT",
    "CompiledCode",
    "Instruction",
    "Located",
    "compile_ll",
    "emit",
    "emit_export",
    "kernel_signature",
    "located",
]
