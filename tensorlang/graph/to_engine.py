"""From a graph to an engine: regions, their kernels, and what runs between them, as a program. Knows graphs
and kernels; how it runs is the runtime's."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..arith.facts import Facts
from ..core.collector import uncollected
from ..errors import counted
from ..expr.nodes import Const, Expr, Var, const_int
from ..expr.walk import variables
from ..interface.signature import Dim
from ..runtime import hosts
from ..runtime import program as plain
from ..runtime.engine import Engine
from ..runtime.steps import Loaded
from ..target import Target
from .graph import Node, Program, Value
from .kernels import Compiler, Join, Kernel, Part, Region
from .passes import REGIONS, Hooks, simplified
from .regions import regions
from .sizes import Sizes

SLACK = 4096  # bytes around an array that are not worth a copy
How = tuple[int, Collection[str], Hooks]  # the level, what is left out, who sees the passes


def compiled(
    graph: Program,
    compiler: Compiler,
    level: int = 2,
    without: Collection[str] = (),
    hooks: Hooks = (),
    names: Mapping[Var, str] | None = None,
    bounded: Collection[Var] = (),
) -> Engine:
    """The engine of a graph. ``without`` names passes that are left out, ``regions`` among them; ``hooks``
    see each pass; ``names`` are those of dims that are called otherwise; memory is planned once for values
    whose sizes follow from those of ``bounded``, at the largest. Raises TensorLangError for what cannot be
    compiled."""
    with uncollected(), compiler.cache.helpers(), compiler.expecting(graph):
        return Source(graph, compiler, (level, without, hooks), names or {}, bounded).made()


def kernels_of(graph: Program, how: How, target: Target | None = None) -> list[Region]:
    """The regions of a graph that kernels for ``target`` compute."""
    level, without, _ = how
    parts = regions(simplified(graph, *how, target), 0 if REGIONS in without else level, target)
    return [p for p in parts if isinstance(p, Region)]


class Source:
    """What an engine was made from, as far as it may be asked for: the reasons of its kernels, and where
    parts of the graph are left for a call to show, the graph. Weights as they came go with it otherwise."""

    def __init__(
        self, graph: Program, compiler: Compiler, how: How, names: Mapping[Var, str], bounded: Collection[Var]
    ) -> None:
        self._how, self.compiler, self._bounded = how, compiler, frozenset(bounded)
        self._names: Mapping[Var, str] = names
        self._rest = self._otherwise = None
        self._assumed: Sequence[tuple[Expr, Expr]] = ()
        self._graph = graph
        self._reasons = ""

    def made(self) -> Engine:
        """The engine."""
        (level, without, _), target = self._how, self.compiler.target
        g = simplified(self._graph, *self._how, target)
        del self._graph
        self._rest, self._otherwise, self._assumed = g.rest, g.otherwise, g.assumed
        parts = regions(g, 0 if REGIONS in without else level, target)
        kernels = self.compiler.kernels([p for p in parts if isinstance(p, Region)])
        self._reasons = _reasons(g, parts)
        writer = _Writer(g, self._names, self._bounded)
        self._names = writer.sizes.names
        return writer.engine(parts, kernels, self)

    def explain(self) -> str:
        """For each region its operators, what they have in common, and why what it reads is made by
        others."""
        return self._reasons

    def later(self, value: Any, dims: Mapping[str, int]) -> Engine:
        """The engine of what follows, for this value of the pivot or these dims."""
        assert self._rest is not None
        return self.inner(self._rest.graph(value, self._sizes(dims)))

    def otherwise(self, apart: Sequence[int], dims: Mapping[str, int]) -> Engine:
        """The engine for these dims, where the assumptions of these numbers do not hold."""
        assert self._otherwise is not None
        pairs = [self._assumed[i] for i in apart]
        return self.inner(self._otherwise.variant(pairs, self._sizes(dims))[1]())

    def _sizes(self, dims: Mapping[str, int]) -> dict[Var, int]:
        return {d: dims[n] for d, n in self._names.items() if n in dims}

    def inner(self, graph: Program) -> Engine:
        """The engine of a graph that follows this one, or that a node of it runs."""
        return Source(graph, self.compiler, self._how, self._names, self._bounded).made()


def _reasons(graph: Program, parts: Sequence[Part]) -> str:
    """Of each region: its operators, what they have in common, why it reads what others make."""
    lines, number = [f"{graph.name}: {counted(len(graph.nodes), 'operator')}"], 0
    for part in parts:
        if isinstance(part, Node):
            lines.append(f"between kernels: {part!r}")
            continue
        if isinstance(part, Join):
            names = ", ".join(v.name for v in part.parts)
            lines.append(f"in place: {part.node.op} gives {part.node.outputs[0].name}, which is {names}")
            continue
        names = " → ".join(n.op for n in part.nodes)
        lines.append(f"kernel {number}: {names} gives {', '.join(v.name for v in part.outputs)}")
        lines += [f"    {reason}" for reason in part.why]
        number += 1
    return "\n".join(lines)


class _Writer:
    """Writes the program of a graph. ``names`` are those of dims that an outer program has already,
    ``bounded`` those of which the largest values are known."""

    def __init__(self, graph: Program, names: Mapping[Var, str], bounded: frozenset[Var]) -> None:
        self.graph = graph
        self.bounded = bounded
        self.sizes = Sizes()
        self.sizes.names.update(names)
        self.values: list[plain.Value] = []
        self.numbers: dict[Value, int] = {}
        self.arrays: list[np.ndarray] = []
        self._places: dict[int, int] = {}

    def value(self, v: Value) -> int:
        found = self.numbers.get(v)
        if found is None:
            found = self.numbers[v] = len(self.values)
            kind = str(v.dtype) if v.tensor_like else ""
            self.values.append(plain.Value(v.name, kind, tuple(self.sizes.row(n) for n in v.shape)))
        return found

    def array(self, a: np.ndarray) -> int:
        """The number of a constant; one that several read is there once."""
        found = self._places.get(id(a))
        if found is None:
            found = self._places[id(a)] = len(self.arrays)
            self.arrays.append(a if _own(a) else a.copy())  # of a file that may change
        return found

    def engine(self, parts: Sequence[Part], kernels: Sequence[Kernel], source: Source) -> Engine:
        g, rest = self.graph, self.graph.rest
        codes = list({k.code.symbol: k.code for k in kernels}.values())
        places = {c.symbol: i for i, c in enumerate(codes)}
        inputs = tuple(self.value(v) for v in g.inputs)
        program = plain.Program(
            g.name,
            self._dims(),
            self.sizes.table,
            self.values,
            inputs,
            tuple(tuple(self.sizes.row(n) for n in g.declared.get(v, v.shape)) for v in g.inputs),
            () if rest is not None else tuple(self.value(v) for v in g.outputs),
            tuple(g.output_names if rest is None else rest.labels),
            assumed=tuple((self.sizes.row(a), self.sizes.row(b), a.dtype.is_bool) for a, b in g.assumed),
            kernels=[self._kernel(k, places) for k in kernels],
        )
        number = 0
        for part in parts:
            if isinstance(part, Node):
                program.steps.append(self._host(part, [source.inner(g) for g in part.graphs]))
            elif isinstance(part, Join):
                program.joined[self.value(part.node.outputs[0])] = tuple(map(self.value, part.parts))
            else:
                last = program.steps[-1] if program.steps else None
                # kernels with nothing between them are one step of the program
                if isinstance(last, tuple):
                    program.steps[-1] = (*last, number)
                else:
                    program.steps.append((number,))
                number += 1
        program.rest, program.otherwise = self._rest(rest), self._rest(g.otherwise)
        for v, i in self.numbers.items():
            if v.data is not None:
                program.constants[i] = self.array(v.data)
        program.most = self._most() if self.bounded else {}
        target = source.compiler.target
        refused = target.why_not_here()
        return Engine(
            program, codes, self.arrays, source, Loaded(codes, refused), str(target) if refused else None
        )

    def _most(self) -> dict[int, int]:
        """The largest bytes of the values whose sizes follow from those that are bounded."""
        facts, found = Facts(), {}
        for v, i in self.numbers.items():
            if (
                v.tensor_like
                and v.data is None
                and all(self.bounded.issuperset(variables(n)) for n in v.shape)
            ):
                ends = [facts.interval(n)[1] for n in v.shape]
                if None not in ends:
                    found[i] = math.prod(max(0, n or 0) for n in ends) * v.dtype.bytes
        return found

    def _rest(self, rest: Any) -> plain.Rest | None:
        if rest is None:
            return None
        names = tuple(self.sizes.name(d) for d in rest.dims)
        pivot = None if rest.pivot is None else self.value(rest.pivot)
        return plain.Rest(pivot, names, tuple(self.value(v) for v in rest.live))

    def _dims(self) -> tuple[Dim, ...]:
        """The dims that inputs tell, and what is known of them."""
        g = self.graph
        found = dict.fromkeys(d for v in g.inputs for n in g.declared.get(v, v.shape) for d in variables(n))
        return tuple(Dim(self.sizes.name(d), d.lo, d.hi, d.multiple_of) for d in found)

    def _kernel(self, k: Kernel, places: Mapping[str, int]) -> plain.Kernel:
        return plain.Kernel(
            places[k.code.symbol],
            tuple(self.value(v) for v in k.inputs),
            tuple(self.value(v) for v in k.outputs),
            tuple(self.array(a) for a in k.constants),
            tuple(self.sizes.row(e) for e in k.slots),
        )

    def _host(self, node: Node, bodies: Sequence[Engine]) -> plain.Host:
        attrs = {k: self._stored(x) for k, x in node.attrs.items()}
        stored = plain.Stored(hosts.name_of(node.fn), attrs, list(bodies))
        call = hosts.caller(node.fn, stored, self.sizes.table)
        inputs = tuple(None if v is None else self.value(v) for v in node.inputs)
        return plain.Host(node.op, call, inputs, tuple(self.value(v) for v in node.outputs), stored)

    def _stored(self, x: Any) -> Any:
        """An attribute with rows for sizes."""
        if isinstance(x, Const):
            return const_int(x)
        if isinstance(x, Expr):
            return plain.Row(self.sizes.row(x))
        return type(x)(self._stored(y) for y in x) if isinstance(x, list | tuple) else x


def _own(a: np.ndarray) -> bool:
    """Whether the elements lie in memory that numpy has asked for, nearly all of it for them: so do packed
    weights, which kernels share."""
    root: Any = a
    while isinstance(root.base, np.ndarray):
        root = root.base
    return bool(root.flags.owndata) and root.nbytes <= a.nbytes + SLACK
