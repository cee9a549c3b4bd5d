"""Target strings, facts and errors."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from tensorlang.errors import TargetError
from tensorlang.interface import isa
from tensorlang.target import Target, as_target, host, x86
from tensorlang.target.target import _host, _instruction_sets, _parse


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "llvm -mcpu=skylake-avx512",
        "llvm -mcpu=haswell -mattr=+avx512f,-fma -num-cores=3",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1",
        "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v",
        "llvm --mcpu=znver3 -num-cores 2",
    ],
)
def test_strings_round_trip(text: str) -> None:
    target = Target.parse(text)
    assert Target.parse(str(target)) == target
    assert hash(Target.parse(str(target))) == hash(target)


def test_host_is_what_plain_llvm_means() -> None:
    assert Target.parse("llvm") == Target.host() == as_target(None)
    target = Target.host()
    assert (
        target.is_host
        and target.num_cores >= 1
        and target.l1_bytes >= 8 << 10
        and target.cache_line in (32, 64, 128, 256)
    )
    assert as_target(target) is target and as_target("llvm") == target


@pytest.mark.parametrize(
    ("text", "bits", "registers", "fma"),
    [
        ("llvm -mcpu=x86-64", 128, 16, False),
        ("llvm -mcpu=haswell", 256, 16, True),
        ("llvm -mcpu=skylake-avx512", 512, 32, True),
        ("llvm -mcpu=znver4", 512, 32, True),
        ("llvm -mcpu=haswell -mattr=-avx", 128, 16, False),
        ("llvm -mcpu=haswell -mattr=-fma", 256, 16, False),
        ("llvm -mcpu=x86-64 -mattr=+avx512f", 512, 32, True),
        ("llvm -mcpu=skylake-avx512 -mattr=-avx512f", 256, 16, True),
        ("llvm -mtriple=aarch64-unknown-linux-gnu", 128, 32, True),
        ("llvm -mtriple=riscv64-unknown-linux-gnu", 64, 32, True),
        ("llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v", 128, 32, True),
    ],
)
def test_facts(text: str, bits: int, registers: int, fma: bool) -> None:
    if "-mtriple" not in text:
        text += " -mtriple=x86_64-unknown-linux-gnu"
    target = Target.parse(text)
    assert (target.vector_bits, target.vector_registers, target.has_fma) == (bits, registers, fma)
    assert target.vector_lanes("float32") == max(1, bits // 32) and target.vector_lanes("int8") == bits // 8
    assert target.vector_lanes("float64") == max(1, bits // 64)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cuda", "kernels run on the CPU, and cuda is for GPUs"),
        ("c", "the kind is 'c'"),
        ("", "unknown target"),
        ("llvm -mcpus=skylake", "unknown option"),
        ("llvm -mcpu=skylak", "skylake"),
        ("llvm -mtriple=z80-unknown-none", "unknown triple"),
        ("llvm -mtriple=x86_64", "unknown triple"),
        ("llvm -mattr=avx2", "+avx2"),
        ("llvm -num-cores=0", "positive"),
        ("llvm -num-cores", "no value"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=haswell", "unknown CPU"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=native", "another machine"),
        ("llvm -mattr=+avx521f", "avx512f"),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+avx2", "unknown feature"),
        ("llvm -mtriple=riscv64-linux-gnu -mattr=+zvffh", "zvfh"),
        ("llvm -mtriple=aarch46-linux-gnu", "aarch64"),
        ("llvm -mcpu=haswell -mcpu=znver3", "given twice"),
        ("llvm -mcpu='haswell", "quotation"),
        ("llvm -mtriple=x86_64-pc-windows-msvc", "COFF, not ELF"),
        ("llvm -mtriple=x86_64-unknown-linux-gnux32", "32 bits"),
        ("llvm -mtriple=X86_64-linux-gnu", "beginning with x86_64"),
        ("llvm -mtriple=aarch64-linux-gnu_ilp32", "32 bits"),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+x32", "another machine"),
        ("llvm -num-cores=\u00b2", "positive"),
        ("llvm -num-cores=1000000", "999999"),
        ("llvm -mcpu=", "unknown CPU"),
        ("llvm -num-cores=two", "positive"),
        ("llvm haswell", "unknown option"),
    ],
)
def test_mistakes_are_named(text: str, word: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert word in str(caught.value)


@pytest.mark.parametrize("what", [5, b"llvm", ["llvm"]])
def test_a_target_is_a_string_or_a_target(what: object) -> None:
    with pytest.raises(TargetError, match="text or a Target or None is needed"):
        as_target(what)  # type: ignore[arg-type]


def test_instruction_sets_are_what_the_string_enables() -> None:
    def sets(text: str) -> set[str]:
        return set(Target.parse(text).instruction_sets)

    x86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
    assert sets(x86 + "x86-64") == set()
    assert {"avx2", "fma", "bmi2"} <= sets(x86 + "haswell") and not {
        s for s in sets(x86 + "haswell") if s.startswith("avx512")
    }
    assert sets(x86 + "haswell -mattr=-avx2") == sets(x86 + "haswell") - {"avx2"}
    assert {"avx512f", "avx2", "fma"} <= sets(x86 + "x86-64 -mattr=+avx512f")
    assert sets(x86 + "haswell -mattr=+prefer-256-bit,+fast-gather,+sgx,+rdseed") == sets(x86 + "haswell")
    assert sets("llvm -mtriple=riscv64-linux-gnu -mattr=+v") == {"a", "c", "d", "f", "m", "v"}
    assert sets("llvm -mtriple=aarch64-linux-gnu -mattr=+dotprod,+use-postra-scheduler") == {"dotprod"}
    assert set(Target.host().instruction_sets) <= {f for f, on in host.features().items() if on}


def test_why_a_target_cannot_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a Haswell: what needs more is refused by name, what tunes differently is not."""
    told = {f: f in x86.CPUS["haswell"] for f in isa.SETS["x86_64"]}
    for name, value in (("triple", "x86_64-unknown-linux-gnu"), ("cpu_name", "haswell"), ("features", told)):
        monkeypatch.setattr(host, name, lambda value=value: value)
    _host.cache_clear()
    _instruction_sets.cache_clear()
    try:
        for text in (
            "-mcpu=haswell",
            "-mcpu=x86-64-v3",
            "-mcpu=ivybridge",
            "-mcpu=nehalem",
            "-mcpu=haswell -mattr=+prefer-256-bit,-avx2",
            "-mcpu=znver1 -mattr=-sse4a,-prfchw",
        ):
            assert Target.parse(f"llvm -mtriple=x86_64-unknown-linux-gnu {text}").why_not_here() is None, text
        for text, word in (
            ("-mcpu=znver3", "prfchw, sse4a"),
            ("-mcpu=alderlake", "avxvnni, gfni"),
            ("-mcpu=skylake-avx512", "512 bits"),
            ("-mcpu=haswell -mattr=+gfni", "gfni"),
            ("-mtriple=aarch64-linux-gnu", "for aarch64-linux-gnu"),
        ):
            why = Target.parse(
                "llvm " + ("" if "triple" in text else "-mtriple=x86_64-unknown-linux-gnu ") + text
            ).why_not_here()
            assert why is not None and word in why, text
    finally:
        _host.cache_clear()
        _instruction_sets.cache_clear()
        _parse.cache_clear()


