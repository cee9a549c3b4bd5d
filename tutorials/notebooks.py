"""Notebooks are executed and written back with their outputs, so that they read on a web page: ``make
notebooks``, or ``python -m tutorials.notebooks 02 05`` for some.

Knows nbclient and files; nothing of what the notebooks say. The tests execute them by the same function and
compare the outputs in kind.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbclient
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

HERE = Path(__file__).parent
ROOT = HERE.parent
NOTEBOOKS = sorted(HERE.glob("*.ipynb"))
SECONDS = 900  # of one cell
# What is not in the extra of tutorials, and may be missing: without it the outputs would say less
NEEDS = {"08_whole_models": "onnxruntime", "09_torch_backend": "torch"}


class ThisPython(KernelSpecManager):
    """Answers every name with the running interpreter, so that no kernel needs to be installed and no other
    one is found."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="this Python",
            language="python",
        )


def execute(notebook: Any, workdir: Path) -> Any:
    """The notebook with its outputs. Raises CellExecutionError at the first cell that fails."""
    client = nbclient.NotebookClient(
        notebook,
        km=AsyncKernelManager(kernel_spec_manager=ThisPython()),
        timeout=SECONDS,
        resources={"metadata": {"path": str(workdir)}},
        record_timing=False,
    )
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    # its process ends here, not with ours: ten of them would hold what they computed to the end of the tests
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}, cleanup_kc=True)
    return notebook


def kinds(cell: Any) -> set[str]:
    """What kinds of output a cell has: text, pictures, errors. Warnings and progress on stderr are none."""
    found: set[str] = set()
    for output in cell.outputs:
        if output.output_type == "stream":
            found |= {"text"} if output.name == "stdout" else set()
        elif output.output_type == "error":
            found.add("error")
        else:
            found |= {"picture"} if "image/png" in output.data else {"text"}
    return found


def refresh(path: Path) -> float:
    """Execute a notebook and write it back with its outputs; the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as workdir:
        execute(notebook, Path(workdir))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.output_type != "stream" or o.name == "stdout"]
            cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)
    return time.perf_counter() - start


def main(names: Sequence[str]) -> None:
    """Refresh the notebooks whose names begin so; all without names."""
    for path in NOTEBOOKS:
        if not names or path.stem.startswith(tuple(names)):
            missing = NEEDS.get(path.stem)
            if missing and importlib.util.find_spec(missing) is None:
                print(f"{path.name}: left as it is: {sys.executable} -m pip install {missing}", flush=True)
                continue
            print(f"{path.name}: {refresh(path):.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
