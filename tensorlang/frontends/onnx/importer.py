"""From ONNX's nodes to a graph. Knows the table of operators, not what any of them means.

Nodes are taken from a list of work. Values that are small and whole, such as shapes, are worked out as they
are met (``known``), with size expressions where sizes are open. An operator that must know elements nobody
knows yet (the target of a Reshape that is an input, the condition of an If) ends the graph there: the rest of
the work is imported when a call has shown the value, once for each value that occurs (``Rest``). So a result
may have another rank in each branch of an If, and a graph never guesses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import DeclareError, TensorLangError, counted
from ...expr.make import as_expr
from ...expr.nodes import Compare, Expr, Var, const_int
from ...expr.walk import variables
from ...graph import Graph, Node, Opaque, Value
from ...te import const, dim
from ..words import name_of_ours
from . import forms, narrow
from .equal import Equal, likelier
from .known import KNOWN, as_known, renewed_numbers, written
from .proto import BROKEN, Body, Call, Function, Model, Reference, Type, reason, standard
from .table import OPERATORS, Operator, Placed

# a bound, for proofs need one: products of two such sizes still fit 64 bits
MAX_DIM = 10**9
MOST_INPUTS = 128  # of a kernel of a node that may be taken in parts
OF_PARTS = ("Max", "Min", "Sum")
EMPTY: Mapping[Expr, bool] = {}


class Needs(Exception):
    """An operator cannot be imported before this value is known."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Importer:
    """``env`` has what each name stands for: a Value, a list for a sequence, None for an optional that is
    empty, or an Opaque for what is not known before the call. ``narrow`` has the types of few bits of values,
    whose numbers kernels hold in wider ones."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model = model
        self.g = graph
        self.work: deque[Call] = deque()
        self.env: dict[str, Any] = {"": None}
        self.outputs: list[str] = []
        self.labels: list[str] = []
        self.narrow: dict[Value, str] = {}
        self.dims: set[Var] = set()  # the sizes that the inputs tell
        self.equal = Equal()  # sizes that are taken to be equal, for want of which a node was refused
        self.decisions: dict[Expr, bool] = {}  # conditions on sizes, taken to be true or not
        self.begin: Importer = self  # as it was before any work
        self.opening: list[Node] = []  # those that were in the graph by then: they open what is opaque
        self._count = 0
        self._made: dict[Value, Value] = {}

    # -- the whole

    def start(self, body: Body) -> None:
        """Take a graph with its inputs."""
        names: dict[str, Any] = {}
        for name, t in body.inputs:
            # one table of names: a dim_param is the same size wherever it stands in the file
            self.env[name] = self.input(name, t, names)
        self.prepare(body)

    def prepare(self, body: Body) -> None:
        """Take the work of a graph whose inputs are there."""
        for name, a in body.constants.items():
            self.env[name] = self.new(a, name)
        self.work.extend(body.calls)
        self.outputs = [n for n, _ in body.outputs]
        self.labels = list(self.outputs)

    def input(self, name: str, t: Type, dims: dict[str, Any]) -> Value:
        """An input of the declared type. Raises TensorLangError for types that are not supported."""
        kind = t.element
        if kind in ("", "string"):
            raise TensorLangError(
                f"input {name} is {kind or 'of no declared type'}", because="arrays of numbers are supported"
            )
        # a sequence, or an array of unknown rank: its form is asked of the first call
        if t.of is not None or t.shape is None:
            return self.given(Opaque(self.g.fresh(name), t.kind if t.of is not None else f"{kind}[…]"))
        if kind in narrow.WIDE:
            return self.given(Opaque(self.g.fresh(name), kind, declared=t.shape))
        sizes = [n if isinstance(n, int) else _dim(n or f"{name}_{d}", dims) for d, n in enumerate(t.shape)]
        return self.given(Value(self.g.fresh(name), sizes, kind))

    def given(self, value: Any) -> Any:
        """Make a value an input of the graph."""
        self.g.inputs.append(value)
        return value

    def finish(self) -> Graph:
        """Import all work, or as much as can be known now."""
        # kept for graphs of other sizes, which import everything again from here
        self.begin = copy(self)
        self.begin.work, self.begin.env = deque(self.work), dict(self.env)
        self.begin.opening = list(self.g.nodes)
        self.g.remake = self.again
        self.dims = {d for v in self.g.inputs for n in v.shape for d in variables(n)}
        told = len(self.equal.solved)
        for d, n in self.equal.solved.items():
            self._assume(d, n)
        self._finish()
        return self._settled() if len(self.equal.solved) > told else self.g

    def _finish(self) -> None:
        while self.work:
            call = self.work.popleft()
            try:
                self.take(call)
            except Needs as need:
                self.work.appendleft(call)
                v = self.value(need.name)
                if isinstance(v, Opaque):
                    self._cut(forms.form(self.g, v), (), v)
                else:
                    self._cut(self.tensor(need.name))
                return
            except DeclareError as e:
                # the same node again with the two sizes equal: calls for which they differ get a graph of
                # their own
                if self._assumed(call, e):
                    self.work.appendleft(call)
                    continue
                dims = self._dims_of(call)
                if dims:  # what is not known for every size may hold for the sizes of a call
                    self.work.appendleft(call)
                    self._cut(None, dims)
                    return
                raise TensorLangError(
                    f"{call!r}: {e.what}", because=e.because, legal=e.legal, try_=e.try_
                ) from None
            except BROKEN as e:
                raise TensorLangError(f"{call!r} cannot be imported", because=reason(e)) from None
        for name, label in zip(self.outputs, self.labels, strict=True):
            self.g.output(self.result(name), label)

    def again(self, sizes: Mapping[Var, Expr]) -> Graph:
        """The graph with these sizes for dims of its inputs, imported anew."""
        return Rest(self.begin, None, self.g.inputs, list(sizes)).graph(None, sizes)

    def result(self, name: str) -> Value:
        """A value as users see it."""
        v = self.value(name)
        return forms.packed(self, v) if v is None or isinstance(v, list) else self.shown(v)

    def shown(self, v: Value) -> Value:
        """An array as users see it: of few bits where its type has few, and not only known."""
        if isinstance(v, Opaque):
            return v
        v = self.array(v)
        return narrow.stored(self.g, v, self.narrow[v]) if v in self.narrow else v

    def _assumed(self, call: Call, error: DeclareError) -> bool:
        """Take two sizes for equal that may differ, for want of which a node is refused: when they do at a
        call, the graph is made anew for the sizes of that call."""
        # what was taken before may be all that it wants
        if self._renewed(call):
            return True
        if error.apart is not None:
            a, b = likelier(*(as_expr(self.equal.fixed(n)) for n in error.apart))
            if self.dims.issuperset({*variables(a), *variables(b)}):
                found = self.equal.solve(a, b, self.g.dims)
                for d, n in found.items():
                    self._assume(d, n)
                # the simpler one stays: shapes get shorter, and a number decides more than a name
                new, old = sorted(self.equal.said_shorter(a, b), key=self._simplicity)
                if not found and const_int(old) is None and old not in self.equal.known:
                    self.equal.replace(old, new)
                    self._assume(old, new)
        return self._renewed(call)

    def _renewed(self, call: Call) -> bool:
        """Put assumed sizes in the place of others in what a node reads. Whether there were any."""
        changed = False
        for name in call.inputs:
            v = self.env.get(name)
            if isinstance(v, Value) and v.data is None:
                # not `or`: every input gets its new sizes
                changed |= self._with_sizes(name, v)
        return changed

    def _simplicity(self, size: Expr) -> tuple[Any, ...]:
        """Numbers first, then dims in the order of the inputs, then short expressions."""
        place = next((k for k, d in enumerate(self.g.dims) if d is size), len(self.dims))
        return const_int(size) is None, place, len(str(size))

    def _assume(self, a: Expr, b: Expr) -> None:
        self.g.assumed.append((a, b))
        if self.g.otherwise is None:
            shapes = (self.g.declared.get(v, v.shape) for v in self.g.inputs)
            dims = {d for shape in shapes for n in shape for d in variables(n)}
            self.g.otherwise = Rest(self.begin, None, self.g.inputs, sorted(dims, key=str))

    def _settled(self) -> Graph:
        """The graph imported once more, with the dims that turned out to be told by others in their place:
        what was imported before one was found has sizes that do not agree with what came after."""
        old = self.g
        now = Rest(self.begin, None, old.inputs).begun(Equal(self.equal.solved))
        now.equal = Equal(self.equal.solved)
        g = now.g
        g.metadata, g.defaults = old.metadata, old.defaults
        g.taken, g.remade_with = old.taken, old.remade_with
        g.declared = {n: old.declared.get(v, v.shape) for v, n in zip(old.inputs, g.inputs, strict=True)}
        # with the size in its place a condition may hold for certain, and be no longer asked for
        g.assumed = [(a, b) for a, b in old.assumed if a.dtype.is_bool]
        return now.finish()

    def decided(self, condition: Expr, name: str) -> bool:
        """Which way a condition on sizes is taken to go; calls for which it goes the other way get a graph of
        their own. Raises Needs for sizes that no input tells."""
        if condition not in self.decisions:
            if not self.dims.issuperset(variables(condition)):
                raise Needs(name)
            # taken to hold, as a model is mostly exported for a shape that passes its own checks; != is asked
            # for the exception
            self.decisions[condition] = not (isinstance(condition, Compare) and condition.symbol == "!=")
        taken = self.decisions[condition]
        if not any(a is condition for a, _ in self.g.assumed):
            self._assume(condition, const(taken, "bool"))
        return taken

    def _with_sizes(self, name: str, v: Value) -> bool:
        """Put assumed sizes in the place of others, in a shape or in numbers that are known."""
        if v.known is not None:
            numbers = [self.equal.fixed(n) for n in v.known.reshape(-1)]
            same = all(a is b for a, b in zip(numbers, v.known.reshape(-1), strict=True))
            if not same:
                self.env[name] = renewed_numbers(v, numbers)
            return not same
        shape = tuple(self.equal.fixed(n) for n in v.shape)
        if all(a is b for a, b in zip(shape, v.shape, strict=True)):
            return False
        if v.node is None:
            # of an input: calls are checked by what it was declared as
            self.g.declared.setdefault(v, v.shape)
        v.resize(shape)
        return True

    def _cut(self, pivot: Value | None, dims: Sequence[Var] = (), of: Opaque | None = None) -> None:
        """End the graph with the value that must be known (the form ``of`` what is opaque), and what the rest
        will read."""
        # only what the rest reads is kept alive across the cut
        read = set(self.outputs) | {n for c in self.work for n in c.reads}
        live = dict.fromkeys(
            v for n in read for v in forms.leaves(self.env.get(n)) if v.data is None and v.known is None
        )
        live |= dict.fromkeys(self._telling(live))
        if pivot is not None:
            live.pop(pivot, None)
            self.g.output(pivot)
        for v in live:
            self.g.output(v)
        self.g.rest = Rest(self, pivot, list(live), dims, of)

    def _telling(self, values: Iterable[Value]) -> Iterator[Value]:
        """Values that have a dim as a size for dims that these have only in formulas: the graph of the rest
        learns from its inputs what they are."""
        sizes = [n for v in values for n in v.shape]
        missing = {d for n in sizes for d in variables(n)}.difference(sizes)
        for v in (*self.g.inputs, *(v for n in self.g.nodes for v in n.outputs)):
            if not missing.isdisjoint(v.shape):
                missing.difference_update(v.shape)
                yield v

    def _dims_of(self, call: Call) -> list[Var]:
        """The open sizes that a node depends on."""
        values = [v for n in call.reads for v in forms.leaves(self.env.get(n))]
        sizes = [n for v in values for n in (*v.shape, *(() if v.known is None else v.known.reshape(-1)))]
        return list(dict.fromkeys(d for n in sizes if isinstance(n, Expr) for d in variables(n)))

    # -- one node

    def take(self, call: Call) -> None:
        """Import a node. Raises Needs, DeclareError."""
        # it hands on whatever it is given, opaque or not
        if call.op != "Identity":
            self._see(call)
        function = self.model.functions.get((call.domain, call.op))
        operator = OPERATORS.get((call.domain, call.op))
        # the standard defines many operators by others: those are taken where there is no code for them
        if operator is None and function is None:
            values = map(self.value, call.inputs)
            types = [Type(str(v.dtype), v.sizes) if isinstance(v, Value) else Type("") for v in values]
            function = standard(call, self.opset(call.domain), types)
        # a function of the model hides the standard's of that name, but not an operator that there is code
        # for
        if operator is None and function is not None:
            self.inline(function, call)
            return
        # numbers first: arithmetic on shapes is done here and never becomes a kernel
        found = self.known(call)
        if found is None:
            if operator is None:
                raise TensorLangError(f"{call!r}: the operator {call.op} is not supported")
            found = operator.fn(self, call) if operator.whole else self.apply(operator, call)
        if found is None:
            return  # it put work in its place
        results = found if isinstance(found, tuple) else (found,)
        for name, v in zip(call.outputs, results, strict=False):
            if name:
                self.env[name] = v

    def _see(self, call: Call) -> None:
        """Ask for the form of inputs that are opaque."""
        for name in call.inputs:
            v = self.env.get(name)
            if isinstance(v, Opaque):
                if v.what not in narrow.WIDE:
                    raise Needs(name)
                self.env[name] = self.widened(v)

    def known(self, call: Call) -> Any:
        """The result of a node on whole numbers that are known; None when it is none."""
        evaluate = KNOWN.get(call.op) if call.domain == "" else None
        return None if evaluate is None else evaluate(self, call)

    def apply(self, operator: Operator, call: Call) -> Any:
        """A node that is a function of te tensors."""
        if len(call.inputs) > MOST_INPUTS and call.domain == "" and call.op in OF_PARTS:
            self._in_parts(call)
            return None
        inputs: list[Value | None] = []
        attrs: dict[str, Any] = {}
        values: dict[int, Any] = {}
        for i, name in enumerate(call.inputs):
            # an attribute of the kernel and no operand: the kernel is made for these numbers
            if i in operator.values and name:
                values[i] = self.numbers(name)
                inputs.append(None)
            else:
                inputs.append(self.tensor(name) if name else None)
        if operator.stored:
            inputs = narrow.less_zero_points(inputs, *operator.stored, new=self.g.constant)
        for key, x in call.attrs.items():
            if key in operator.attributes:
                attrs[key] = x
            # attributes with an underscore are notes of exporters
            elif not key.startswith("_"):
                raise TensorLangError(
                    f"{call!r}: the attribute {key} is not supported",
                    because=f"known are {', '.join(operator.attributes) or 'none'}",
                )
        if "opset" in operator.tells:
            attrs["opset"] = self.opset(call.domain)
        if "results" in operator.tells:
            attrs["results"] = len(call.outputs)
        # numbers take their places among the arguments again when the function is called
        fn = operator.fn if not values else Placed(operator.fn, tuple(sorted(values)))
        attrs |= {f"input{i}": x for i, x in values.items()}
        return self.g.call(fn, *inputs, op=call.op, name=call.name, outputs=call.outputs, **attrs)

    def opset(self, domain: str = "") -> int:
        """The version of an operator set."""
        return self.model.opsets.get(domain, 1)

    # -- values

    def value(self, name: str) -> Any:
        """What a name stands for. Raises TensorLangError for a name that nothing has."""
        if name not in self.env:
            raise TensorLangError(f"the value {name!r} is made by no node before it is read")
        return self.env[name]

    def tensor(self, name: str) -> Value:
        """A value that kernels can read; numbers that follow from sizes are written out."""
        v = self.value(name)
        if isinstance(v, Opaque):
            raise Needs(name)
        if not isinstance(v, Value):
            raise TensorLangError(
                f"the value {name!r} is {'a sequence' if isinstance(v, list) else 'nothing'}, not an array"
            )
        return self.array(v)

    def array(self, v: Value) -> Value:
        """The value with its elements written out."""
        if v.known is None or v.data is not None:
            return v
        if v not in self._made:
            self._made[v] = self.g.call(
                written, op="Sizes", outputs=[v.name], numbers=v.known, kind=str(v.dtype)
            )
        return self._made[v]

    def numbers(self, name: str) -> Any:
        """The elements of a small value as a (nested) list of numbers and size expressions. Raises Needs."""
        v = self.value(name)
        found = as_known(v, None)
        if found is None:
            raise Needs(name)
        return found.tolist()

    def new(self, array: Any, name: str = "c") -> Value:
        """A constant."""
        kind = np.asarray(array).dtype.name
        if kind not in narrow.WIDE:
            return self.g.constant(array, name)
        return self.narrowed(self.g.constant(narrow.widened(array, kind=kind), name), kind)

    def narrowed(self, v: Value, kind: str) -> Value:
        """Note that a value is one of a type of few bits."""
        self.narrow[v] = kind
        return v

    def widened(self, v: Opaque) -> Value:
        """The numbers of an array of few bits in a type that kernels have."""
        shape = [n if isinstance(n, int) else None for n in v.declared]
        wide = self.g.host(narrow.widened, [v], [(shape, narrow.WIDE[v.what])], "Widen", kind=v.what)[0]
        return self.narrowed(wide, v.what)

    def kind(self, name: str) -> str:
        """The type of a value's elements as the file has it."""
        v = self.tensor(name)
        return self.narrow.get(v, str(v.dtype))

    # -- work in the place of a node

    def _in_parts(self, call: Call) -> None:
        """Several nodes for one that reads more than a kernel should."""
        starts = range(0, len(call.inputs), MOST_INPUTS)
        names = [self.unique(call.outputs[0]) for _ in starts]
        parts = [
            replace(call, inputs=call.inputs[k : k + MOST_INPUTS], outputs=(n,))
            for k, n in zip(starts, names, strict=True)
        ]
        self.work.extendleft(reversed([*parts, replace(call, inputs=tuple(names))]))

    def inline(self, f: Function, call: Call) -> None:
        """Put the nodes of a function in the place of its call."""
        attrs = {**f.attrs, **call.attrs}
        names = {"": ""}
        names |= {p: (call.inputs[i] if i < len(call.inputs) else "") for i, p in enumerate(f.inputs)}
        wanted = [(p, out) for p, out in zip(f.outputs, call.outputs, strict=False) if out]
        for p, out in wanted:
            names.setdefault(p, out)  # an input may be handed on, a result twice
        for n in {n for c in f.calls for n in c.outputs} - set(names):
            # inner values get fresh names: two calls of a function do not share them
            names[n] = self.unique(n)
        calls = [_with_attributes(c.renamed(names), attrs) for c in f.calls]
        extra = [Call("Identity", "", (names[p],), (out,), {}) for p, out in wanted if names[p] != out]
        # in front of all other work, in their order
        self.work.extendleft(reversed([*calls, *extra]))

    def splice(self, body: Body, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Put the nodes of a graph in the place of a node, with these names for its inputs and outputs."""
        names = {p: n for (p, _), n in zip(body.inputs, inputs, strict=True)}
        own = {n for c in body.calls for n in c.outputs if n} | set(body.constants)
        names |= {n: self.unique(n) for n in own}
        body = body.with_names(names)
        for n, a in body.constants.items():
            self.env[n] = self.new(a, n)
        ends = [
            Call("Identity", "", (n,), (out,), {})
            for (n, _), out in zip(body.outputs, outputs, strict=False)
            if out
        ]
        self.work.extendleft(reversed([*body.calls, *ends]))

    def unique(self, name: str) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{name}#{self._count}"


class Rest:
    """The work that is left, and what must be known to go on: the elements of ``pivot``, which may be the
    form ``of`` something opaque, or the ``dims``."""

    def __init__(
        self,
        importer: Importer,
        pivot: Value | None,
        live: Sequence[Value],
        dims: Sequence[Var] = (),
        of: Opaque | None = None,
    ) -> None:
        self.importer = importer
        self.pivot = pivot
        self.live = list(live)
        self.dims = list(dims)
        self.of = of
        self.labels = importer.labels  # of the outputs of the whole

    def variant(
        self, apart: Sequence[tuple[Expr, Expr]], sizes: Mapping[Var, int]
    ) -> tuple[Any, Callable[[], Graph]]:
        """The graph for sizes at which these assumptions do not hold, with a key that tells it: conditions
        are taken the other way, else the sizes are fixed."""
        # a condition went the other way: what followed from it is imported anew
        turned = {a: not const_int(b) for a, b in apart if a.dtype.is_bool}
        if turned:
            return tuple(map(str, turned)), lambda: self.graph(None, {}, turned)
        return tuple(sizes[d] for d in self.dims), lambda: self.graph(None, sizes)

    def graph(self, value: Any, sizes: Mapping[Var, Any], decisions: Mapping[Expr, bool] = EMPTY) -> Graph:
        """The graph of the rest for this value of the pivot, or these sizes. Its inputs stand for
        ``live``."""
        equal = Equal({d: _sized(d, sizes[d]) for d in self.dims if d in sizes})
        return self.begun(equal, value, decisions).finish()

    def begun(self, equal: Equal, value: Any = None, decisions: Mapping[Expr, bool] = EMPTY) -> Importer:
        """The importer of the graph of the rest, before any work."""
        before = self.importer
        g = Graph(before.g.name)
        now = Importer(before.model, g)
        now.work = deque(before.work)
        now.outputs, now.labels = before.outputs, before.labels
        # so that names made from now on are new in both
        now._count = before._count
        now.decisions = {**before.decisions, **decisions}
        shapes = {v: before.g.declared.get(v, v.shape) for v in self.live}
        new: dict[Value, Any] = {v: _again(v, shapes[v], equal) for v in self.live}
        g.inputs = [new[v] for v in self.live]
        for n in before.opening:
            new |= zip(n.outputs, _opened_again(g, n, new, equal), strict=True)
        now.narrow = {new.get(v, v): kind for v, kind in before.narrow.items()}
        if self.of is not None:
            new[self.of] = forms.opened(now, new[self.of], value.tolist())
        elif self.pivot is not None:
            found = Value(self.pivot.name, value.shape, self.pivot.dtype, data=np.array(value))
            new[self.pivot] = found
            # numbers that follow from late sizes are a pivot when they are written out
            new |= {v: found for v, written_out in before._made.items() if written_out is self.pivot}
        now.env = {n: _in_rest(v, new, equal) for n, v in before.env.items()}
        return now

    def __str__(self) -> str:
        pivot = self.of or self.pivot
        what = pivot.name if pivot is not None else ", ".join(d.name for d in self.dims)
        return f"{counted(len(self.importer.work), 'operator')}, when {what} is known"


def _again(v: Value, shape: Sequence[Expr], equal: Equal) -> Value:
    """The value as an input of another graph."""
    if isinstance(v, Opaque):
        return Opaque(v.name, v.what, declared=v.declared)
    return Value(v.name, [equal.fixed(n) for n in shape], v.dtype)


def _opened_again(g: Graph, n: Node, new: Mapping[Value, Any], equal: Equal) -> list[Value]:
    """The results of a function of arrays in another graph."""
    results = [
        v.what if isinstance(v, Opaque) else ([equal.fixed(s) for s in v.shape], v.dtype) for v in n.outputs
    ]
    inputs = [None if v is None else new[v] for v in n.inputs]
    made = g.host(n.fn, inputs, results, n.op, n.name, [v.name for v in n.outputs], **n.attrs)
    for v, old in zip(made, n.outputs, strict=True):
        if isinstance(v, Opaque) and isinstance(old, Opaque):
            v.declared = old.declared
    return list(made)


def _sized(d: Var, size: Any) -> Expr:
    """What stands for a dim: a number, or another size."""
    return size if isinstance(size, Expr) else const(size, d.dtype)


def _in_rest(x: Any, new: Mapping[Value, Value], equal: Equal) -> Any:
    """What a name stands for in the rest."""

    def renewed(v: Value) -> Value:
        if v in new or v.known is None or not equal.known:
            return new.get(v, v)
        return renewed_numbers(v, [equal.fixed(n) for n in v.known.reshape(-1)])

    return forms.mapped(x, renewed)


def _with_attributes(c: Call, attrs: dict[str, Any]) -> Call:
    """A node of a function with the attributes its call gives."""
    given = {k: attrs.get(str(x)) if isinstance(x, Reference) else x for k, x in c.attrs.items()}
    graphs = {
        k: replace(g, calls=tuple(_with_attributes(d, attrs) for d in g.calls)) for k, g in c.graphs.items()
    }
    return replace(c, attrs={k: x for k, x in given.items() if x is not None}, graphs=graphs)


def _dim(name: str, dims: dict[str, Any]) -> Any:
    """The dim of a name, one for the file. A bound spares clamps: exporters write a large number for the
    end."""
    if name not in dims:
        dims[name] = dim(name_of_ours(name), 0, MAX_DIM)
    return dims[name]
