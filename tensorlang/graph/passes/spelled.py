"""Small operators that together are a large one: looked for, proved, replaced. Knows what te means; no
operator in particular (``name_operators`` does), no names of operators and no kernels.

What is found is guessed by its looks and then proved: the te of the small operators together and that of the
one have the same form (``meaning``). Where somebody else reads what a small one makes, all stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ... import te
from ...errors import TensorLangError
from ...expr import make
from ...expr.nodes import Call, Expr
from ...expr.walk import preorder
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ..graph import Node, Program, Value
from .meaning import alike
from .rewrite import exchanged, single

MOST = 16  # small operators of a large one
FAR = 6  # of them in a row


@dataclass
class Found:
    """The nodes of which the last gives what ``root`` did, in the place of the ``small`` ones."""

    nodes: list[Node]
    root: Node
    small: list[Node]


class Place:
    """A graph that is looked through, and what was found in it."""

    def __init__(self, graph: Program) -> None:
        self.graph = graph
        self.readers = graph.readers()
        self.maker = {v: n for n in graph.nodes for v in n.outputs}
        self.place = {n: i for i, n in enumerate(graph.nodes)}
        self.kept = set(graph.outputs)  # what the rest of a model reads is among them
        self.new: dict[int, list[Node]] = {}  # in the place of a node

    def take(self, found: Found | None) -> None:
        """Replace the small operators."""
        if found is None or any(id(n) in self.new for n in found.small):
            return
        self.new |= {id(n): [] for n in found.small}
        self.new[id(found.root)] = found.nodes

    def result(self) -> Program:
        """The graph as it is now."""
        return exchanged(self.graph, self.new)

    def made(self, v: Value) -> Node | None:
        """The node that gives this value and no other, a function of te tensors."""
        n = self.maker.get(v)
        return n if n is not None and single(n) else None

    def behind(self, n: Node) -> Iterator[Node]:
        """The nodes that follow, each the only reader of the one before; ``n`` is the first."""
        for _ in range(FAR):
            yield n
            v = n.outputs[0]
            readers = self.readers.get(v, ())
            if v in self.kept or len(readers) != 1 or not single(readers[0]):
                return
            (n,) = readers

    def before(self, n: Node) -> list[Value]:
        """The values with as many dimensions as a node's result that it is made of, the nearest first."""
        found: dict[Value, None] = {}
        now, rank = [n], len(n.outputs[0].shape)
        for _ in range(FAR):
            reads = dict.fromkeys(v for m in now for v in m.reads if v.data is None and len(v.shape) == rank)
            found.update(reads)
            now = [m for m in map(self.made, reads) if m is not None]
        return list(found)

    def between(self, root: Node, leaves: Collection[Value], most: int = MOST) -> list[Node] | None:
        """The nodes that make the result of ``root`` of these values and of numbers; None where it depends on
        something else, and where somebody else needs what one of them makes."""
        found: dict[int, Node] = {id(root): root}
        open_ = [root]
        while open_:
            for v in open_.pop().reads:
                if v in leaves or number(v) is not None:
                    continue
                made = self.made(v)
                if made is None or len(found) >= most:
                    return None
                if id(made) not in found:
                    found[id(made)] = made
                    open_.append(made)
        inside = [n for n in found.values() if n is not root]
        for n in inside:
            v = n.outputs[0]
            if v in self.kept or any(id(r) not in found for r in self.readers.get(v, ())):
                return None
        return [*inside, root]

    def one(
        self,
        root: Node,
        leaves: Sequence[Value | None],
        op: str,
        fn: Callable[..., Tensor],
        meaning: Callable[..., Tensor] | None = None,
        **attrs: Any,
    ) -> Found | None:
        """The node ``fn(*leaves, **attrs)`` in the place of ``root``, when it computes the same (as
        ``meaning`` of the same arguments says, where ``fn`` is not that itself)."""
        inside = self.between(root, {v for v in leaves if v is not None})
        if inside is None or len(inside) < 2:
            return None
        # of two passes over a graph the second asks the same of most
        refused = root.memo.setdefault("spells not", set())
        guess = (op, repr(sorted(attrs.items())), *inside, *leaves)
        if guess in refused:
            return None
        given = [None if v is None else v.tensor for v in leaves]
        try:
            wanted = (meaning or fn)(*given, **attrs)
            same = alike(te_of(root.outputs[0], inside), wanted)
        except TensorLangError:  # it takes no such arguments
            same = False
        if not same:
            refused.add(guess)
            return None
        node = Node(op, fn, leaves, attrs, root.name)
        node.outputs = list(root.outputs)
        small = sorted(inside, key=self.place.__getitem__)
        node.was = tuple(n.op for n in small)
        return Found([node], root, small)


# -- what a graph looks like


def number(v: Value | None) -> float | None:
    """A constant of one element, as a number."""
    if v is None or v.data is None or v.data.size != 1 or v.data.dtype.kind not in "biuf":
        return None
    return float(v.data.reshape(()).item())


def read_by(n: Node) -> list[Value]:
    """What a node reads beside numbers."""
    return [v for v in n.reads if number(v) is None]


def te_of(v: Value, inside: Sequence[Node]) -> Tensor:
    """The te of a value as these nodes make it; numbers are written out."""
    made: dict[Value, Tensor] = {}
    maker = {n.outputs[0]: n for n in inside}

    def of(v: Value | None) -> Tensor | None:
        if v is None or v in made:
            return None if v is None else made[v]
        if v in maker:
            (made[v],) = maker[v].of([of(w) for w in maker[v].inputs])
        elif (x := number(v)) is not None:
            made[v] = te.compute(v.shape, lambda *_: make.const(x, v.dtype), name="c")
        else:
            made[v] = v.tensor
        return made[v]

    found = of(v)
    assert found is not None
    return found


def calls(n: Node, *names: str) -> bool:
    """Whether a node calls an intrinsic of one of these names."""
    if "calls" not in n.memo:
        n.memo["calls"] = frozenset(e.name for e in bodies(n) if isinstance(e, Call))
    found: frozenset[str] = n.memo["calls"]
    return not found.isdisjoint(names)


def bodies(n: Node) -> Iterator[Expr]:
    for op in operations([t.op for t in n.results]):
        if isinstance(op, ComputeOp):
            for body in op.body:
                yield from preorder(body)
