"""Targets that LLVM ends the process for are refused by an error, and those it takes are not; both in this
process, which lives on."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import TargetError

RISCV, ARM, X86 = (
    "llvm -mtriple=riscv64-linux-gnu -mattr=",
    "llvm -mtriple=aarch64-linux-gnu -mattr=",
    "llvm -mtriple=x86_64-linux-gnu -mattr=",
)


def build(target: str) -> tl.Module:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2, name="B")
    return tl.build(te.create_schedule(B.op), [A, B], target)


@pytest.mark.parametrize(
    ("target", "word"),
    [
        (f"{X86}-sse2", "SSE2 register return"),
        (f"{RISCV}+zcmp", "incompatible with 'c'"),
        (f"{RISCV}+zvl256b", "requires 'v'"),
        (f"{RISCV}-d", "StdExtD"),
        (f"{ARM}+reserve-x5", "argument registers"),
    ],
)
def test_flags_that_llvm_cannot_live_with(target: str, word: str) -> None:
    with pytest.raises(TargetError, match="no code can be made for llvm") as caught:
        build(target)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "target", [f"{X86}+prefer-256-bit", f"{RISCV}+v,+zvl256b", f"{ARM}+dotprod,+use-postra-scheduler"]
)
def test_flags_that_it_can(target: str) -> None:
    assert len(build(target).object_code) > 100


def test_flags_that_imply_wide_vectors_are_not_run_on_a_narrow_machine() -> None:
    """``+avx10.1-512`` and ``+avx512vp2intersect`` mean AVX-512: without it they were an illegal
    instruction."""
    x = np.ones(16, np.float32)
    wide = tl.Target.host().vector_bits == 512
    for flag in ("avx10.1-512", "avx10.2-512", "avx512vp2intersect"):
        assert "avx512f" in tl.Target.parse(f"{X86}+{flag}").instruction_sets
        if tl.Target.host().arch == "x86_64" and not wide:
            with pytest.raises(TargetError, match="cannot run here"):
                build(f"llvm -mattr=+{flag}")(x)
