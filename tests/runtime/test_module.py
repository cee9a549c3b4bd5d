"""Loading, texts, saving: leaks, torn and foreign files."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import TargetError, TensorLangError
from tensorlang.runtime import Module, load

from . import kernels

A, B = np.arange(5, dtype=np.float32), np.ones(5, np.float32)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_load_call_drop_does_not_leak() -> None:
    """A canary for the linker of llvmlite: what one kernel takes must come back."""
    for _ in range(50):
        kernels.add()(A, B)
    gc.collect()
    before = resident()
    for _ in range(300):
        kernels.add()(A, B)
    gc.collect()
    assert resident() - before < 2 << 20


def test_sources() -> None:
    f = kernels.add(sources={"ll": lambda: kernels.ADD, "ir": lambda: "loops"})
    assert f.get_source("ll") == kernels.ADD
    assert f.get_source("ir") == "loops"
    with pytest.raises(TensorLangError, match="'wasm'\\): no such kind"):
        f.get_source("wasm")
    with pytest.raises(TensorLangError, match="no such text"):
        f.get_source("asm")


@pytest.mark.parametrize("code", [b"", b"garbage" * 100, b"\x7fELF" + bytes(100)])
def test_object_code_that_is_none(code: bytes) -> None:
    with pytest.raises(TensorLangError, match="machine code of add cannot be loaded"):
        Module(code, kernels.ADD_SIGNATURE)


def test_truncated_object_code() -> None:
    code = kernels.object_code(kernels.ADD)
    for size in range(0, len(code) - 1, 97):
        with pytest.raises(TensorLangError):
            Module(code[:size], kernels.ADD_SIGNATURE)


def test_missing_symbols() -> None:
    # what to do about it is said, for a C function of an extern or a tensor intrinsic is the usual reason
    says = r"(?s)nothing here defines not_there.*tl.register_symbol\('not_there', ctypes"
    with pytest.raises(TensorLangError, match=says):
        Module(
            kernels.object_code(
                kernels.ADD.replace("ret i32 0", "call void @not_there()\n  ret i32 0")
                + "\ndeclare void @not_there()\n"
            ),
            kernels.ADD_SIGNATURE,
        )
    with pytest.raises(TensorLangError, match="cannot be loaded"):
        Module(kernels.object_code(kernels.SCALE), kernels.ADD_SIGNATURE)


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "add.tl"
    f = kernels.add(sources={"ll": lambda: kernels.ADD})
    f.save(path)
    g = load(path)
    np.testing.assert_array_equal(g(A, B), A + B)
    assert g.signature == f.signature
    with pytest.raises(TensorLangError):
        g.get_source("ll")
    f.save(path, sources=True)
    assert load(path).get_source("ll") == kernels.ADD
    assert [p.name for p in tmp_path.iterdir()] == ["add.tl"]


def test_save_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(TensorLangError, match="cannot save add"):
        kernels.add().save(tmp_path / "no" / "add.tl")
    with pytest.raises(TensorLangError, match="cannot load"):
        load(tmp_path / "no.tl")


def test_torn_and_changed_files(tmp_path: Path) -> None:
    path = tmp_path / "add.tl"
    kernels.add().save(path)
    data = path.read_bytes()
    for size in [*range(0, len(data), 53), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(TensorLangError, match="cannot load"):
            load(path)
    for at in range(0, len(data), 41):
        changed = bytearray(data)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(TensorLangError, match="cannot load"):
            load(path)
    path.write_bytes(data.replace(b"kernel 2\n", b"kernel 3\n", 1))
    with pytest.raises(TensorLangError, match="version 3"):
        load(path)
    path.write_bytes(b"hello\n")
    with pytest.raises(TensorLangError, match="is not a saved tensorlang kernel"):
        load(path)


def rewrite(path: Path, change: dict[str, object]) -> None:
    first, _, rest = path.read_bytes().partition(b"\n")
    line, _, code = rest.partition(b"\n")[2].partition(b"\n")
    header = json.loads(line)
    header["machine"].update(change)
    body = json.dumps(header).encode() + b"\n" + code
    path.write_bytes(first + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_foreign_machines(tmp_path: Path) -> None:
    path = tmp_path / "add.tl"
    kernels.add().save(path)
    rewrite(path, {"triple": "sparc64-unknown-linux-gnu"})
    with pytest.raises(TargetError, match="compiled for sparc64-unknown-linux-gnu"):
        load(path)
    kernels.add().save(path)
    rewrite(path, {"cpu": "future", "features": ["avx2048"]})
    with pytest.raises(TargetError, match="compiled for future and may use avx2048"):
        load(path)
    Module(
        kernels.object_code(kernels.ADD),
        kernels.ADD_SIGNATURE,
        target="llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=x",
    ).save(path)
    with pytest.raises(TargetError, match="riscv64"):
        load(path)


def test_loads_in_a_fresh_process_without_the_compiler(tmp_path: Path) -> None:
    """Only the package's own __init__ may bring in more than the runtime needs, so it is left out here."""
    path = tmp_path / "add.tl"
    kernels.add().save(path)
    root = Path(tl.__file__).parents[1]
    script = (
        f"import sys, types; p = types.ModuleType('tensorlang'); p.__path__ = [{str(root / 'tensorlang')!r}]\n"
        "sys.modules['tensorlang'] = p\n"
        "import numpy as np\nfrom tensorlang.runtime import load\n"
        f"print(load({str(path)!r})(np.ones(3, np.float32), np.ones(3, np.float32)))\n"
        "print(sorted(m for m in sys.modules if m.startswith('tensorlang.') and m.split('.')[1] not in "
        "('runtime', 'interface', 'native', 'core', 'boundary', 'entries', 'errors', 'kinds', 'lazy', 'options', "
        "'protocols', 'signposts')))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    ).stdout
    assert out == "[2. 2. 2.]\n[]\n"


def test_copies_are_the_kernel_and_pickles_are_refused() -> None:
    f = kernels.add()
    assert copy.copy(f) is f and copy.deepcopy([f])[0] is f
    with pytest.raises(TensorLangError, match="cannot be pickled"):
        pickle.dumps(f)


def test_a_kernel_for_another_process_is_saved_and_not_loaded(tmp_path) -> None:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
    f = tl.build(te.create_schedule(y.op), [x, y], load=False)
    with pytest.raises(TargetError, match="load=False"):
        f(A[:4])
    f.save(tmp_path / "f.tl")
    np.testing.assert_array_equal(load(tmp_path / "f.tl")(A[:4]), A[:4] + 1)
