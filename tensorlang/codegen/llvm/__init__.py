"""Loop IR to LLVM text, and LLVM text to object code.

``emit`` writes text: ``function`` (entry and arguments) calls ``statement`` (control flow), which calls
``expression`` (values), ``index`` (addresses, always 64 bits), ``memory`` (loads and stores of every form),
``mathlib`` (intrinsics) and ``parallel`` (outlined loops). ``export`` writes functions for C instead of the
runtime's entry. All share one ``Emitter``, which knows where each value is placed. ``compile_ll`` is the only
file that runs LLVM.
"""

from .compile import CompiledCode, compile_ll
from .export import emit_export
from .function import emit, kernel_signature
from .located import Instruction, Located, located
from .statement import STACK_LIMIT

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
