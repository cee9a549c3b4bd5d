"""LLVM text to object code for this processor, without optimisation passes: for the small helpers of the
runtime only.

``opt`` 0 compiles in a quarter of the time of 2, and code between atomics and system calls runs as fast.

The helpers that every engine needs are translated and compiled once a process, in a quarter of a second and
25 MB of LLVM that nothing else would touch. A file of an engine has them with it (``kept``), as has a cache
of kernels, and who reads it hands them on (``adopt``).
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
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
    return {name: code for name, code in _kept.items() if name.startswith(_compiler())}


def adopt(codes: Mapping[str, bytes]) -> None:
    """Take such code instead of compiling it; what has another name is never asked for."""
    for name, code in codes.items():
        _kept.setdefault(name, code)


@functools.cache
def _compiler() -> str:
    """A name for what translates and compiles here, and for what: the files of this package and its settings,
    the interpreter, LLVM, the processor."""
    digest, room = hashlib.sha256(), Path(__file__).parent
    for file in (*sorted(room.glob("*.py")), room.parent / "options.py"):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    features = llvm.get_host_cpu_features().flatten()
    processor = f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"
    digest.update(f"{sys.version} {llvmlite.__version__} {processor}".encode())
    return digest.hexdigest()[:20]


def compiled_once(functions: str, text: Callable[[], str], opt: int = 0) -> bytes:
    """As ``compiled``, unless it was compiled or adopted before. ``functions`` names what is exported, under
    which symbols: with this package's files that decides the text, which is asked for only when needed."""
    name = _compiler() + hashlib.sha256(f"{opt} {functions}".encode()).hexdigest()[:20]
    if name not in _kept:
        _kept[name] = compiled(text(), opt)
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
