"""Target strings, facts and errors."""

from __future__ import annotations

import dataclasses

import pytest

from tensorlang.errors import TargetError
from tensorlang.target import Target, as_target, host


@pytest.mark.parametrize("text", ["llvm", "llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell -mattr=+avx512f,-fma -num-cores=3",
                                  "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v",
                                  "llvm --mcpu=znver3 -num-cores 2"])
def test_strings_round_trip(text: str) -> None:
    target = Target.parse(text)
    assert Target.parse(str(target)) == target
    assert hash(Target.parse(str(target))) == hash(target)


def test_host_is_what_plain_llvm_means() -> None:
    assert Target.parse("llvm") == Target.host() == as_target(None)
    target = Target.host()
    assert target.is_host and target.num_cores >= 1 and target.l1_bytes >= 8 << 10 and target.cache_line in (32, 64, 128, 256)
    assert as_target(target) is target and as_target("llvm") == target


@pytest.mark.parametrize(("text", "bits", "registers", "fma"), [
    ("llvm -mcpu=x86-64", 128, 16, False), ("llvm -mcpu=haswell", 256, 16, True), ("llvm -mcpu=skylake-avx512", 512, 32, True),
    ("llvm -mcpu=znver4", 512, 32, True), ("llvm -mcpu=haswell -mattr=-avx", 128, 16, False), ("llvm -mcpu=haswell -mattr=-fma", 256, 16, False),
    ("llvm -mcpu=x86-64 -mattr=+avx512f", 512, 32, True), ("llvm -mcpu=skylake-avx512 -mattr=-avx512f", 256, 16, True),
    ("llvm -mtriple=aarch64-unknown-linux-gnu", 128, 32, True), ("llvm -mtriple=riscv64-unknown-linux-gnu", 64, 32, True),
    ("llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v", 128, 32, True)])
def test_facts(text: str, bits: int, registers: int, fma: bool) -> None:
    if "-mtriple" not in text:
        text += " -mtriple=x86_64-unknown-linux-gnu"
    target = Target.parse(text)
    assert (target.vector_bits, target.vector_registers, target.has_fma) == (bits, registers, fma)
    assert target.vector_lanes("float32") == max(1, bits // 32) and target.vector_lanes("int8") == bits // 8
    assert target.vector_lanes("float64") == max(1, bits // 64)


@pytest.mark.parametrize(("text", "word"), [
    ("cuda", "unknown target"), ("", "unknown target"), ("llvm -mcpus=skylake", "unknown option"), ("llvm -mcpu=skylak", "skylake"),
    ("llvm -mtriple=z80-unknown-none", "unknown triple"), ("llvm -mtriple=x86_64", "unknown triple"), ("llvm -mattr=avx2", "+avx2"),
    ("llvm -num-cores=0", "positive"), ("llvm -num-cores", "no value"), ("llvm -mtriple=aarch64-linux-gnu -mcpu=haswell", "unknown CPU"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=native", "another machine")])
def test_mistakes_are_named(text: str, word: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert word in str(caught.value)


def test_targets_are_values() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Target.host().num_cores = 3  # type: ignore[misc]


def test_cache_sizes_are_read_and_their_absence_is_no_error(tmp_path: object) -> None:
    import pathlib

    root = pathlib.Path(str(tmp_path))
    for i, (level, kind, size) in enumerate((("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2M"))):
        d = root / f"index{i}"
        d.mkdir()
        (d / "level").write_text(level)
        (d / "type").write_text(kind)
        (d / "size").write_text(size)
        (d / "coherency_line_size").write_text("64")
    assert host.caches(str(root)) == {"l1_bytes": 48 << 10, "l2_bytes": 2 << 20, "cache_line": 64}
    assert host.caches(str(root / "nowhere")) == {}
