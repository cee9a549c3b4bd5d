"""The te of a region: its nodes called again on placeholders for what comes from outside. Knows graphs and
te.

Each size that an input has becomes a dim of the region's own, so regions that differ in where their sizes
come from are one kernel, and no kernel works out a long expression of the graph's dims. Where that hides what
an operator must know (that two sizes are equal), the region is declared over the dims of the graph.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis import SIDE, typical
from ..arith.facts import Facts
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Const, Expr, Var, const_int
from ..expr.walk import rewrite, substitute, variables
from ..ops import tags
from ..te import Tensor, cast, compute, dim, placeholder
from ..te.graph import inputs as te_inputs
from ..te.graph import variables_of
from .graph import Node, Value
from .planes import Plane, plane_of

MOST = 2**63 - 1  # that the bound of a size may be
# bounds of computed sizes beyond the first are one of these: layers at a half, a quarter and an eighth of an
# open image are one kernel, to whose code it is nothing whether it is for 10⁹ rows or for 125 million
FAR = (10**6, 10**9, 10**18)
_EPSILON = 2e-5  # what is smaller keeps a divisor from zero


@dataclass
class Declared:
    """``inputs`` and ``constants`` (values of the graph) stand for the placeholders in ``args``, which are in
    their order and followed by the outputs and the dims that no input tells. ``dims`` gives each symbol of
    the te its size in the graph."""

    args: list[Tensor | Var]
    inputs: list[Value]
    constants: list[tuple[Value, Tensor]]
    outputs: list[Tensor]
    dims: dict[Var, Expr]


def declare(nodes: Sequence[Node], outputs: Sequence[Value]) -> Declared:
    """The te of these nodes, which compute ``outputs``. Raises DeclareError for what an operator refuses."""
    plane = plane_of(nodes, outputs)
    if plane is not None:
        # two axes as one, where every operator can be said so: vectors or tiles run across the end of a row
        with contextlib.suppress(DeclareError):
            return _Region(True, plane).declared(nodes, outputs)
    try:
        # with dims of its own a kernel serves every place where the same operators have other symbols
        return _Region(True).declared(nodes, outputs)
    except DeclareError:
        return _Region(False).declared(nodes, outputs)


class _Region:
    def __init__(self, own_dims: bool, plane: Plane | None = None) -> None:
        self.own = own_dims
        self.plane = plane  # two axes that are one here
        self.sizes: dict[Expr, Expr] = {}  # of the graph → of the region
        self.dims: dict[Var, Expr] = {}
        self.tensors: dict[Value, Tensor] = {}
        self.inputs: list[Value] = []
        self.constants: list[tuple[Value, Tensor]] = []

    def declared(self, nodes: Sequence[Node], outputs: Sequence[Value]) -> Declared:
        for node in nodes:
            given = [None if v is None else self._tensor(v) for v in node.inputs]
            results = node.of(given, {k: self._attribute(x) for k, x in node.attrs.items()})
            for v, t in zip(node.outputs, results, strict=True):
                self.tensors[v] = t = self._sized(v, t)
                for outer, inner in zip(self._shape(v), t.shape, strict=True):
                    if not isinstance(outer, Const):
                        self.sizes.setdefault(outer, inner)
        results = [self.tensors[v] for v in outputs]
        read = set(te_inputs(results))
        self.inputs = [v for v in self.inputs if self.tensors[v] in read]
        self.constants = [(v, t) for v, t in self.constants if t in read]
        plain = {n for v in self.inputs for n in self.tensors[v].shape if isinstance(n, Var)}
        used = variables_of(results)
        # no shape tells them: they are passed as numbers
        scalars = [d for d in self.dims if d not in plain and d in used]
        self.dims = {d: e for d, e in self.dims.items() if d in plain or d in used}
        args: list[Tensor | Var] = [
            *(self.tensors[v] for v in self.inputs),
            *(t for _, t in self.constants),
            *results,
            *scalars,
        ]
        return Declared(args, self.inputs, self.constants, results, self.dims)

    def _sized(self, v: Value, t: Tensor) -> Tensor:
        """A result in the shape that the graph says it has."""
        if not self.own:
            self._keep(*v.shape)
            return _in_shape(t, v.shape)
        shape = self._shape(v)
        at = 1 if self.plane is not None and self.plane.first else -1
        if shape is not v.shape and t.shape[at] is not self._size(shape[at]):
            raise DeclareError(f"{t.name} keeps two axes apart that are one")
        return _in_shape(t, [a if isinstance(a, Const) else b for a, b in zip(shape, t.shape, strict=True)])

    def _shape(self, v: Value) -> Sequence[Expr]:
        """The shape of a value here, in sizes of the graph."""
        if self.plane is None or not self.plane.within(v.shape):
            return v.shape
        return self._one_axis(v.shape)

    def _one_axis(self, shape: Sequence[Expr]) -> Sequence[Expr]:
        """A shape that begins or ends with the plane."""
        assert self.plane is not None
        one = [make.const(1, "int32"), make.mul(*self.plane[:2])]
        others = self.plane.others(shape)
        return type(shape)([*one, *others] if self.plane.first else [*others, *one])  # type: ignore[call-arg]

    def _tensor(self, v: Value) -> Tensor:
        if v not in self.tensors:
            self.tensors[v] = self._constant(v) if v.data is not None else self._input(v)
        return self.tensors[v]

    def _input(self, v: Value) -> Tensor:
        self.inputs.append(v)
        return placeholder([self._size(n) for n in self._shape(v)], v.dtype, f"x{len(self.inputs) - 1}")

    def _constant(self, v: Value) -> Tensor:
        assert v.data is not None
        if v.data.size == 1 and v.data.dtype.kind in "biuf":
            number = v.data.reshape(()).item()
            if not _of_a_layer(number, v.data.dtype):
                # written into the code: no load, and rules fold it
                return compute(v.shape, lambda *_: make.const(number, v.dtype), name="c")
        kind = str(v.stored.dtype)
        t = placeholder(v.shape, kind, f"w{len(self.constants)}")
        self.constants.append((v, t))
        return (
            t if v.dtype == t.dtype else compute(v.shape, lambda *at: cast(v.dtype.name, t[at]), name="wide")
        )

    def _size(self, e: Expr) -> Expr:
        """A size of an input in the region: a number, what is known to be as large, or a dim of its own."""
        if isinstance(e, Const):
            return e
        if not self.own:
            self._keep(e)
            return e
        found = self.sizes.get(e)
        return found if found is not None else self._new(e)

    def _keep(self, *sizes: Expr) -> None:
        """The dims of these sizes stand for themselves, in an order that is the same in every process: the
        key of the kernel has them."""
        for e in sizes:
            self.dims.update((d, d) for d in sorted(variables(e), key=lambda d: d.name))

    def _new(self, e: Expr) -> Var:
        low, high = Facts().interval(e)
        if high is not None and high > MOST:  # of several sizes that are only known to be below 10⁹
            high = None
        if high is not None and high > FAR[0] and not isinstance(e, Var):
            high = next((b for b in FAR if high <= b), high)
        each = e.multiple_of if isinstance(e, Var) else 1
        usual = _usual(e)
        plane = self.plane
        if usual is None and plane is not None and not plane.first and e is make.mul(*plane[:2]):
            usual = typical(plane.high, SIDE) * typical(plane.wide, SIDE)
            usual = max(low or 0, usual if high is None else min(usual, high))
        # numbered and not named: equal regions of a model have equal text, and so one kernel
        own = dim(f"d{len(self.dims)}", max(0, low or 0), high, each, usual)
        self.dims[own] = e
        self.sizes[e] = own
        return own

    def _attribute(self, x: Any) -> Any:
        """An attribute in the region's sizes."""
        if isinstance(x, Expr):
            return self._inside(x)
        if isinstance(x, list | tuple):
            if self.plane is not None and self.plane.within(x):
                x = self._one_axis(x)
            return type(x)(self._attribute(y) for y in x)
        if isinstance(x, np.ndarray) and x.dtype == object:
            return np.array([self._attribute(y) for y in x.reshape(-1)], object).reshape(x.shape)
        return x

    def _inside(self, e: Expr) -> Expr:
        if not self.own:
            self._keep(e)
            return e
        if e in self.sizes:
            return self.sizes[e]
        memo = dict(self.sizes)
        return rewrite(
            e, lambda n: self._size(n) if isinstance(n, Var) and n not in self.dims else None, memo
        )


