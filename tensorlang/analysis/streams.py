"""How a compute runs through memory when nothing is read twice: reductions along rows, reductions of columns,
copies that change the order of elements, rows that stages share. Read off the bodies; knows te and no
schedules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..expr import make
from ..expr.linear import poly, reads_data
from ..expr.nodes import Cast, Choice, Const, Expr, FloorDiv, FloorMod, IfThenElse, Var, const_int
from ..expr.walk import preorder, variables
from ..te.axis import IterVar
from ..te.patterns import axis_of_neighbours, constant, reads_of, reducer_kind, step, takes_long
from ..te.reducers import Reduce
from ..te.tensor import ComputeOp, Tensor, TensorRead


def has_calls(op: ComputeOp) -> bool:
    """Whether an element takes functions such as exp: long chains of operations."""
    return any(takes_long(e) for body in op.body for e in preorder(body))


def joins(op: ComputeOp) -> bool:
    """Whether each element is copied from one of several tensors, or is a number, as its place tells."""
    if len(op.body) != 1 or not isinstance(op.body[0], Choice):
        return False
    waiting: list[Expr] = [op.body[0]]
    for e in waiting:  # grows on the way
        if isinstance(e, Choice):
            if reads_data(e.cond):
                return False
            waiting += (e.a, e.b)
        elif isinstance(e, Cast):
            waiting.append(e.a)
        elif not isinstance(e, Const | TensorRead):
            return False
    return True


def moves_pieces(op: ComputeOp) -> bool:
    """Whether each element is copied from one of several pieces of memory, in each of which neighbours along
    the last axis are neighbours: rows at indices that are data, or tensors that are joined."""
    if len(op.body) != 1 or not op.axis:
        return False
    read, waiting = list[TensorRead](), [op.body[0]]
    while waiting:
        e = waiting.pop()
        if isinstance(e, IfThenElse):
            waiting += (e.a, e.b)
        elif isinstance(e, TensorRead):
            read.append(e)
        else:
            return False
    if len(read) == 1 and not any(reads_data(i) for i in read[0].indices[:-1]):
        return False
    return reads_neighbours(op)


def reads_neighbours(op: ComputeOp) -> bool:
    """Whether neighbours along the last axis are made of neighbours in each tensor, or of one element."""
    found, last = reads_of(op), axis_of_neighbours(op).var
    return all(
        last in along for used, along in zip(found.everywhere, found.contiguous, strict=True) if last in used
    )


def picks_columns(op: ComputeOp) -> list[IterVar]:
    """The axes of rows of a copy whose elements along memory are at places that are data, the same in each of
    those rows; none for any other."""
    if len(op.body) != 1 or len(op.axis) < 2:
        return []
    element = op.body[0]
    if type(element) is not TensorRead or not element.indices or not reads_data(element.indices[-1]):
        return []
    along = variables(element.indices[-1])
    *outer, last = op.axis
    if last.var not in along or any(reads_data(i) for i in element.indices[:-1]):
        return []
    return [a for a in outer if a.var not in along]


def samples_image(op: ComputeOp) -> Tensor | None:
    """The image [N, C, …] of which a reduction [N, C, …] reads elements at places that are data, the same for
    each of its channels, which nothing else that it reads moves with; None for any other."""
    if len(op.body) != 1 or not isinstance(op.body[0], Reduce) or len(op.axis) < 3:
        return None
    channel, found = op.axis[1].var, list[TensorRead]()
    for e in preorder(op.body[0]):
        if type(e) is TensorRead and channel in variables(e):
            found.append(e)
    if len(found) != 1 or len(found[0].indices) != len(op.axis) or found[0].indices[1] is not channel:
        return None
    first, _, *places = found[0].indices
    if channel in variables(first) or not any(reads_data(i) for i in places):
        return None
    return found[0].tensor


def uneven_along(op: ComputeOp, axis: IterVar) -> int | None:
    """After how many elements of ``axis`` steps repeat, limits aside, where a read moves along memory with
    it, and with no other, by quotients, whose steps differ from element to element, as those of a resized
    image do; else None. The place of an element is a number where that of ``axis`` is one."""
    found = []
    for _, at in reads_of(op).plain:
        if not at or variables(at[-1]) != {axis.var} or reads_data(at[-1]):
            continue
        if any(axis.var in variables(i) for i in at[:-1]):
            continue
        for e in preorder(at[-1]):
            if isinstance(e, FloorDiv) and (by := const_int(e.b) or 0) > 0:
                found.append(by // math.gcd(by, poly(e.a).get((axis.var,), 1)))
    return math.lcm(*found) if found else None


def reduces_rows(op: ComputeOp) -> bool:
    """Whether the innermost reduction axis runs along memory and all that is read along reduction axes is
    read once: no reuse that a tile could live on."""
    reduced = {a.var for a in op.reduce_axis}
    data = {a.var for a in op.axis if constant(a.extent) != 1}
    for _, indices in reads_of(op).plain:
        used = _used(indices)
        if used & reduced and not used >= data:
            return False
    return reads_of(op).along(op.reduce_axis[-1])


def slides(op: ComputeOp) -> bool:
    """Whether each sum is of a window that begins one element behind its neighbour's: vectors of neighbours
    read as much along memory, and have no lanes to add up."""
    last, reduced = op.axis[-1], op.reduce_axis[-1]
    moved = [(step(i, last), step(i, reduced)) for _, at in reads_of(op).plain for i in at]
    return all(a == b for a, b in moved if b != 0) and any(b for _, b in moved)


def reduces_columns(op: ComputeOp) -> bool:
    """Whether a tensor is reduced over axes of which none is its last dimension: every read that moves with
    the reduction runs along the last data axis, each of its indices one axis, and all data axes are among
    them."""
    if not op.axis or not op.reduce_axis or reducer_kind(op) in (None, "custom", "each"):
        return False
    reduced, data = {a.var for a in op.reduce_axis}, {a.var for a in op.axis}
    result = False
    for _, indices in reads_of(op).plain:
        if not _used(indices) & reduced:
            continue
        plain = [i for i in indices if isinstance(i, Var)]
        if len(plain) < len(indices) or set(plain) != reduced | data or plain[-1] is not op.axis[-1].var:
            return False
        result = True
    return result


def read_order(op: ComputeOp) -> list[int] | None:
    """The axes of a reduction by number, in the order of the dimensions that they move through in every
    tensor that has all of them; None where one tensor has another order than the next, or where several axes
    move through one dimension."""
    if not op.axis or not op.reduce_axis:
        return None
    number = {a.var: d for d, a in enumerate(op.axis)}
    found: list[int] | None = None
    for _, indices in reads_of(op).plain:
        moved = [[number[v] for v in variables(i) if v in number] for i in indices]
        order = [d for m in moved for d in m]
        if len(set(order)) < len(number):
            continue
        alone = len(order) == len(number) and all(len(m) < 2 for m in moved)
        if not alone or found not in (None, order):
            return None
        found = order
    return found


def reads_lines(op: ComputeOp, tensor: Tensor) -> bool:
    """Whether the last index by which ``tensor`` is read moves with the last axis."""
    last = op.axis[-1].var
    return any(t is tensor and last in variables(at[-1]) for t, at in reads_of(op).plain if at)


def row_of(indices: tuple[Expr, ...], axes: tuple[IterVar, ...]) -> int | None:
    """1 when these are the first axes of the reader, n when the last of them is an axis divided by n; None
    otherwise."""
    if len(indices) > len(axes):
        return None
    for d, i in enumerate(indices):
        if i is axes[d].var:
            continue
        if d + 1 == len(indices) and isinstance(i, FloorDiv) and i.a is axes[d].var:
            return constant(i.b)
        return None
    return 1


@dataclass(frozen=True)
class Transposition:
    """``axis`` is the one along which the source is contiguous; ``every``: of which this many stand together
    (None: all)."""

    axis: IterVar
    every: int | None


def transposed(op: ComputeOp) -> Transposition | None:
    """The axis, other than the last, along which a read runs through memory while the last axis jumps; None
    if there is none."""
    copies = len(op.body) == 1 or all(type(e) is TensorRead for e in op.body)
    if len(op.axis) < 2 or op.reduce_axis or not copies:
        return None
    last = op.axis[-1]
    axes = {a.var: a for a in op.axis[:-1]}
    found: list[Transposition] = []
    for tensor, indices in reads_of(op).plain:
        used = _used(indices)
        if not indices or last.var not in used or last.var in variables(indices[-1]):
            continue
        transposition = _along(indices[-1], axes) or _over_rows(tensor, indices, axes)
        if transposition is not None and _some(transposition.axis):
            found.append(transposition)
    return found[0] if found and _some(last) else None


def _along(index: Expr, axes: dict[Var, IterVar]) -> Transposition | None:
    """The axis by which the last index of a read moves one by one, forwards or backwards, wholly or modulo
    the size of a block. Measured (Zen 4, one thread and two): 307 × 503 turned a right angle take 0.52 of the
    time, 256 × 256 0.13 and 0.18, 3000 × 1000 0.32 and 0.28, bytes of 3 × 224 × 301 0.27."""
    for term, factor in poly(index).items():
        if factor not in (1, -1) or len(term) != 1:
            continue
        (atom,) = term
        if isinstance(atom, Var) and atom in axes:
            return Transposition(axes[atom], None)
        if isinstance(atom, FloorMod) and isinstance(atom.a, Var) and atom.a in axes:
            every = const_int(atom.b)
            if every is not None and every >= 4:
                return Transposition(axes[atom.a], every)
    return None


def _over_rows(tensor: Tensor, indices: Sequence[Expr], axes: dict[Var, IterVar]) -> Transposition | None:
    """The axis that counts the elements of open rows one behind the other, as ``x[i // n, i % n]`` does of
    rows of ``n``: memory does not end with a row. Measured (Zen 4): 128 channels of 64 × 64, of open height
    and width, to be last take 0.13 of the time, with gelu 0.35."""
    index = indices[-1]
    if not isinstance(index, FloorMod) or not isinstance(index.a, Var) or index.a not in axes:
        return None
    n, flat = tensor.shape[-1], None
    if index.b is not n or const_int(n) is not None:
        return None
    for i, size in zip(indices, tensor.shape, strict=True):
        flat = i if flat is None else make.add(make.mul(flat, size), i)
    moving = {m: c for m, c in poly(flat).items() if any(index.a in variables(e) for e in m)}
    return Transposition(axes[index.a], None) if moving == {(index.a,): 1} else None


def _some(axis: IterVar) -> bool:
    n = constant(axis.extent)
    return n is None or n >= 4


def _used(indices: tuple[Expr, ...]) -> frozenset[Var]:
    return frozenset(v for i in indices for v in variables(i))
