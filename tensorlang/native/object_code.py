"""LLVM text to object code for this processor, without optimisation passes: for the small helpers of the
runtime only.

``opt`` 0 compiles in a quarter of the time of 2, and code between atomics and system calls runs as fast.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm


def host_machine(opt: int = 2) -> Any:
    """A new target machine for this processor. Position independent: calls into the process may be far
    away."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=opt, reloc="pic", codemodel="small"
    )


def compiled(text: str, opt: int = 0) -> bytes:
    """The relocatable object code of a module."""
    with llvm.create_context() as context:
        module = llvm.parse_assembly(text, context)
        try:
            machine = host_machine(opt)
            try:
                return bytes(machine.emit_object(module))
            finally:
                machine.close()
        finally:
            module.close()
