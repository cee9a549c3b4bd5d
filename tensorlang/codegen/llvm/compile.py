"""LLVM text to object code: the only file of the room that runs LLVM. Knows no expressions and no loop IR.

The passes are three, because ``emit`` already places invariant values in front of loops, finds common values
and promotes accumulators: ``sroa`` (small local buffers become registers), ``instruction_combine`` (shorter
conversions of narrow integers: 25 instead of 35 instructions for an int8 product) and ``simplify_cfg``.
Measured in milliseconds on a 2.45 GHz Zen 3 (LLVM 22), with the time of the kernel itself; O2 is LLVM's own
pipeline without its vectorisers and unroller:

====================================  ====  =====  ===============  ===============  ====================
kernel                                emit  parse  these passes     O2 passes        run, these : O2 (µs)
====================================  ====  =====  ===============  ===============  ====================
matmul tile 6 x 16, 256 bits          3.8   0.5    0.8 + code 5.8   9.4 + code 5.4   961 : 1014
the same, accumulating in C itself    10.7  0.5    0.9 + code 6.3   9.5 + code 5.3   2.6 : 2.5
matmul tile 14 x 32, 512 bits         8.1   0.9    1.1 + code 7.1   13.1 + code 6.7
erf, 8 lanes                          0.5   0.4    0.6 + code 5.1   4.9 + code 4.9   20.5 : 20.5
====================================  ====  =====  ===============  ===============  ====================

Without ``sroa`` the first takes 1852 µs. ``new_gvn`` and a last ``dead_code_elimination`` cost 0.5 ms and
change nothing. llvmlite has no separate ``early-cse`` or ``licm``; nothing measured asked for them. LLVM's
vectorisers, unroller and inliner stay off: vectors, unrolling and outlining are decisions of the schedule.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from ... import options
from ...errors import CompileError
from ...target import Target, host
from . import child
from .probe import check

T = TypeVar("T")

# Processors for which machine code is made at level 1. At 2 LLVM puts instructions in another order once more
# when registers are given (of x86-64 for Zen only); such a processor does so by itself. Measured (Zen 5): a
# tenth of the time of code generation; ResNet-50, MiniLM and an OCR recogniser run at 0.99 to 1.00 of theirs.
_PLAINLY = ("znver5",)

_lock = threading.RLock()  # a target machine is not to be used by two threads at once


@dataclass(frozen=True)
class CompiledCode:
    """Object code and what it was made of. The optimised LLVM text and the assembly are made again when asked
    for."""

    object: bytes
    ll: str
    target: Target
    opt_level: int = 2
    seconds: dict[str, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def instruction_sets(self) -> tuple[str, ...]:
        """Those of the target that a processor must have for this code: AMX only where the text asks for it,
        which LLVM does nowhere by itself."""
        tiles = "@llvm.x86.tile" in self.ll
        return tuple(s for s in self.target.instruction_sets if tiles or not s.startswith("amx-"))

    @functools.cached_property
    def optimised_ll(self) -> str:
        """The LLVM text after the passes."""
        return _made(self.ll, self.target, self.opt_level, str)[0]

    @functools.cached_property
    def asm(self) -> str:
        """The assembly."""
        return _made(
            self.ll, self.target, self.opt_level, _machine(self.target, self.opt_level).emit_assembly
        )[0]


def compile_ll(
    ll: str, target: Target, opt_level: int = 2, program: Callable[[], str] | None = None
) -> CompiledCode:
    """Object code for the module ``ll``. ``opt_level`` 0 is no passes and quick code; 2 is the default.
    ``program`` is the text that an error shows: what the user can read, where there is such a thing, else
    ``ll``.

    Raises TargetError when LLVM makes no code for the target, CompileError when it refuses the text or, with
    ``TENSORLANG_ISOLATE=1``, ends its process: a bug of ours or of LLVM's.
    """
    code, seconds = _made(ll, target, opt_level, _machine(target, opt_level).emit_object, program)
    return CompiledCode(code, ll, target, opt_level, seconds)


def commented_assembly(ll: str, target: Target) -> str:
    """The assembly of a module with LLVM's own remarks, such as what is a spill."""
    machine = _machine(target, 2)

    def make(module: llvm.ModuleRef) -> str:
        machine.set_asm_verbosity(True)
        try:
            return machine.emit_assembly(module)  # type: ignore[no-any-return]
        finally:
            machine.set_asm_verbosity(False)

    return _made(ll, target, 2, make)[0]


