"""The same kernels on every processor: exported, linked by a C compiler into one program, run (where needed
by an emulator), compared with numpy; exactly, where the numbers are small integers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cross import program
from tests.cross.kernels import CASES

# what is built for → compiler, flags, emulator (none: this machine), what Debian calls the packages
TARGETS = {
    "x86-64": ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", "gcc", [], [], "gcc"),
    "aarch64": (
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon",
        "aarch64-linux-gnu-gcc",
        ["-static"],
        ["qemu-aarch64"],
        "qemu-user gcc-aarch64-linux-gnu",
    ),
    "aarch64-extended": (
        "llvm -mtriple=aarch64-linux-gnu -mattr=+fullfp16,+dotprod,+i8mm,+bf16",
        "aarch64-linux-gnu-gcc",
        ["-static"],
        ["qemu-aarch64", "-cpu", "max"],
        "qemu-user gcc-aarch64-linux-gnu",
    ),
    "riscv64": (
        "llvm -mtriple=riscv64-linux-gnu",
        "riscv64-linux-gnu-gcc",
        ["-static"],
        ["qemu-riscv64"],
        "qemu-user gcc-riscv64-linux-gnu",
    ),
    "riscv64-vector": (
        "llvm -mtriple=riscv64-linux-gnu -mattr=+v",
        "riscv64-linux-gnu-gcc",
        ["-static"],
        ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"],
        "qemu-user gcc-riscv64-linux-gnu",
    ),
}

ONLY = {
    "aarch64-extended": {"half", "brain_float", "matmul_int8", "sum_and_argmax", "narrow_casts"}
}  # what the extensions are for


def distance(got: np.ndarray, want: np.ndarray) -> int:
    """The largest distance in units of the last place; two NaNs are equal."""
    if got.dtype.kind != "f":
        return 0 if np.array_equal(got, want) else 1 << 30
    both = np.isnan(got) & np.isnan(want)
    words = [
        np.where(both, 0, x).astype(got.dtype).view(f"i{got.itemsize}").astype(object) for x in (got, want)
    ]
    low = -(1 << (8 * got.itemsize - 1))
    a, b = (np.where(w < 0, low - w, w) for w in words)
    return int(np.abs(a - b).max(initial=0))


def test_names_differ() -> None:
    assert len({c.name for c in CASES}) == len(CASES) >= 30


# scalar code of an emulated processor takes longest, and that of its vectors is tested
LONG = {"riscv64": [pytest.mark.fuzz]}


@pytest.mark.parametrize("name", [pytest.param(t, marks=LONG.get(t, [])) for t in TARGETS])
def test_every_kernel_equals_numpy(name: str, tmp_path: Path) -> None:
    target, compiler, flags, emulator, packages = TARGETS[name]
    missing = [tool for tool in (compiler, *emulator[:1]) if shutil.which(tool) is None]
    if missing or sys.platform != "linux":
        pytest.skip(f"needs {' and '.join(missing)} (Debian: apt install {packages})")
    cases = [c for c in CASES if c.name in ONLY.get(name, [c.name])]
    files = program.write(cases, target, tmp_path)
    assert name in ONLY or "tensorlang_parallel" in (tmp_path / "matmul_parallel.h").read_text()
    said = program.run(
        [compiler, "-std=c11", "-Wall", "-Werror", "-O1", *flags, "-o", tmp_path / "program", *files, "-lm"]
    )
    assert said == ""
    left_out = emulated([*emulator, tmp_path / "program", tmp_path / "inputs", tmp_path / "results"])
    assert len(left_out) <= len(cases) // 4, left_out
    wrong = []
    for c, (status, arrays) in zip(
        cases, program.read(cases, (tmp_path / "results").read_bytes()), strict=True
    ):
        far = [distance(got, want) for got, want in zip(arrays, c.expected(), strict=True)]
        if c.name not in left_out and (status or max(far) > c.ulps):
            wrong.append((c.name, status, far))
    assert wrong == [], wrong


def emulated(command: list[str | Path]) -> list[str]:
    """Run the program; the kernels that were left out. QEMU before 8.0 ends with a failed assertion of its
    own at a vector conversion that rounds to zero, unless an instruction with the dynamic rounding mode
    stands before it in the same block: what meets that is not called."""
    left_out: list[str] = []
    while True:
        status, said = program.attempt([*command, *left_out])
        lines = said.splitlines()
        broken = next(
            (
                i
                for i, line in enumerate(lines)
                if line.startswith("qemu-riscv64:") and "decode_save_opc: Assertion" in line
            ),
            None,
        )
        if broken is None:
            assert status == 0, f"ended with {status}\n{said}"
            return left_out
        left_out.append(lines[broken - 1])
