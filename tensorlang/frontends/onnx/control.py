"""If, Loop and Scan. Knows the importer and how a body becomes a graph of its own; the loops themselves are
run by ``engine_loops``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import TensorLangError
from ...expr.nodes import Expr, Var
from ...expr.walk import variables
from ...graph import Graph, Opaque, Value
from ...runtime import engine_loops
from ...te import dim
from . import forms
from .appended import stacked
from .independent import independent
from .known import as_known
from .proto import Body, Call
from .table import graph_op

if TYPE_CHECKING:
    from .importer import Importer


@graph_op("If")
def if_(c: Importer, call: Call) -> Any:
    """The branch that is taken, in the place of the node: its condition is known by now, or follows from
    sizes."""
    taken = c.numbers(call.inputs[0])
    # a condition may have one dimension, or several of one element
    while isinstance(taken, list):
        taken = taken[0]
    if isinstance(taken, Expr):
        taken = c.decided(taken, call.inputs[0])
    c.splice(call.graphs["then_branch" if taken else "else_branch"], (), call.outputs)


class _Body:
    """The graph of a body: inputs for what it is called with (``before`` and ``after`` what is carried), for
    what it reads of the graph around it, and for the sizes of that graph (the shape of an empty array).

    ``carried`` values go in and come out, there from number ``first`` on. Their sizes are those they begin
    with where the body keeps them, else open; when not even their number of dimensions stays, or nobody can
    tell, they are opaque.
    """

    def __init__(
        self, c: Importer, body: Body, carried: Sequence[Any], before: Sequence[Any] = (), after: Any = ()
    ) -> None:
        self.c = c
        self.body = body
        self.before, self.after = list(before), list(after)
        self.first = 1 if before else 0
        # a body reads values around it by name; sorted, so that the same file makes the same graph
        self.outer = {n: c.env[n] for n in sorted(body.outside) if n in c.env}
        read = forms.leaves(list(self.outer.values()))
        # constants and numbers that follow from sizes go into the body as they are
        self.reads = [v for v in dict.fromkeys(read) if v.data is None and v.known is None]
        numbers = [n for v in (*carried, *self.after, *self.outer.values()) for n in _sizes(v)]
        self.sizes = list(dict.fromkeys(d for n in numbers for d in variables(n)))
        self.carried = [_like(v, c) for v in carried]
        self.graph, self.results = self._made()
        # a size that a body changes is open from then on, which may open others: until nothing changes
        while self.graph.rest is None:
            # a list and no generator: every value has to be met in a round, and any() would stop at the first
            # change
            if not any([self._met(i, self.results[self.first + i]) for i in range(len(carried))]):
                break
            self.graph, self.results = self._made()
        # a body that must know values imports itself anew at each step, with everything carried opaque
        if self.graph.rest is not None:
            self.carried = [Opaque("state", "any") for _ in carried]
            self.graph, self.results = self._made()

    @property
    def scanned(self) -> list[Any]:
        """The results that are not carried on."""
        return self.results[self.first + len(self.carried) :]

    def _made(self) -> tuple[Graph, list[Any]]:
        """The graph, and what its outputs are."""
        c, g = self.c, Graph(self.body.name or "body")
        now = type(c)(c.model, g)
        inputs = [_input(now, v) for v in (*self.before, *self.carried, *self.after)]
        new = {v: _input(now, v) for v in self.reads}
        # an array of no elements that has the outer sizes as its own, so that the body's graph can tell them
        now.given(Value(g.fresh("sizes"), [*self.sizes, 0], "uint8"))
        now.env |= {n: forms.mapped(v, lambda w: new.get(w, w)) for n, v in self.outer.items()}
        now.env |= {n: v for (n, _), v in zip(self.body.inputs, inputs, strict=True)}
        # what is of few bits around is so within
        now.narrow = {new.get(v, v): k for v, k in c.narrow.items()}
        now.prepare(self.body)
        now.finish()
        return g, [now.env.get(n) for n in now.outputs]

    def _met(self, i: int, result: Any) -> bool:
        """Make a carried value as open as it must be to go in again; whether that is a change."""
        before = self.carried[i]
        if isinstance(before, Opaque):
            return False
        alike = isinstance(result, Value) and not isinstance(result, Opaque)
        # nothing in common but being a value: its form is asked at each step
        if not alike or result.ndim != before.ndim or result.dtype != before.dtype:
            self.carried[i] = Opaque("state", "any")
            return True
        shape = [
            # a size that is open already stays: rounds end, since sizes only open
            a if a is b or (isinstance(a, Var) and a.name.startswith("carried")) else dim("carried")
            for a, b in zip(before.shape, result.shape, strict=True)
        ]
        changed = any(a is not b for a, b in zip(before.shape, shape, strict=True))
        if changed:
            self.carried[i] = Value("state", shape, before.dtype)
        return changed

    def known(self, v: Any) -> Any:
        """What the graph around knows of a result: its shape and type, or that it is opaque."""
        if not isinstance(v, Value) or isinstance(v, Opaque) or self.graph.rest is not None:
            return "any"
        known = set(self.sizes)
        return [n if known.issuperset(variables(n)) else None for n in v.shape], str(v.dtype)

    def state(self) -> list[Any]:
        """What is known of the carried values at the end."""
        return [self.known(v) for v in self.carried]

    def rows(self, count: Any, axes: Sequence[int] = ()) -> list[Any]:
        """What is known of the other results when they are stacked, ``count`` of them."""
        found = []
        for k, v in enumerate(self.scanned):
            fact = self.known(v)
            if not isinstance(fact, str):
                axis = axes[k] if k < len(axes) else 0
                shape = list(fact[0])
                shape.insert(axis if axis >= 0 else axis + len(shape) + 1, count)
                fact = shape, fact[1]
            found.append(fact)
        return found

    def empty(self) -> list[Any]:
        """Shape and type of one of them, for when there is none."""
        found = []
        types = [t for _, t in self.body.outputs[self.first + len(self.carried) :]]
        for v, t in zip(self.scanned, types, strict=True):
            fact = self.known(v)
            shape, kind = (t.shape or (), t.element or "float32") if isinstance(fact, str) else fact
            found.append(([n if isinstance(n, int | Expr) else 0 for n in shape], kind))
        return found


def _like(v: Any, c: Importer) -> Value:
    """An input of a body for such a value."""
    if not isinstance(v, Value) or isinstance(v, Opaque) or v in c.narrow:
        return Opaque("state", "any")
    return Value("state", v.shape, v.dtype)


def _input(now: Importer, v: Value) -> Value:
    if isinstance(v, Opaque):
        return now.given(Opaque(now.g.fresh(v.name), v.what, declared=v.declared))
    return now.given(Value(now.g.fresh(v.name), v.shape, v.dtype))


def _sizes(v: Any) -> list[Expr]:
    numbers = [] if not isinstance(v, Value) or v.known is None else v.known.reshape(-1).tolist()
    return [*(n for w in forms.leaves(v) for n in w.shape), *(n for n in numbers if isinstance(n, Expr))]


@graph_op("Loop")
def loop(c: Importer, call: Call) -> Any:
    """The body until its condition fails or it has run often enough."""
    rows = stacked(c, call)
    made = None if rows is None else looped(c, rows.call, rows.count)
    return looped(c, call) if rows is None or made is None else rows.results(c, made)


def looped(c: Importer, call: Call, alike: int = 0) -> Any:
    """The results of a Loop, of which the last ones, so many, must be of one shape in all iterations: None
    where that is not known."""
    most, condition = call.inputs[0], call.inputs[1]
    state = [c.value(n) for n in call.inputs[2:]]
    at_once = independent(c, call, most, condition, state)
    if at_once is not None:
        return at_once
    counters = [Value("i", (), "int64"), Value("go", (), "bool")]
    made = _Body(c, call.graphs["body"], state, counters)
    results = [*made.state(), *made.rows(_trips(c, made, most, condition))]
    for row in results[len(results) - alike :]:
        if isinstance(row, str) or any(n is None for n in row[0][1:]):
            return None
    return c.g.host(
        engine_loops.looped,
        [
            *(c.tensor(n) if n else None for n in (most, condition)),
            *(_packed(c, v) for v in state),
            *made.reads,
        ],
        results,
        call.op,
        call.name,
        call.outputs,
        [made.graph],
        sizes=list(made.sizes),
        carried=len(state),
        empty=made.empty(),
    )


def _trips(c: Importer, made: _Body, most: str, condition: str) -> Any:
    """How often a loop runs, None when that is not known."""
    go = made.results[0]
    # the body hands its condition on, or a constant: only the count ends the loop
    for_ever = go is made.graph.inputs[1] or _true(go)
    if not for_ever or not most or not (condition == "" or _true(c.value(condition))):
        return None
    count = as_known(c.value(most))
    n = -1 if count is None else count.reshape(-1)[0]
    return None if isinstance(n, int) and n < 0 else n


def _true(v: Any) -> bool:
    return isinstance(v, Value) and v.data is not None and bool(v.data.reshape(-1)[0])


@graph_op("Scan")
def scan(c: Importer, call: Call) -> Any:
    """The body for each slice of the inputs that are scanned."""
    # version 8 scans a batch of sequences, with their lengths as first input
    batched = c.opset() < 9
    if batched and call.inputs[0]:
        raise TensorLangError(f"{call!r}: sequence_lens is not supported")
    names = call.inputs[1 if batched else 0 :]
    count = call.attrs["num_scan_inputs"]
    state = [c.value(n) for n in names[:-count]]
    xs = [c.tensor(n) for n in names[-count:]]
    axes = [a % x.ndim for a, x in zip(call.attrs.get("scan_input_axes") or [0] * count, xs, strict=True)]
    if batched:
        # dimension 0 is the batch, 1 the sequence
        axes = [1] * count
        begin = [Value(v.name, v.shape[1:], v.dtype) for v in state]
    else:
        begin = state
    dropped = [{0, a} if batched else {a} for a in axes]
    slices = [
        Value(f"x{k}", [n for d, n in enumerate(x.shape) if d not in gone], x.dtype)
        for k, (x, gone) in enumerate(zip(xs, dropped, strict=True))
    ]
    made = _Body(c, call.graphs["body"], begin, (), slices)
    trips = xs[0].shape[axes[0]]
    out_axes = call.attrs.get("scan_output_axes") or [0] * len(made.scanned)
    results = [*made.state(), *made.rows(trips, out_axes)]
    if batched:
        batch = xs[0].shape[0]
        results = [r if isinstance(r, str) else ([batch, *r[0]], r[1]) for r in results]
    return c.g.host(
        engine_loops.scanned_rows if batched else engine_loops.scanned,
        [*(_packed(c, v) for v in state), *xs, *made.reads],
        results,
        call.op,
        call.name,
        call.outputs,
        [made.graph],
        sizes=list(made.sizes),
        carried=len(state),
        axes=axes,
        back=call.attrs.get("directions" if batched else "scan_input_directions") or [0] * count,
        out_axes=out_axes,
        out_back=call.attrs.get("scan_output_directions") or [0] * len(made.scanned),
        empty=made.empty(),
    )


def _packed(c: Importer, v: Any) -> Value:
    """A carried value as a function of arrays takes it."""
    if v is None or isinstance(v, list):
        return forms.packed(c, v)
    return c.shown(v)
