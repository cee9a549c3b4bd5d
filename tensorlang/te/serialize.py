"""A computation as JSON and back: what ships a task to another process, and what its key is a hash of. Knows
te and expressions.

Exact: the graph that comes back has the same operations, axes, bodies and names, so a trace of the one
replays on the other. Expressions are written as one list of nodes in which each refers to earlier ones by
number; variables, axes and operations are numbered too. Reading builds every node through the smart
constructors, which check types, and executes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

from ..core.dtype import DType, dtype
from ..core.node import intern
from ..core.text import type_of
from ..errors import DeclareError, TensorLangError, counted
from ..expr import make, nodes
from ..expr.nodes import Binary, Call, Cast, CCall, Choice, Const, Expr, Not, Var
from ..expr.walk import substitute
from .axis import IterVar, assume
from .extern import OpaqueOp
from .graph import operations
from .loops import PROGRAMS, LoopsOp
from .reducers import ALL, ANY, MAX, MIN, PROD, SUM, Reduce, Reducer
from .scan import ScanOp
from .scatter import COMBINE, ScatterOp
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead

VERSION = 1
_BUILT_IN = {r.name: r for r in (SUM, PROD, MIN, MAX, ANY, ALL)}
_PLAIN: dict[str, type[Any]] = {
    c.__name__: c
    for c in vars(nodes).values()
    if isinstance(c, type) and issubclass(c, Binary | Choice) and hasattr(c, "make")
} | {"Not": Not}
_KINDS = ("dim", "value", "loop", "stride")
_FACTS = ("lo", "hi", "multiple_of", "hint")
_MAX_NODES = 200_000
_NEEDS = 7  # where the conditions stand in the row of a compute that has any


def to_json(tensors: Sequence[Tensor]) -> str:
    """The computation behind the tensors (the arguments of a kernel, in order) as JSON text.

    Raises DeclareError for what has no JSON form, such as a knob of a schedule.
    """
    return json.dumps(_Writer(tensors).document, separators=(",", ":"))


def from_json(text: str) -> list[Tensor]:
    """The tensors of that text. Raises DeclareError when it is none; nothing is executed."""
    try:
        return _Reader(json.loads(text)).tensors
    except TensorLangError:
        raise
    # text of any kind: a document of the wrong form fails wherever it is first read
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, AssertionError) as e:
        raise DeclareError(
            "not a computation", because=f"{type(e).__name__}: {e}", try_="text made by te.serialize.to_json"
        ) from None


def resized(tensors: Sequence[Tensor], sizes: Mapping[str, int | Mapping[str, int | None]]) -> list[Tensor]:
    """The same computation with other sizes: for the name of a dim a number, or facts that are stated anew,
    ``{"lo": 0, "hi": 512}`` (``lo``, ``hi``, ``multiple_of``, ``hint``). Operations, axes and names are those
    of ``tensors``, so a trace of the one replays on the other.

    Raises DeclareError for a dim or a fact that is not there, for a number that the dim's own facts exclude,
    and for what has no JSON form.
    """
    document: dict[str, Any] = dict(_Writer(tensors).document)
    rows: list[Any] = document["vars"]
    dims = {row[0]: i for i, row in enumerate(rows) if row[2] == "dim"}
    numbers: dict[int, int] = {}
    for name, what in sizes.items():
        if name not in dims:
            raise DeclareError(f"resized: there is no dim {name!r}", legal=", ".join(sorted(dims)) or "none")
        row = rows[dims[name]]
        if not isinstance(what, Mapping):
            numbers[dims[name]] = _size(name, what, *row[3:6])
            continue
        for fact, value in what.items():
            if fact not in _FACTS:
                raise DeclareError(f"resized: a dim has no fact {fact!r}", legal=", ".join(_FACTS))
            row[3 + _FACTS.index(fact)] = value
    nodes: list[Any] = document["nodes"]
    # the document is rewritten and read again: whatever follows from a size is made anew, with its checks
    for i, node in enumerate(nodes):
        if node[0] == "var" and node[1] in numbers:
            nodes[i] = ["const", rows[node[1]][1], numbers[node[1]]]
    return _Reader(document).tensors


def _size(name: str, what: Any, lo: int | None, hi: int | None, multiple: int) -> int:
    """The number that a dim is to be. Raises DeclareError."""
    if isinstance(what, bool) or not isinstance(what, Integral):
        raise DeclareError(
            f"resized: {name} = {what!r}",
            because="a size is a whole number",
            try_=f'{{"{name}": 8}}, or facts, {{"{name}": {{"hi": 64}}}}',
        )
    size, least = int(what), max(0, lo or 0)
    if size < least or (hi is not None and size > hi):
        raise DeclareError(
            f"resized: {name} = {what}",
            because=f"{name} is declared from {least} to {'any' if hi is None else hi}",
            try_=f'state other facts first: {{"{name}": {{"lo": …, "hi": …}}}}',
        )
    if size % multiple:
        raise DeclareError(
            f"resized: {name} = {what}",
            because=f"{name} is declared as a multiple of {multiple}",
            try_=f"{size // multiple * multiple} or {-(-size // multiple) * multiple}",
        )
    return size


def key_of(tensors: Sequence[Tensor]) -> str:
    """A name for the computation that is the same in every process: a hash of its JSON, names included."""
    return hashlib.sha256(to_json(tensors).encode()).hexdigest()[:16]


def form_of(tensors: Sequence[Tensor]) -> str:
    """:func:`key_of` of the computation without its names: the same for two that differ in names of tensors,
    axes and dims only.

    Raises DeclareError for what has no JSON form.
    """
    return form_and_names(tensors)[0]


def form_and_names(tensors: Sequence[Tensor]) -> tuple[str, tuple[str, ...]]:
    """:func:`form_of`, and the names it leaves out, each in its place: of axes and dims, then of
    operations."""
    # numbers for names keep the order of sums: names alone would put equal computations in other orders
    document, names = _numbered(tensors)
    _write_names(document, [""] * len(names))
    for row in document["ops"]:
        if row[0] == "compute" and len(row) > _NEEDS:
            row[_NEEDS] = [cond for cond, _ in row[_NEEDS]]  # the reasons are texts with names
    return hashlib.sha256(json.dumps(["form", document], separators=(",", ":")).encode()).hexdigest()[
        :16
    ], names


def renamed(tensors: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
    """The same computation with other names, in the order of :func:`form_and_names`. Raises DeclareError when
    they are too few or too many."""
    document, own = _numbered(tensors)
    if len(names) != len(own):
        raise DeclareError(f"{counted(len(names), 'name')} for a computation that has {len(own)}")
    _write_names(document, names)
    return _Reader(document).tensors


def _numbered(tensors: Sequence[Tensor]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The computation with numbers for names, and the names by them. It is built with them, for sums stand in
    the order of their names."""
    document = _Writer(tensors).document
    names = _names(document)
    _write_names(document, [f"x{i:06}" for i in range(len(names))])
    numbered = _Writer(_Reader(document).tensors).document
    return numbered, tuple(names[int(x[1:])] for x in _names(numbered))