def test_what_is_known_of_a_target_here_stays_here() -> None:
    target = Target.parse("llvm -mcpu=skylake-avx512")
    assert target.has_masks and target.arch and target.instruction_sets is target.instruction_sets
    again = pickle.loads(pickle.dumps(target))
    assert again == target and vars(again).keys() == {f.name for f in dataclasses.fields(target)}
    assert again.instruction_sets == target.instruction_sets


def test_targets_are_values() -> None:
    with pytest.raises(AttributeError, match="takes no assignment"):
        Target.host().num_cores = 3  # type: ignore[misc]


def test_cache_sizes_are_read_and_their_absence_is_no_error(tmp_path: object) -> None:
    import pathlib

    root = pathlib.Path(str(tmp_path))
    for i, (level, kind, size) in enumerate(
        (("1", "Data", "48K"), ("1", "Instruction", "64K"), ("2", "Unified", "2M"))
    ):
        d = root / f"index{i}"
        d.mkdir()
        (d / "level").write_text(level)
        (d / "type").write_text(kind)
        (d / "size").write_text(size)
        (d / "coherency_line_size").write_text("64")
    assert host.caches(str(root)) == {"l1_bytes": 48 << 10, "l2_bytes": 2 << 20, "cache_line": 64}
    assert host.caches(str(root / "nowhere")) == {}


def test_a_processor_under_an_older_ones_model_number_has_its_own_name() -> None:
    """Hypervisors do so: a Granite Rapids answered as a Rocket Lake and got the costs of another processor."""
    here = x86.CPUS["sapphirerapids"] | {"amx-tile", "avx10.1", "cldemote"}
    assert x86.truer_name("rocketlake", here) == "sapphirerapids"
    assert x86.truer_name("x86-64", here) == "sapphirerapids"
    assert x86.truer_name("haswell", x86.CPUS["znver5"]) == "znver5"
    # what a name promises may be hidden, tuning flags promise nothing, and unknown names are kept
    for name, present in (
        ("rocketlake", here - {"avx512vnni"}),
        ("graniterapids", here),
        ("haswell", x86.CPUS["haswell"] | {"fast-gather", "amx-tile"}),
        ("cpuofnextyear", here),
    ):
        assert x86.truer_name(name, present) == name, name
    assert all(x86.truer_name(name, sets) == name for name, sets in x86.CPUS.items())
