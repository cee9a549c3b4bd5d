"""What kind of loop nest a compute is, read off its body: who reads what along which axis. Knows te; no
schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..arith.conditions import conjuncts
from ..arith.facts import Facts
from ..expr import make
from ..expr.linear import add_poly, poly, quotient, reads_data, split_by_atom
from ..expr.nodes import (
    LE,
    LT,
    Access,
    Add,
    Call,
    Cast,
    Choice,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Sub,
    Var,
    const_int,
)
from ..expr.walk import preorder, substitute, variables
from .axis import IterVar
from .reducers import Reduce, parts_alone
from .tensor import ComputeOp, Tensor, TensorRead

MANY = 1 << 20  # what an open size that nothing bounds may be
SIDE = 64  # of an image that nobody knows more of
_ROOTS = frozenset(["sqrt", "rsqrt"])
# intrinsics that are an instruction or two
_INSTRUCTIONS = frozenset(
    [
        "abs",
        "floor",
        "ceil",
        "trunc",
        "nearbyint",
        "copysign",
        "isnan",
        "isinf",
        "isfinite",
        "float_bits",
        "float_of_bits",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_not",
        "shift_left",
        "shift_right",
    ]
)


@dataclass(frozen=True, slots=True)
class Reads:
    """How a stage reads: for each read, the variables of all indices, and those that move along its last
    dimension by one; ``plain`` has the tensor and the indices themselves."""

    everywhere: tuple[frozenset[Var], ...]
    contiguous: tuple[frozenset[Var], ...]
    plain: tuple[tuple[Tensor, tuple[Expr, ...]], ...]

    def of(self, producer: ComputeOp) -> list[tuple[Expr, ...]]:
        """The indices of the reads of what another stage computes."""
        return [at for tensor, at in self.plain if tensor in producer.outputs]

    def along(self, axis: IterVar) -> bool:
        """Whether some read runs through memory one by one as ``axis`` advances."""
        return any(axis.var in c for c in self.contiguous)

    def reused_over(self, axis: IterVar, beside: IterVar) -> bool:
        """Whether a read that moves with ``beside`` stands still as ``axis`` advances: the reuse that
        register tiles live on."""
        return any(beside.var in e and axis.var not in e for e in self.everywhere)


def reads_of(op: ComputeOp) -> Reads:
    """The reads of a compute, in the order in which its expressions are written; one read twice is two."""
    everywhere, contiguous, plain = [], [], []
    for body in op.body:
        for node in preorder(body):
            if isinstance(node, TensorRead):
                used: frozenset[Var] = (
                    frozenset().union(*[variables(i) for i in node.indices]) if node.indices else frozenset()
                )
                moving = _moving(node.tensor.shape, node.indices)
                last = moving[-1] if moving else None
                others: frozenset[Var] = frozenset().union(*[variables(i) for i in moving[:-1]])
                plain.append((node.tensor, node.indices))
                everywhere.append(used)
                contiguous.append(
                    # one that moves another index too jumps from row to row
                    frozenset(v for v in variables(last) if v not in others and _unit(last, v))
                    if last is not None
                    else frozenset()
                )
    return Reads(tuple(everywhere), tuple(contiguous), tuple(plain))


def _moving(shape: Sequence[Expr], at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """These indices without the last ones of single elements: rows of one column lie side by side."""
    n = len(at)
    while n > 1 and constant(shape[n - 1]) == 1:
        n -= 1
    return at[:n]


def axis_of_neighbours(op: ComputeOp) -> IterVar:
    """The last axis of more than one element, along which neighbours lie; the last where there is none."""
    return next((a for a in reversed(op.axis) if constant(a.extent) != 1), op.axis[-1])


def _unit(index: Expr, v: Var) -> bool:
    return poly(index).get((v,), 0) == 1


def step(index: Expr, axis: IterVar) -> int | None:
    """How far an index moves in one iteration of ``axis``; None when that is not always the same."""
    if any(
        # inside a quotient, or times another index: its step is not one number
        axis.var in variables(e)
        for term in poly(index)
        for e in term
        if e is not axis.var or len(term) > 1
    ):
        return None
    return poly(index).get((axis.var,), 0)


def stands_for(index: Expr, axis: IterVar) -> int | None:
    """For how many neighbours along ``axis`` an index stands still, as ``j // 2`` does for two; None for any
    other index."""
    return const_int(index.b) if isinstance(index, FloorDiv) and index.a is axis.var else None


def own_place(op: ComputeOp, at: Sequence[Expr]) -> bool:
    """Whether an element of ``op`` reads at these indices what stands where it does itself."""
    return len(at) == len(op.axis) and all(own_index(i, a) for i, a in zip(at, op.axis, strict=True))


def own_index(index: Expr, axis: IterVar) -> bool:
    """Whether an index is the axis itself; a broadcast dimension is read at 0, which is its only place."""
    return index is axis.var or (constant(axis.extent) == 1 and constant(index) == 0)


def period(op: ComputeOp, axis: IterVar) -> int | None:
    """The ``c`` where all reads move with ``axis`` as ``axis % c``, as those of repeated rows do; else
    None."""
    found = {
        const_int(i.b) if isinstance(i, FloorMod) and i.a is axis.var else None
        for _, at in reads_of(op).plain
        for i in at
        if axis.var in variables(i)
    }
    return found.pop() if len(found) == 1 else None


def open_times(op: ComputeOp, axis: IterVar, behind: Sequence[IterVar] = ()) -> int | None:
    """How many times the same is read again along an axis of an open size, where all reads move with it as
    ``axis % n`` and it has a number of times ``n`` elements; None for any other. What moves with an axis
    ``behind`` has it in the dimension in front of these."""
    later = {a.var for a in behind}
    found: set[Expr | None] = set()
    for _, at in reads_of(op).plain:
        rows = any(not later.isdisjoint(variables(i)) for i in at)
        for d, i in enumerate(at):
            if axis.var in variables(i) or (rows and d == len(at) - 1 - len(behind)):
                found.add(i.b if isinstance(i, FloorMod) and i.a is axis.var else None)
    n = found.pop() if len(found) == 1 else None
    return None if n is None or const_int(n) is not None else const_int(quotient(axis.extent, n))


def cut_at(op: ComputeOp, axis: IterVar) -> int | None:
    """The ``c`` where all reads ask for ``axis`` by ``axis // c`` and ``axis % c``, as for a pixel of an
    image by its number, and move from one part to the next by more or less than within one; else None."""
    asked: set[int | None] = set()
    for _, at in reads_of(op).plain:
        waiting = list(at)
        for e in waiting:  # grows on the way
            if isinstance(e, FloorDiv | FloorMod) and e.a is axis.var:
                asked.add(const_int(e.b))
            elif e is axis.var:
                asked.add(None)
            else:
                waiting += e.children()
    cut = asked.pop() if len(asked) == 1 else None
    if cut is None or cut < 2:
        return None
    return cut if any(_leaps(tensor, at, axis.var, cut) for tensor, at in reads_of(op).plain) else None


def _leaps(tensor: Tensor, at: Sequence[Expr], var: Var, cut: int) -> bool:
    """Whether a read moves by another step from ``cut - 1`` to ``cut`` than from 0 to 1."""
    moved, far = [0, 0], 1
    for i, n in zip(reversed(at), reversed(tensor.shape), strict=True):
        for k, (a, b) in enumerate(((0, 1), (cut - 1, cut))):
            before, behind = (substitute(i, {var: make.const(v, var.dtype)}) for v in (a, b))
            by = const_int(make.sub(behind, before))
            if by is None:
                return True
            moved[k] += by * far
        far *= const_int(n) or MANY
    return moved[0] != moved[1]


def rows_by_data(op: ComputeOp) -> frozenset[Var] | None:
    """The axes that ranges read from data depend on, as those of sparse rows do: ``P[i] <= k < P[i + 1]``;
    None where no range is data."""
    first = op.body[0] if op.body else None
    if not isinstance(first, Reduce) or first.condition is None:
        return None
    reduced = [a.var for a in op.reduce_axis]
    found: set[Var] | None = None
    for c in conjuncts(first.condition):
        if isinstance(c, LT | LE) and c.a.dtype.is_index and reads_data(c.a) is not reads_data(c.b):
            data, index = (c.a, c.b) if reads_data(c.a) else (c.b, c.a)
            # the data give the range, and what is in it runs over it
            if variables(data).isdisjoint(reduced) and not variables(index).isdisjoint(reduced):
                found = (found or set()) | variables(data)
    return None if found is None else frozenset(found)


def told_by_data(at: Sequence[Expr]) -> bool:
    """Whether a read at these indices is wherever data tell, as the elements that ``take`` gives are."""
    return any(map(reads_data, at))


def operations(body: tuple[Expr, ...]) -> int:
    """Roughly how many operations one element takes; intrinsics count more."""
    return sum(_weight(node) for e in body for node in preorder(e))


def divides(op: ComputeOp) -> bool:
    """Whether an element takes a division; by a power of two it is a product."""
    return any(_is_division(node) for e in op.body for node in preorder(e))


def divisions(body: tuple[Expr, ...]) -> int:
    """How many divisions and roots one element takes; none for a division by a power of two."""
    nodes = (node for e in body for node in preorder(e))
    return sum(_is_division(n) or (isinstance(n, Call) and n.name in _ROOTS) for n in nodes)


def _is_division(node: Expr) -> bool:
    return isinstance(node, Div) and (
        not isinstance(node.b, Const) or abs(math.frexp(node.b.value)[0]) != 0.5
    )


def divides_places(op: ComputeOp) -> bool:
    """Whether places that are read are told by divisions, as those of the patches of an image that lie in
    columns are: neighbours are not neighbours in memory then."""
    return any(
        isinstance(e, FloorDiv | FloorMod) for _, at in reads_of(op).plain for i in at for e in preorder(i)
    )


def arithmetic(body: tuple[Expr, ...]) -> tuple[int, int, int]:
    """The products, the sums and differences, and the other :func:`operations` of one element, of which a
    processor does a product and the sum behind it at once."""
    products = sums = others = 0
    for e in body:
        for node in preorder(e):
            count = _weight(node)
            if isinstance(node, Mul):
                products += count
            elif isinstance(node, Add | Sub):
                sums += count
            else:
                others += count
    return products, sums, others


def takes_long(node: Expr) -> bool:
    """Whether a node calls a function such as exp, a long chain of operations; not one that is an instruction
    or two."""
    return isinstance(node, Call) and node.name not in _INSTRUCTIONS


def _weight(node: Expr) -> int:
    """What a node counts among operations."""
    if isinstance(node, Choice) or takes_long(node):
        # a guarded read becomes a masked load, far more expensive than a copy made once
        return 10
    return int(not isinstance(node, Access | Const | Var) and not node.dtype.is_index)


def repeated_along(op: ComputeOp, axis: IterVar, inlined: bool = False) -> tuple[int, int]:
    """The operations and reads of one element that give the same all along ``axis``, and those that do
    not. ``inlined``: as if what it reads were written into it, all but reductions."""
    same = other = 0
    for e in op.body:
        for node in preorder(e):
            count = _taken(node) if inlined and isinstance(node, TensorRead) else _weight(node)
            count += isinstance(node, TensorRead)
            if axis.var in variables(node):
                other += count
            else:
                same += count
    return same, other


def _taken(read: TensorRead) -> int:
    """The operations of all that would be written in the place of a read."""
    found, todo, seen = 0, [read.tensor], {read.tensor}
    while todo:
        op = todo.pop().op
        if isinstance(op, ComputeOp) and not op.reduce_axis:
            found += _at_most(op)
            todo += [t for t in op.input_tensors if t not in seen]
            seen.update(op.input_tensors)
    return found


def few_operations(op: ComputeOp, most: int) -> bool:
    """Whether one element takes at most that many ``operations``; the body of a long chain of inlined stages
    is not written out for it, unless it has too many or nearly so."""
    # the sum of the parts first, which is known: walking the long body only where that does not decide
    return _at_most(op) <= most or operations(op.body) <= most


_counted: WeakKeyDictionary[ComputeOp, int] = WeakKeyDictionary()


def _at_most(op: ComputeOp) -> int:
    """Those of a definition, or of its parts together."""
    total, todo = 0, [op]
    while todo:
        part = todo.pop()
        known, composed = _counted.get(part), part.composed
        if known is None and composed is not None:
            todo += composed.parts
            continue
        if known is None:
            known = _counted[part] = operations(part.body)
        total += known
    _counted[op] = total
    return total


def constant(size: Expr) -> int | None:
    """The value of a size that is a number; None for a symbolic one."""
    return const_int(size)


def typical(size: Expr, otherwise: int) -> int:
    """A size as a number for estimates: itself, its hint, or ``otherwise``."""
    n = const_int(size)
    return n if n is not None else (getattr(size, "hint", None) or otherwise)


def iterations_of(op: ComputeOp) -> int:
    """Iterations of the body in the largest call: an open size counts as the most it may be. Whether a call's
    own sizes are worth several threads is asked in the kernel."""
    total = 1
    for a in (*op.axis, *op.reduce_axis):
        total *= _most(a.extent)
    return total


def _most(size: Expr) -> int:
    """The most a size may be; MANY where nothing bounds it."""
    n = const_int(size)
    if n is None:
        most = Facts().interval(size)[1]
        n = MANY if most is None else min(MANY, max(0, int(most)))
    return n


def made_of_place(op: ComputeOp) -> set[Expr]:
    """Of which variables of its place a value is made otherwise than by what is read there, as a range of
    numbers is, and what is joined of several tensors."""
    own = {a.var for a in op.axis}
    found = (preorder(e, lambda e: () if type(e) is TensorRead else e.children()) for e in op.body)
    return {node for nodes in found for node in nodes if node in own}


def told_by_ends(op: ComputeOp, axis: IterVar) -> bool:
    """Whether a value is made of its place along an axis by comparing that with what is the same for all
    elements, as where tensors are joined or have a margin: it is made in one way from one end to the next."""
    own = {a.var for a in op.axis}

    def told(e: Expr) -> bool:
        if type(e) not in (LT, LE):
            return False
        moving, _ = split_by_atom(add_poly(poly(e.a), poly(e.b), -1), axis.var)  # type: ignore[attr-defined]
        others = own.intersection(variables(e)) - {axis.var}
        return not others and not reads_data(e) and list(moving) == [()] and abs(moving[()]) == 1

    return not any(
        node is axis.var
        for e in op.body
        for node in preorder(e, lambda k: () if type(k) is TensorRead or told(k) else k.children())
    )


def reducer_kind(op: ComputeOp) -> str | None:
    """``add``, ``mul``, ``min``, ``max``, ``and``, ``or``, ``each`` or ``custom`` for a reduction, None for
    any other compute. ``each``: a reducer of the user's each of whose parts is one of these and looks at no
    other part, as two sums at once are."""
    first = op.body[0] if op.body else None
    if not isinstance(first, Reduce):
        return None
    return "each" if first.reducer.kind == "custom" and parts_alone(first) else first.reducer.kind


def narrow_product(op: ComputeOp) -> bool:
    """Whether a compute sums products of two reads of 8- or 16-bit integers in int32."""
    first = op.body[0] if op.body else None
    if not isinstance(first, Reduce) or first.reducer.kind != "add" or len(first.sources) != 1:
        return False
    product = first.sources[0]
    return type(product) is Mul and product.dtype == "int32" and is_narrow(product.a) and is_narrow(product.b)


def is_narrow(e: Expr) -> bool:
    """Whether an expression is a read of 8- or 16-bit integers in int32."""
    return (
        type(e) is Cast
        and e.dtype == "int32"
        and type(e.a) is TensorRead
        and e.a.dtype in ("int8", "uint8", "int16")
    )