def _of_a_layer(number: float, dtype: np.dtype[Any]) -> bool:
    """Whether a number is likely to be one layer's own, as scales and zero points of quantised layers are: it
    is read like weights, so that layers that differ in it are one kernel. Not those that rules fold, among
    them exponents, halves, thirds and epsilons, nor those that are steps of an algorithm (128 moves bytes to
    the other sign)."""
    if dtype.name in ("int8", "uint8"):
        return number not in (0, 128, -128)
    if dtype.name != "float32" or not _EPSILON < abs(number) < math.inf:
        return False
    return bool(np.float32(round(number * 48) / 48) != np.float32(number))


def _usual(e: Expr) -> int | None:
    """What a size is when the dims it depends on have their usual values; None where one has none."""
    hints = {d: d.hint for d in variables(e)}
    if None in hints.values():
        return None
    return const_int(substitute(e, {d: make.const(n, d.dtype) for d, n in hints.items() if n is not None}))


def _in_shape(t: Tensor, shape: Sequence[Expr]) -> Tensor:
    """The tensor in a shape whose sizes are the same numbers, though nothing in the te says so; the kernel
    asks when it is called."""
    if all(
        a is b or (const_int(a) is not None and const_int(a) == const_int(b))
        for a, b in zip(t.shape, shape, strict=True)
    ):
        return t
    return compute(shape, lambda *i: t(*i), name=f"{t.name}.sized", tag=tags.INJECTIVE)  # type: ignore[no-any-return]
