"""What an operator does, read off its te: how it reads each input, whether it reduces, and what an element
costs. Knows te and analysis; no graphs' structure beyond one node.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...analysis import (
    axis_of_neighbours,
    constant,
    moves_pieces,
    operations,
    own_place,
    reads_of,
    reduces_rows,
    transposed,
)
from ...analysis.work import work_of
from ...expr.nodes import Choice, Expr
from ...expr.walk import preorder
from ...ops import tags
from ...te import ComputeOp, Operation, PlaceholderOp, Tensor
from ...te.extern import OpaqueOp
from ...te.graph import operations as te_operations
from ...te.products import Product, product_of
from ...te.tensor import TensorRead
from ..graph import Node, Value


class Reading(enum.IntEnum):
    """How elements of a result read an input, from the easiest to follow to the hardest."""

    SAME = 0  # at their own place
    ALONG = 1  # at some of the indices of their own place, in order: a broadcast
    ROW = 2  # all of the row that they belong to
    AWAY = 3  # anywhere else


# transforms, which default schedules never write into the body of what follows
APART = (tags.WINOGRAD_WEIGHT, tags.WINOGRAD_DATA, tags.WINOGRAD_INVERSE)


class Kind(enum.IntEnum):
    """What the loops of an operator are like."""

    MAP = 0  # each element by itself
    ROWS = 1  # reductions along memory that read each element once, and maps of their results
    HEAVY = 2  # reductions that read elements again and again: products, convolutions, windows
    ALONE = 3  # whatever fuses with nothing


@dataclass(frozen=True)
class Arithmetic:
    """What an element takes, by what a table of costs prices: vector operations of one step, divisions, calls
    of the mathematical library, and choices, where only one side is read."""

    simple: int = 0
    divisions: int = 0
    calls: int = 0
    choices: int = 0

    def __add__(self, other: Arithmetic) -> Arithmetic:
        return Arithmetic(
            self.simple + other.simple,
            self.divisions + other.divisions,
            self.calls + other.calls,
            self.choices + other.choices,
        )


@dataclass(frozen=True)
class Facts:
    """``work``: operations of an element, as ``analysis.operations`` counts them. ``depth``: of ROWS, how
    many leading axes a row belongs to. ``arithmetic``: of a MAP, what its elements take."""

    kind: Kind
    reads: dict[Value, Reading]
    work: int
    depth: int = 0
    arithmetic: Arithmetic = Arithmetic()


def facts_of(node: Node) -> Facts:
    """The facts of a node of kind te."""
    if "facts" not in node.memo:
        node.memo["facts"] = _facts(node)
    found: Facts = node.memo["facts"]
    return found


def _facts(node: Node) -> Facts:
    results = node.results
    ops = te_operations([t.op for t in results])
    values = {v.tensor: v for v in node.inputs if v is not None}
    depths = {_depth(op) for op in ops if isinstance(op, ComputeOp) and op.reduce_axis}
    in_rows = len(depths) == 1 and None not in depths
    readings = _readings(ops, results, Reading.ROW if in_rows else Reading.AWAY)
    reads = {v: readings.get(t, Reading.SAME) for t, v in values.items() if v.data is None}
    computed = [op for op in ops if not isinstance(op, PlaceholderOp)]
    if len(results) > 1 and any(_reduces(op) for op in computed):
        return Facts(Kind.ALONE, reads, 0)
    if not all(
        isinstance(op, ComputeOp) and not isinstance(op, OpaqueOp) and len(op.body) == 1 for op in computed
    ):
        return Facts(Kind.ALONE, reads, 0)
    work = sum(operations(op.body) for op in computed if isinstance(op, ComputeOp) and op.tag not in APART)
    if not depths:
        total = sum((_arithmetic(op) for op in computed if isinstance(op, ComputeOp)), Arithmetic())
        return Facts(Kind.MAP, reads, work, 0, total)
    return Facts(Kind.ROWS, reads, work, depths.pop() or 0) if in_rows else Facts(Kind.HEAVY, reads, work)


def _arithmetic(op: ComputeOp) -> Arithmetic:
    work = work_of(op)
    choices = sum(isinstance(e, Choice) for e in preorder(op.body[0]))
    simple = work.fma + work.add + work.mul + work.cast + work.select - choices
    return Arithmetic(max(0, simple), work.div, work.call, choices)


def _reduces(op: Operation) -> bool:
    return not isinstance(op, ComputeOp) or bool(op.reduce_axis)


def _depth(op: ComputeOp) -> int | None:
    """Of a reduction over the last axes of what it reads, the number of axes before; None for any other."""
    if not reduces_rows(op):
        return None
    front = list(op.axis)
    while front and constant(front[-1].extent) == 1:
        front.pop()  # a dimension that is kept
    wanted = [*(a.var for a in front), *(a.var for a in op.reduce_axis)]
    reduced = {a.var for a in op.reduce_axis}
    for _, at in reads_of(op).plain:
        moving = [i for i in at if constant(i) is None]
        if reduced.intersection(moving) and [id(i) for i in moving] != [id(v) for v in wanted]:
            return None
    return len(front)


def _readings(ops: Sequence[Operation], results: Sequence[Tensor], reduced: Reading) -> dict[Tensor, Reading]:
    """How the results read every tensor below them; ``reduced`` is how reductions read."""
    found: dict[Tensor, Reading] = dict.fromkeys(results, Reading.SAME)
    for op in reversed(ops):
        if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp):
            for t in op.input_tensors:
                found[t] = Reading.AWAY
            continue
        own = max((found.get(t, Reading.SAME) for t in op.outputs), default=Reading.SAME)
        for t, at in reads_of(op).plain:
            here = reduced if op.reduce_axis else reading(op, at)
            found[t] = max(found.get(t, Reading.SAME), own, here)
        for t in op.input_tensors:
            found.setdefault(t, Reading.AWAY)
    return found


def reading(op: ComputeOp, at: Sequence[Expr]) -> Reading:
    """How an element of ``op`` reads at these indices."""
    if own_place(op, at):
        return Reading.SAME
    places = {a.var: d for d, a in enumerate(op.axis)}
    if any(constant(i) != 0 and i not in places for i in at):
        return Reading.AWAY
    order = [places[i] for i in at if i in places]  # type: ignore[index]
    return Reading.ALONG if order == sorted(set(order)) else Reading.AWAY


def by_place(op: ComputeOp) -> bool:
    """Whether an element depends on where it is otherwise than by what it reads there."""
    axes = {a.var for a in op.axis}
    below = lambda e: () if isinstance(e, TensorRead) else e.children()
    return any(e in axes for body in op.body for e in preorder(body, below))


def in_lines(node: Node) -> bool:
    """Whether a node names other places of its input, and neighbours along the last dimension are neighbours
    there too."""
    if "in lines" not in node.memo:
        node.memo["in lines"] = _in_lines(node)
    found: bool = node.memo["in lines"]
    return found


def _in_lines(node: Node) -> bool:
    along = lambda op: op.axis and axis_of_neighbours(op).var in reads_of(op).contiguous[0]
    return _only_moves(node, lambda op, read: bool(along(op)))


def permutes(node: Node) -> bool:
    """Whether a node does no more than name the axes of its input in another order."""
    axes = lambda op: {a.var for a in op.axis}
    return _only_moves(
        node, lambda op, read: len(read.indices) == len(op.axis) and set(read.indices) == axes(op)
    )


def _only_moves(node: Node, known: Callable[[ComputeOp, TensorRead], bool]) -> bool:
    """Whether each element of a node is one of its input, in stages that are all ``known``."""
    if node.kind != "te" or len(node.outputs) != 1:
        return False
    computed = [op for op in te_operations([t.op for t in node.results]) if not isinstance(op, PlaceholderOp)]
    for op in computed:
        if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp) or len(op.body) != 1:
            return False
        read = op.body[0]
        if not isinstance(read, TensorRead) or not known(op, read):
            return False
    return bool(computed)


def counts_apart(node: Node) -> bool:
    """Whether one of its indices counts several axes, or a part of one, as those of a reshape do; a change of
    order does not."""
    ops = [op for op in te_operations([t.op for t in node.results]) if isinstance(op, ComputeOp)]
    axes = {a.var for op in ops for a in op.axis}
    places = [i for op in ops if isinstance(op.body[0], TensorRead) for i in op.body[0].indices]
    return any(i not in axes and constant(i) is None for i in places)


def turns(node: Node) -> bool:
    """Whether neighbours of its result lie apart in what it reads, whose own neighbours do in the result."""
    return _some(node, "turns", lambda op: transposed(op) is not None)


def joins_pieces(node: Node) -> bool:
    """Whether each element is a copy out of one of several tensors."""
    return _some(node, "joins pieces", lambda op: len(op.input_tensors) > 1 and moves_pieces(op))


def _some(node: Node, name: str, known: Callable[[ComputeOp], bool]) -> bool:
    if name not in node.memo:
        ops = te_operations([t.op for t in node.results]) if node.kind == "te" else []
        node.memo[name] = any(
            known(op) for op in ops if isinstance(op, ComputeOp) and not isinstance(op, OpaqueOp)
        )
    found: bool = node.memo[name]
    return found


def is_right_of_product(node: Node, v: Value) -> bool:
    """Whether a matrix product reads ``v`` as its right operand, whose indices must be axes for it to be
    recognised; attention copies panels of its own."""
    return any(p.right is v.tensor for p in _products(node))


def is_of_product(node: Node, v: Value) -> bool:
    """Whether a matrix product reads ``v`` as one of its operands."""
    return any(v.tensor is p.left or v.tensor is p.right for p in _products(node))


def _products(node: Node) -> list[Product]:
    if node.kind != "te":
        return []
    ops = te_operations([t.op for t in node.results])
    sums = (
        op for op in ops if isinstance(op, ComputeOp) and op.reduce_axis and op.tag != tags.ATTENTION_DOTS
    )
    return [p for op in sums if (p := product_of(op)) is not None]
