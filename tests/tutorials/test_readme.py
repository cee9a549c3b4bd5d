"""What the README shows is what happens: its examples run, and the tree and loop IR in it are printed as they stand there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tensorlang import te

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
PRINTED = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run(source: str, **names: object) -> tuple[str, dict[str, object]]:
    """What the source prints, and its variables."""
    space: dict[str, object] = {"__name__": "readme", **names}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source, "README.md", "exec"), space)
    return out.getvalue(), space


def test_the_example_prints_what_the_readme_shows() -> None:
    printed, _ = run(PYTHON[0])
    assert len(PRINTED) == 2
    for block in PRINTED:
        assert block in printed
    assert "median" in printed


def test_the_search_example_declares_a_task() -> None:
    _, space = run(PYTHON[1].partition("if __name__")[0], te=te)
    import autosched

    task = autosched.SearchTask(space["matmul"], (8,), template=space["templates"].matmul_packed)  # type: ignore[attr-defined]
    s = task.schedule()
    task.template(s, task.tensors)  # type: ignore[misc]
    assert s.decisions and task.tensors[-1].name == "C"


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!http)[^)]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (Path(__file__).parents[2] / link).exists()


def test_rooms_of_the_map_exist() -> None:
    rooms = [room for row in re.findall(r"^\| (`[^|]*`) \|", README, re.MULTILINE) for room in re.findall(r"`([^`]+)`", row)]
    assert len(rooms) > 10
    root = Path(__file__).parents[2]
    for room in rooms:
        assert (root / room).is_dir() or (root / "tensorlang" / room).is_dir(), room
