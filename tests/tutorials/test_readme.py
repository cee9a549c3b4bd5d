"""What the README and the guides show is what happens: each example runs when it is pasted alone, and the tree
and the loop IR are printed as they stand there."""

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
from tests.house.source import HOME, ROOT

PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
README = PAGES["README.md"]


def blocks(page: str, language: str = "python") -> list[str]:
    """The blocks of code in that language of a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


EXAMPLES = [(page, n) for page in PAGES for n in range(len(blocks(page)))]


def run(page: str, n: int) -> tuple[str, dict[str, Any]]:
    """What an example of a page prints, pasted alone, and its variables; with fewer trials. Skipped without the
    torch that it is about."""
    if "import torch" in blocks(page)[n]:
        pytest.importorskip("torch")
    space: dict[str, Any] = {"__name__": "pasted"}
    out = io.StringIO()
    source = blocks(page)[n].replace("trials=64", "trials=3").replace("trials=8", "trials=3")
    with contextlib.redirect_stdout(out):
        exec(compile(source, page, "exec"), space)
    return out.getvalue(), space


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs an example once for all tests of this file that look at it."""
    kept: dict[tuple[str, int], tuple[str, dict[str, Any], Path]] = {}

    def once(page: str, n: int) -> tuple[str, dict[str, Any], Path]:
        if (page, n) not in kept:
            at = tmp_path_factory.mktemp("pasted")
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(at)
                patch.setenv("XDG_CACHE_HOME", str(at / "cache"))
                kept[page, n] = *run(page, n), at
        return kept[page, n]

    return once


def test_there_are_examples_on_the_pages() -> None:
    assert len(EXAMPLES) > 12
    for page in (
        "README.md",
        "kernels.md",
        "tuning.md",
        "whole_models.md",
        "from_tvm.md",
        "from_halide.md",
        "from_triton.md",
    ):
        assert blocks(page), page


@pytest.mark.parametrize(("page", "n"), EXAMPLES)
def test_an_example_runs_when_pasted_alone(ran: Any, page: str, n: int) -> None:
    ran(page, n)


def test_the_example_prints_what_the_pages_show(ran: Any) -> None:
    printed = ran("README.md", 0)[0]
    shown = [*blocks("README.md", "text"), *blocks("kernels.md", "text")]
    assert len(shown) == 2
    for block in shown:
        assert block in printed
    assert "median" in printed


def test_the_tuner_of_the_readme_works(ran: Any) -> None:
    printed, space, at = ran("README.md", 1)
    assert "tune dense(128, 256, 192): 3 trials" in printed
    assert "def apply(s):" in ran("tuning.md", 0)[0]
    x, w, bias = (
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 5 - 2
        for shape in ((128, 192), (192, 256), (256,))
    )
    assert (space["f"](x, w, bias) == np.maximum(x @ w + bias, 0)).all()
    assert (at / "dense.html").exists() and (at / "dense.jsonl").read_text().count("\n") >= 3


def test_the_function_that_tunes_itself(ran: Any) -> None:
    _, space, at = ran("tuning.md", 1)
    np.testing.assert_allclose(np.linalg.norm(space["y"], axis=1), 1.0, rtol=1e-5)
    assert list((at / "cache").rglob("*.jsonl"))


def test_the_dynamic_kernel_of_the_guide(ran: Any) -> None:
    printed, space, at = ran("tuning.md", 2)
    assert "m=77: " in printed and "(tier table)" in printed and "hits, table" in printed
    f, w = space["f"], space["weights"]["W"]
    for m in (1, 77, 512):
        x = np.random.default_rng(m).random((m, 192), np.float32)
        np.testing.assert_allclose(f(x), x @ w, rtol=1e-5)
    assert space["y"].shape == (77, 256) and (at / "layer.dyn").exists()


def test_a_program_of_tvm_and_one_of_halide_are_right(ran: Any) -> None:
    a, b, c = (ran("from_tvm.md", 0)[1][name].numpy() for name in "abc")
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    out = ran("from_halide.md", 0)[1]["out"]
    assert out.shape == (512, 768) and 0.2 < out.mean() < 0.8
    assert ran("from_triton.md", 0)[1]["softmax"](np.zeros((3, 4), np.float32)).sum() == 3


def test_the_one_liners_of_the_readme() -> None:
    """Expressions in running text that name what exists."""
    x = te.placeholder((3, 4), name="x")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(tl.compile([x, tl.ops.softmax(x)])(a).sum(axis=1), 1.0, rtol=1e-6)
    y = te.placeholder((3, 4), name="y", strides="any")
    assert (tl.compile([y, te.compute((3, 4), lambda i, j: y[i, j] * 2)])(a[:, ::-1]) == a[:, ::-1] * 2).all()
    named = (
        "softmax(x)",
        'strides="any"',
        "constants={B: array}",
        "register_workload",
        "apply_best",
        "print_best",
    )
    assert all(name in README for name in named)
    task = autosched.SearchTask
    assert all(hasattr(task, n) for n in ("apply_best", "print_best")) and autosched.register_workload


@pytest.mark.parametrize(
    ("page", "link"),
    [(page, link) for page in PAGES for link in re.findall(r"\]\(((?!http)[^)#]+)", PAGES[page])],
)
def test_links_lead_somewhere(page: str, link: str) -> None:
    at = ROOT if page == "README.md" else ROOT / "docs"
    assert link.startswith("made/") or (at / link).exists()


SPACES = {"te": te, "tl": tl, "ops": tl.ops, "topi": tl.topi, "autosched": autosched}
METHODS = {"s": (tl.Schedule, tl.Stage), "f": (tl.Module, autosched.DynamicKernel), "engine": (tl.Engine,)}
TRITONS = {"tl.program_id", "tl.constexpr"}  # which calls its language tl


def names(page: str) -> set[str]:
    """The names of ours in the running text of a page: of tables that compare, only what stands in the last
    column."""
    lines = PAGES[page].split("\n")
    if page.startswith("from_"):
        lines = [line.rpartition(" | ")[2] if line.startswith("|") else line for line in lines]
    code = " ".join(piece for line in lines for piece in re.findall(r"`([^`]+)`", line))
    code = re.sub(r'"[^"]*"', '""', code)
    found = re.findall(r"(?<![\w./])(?:(?:te|tl|ops|topi|autosched|s|f|engine)|s\[\w+\])\.[a-z_]\w*", code)
    return {name for name in found if name not in TRITONS}


@pytest.mark.parametrize("page", PAGES)
def test_names_in_running_text_exist(page: str) -> None:
    for name in names(page):
        space, _, last = name.partition(".")
        if space in SPACES:
            assert hasattr(SPACES[space], last), name
        else:
            assert any(hasattr(kind, last) for kind in METHODS[space.partition("[")[0]]), name


def test_rooms_of_the_map_exist() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`[^|]*`) \|",
        guide[guide.index("## What lives where") : guide.index("## Adding things")],
        re.MULTILINE,
    )
    rooms = [room for row in rows for room in re.findall(r"`([^`]+)`", row)]
    assert len(rooms) > 15
    for room in rooms:
        assert any((at / room).is_dir() for at in (ROOT, HOME, HOME / "tensorlang", HOME / "autosched")), room
