"""Machine code from the loop IR. Knows expressions, the loop IR and targets; never sees schedules or tensors
of the language."""

from ..entries import share
from .llvm.compile import CompiledCode, compile_ll
from .llvm.export import emit_export
from .llvm.function import emit, emit_nest, kernel_signature
from .llvm.located import Instruction, Located, located
from .llvm.rows import MOST_ROWS
from .llvm.statement import STACK_LIMIT

__all__ = [
    "MOST_ROWS",
    "STACK_LIMIT",
    "CompiledCode",
    "Instruction",
    "Located",
    "compile_ll",
    "emit",
    "emit_export",
    "emit_nest",
    "kernel_signature",
    "located",
]

share(__name__)
