"""A program of operators: values, nodes and what holds them. Knows te; no files, no kernels.

A node computes its outputs by a function of te tensors, so what an operator means, and which shape it gives,
is said once: by its te. A ``Value`` has sizes that are te expressions over the dims of the graph.

Three kinds of nodes: ``te`` nodes as described; ``host`` nodes, functions of numpy arrays for what has no
fixed sizes (they end a run of kernels); and ``body`` nodes, such functions that also run graphs (loops).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..arith.facts import Facts
from ..arith.simplify import simplify_expr
from ..boundary import answer, misfit, shown
from ..core.dtype import DType, dtype
from ..core.names import free_name
from ..entries import public
from ..errors import DeclareError, counted
from ..expr import linear, make
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import variables
from ..protocols import Elements, Entries, Listed, Row
from ..te import Tensor, dim, placeholder
from ..te.axis import checked_name
from .operators import NoOperators
from .storage_types import narrowest

Function = Callable[..., Any]


@public(DeclareError, "Value")
class Value(NoOperators):
    """What a node makes, or an input or constant of the graph.

    ``shape`` holds te expressions, ``data`` the array of a constant. ``known`` is set for small integer
    values that follow from sizes: an array of numbers and expressions, in place of elements nobody has yet.
    """

    __slots__ = ("_stored", "_tensor", "data", "dtype", "known", "name", "node", "shape")

    def __init__(
        self,
        name: str,
        shape: Sequence[Any],
        kind: str | DType,
        node: Node | None = None,
        data: np.ndarray | None = None,
        known: np.ndarray | None = None,
        stored: np.ndarray | None = None,
    ) -> None:
        self.name = name
        self.shape: tuple[Expr, ...] = Row(f"{name}.shape", [make.as_expr(n) for n in shape])
        self.dtype = dtype(kind)
        self.node = node
        self.data = data
        self.known = known
        self._tensor: Tensor | None = None
        self._stored = stored

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def tensor(self) -> Tensor:
        """A placeholder of this shape: what an operator is asked with."""
        if self._tensor is None:
            # one for all operators that read it: what they make of it is compared by identity
            self._tensor = placeholder(self.shape, self.dtype, "v")
        return self._tensor

    @property
    def stored(self) -> np.ndarray:
        """The elements of a constant as kernels hold them: in a narrower type that has each of them."""
        if self._stored is None:
            if self.data is None:
                raise DeclareError(f"{self.name}.stored: it is no constant, and has elements in a call only")
            self._stored = narrowest(np.asarray(self.data))
        return self._stored

    def resize(self, shape: Sequence[Expr]) -> None:
        """Other expressions of the same sizes."""
        self.shape = Row(f"{self.name}.shape", shape)
        self._tensor = None

    @property
    def tensor_like(self) -> bool:
        """Whether it is an array; a sequence of arrays is not."""
        return True

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """The sizes as numbers, None for open ones."""
        return tuple(const_int(n) for n in self.shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class Opaque(Value):
    """What no kernel reads, and only functions of arrays make and take: a sequence, an optional, an array of
    which not even the number of dimensions is known, or one of a type that kernels lack. ``what`` says which,
    ``declared`` the sizes of the last."""

    __slots__ = ("declared", "what")

    def __init__(self, name: str, what: str, node: Node | None = None, declared: Sequence[Any] = ()) -> None:
        super().__init__(name, (), "uint8", node)
        self.what = what
        self.declared = tuple(declared)

    @property
    def tensor_like(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{self.name}: {self.what}"


class Node:
    """An operator with its inputs (None for one that is left out), attributes and outputs.

    ``op`` is what people call it; ``fn(*tensors, **attrs)`` its te (``kind`` "te"), or a function of numpy
    arrays (``"host"``). ``graphs`` are those it holds. ``was`` names the operators that it stands for, where
    a pass put it in their place.
    """

    __slots__ = ("attrs", "fn", "graphs", "inputs", "kind", "memo", "name", "op", "outputs", "was")

    def __init__(
        self,
        op: str,
        fn: Function,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any],
        name: str = "",
        kind: str = "te",
        graphs: Sequence[Program] = (),
    ) -> None:
        self.op = op
        self.fn = fn
        self.inputs: tuple[Value | None, ...] = Row("node.inputs", inputs)
        self.attrs: dict[str, Any] = Entries("node.attrs", attrs)
        self.name = name or op
        self.kind = kind
        self.graphs = tuple(graphs)
        self.outputs: list[Value] = Listed("node.outputs")
        self.was: tuple[str, ...] = ()
        self.memo: dict[Any, Any] = {}  # what was found out about it; a node does not change

    @property
    def results(self) -> list[Tensor]:
        """The te of its outputs, of the placeholders that stand for its inputs."""
        found: list[Tensor] | None = self.memo.get("results")
        if found is None:
            found = self.memo["results"] = self.of([None if v is None else v.tensor for v in self.inputs])
        return found

    def of(self, tensors: Sequence[Tensor | None], attrs: dict[str, Any] | None = None) -> list[Tensor]:
        """The te of its outputs, of these tensors; ``attrs`` in place of its own."""
        return listed(self.fn(*tensors, **(self.attrs if attrs is None else attrs)))

    @property
    def reads(self) -> list[Value]:
        """The inputs that are there, each once."""
        return list(dict.fromkeys(v for v in self.inputs if v is not None))

    def __repr__(self) -> str:
        inputs = ", ".join("-" if v is None else v.name for v in self.inputs)
        return f"{', '.join(v.name for v in self.outputs)} = {self.op}({inputs})"


answer(Node, "node", {})


@public(DeclareError, "Graph", eager=True)
class Program:
    """Operators over values, in an order in which they can run. ``metadata``: what its file says of it."""

    inputs = Elements("g.inputs", Value, "g.input(('rows', 8), 'float32', 'z')")
    outputs = Elements("g.outputs", Value, "g.output(g.call(ops.relu, x), 'z')")
    nodes = Elements("g.nodes", Node, "g.call(ops.relu, x)")
    output_names = Elements("g.output_names", str)

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.metadata: dict[str, str] = Entries("g.metadata")
        self.inputs = []
        self.outputs = []
        self.output_names = []
        self.nodes = []
        self.rest: Any = None  # what follows once values of this graph are known, see frontends
        self.assumed: list[tuple[Expr, Expr]] = []  # equal, or a variant of ``otherwise`` is run instead
        self.otherwise: Any = None
        self.defaults: dict[str, np.ndarray] = Entries("g.defaults")  # constants that calls may give
        self.declared: dict[Value, tuple[Expr, ...]] = {}  # of inputs whose shape has assumed sizes by now
        self._names: dict[str, int] = {}

    def __copy__(self) -> Program:
        """A graph of the same values and nodes, to which others may be added."""
        new = object.__new__(type(self))
        # the containers alone: nodes do not change, and passes compare values by identity
        new.__dict__.update((k, x.copy() if isinstance(x, list | dict) else x) for k, x in vars(self).items())
        return new

    def __deepcopy__(self, memo: Any = None) -> Program:
        return self.__copy__()

    # -- making it

    def fresh(self, name: str) -> str:
        """The name, or one like it that no other value has."""
        count = self._names.get(name)
        self._names[name] = 1 if count is None else count + 1
        return name if count is None else self.fresh(f"{name}.{count}")

    def input(self, shape: Sequence[Any], kind: str | DType = "float32", name: str | None = None) -> Value:
        """A new input. A size is a number, a ``te.dim`` or a name, which stands for the dim of that name.
        Without a name it is "x" or, where that is taken, "x.1". Raises DeclareError for what is no size, and
        for the name of another input."""
        sizes = placeholder([self._size(n) for n in shape], dtype(kind), "x").shape
        given = "x" if name is None else checked_name("Graph.input", name)
        if name is not None and any(v.name == name for v in self.inputs):
            raise DeclareError(
                f"Graph.input({name!r}): there is an input of that name",
                because=f"{self.name} is called with {', '.join(v.name for v in self.inputs)}",
                try_=f"g.input(shape, name={free_name(name, {v.name for v in self.inputs}, 2)!r})",
            )
        value = Value(self.fresh(given), sizes, kind)
        self.inputs.append(value)
        return value

    def _size(self, n: Any) -> Any:
        if not isinstance(n, str):
            return n
        found = {d.name: d for d in self.dims}.get(n)
        return dim(n) if found is None else found

    def constant(self, data: Any, name: str = "c") -> Value:
        """A value that is known: ``data`` is an array or what numpy makes one of.
        Raises DeclareError for what is none."""
        try:
            array = np.asarray(data)
        except ValueError as e:  # rows of different lengths
            raise DeclareError(
                f"Graph.constant({shown(data)}): numpy makes no array of it",
                because=str(e).split(". The ")[0],
                try_="g.constant(np.zeros((3, 4), 'float32'), 'w')",
            ) from None
        return Value(self.fresh(name), array.shape, dtype(array.dtype), data=array)

    def call(
        self,
        fn: Function,
        *inputs: Value | None,
        op: str = "",
        name: str = "",
        outputs: Sequence[str] = (),
        **attrs: Any,
    ) -> Any:
        """The result of ``fn(*tensors, **attrs)`` as a new value, or a tuple of them as ``fn`` returns one.

        ``fn`` is an operator of ``tensorlang.ops`` or any function of te tensors, ``lambda a, b:
        ops.concatenate([a, b])``; what is not a value of the graph goes by keyword, or into the function. A
        result that is one of the tensors given is that value itself. Raises DeclareError for what ``fn``
        refuses.
        """
        for n, v in enumerate(inputs):
            self._check_value(f"Graph.call({op or getattr(fn, '__name__', 'call')}): input {n}", v)
        node = Node(op or getattr(fn, "__name__", "call"), fn, inputs, attrs, name)
        # no size of a shape is negative: shapes of results come out shorter for it
        with linear.sizes():
            made = self._called(fn, [None if v is None else v.tensor for v in inputs], attrs)
        results = node.memo["results"] = listed(made)
        own = {id(v.tensor): v for v in inputs if v is not None}
        values = []
        for i, t in enumerate(results):
            if not isinstance(t, Tensor):
                raise DeclareError(
                    f"Graph.call({shown(fn)}): the function returned {type(t).__name__}, not a tensor",
                    try_="a function of te tensors, such as those of tensorlang.ops",
                )
            # an input that is handed on is that value, and no copy of it
            if id(t) in own:
                values.append(own[id(t)])
                continue
            label = outputs[i] if i < len(outputs) and outputs[i] else f"{node.op.lower()}"
            value = Value(self.fresh(label), [simplify_expr(n, Facts()) for n in t.shape], t.dtype, node)
            values.append(value)
        node.outputs = Listed("node.outputs", [v for v in values if v.node is node])
        if node.outputs:
            if len(node.outputs) != len(values):
                del node.memo["results"]
                values = self._without_aliases(node, fn, own, values)
            self.nodes.append(node)
        return tuple(values) if isinstance(made, tuple | list) else values[0]

    @staticmethod
    def _called(fn: Function, tensors: list[Tensor | None], attrs: dict[str, Any]) -> Any:
        try:
            return fn(*tensors, **attrs)
        except TypeError:
            wrong = misfit(fn, *tensors, **attrs)
            if wrong is None:
                raise
            raise DeclareError(
                f"Graph.call({shown(fn)}, …): the function takes other arguments",
                because=f"{wrong}; it is called with {counted(len(tensors), 'tensor')}"
                + (f" and {', '.join(attrs)}" if attrs else ""),
                try_="g.call(lambda a, b: ops.add(a, b), x, y)",
            ) from None

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise DeclareError(
            f"{self.name}(…): a graph is compiled before it runs", try_="engine = g.compile(), then engine(a)"
        )

    def check(self) -> None:
        """Raises DeclareError for a graph without outputs, and for a value that is of another one."""
        if not self.outputs and self.rest is None:
            raise DeclareError(
                f"the graph {self.name} has no outputs",
                because="an engine computes its outputs, and there are none",
                try_="g.output(y, 'y') of what g.call returned",
            )
        made = {*self.inputs, *(v for n in self.nodes for v in n.outputs)}
        read = [v for n in self.nodes for v in n.reads] + self.outputs
        foreign = next((v for v in read if v.data is None and v not in made), None)
        if foreign is not None:
            raise DeclareError(
                f"the graph {self.name} reads {foreign.name}, a value of another graph",
                because="a value belongs to the graph that made it",
                try_=f"{foreign.name} = g.input(shape, {foreign.dtype.name!r}, {foreign.name!r}) in this one",
            )

    def _check_value(self, what: str, v: Any) -> None:
        if v is not None and not isinstance(v, Value):
            raise DeclareError(
                f"{what} is {f'the tensor {v.name}' if isinstance(v, Tensor) else type(v).__name__}, "
                "and no value of a graph",
                try_="values one by one, g.call(lambda a, b: ops.concatenate([a, b]), x, y)"
                if isinstance(v, list | tuple)
                else "g.call(lambda a: ops.einsum('ij->ji', a), x), where the function has the text"
                if isinstance(v, str)
                else "g.constant(array) for numbers, g.input(shape) for what is known at the call",
            )

    def _without_aliases(
        self, node: Node, fn: Function, own: dict[int, Value], values: list[Value]
    ) -> list[Value]:
        """``fn`` of a node that has new results and also hands on inputs: only the new ones are its own."""

        def kept(*tensors: Any, **attrs: Any) -> Any:
            given = {id(t) for t in tensors}
            return tuple(t for t in fn(*tensors, **attrs) if id(t) not in given)

        node.fn = kept
        return values

    def host(
        self,
        fn: Function,
        inputs: Sequence[Value | None],
        results: Sequence[tuple[Sequence[Any], Any] | str],
        op: str = "",
        name: str = "",
        outputs: Sequence[str] = (),
        graphs: Sequence[Program] = (),
        **attrs: Any,
    ) -> tuple[Value, ...]:
        """Results of ``fn(*arrays, **attrs)``, a function of numpy arrays that runs between kernels.
        ``results`` gives (shape, dtype) of each, a size of None is open until the call; or a word for what
        is opaque. With ``graphs``, ``fn`` is given an engine of each before the arrays."""
        kind = "body" if graphs else "host"
        node = Node(op or getattr(fn, "__name__", "host"), fn, inputs, attrs, name, kind, graphs)
        for i, result in enumerate(results):
            label = self.fresh(outputs[i] if i < len(outputs) and outputs[i] else node.op.lower())
            if isinstance(result, str):
                node.outputs.append(Opaque(label, result, node))
                continue
            shape, kind = result
            sizes = [dim(f"{label}_{d}") if n is None else n for d, n in enumerate(shape)]
            node.outputs.append(Value(label, sizes, kind, node))
        self.nodes.append(node)
        return tuple(node.outputs)

    def output(self, value: Value, name: str | None = None) -> None:
        """Make a value an output, called ``name`` or as the value is. Raises DeclareError for a name that
        another output has."""
        given = value.name if name is None else checked_name("Graph.output", name)
        if given in self.output_names:
            if name is not None:
                raise DeclareError(
                    f"Graph.output({name!r}): there is an output of that name",
                    because="outputs are returned and asked for by their names",
                    try_=f"g.output({value.name}, {free_name(name, self.output_names)!r})",
                )
            given = free_name(given, self.output_names)
        self.outputs.append(value)
        self.output_names.append(given)

    # -- looking at it

    @property
    def dims(self) -> list[Var]:
        """The open sizes of the inputs, in order of appearance."""
        found: dict[Var, None] = {}
        for v in self.inputs:
            for n in v.shape:
                found.update(dict.fromkeys(variables(n)))
        return Listed("g.dims", found)

    @property
    def constants(self) -> list[Value]:
        """The constants that a node or an output reads."""
        read = dict.fromkeys(v for n in self.nodes for v in n.reads)
        read.update(dict.fromkeys(self.outputs))
        return Listed("g.constants", [v for v in read if v.data is not None])

    def readers(self) -> dict[Value, list[Node]]:
        """For each value the nodes that read it."""
        found: dict[Value, list[Node]] = {}
        for n in self.nodes:
            for v in n.reads:
                found.setdefault(v, []).append(n)
        return found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        weights = sum(v.data.nbytes for v in self.constants if v.data is not None)
        yield f"graph {self.name}: {counted(len(self.nodes), 'operator')}, {_bytes(weights)} of constants"
        if self.dims:
            yield f"  dims {', '.join(str(d) for d in self.dims)}"
        for v in self.inputs:
            yield f"  input {v}"
        if self.defaults:
            yield f"  may be given too: {_some(self.defaults)}"
        for n in self.nodes:
            yield f"  {', '.join(map(repr, n.outputs))} = {_call(n)}"
        for name, v in zip(self.output_names, self.outputs, strict=True):
            yield f"  output {name} = {v.name}" if name != v.name else f"  output {v.name}"
        for a, b in self.assumed:
            yield f"  where {a} == {b}"
        if self.rest is not None:
            yield f"  then {self.rest}"


def listed(made: Any) -> list[Any]:
    """What a function of te tensors returned, one or several."""
    return list(made) if isinstance(made, tuple | list) else [made]


def _some(arrays: Mapping[str, np.ndarray]) -> str:
    """The first of these, and how many others there are."""
    shown_ = [f"{n}: {a.dtype}{list(a.shape)}" for n, a in list(arrays.items())[:8]]
    more = len(arrays) - len(shown_)
    return ", ".join(shown_) + (f" and {more} others" if more else "")


def _call(n: Node) -> str:
    parts = ["-" if v is None else _operand(v) for v in n.inputs]
    parts += [f"{k}={_short(v)}" for k, v in n.attrs.items() if v is not None]
    return f"{n.op}({', '.join(parts)})"


def _operand(v: Value) -> str:
    if v.data is None:
        return v.name
    return (
        str(v.data.item())
        if v.data.size == 1 and v.data.dtype.kind in "biuf"
        else f"{v.name}{list(v.data.shape)}"
    )


def _short(x: Any) -> str:
    text = str(x)
    return text if len(text) <= 40 else text[:37] + "…"


def _bytes(n: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"


def needed(nodes: Iterable[Node], outputs: Iterable[Value]) -> list[Node]:
    """The nodes that the outputs depend on, in the order given. A function of arrays is needed too when a
    size that only its result tells is."""
    wanted = set(outputs)
    sizes = {d for v in wanted for n in v.shape for d in variables(n)}
    kept = []
    for n in reversed(list(nodes)):
        symbols = {s for v in n.outputs for s in v.shape if isinstance(s, Var)}
        if any(v in wanted for v in n.outputs) or (n.kind != "te" and not sizes.isdisjoint(symbols)):
            kept.append(n)
            # backwards: what a node reads is wanted before its makers are met
            wanted.update(n.reads)
            mentioned = (*n.attrs.values(), *(s for v in (*n.reads, *n.outputs) for s in v.shape))
            sizes.update(d for x in mentioned for d in _dims(x))
    return kept[::-1]


def _dims(x: Any) -> Iterator[Var]:
    """The dims in an attribute."""
    if isinstance(x, Expr):
        yield from variables(x)
    elif isinstance(x, list | tuple) or (isinstance(x, np.ndarray) and x.dtype == object):
        for y in x.reshape(-1) if isinstance(x, np.ndarray) else x:
            yield from _dims(y)
