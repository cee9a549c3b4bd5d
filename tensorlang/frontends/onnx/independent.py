"""Loops whose iterations do not read each other, as one computation with an axis of iterations: what
exporters write for bags of embeddings, and what a list filled in a Python loop becomes.

The body is imported once, with the number of the iteration as a size. Counters that it carries are sums of
that number, and what an iteration makes for the next one alone, of nothing that it was given, is read a row
before. A slice that ends where data says has a size that is data, so a sum over it runs from where it begins
to where it ends (``te.each``). Both branches of an If on data are computed, and one is picked. Anything else
that is carried, or whose size differs in the results, leaves the loop to ``engine_loops``. Knows the
importer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ... import te
from ...arith.facts import Facts
from ...arith.simplify import simplify_expr
from ...core.dtype import INT64
from ...errors import TensorLangError
from ...expr import make
from ...expr.linear import poly
from ...expr.nodes import LE, LT, Const, Expr, Var, const_int
from ...expr.walk import variables
from ...graph import Graph, Node, Opaque, Value
from ...te import Tensor, each
from .equal import fixed
from .importer import MAX_DIM, Importer, Needs
from .kept import filter_of, length, places, read
from .known import as_known, result
from .proto import BROKEN, Body, Call
from .table import OPERATORS

EMPTY: Mapping[int, Value] = MappingProxyType({})
PICKED = "Picked"  # one of two values, by a condition
# what reads or writes at places that are data
AT_PLACES = {"Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND", "OneHot"}
# kernels of their own serve these better than one for all iterations
HEAVY = {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv"}
# between the steps of an iteration: all iterations hold as much at once, and where one works on so much its
# loop costs nothing
MOST_BYTES = 1 << 20


class Apart(Exception):
    """The iterations cannot be made at once."""


def independent(c: Importer, call: Call, most: str, condition: str, state: Sequence[Any]) -> Any:
    """The results of a Loop whose iterations do not read each other; None for any other."""
    body = call.graphs["body"]
    if any(b.op in HEAVY for b in body.calls):
        return None
    try:
        return _Loop(c, call, body, state).results(most, condition)
    except (Apart, Needs, TensorLangError, *BROKEN):
        return None


class _Loop:
    def __init__(self, c: Importer, call: Call, body: Body, state: Sequence[Any]) -> None:
        self.c = c
        self.call = call
        self.body = body
        self.state = state
        self.row = te.dim("row", 0, MAX_DIM)
        self.steps: list[int | None] = [None] * len(state)  # of counters, from one iteration to the next
        self.same: set[int] = set()  # what is handed on as it is
        self.late: list[int] = []  # what each iteration makes for the next one, of nothing that is carried

    def results(self, most: str, condition: str) -> Any:
        self._sorted()
        count, last = self._count(self._again(None).found[0], most, condition)
        now, made = self._again(last), list[Value]()
        if self.late:
            made = self._rows(now, [now.found[1 + k] for k in self.late], count)
            now = self._again(last, dict(zip(self.late, made, strict=True)))
        return self._made(now, count, dict(zip(self.late, made, strict=True)))

    def _sorted(self) -> None:
        """What is carried by its kind. Raises Apart for anything else."""
        counters = [self._counter(k) for k in range(len(self.state))]
        now = self._imported(counters, None)
        while True:
            pairs = list(zip(counters, now.found[1:], strict=False))
            others = [k for k, (v, after) in enumerate(pairs) if v is not None and _step(v, after) is None]
            if not others:
                break
            for k in others:  # whole numbers that are data from the first iteration on
                counters[k] = None
            now = self._imported(counters, None)
        self.steps = [None if v is None else _step(v, after) for v, after in pairs]
        rest = [k for k, v in enumerate(counters) if v is None]
        self.same = {k for k in rest if now.found[1 + k] is now.carried[k]}
        self.late = [k for k in rest if k not in self.same]
        carried = {now.carried[k] for k in rest}
        if any(not _alike(now.found[1 + k], self.state[k]) for k in self.late):
            raise Apart
        if not carried.isdisjoint(_read_by([now.found[1 + k] for k in self.late])):
            raise Apart

    def _again(self, most: Expr | None, before: Mapping[int, Value] = EMPTY) -> _Iteration:
        begins = [as_known(v) for v in self.state]
        numbers = [
            None if s is None or b is None else make.add(make.as_expr(b.item()), make.mul(self.row, s))
            for s, b in zip(self.steps, begins, strict=True)
        ]
        return self._imported(numbers, most, before)

    def _counter(self, k: int) -> Expr | None:
        """A variable for a whole number that is known at the beginning."""
        v = self.state[k]
        known = as_known(v) if isinstance(v, Value) and not isinstance(v, Opaque) else None
        whole = known is not None and known.size == 1 and str(v.dtype) in ("int32", "int64")
        return te.dim(f"counter{k}", 0, MAX_DIM) if whole else None

    def _imported(
        self, numbers: Sequence[Expr | None], most: Expr | None, before: Mapping[int, Value] = EMPTY
    ) -> _Iteration:
        """The body with these counters; ``before`` has what all iterations made for the next ones."""
        now = _Iteration(self.c.model, Graph("iteration"))
        now.around(self.c, self.body, self.row, most)
        given: list[Any] = [_number("i", self.row), self.c.new(np.array(True))]
        for k, (v, n) in enumerate(zip(self.state, numbers, strict=True)):
            if n is not None:
                given.append(_number("counter", n, v))
            elif k in before:
                given.append(now.g.call(_before, self.c.array(v), before[k], op="Before", row=self.row))
            elif k in self.same:
                given.append(v)
            elif isinstance(v, Value) and not isinstance(v, Opaque):
                given.append(Value("state", v.shape, v.dtype))
            else:
                raise Apart
        now.env |= {n: v for (n, _), v in zip(self.body.inputs, given, strict=True)}
        now.carried = given[2:]
        now.run()
        return now

    def _count(self, go: Any, most: str, condition: str) -> tuple[Expr, Expr]:
        """How often the loop runs, and what the number of an iteration is below, where there is one. Raises
        Apart where data decides."""
        c = self.c
        limit = as_known(c.value(most)) if most else None
        begin = as_known(c.value(condition)) if condition else np.array([True], object)
        again = as_known(go)
        if begin is None or again is None or (most and limit is None):
            raise Apart
        below = _runs(self.row, _expr(begin), _expr(again))
        if below is not None and limit is not None:
            below = make.min_(below, _expr(limit))
        elif below is None:
            if limit is None:
                raise Apart
            below = _expr(limit)
        count = make.max_(below, make.as_expr(0))
        return simplify_expr(count, Facts(sizes=frozenset(variables(count)))), below

    def _made(self, now: _Iteration, count: Expr, late: Mapping[int, Value]) -> Any:
        states: list[Any] = []
        for k, v in enumerate(self.state):
            if self.steps[k] is not None:
                states.append(self._end(k, count))
            elif k in late:
                states.append(self.c.g.call(_last, self.c.array(v), late[k], op="Last", count=count))
            else:
                states.append(v)
        return (*states, *self._rows(now, now.found[1 + len(states) :], count))

    def _end(self, k: int, count: Expr) -> Any:
        begin, step = as_known(self.state[k]), self.steps[k]
        assert begin is not None and step is not None
        last = make.add(_expr(begin), make.mul(count, step))
        return result(
            self.c, replace(self.call, outputs=("end",)), np.full(begin.shape, last), self.state[k].dtype
        )

    def _rows(self, now: _Iteration, wanted: Sequence[Any], count: Expr) -> list[Value]:
        if not wanted:
            return []
        values = [now.array(v) for v in wanted if isinstance(v, Value) and not isinstance(v, Opaque)]
        if len(values) < len(wanted) or not now.narrow.keys().isdisjoint(values):
            raise Apart
        fn = _Rows(now, values)
        made = self.c.g.call(
            fn,
            *fn.leaves,
            op=self.call.op,
            name=self.call.name,
            outputs=[v.name for v in values],
            count=count,
            sizes=fn.sizes,
        )
        return list(made)


class _Iteration(Importer):
    """The importer of one iteration; ``told`` are sizes that are data, ``found`` the values of the body's
    outputs."""

    row: Var
    most: Expr | None
    found: list[Any]
    carried: list[Any]

    def __init__(self, model: Any, graph: Graph) -> None:
        super().__init__(model, graph)
        self.told: dict[Var, Value] = {}
        self.keeps: dict[Value, Value] = {}  # of lists, and rows of them: which of their elements are there
        self.within = 0  # how many branches that may not be taken
        self._spans: dict[Any, tuple[Var, Var]] = {}

    def around(self, c: Importer, body: Body, row: Var, most: Expr | None) -> None:
        """Take a body with what it reads of the graph around it, for rows below ``most``."""
        self.row = row
        self.most = most
        self.narrow = dict(c.narrow)
        self.env |= {n: c.env[n] for n in sorted(body.outside) if n in c.env}
        self.prepare(body)

    def run(self) -> None:
        while self.work:
            self.take(self.work.popleft())
        # what holds for some sizes only, and what runs in Python, stays a loop
        if self.g.assumed or self.g.rest is not None or any(n.kind != "te" for n in self.g.nodes):
            raise Apart
        self.found = [self.value(n) for n in self.outputs]
        if any(isinstance(v, Value) and v in self.keeps for v in self.found):
            raise Apart
        if sum(_least_bytes(v) for n in self.g.nodes for v in n.results if v not in self.found) > MOST_BYTES:
            raise Apart

    def take(self, call: Call) -> None:
        if call.op not in ("If", "Identity") and any(self.env.get(n) in self.keeps for n in call.reads):
            self._read(call)
            return
        if self.within and _may_fail(self, call):
            raise Apart
        own = _OWN.get(call.op) if call.domain == "" else None
        made = None if own is None else own(self, call)
        if made is None:
            super().take(call)
        elif made is not True:  # which says that it put work or values in its place
            self.env[call.outputs[0]] = made

    def _read(self, call: Call) -> None:
        """Import what reads a list."""
        made = read(self, call, self.keeps)
        if made is None:
            raise Apart
        self.env[call.outputs[0]], in_rows = made
        if in_rows:
            self.keeps[made[0]] = next(self.keeps[v] for v in made[0].node.inputs if v in self.keeps)

    def fact(self, condition: Expr) -> bool:
        """Whether a condition holds in every iteration."""
        if self.most is None:  # not known yet: the body is imported again when it is
            return True
        sizes = frozenset(variables(condition) | variables(self.most)) - {self.row}
        facts = Facts(sizes=sizes).bind(self.row, make.as_expr(0), make.sub(self.most, 1))
        return facts.prove(condition) is True

    def number(self, fn: Any, inputs: Sequence[Value], **attrs: Any) -> Var:
        """A size that each iteration computes."""
        v = self.g.call(fn, *inputs, op="Number", **attrs)
        d = te.dim(f"number{len(self.told)}", 0, MAX_DIM)
        self.told[d] = v
        return d

    def span(self, start: Value, end: Value, size: Expr) -> tuple[Var, Var]:
        """Where a slice that data tells begins, and how long it is. Slices from the same numbers have one
        size."""
        key = start, end, size
        if key not in self._spans:
            both = self.array(start), self.array(end)
            self._spans[key] = (
                self.number(_begin, both[:1], size=size),
                self.number(_length, both, size=size),
            )
        return self._spans[key]


def _least_bytes(v: Value) -> int:
    """Of a value whose open sizes are 1."""
    return v.dtype.bytes * math.prod(const_int(n) or 1 for n in v.shape)


def _sliced(c: _Iteration, call: Call) -> Any:
    """A slice along one axis whose ends the iteration tells."""
    if len(call.inputs) < 3:
        return None
    x, start, end = (c.value(n) for n in call.inputs[:3])
    axes, steps = (as_known(c.value(n)) if n else None for n in (*call.inputs[3:], "", "")[:2])
    given = len(call.inputs) > 3 and call.inputs[3]
    ends = as_known(start), as_known(end)
    if all(e is not None and not any(isinstance(n, Expr) for n in e.reshape(-1)) for e in ends):
        return None
    one = all(isinstance(v, Value) and v.sizes in ((1,), ()) for v in (start, end))
    plain = steps is None or all(s == 1 for s in steps.reshape(-1))
    if not one or not plain or not isinstance(x, Value) or x.known is not None or (given and axes is None):
        raise Apart
    x = c.tensor(call.inputs[0])
    axis = 0 if axes is None else int(axes.item()) % x.ndim
    size = x.shape[axis]
    begin, length = _window(c, ends, size) or c.span(start, end, size)
    how: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_part, x, axis=axis, begin=begin, size=length, **how)


def _window(c: _Iteration, ends: tuple[Any, Any], size: Expr) -> tuple[Expr, Expr] | None:
    """Begin and length of a slice that moves with the iteration and lies inside in all of them."""
    if ends[0] is None or ends[1] is None:
        return None
    begin, end = map(_expr, ends)
    length = const_int(simplify_expr(make.sub(end, begin), Facts()))
    if length is None or length < 0:
        return None
    inside = c.fact(make.le(0, begin)) and c.fact(make.le(end, size))
    return (begin, make.as_expr(length)) if inside else None


def _if(c: _Iteration, call: Call) -> Any:
    """Both branches, of which ``PICKED`` takes one."""
    known = as_known(c.value(call.inputs[0]))
    if known is not None and not isinstance(known.reshape(-1)[0], Expr):
        return None
    if len(call.outputs) > 1:
        raise Apart
    branches = call.graphs["then_branch"], call.graphs["else_branch"]
    c.within += 1
    names = [tuple(c.unique(n) for n in call.outputs) for _ in branches]
    c.work.appendleft(Call(PICKED, "", (call.inputs[0], names[0][0], names[1][0]), call.outputs, {}))
    for b, own in zip(branches, names, strict=True):
        c.splice(b, (), own)
    return True


def _may_fail(c: _Iteration, call: Call) -> bool:
    """Whether an operator of a branch may read beyond an end, or divide by 0, when it is not to be taken."""
    if call.op in ("Div", "Mod"):  # of whole numbers: a quotient by 0 ends the process
        v = c.value(call.inputs[1])
        return not (isinstance(v, Value) and v.dtype.is_float)
    return call.op in AT_PLACES and as_known(c.value(call.inputs[1])) is None


def _picked(c: _Iteration, call: Call) -> Any:
    c.within -= 1
    condition, a, b = (c.tensor(n) for n in call.inputs)
    if a.ndim != b.ndim or a.dtype != b.dtype:
        raise Apart
    if all(x is y or const_int(make.sub(x, y)) == 0 for x, y in zip(a.shape, b.shape, strict=True)):
        return c.g.call(_either, condition, a, b, op="If", outputs=call.outputs)
    # of slices of one value where they begin and end is picked
    parts = [v.node for v in (a, b) if v.node is not None and v.node.fn is _part]
    if (
        len(parts) < 2
        or parts[0].inputs != parts[1].inputs
        or parts[0].attrs["axis"] != parts[1].attrs["axis"]
    ):
        raise Apart
    begin, size = (
        c.number(_either_number, [condition], a=parts[0].attrs[k], b=parts[1].attrs[k])
        for k in ("begin", "size")
    )
    how: dict[str, Any] = {"axis": parts[0].attrs["axis"], "begin": begin, "size": size}
    return c.g.call(_part, parts[0].inputs[0], op="Slice", outputs=call.outputs, **how)


def _loop(c: _Iteration, call: Call) -> Any:
    """A loop in a loop, if it can be made at once too."""
    if (of := filter_of(c, call)) is not None:
        c.env[of.most] = _number("most", make.min_(c.number(length, [of.start, of.end]), of.bound))
        made = independent(c, of.loop, of.most, "", [])
        if made is None or any(of.last in w.reads for w in c.work) or of.last in c.outputs:
            raise Apart
        c.env[of.name] = c.g.call(places, of.start, op="Range", outputs=[of.name], size=made[0].shape[0])
        c.keeps[c.env[of.name]] = made[0]
        return True
    state = [c.value(n) for n in call.inputs[2:]]
    made = independent(c, call, call.inputs[0], call.inputs[1], state)
    if made is None:
        raise Apart
    c.env |= {n: v for n, v in zip(call.outputs, made, strict=False) if n}
    return True


def _mean(c: _Iteration, call: Call) -> Any:
    """Of nothing 0, as onnxruntime has it and torch means by what it exports; the standard leaves it open."""
    x = c.value(call.inputs[0])
    made = c.known(call) or c.apply(OPERATORS["", call.op], call)
    gone = [n for n in x.shape if n in c.told and not any(n is kept for kept in made.shape)]
    if not gone:
        return made
    return c.g.call(_or_zero, made, op=call.op, outputs=call.outputs, count=functools.reduce(make.mul, gone))


_OWN = {"ReduceMean": _mean, "Slice": _sliced, "If": _if, "Loop": _loop, PICKED: _picked}


class _Rows:
    """The results of all iterations, a function of what the body reads."""

    __name__ = "loop"

    def __init__(self, now: _Iteration, results: Sequence[Value]) -> None:
        self.row = now.row
        self.results = list(results)
        wanted = set(results)
        found = {d for v in results for e in v.shape for d in variables(e)}
        kept: list[Node] = []
        # backwards: a size that is data was computed before the nodes that speak of it
        for n in reversed(now.g.nodes):
            wanted.update(now.told[d] for d in found if d in now.told)
            if not wanted.isdisjoint(n.outputs):
                kept.append(n)
                wanted.update(n.reads)
                sizes = (e for v in (*n.reads, *n.outputs) for e in v.shape)
                found.update(d for e in (*sizes, *_exprs(n.attrs)) for d in variables(e))
        self.nodes = kept[::-1]
        self.told = {d: v for d, v in now.told.items() if d in found}
        made = {v for n in self.nodes for v in n.outputs}
        read = [*(v for n in self.nodes for v in n.reads), *results, *self.told.values()]
        self.leaves = [v for v in dict.fromkeys(read) if v not in made]
        if any(isinstance(v, Opaque) for v in self.leaves):
            raise Apart
        self.sizes = sorted(found - {self.row, *self.told}, key=lambda d: d.name)

    def __call__(self, *tensors: Tensor, count: Expr, sizes: Sequence[Expr]) -> tuple[Tensor, ...]:
        names = dict(zip(self.sizes, sizes, strict=True))
        made: dict[Value | None, Any] = {None: None, **dict(zip(self.leaves, tensors, strict=True))}
        for n in self.nodes:
            results = n.of([made[v] for v in n.inputs], _with_sizes(n.attrs, names))
            made |= zip(n.outputs, results, strict=True)
        numbers = {d: made[v] for d, v in self.told.items()}
        return tuple(each.for_each([made[v] for v in self.results], self.row, count, numbers))


def _with_sizes(x: Any, names: Mapping[Var, Expr]) -> Any:
    """An attribute with other sizes in the place of those of the graph."""
    if isinstance(x, Expr):
        return fixed(x, names)
    if isinstance(x, dict):
        return {k: _with_sizes(y, names) for k, y in x.items()}
    if isinstance(x, list | tuple):
        return type(x)(_with_sizes(y, names) for y in x)
    if isinstance(x, np.ndarray) and x.dtype == object:
        return np.array([_with_sizes(y, names) for y in x.reshape(-1)], object).reshape(x.shape)
    return x


def _exprs(x: Any) -> list[Expr]:
    if isinstance(x, Expr):
        return [x]
    if isinstance(x, np.ndarray):
        x = x.reshape(-1).tolist() if x.dtype == object else ()
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
    return [e for y in parts for e in _exprs(y)]


# -- te


def _part(x: Tensor, *, axis: int, begin: Expr, size: Expr) -> Tensor:
    """``size`` elements of an axis from ``begin`` on, which lie inside."""
    shape = [size if d == axis else n for d, n in enumerate(x.shape)]
    return te.compute(
        shape, lambda *i: x(*(begin + v if d == axis else v for d, v in enumerate(i))), name="part"
    )


def _cut(v: Tensor, size: Expr) -> Expr:
    """The one element as a place in an axis: below 0 it counts from the end."""
    at = te.cast(INT64, v(*[0] * v.ndim))
    n = te.cast(INT64, size)
    return te.max(te.min(te.select(at < 0, at + n, at), n), te.const(0, INT64))


def _begin(start: Tensor, *, size: Expr) -> Tensor:
    return te.compute((), lambda: _cut(start, size), name="begin")


def _length(start: Tensor, end: Tensor, *, size: Expr) -> Tensor:
    return te.compute(
        (), lambda: te.max(_cut(end, size) - _cut(start, size), te.const(0, INT64)), name="length"
    )


def _before(begin: Tensor, rows: Tensor, *, row: Expr) -> Tensor:
    """What the iteration before made, in the first one what is there at the beginning."""
    return te.compute(
        begin.shape,
        lambda *i: te.if_then_else(row > 0, rows(te.max(row - 1, 0), *i), begin(*i)),
        name="before",
    )


def _last(begin: Tensor, rows: Tensor, *, count: Expr) -> Tensor:
    return te.compute(
        begin.shape, lambda *i: te.if_then_else(count > 0, rows(count - 1, *i), begin(*i)), name="last"
    )


def _or_zero(x: Tensor, *, count: Expr) -> Tensor:
    return te.compute(x.shape, lambda *i: te.select(count > 0, x(*i), te.const(0, x.dtype)), name="mean")


def _either(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    at = [0] * condition.ndim
    return te.compute(a.shape, lambda *i: te.select(condition(*at), a(*i), b(*i)), name="either")


def _either_number(condition: Tensor, *, a: Expr, b: Expr) -> Tensor:
    at = [0] * condition.ndim
    picked = lambda: te.select(condition(*at), te.cast(INT64, a), te.cast(INT64, b))
    return te.compute((), picked, name="either")


# -- small


def _number(name: str, n: Expr, like: Value | None = None) -> Value:
    shape = () if like is None else like.sizes
    return Value(
        name,
        shape,
        "int64" if like is None else like.dtype,
        known=np.full(shape, n, object),  # type: ignore[arg-type]
    )


def _expr(known: np.ndarray) -> Expr:
    return make.as_expr(known.reshape(-1)[0])


def _step(counter: Expr, after: Any) -> int | None:
    """How much a counter grows by; None for what is no counter."""
    known = as_known(after) if isinstance(after, Value) else None
    step = None if known is None or known.size != 1 else const_int(make.sub(_expr(known), counter))
    return None if step is None or step < 0 else step


def _alike(v: Any, begin: Any) -> bool:
    """Whether a value has the type and the shape of another one."""
    if not isinstance(v, Value) or isinstance(v, Opaque) or v.dtype != begin.dtype or v.ndim != begin.ndim:
        return False
    return all(a is b or const_int(make.sub(a, b)) == 0 for a, b in zip(v.shape, begin.shape, strict=True))


def _read_by(values: Sequence[Any]) -> set[Value]:
    """These values and all that they are made of."""
    found: set[Value] = set()
    left = list(values)
    while left:
        v = left.pop()
        if v not in found:
            found.add(v)
            left += v.node.reads if v.node is not None else ()
    return found


def _runs(row: Var, begin: Expr, again: Expr) -> Expr | None:
    """How often a loop runs that begins and goes on under these conditions: below 0 is never, None for ever.
    Raises Apart for conditions of another form than ``a + row < b``."""
    if isinstance(again, Const):
        if not again.value:
            return make.if_then_else(begin, make.as_expr(1), make.as_expr(0))
        if isinstance(begin, Const) and begin.value:
            return None
        raise Apart
    if not isinstance(again, LT | LE):
        raise Apart
    # goes on after this iteration while margin + row <= 0
    margin = _margin(again)
    if poly(margin).get((row,)) != 1:
        raise Apart
    rest = make.sub(margin, row)
    if row in variables(rest):
        raise Apart
    runs = make.sub(2, rest)
    if isinstance(begin, Const) and begin.value:
        return make.max_(runs, make.as_expr(1))
    # the condition of the beginning is that of the iteration before the first
    if not isinstance(begin, LT | LE) or const_int(make.sub(_margin(begin), make.sub(rest, 1))) != 0:
        raise Apart
    return runs


def _margin(e: Expr) -> Expr:
    a, b = e.children()
    return make.sub(a, b) if isinstance(e, LE) else make.add(make.sub(a, b), 1)
