"""Locations of instructions: the code with them is the code without them, each loop has instructions, and what
only debuggers read is left out."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen import compile_ll, emit, located
from tensorlang.target import as_target


def matmul(parallel: bool = False, factor: int = 4) -> tuple[tl.Schedule, list]:
    A, B = te.placeholder((32, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((32, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=factor, y_factor=16)
    s[acc].compute_at(s[C], jo)
    i, j = s[acc].op.axis
    s[acc].reorder(k, i, j)
    for stage, rows, columns in ((acc, i, j), (C, ii, ji)):
        s[stage].unroll(rows)
        s[stage].vectorize(columns)
    if parallel:
        s[C].parallel(io)
    return s, [A, B, C]


def softmax() -> tuple[tl.Schedule, list]:
    x = te.placeholder((te.var("n"), 33), name="x")
    y = ops.softmax(x)
    return te.create_schedule(y.op), [x, y]


def instructions(asm: str) -> list[str]:
    lines = [line.split("#")[0].split("//")[0].rstrip() for line in asm.splitlines()]
    return [line for line in lines if line.startswith("\t") and not line.strip().startswith(".")]


@pytest.mark.parametrize("target", [None, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"])
@pytest.mark.parametrize("make", [matmul, lambda: matmul(parallel=True), softmax])
def test_locations_change_no_instruction(make, target):
    func, where = tl.lower(*make()), as_target(target)
    found = located(func, where)
    plain = compile_ll(emit(func, where), where).asm
    code = [i.text for i in found.code if not i.is_label and not i.text.strip().startswith(".")]
    if target is not None:  # with locations, AArch64 saves registers in another order
        opcodes = lambda lines: sorted(line.split()[0] for line in lines)
        assert opcodes(code) == opcodes(instructions(plain)) and code
    else:
        assert code == instructions(plain) and code
    assert not [i for i in found.code if "debug" in i.text or ".loc" in i.text]


def test_every_loop_and_store_has_instructions():
    found = located(tl.lower(*matmul()), as_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    of = {i.line for i in found.code if not i.is_label}
    for n, line in enumerate(found.lines, 1):
        if line.lstrip().startswith(("for ", "C[")) or "+" in line.partition("=")[2]:
            assert n in of, line
    k = next(n for n, line in enumerate(found.lines, 1) if "for k" in line)
    assert sum("vfmadd" in i.text for i in found.code if k < i.line <= k + 4) == 8  # 4 rows of 2 vectors


def test_spills_are_told():
    found = located(tl.lower(*matmul(factor=16)), as_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    moved = [i.moved for i in found.code if i.moved]
    assert "spill" in moved and "reload" in moved  # 32 accumulators, 16 registers
    none = located(tl.lower(*matmul()), as_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    assert not [i for i in none.code if i.moved]


def test_numbers_stay_those_of_the_kernel():
    s, args = matmul()
    a, b = np.ones((32, 64), np.float32), np.ones((64, 64), np.float32)
    f = tl.build(s, args)
    f.view()
    assert (f(a, b) == 64).all()
