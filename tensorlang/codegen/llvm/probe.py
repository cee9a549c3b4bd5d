"""Whether LLVM survives a target: the flags of ``-mattr`` are free to forbid what every kernel needs
(``-sse2``, ``+x32``, RISC-V's ``zcmp`` beside ``d``), and LLVM then ends the process. So a target with flags
that are not known to be harmless first makes a small program in a process of its own. Knows no kernels.
"""

from __future__ import annotations

import functools
import subprocess
import sys

from ...errors import TargetError
from ...interface import isa
from ...target import Target

_PROGRAM = """
import sys
triple, cpu, features, abi, *sys.path = sys.argv[1:]
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
module = llvm.parse_assembly(sys.stdin.read())
machine = llvm.Target.from_triple(triple).create_target_machine(
    cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", abiname=abi)
machine.emit_object(module)
"""

# What kernels are made of: calls with many arguments, float, double, half, masked vectors, integers, a loop,
# constants in memory.
_TEXT = """
@table = internal constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0], align 64
declare i32 @called(ptr, ptr, ptr, ptr, ptr, ptr, i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare i64 @llvm.ctpop.i64(i64)
define <8 x float> @wide(<8 x float> %a, <8 x float> %b) {
  %r = call contract <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x float> %a)
  ret <8 x float> %r
}
define double @twice(double %a, i64 %n) {
  %x = sitofp i64 %n to double
  %r = fmul double %a, %x
  ret double %r
}
define signext i32 @kernel(ptr %a, ptr %b, ptr %c, i64 %n, float %scale) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %m = icmp sgt <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, zeroinitializer
  %v = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p, i32 4, <8 x i1> %m, <8 x float> zeroinitializer)
  %w = call <8 x float> @wide(<8 x float> %v, <8 x float> %v)
  store <8 x float> %w, ptr %p, align 4
  %d = sdiv i64 %i, 7
  %k = and i64 %d, 3
  %t = getelementptr float, ptr @table, i64 %k
  %f = load float, ptr %t
  %g = fmul float %f, %scale
  %h = fptrunc float %g to half
  store half %h, ptr %c
  %e = fpext float %g to double
  %o = call i64 @llvm.ctpop.i64(i64 %i)
  %y = call double @twice(double %e, i64 %o)
  store double %y, ptr %b
  %next = add i64 %i, 8
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %r = call i32 @called(ptr %a, ptr %b, ptr %c, ptr %a, ptr %b, ptr %c, i64 %n, i64 %n)
  ret i32 %r
}
"""


def check(target: Target, abi: str) -> None:
    """Raises TargetError when LLVM makes no code for the target."""
    if not all(_harmless(target.arch, flag) for flag in target.mattr):
        why = _dies(target.triple, target.mcpu, target.llvm_features, abi)
        if why is not None:
            raise TargetError(
                f"no code can be made for {target}", because=why, try_="leave out a flag of -mattr"
            )


def _harmless(arch: str, flag: str) -> bool:
    """Whether every kernel can be made with and without that instruction set, whatever else the target
    has."""
    return (
        flag == "+v"
        if arch == "riscv64"
        else flag[1:] in isa.SETS[arch] and (arch == "x86_64" or flag.startswith("+"))
    )


@functools.lru_cache(maxsize=256)
def _dies(triple: str, cpu: str, features: str, abi: str) -> str | None:
    command = [sys.executable, "-c", _PROGRAM, triple, cpu, features, abi, *sys.path]
    try:
        done = subprocess.run(
            command, input=_TEXT, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (
        OSError,
        subprocess.SubprocessError,
    ):  # no interpreter to ask, as where Python is embedded: nothing is known against the flags
        return None
    if done.returncode == 0:
        return None
    said = [
        line.partition("error: ")[2] or line.removeprefix("LLVM ERROR: ")
        for line in done.stderr.splitlines()
        if "error" in line.lower()
    ]
    return f"LLVM says: {said[-1].strip()}" if said else "LLVM ends with a crash"
