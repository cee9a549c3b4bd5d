"""Every notebook under tutorials/ runs from top to bottom, in a kernel of the running interpreter, and is
committed with the outputs of such a run: the same kinds as when it is run here.

By default with fewer trials and sizes; ``make fuzz`` runs them as they are. ``make notebooks`` makes the
outputs anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs
import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("nbclient")
from tutorials.notebooks import NOTEBOOKS, execute, kinds  # noqa: E402

COLUMNS = 100  # of code


def text_of(notebook: Any, cell_id: str) -> str:
    """What the cell of that id printed."""
    (cell,) = (c for c in notebook.cells if c.id == cell_id)
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


def test_there_are_notebooks() -> None:
    assert set(SHOWS) <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_committed_as_it_ran(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)], "make notebooks"
    for cell in code:
        assert cell.source.strip() and "error" not in kinds(cell), cell.id
        assert max(map(len, cell.source.split("\n"))) <= COLUMNS, cell.id
    for cell_id, text in SHOWS.get(path.stem, {}).items():
        assert text in text_of(notebook, cell_id), f"{cell_id}: make notebooks"


# What a reader must find in the outputs; a notebook without a row here still has to run.
SHOWS = {
    "01_declare": {
        "first-lower": "C[i, j] = A[i, j] + 2.0 * B[i, j]",
        "symbolic-add": "not a multiple of 4",
        "mistakes": "DeclareError",
        "blur": "median",
    },
    "02_schedule_by_hand": {
        "naive-code": "compute C",
        "cache-write-code": "storage C.local",
        "pack-code": "storage B.global",
        "chart": "numpy (BLAS)",
        "refused-code": "threads would race",
    },
    "03_read_the_tree_and_the_code": {
        "pieces": "float32[1, 18]",
        "error": "also reads `B`",
        "ir-before": "if x.outer*16 + x.inner < 1003",
        "partition": "+            else:",
        "build-times": "LLVM",
        "count": "multiply-adds",
    },
    "04_templates_and_knobs": {
        "knob": "499 // rows.0",
        "trace": "0..63",
        "tune": "40 trials, 40 measured",
        "resume": "48 trials, 8 measured",
        "mistakes-code": "threads would race",
    },
    "05_auto_schedule": {
        "tune": "conv_hswish(32, 48, 28, 28): ",
        "report": "def apply(s):",
        "page": "kB",
        "paste": "compute conv",
        "compare": "numpy",
        "autotune": "median",
        "shell": "final timings, best",
    },
    "06_inside_the_search": {
        "sketches-code": "default schedule",
        "rows": "thousand a second",
        "model": "pairwise accuracy",
        "evolution": "medians",
        "versus-picture": "median of the second half",
    },
    "07_dynamic_shapes": {
        "tune": "family dense",
        "right": "m = 513 is too large",
        "explain": "m=13: ",
        "sweep": "speed of ours over numpy",
        "serve": "latency p50 / p90 / p99",
        "served": "t=33: ",
        "save": "dynamic kernel layer",
    },
    "08_whole_models": {
        "by-hand-code": "output y = softmax",
        "by-hand-run": "matmul_swish",
        "fetch-code": "dims batch, height, width",
        "find-code": "3 lines",
        "read-code": "['Summer Palace', 'Open 09:00 to 17:30', 'tickets at the gate']",
        "sizes-code": "width 641",
        "profile-code": "one run",
        "save-code": "loaded in",
    },
    "09_torch_backend": {
        "model": "in 1 engine",
        "report": "torch.where(condition, a, b)",
        "mended": "1 graph, 0 breaks",
        "sizes": "torch._dynamo.mark_dynamic(x, 1)",
        "marked": "nothing was compiled anew",
        "train": "step 120",
        "adaptive": "spent to compile",
        "ahead": "kernels",
    },
    "90_extend_it": {
        "operator-graph": "huber → mean",
        "primitive-use": "s[B].strip(j, 16)",
        "primitive-replay": "factor is 0",
        "rule-code": "rows_together: softmax.sum",
        "pass-code": "B[i, j] = A[i, j] + A[i, j]",
        "pass-use": "right: True",
    },
}
PICTURES = {
    "02_schedule_by_hand": ("chart",),
    "04_templates_and_knobs": ("curve", "look"),
    "05_auto_schedule": ("curve",),
    "06_inside_the_search": ("model", "evolution", "versus-picture"),
    "07_dynamic_shapes": ("sweep-picture", "serve-picture"),
    "08_whole_models": ("picture",),
}


SHORT_SHOWS = {"04_templates_and_knobs": {"tune": "6 trials, 6 measured", "resume": "8 trials, 2 measured"}}
# What makes a run shorter: pieces of the source that must be there, and what is put in their place.
SHORTER = {
    "90_extend_it": {"trials=24": "trials=4"},
    "04_templates_and_knobs": {
        "trials=40": "trials=6",
        "trials=48": "trials=8",
        "more.measured == 8": "more.measured == 2",
    },
    "05_auto_schedule": {
        "trials=64, seconds=20": "trials=5",
        "trials=12, cache": "trials=2, cache",
        "seconds=0.1": "seconds=0.01",
    },
    "06_inside_the_search": {
        "trials=64": "trials=12",
        ", seconds=30": "",
        "population=512": "population=128",
        "20_000": "2_000",
    },
    "07_dynamic_shapes": {
        "N, K = 768, 768": "N, K = 192, 192",
        "range(1, 513)": "range(1, 513, 31)",
        "+ 8:": "+ 2:",
    },
    # what compiling is thought to take decides how many eager calls come first: for twenty seconds
    "09_torch_backend": {
        "adaptive = ": "import importlib\n\n"
        'importlib.import_module("tensorlang.frontends.torch.adaptive").GUESS = 1.0\nadaptive = '
    },
}


def shortened(notebook: Any, pieces: dict[str, str]) -> Any:
    """The notebook with those pieces of its code replaced, in order."""
    left = set(pieces)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            for piece in pieces:
                if piece in cell.source:
                    left.discard(piece)
                    cell.source = cell.source.replace(piece, pieces[piece])
    assert not left, f"no cell has {left}"
    return notebook


def models_are_there() -> None:
    """Skip where the package with the two models can be had neither from the cache nor by pip."""
    pytest.importorskip("onnx")
    cache = Path(platformdirs.user_cache_dir("tensorlang")) / "models"
    if not list(cache.glob("rapidocr_onnxruntime-1.4.4-*.whl")):
        get = ["download", "-q", "--no-deps", "-d", str(cache), "rapidocr-onnxruntime==1.4.4"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *get], capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            pytest.skip(f"the models cannot be fetched: {done.stderr.strip()[-200:]}")


@pytest.mark.tutorial
@pytest.mark.parametrize(
    ("path", "whole"),
    [
        pytest.param(
            path, whole, id=f"{path.stem}{' as it is' if whole else ''}", marks=[pytest.mark.fuzz] * whole
        )
        for path in NOTEBOOKS
        for whole in (False, True)
        if not whole or path.stem in SHORTER
    ],
)
def test_runs(path: Path, whole: bool, tmp_path: Path) -> None:
    if PICTURES.get(path.stem):
        pytest.importorskip("matplotlib")
    if path.stem == "08_whole_models":
        models_are_there()
    if path.stem == "09_torch_backend":
        pytest.importorskip("torch")
    notebook = nbformat.read(path, as_version=4)
    committed = [kinds(cell) for cell in notebook.cells if cell.cell_type == "code"]
    execute(notebook if whole else shortened(notebook, SHORTER.get(path.stem, {})), tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert [kinds(cell) for cell in code] == committed, "make notebooks"
    for cell_id, text in {
        **SHOWS.get(path.stem, {}),
        **({} if whole else SHORT_SHOWS.get(path.stem, {})),
    }.items():
        assert text in text_of(notebook, cell_id), f"cell {cell_id} printed {text_of(notebook, cell_id)!r}"
    for cell_id in PICTURES.get(path.stem, ()):
        (cell,) = (c for c in code if c.id == cell_id)
        assert any("image/png" in o.get("data", {}) for o in cell.outputs)
