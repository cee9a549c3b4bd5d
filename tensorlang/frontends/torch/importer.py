"""From a graph of ATen operators to a graph of ours. Knows the table of operators, not what any means.

The graph must be functional: no operator writes to what another reads. Sizes that are symbols become dims.
What each node makes is compared with what torch says it makes, so that an operator of another shape or type
than torch's is refused here, and never runs.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ... import ops, te
from ...arith.facts import Facts
from ...arith.simplify import simplify_expr
from ...errors import DeclareError, TensorLangError
from ...expr.make import as_expr
from ...expr.nodes import Var, const_int
from ...expr.walk import variables
from ...graph import Graph, Value
from ..words import name_of_ours
from .counted import counted
from .symbols import EMPTY, Sizes, made_by_data
from .table import OF_COMPLEX, OF_PROGRAMS, OPERATORS, Apart, Complex, Operator, Placed, part_of
from .tensors import dtype_name, held, inverse, memory_order, supported
from .types import PARTS

# what says where memory is and how it lies, or how something is done: nothing that a result depends on
_ASIDE = {"copy", "device", "generator", "layout", "memory_format", "non_blocking", "pin_memory"}
_ITEMS = {"aten.item.default", "aten._local_scalar_dense.default"}  # an element as a number
_NUMBERS = {
    "Tensor",
    "Optional[Tensor]",
    "number",
    "Optional[number]",
}  # parameters that take one as a tensor
MOST_LINES = 12  # of a reason
_NO_FACTS = Facts()
BROKEN = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)


class Refused(DeclareError):
    """A node that cannot be said: ``node``; ``others`` are those that do not wait for it."""

    others: tuple[Refused, ...] = ()

    def __init__(self, node: fx.Node, reason: str) -> None:
        super().__init__(f"{name_of(node)} ({node.name})", because=reason)
        self.node = node
        self.reason = reason


def returned(results: Any) -> list[fx.Node]:
    """What a graph returns of its inputs: None, and numbers that were known when it was traced, are not."""
    listed = results if isinstance(results, tuple | list) else [results]
    return [v for v in listed if isinstance(v, fx.Node)]


def needed_of(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that results are made of. Others only test sizes and values while the program runs: where no
    operator writes, nothing is seen of them."""
    found: set[fx.Node] = set()
    waiting = [graph.output_node()]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _scalar(size: Any) -> Any:
    return te.compute((), lambda: te.cast("int64", size), name="size")


def _sized(x: Any, *, shape: Sequence[Any]) -> Any:
    return te.compute(shape, lambda *i: x(*i), name="sized")


def name_of(node: fx.Node) -> str:
    """What people call the operator of a node."""
    return str(node.target) if node.op == "call_function" else f"{node.op} {node.target}"


@dataclass(frozen=True)
class _Caller:
    """``Graph.call`` for the operators of one node, of whose results somebody reads those that are
    ``asked``."""

    graph: Graph
    names: Mapping[str, Any]
    asked: tuple[int, ...]
    node: fx.Node
    said: list[tuple[list[Any], str]]  # shapes and dtypes of the results, as torch has them

    def __call__(self, fn: Any, *values: Any, **attrs: Any) -> Any:
        return self.graph.call(fn, *values, **self.names, **attrs)

    def host(self, fn: Any, values: Sequence[Any], results: Sequence[Any], **attrs: Any) -> Any:
        """``Graph.host``: results of a function of arrays."""
        return self.graph.host(fn, values, results, **self.names, **attrs)


