"""The table of x86-64 CPUs against LLVM: one small function for each instruction set, compiled for every CPU;
the assembly tells."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from tensorlang.interface import isa
from tensorlang.target import features, x86

TRIPLE = "x86_64-unknown-linux-gnu"
# instruction set → what its function computes (arguments x, y, z; result r), and the instruction that only it
# has
PROBES: dict[str, tuple[str, str, str]] = {
    "popcnt": ("i32", "%r = call i32 @llvm.ctpop.i32(i32 %x)", "popcntl"),
    "lzcnt": ("i32", "%r = call i32 @llvm.ctlz.i32(i32 %x, i1 false)", "lzcntl"),
    "bmi": ("i32", "%n = xor i32 %x, -1\n %r = and i32 %n, %y", "andnl"),
    "bmi2": ("i32", "%r = shl i32 %x, %y", "shlxl"),
    "sse3": (
        "<4 x float>",
        "%r = shufflevector <4 x float> %x, <4 x float> poison, <4 x i32> <i32 1, i32 1, i32 3, i32 3>",
        "movshdup",
    ),
    "ssse3": ("<8 x i16>", "%r = call <8 x i16> @llvm.abs.v8i16(<8 x i16> %x, i1 false)", "pabsw"),
    "sse4.1": ("<4 x i32>", "%r = call <4 x i32> @llvm.smin.v4i32(<4 x i32> %x, <4 x i32> %y)", "pminsd"),
    "avx": ("<4 x float>", "%r = fadd <4 x float> %x, %y", "vaddps"),
    "avx2": ("<8 x i32>", "%r = add <8 x i32> %x, %y", r"vpaddd\s.*ymm"),
    "f16c": (
        "<4 x float>",
        "%h = fptrunc <4 x float> %x to <4 x half>\n %r = fpext <4 x half> %h to <4 x float>",
        "vcvtps2ph",
    ),
    "fma": (
        "<4 x float>",
        "%r = call <4 x float> @llvm.fma.v4f32(<4 x float> %x, <4 x float> %y, <4 x float> %z)",
        "vfmadd(...ps|ps)",
    ),
    "gfni": ("<16 x i8>", "%r = call <16 x i8> @llvm.bitreverse.v16i8(<16 x i8> %x)", "gf2p8affineqb"),
    "tbm": ("i32", "%m = add i32 %x, 1\n %r = and i32 %x, %m", "blcfill"),
    "xop": (
        "<4 x i32>",
        "%r = call <4 x i32> @llvm.fshl.v4i32(<4 x i32> %x, <4 x i32> %x, <4 x i32> %y)",
        r"vprotd",
    ),
    "avx512f": ("<16 x i32>", "%r = add <16 x i32> %x, %y", r"vpaddd\s.*zmm"),
    "avx512bw": ("<64 x i8>", "%r = add <64 x i8> %x, %y", r"vpaddb\s.*zmm"),
    "avx512dq": ("<8 x i64>", "%r = mul <8 x i64> %x, %y", r"vpmullq\s.*zmm"),
    "avx512vl": (
        "<4 x i64>",
        "%r = call <4 x i64> @llvm.abs.v4i64(<4 x i64> %x, i1 false)",
        r"vpabsq\s.*ymm",
    ),
    "avx512cd": (
        "<16 x i32>",
        "%r = call <16 x i32> @llvm.ctlz.v16i32(<16 x i32> %x, i1 false)",
        r"vplzcntd\s.*zmm",
    ),
    "avx512vpopcntdq": (
        "<16 x i32>",
        "%r = call <16 x i32> @llvm.ctpop.v16i32(<16 x i32> %x)",
        r"\tvpopcntd\s.*zmm",
    ),
    "avx512bitalg": (
        "<64 x i8>",
        "%r = call <64 x i8> @llvm.ctpop.v64i8(<64 x i8> %x)",
        r"\tvpopcntb\s.*zmm",
    ),
    "avx512vbmi2": (
        "<32 x i16>",
        "%r = call <32 x i16> @llvm.fshl.v32i16(<32 x i16> %x, <32 x i16> %y, <32 x i16> %z)",
        "vpshldvw",
    ),
    "avx512bf16": (
        "<16 x float>",
        "%h = fptrunc <16 x float> %x to <16 x bfloat>\n %r = fpext <16 x bfloat> %h to <16 x float>",
        r"vcvtneps2bf16\s.*zmm",
    ),
    "avx512fp16": ("<32 x half>", "%r = fadd <32 x half> %x, %y", "vaddph"),
}


def _ir() -> str:
    parts = [f'target triple = "{TRIPLE}"']
    for i, (kind, body, _) in enumerate(PROBES.values()):
        parts.append(
            f"define {kind} @probe{i}({kind} %x, {kind} %y, {kind} %z) #0 {{\n {body}\n ret {kind} %r\n}}"
        )
    return "\n".join([*parts, 'attributes #0 = { "min-legal-vector-width"="512" }'])


def found(cpu: str) -> set[str]:
    """The instruction sets LLVM uses for that CPU."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    with llvm.create_context() as context:
        module = llvm.parse_assembly(_ir(), context)
        machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, opt=2)
        asm = str(machine.emit_assembly(module))
        module.close()
        machine.close()
    texts = {int(t.split()[0]): t for t in re.split(r"\n\t\.globl\tprobe", asm)[1:]}
    return {
        name
        for i, (name, (_, _, instruction)) in enumerate(PROBES.items())
        if re.search(instruction, texts[i])
    }


@pytest.mark.parametrize("row", range(len(x86._ROWS)))
def test_every_row_is_what_llvm_does(row: int) -> None:
    names, told = x86._ROWS[row][0].split(), set(x86._ROWS[row][1].split())
    want = {s for s in told if s in PROBES} | (
        {"fma"} if "fma4" in told else set()
    )  # multiply-adds of four operands are as good
    for cpu in (names[0], names[-1]):
        assert found(cpu) == want, cpu


def test_the_names_are_llvms() -> None:
    for arch, sets in isa.SETS.items():
        assert sets <= features.NAMES[arch], arch
    assert {s for row in x86.CPUS.values() for s in row} <= isa.SETS["x86_64"]
    assert (
        set(x86._IMPLIES) <= features.NAMES["x86_64"]
        and {i for implied in x86._IMPLIES.values() for i in implied} <= isa.SETS["x86_64"]
    )
