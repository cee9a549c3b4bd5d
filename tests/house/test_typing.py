"""What a user's editor and type checker see: the stub of the primitives is that of THE table, mypy and pyright
pass a user's file with true types, the examples of the pages and the notebooks, mypy finds the mistakes in
another, and help shows at run time what the checker knows."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensorlang import Schedule, Stage
from tensorlang.schedule.primitives import TABLE
from tests.house import stub
from tests.house.source import HOME, PACKAGES, ROOT
from tests.house.typed import user

api = pytest.importorskip("mypy.api")  # development alone needs it
TYPED = Path(user.__file__).parent


def test_the_packages_say_that_they_are_typed():
    assert all((HOME / package / "py.typed").exists() for package in PACKAGES)


def test_the_stub_of_the_primitives_is_new(request):
    if request.config.getoption("refresh_golden"):
        stub.PATH.write_text(stub.text(), encoding="utf-8")
    assert stub.PATH.read_text(encoding="utf-8") == stub.text(), (
        "the stub is old: run this test once with --refresh-golden"
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, str]:
    """What mypy says of each file: of a user's two, and of the pages' examples and the notebooks. In one run: what
    takes long is to read our own sources."""
    folder = tmp_path_factory.mktemp("programs")
    programs(folder)
    files = [TYPED / "user.py", TYPED / "mistakes.py", *sorted(folder.glob("*.py"))]
    assert len(files) > 22
    options = ["--strict", "--config-file=", "--no-error-summary", "--hide-error-context"]
    said, trouble, _ = api.run([*options, f"--cache-dir={ROOT / '.mypy_cache'}", *map(str, files)])
    assert not trouble
    lines: dict[str, list[str]] = {}
    made = {p.name for p in folder.glob("*.py")}
    for line in said.splitlines():  # what mypy remembers of an earlier run has the folder of that run
        name = Path(line.partition(":")[0]).name
        lines.setdefault("programs" if name in made else "user", []).append(line)
    return {whose: "\n".join(text) for whose, text in lines.items()}


def test_mypy_passes_a_users_file_and_finds_his_mistakes(found):
    errors: dict[str, str] = {}
    for name, line, code in re.findall(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", found["user"], re.M):
        errors.setdefault(f"{Path(name).name}:{line}", code)
    mistakes = (TYPED / "mistakes.py").read_text(encoding="utf-8").splitlines()
    assert errors == {
        f"mistakes.py:{n}": line.rpartition("  # ")[2] for n, line in enumerate(mistakes, 1) if "  # " in line
    }, found["user"]


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_strict_pyright_passes_a_users_file(tmp_path):
    shutil.copy(TYPED / "user.py", tmp_path)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(HOME)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    ran = subprocess.run(
        ["pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout


def programs(into: Path) -> None:
    """The examples of README and guides, the code of the notebooks, and the demo, as files. A notebook is left
    out where what it is about is not installed: its types would be unknown."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        code = re.findall(
            r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for n, block in enumerate(code):
            (into / f"{page.stem.lower()}_{n}.py").write_text(block, encoding="utf-8")
    for notebook in (ROOT / "tutorials").glob("*.ipynb"):
        if "torch" not in notebook.stem or importlib.util.find_spec("torch"):
            cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            (into / f"notebook_{notebook.stem}.py").write_text("\n\n".join(code) + "\n", encoding="utf-8")
    shutil.copy(ROOT / "tutorials" / "demo.py", into)


def test_mypy_passes_the_pages_examples_and_the_notebooks(found):
    """Packages that have no types, or are not installed, are others' business."""
    others = re.compile(
        r"\[import-(untyped|not-found)\]$|: note: (See https://mypy|Hint: \"python3? -m pip|\(or run)"
    )
    left = [line for line in found.get("programs", "").splitlines() if not others.search(line)]
    assert not left, left


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_passes_the_pages_examples_and_the_notebooks(tmp_path):
    programs(tmp_path)
    settings = {"typeCheckingMode": "standard", "reportMissingImports": False, "extraPaths": [str(HOME)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    ran = subprocess.run(
        ["pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("primitive", TABLE, ids=lambda p: p.name)
def test_help_shows_each_primitive_as_it_is_written(primitive):
    handle = Stage if primitive.of == "stage" else Schedule
    method = getattr(user.s[user.C] if handle is Stage else user.s, primitive.name)
    written = inspect.signature(primitive.call)
    assert primitive.name in dir(handle)
    assert method.__name__ == primitive.name and method.__qualname__ == f"{handle.__name__}.{primitive.name}"
    assert list(inspect.signature(method).parameters) == list(written.parameters)[1:]
    assert inspect.getdoc(method) == inspect.getdoc(primitive.call)
