"""LLVM text to object code for this processor, without optimisation passes: for the small helpers of the
runtime only.

``opt`` 0 compiles in a quarter of the time of 2, and code between atomics and system calls runs as fast.

The helpers that every engine needs are compiled once a process, in a quarter of a second and 25 MB of LLVM
that nothing else would touch. A file of an engine has them with it (``kept``), and who loads it hands them on
(``adopt``).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import llvmlite
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


class Processor(NamedTuple):
    """Another processor: its triple, LLVM's name of it, and features as LLVM spells them."""

    triple: str
    cpu: str
    features: str

    def machine(self, opt: int) -> Any:
        """A new target machine for it."""
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        abi = "lp64d" if self.triple.startswith("riscv64") else ""  # else floats go by integer registers
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, opt=opt, reloc="pic", codemodel="small", abiname=abi
        )


_kept: dict[str, bytes] = {}


def kept() -> dict[str, bytes]:
    """The object code of the helpers of this process, by a name for all that decides it."""
    return dict(_kept)


def adopt(codes: Mapping[str, bytes]) -> None:
    """Take such code instead of compiling it; what has another name is never asked for."""
    for name, code in codes.items():
        _kept.setdefault(name, code)


@functools.cache
def _processor() -> str:
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvmlite.__version__} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def compiled_once(text: str, opt: int = 0) -> bytes:
    """As ``compiled``, unless it was compiled or adopted before."""
    name = hashlib.sha256(f"{_processor()} {opt} {text}".encode()).hexdigest()
    if name not in _kept:
        _kept[name] = compiled(text, opt)
    return _kept[name]


def compiled(text: str, opt: int = 0, processor: Processor | None = None) -> bytes:
    """The relocatable object code of a module, for this processor unless another is named."""
    with llvm.create_context() as context:
        module = llvm.parse_assembly(text, context)
        try:
            machine = host_machine(opt) if processor is None else processor.machine(opt)
            try:
                return bytes(machine.emit_object(module))
            finally:
                machine.close()
        finally:
            module.close()
