"""The build backend makes archives whose bytes hang on names and contents alone."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import tarfile
import zipfile

import pytest

from tests.house.source import ROOT

WHEN = 1_700_000_000


def backend():
    pytest.importorskip("setuptools")  # of which new environments have none since Python 3.12
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


PAGE = """Metadata-Version: 2.4
Name: p

# Title

![A picture
of it](docs/view.png)

It looks so:

![A picture](docs/view.png)

See [the
guide](docs/guide.md#part), [01](tutorials/01.ipynb), [here](https://example.org) and [below](#figures).
"""


def test_a_package_page_has_no_links_that_lead_nowhere():
    made = backend().for_a_page(PAGE.encode()).decode()
    head, _, text = made.partition("\n\n")
    assert head == "Metadata-Version: 2.4\nName: p"
    assert text == (
        "# Title\n\nIt looks so.\n\n"
        "See `docs/guide.md`, 01, [here](https://example.org) and [below](#figures).\n"
    )


def test_the_record_of_a_wheel_has_the_digest_of_its_page():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("p-1.dist-info/METADATA", PAGE)
        made.writestr("p-1.dist-info/RECORD", "p-1.dist-info/METADATA,sha256=old,1\np-1.dist-info/RECORD,,\n")
    with zipfile.ZipFile(io.BytesIO(backend().same_wheel(out.getvalue(), WHEN))) as read:
        page = read.read("p-1.dist-info/METADATA")
        line = read.read("p-1.dist-info/RECORD").decode().splitlines()[0]
    digest = base64.urlsafe_b64encode(hashlib.sha256(page).digest()).rstrip(b"=").decode()
    assert line == f"p-1.dist-info/METADATA,sha256={digest},{len(page)}"


def test_no_link_of_the_readme_leads_nowhere_on_a_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/" in readme
    made = backend().for_a_page(f"Name: p\n\n{readme}".encode()).decode()
    assert "](docs/" not in made and "](tutorials/" not in made and "![" not in made
