"""The pages of the site that are made from the code: every public name is on one, and every page is in the
index. ``make docs`` builds the site itself."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from tensorlang import ops, options
from tensorlang.schedule.primitives import TABLE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(pages: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    at = tmp_path_factory.mktemp("made") / "made"
    pages.write(at)
    return {path.name: path.read_text(encoding="utf-8") for path in at.iterdir()}


def test_every_operator_and_primitive_is_on_a_page(made: dict[str, str]) -> None:
    missing = [n for n in ops.__all__ if n != "tags" and f"`{n}(" not in made["operators.md"]]
    assert not missing
    assert all(f"## {p.name}\n" in made["primitives.md"] for p in TABLE)


def test_the_sentences_of_operators_are_whole(made: dict[str, str]) -> None:
    cells = re.findall(r"^\| `.*?\)` \| (.*) \|$", made["operators.md"], re.MULTILINE)
    assert len(cells) > 150
    assert not [
        cell for cell in cells if cell.endswith(("et al.", ":", ";")) or cell.count("(") > cell.count(")")
    ]


def test_every_public_name_is_in_the_reference_once(made: dict[str, str], pages: ModuleType) -> None:
    listed = re.findall(
        r"auto(?:class|function):: (\w+)", "".join(made[f"reference-{n}.md"] for n in pages.REFERENCE)
    )
    assert len(listed) > 300
    assert {"build", "compute", "softmax", "default_schedule", "tune"} <= set(listed)


def test_errors_stand_below_their_mistakes(made: dict[str, str]) -> None:
    errors = made["errors.md"]
    assert errors.count("\n### ") > 200
    assert errors.count("```python") > 0.9 * errors.count("\n### ")


def test_settings_name_every_variable(made: dict[str, str]) -> None:
    source = inspect.getsource(options)
    assert all(name in made["settings.md"] for name in set(re.findall(r'"(TENSORLANG_\w+)"', source)))


def test_the_index_has_every_page(made: dict[str, str]) -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    hand = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    pages = hand | {f"made/{Path(name).stem}" for name in made if name.endswith(".md")}
    lines = set(index.split("\n"))
    assert pages <= lines, pages - lines


def test_links_of_notebooks_lead_to_pages(made: dict[str, str]) -> None:
    links = {link for text in made.values() for link in re.findall(r"\]\(\.\./([^)#]+)", text)}
    assert {"torch.md", "contributing.md"} <= links
    assert all((ROOT / "docs" / link).exists() for link in links), links


def test_what_nobody_makes_any_more_goes(pages: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("gone")
    pages.write(tmp_path)
    assert not (tmp_path / "old.md").exists() and (tmp_path / "operators.md").exists()
