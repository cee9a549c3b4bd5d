"""A computation with its dims open: the same for a shape, and with other facts about the dims. Knows te and
tasks; no schedules, no kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te

from ..task import SearchTask

Facts = Mapping[str, int | Mapping[str, int | None]]


class Declaration:
    """The tensors of a kernel's signature, outputs last, whose shapes have dims; ``constants`` are arrays by
    the name of their input.

    Raises TensorLangError for what is not a task, for a computation without dims and for constants that are
    no inputs.
    """

    def __init__(self, task: SearchTask, constants: Mapping[Any, Any] | None = None) -> None:
        if not isinstance(task, SearchTask):
            raise tl.TensorLangError(
                f"a task is a SearchTask, not {_kind(task)}",
                try_='autosched.SearchTask(func, (te.dim("m", 0, 4096), …))',
            )
        if not isinstance(constants, Mapping | None):
            raise tl.TensorLangError(
                f"tune_dynamic({task.name}): constants are {_kind(constants)}",
                because="they are arrays by the name of their input",
                try_='constants={"W": array}',
            )
        self.name, self.target = task.name, task.target
        self.short_name = task.name.partition("(")[0] or "dynamic"
        self.tensors = task.tensors
        self.key = task.exact_key
        found: dict[str, Any] = {}
        for t in self.tensors:
            for n in t.shape:
                for v in _dims_in(n):
                    found.setdefault(v.name, v)
        if not found:
            raise tl.TensorLangError(
                f"tune_dynamic({self.name}): no size of it is open",
                because="no shape of its arguments has a dim",
                try_='SearchTask(func, (te.dim("m", 0, 4096), …)), or autosched.tune for fixed sizes',
            )
        self.dims = found
        inputs = {t.name: t for t in self.tensors if isinstance(t.op, te.PlaceholderOp)}
        self.constants: dict[str, np.ndarray] = {}
        for key, value in (constants or {}).items():
            name = key if isinstance(key, str) else getattr(key, "name", repr(key))
            if name not in inputs:
                raise tl.TensorLangError(
                    f"tune_dynamic({self.name}): constant {name!r} is not an input", legal=", ".join(inputs)
                )
            self.constants[name] = np.asarray(value)

    def values(self, tensors: Sequence[te.Tensor]) -> dict[te.Tensor, Any]:
        """The constants by the tensors of a copy of the computation."""
        return {
            t: self.constants[t.name]
            for t in tensors
            if isinstance(t.op, te.PlaceholderOp) and t.name in self.constants
        }

    def fixed(self, shape: Mapping[str, int]) -> list[te.Tensor]:
        """The computation of one shape, which need not be one that was declared: micro-kernels are timed on
        any number of rows."""
        return te.serialize.resized(
            self.stated({d: {"lo": 0, "hi": None, "multiple_of": 1, "hint": None} for d in shape}),
            dict(shape),
        )

    def stated(self, facts: Facts) -> list[te.Tensor]:
        """The computation with other facts about its dims."""
        return te.serialize.resized(self.tensors, facts)

    @property
    def inputs(self) -> list[te.Tensor]:
        """What a call passes."""
        return [
            t for t in self.tensors if isinstance(t.op, te.PlaceholderOp) and t.name not in self.constants
        ]

    def arrays(self, shape: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
        """Arguments of a call, outputs too: floats in ±1, small integers, on cache lines."""
        rng = np.random.default_rng(seed)
        made = []
        for t in self.fixed(shape):
            if t.name in self.constants and isinstance(t.op, te.PlaceholderOp):
                continue
            kind = t.dtype.to_numpy()
            sizes = [int(str(n)) for n in t.shape]
            values = (
                rng.random(sizes, dtype=np.float32) * 2 - 1
                if t.dtype.is_float
                else rng.integers(0, 2 if t.dtype.is_bool else 5, sizes)
            )
            made.append(on_lines(values.astype(kind)))
        return made


def on_lines(array: np.ndarray) -> np.ndarray:
    """A copy whose first element is on a cache line."""
    # numpy promises 16 bytes: a vector across two cache lines costs a second access, and times would depend
    # on where an array happens to lie
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def _kind(thing: Any) -> str:
    return f"a {type(thing).__name__}"


def _dims_in(size: Any) -> list[Any]:
    """The dims an expression of sizes mentions."""
    if getattr(size, "kind", None) == "dim":
        return [size]
    children = getattr(size, "children", None)
    return [v for c in (children() if children is not None else ()) for v in _dims_in(c)]
