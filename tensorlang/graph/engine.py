"""A graph that runs: kernels in order, an arena for what lies between them. Knows kernels and memory; no
files, no frontends.

A program is cut into *runs*: kernels that follow one another without Python in between. What a run makes and
only the run reads lies in its arena; offsets are numbers, found once for each set of sizes. Functions of
arrays, loops and sizes that are known late stand between runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import CallError, TensorLangError
from ..expr.nodes import Const, Expr, Var, const_int
from ..expr.walk import variables
from ..runtime import dlpack
from ..runtime.arrays import address_of
from ..runtime.constants import aligned
from ..runtime.table import Step, Table
from . import memory
from .graph import Node, Program, Value
from .kernels import Compiler, Kernel, Region
from .passes import simplified
from .regions import regions
from .sizes import function

Arrays = dict[Value, Any]


class _Run:
    """Kernels in a row. ``dims`` are all it depends on, ``kept`` what others read of what it makes."""

    def __init__(self, kernels: Sequence[Kernel], kept: set[Value]) -> None:
        self.kernels = list(kernels)
        made = [v for k in kernels for v in k.outputs]
        self.kept = [v for v in made if v in kept]
        self.inner = [v for v in made if v not in kept]
        self.given = list(dict.fromkeys(v for k in kernels for v in k.inputs if v not in set(made)))
        sizes = [e for k in kernels for e in k.slots] + [n for v in made for n in v.shape]
        self.dims = list(dict.fromkeys(d for e in sizes for d in variables(e)))
        self._slots = [function(k.slots, self.dims) for k in kernels]
        self._shapes = {v: function(v.shape, self.dims) for v in made}
        self._plans: dict[tuple[int, ...], _Plan] = {}

    def plan(self, dims: Mapping[Var, int]) -> _Plan:
        key = tuple([dims[d] for d in self.dims])
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._planned(key)
        return found

    def _planned(self, key: tuple[int, ...]) -> _Plan:
        shapes = {v: f(*key) for v, f in self._shapes.items()}
        lives = {v: [0, 0, 0] for v in self.inner}
        for i, k in enumerate(self.kernels):
            for v in k.outputs:
                if v in lives:
                    lives[v] = [_bytes(v, shapes[v]), i, i]
            for v in k.inputs:
                if v in lives:
                    lives[v][2] = i
        offsets, arena = memory.place([memory.Life(*lives[v]) for v in self.inner])
        where: dict[Value, tuple[int, int]] = {v: (1, at) for v, at in zip(self.inner, offsets, strict=True)}
        where |= {v: (2 + i, 0) for i, v in enumerate([*self.given, *self.kept])}
        steps = [
            Step(
                k.address,
                [*(where[v] for v in (*k.inputs, *k.outputs)), *((0, address_of(a)) for a in k.constants)],
                slots(*key),
            )
            for k, slots in zip(self.kernels, self._slots, strict=True)
        ]
        return _Plan(Table(steps), arena, [(v, shapes[v]) for v in self.kept])


class _Plan:
    """A run for one set of sizes."""

    __slots__ = ("arena", "free", "kept", "table")

    def __init__(self, table: Table, arena: int, kept: Sequence[tuple[Value, tuple[int, ...]]]) -> None:
        self.table = table
        self.arena = arena
        self.kept = kept
        self.free: list[np.ndarray] = []  # arenas that no call uses

    def run(self, run: _Run, arrays: Arrays, outs: Mapping[Value, Any]) -> None:
        try:
            arena = self.free.pop()
        except IndexError:
            arena = aligned((self.arena,), np.uint8)
        held = []
        for v, shape in self.kept:
            a = outs.get(v)
            arrays[v] = a if a is not None else np.empty(shape, v.dtype.to_numpy())
        for v in (*run.given, *run.kept):
            a = arrays[v]
            held.append(a)
        bases = np.array([0, address_of(arena), *(address_of(a) for a in held)], np.int64)
        status = self.table.run(bases)
        self.free.append(arena)
        if status:
            kernel = run.kernels[status // 256 - 1]
            kernel.unbound.module._plan.fail(status % 256)


def _bytes(v: Value, shape: Sequence[int]) -> int:
    n = v.dtype.to_numpy().itemsize
    for s in shape:
        n *= s
    return n


class Engine:
    """A compiled graph: ``y = engine(x)``.

    Made by ``model.compile()``. Inputs are given in their order or by name, as numpy arrays or what DLPack
    hands over; one output comes back as an array, several as a tuple.
    """

    def __init__(self, graph: Program, compiler: Compiler | None = None, level: int = 2) -> None:
        self.graph = graph = simplified(graph, level)
        self.level = level
        self.compiler = compiler or Compiler()
        self.names = [v.name for v in graph.inputs]
        self.output_names = list(graph.output_names if graph.rest is None else graph.rest.labels)
        self.steps: list[_Run | Node] = []
        parts = regions(graph, level)
        self.kernels: list[Kernel] = []
        self._cut(parts)
        self._lock = threading.Lock()
        self._later: dict[Any, Engine] = {}
        self._differences = _Differences(graph)

    def _cut(self, parts: Sequence[Region | Node]) -> None:
        """Runs, and what stands between them."""
        groups: list[list[Kernel] | Node] = []
        for part in parts:
            if isinstance(part, Node):
                groups.append(part)
                continue
            kernel = self.compiler.kernel(part)
            self.kernels.append(kernel)
            if not groups or isinstance(groups[-1], Node):
                groups.append([])
            groups[-1].append(kernel)  # type: ignore[union-attr]
        last: dict[Value, int] = {}
        for i, g in enumerate(groups):
            for v in g.reads if isinstance(g, Node) else (v for k in g for v in k.inputs):
                last[v] = i
        outputs = set(self.graph.outputs)
        for i, g in enumerate(groups):
            if isinstance(g, Node):
                self.steps.append(g)
            else:
                made = [v for k in g for v in k.outputs]
                self.steps.append(_Run(g, {v for v in made if v in outputs or last.get(v, i) > i}))

    # -- calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for these inputs. Raises CallError for inputs that do not fit."""
        results = self._serve(self._bound(args, named))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name from inputs by name."""
        return dict(zip(self.output_names, self._serve(self._bound((), inputs)), strict=True))

    def _bound(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        if len(args) > len(self.names):
            raise CallError(
                f"{self.graph.name}: {len(args)} inputs given, it takes {len(self.names)}",
                because=self._form(),
            )
        values = dict(zip(self.names, args, strict=False))
        for name, x in named.items():
            if name not in self.names or name in values:
                raise CallError(f"{self.graph.name}: {_wrong(name, name in values)}", because=self._form())
            values[name] = x
        missing = [n for n in self.names if n not in values]
        if missing:
            raise CallError(f"{self.graph.name}: input {missing[0]} is missing", because=self._form())
        return [values[n] for n in self.names]

    def _form(self) -> str:
        return f"{self.graph.name}({', '.join(map(repr, self.graph.inputs))})"

    def _serve(self, given: Sequence[Any]) -> list[Any]:
        arrays: Arrays = {}
        dims: dict[Var, int] = {}
        for v, x in zip(self.graph.inputs, given, strict=True):
            arrays[v] = _taken(self.graph.name, v, x)
            _solve(self.graph.name, v, arrays[v], dims, self.graph.declared.get(v))
        return self._work(arrays, dims)

    def _work(self, arrays: Arrays, dims: dict[Var, int]) -> list[Any]:
        apart = self._differences.which(dims)
        if apart:
            return self._otherwise(apart, arrays, dims)
        for v in self.graph.constants:
            arrays[v] = v.data
        for step in self.steps:
            if isinstance(step, _Run):
                step.plan(dims).run(step, arrays, {})
            else:
                _host(step, arrays, dims)
        if self.graph.rest is not None:
            return self._continued(arrays, dims)
        return [
            arrays[v].copy() if v.node is None and isinstance(arrays[v], np.ndarray) else arrays[v]
            for v in self.graph.outputs
        ]

    def _otherwise(self, apart: Sequence[int], arrays: Arrays, dims: dict[Var, int]) -> list[Any]:
        """What a graph gives that was made for sizes like these, which this one cannot serve."""
        rest = self.graph.otherwise
        key, graph = rest.variant([self.graph.assumed[i] for i in apart], dims)
        return self._later_engine(key, graph).of(rest, arrays, dims)

    def _later_engine(self, key: Any, graph: Callable[[], Program]) -> Engine:
        engine = self._later.get(key)
        if engine is None:
            with self._lock:
                engine = self._later.get(key)
                if engine is None:
                    engine = self._later[key] = Engine(graph(), self.compiler, self.level)
        return engine

    def of(self, rest: Any, arrays: Arrays, dims: dict[Var, int]) -> list[Any]:
        """What it gives for the values that another graph has."""
        given = {new: arrays[old] for new, old in zip(self.graph.inputs, rest.live, strict=True)}
        return self._work(given, dims)

    def _continued(self, arrays: Arrays, dims: dict[Var, int]) -> list[Any]:
        """What follows once some values are numbers: compiled for them, and kept."""
        rest = self.graph.rest
        value = None if rest.pivot is None else np.asarray(arrays[rest.pivot])
        key = None if value is None else (value.shape, value.tobytes()), tuple(dims[d] for d in rest.dims)
        return self._later_engine(key, lambda: rest.graph(value, dims)).of(rest, arrays, dims)


class _Differences:
    """Which of the equalities that a graph assumes do not hold; asked once for each set of sizes."""

    def __init__(self, graph: Program) -> None:
        sides = [e for pair in graph.assumed for e in pair]
        self.dims = list(dict.fromkeys(d for e in sides for d in variables(e)))
        self.sides = function(sides, self.dims) if sides else None
        self.known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def which(self, dims: Mapping[Var, int]) -> tuple[int, ...]:
        if self.sides is None:
            return ()
        key = tuple([dims[d] for d in self.dims])
        found = self.known.get(key)
        if found is None:
            numbers = self.sides(*key)
            pairs = zip(numbers[::2], numbers[1::2], strict=True)
            found = self.known[key] = tuple(i for i, (a, b) in enumerate(pairs) if a != b)
        return found


def _wrong(name: str, twice: bool) -> str:
    return f"input {name} is given twice" if twice else f"there is no input {name}"


def _taken(where: str, v: Value, x: Any) -> Any:
    """An input as the array that kernels read."""
    if isinstance(x, list) or x is None or not v.tensor_like:
        return x
    a = (
        dlpack.array_of(x, f"{where}: input {v.name}", str(v.dtype))
        if dlpack.exports(x) and not isinstance(x, np.ndarray | np.generic)
        else np.asarray(x)
    )
    wanted = v.dtype.to_numpy()
    if a.dtype != wanted:
        raise CallError(
            f"{where}: input {v.name} is {a.dtype}, {v.dtype} is needed",
            because=repr(v),
            try_=f"{v.name}.astype({str(v.dtype)!r})",
        )
    if a.ndim != v.ndim:
        raise CallError(
            f"{where}: input {v.name} has {a.ndim} dimensions, {v.ndim} are needed", because=repr(v)
        )
    return np.ascontiguousarray(a) if a.ndim else a.reshape(())


def _solve(where: str, v: Value, a: Any, dims: dict[Var, int], shape: tuple[Expr, ...] | None = None) -> None:
    """The dims that the shape of an input tells."""
    for axis, (n, have) in enumerate(zip(shape or v.shape, getattr(a, "shape", ()), strict=True)):
        if isinstance(n, Const):
            wanted: int | None = const_int(n)
        elif isinstance(n, Var):
            wanted = dims.setdefault(n, have)
        else:
            continue
        if wanted != have:
            raise CallError(
                f"{where}: input {v.name} has {have} elements along dimension {axis}, {wanted} are needed",
                because=f"{v!r}" + (f", and {n} is {wanted} already" if isinstance(n, Var) else ""),
            )


def _host(node: Node, arrays: Arrays, dims: dict[Var, int]) -> None:
    """Run a function of arrays, and learn the sizes of what it gives."""
    attrs = {k: _number(x, dims) for k, x in node.attrs.items()}
    made = node.fn(*(None if v is None else arrays[v] for v in node.inputs), **attrs)
    results = made if isinstance(made, tuple) else (made,)
    for v, a in zip(node.outputs, results, strict=True):
        if v.tensor_like and isinstance(a, np.ndarray | np.generic):
            array = np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a)
            if array.dtype != v.dtype.to_numpy() or array.ndim != v.ndim:
                raise TensorLangError(
                    f"{node.op} gave {array.dtype} of {array.ndim} dimensions",
                    because=f"it was declared as {v!r}",
                )
            _solve(node.op, v, array, dims)
            arrays[v] = array
        else:
            arrays[v] = a


def _number(x: Any, dims: Mapping[Var, int]) -> Any:
    if isinstance(x, Expr):
        return function([x], list(dims))(*dims.values())[0]
    if isinstance(x, list | tuple):
        return type(x)(_number(y, dims) for y in x)
    return x
