"""Whether an engine says what onnxruntime says, or without it, what operators computed one by one say; and
which value inside the graph is the first that differs. Knows graphs and arrays; no processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import TensorLangError
from ..frontends import load_onnx
from ..frontends.onnx.proto import package
from .runtimes import installed, onnxruntime
from .turns import aligned

Arrays = Mapping[str, Any]
LEVELS = (0, 2)
PEER = "onnxruntime"


class Difference(NamedTuple):
    """The largest difference of two arrays and the largest number among those expected; ``apart`` tells what
    cannot be compared."""

    largest: float
    scale: float
    apart: str = ""

    def beyond(self, tolerance: float) -> bool:
        """Whether it is more than this part of the scale."""
        return bool(self.apart) or self.largest > tolerance * (self.scale or 1.0)

    def __str__(self) -> str:
        return self.apart or f"{self.largest:.1e} of {self.scale:.1e}"


def difference(got: Any, expected: Any) -> Difference:
    """How far apart two results are; equal infinities and NaN in the same places do not differ."""
    if isinstance(got, list | tuple | None) or isinstance(expected, list | tuple | None):
        return Difference(0.0, 0.0, "" if got is None and expected is None else "no arrays")
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape:
        return Difference(0.0, 0.0, f"{list(a.shape)}, not {list(b.shape)}")
    kind = "complex128" if "c" in a.dtype.kind + b.dtype.kind else "float64"
    a, b = a.astype(kind), b.astype(kind)
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    return Difference(
        float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0)),
        float(finite.max(initial=0.0)),
    )


class Comparison:
    """A model at each level on some inputs, and what is expected: onnxruntime's answer, else that of level
    0."""

    def __init__(self, file: str, inputs: Arrays, tolerance: float) -> None:
        self.file, self.inputs, self.tolerance = file, inputs, tolerance
        self.peer = PEER if PEER in installed() else ""
        self.graph = load_onnx(file)
        self.wrong = False

    def outputs(self) -> str:
        """A table: for each output the largest difference at each level."""
        made = {level: self.graph.compile(level=level).run(self.inputs) for level in LEVELS}
        expected = self._expected(self.file) if self.peer else made[0]
        levels = LEVELS if self.peer else LEVELS[1:]
        lines = [["output", "", *(f"level {n} − {self.peer or 'level 0'}" for n in levels)]]
        for name, b in expected.items():
            found = [difference(made[n][name], b) for n in levels]
            self.wrong |= any(d.beyond(self.tolerance) for d in found)
            what = f"{b.dtype}{list(b.shape)}" if isinstance(b, np.ndarray) else type(b).__name__
            lines.append([name, what, *map(str, found)])
        return aligned(lines)

    def inside(self) -> str:
        """For each level the first value inside the graph that differs, in the order of its operators. All
        values are outputs for that, so that operators are computed as they are where they are not fused.
        Values that the graph does not have are left out: folded ones, and what follows once numbers are
        known."""
        model, theirs = _with_all_outputs(self.file)
        made_by = {v.name: n for n in self.graph.nodes for v in n.outputs if v.tensor_like}
        names = [n for n in made_by if n in theirs]
        if not names:
            return "the file names no value inside that the graph has"
        part = self.graph.subgraph(None, names)
        read = {v.name: self.inputs[v.name] for v in part.inputs if v.name in self.inputs}
        made = {n: part.compile(level=n).run(read) for n in LEVELS}
        expected = self._expected(model) if self.peer else made[0]
        text = []
        for level in LEVELS if self.peer else LEVELS[1:]:
            found = ((n, difference(made[level][n], expected[n])) for n in names)
            first = next(((n, d) for n, d in found if d.beyond(self.tolerance)), None)
            text.append(f"level {level}: none of {len(names)} values differs, of {len(theirs)} in the file")
            if first is not None:
                self.wrong = True
                text[-1] = f"level {level}: the first value that differs is {first[0]}, by {first[1]}"
                text.append(f"    {made_by[first[0]]!r}")
        return "\n".join(text)

    def _expected(self, model: str | bytes) -> dict[str, Any]:
        folder = str(Path(self.file).resolve().parent) if isinstance(model, bytes) else ""
        try:
            return onnxruntime(model, None, folder, plain=True)(self.inputs)
        except Exception as e:  # the classes of its errors are its own
            raise TensorLangError(f"onnxruntime does not run {self.file}", because=str(e)) from None


def _with_all_outputs(file: str) -> tuple[bytes, set[str]]:
    """The file with every value its nodes make as an output, and the names of these."""
    onnx = package()
    proto = onnx.load(file, load_external_data=False)
    names = {n for call in proto.graph.node for n in call.output if n}
    known = {o.name for o in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in sorted(names - known))
    return proto.SerializeToString(), names
