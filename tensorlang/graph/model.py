"""The graph a user meets: a program, and what it becomes. Knows engines; no files of other frameworks."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import signposts
from ..boundary import misfit, shown
from ..entries import public
from ..errors import DeclareError, counted
from ..expr.nodes import Var
from ..runtime import files, num_threads
from ..runtime.engine import Engine
from ..runtime.overrides import Overrides
from ..target import Target, as_target
from ..te import Tensor
from ..te.tensor import PlaceholderOp
from .draw import notebook, svg
from .graph import Program, Value, needed
from .kernels import Compiler, Progress
from .makers import schedules, tuned
from .passes import Hooks
from .passes.rewrite import renewed
from .size_profile import Substitution, called_again, substitution
from .to_engine import compiled, kernels_of
from .tracing import trace


def _target(given: Any) -> Target:
    """What kernels are made for: this machine, as many of its cores as there are threads, or another one."""
    return as_target(given).for_threads(num_threads())


def _check_settings(call: str, level: Any, outputs: Any, without: Any, workers: int | None = None) -> None:
    """Raises DeclareError for settings that mean nothing."""
    said = f"Graph.{call}"
    if level not in (0, 1, 2):
        raise DeclareError(f"{said}(level={level}): no such level", legal="0, 1, 2")
    if outputs is not None and not list(outputs):
        raise DeclareError(
            f"{said}(outputs=[]): no output is asked for", try_="outputs=None, the graph's own outputs"
        )
    if isinstance(without, str) or not isinstance(without, Iterable):
        raise DeclareError(
            f"{said}(without={shown(without)}): not a list of names", try_="without=['regions']"
        )
    if workers is not None and workers < 1:
        raise DeclareError(
            f"{said}(workers={workers}): at least one process compiles, this one", try_="workers=1"
        )


@public(DeclareError, "Graph", signposts.GRAPH, eager=True)
class Graph(Program):
    """A program of operators over values with open sizes.

    Made by hand::

        g = tl.Graph()
        x = g.input((te.dim("n"), 64), "float32", "x")
        g.output(g.call(ops.relu, x))
        engine = g.compile()
        y = engine(np.ones((3, 64), "float32"))

    or by ``tl.load_onnx``, or of a function of te tensors by :meth:`trace`.

    >>> g = tl.Graph("relu")
    >>> x = g.input(("rows", 4), "float32", "x")
    >>> g.output(g.call(ops.relu, x), "y")
    >>> engine = g.compile(cache=False)
    >>> engine(np.full((2, 4), -1, np.float32)).sum()
    np.float32(0.0)
    """

    def __init__(self, name: str = "graph") -> None:
        super().__init__(name)
        self.renames: dict[Var, str] = {}  # of dims
        self.remake: Callable[[Substitution], Program] | None = None  # for other sizes; None: called again
        self.remade_with: Remade | None = None  # these defaults as inputs
        self.taken: dict[str, np.ndarray] = {}  # defaults of inputs

    @classmethod
    def trace(cls, fn: Callable[..., Any], *inputs: Any, name: str | None = None) -> Graph:
        """The graph of a function of te tensors: each operator that it calls, and each ``a + b`` of whole
        tensors, is a node. A function that declares something by ``te.compute`` itself is one node.

        ``inputs`` are placeholders, which become inputs of that name and shape, and arrays, which become
        constants. Raises DeclareError for others, and what the function raises.

        >>> x = te.placeholder((te.dim("rows"), 4), name="x")
        >>> g = tl.Graph.trace(lambda x, w: ops.relu(ops.matmul(x, w) + 1.0), x, np.eye(4, dtype="float32"))
        >>> [n.op for n in g.nodes]
        ['matmul', 'add', 'relu']
        """
        wrong = misfit(fn, *inputs)
        if wrong:
            raise DeclareError(
                f"Graph.trace({shown(fn)}, {counted(len(inputs), 'input')}): the function does not take them",
                because=None if "lambda" in str(wrong) else str(wrong),
                try_="tl.Graph.trace(ops.relu, te.placeholder((te.dim('rows'), 4), name='x'))",
            )
        graph = cls(name or getattr(fn, "__name__", "graph").strip("<>"))
        values = [_traced(graph, i, x) for i, x in enumerate(inputs)]
        for v in trace(graph, fn, values):
            graph.output(v)
        return graph

    def compile(
        self,
        *,
        outputs: Sequence[str] | None = None,
        profile: Mapping[str, Any] | None = None,
        target: Any = None,
        records: Any = None,
        level: int = 2,
        math: str = "default",
        cache: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
        without: Collection[str] = (),
        hooks: Hooks = (),
        overridable: Collection[str] | bool = (),
    ) -> Engine:
        """The graph as an engine, which takes every size of its open dims.

        ``outputs`` names the values to compute, any in the graph, in place of its own outputs. ``profile``
        says which sizes will come, as for ``specialised``: others are refused, kernels are compiled for
        these, and memory is planned once, at the largest.
        ``records`` is the file of a search (``autosched.tune``): a kernel that computes what was searched
        takes the best schedule of it. Kernels share work out among ``tl.num_threads()``; others run them too.
        ``target`` is another processor, as for ``tl.build``; such an engine is for ``export`` and ``save``.

        ``level`` 0 computes every operator by a kernel of its own; 1 simplifies the graph where that keeps
        every bit, and fuses operators; 2 (the default) also moves the rounding of floats. ``without`` names
        passes to leave out (``graph.passes.PASSES``, and ``"regions"`` for fusing), and each of ``hooks`` is
        called with the name of a pass and the graph before and after it. Distinct kernels are compiled by
        ``workers`` processes (None: as many as are worth it, 1: this one only) and kept in the directory
        ``cache`` (None: the user's, False: nowhere). ``progress(ready, all)`` is called as kernels are
        compiled.

        The ``defaults`` of the graph, constants that its file lists as inputs, may be given to the engine by
        name. They are folded and packed all the same, for most files that list their weights so are never
        called with others; a call that gives some gets an engine in which these are inputs, compiled when the
        first such call comes. ``overridable`` names those for which it is compiled now, ``True`` says all:
        then ``save`` keeps it. Raises TensorLangError for what cannot be compiled."""
        _check_settings("compile", level, outputs, without, workers)
        if not isinstance(hooks, Iterable) or not all(map(callable, hooks)):
            raise DeclareError(
                f"Graph.compile(hooks={shown(hooks)}): no list of functions",
                try_="hooks=[lambda name, before, after: print(name)]",
            )
        self.check()
        graph = self._prepared(profile, outputs)
        bounded = [] if profile is None else [d for d in graph.dims if d not in set(self.dims)]
        known = None if records is None else schedules(records)
        compiler = Compiler(_target(target), math, cache, workers, progress, known)
        engine = compiled(graph, compiler, level, without, hooks, graph.renames, bounded)
        if not self.defaults and not overridable:
            return engine

        anew = self._anew  # without this graph, which holds weights

        def taking(names: Sequence[str]) -> tuple[Engine, dict[str, np.ndarray]]:
            how: dict[str, Any] = {"target": target, "level": level, "math": math, "cache": cache}
            how |= {"workers": workers, "progress": progress, "without": without, "hooks": hooks}
            g = anew(names)
            return g.compile(outputs=outputs, profile=profile, records=records, **how), g.taken

        engine.overrides = Overrides(self.name, tuple(self.defaults), taking)
        engine.overrides.prepare(self._overridable(overridable), engine)
        return engine

    def _overridable(self, asked: Collection[str] | bool) -> Collection[str]:
        """Names of defaults. Raises DeclareError for others."""
        if isinstance(asked, bool):
            return tuple(self.defaults) if asked else ()
        if not isinstance(asked, Iterable):
            raise DeclareError(
                f"Graph.compile(overridable={shown(asked)}): not a list of names",
                legal=", ".join(self.defaults),
            )
        names = (asked,) if isinstance(asked, str) else tuple(asked)
        self._check_defaults(f"compile(overridable={list(names)!r})", names)
        return names

    def _check_defaults(self, what: str, names: Sequence[str]) -> None:
        for n in names:
            if n not in self.defaults:
                inputs = [v.name for v in self.inputs]
                raise DeclareError(
                    f"{what}: {n} is {'an input without' if n in inputs else 'nothing with'} a default",
                    because="constants that a file lists as inputs have one",
                    legal=", ".join(self.defaults) or "none in this graph",
                )

    def with_inputs(self, *names: str) -> Graph:
        """The graph in which these of ``defaults`` are inputs, behind the others: its engine is called with
        them each time. It is read anew. Raises DeclareError for names that have no default."""
        self._check_defaults(f"with_inputs({', '.join(map(repr, names))})", names)
        return self._anew(names) if names else self

    @property
    def _anew(self) -> Remade:
        """Makes the graph with other inputs; holds no weights of this one."""
        remade, called = self.remade_with, {d.name: new for d, new in self.renames.items()}

        def anew(names: Sequence[str]) -> Graph:
            assert remade is not None
            graph = remade(names)
            graph.renames = {d: called[d.name] for d in graph.dims if d.name in called} | graph.renames
            return graph

        return anew

    def _prepared(self, profile: Mapping[str, Any] | None, outputs: Sequence[str] | None) -> Graph:
        """What is compiled for a profile and outputs."""
        graph = self if profile is None else self.specialised(profile)
        graph = copy.copy(graph if outputs is None else graph.subgraph(None, outputs))
        graph.remake = graph.remade_with = None  # they hold weights as they came
        return graph

    def tune(
        self,
        records: str | Path,
        trials: int = 32,
        *,
        outputs: Sequence[str] | None = None,
        profile: Mapping[str, Any] | None = None,
        target: Any = None,
        level: int = 2,
        without: Collection[str] = (),
        progress: Any = False,
    ) -> None:
        """Search for schedules of the kernels that ``compile`` with the same arguments makes, by measuring
        ``trials`` candidates for each distinct one, and keep them in the file ``records``, which ``compile``
        takes::

            g.tune("model.jsonl", profile={"n": 128})
            engine = g.compile(records="model.jsonl", profile={"n": 128})

        What the file has already counts. ``progress`` is as for ``autosched.tune``: None shows it. Raises
        TensorLangError where nothing is installed that searches, and when no kernel can be searched.
        """
        _check_settings("tune", level, outputs, without)
        graph, chosen = self._prepared(profile, outputs), _target(target)
        tasks = Compiler(chosen, cache=False).tasks(kernels_of(graph, (level, without, ()), chosen))
        if tasks:
            tuned(tasks, chosen, records, trials, progress)

    def specialised(self, profile: Mapping[str, Any]) -> Graph:
        """The graph for the sizes that a profile tells of: ``{"batch": (1, 1, 16), "length": 128}`` by open
        sizes (least, usual, most), or ``{"x": [(1, 1, 8), 3, 48, None]}`` by inputs, dimension by dimension.

        What has one value is a number in it. The usual value guides the choice of schedules, and may be left
        out. Raises DeclareError for a profile that contradicts the graph or itself.

        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> g.specialised({"n": (1, 8, 64)}).compile(cache=False)
        <engine g(x: float32[n, 4]): 1 kernel>
        """
        names = {self.renames.get(d, d.name): d for d in self.dims}
        sizes = substitution(self, names, profile)
        if not sizes:
            return self
        graph: Graph = (self.remake or (lambda s: called_again(self, s)))(sizes)  # type: ignore[assignment]
        left = {d: sizes.get(d, d) for d in self.renames}
        graph.renames = {new: self.renames[d] for d, new in left.items() if isinstance(new, Var)}
        graph.metadata, graph.defaults, graph.taken = self.metadata, self.defaults, self.taken
        anew = self._anew
        graph.remade_with = lambda given: anew(given).specialised(profile)
        return graph

    def subgraph(self, inputs: Sequence[str] | None, outputs: Sequence[str]) -> Graph:
        """The part that computes the values named ``outputs`` from those named ``inputs`` (None: the graph's
        own, as far as they are needed).

        Raises DeclareError for names of nothing, for outputs that depend on something else than the inputs,
        and for values behind a place where the graph ends until some numbers are known.

        >>> g = tl.Graph("g")
        >>> h = g.call(ops.exp, g.input(("n", 4), name="x"))
        >>> g.output(g.call(ops.relu, h), "y")
        >>> len(g.nodes), len(g.subgraph(None, [h.name]).nodes)
        (2, 1)
        """
        values = {v.name: v for v in (*self.inputs, *(v for n in self.nodes for v in n.outputs))}
        values |= {v.name: v for v in self.constants}
        values |= dict(zip(self.output_names, self.outputs, strict=False)) if self.rest is None else {}
        wanted = [self._named(n, values) for n in outputs]
        begin = self.inputs if inputs is None else [self._named(n, values) for n in inputs]
        new = {v: v if v.node is None else Value(v.name, v.shape, v.dtype) for v in begin}
        made = {v for v in begin if v.node is not None}
        kept = needed([n for n in self.nodes if not made.issuperset(n.outputs)], wanted)
        part: Graph = renewed(self, kept, {a: b for a, b in new.items() if a is not b})  # type: ignore[assignment]
        part.remake = part.remade_with = None
        part.defaults = {}
        if inputs is None and self.remade_with is not None:
            part.defaults, anew = self.defaults, self._anew
            part.remade_with = lambda given: anew(given).subgraph(None, outputs)
        part.rest = part.otherwise = None  # where assumed sizes differ, the part says so
        part.outputs = [new.get(v, v) for v in wanted]
        part.output_names = list(outputs)
        read = {v for n in part.nodes for v in n.reads} | set(part.outputs)
        part.inputs = [v for v in new.values() if inputs is not None or v in read]
        ready = {*part.inputs, *(v for n in part.nodes for v in n.outputs)}
        missing = [v.name for v in read if v.data is None and v not in ready]
        if missing:
            raise DeclareError(
                f"subgraph: {', '.join(outputs)} needs {missing[0]} too",
                because="it is an input of the graph",
                try_=f"subgraph([{', '.join(map(repr, [*(inputs or ()), missing[0]]))}], …)",
            )
        return part

    def _named(self, name: str, values: Mapping[str, Value]) -> Value:
        if name not in values:
            near = difflib.get_close_matches(str(name), values, 3)
            raise DeclareError(
                f"{self.name} has no value {name!r}", try_=f"one of {', '.join(near)}" if near else None
            )
        return values[name]

    def rename_dims(self, names: Mapping[str, str]) -> Graph:
        """The graph with other names for open sizes, ``{"p2o_DynamicDimension_0": "batch"}``: messages and
        prints use them. Raises DeclareError for names of no size, and for a name that another has.

        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> g.rename_dims({"n": "rows"}).compile(cache=False)
        <engine g(x: float32[rows, 4]): 1 kernel>
        """
        known = {self.renames.get(d, d.name): d for d in self.dims}
        result = {n: names.get(n, n) for n in known}
        unknown = [n for n in names if n not in known]
        twice = [n for n in result.values() if list(result.values()).count(n) > 1]
        if unknown or twice:
            raise DeclareError(
                f"rename_dims: {unknown[0]} is not an open size"
                if unknown
                else f"rename_dims: two {twice[0]}",
                because=f"the sizes are {', '.join(known)}",
            )
        graph = copy.copy(self)
        graph.renames = {known[n]: new for n, new in result.items()}
        return graph

    def draw(self, path: str | Path) -> None:
        """Write a drawing of the graph, an SVG that any browser shows. Raises TensorLangError when it cannot
        be written."""
        place = files.named(path, "draw")
        if place.suffix not in (".svg", ""):
            raise DeclareError(
                f"Graph.draw: {place} would be no {place.suffix} file",
                because="a drawing is an SVG",
                try_=f"g.draw({str(place.with_suffix('.svg'))!r})",
            )
        files.write({place: svg(self, self._in_own_names).encode()}, f"draw {self.name}")

    def _repr_html_(self) -> str:
        return notebook(self, str(self), self._in_own_names)

    def __str__(self) -> str:
        return self._in_own_names(super().__str__())

    def __repr__(self) -> str:
        inputs, count = ", ".join(map(str, self.inputs)), len(self.nodes)
        end = f"{', '.join(self.output_names)}: {counted(count, 'operator')}"
        text = f"<graph {self.name}({inputs}) → {end}>"
        return self._in_own_names(text)

    def _in_own_names(self, text: str) -> str:
        """A text with the names that users gave to sizes."""
        names = {d.name: new for d, new in self.renames.items() if d.name != new}
        if not names:
            return text
        # whole names only, and none behind a dot: of `n` in `n * 2`, not in `len` or in `x.n`
        words = "|".join(map(re.escape, names))
        return re.sub(rf"(?<![\w.])({words})(?![\w.])", lambda m: names[m[1]], text)


Remade = Callable[[Sequence[str]], Graph]


def _traced(graph: Graph, i: int, x: Any) -> Value:
    """The value for an argument of a function that is traced."""
    if isinstance(x, Tensor) and isinstance(x.op, PlaceholderOp):
        return graph.input(x.shape, x.dtype, x.name)
    if isinstance(x, np.ndarray | np.generic):
        return graph.constant(x)
    raise DeclareError(
        f"Graph.trace: input {i} is {f'the tensor {x.name}' if isinstance(x, Tensor) else type(x).__name__}",
        because="a placeholder says what comes in, an array what is known",
        try_="te.placeholder(shape, dtype, name=…)",
    )
