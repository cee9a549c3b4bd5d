"""Files of specialised code: whatever is not exactly what is wanted is a miss with a reason, and never a
wrong answer."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from autosched.tiers.keys import Environment, Key, combined
from autosched.tiers.shelf import Shelf, read, write
from tensorlang import te


def kernel(n: int = 8, factor: float = 2.0) -> tl.Module:
    a = te.placeholder((n,), name="A")
    return tl.compile([a, te.compute((n,), lambda i: a[i] * factor, name="B")], name="scale")


def key(n: int = 8, **other: object) -> Key:
    return replace(Key("scale", (("n", n),), "", "compile", Environment.of()), **other)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def module() -> tl.Module:
    return kernel()


@pytest.fixture
def shelf(tmp_path: Path, module: tl.Module) -> Shelf:
    shelf = Shelf(tmp_path)
    write(shelf.path(key()), module, key().parts(), 0.25)
    return shelf


def test_what_was_written_is_found_and_computes(shelf: Shelf) -> None:
    found = shelf.read(key())
    assert found.module is not None and found.seconds == 0.25 and not found.why
    assert (found.module(np.arange(8, dtype=np.float32)) == 2 * np.arange(8)).all()
    assert not list(shelf.directory.glob("*.part")), "written aside and renamed"


def test_a_file_cut_at_every_64th_byte_is_a_miss_with_a_reason(shelf: Shelf) -> None:
    path = shelf.path(key())
    whole = path.read_bytes()
    for end in [*range(0, len(whole), 64), len(whole) - 1]:
        path.write_bytes(whole[:end])
        found = shelf.read(key())
        assert found.module is None and found.why, end
    path.write_bytes(whole)
    assert shelf.read(key()).module is not None


def test_a_changed_byte_is_a_miss_with_a_reason(shelf: Shelf) -> None:
    path = shelf.path(key())
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        found = shelf.read(key())
        assert found.module is None and found.why, at
    path.write_bytes(whole + b"more")
    assert shelf.read(key()).why


OTHERS = {
    "package": ("0.0.9", "it was made by tensorlang 0.0.9, not"),
    "sources": ("0" * 20, "it was made by other sources: 00000000000000000000, not"),
    "llvm": ("llvmlite 0.49.0", "it was made by llvmlite 0.49.0, not"),
    "cpu": ("x86_64-unknown-linux-gnu skylake", "it was made for x86_64-unknown-linux-gnu skylake, not"),
    "features": (("avx512f",), "it was made for a processor with avx512f, not"),
    "flags": ("llvm -num-cores=64", "it was made for the target llvm -num-cores=64, not"),
}


@pytest.mark.parametrize("part", OTHERS)
def test_another_version_or_machine_is_a_miss_with_a_reason(
    part: str, tmp_path: Path, module: tl.Module
) -> None:
    """Beside the wanted name, where a run of it left the file; and under the wanted name, where somebody put
    it."""
    value, why = OTHERS[part]
    other = key(environment=replace(Environment.of(), **{part: value}))
    assert other.place == key().place and other.name != key().name
    shelf = Shelf(tmp_path)
    write(shelf.path(other), module, other.parts(), 0.0)
    assert shelf.read(key()).why.startswith(why)
    shelf.path(other).rename(shelf.path(key()))
    assert shelf.read(key()).why.startswith(why)


@pytest.mark.parametrize(
    "part, value, why",
    [
        ("computation", "other", "it computes something else: other, not scale"),
        ("sizes", (("n", 9),), "it is for the sizes"),
        ("constants", "w", "it has other constants: w, not "),
        ("how", "tune 64", "it was made in another way: tune 64, not compile"),
    ],
)
def test_a_file_under_the_name_of_another_is_a_miss_with_a_reason(
    part: str, value: object, why: str, tmp_path: Path, module: tl.Module
) -> None:
    shelf = Shelf(tmp_path)
    other = key(**{part: value})
    write(shelf.path(other), module, other.parts(), 0.0)
    assert shelf.read(key()).why == "absent"
    shelf.path(other).rename(shelf.path(key()))
    assert shelf.read(key()).why.startswith(why)


def test_code_for_another_processor_is_a_miss_with_a_reason(tmp_path: Path) -> None:
    """The saved kernel itself says what it needs, whatever its key says."""
    a = te.placeholder((8,), name="A")
    foreign = tl.build(
        te.create_schedule([b := te.compute((8,), lambda i: a[i] * 2.0, name="B")]),
        [a, b],
        target="llvm -mtriple=aarch64-linux-gnu",
    )
    path = Shelf(tmp_path).path(key())
    write(path, foreign, key().parts(), 0.0)
    assert "was compiled for aarch64" in read(path, key()).why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"parts": 3, "seconds": 1}',
        '{"parts": {}, "seconds": 1}',
        '{"parts": {}, "seconds": "x"}',
        json.dumps({"parts": {**key().parts(), "more": 1}, "seconds": 1}),
    ],
)
def test_a_key_that_makes_no_sense(text: str, tmp_path: Path, module: tl.Module) -> None:
    path = tmp_path / "x.kernel"
    tl.Module(module.object_code, module.signature, {"key": lambda: text}, module.target).save(
        path, sources=True
    )
    found = read(path, key())
    assert found.module is None and found.why


def test_a_kernel_without_a_key(tmp_path: Path, module: tl.Module) -> None:
    module.save(tmp_path / "x.kernel")
    assert read(tmp_path / "x.kernel", key()).why == "it holds no key"


def test_old_files_go_when_there_are_too_many_bytes(shelf: Shelf, module: tl.Module) -> None:
    size = shelf.path(key()).stat().st_size
    for n in range(9, 14):
        write(shelf.path(key(n)), module, key(n).parts(), 0.0)
    for age, n in enumerate([13, 8, 12, 9, 11, 10]):
        when = 1e9 - age
        os.utime(shelf.path(key(n)), (when, when))
    shelf.limit = 3 * size + size // 2
    assert shelf.sweep() <= shelf.limit
    assert [n for n in range(8, 14) if shelf.has(key(n))] == [8, 12, 13]


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tl.TensorLangError, match="cannot keep kernels in"):
        Shelf(tmp_path / "file" / "below")


def test_names_tell_all_sizes_apart() -> None:
    """The order and the places of the sizes count: an xor of hashes would not tell (8, 16) from (16, 8)."""
    names = {key(sizes=(("m", m), ("n", n))).name for m in range(20) for n in range(20)}
    assert len(names) == 400
    assert key(sizes=(("m", 8), ("n", 16))).name != key(sizes=(("n", 8), ("m", 16))).name
    assert combined([1, 23]) != combined([12, 3]) != combined(["1", 23])


def test_code_that_others_may_have_written_is_a_miss(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shelf.path(key())
    path.chmod(0o664)
    assert "others may write it" in shelf.read(key()).why
    path.chmod(0o644)
    assert shelf.read(key()).module is not None
    if os.geteuid() == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert "belongs to another user" in shelf.read(key()).why
