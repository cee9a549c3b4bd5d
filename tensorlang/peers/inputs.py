"""What a model is called with when nobody has data at hand: arrays of the declared shapes, the same each
time. Knows graphs and numpy."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TensorLangError, counted

Shapes = Mapping[str, Sequence[int]]


def shapes_of(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``["x=1,3,48,320"]`` as shapes by name. Raises TensorLangError for a text of another form."""
    found = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            found[name] = tuple(int(n) for n in sizes.split(",") if n)
            good = bool(name) and min(found[name], default=0) >= 0
        except ValueError:
            good = False
        if not good:
            raise TensorLangError(
                f"--shape {text} is not a shape",
                because="it is a name and sizes",
                try_="--shape x=1,3,48,320",
            )
    return found


def read(path: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file. Raises TensorLangError for what is none."""
    try:
        # numpy takes any other file for a pickle, says how to load one unsafely, and opens a single array too
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as e:
        raise TensorLangError(f"{path} cannot be read as an .npz file", because=str(e)) from None


def write(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file of arrays of any names; ``path`` gets the ending it lacks, as ``np.savez`` has it. Raises
    TensorLangError where there can be no file."""
    try:
        with zipfile.ZipFile(path if path.endswith(".npz") else f"{path}.npz", "w") as files:
            for name, a in arrays.items():
                with files.open(f"{name}.npy", "w", force_zip64=True) as f:
                    np.lib.format.write_array(f, a, allow_pickle=False)
    except OSError as e:
        raise TensorLangError(f"{path} cannot be written", because=str(e)) from None


def made(graph: Any, shapes: Shapes) -> dict[str, np.ndarray]:
    """An array for each input: normal numbers, zeros and ones for whole numbers, which are often indices. A
    size that a shape gives holds in the other inputs too; what is left open is 1.

    Raises TensorLangError for shapes of no input or of another rank, and for inputs that are not arrays.
    """
    names = [v.name for v in graph.inputs]
    unknown = [n for n in shapes if n not in names]
    if unknown:
        raise TensorLangError(f"there is no input {unknown[0]}", because=f"they are {', '.join(names)}")
    dims: dict[str, int] = {}
    for v in graph.inputs:
        given, declared = shapes.get(v.name), _declared(graph, v)
        if given is not None and len(given) != len(declared):
            raise TensorLangError(
                f"--shape of {v.name} has {counted(len(given), 'size')}", because=f"the input is {v!r}"
            )
        dims.update(zip(declared, given or (), strict=False))
    rng, found = np.random.default_rng(0), {}
    for v in graph.inputs:
        sizes = [int(n) if n.isdigit() else dims.get(n, 1) for n in _declared(graph, v)]
        found[v.name] = _array(rng, v, shapes.get(v.name, sizes))
    return found


def _declared(graph: Any, v: Any) -> list[str]:
    if not v.tensor_like:
        raise TensorLangError(
            f"the input {v.name} is not an array", try_="an .npz file cannot hold it either"
        )
    return [str(n) for n in graph.declared.get(v, v.shape)]


def _array(rng: np.random.Generator, v: Any, shape: Sequence[int]) -> np.ndarray:
    try:
        kind = np.dtype(str(v.dtype))
    except TypeError:
        raise TensorLangError(
            f"the input {v.name} is {v.dtype}, which numpy lacks", try_="--inputs data.npz"
        ) from None
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    return rng.integers(0, 2, shape).astype(kind)