class Importer:
    """``constants`` has the tensors of placeholders and attributes that do not change; the others become
    inputs, in their order. ``inputs`` tells for each input of the graph which placeholder it is (``~i``: what
    the number of placeholder ``i`` is less than 0), and ``sized`` those that only tell a size. With ``lying``
    inputs and outputs have their dimensions in the order of memory, which ``orders`` tells of placeholders
    where it is another. ``later`` names placeholders that become constants when ``bring`` gets their tensors:
    a graph is read once, to see whether it can be said, and compiled when the parameters are there."""

    def __init__(
        self,
        name: str,
        constants: Mapping[str, torch.Tensor],
        ranges: Any = None,
        lying: bool = False,
        later: Collection[str] = (),
        same: Mapping[Any, Any] = EMPTY,
    ) -> None:
        self.g = Graph(name)
        self.constants = constants
        self.later = frozenset(later)
        self.sizes = Sizes(ranges, same)
        self.env: dict[fx.Node, Any] = {}
        self.inputs: list[int] = []
        self.sized: set[int] = set()
        self.lying = lying
        self.orders: dict[int, list[int]] = {}
        self._needed: set[fx.Node] = set()
        self._shared: dict[Any, Value] = {}
        self._items: dict[fx.Node, Value] = {}  # nodes that make a number of an element, which is data

    # -- the whole

    def load(self, graph: fx.Graph, names: Sequence[str] = ()) -> Graph:
        """The graph; ``names`` are those of its outputs. Raises Refused."""
        numbers: list[tuple[int, fx.Node]] = []
        place = 0
        for node in graph.nodes:
            if node.op == "placeholder":
                if isinstance(node.meta["val"], torch.Tensor):
                    self._placeholder(place, node)
                else:
                    numbers.append((place, node))
                place += 1
        self._inputs_for(numbers)
        self._needed = needed_of(graph)
        self._take_all(node for node in graph.nodes if node in self._needed)
        (results,) = graph.output_node().args
        for i, v in enumerate(returned(results)):
            if isinstance(v.meta["val"], torch.SymInt):
                value = self._told(v)
            else:
                order = memory_order(v.meta["val"]) if self.lying else None
                made = self.env[v].pairs if isinstance(self.env[v], Complex) else self.env[v]
                value = made if order is None else self._permuted(made, order, f"{v.name}_lying")
            name = names[i] if i < len(names) else None
            self.g.output(value, name)
        return self.g

    def _placeholder(self, place: int, node: fx.Node) -> None:
        fake = node.meta["val"]
        if node.name in self.constants:
            self.env[node] = self._known_tensor(self.constants[node.name], node.name)
            return
        shape, kind = [self.sizes.read(n) for n in fake.shape], dtype_name(fake.dtype)
        if kind in PARTS:
            x = self.g.input([*shape, 2], PARTS[kind], name_of_ours(node.name))
            self.env[node] = Complex(x)
            self.inputs.append(place)
            return
        if node.name in self.later:
            name = name_of_ours(node.name)
            self.env[node] = Value(self.g.fresh(name), shape, kind)
            return
        order = memory_order(fake) if self.lying else None
        if order is None:
            self.env[node] = self.g.input(shape, kind, name_of_ours(node.name))
        else:
            self.orders[place] = order
            x = self.g.input([shape[d] for d in order], kind, name_of_ours(node.name))
            self.env[node] = self._permuted(x, inverse(order), f"{node.name}_said")
        self.inputs.append(place)

    def _permuted(self, x: Value, order: Sequence[int], name: str) -> Value:
        made: Value = self.g.call(
            ops.transpose, x, op="permute", name=name, outputs=[name], axes=tuple(order)
        )
        return made

    def bring(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """The tensors of the placeholders that were to come later."""
        for node, value in self.env.items():
            if node.name in self.later:
                x = tensors[node.name]
                same = self._shared.setdefault(_place(x), value)
                # tied weights are one array in the engine too
                value.data = held(x) if same is value else same.data

    def _known_tensor(self, x: torch.Tensor, name: str) -> Value | Complex:
        value = self._constant(x, name)
        return Complex(value) if x.is_complex() else value

    def _constant(self, x: torch.Tensor, name: str) -> Value:
        """One value for all who hold the same elements."""
        key = _place(x)
        if key not in self._shared:
            self._shared[key] = self.g.constant(held(x), name_of_ours(name))
        return self._shared[key]

    def _inputs_for(self, numbers: Sequence[tuple[int, fx.Node]]) -> None:
        """Inputs for symbols that come as numbers only: arrays of bytes of that size, which nobody reads."""
        known = self._known()
        for place, node in numbers:
            n = node.meta["val"]
            # what was no tensor when the program was traced, as a mask of None, is in its operators already
            if not isinstance(n, torch.SymInt | torch.SymFloat | torch.SymBool):
                continue
            size = self._size(node, n)
            # some shape has it already
            if isinstance(size, int) or variables(size) <= known:
                continue
            # an engine learns sizes from shapes alone
            below = self.sizes.below.get(n.node.expr)
            if below is not None:
                self.g.input((below,), "uint8", name_of_ours(f"{node.name}_below"))
                self.inputs.append(~place)
                size = size + below
            if below is None or const_int(size) != 0:
                self.g.input((size,), "uint8", name_of_ours(node.name))
                self.inputs.append(place)
            self.sized.add(place)
            known = self._known()

    def _told(self, node: fx.Node) -> Value:
        """A size as a tensor of no dimension."""
        size = self._size(node, node.meta["val"])
        made: Value = self.g.call(_scalar, op="size", name=node.name, outputs=[node.name], size=as_expr(size))
        return made

    def _known(self) -> set[Any]:
        """The dims that follow from the shapes of inputs: those that are the size of an axis by
        themselves."""
        return {n for v in self.g.inputs for n in v.shape if isinstance(n, Var)}

    def _size(self, node: fx.Node, n: Any) -> Any:
        try:
            return self.sizes.of(n)
        except DeclareError as error:
            raise Refused(node, str(error)) from None

    def _take_all(self, nodes: Iterable[fx.Node]) -> None:
        """All nodes. Raises Refused, after those that read nothing that is refused: who leaves some to torch
        would else begin anew for each."""
        refused: list[Refused] = []
        lost: set[fx.Node] = set()
        for node in nodes:
            if not lost.isdisjoint(node.all_input_nodes):
                lost.add(node)
                continue
            try:
                self._take(node)
            except Refused as error:
                refused.append(error)
                lost.add(node)
        if refused:
            first, *others = refused
            first.others = tuple(others)
            raise first

    # -- one node

    def _take(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            owner: Any = node.graph.owning_module
            for part in str(node.target).split("."):
                owner = getattr(owner, part)
            # a branch of torch.cond is a graph: who calls it is refused by name
            if isinstance(owner, torch.Tensor):
                self.env[node] = self._known_tensor(owner, node.name)
        elif str(node.target) in _ITEMS:
            self._item(node)
        elif node.op == "call_function" and not isinstance(
            node.meta.get("val"), torch.SymInt | torch.SymFloat
        ):
            self.env[node] = self._made(node)

    def _item(self, node: fx.Node) -> None:
        """A number that is data: a tensor for operators that take one, and a size where one is needed."""
        value = self._items[node] = self.env[node.all_input_nodes[0]]
        if isinstance(node.meta["val"], torch.SymInt):
            caller = _Caller(self.g, {"op": "Size", "name": node.name, "outputs": [node.name]}, (), node, [])
            self.sizes.late[node.meta["val"].node.expr] = lambda: counted(caller, value)

    def _made(self, node: fx.Node) -> Any:
        if node.target is operator.getitem:
            several: Any = node.args[0]
            return self.env[several][node.args[1]]
        reason = unsupported(node, pairs=True)
        if reason:
            raise Refused(node, reason)
        entry = entry_of(node, True)
        assert entry is not None
        made = self._or_refused(entry, node)
        said = node.meta["val"]
        self._learn(node, made)
        if isinstance(made, dict):
            made = {i: Complex(v) if said[i].is_complex() else v for i, v in made.items()}
        elif said.is_complex():
            made = Complex(made)
        self._check(node, made)
        return made

    def _or_refused(self, entry: Operator, node: fx.Node) -> Any:
        """What the operator makes. Raises Refused."""
        while True:
            try:
                return self._called(entry, node)
            except TensorLangError as error:  # without the place, which is within torch
                apart = error.apart if isinstance(error, DeclareError) else None
                if apart is not None and self.lying and self._made_equal(node, *apart):
                    continue
                refused = Refused(node, "\n".join(error.brief(MOST_LINES)))
                refused.apart = apart
                raise refused from None
            except BROKEN as error:
                raise Refused(node, f"{type(error).__name__}: {error}") from error

    def _made_equal(self, node: fx.Node, a: Any, b: Any) -> bool:
        """Let what a node reads have one of two sizes in the place of the other; whether something had. Torch
        traced the node, so they are equal in each call that its guards let through, as the even height of an
        image is twice its half."""
        size, other = (a, b) if isinstance(a, Var) else (b, a)
        found = False
        for n in node.all_input_nodes:
            x = self.env.get(n)
            if isinstance(x, Value) and any(m is other for m in x.shape):
                shape = tuple(size if m is other else m for m in x.shape)
                self.env[n] = self.g.call(_sized, x, op="view", name=n.name, outputs=[n.name], shape=shape)
                found = True
        return found

    def _called(self, entry: Operator, node: fx.Node) -> Any:
        """What the operator makes of the arguments of the node, in the order of its schema."""
        given = []
        # of a number that is data what makes a tensor of nothing takes a size
        reads = any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
        for i, p in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
            if p.name not in _ASIDE:
                x = node.args[i] if i < len(node.args) else node.kwargs.get(p.name, p.default_value)
                as_tensor = str(p.type) in _NUMBERS and reads
                given.append((p.name, fx.node.map_arg(x, lambda n: self._argument(node, n, as_tensor))))  # noqa: B023
        if entry.strided:
            given.append(("lies", self._strides(node)))
        kept = _read(node, self._needed)
        names: dict[str, Any] = {"op": _operator_name(node), "name": node.name, "outputs": [node.name]}
        if entry.whole:
            caller = _Caller(self.g, names, kept or (), node, self._said(node))
            makers = entry.fn(caller, *(self._plain(node, x) for _, x in given))
            # only what somebody reads is made
            return makers if kept is None else {i: makers[i]() for i in kept}
        order: list[Any] = []
        tensors: list[Value] = []
        attrs: dict[str, Any] = {}
        for word, x in given:
            if isinstance(x, Value | Complex):
                order.append(_mark(entry, x))
                tensors += self._tensors(entry, x)
            elif isinstance(x, list | tuple) and any(isinstance(v, Value | Complex) for v in x):
                # the list without its gaps, and where they were
                order.append(tuple(_mark(entry, v) for v in x))
                tensors += [t for v in x if v is not None for t in self._tensors(entry, v)]
            else:
                word = "input" if word == "self" else word
                order.append(word)
                attrs[word] = self._plain(node, x)
        placed = Placed(entry.fn, tuple(order), kept)
        made = self.g.call(placed, *tensors, **names, **attrs)
        return made if kept is None else dict(zip(kept, made, strict=True))

    def _tensors(self, entry: Operator, x: Any) -> list[Value]:
        if not isinstance(x, Complex):
            return [x]
        if not entry.apart:
            return [x.pairs]
        if x.parts is None:
            re, im = (
                self.g.call(part_of, x.pairs, op=f"{w}_part", p=p) for p, w in enumerate(("real", "imag"))
            )
            x.parts = re, im
        return list(x.parts)

    def _strides(self, node: fx.Node) -> list[Any]:
        """Those of the first tensor, which must have memory of its own: of what names places of another, or
        comes from outside, the graph does not say where its elements begin."""
        (source, *_) = node.all_input_nodes
        returns = source.target._schema.returns if isinstance(source.target, torch._ops.OpOverload) else ()
        if not returns or any(r.alias_info is not None for r in returns):
            raise DeclareError("places in the memory of a tensor that is not made here")
        return [self._size(node, n) for n in source.meta["val"].stride()]

    def _argument(self, node: fx.Node, n: fx.Node, as_tensor: bool = False) -> Any:
        """What another node made: a value, or a size."""
        if n in self._items and (as_tensor or not isinstance(n.meta["val"], torch.SymInt)):
            if not as_tensor:
                raise DeclareError("a number that is data, where only one that is known can stand")
            return self._items[n]
        return self.env[n] if n in self.env else self._size(node, n.meta["val"])

    def _said(self, node: fx.Node) -> list[tuple[list[Any], str]]:
        """Shapes and dtypes of the results; sizes that the node itself tells are None."""
        own = made_by_data(node)
        return [
            ([None if _symbol(n) in own else self._size(node, n) for n in fake.shape], dtype_name(fake.dtype))
            for fake in _tensors(node.meta["val"])
        ]

    def _learn(self, node: fx.Node, made: Any) -> None:
        """The sizes that a node tells, which its elements decide."""
        said, own = node.meta["val"], made_by_data(node)
        for v, fake in [(v, said[i]) for i, v in made.items()] if isinstance(made, dict) else [(made, said)]:
            if own and isinstance(v, Value) and isinstance(fake, torch.Tensor):
                for have, n in zip(v.shape, fake.shape, strict=False):
                    if _symbol(n) in own:
                        self.sizes.dims.setdefault(_symbol(n), have)

    def _plain(self, node: fx.Node, x: Any) -> Any:
        """An argument that is not a tensor as operators take it."""
        if isinstance(x, list | tuple):
            return [self._plain(node, y) for y in x]
        if isinstance(x, Value):
            return x
        if isinstance(x, torch.dtype):
            return dtype_name(x)
        if isinstance(x, torch.SymInt | torch.SymFloat):
            return self._size(node, x)
        if isinstance(x, complex) and has_complex(node):
            return x
        if isinstance(x, complex | torch.SymBool):
            raise DeclareError(f"the number {x}")
        return x

    def _check(self, node: fx.Node, made: Any) -> None:
        """What was made against what torch says. Raises Refused."""
        said = node.meta["val"]
        pairs = [(v, said[i]) for i, v in made.items()] if isinstance(made, dict) else [(made, said)]
        for v, fake in pairs:
            kind, wanted = dtype_name(fake.dtype), [self._size(node, n) for n in fake.shape]
            if isinstance(v, Complex):
                v, kind, wanted = v.pairs, PARTS[kind], [*wanted, 2]
            if str(v.dtype) != kind or v.ndim != len(wanted):
                raise Refused(node, f"torch makes {_said(fake)}, tensorlang {v!r}")
            for have, n in zip(v.shape, wanted, strict=True):
                # open sizes of several forms may be equal: torch guards them
                if have is not n and const_int(simplify_expr(as_expr(have) - n, _NO_FACTS)) not in (None, 0):
                    raise Refused(node, f"torch makes {_said(fake)}, tensorlang {v!r}")


def _place(x: torch.Tensor) -> tuple[Any, ...]:
    """Where a tensor lies, and how."""
    return x.data_ptr(), tuple(x.shape), tuple(x.stride()), x.dtype


def _read(node: fx.Node, needed: Collection[fx.Node]) -> tuple[int, ...] | None:
    """The numbers of the results that ``needed`` nodes read; None for an operator of one result."""
    if not isinstance(node.meta["val"], list | tuple):
        return None
    # an operator has to have a result
    return tuple(sorted({int(n.args[1]) for n in node.users if n in needed})) or (0,)  # type: ignore[arg-type]


def entry_of(node: fx.Node, pairs: bool) -> Operator | None:
    """The line of a node in the tables; with ``pairs`` as in ``unsupported``."""
    name = str(node.target)
    if pairs and has_complex(node):
        return OF_COMPLEX.get(name)
    if pairs and name in OF_PROGRAMS and (name not in OPERATORS or made_by_data(node)):
        return OF_PROGRAMS[name]
    return OPERATORS.get(name)


def in_table(name: str) -> bool:
    """Whether a program may keep an operator of that name as it is."""
    return any(name in table for table in (OPERATORS, OF_COMPLEX, OF_PROGRAMS)) or name in _ITEMS


def _symbol(n: Any) -> Any:
    """The symbol that a size is; None for another."""
    return n.node.expr if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol else None


def unsupported(node: fx.Node, pairs: bool = False) -> str:
    """Why a node cannot be said, as far as that shows without its te; empty when nothing speaks against it.
    With ``pairs`` complex numbers may be pairs of floats and sizes may be data, as those of graphs that are
    wholly ours."""
    name = str(node.target)
    if pairs and name in _ITEMS:
        return ""
    if node.op != "call_function" or entry_of(node, pairs) is None:
        what = " for complex numbers" if pairs and has_complex(node) and name in OPERATORS else ""
        return f"the operator is not in the table{what}"
    for x in (*node.all_input_nodes, node):
        for fake in _tensors(x.meta.get("val")):
            reason = supported(fake, pairs)
            if reason:
                return reason
    return ""


def has_complex(node: fx.Node) -> bool:
    """Whether a node takes or makes complex numbers."""
    return any(
        fake.is_complex() for x in (*node.all_input_nodes, node) for fake in _tensors(x.meta.get("val"))
    )


def _mark(entry: Operator, x: Any) -> Any:
    """What ``Placed`` is told of a tensor."""
    if isinstance(x, Complex):
        return Apart if entry.apart else Complex
    return False if x is None else None


def _tensors(val: Any) -> list[Any]:
    if isinstance(val, list | tuple):
        return [v for v in val if isinstance(v, torch.Tensor)]
    return [val] if isinstance(val, torch.Tensor) else []


def _said(fake: torch.Tensor) -> str:
    return f"{dtype_name(fake.dtype)}{list(fake.shape)}"


def _operator_name(node: fx.Node) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0]
