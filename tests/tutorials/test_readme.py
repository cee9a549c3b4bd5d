"""What the README shows is what happens: its examples run, and the tree and loop IR in it are printed as they
stand there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
import tensorlang as tl
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


def test_the_tuner_of_the_readme_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two examples of autosched, with fewer trials, and no cache but their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    example, decorated = (source.replace("trials=64", "trials=3") for source in PYTHON[1:3])
    assert "trials=3" in example and "trials=3" in decorated
    printed, space = run(example, tl=tl)
    assert "tune dense(128, 256, 192): 3 trials" in printed and "def apply(s):" in printed
    x, w, bias = (
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 5 - 2
        for shape in ((128, 192), (192, 256), (256,))
    )
    assert (space["f"](x, w, bias) == np.maximum(x @ w + bias, 0)).all()  # type: ignore[operator]
    assert (tmp_path / "dense.html").exists() and (tmp_path / "dense.jsonl").read_text().count("\n") >= 3
    _, after = run(decorated, np=np, te=te, autosched=autosched)
    np.testing.assert_allclose(np.linalg.norm(after["y"], axis=1), 1.0, rtol=1e-5)
    assert list((tmp_path / "cache").rglob("*.jsonl"))


def test_the_dynamic_kernel_of_the_readme_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random = 'np.random.rand(192, 256).astype("float32")'
    assert random in PYTHON[3]
    x, w = (np.arange(r * c, dtype=np.float32).reshape(r, c) % 5 - 2 for r, c in ((512, 192), (192, 256)))
    printed, space = run(
        PYTHON[3].replace(random, "W"), np=np, te=te, autosched=autosched, W=w
    )  # small whole numbers: exact
    assert "m=77: " in printed and "(tier table)" in printed and "hits, table" in printed
    f: Any = space["f"]
    assert all((f(x[:m]) == x[:m] @ w).all() for m in (1, 77, 512)) and space["y"].shape == (77, 256)  # type: ignore[attr-defined]
    assert (tmp_path / "layer.dyn").exists()


def test_the_one_liners_of_the_readme() -> None:
    """Expressions in running text that name what exists."""
    x = te.placeholder((3, 4), name="x")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(tl.compile([x, tl.ops.softmax(x)])(a).sum(axis=1), 1.0, rtol=1e-6)
    y = te.placeholder((3, 4), name="y", strides="any")
    assert (tl.compile([y, te.compute((3, 4), lambda i, j: y[i, j] * 2)])(a[:, ::-1]) == a[:, ::-1] * 2).all()
    for name in (
        "softmax(x)",
        'strides="any"',
        "constants={B: array}",
        "SearchTask",
        "register_workload",
        "apply_best",
        "print_best",
        "tune_tasks",
    ):
        assert name in README
    task = autosched.SearchTask
    assert (
        all(hasattr(task, n) for n in ("apply_best", "print_best"))
        and autosched.tune_tasks
        and autosched.register_workload
    )


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!http)[^)]+)\)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (Path(__file__).parents[2] / link).exists()


def test_rooms_of_the_map_exist() -> None:
    rooms = [
        room
        for row in re.findall(r"^\| (`[^|]*`) \|", README, re.MULTILINE)
        for room in re.findall(r"`([^`]+)`", row)
    ]
    assert len(rooms) > 15
    root = Path(__file__).parents[2]
    for room in rooms:
        assert (
            (root / room).is_dir()
            or (root / "tensorlang" / room).is_dir()
            or (root / "autosched" / room).is_dir()
        ), room
