"""LLVM text to object code: the only file of the room that runs LLVM. Knows no expressions and no loop IR.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass, field

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ...target import Target, host

_lock = threading.RLock()  # a target machine is not to be used by two threads at once


@dataclass(frozen=True)
class CompiledCode:
    """Object code and what it was made of. The optimised LLVM text and the assembly are made again when asked for."""

    object: bytes
    ll: str
    target: Target
    opt_level: int = 2
    seconds: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

    @functools.cached_property
    def optimised_ll(self) -> str:
        """The LLVM text after the passes."""
        with _lock:
            module = _optimised(self.ll, self.target, self.opt_level, {})
            try:
                return str(module)
            finally:
                module.close()

    @functools.cached_property
    def asm(self) -> str:
        """The assembly."""
        with _lock:
            module = _optimised(self.ll, self.target, self.opt_level, {})
            try:
                return str(_machine(self.target, self.opt_level).emit_assembly(module))
            finally:
                module.close()


def compile_ll(ll: str, target: Target, opt_level: int = 2, verify: bool = False) -> CompiledCode:
    """Object code for the module ``ll``. ``opt_level`` 0 is no passes and quick code; 2 is the default. ``verify`` has LLVM check
    the text.

    Raises RuntimeError when LLVM refuses the text, which is a bug of the caller.
    """
    seconds: dict[str, float] = {}
    with _lock:
        module = _optimised(ll, target, opt_level, seconds, verify)
        try:
            start = time.perf_counter()
            code = _machine(target, opt_level).emit_object(module)
            seconds["codegen"] = time.perf_counter() - start
        finally:
            module.close()
    return CompiledCode(code, ll, target, opt_level, seconds)


@functools.cache
def _start(arch: str) -> None:
    if arch == host.triple().split("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.lru_cache(maxsize=32)
def _machine(target: Target, opt_level: int) -> llvm.TargetMachine:
    _start(target.arch)
    features = [host.feature_string()] if target.is_host else []
    features += target.mattr
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.mcpu, features=",".join(f for f in features if f), opt=opt_level, reloc="pic", codemodel="small",
        abiname="lp64d" if target.arch == "riscv64" else "")


def _optimised(ll: str, target: Target, opt_level: int, seconds: dict[str, float], verify: bool = False) -> llvm.ModuleRef:
    machine = _machine(target, opt_level)
    start = time.perf_counter()
    context = llvm.create_context()
    module = llvm.parse_assembly(ll, context)
    module._kept_context = context  # the module lives in it
    if verify:
        module.verify()
    seconds["parse"] = time.perf_counter() - start
    if opt_level:
        start = time.perf_counter()
        options = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        builder = llvm.create_pass_builder(machine, options)
        manager = llvm.create_new_module_pass_manager()
        try:
            manager.add_sroa_pass()
            manager.add_instruction_combine_pass()
            manager.add_simplify_cfg_pass()
            manager.run(module, builder)
        finally:
            NewPassManager._dispose(manager)  # its own close() frees nothing in llvmlite 0.50
            manager.detach()
            builder.close()
            options.close()
        seconds["passes"] = time.perf_counter() - start
    return module