def _names(document: Mapping[str, Any]) -> list[str]:
    return [row[at] for row, at in _named(document)]


def _write_names(document: Mapping[str, Any], names: Sequence[str]) -> None:
    given = iter(names)
    for row, at in _named(document):
        row[at] = next(given)


def _named(document: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
    """The rows that have a name of the user's, and where in them. The sides of a reducer are called the same
    in every one."""
    sides = {v for row in document["reducers"] for side in row[2] for v in side}
    yield from ((row, 0) for i, row in enumerate(document["vars"]) if i not in sides)
    yield from ((row, 1) for row in document["ops"])


class _Writer:
    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.vars: list[Any] = []
        self.axes: list[Any] = []
        self.reducers: list[Any] = []
        self.nodes: list[Any] = []
        self._var: dict[Var, int] = {}
        self._axis: dict[int, int] = {}
        self._reducer: dict[int, int] = {}
        self._node: dict[Expr, int] = {}
        made = [t.op for t in tensors]
        states = [
            s.op for op in operations(made) if isinstance(op, ScanOp) for s in op.state
        ]  # an update need not read them
        ops = operations([*states, *made])
        # by identity: two operations may have one name
        self._op = {id(op): i for i, op in enumerate(ops)}
        listed = [self.operation(op) for op in ops]
        self.document: dict[str, Any] = {
            "version": VERSION,
            "vars": self.vars,
            "axes": self.axes,
            "reducers": self.reducers,
            "nodes": self.nodes,
            "ops": listed,
            "tensors": [[self._op[id(t.op)], t.value_index] for t in tensors],
        }
        stated = {c: None for v in list(self._var) for c in v.assumed}  # what te.assume said
        if stated:
            self.document["assumed"] = [self.expr(c) for c in stated]

    def operation(self, op: Any) -> Any:
        if isinstance(op, PlaceholderOp):
            row = ["placeholder", op.name, op.dtype.name, [self.expr(e) for e in op.shape]]
            return row if op.strides is None else [*row, [self.expr(e) for e in op.strides]]
        if isinstance(op, ScanOp):
            parts = [
                [[self._op[id(t.op)], t.value_index] for t in part] for part in (op.init, op.update, op.state)
            ]
            return ["scan", op.name, self.axis(op.axis[0]), *parts, op.tag, self.attrs(op)]
        if isinstance(op, ScatterOp):
            return [
                "scatter",
                op.name,
                [self._op[id(op.start.op)], op.start.value_index],
                [self.axis(a) for a in op.domain],
                [self.expr(e) for e in op.where],
                self.expr(op.value),
                op.combine,
                op.tag,
                self.attrs(op),
            ]
        if isinstance(op, LoopsOp):
            return [
                "loops",
                op.name,
                op.program.name,
                [[self._op[id(t.op)], t.value_index] for t in op.inputs],
                [[self.expr(e) for e in t.shape] for t in op.outputs],
                [t.dtype.name for t in op.outputs],
                op.tag,
                self.attrs(op),
            ]
        if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp):
            raise DeclareError(
                f"{op.name}: an extern cannot be written as JSON",
                because="foreign code computes it, which has no form as text",
                try_=f"the operations before and after {op.name}, each by themselves",
            )
        axes, reduced = [self.axis(a) for a in op.axis], [self.axis(a) for a in op.reduce_axis]
        row = ["compute", op.name, axes, reduced, [self.expr(e) for e in op.body], op.tag, self.attrs(op)]
        return [*row, [[self.expr(cond), why] for cond, why in op.needs]] if op.needs else row

    @staticmethod
    def attrs(op: Any) -> Any:
        return {
            k: v
            for k, v in op.attrs.items()
            # notes that are no plain data stay behind: they change no result
            if all(isinstance(x, str | int | float | None) for x in (v if isinstance(v, tuple) else (v,)))
        }

    def axis(self, a: IterVar) -> int:
        result = self._axis.get(id(a))
        if result is None:
            assert a.dom is not None
            row = [self.var(a.var), a.kind, self.expr(a.dom[0]), self.expr(a.dom[1])]
            self.axes.append(row)
            result = self._axis[id(a)] = len(self.axes) - 1
        return result

    def var(self, v: Var) -> int:
        result = self._var.get(v)
        if result is None:
            kind = "value" if v.kind == "data" else v.kind  # a side of a reducer
            if kind not in _KINDS:
                raise DeclareError(
                    f"`{v.name}` is a {v.kind}: it belongs to a schedule, not to a computation"
                )
            self.vars.append([v.name, v.dtype.name, kind, v.lo, v.hi, v.multiple_of, v.hint])
            result = self._var[v] = len(self.vars) - 1
        return result

    def reducer(self, e: Reduce) -> Any:
        r = e.reducer
        if _BUILT_IN.get(r.name) is r:
            return r.name
        result = self._reducer.get(id(r))
        if result is None:
            # a reducer of the user's is a function of Python: called once with variables, it is what it made
            # of them
            types = tuple(s.dtype for s in e.sources)
            sides = [
                tuple(Var(f"{side}{i}", t, "data") for i, t in enumerate(types)) for side in ("lhs", "rhs")
            ]
            row = [
                r.name,
                r.kind,
                [[self.var(v) for v in side] for side in sides],
                [self.expr(x) for x in r.combine(*sides)],
                [self.expr(x) for x in r.identity(types)],
            ]
            self.reducers.append(row)
            result = self._reducer[id(r)] = len(self.reducers) - 1
        return result

    def expr(self, e: Expr) -> int:
        stack: list[tuple[Expr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            if node in self._node:
                continue
            if ready or type(node) in (Var, Const):
                self.nodes.append(self.row(node))
                self._node[node] = len(self.nodes) - 1
            else:
                stack.append((node, True))
                stack.extend((c, False) for c in reversed(node.children()))
        return self._node[e]

    def row(self, e: Expr) -> Any:
        if isinstance(e, Var):
            return ["var", self.var(e)]
        if isinstance(e, Const):
            return ["const", e.dtype.name, e.value]
        kids = [self._node[c] for c in e.children()]
        if isinstance(e, TensorRead):
            return ["read", self._op[id(e.tensor.op)], e.tensor.value_index, kids]
        if isinstance(e, Reduce):
            return [
                "reduce",
                self.reducer(e),
                [self.axis(a) for a in e.axes],
                len(e.sources),
                e.condition is not None,
                e.init is not None,
                e.index,
                kids,
            ]
        if isinstance(e, Cast):
            return ["cast", e.dtype.name, kids]
        if isinstance(e, CCall):
            return ["c call", e.dtype.name, e.name, kids]
        if isinstance(e, Call):
            return ["call", e.name, kids]
        if type(e).__name__ in _PLAIN:
            return [type(e).__name__, kids]
        raise DeclareError(f"{e}: {type_of(e)} cannot be written as JSON")


class _Reader:
    def __init__(self, data: Any) -> None:
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise DeclareError(
                f"a computation of version {data.get('version') if isinstance(data, dict) else data!r}",
                because=f"this release reads version {VERSION}",
            )
        if len(data["nodes"]) > _MAX_NODES:
            raise DeclareError(
                f"a computation of {counted(len(data['nodes']), 'node')}",
                because=f"the limit is {_MAX_NODES}",
            )
        self.data = data
        self.vars = [self.variable(*row) for row in data["vars"]]
        self._nodes: dict[int, Expr] = {}
        self._axes: dict[int, IterVar] = {}
        self._reducers: dict[int, Reducer] = {}
        assume(*[self.expr(i) for i in data.get("assumed", ())])
        self.ops: list[Any] = []
        for row in data["ops"]:
            self.ops.append(self.operation(row))
        self.tensors = [self.ops[i].outputs[j] for i, j in data["tensors"]]

    def variable(self, name: str, t: str, kind: str, lo: Any, hi: Any, multiple: Any, hint: Any) -> Var:
        if kind not in _KINDS or not isinstance(name, str):
            raise ValueError(f"not a variable: {name!r} of kind {kind!r}")
        return Var(name, dtype(t), kind, lo, hi, multiple, hint)

    def operation(self, row: Any) -> Any:
        kind, name, *rest = row
        if kind not in ("placeholder", "scan", "scatter", "loops", "compute"):
            raise ValueError(f"no operation of kind {kind!r}")
        return getattr(self, kind)(name, *rest)

    def placeholder(self, name: str, t: str, shape: Any, strides: Any = None) -> PlaceholderOp:
        lies = None if strides is None else tuple(self.expr(i) for i in strides)
        return PlaceholderOp(name, tuple(self.expr(i) for i in shape), dtype(t), lies)

    def outputs(self, many: Any) -> tuple[Tensor, ...]:
        return tuple(self.ops[i].outputs[j] for i, j in many)

    def scan(self, name: str, axis: Any, init: Any, update: Any, state: Any, tag: Any, attrs: Any) -> ScanOp:
        inits, updates, states = map(self.outputs, (init, update, state))
        return ScanOp(name, self.axis(axis), inits, updates, states, tag, self.attrs(attrs))

    def scatter(
        self, name: str, of: Any, domain: Any, where: Any, value: Any, combine: Any, tag: Any, attrs: Any
    ) -> ScatterOp:
        (base,) = self.outputs([of])
        if combine not in COMBINE or len(where) != base.ndim:
            raise ValueError(f"not a scatter: {combine!r} of {len(where)} indices")
        return ScatterOp(
            name,
            base,
            tuple(self.axis(a) for a in domain),
            tuple(self.expr(e) for e in where),
            self.expr(value),
            combine,
            tag,
            self.attrs(attrs),
        )

    def loops(
        self, name: str, program: Any, inputs: Any, shapes: Any, dtypes: Any, tag: Any, attrs: Any
    ) -> LoopsOp:
        if program not in PROGRAMS:
            raise ValueError(f"no program of loops is called {program!r}")
        return LoopsOp(
            name,
            PROGRAMS[program],
            self.outputs(inputs),
            tuple(tuple(self.expr(e) for e in shape) for shape in shapes),
            tuple(dtype(t) for t in dtypes),
            tag,
            self.attrs(attrs),
        )

    def compute(
        self, name: str, axes: Any, reduced: Any, body: Any, tag: Any, attrs: Any, needs: Any = ()
    ) -> ComputeOp:
        return ComputeOp(
            name,
            tuple(self.axis(i) for i in axes),
            tuple(self.axis(i) for i in reduced),
            tuple(self.expr(i) for i in body),
            tag,
            self.attrs(attrs),
            needs=tuple((self.expr(cond), str(why)) for cond, why in needs),
        )

    @staticmethod
    def attrs(attrs: Any) -> Any:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}

    def axis(self, i: int) -> IterVar:
        if i not in self._axes:
            v, kind, begin, extent = self.data["axes"][i]
            self._axes[i] = IterVar(self.vars[v], (self.expr(begin), self.expr(extent)), kind)
        return self._axes[i]

    def reducer(self, which: Any) -> Reducer:
        if isinstance(which, str):
            return _BUILT_IN[which]
        if which not in self._reducers:
            name, kind, (left, right), combined, identity = self.data["reducers"][which]
            lhs, rhs = [self.vars[v] for v in left], [self.vars[v] for v in right]
            results, starts = [self.expr(i) for i in combined], tuple(self.expr(i) for i in identity)

            def combine(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
                values = dict(zip((*lhs, *rhs), (*a, *b), strict=True))
                return tuple(substitute(r, values) for r in results)

            def start(types: tuple[DType, ...]) -> tuple[Expr, ...]:
                return starts

            self._reducers[which] = Reducer(name, kind, combine, start)
        return self._reducers[which]

    def expr(self, root: int) -> Expr:
        stack = [root]
        while stack:
            i = stack[-1]
            if i in self._nodes:
                stack.pop()
                continue
            row = self.data["nodes"][i]
            kids = row[-1] if isinstance(row[-1], list) else []
            missing = [k for k in kids if k not in self._nodes]
            # children come before their parents, or reading a hostile file would never end
            if any(not 0 <= k < i for k in missing):
                raise ValueError(f"node {i} refers to node {max(missing)}")
            if missing:
                stack.extend(reversed(missing))
                continue
            self._nodes[i] = self.node(row, [self._nodes[k] for k in kids])
            stack.pop()
        return self._nodes[root]

    def node(self, row: Any, kids: list[Expr]) -> Expr:
        kind = row[0]
        if kind == "var":
            return self.vars[row[1]]
        if kind == "const":
            return make.const(row[2], row[1])
        if kind == "read":
            tensor = self.ops[row[1]].outputs[row[2]]
            if len(kids) != tensor.ndim:
                raise ValueError(f"{counted(len(kids), 'index', 'indices')} for {tensor.name}")
            return intern(TensorRead, tensor, tuple(kids))  # type: ignore[no-any-return]
        if kind == "reduce":
            _, which, axes, count, has_condition, has_init, index, _ = row
            sources, rest = tuple(kids[:count]), list(kids[count:])
            condition = rest.pop(0) if has_condition else None
            return intern(
                Reduce,
                self.reducer(which),
                sources,
                tuple(self.axis(a) for a in axes),
                condition,  # type: ignore[no-any-return]
                tuple(rest) if has_init else None,
                index,
            )
        if kind == "cast":
            return make.cast(row[1], kids[0])
        if kind == "call":
            return make.call(row[1], *kids)
        if kind == "c call":
            return make.c_call(dtype(row[1]), row[2], *kids)
        return _PLAIN[kind].make(*kids)  # type: ignore[no-any-return]
