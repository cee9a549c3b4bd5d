"""Saved and exported files that are torn, changed, foreign, or cannot be written: one clear error each, and
nothing half-written."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from tensorlang.errors import TargetError, TensorLangError
from tensorlang.interface import isa
from tensorlang.runtime import files, load, store

from . import kernels

X = np.ones(3, np.float32)


def saved() -> bytes:
    f = kernels.add(sources={"ll": lambda: kernels.ADD})
    return store.pack(f.object_code, f.signature, f.target, None, {"ll": kernels.ADD}, {})


def shapes() -> dict[str, bytes]:
    """A saved kernel, and an object file that carries one."""
    return {"saved": saved(), "object": store.behind(kernels.object_code(kernels.ADD), saved())}


@pytest.mark.parametrize("shape", ["saved", "object"])
def test_every_truncation_is_refused(shape: str, tmp_path: Path) -> None:
    path, data = tmp_path / "f", shapes()[shape]
    path.write_bytes(data)
    np.testing.assert_array_equal(load(path)(X, X), 2 * X)
    for size in [*range(0, len(data), 16), *range(len(data) - 120, len(data))]:
        path.write_bytes(data[:size])
        with pytest.raises(TensorLangError, match="cannot load"):
            load(path)
    path.write_bytes(data + b"\n")
    with pytest.raises(TensorLangError, match="cannot load"):
        load(path)


@pytest.mark.parametrize("shape", ["saved", "object"])
def test_every_changed_bit_is_noticed(shape: str, tmp_path: Path) -> None:
    path, data, rng = tmp_path / "f", shapes()[shape], random.Random(5)
    for _ in range(500):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(TensorLangError, match="cannot load"):
            load(path)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "is not a saved tensorlang kernel"),
        (b"hello\n", "is not a saved tensorlang kernel"),
        (bytes(5000), "is not a saved tensorlang kernel"),
        (b"tensorlang kernel 3\n" + b"0" * 64 + b"\n{}\n", "version 3, this is version 2"),
        (b"tensorlang kernel \xff\xff\n", "its format is version"),
        (kernels.object_code(kernels.ADD), "no tensorlang kernel behind it"),
        (
            b"\x7fELF" + bytes(100) + b"\ntensorlang kernel behind ffffffffffffffff " + b"0" * 64 + b"\n",
            "do not match its hash",
        ),
    ],
)
def test_files_that_are_something_else(data: bytes, word: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(TensorLangError, match="cannot load") as caught:
        load(path)
    assert word in str(caught.value)


def test_a_right_hash_over_nonsense(tmp_path: Path) -> None:
    """Whoever writes files of this form may get the hash right and the rest wrong."""
    import hashlib

    for body in (
        b"",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'{"signature": 3}\n',
        b'{"signature": {"name": "f", "params": [1]}}\n',
        b"\xff\n",
        b'{"signature": {"name": "f", "params": [], "dims": []}, "machine": [], "target": null, "sources": {}, "size": 0}\n',
    ):
        path = tmp_path / "f"
        path.write_bytes(b"tensorlang kernel 2\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        with pytest.raises(TensorLangError, match="its header makes no sense"):
            load(path)


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, word in (
        (tmp_path, "it is a directory"),
        (Path("/dev/zero"), "is not an ordinary file"),
        (tmp_path / "pipe", "is not an ordinary file"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(TensorLangError, match="cannot load") as caught:
            load(path)
        assert word in str(caught.value)
    with pytest.raises(TensorLangError, match="no file has a null byte in its name"):
        load(tmp_path / "\0")


def test_what_is_no_ordinary_file_is_not_written(tmp_path: Path) -> None:
    before = os.stat("/dev/full")
    for path, word in (
        (tmp_path, "it is a directory"),
        (Path("/dev/full"), "is not an ordinary file"),
        (tmp_path / "no" / "f", "No such file"),
    ):
        with pytest.raises(TensorLangError, match="cannot save add") as caught:
            kernels.add().save(path)
        assert word in str(caught.value)
    with pytest.raises(TensorLangError, match="more than 255 bytes"):
        kernels.add().save(tmp_path / ("x" * 300))
    assert os.stat("/dev/full") == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read and write everything")
def test_what_one_may_not_touch(tmp_path: Path) -> None:
    kernels.add().save(tmp_path / "f")
    (tmp_path / "f").chmod(0)
    with pytest.raises(TensorLangError, match="Permission denied"):
        load(tmp_path / "f")
    tmp_path.chmod(0o500)
    with pytest.raises(TensorLangError, match="Permission denied"):
        kernels.add().save(tmp_path / "g")
    tmp_path.chmod(0o700)


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; the process that meets it is a child."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    script = (
        "import signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nfrom tensorlang.runtime import files\n"
        "try:\n    files.write({sys.argv[1]: b'x' * 10, sys.argv[2]: b'x' * 100000}, 'save it')\n"
        "except Exception as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "other")],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"),
    )
    assert "cannot save it to" in done.stdout and "File too large" in done.stdout
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_link_stays_a_link_and_the_file_has_ordinary_rights(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write({tmp_path / "link": b"new"}, "save it")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o644 & ~umask


def test_what_others_may_write_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    kernels.add().save(path)
    for mode, named, found in (
        (0o600, True, True),
        (0o644, True, True),
        (0o444, True, True),
        (0o664, True, False),
        (0o666, False, False),
    ):
        path.chmod(mode)
        for mine, taken in ((False, named), (True, found)):
            if taken:
                np.testing.assert_array_equal(load(path, mine=mine)(X, X), 2 * X)
            else:
                with pytest.raises(TensorLangError, match="others may write it"):
                    load(path, mine=mine)
    path.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(path, 4242, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
    load(path)
    with pytest.raises(TensorLangError, match="belongs to another user"):
        load(path, mine=True)


def test_a_file_asks_for_the_instruction_sets_its_code_may_use_and_no_more(tmp_path: Path) -> None:
    path, f = tmp_path / "f", kernels.add()
    f.save(path)
    asked = set(load(path).features or ())
    arch = llvm.get_process_triple().split("-")[0]
    assert asked <= isa.SETS[arch] and not {
        a for a in asked if a.startswith(("fast-", "slow-", "prefer-")) or a in ("rdseed", "sgx", "cldemote")
    }
    for features, missing in (
        ((), None),
        (("instructions-of-tomorrow",), "may use instructions-of-tomorrow"),
    ):
        path.write_bytes(store.pack(f.object_code, f.signature, "llvm -mcpu=generic", features, {}, {}))
        if missing is None:
            np.testing.assert_array_equal(load(path)(X, X), 2 * X)
        else:
            with pytest.raises(TargetError, match=missing):
                load(path)


def test_a_right_hash_over_a_header_of_the_right_form(tmp_path: Path) -> None:
    """Each value of a header alone may be nonsense: what the runtime would trip over later is refused when it
    is read."""
    import hashlib
    import json

    first, _, body = saved().split(b"\n", 2)
    line, _, rest = body.partition(b"\n")
    for key, value in (
        ("name", 3),
        ("name", ""),
        ("name", "a b"),
        ("params", [["A", "weird", "float32", [3], False]]),
        ("params", [["A", "buffer", "float32", [[1, 2]], False]]),
        ("params", [["A", "buffer", "float32", [["/", 1, 2]], False]]),
        ("params", [[3, "buffer", "float32", [3], False]]),
        ("dims", [["n", 0, None, 0]]),
        ("dims", [["n", "x", None, 1]]),
        ("work", [[1.0, [99]]]),
        ("constants", [["c", "float32", [-1]]]),
    ):
        header = json.loads(line)
        header["signature"][key] = value
        changed = json.dumps(header).encode() + b"\n" + rest
        (tmp_path / "f").write_bytes(
            first + b"\n" + hashlib.sha256(changed).hexdigest().encode() + b"\n" + changed
        )
        with pytest.raises(TensorLangError, match="its header makes no sense"):
            load(tmp_path / "f")


def test_what_is_no_path() -> None:
    for path in (None, 3, b"f"):
        with pytest.raises(TensorLangError, match="a path is a string"):
            load(path)  # type: ignore[arg-type]
        with pytest.raises(TensorLangError, match="a path is a string"):
            kernels.add().save(path)  # type: ignore[arg-type]