def _made(
    ll: str,
    target: Target,
    opt_level: int,
    make: Callable[[llvm.ModuleRef], T],
    program: Callable[[], str] | None = None,
) -> tuple[T, dict[str, float]]:
    """``make`` of the optimised module, and the seconds it took; in a child process if that is asked for."""

    def work() -> tuple[T, dict[str, float]]:
        seconds: dict[str, float] = {}
        module = _optimised(ll, target, opt_level, seconds)
        try:
            start = time.perf_counter()
            made = make(module)
            seconds["codegen"] = time.perf_counter() - start
        finally:
            module.close()
        return made, seconds

    try:
        # llvmlite has a lock of its own around every call; this one keeps a machine's settings from changing
        # between two
        with _lock:
            return child.run(work) if options.isolate() else work()
    except (
        child.Died,
        RuntimeError,
    ) as error:  # RuntimeError: what llvmlite says of a text that is not a module
        raise CompileError(
            f"no code could be made for {target}",
            because=" ".join(str(error).split()),
            program=program or (lambda: ll),
            try_="another schedule; and please report the program, for this is a bug of ours",
        ) from None


@functools.cache
def _start(arch: str) -> None:
    if arch == host.triple().split("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()  # of the instructions that are named
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@functools.lru_cache(maxsize=32)
def _machine(target: Target, opt_level: int) -> llvm.TargetMachine:
    # the default passes floats in integer registers, which no Linux does
    abi = "lp64d" if target.arch == "riscv64" else ""
    check(target, abi)
    _start(target.arch)
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.mcpu,
        features=target.llvm_features,
        opt=min(opt_level, 1) if target.mcpu in _PLAINLY else opt_level,
        # code lies wherever the loader finds room, farther than 2 GB from the functions it calls
        reloc="pic",
        codemodel="small",
        abiname=abi,
    )


def _parsed(ll: str) -> llvm.ModuleRef:
    """The module of that text, checked."""
    context = llvm.create_context()
    # a context of its own: types and constants of a global one are never freed
    module = llvm.parse_assembly(ll, context)
    module._kept_context = context  # the module lives in it
    module.verify()
    return module


def _run_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine, opt_level: int, registers: bool) -> None:
    """Combine and simplify, with what lies on the stack put into ``registers`` or left there."""
    options = llvm.create_pipeline_tuning_options(speed_level=opt_level)
    builder = llvm.create_pass_builder(machine, options)
    manager = llvm.create_new_module_pass_manager()
    try:
        # in this order: registers first, so that combining sees values and not memory; then the blocks that
        # became empty
        if registers:
            manager.add_sroa_pass()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()
        manager.run(module, builder)
    finally:
        NewPassManager._dispose(manager)  # its own close() frees nothing in llvmlite 0.50
        manager.detach()
        builder.close()
        options.close()


def _optimised(ll: str, target: Target, opt_level: int, seconds: dict[str, float]) -> llvm.ModuleRef:
    """The module of that text, optimised, checked before and behind (each half a per cent of the time; a
    value used where it is not known would end the process)."""
    machine = _machine(target, opt_level)
    start = time.perf_counter()
    module = _parsed(ll)
    seconds["parse"] = time.perf_counter() - start
    if opt_level:
        start = time.perf_counter()
        _run_passes(module, machine, opt_level, registers=True)
        try:
            module.verify()
        except RuntimeError:
            # SROA of LLVM 22 merges vectors that are stored into one place where the one with the highest
            # address was stored, though others come later; generating code of that ends the process
            module = _parsed(ll)
            _run_passes(module, machine, opt_level, registers=False)
        seconds["passes"] = time.perf_counter() - start
    return module
