"""Random graphs of random operators (``random_steps``), of open, odd, empty and no sizes, of every dtype, and
what te.reference says they compute.

Values are small whole numbers as long as operators keep them so: those are *exact*, the same to the bit at
every level, and may be compared, rounded and sorted. Of the others it is known how far rounding may move
them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorlang import ops, te
from tensorlang.core.dtype import dtype
from tensorlang.errors import TensorLangError
from tensorlang.expr.nodes import Expr, Var, const_int
from tensorlang.expr.walk import variables
from tensorlang.graph import Graph, Opaque
from tensorlang.graph.sizes import function
from tests.chance import Chance

FLOATS = ("float32", "float64", "float16", "bfloat16")
HALVES = ("float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
KINDS = ("float32",) * 5 + ("int32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "bool")
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17)
MOST_ELEMENTS = 3000
FINE, COARSE = 1e-4, 5e-2  # of the largest element of an array: what rounding may do, and halves


@dataclass
class Random:
    """A graph, the ``arrays`` of its inputs for each of several ``sizes`` of its dims, and how far each
    output may be off (0: not at all)."""

    graph: Graph
    sizes: list[dict[Var, int]]
    seed: int
    tolerance: list[float] = field(default_factory=list)

    def arrays(self, which: int = 0) -> list[np.ndarray]:
        """The inputs at one of the sizes."""
        rng = np.random.default_rng((self.seed, which))
        sizes = self.sizes[which]
        return [
            _whole(rng, tuple(_number(n, sizes) for n in v.shape), str(v.dtype)) for v in self.graph.inputs
        ]

    def differs(self, found: Any, expected: list[np.ndarray], exact: bool = False) -> str:
        """What of the outputs is not as expected; empty when all are. With ``exact`` nothing may be off."""
        if len(found) != len(expected):
            return f"{len(found)} outputs, not {len(expected)}"
        for i, (a, b, t) in enumerate(zip(found, expected, self.tolerance, strict=True)):
            wrong = _differs(a, b, 0.0 if exact else t)
            if wrong:
                return f"output {i}: {wrong}"
        return ""


def random_graph(seed: int, size: int) -> Random:
    """A graph of about ``size`` operators."""
    return Draw(seed).graph(size)


def _whole(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    return rng.integers(_least(kind), 2 if kind == "bool" else 4, shape).astype(dtype(kind).to_numpy())


def _least(kind: str) -> int:
    """The smallest number of those drawn."""
    return 0 if kind == "bool" or kind.startswith("u") else -2


def listed(made: Any) -> list[Any]:
    """Results that came alone or as a tuple."""
    return list(made) if isinstance(made, tuple) else [made]


def _differs(a: np.ndarray, b: np.ndarray, tolerance: float) -> str:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    if not tolerance or b.dtype.kind in "biu":
        same = (a == b) | ((a != a) & (b != b))
    else:
        x, y = a.astype("float64"), b.astype("float64")
        scale = max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
        same = np.isclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    at = np.argwhere(~same)
    if not len(at):
        return ""
    first = tuple(int(i) for i in at[0])
    return f"{len(at)} of {a.size} differ, the first at {first}: {a[first]!r}, not {b[first]!r}"


def _number(n: Expr, dims: dict[Var, int]) -> int:
    number = const_int(n)
    return number if number is not None else _formula(n, *dims)(*dims.values())[0]


@functools.lru_cache(maxsize=1000)
def _formula(n: Expr, *dims: Var) -> Any:
    return function([n], list(dims))


class Draw(Chance):
    """A graph that is being made; steps draw from it what they need."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.g = Graph(f"random{seed}")
        self.kind = self.choice(KINDS)
        low = [0 if self.chance(0.15) else 1 for _ in range(2)]
        self.dims = [te.dim(n, lo, 64) for n, lo in zip(("n", "w"), low, strict=True)]
        sizes = [[0] * (lo == 0) + [1, 2, 3, 5, 7, 11, 16, 17] for lo in low]
        self.sizes = [
            {d: int(self.choice(s)) for d, s in zip(self.dims, sizes, strict=True)} for _ in range(3)
        ]
        self.values: list[Any] = []
        self.off: dict[Any, float] = {}  # how far a value may be off
        self.large: set[Any] = set()  # values of too many elements to go on with
        self.bounded: set[Any] = set()  # values of small numbers

    def graph(self, size: int) -> Random:
        for i in range(self.number(1, 3)):
            kind = self.kind if i == 0 or self.chance(0.5) else self.choice(KINDS)
            self.bounded.add(self.new(self.g.input(self.shape(), kind, f"x{i}"), 0.0))
        return Random(self.g, self.sizes, self.seed, self.finish(size))

    def finish(self, size: int, labels: list[str] | None = None) -> list[float]:
        """Let the graph grow by about ``size`` operators and end: with outputs (of these names), or with a
        condition and what follows in each case. How far the outputs may be off."""
        from .random_branches import branched

        if size >= 4 and self.chance(0.15 if labels is None else 0.25):
            self.grow(size // 2)
            with contextlib.suppress(TensorLangError):  # there is nothing to tell by
                return branched(self, size - size // 2, labels)
        else:
            self.grow(size)
        outputs = self.outputs() if labels is None else [self.any() for _ in labels]
        for i, v in enumerate(outputs):
            self.g.output(v, labels[i] if labels else None)
        return [self.off.get(v, 0.0) for v in outputs]

    def grow(self, size: int) -> None:
        """Add about so many operators."""
        from .random_steps import STEPS

        weights = np.array([w for _, w in STEPS], float)
        begin = len(self.g.nodes)
        for _ in range(4 * size):
            if len(self.g.nodes) - begin >= size:
                break
            step = STEPS[int(self.rng.choice(len(STEPS), p=weights / weights.sum()))][0]
            with contextlib.suppress(TensorLangError):  # an operator that does not take this
                step(self)

    def outputs(self) -> list[Any]:
        """What nobody reads, and now and then something else."""
        read = {v for n in self.g.nodes for v in n.reads}
        outputs = [v for v in self.values if v not in read and v.node is not None][:4] or [self.values[-1]]
        if self.chance(0.2):
            outputs.append(self.any())
        if self.chance(0.05):
            outputs.append(self.constant(self.some_sizes(), self.choice(KINDS)))
        if self.chance(0.05):
            outputs.append(self.g.inputs[0])
        return outputs

    def inside(self, values: list[Any]) -> Draw:
        """The graph of what follows, which is given these values."""
        inner = copy.copy(self)
        inner.g = Graph(self.g.name)
        new = {v: inner.g.input(v.shape, str(v.dtype), v.name) for v in values}
        inner.values, inner.off = list(new.values()), {w: self.off.get(v, 0.0) for v, w in new.items()}
        inner.large = {w for v, w in new.items() if v in self.large}
        inner.bounded = {w for v, w in new.items() if v in self.bounded}
        return inner

    # -- sizes

    def size(self) -> int:
        return 0 if self.chance(0.01) else int(self.choice(SIZES))

    def some_sizes(self) -> list[int]:
        return [self.size() for _ in range(self.number(0, 3))]

    def shape(self) -> tuple[Any, ...]:
        n, w = self.dims
        forms = [
            lambda: (n, self.size()),
            lambda: (n, self.size(), w),
            lambda: (1, self.size(), self.size(), w),
            lambda: (n, 4, 5, 7),
            lambda: (n, self.choice((2, 4, 8)), w),
            lambda: (1, self.choice((3, 4, 8)), n, w),
            lambda: (self.size(), self.size()),
            lambda: (2, 2, n, self.choice((4, 8))),
            lambda: (n,),
            lambda: (),
        ]
        return self.choice(forms)()

    def elements(self, shape: Any) -> int:
        """The most elements that the sizes make of a shape."""
        return max(math.prod(_number(n, s) for n in shape) for s in self.sizes)

    # -- values

    def new(self, v: Any, off: float) -> Any:
        self.off[v] = off
        if not isinstance(v, Opaque) and {*self.dims}.issuperset(d for n in v.shape for d in variables(n)):
            self.values.append(v)
            if self.elements(v.shape) > MOST_ELEMENTS:
                self.large.add(v)
        return v

    def any(self) -> Any:
        return self.values[self.number(max(0, len(self.values) - 8), len(self.values))]

    def pick(self, fits: Any = None) -> Any:
        """One of the newest values that fit and are not too large, sometimes an old one. Raises
        DeclareError when there is none."""
        found = [v for v in self.values if v not in self.large and (fits is None or fits(v))]
        if not found:
            raise TensorLangError("nothing fits")
        return self.choice(found if self.chance(0.15) else found[-6:])

    def exact(self, v: Any) -> bool:
        return not self.off.get(v, 0.0)

    def constant(self, shape: Any, kind: str, low: int | None = None, high: int = 3) -> Any:
        low = _least(kind) if low is None else low
        a = self.rng.integers(low, 2 if kind == "bool" else high, tuple(shape))
        return self.g.constant(a.astype(dtype(kind).to_numpy()))

    def alike(self, x: Any) -> Any:
        """A value of the shape and type of ``x``, perhaps itself."""
        ids = list(map(id, x.shape))
        return self.choice(
            [v for v in self.values if v.dtype == x.dtype and list(map(id, v.shape)) == ids] or [x]
        )

    def small(self, v: Any) -> Any:
        """Kept from growing: whole numbers stay exact."""
        kind = str(v.dtype)
        if kind == "bool" or v in self.bounded:
            return v
        made = self.call(ops.clip, v, min=0 if kind.startswith("u") else -4, max=4)
        self.bounded.add(made)
        return made

    def call(self, fn: Any, *inputs: Any, rounds: bool = False, **attrs: Any) -> Any:
        """The results of an operator, not yet among the values; it ``rounds`` when its results are not whole
        numbers, or larger ones than halves can hold."""
        made = self.g.call(fn, *inputs, **attrs)
        off = max((self.off.get(v, 0.0) for v in inputs if v is not None), default=0.0)
        for v in listed(made):
            kind = str(v.dtype)
            here = off if kind in FLOATS else 0.0
            if rounds and kind in FLOATS:
                here = max(here, COARSE if kind in HALVES else FINE)
            self.off.setdefault(v, here)
        return made

    def add(self, fn: Any, *inputs: Any, **attrs: Any) -> None:
        """An operator whose results others may read."""
        for v in listed(self.call(fn, *inputs, **attrs)):
            self.new(v, self.off[v])


# -- what a graph computes


class Reference:
    """The outputs of graphs of one family, node by node by numpy. What a node gave before for the same
    arrays is not computed again, as passes leave most nodes as they are."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self.known: dict[Any, tuple[list[Any], list[Any]]] = {}

    def __call__(self, graph: Any, changed: Callable[[Any], Any] = lambda g: g) -> list[np.ndarray]:
        """The outputs of a graph, of which what follows a condition is ``changed`` first."""
        return self._of(graph, self.arrays, changed)

    def _of(self, graph: Any, arrays: list[np.ndarray], changed: Callable[[Any], Any]) -> list[np.ndarray]:
        found = dict(zip(graph.inputs, arrays, strict=True))
        dims: dict[Var, int] = {}
        for v, a in found.items():
            dims |= _told(v, a)
        for n in graph.nodes:
            given = [None if v is None else found[v] if v.data is None else v.data for v in n.inputs]
            before, results = self.known.get(n, (None, None))
            if before is None or any(a is not b for a, b in zip(before, given, strict=True)):
                results = _evaluated(n, given, dims)
                self.known[n] = given, results
            for v, a in zip(n.outputs, results, strict=True):
                found[v] = a
                dims |= _told(v, a)
        rest = graph.rest
        if rest is not None:
            return self._of(
                changed(rest.graph(found[rest.pivot], {})), [found[v] for v in rest.live], changed
            )
        return [found[v] if v.data is None else v.data for v in graph.outputs]


def reference(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph."""
    return Reference(arrays)(graph)


def _told(v: Any, a: np.ndarray) -> dict[Var, int]:
    return {d: s for d, s in zip(v.shape, a.shape, strict=True) if isinstance(d, Var)}


def _evaluated(n: Any, given: list[Any], dims: dict[Var, int]) -> list[np.ndarray]:
    attrs = {k: _numbers(x, dims) for k, x in n.attrs.items()}
    if n.kind != "te":
        return listed(n.fn(*(_body(g) for g in n.graphs), *given, **attrs))
    tensors = [
        None if a is None else te.placeholder(a.shape, v.dtype) for v, a in zip(n.inputs, given, strict=True)
    ]
    results = n.of(tensors, attrs)
    values = {t: a for t, a in zip(tensors, given, strict=True) if t is not None}
    return list(te.reference.evaluate(results, values))


def _body(graph: Graph) -> Any:
    return lambda *arrays: tuple(reference(graph, list(arrays)))


def _numbers(x: Any, dims: dict[Var, int]) -> Any:
    """An attribute with numbers for sizes."""
    if isinstance(x, list | tuple):
        return type(x)(_numbers(y, dims) for y in x)
    return _number(x, dims) if isinstance(x, Expr) else x
