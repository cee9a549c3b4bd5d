"""The build backend makes archives whose bytes hang on names and contents alone."""

from __future__ import annotations

import importlib.util
import io
import tarfile
import zipfile

from tests.house.source import ROOT

WHEN = 1_700_000_000


def backend():
    spec = importlib.util.spec_from_file_location("backend", ROOT / ".ci" / "backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tarred(names: list[str], time: int, mode: int, owner: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode, info.uname = len(name), time, mode, owner
            made.addfile(info, io.BytesIO(name.encode()))
    return out.getvalue()


def zipped(names: list[str], year: int, mode: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name in names:
            info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            made.writestr(info, name)
    return out.getvalue()


def test_source_archives_are_of_equal_bytes():
    same = backend().same_archive
    one, two = tarred(["a", "b/c"], 1, 0o644, "me"), tarred(["b/c", "a"], 2, 0o600, "you")
    assert one != two and same(one, WHEN) == same(two, WHEN) != same(one, WHEN + 1)
    with tarfile.open(fileobj=io.BytesIO(same(two, WHEN))) as read:
        assert read.getnames() == ["a", "b/c"] and read.extractfile("b/c").read() == b"b/c"
        assert {m.mtime for m in read} == {WHEN} and {m.mode for m in read} == {0o644}


def test_wheels_are_of_equal_bytes():
    same = backend().same_wheel
    names = ["a.py", "p-1.dist-info/RECORD", "z.py"]
    one, two = zipped(names, 1990, 0o644), zipped(names[::-1], 2000, 0o600)
    assert one != two and same(one, WHEN) == same(two, WHEN) != same(one, WHEN + 100)
    with zipfile.ZipFile(io.BytesIO(same(two, WHEN))) as read:
        assert read.namelist() == ["a.py", "z.py", "p-1.dist-info/RECORD"] and read.read("z.py") == b"z.py"
