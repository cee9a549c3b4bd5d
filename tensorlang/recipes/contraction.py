"""Contractions of two tensors over several axes in any order, as ``einsum`` has them, as products of
matrices: the axes of one tensor alone are the rows, those of the other the columns. Knows the table of costs
and schedules; no recipe of a product.

Where axes are short, register tiles along one of them are mostly empty. Copies lay the axes of each side
together, and the result is a copy of a product of matrices: a pass over each tensor more (transpose,
transpose, product, transpose: Springer and Bientinesi, "Design of a High-Performance GEMM-like Tensor-Tensor
Multiplication", section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..analysis import Contraction, alone_in_of, contraction_of, cost_of, product_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor
from .common import is_known, size
from .pixels import counted
from .register_tile import tile_for, time_of

# cycles of an element that is laid elsewhere. Measured (Zen 4): 0.5 to 1.7 near, up to 3 in the third cache
COPIED = 1.0
# cycles in which the lanes of a sum along memory are added up. Measured (Zen 5): 4.4 for sums of 16 floats
ADDED_UP = 3.5
# of the time of a product that has a recipe as it is, at most, that the transposed one is to take. Measured
# (Zen 5, float32 and float64): 40 × 700 × 30 0.95 and 0.81 of the time, 16 × 1000 × 1000 0.74 and 0.64; of
# those said to take more, 1000 × 100 × 40 0.91 and 1.15, 12 of 97 × 64 × 97 as before and 1.14
SURE = 0.6


def contraction_in(op: ComputeOp) -> Contraction | None:
    """The contraction of known sizes that ``op`` is, each side with axes of its own."""
    c = contraction_of(op) if op.reduce_axis and _known(op) else None
    return c if c is not None and min(_elements(own) for _, _, own in c.sides) > 1 else None


def as_matrices(
    s: Schedule, stage: Stage, c: Contraction, target: Target, constants: Sequence[Tensor], known: bool
) -> tuple[Stage, list[Stage]] | None:
    """Let a contraction be a product of matrices where that takes less time than tiles along two of its axes,
    or than what becomes of it where no recipe has it ``known``. The product, and the copies that are to be
    scheduled; None, and nothing is changed, where it stays as it is."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    sides = [own for _, _, own in c.sides]
    lanes = target.vector_lanes(op.body[0].dtype)
    if all(len(own) == 1 for own in sides):
        turned = _turned(op, c, known, lanes, target, constants)
        if turned is not None and (stage.state.is_output or not known):
            return _laid_out(s, stage, c, turned)
        if known:
            return None
    # of equals the one whose axis comes last has the columns
    order = sorted((0, 1), key=lambda n: -op.axis.index(sides[n][-1]))
    times = {n: _time(op, c, n, lanes, target, constants) for n in order}
    right = min(times, key=lambda n: times[n])
    if times[right] > _along_axes(op, known, lanes, target):
        return None
    return _laid_out(s, stage, c, right)


def _turned(
    op: ComputeOp, c: Contraction, known: bool, lanes: int, target: Target, constants: Sequence[Tensor]
) -> int | None:
    """The side that had better have the columns though its axis is not the last: where the other one lies
    column by column and this one row by row, as the right operand of a product does at its best. The result
    is a copy of the transposed product then; as it is the right operand is copied, and a left one that is
    far apart, or of a few rows each element is a sum along memory."""
    left, right = sorted((0, 1), key=lambda n: op.axis.index(c.sides[n][2][-1]))
    (a, at_a, (row,)), (b, at_b, (column,)) = c.sides[left], c.sides[right]
    kind = op.body[0].dtype
    if any(t.dtype != kind or is_known(t, constants) for t in (a, b)):
        return None
    if at_a[row] != len(a.shape) - 1 or at_b[column] == len(b.shape) - 1:
        return None
    every, both, sums = (_elements(axes) for axes in (op.axis, c.both, op.reduce_axis))
    m, n = _elements([row]), _elements([column])
    turned = both * sums * _in_tiles(n, m, lanes, target) + COPIED * every
    if known:
        far = m * sums * kind.bytes > target.l1_bytes
        as_it_is = both * (sums * (_in_tiles(m, n, lanes, target) + COPIED * (n + m * far)))
    else:
        as_it_is = every * (sums / lanes + ADDED_UP) + COPIED * both * sums * m
    return left if turned < as_it_is * (SURE if known else 1) else None


def in_columns(
    s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]
) -> tuple[Stage, list[Stage]] | None:
    """Let the axes of a weight alone be one, where the last fills no vector, whatever windows of the other
    tensor are read. The sums, and the copies that are to be scheduled; None, and nothing is changed, where it
    stays as it is."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    found = alone_in_of(op) if op.reduce_axis and _known(op) else None
    if found is None:
        return None
    weight, places, own = found
    lanes = target.vector_lanes(op.body[0].dtype)
    few, wide = _elements(own[-1:]), min(lanes, _elements(own))
    copied = _elements(op.axis) + (0 if is_known(weight, constants) else _elements(list(places)))
    if (
        len(own) < 2
        or _elements(op.axis) * _elements(op.reduce_axis) * (1 / few - 1 / wide) < COPIED * copied
    ):
        return None
    together = [size(a) or 1 for a in own]
    copy = s[s.cache_read(weight, "global", [stage.name])]
    others = [d for a, d in places.items() if a not in own]
    copy.transform_layout(_layout([others], [([places[a] for a in own], together)]))
    inside, copies = _written_back(s, stage)
    at = {a: d for d, a in enumerate(op.axis)}
    others = [at[a] for a in op.axis if a not in own]
    inside.transform_layout(_layout([others], [([at[a] for a in own], together)]))
    return inside, [copy, *copies]


def _known(op: ComputeOp) -> bool:
    """Whether all sizes are."""
    return all(size(a) is not None for a in (*op.axis, *op.reduce_axis))


def _elements(axes: Sequence[IterVar]) -> int:
    return math.prod(size(a) or 1 for a in axes)


def _time(
    op: ComputeOp, c: Contraction, right: int, lanes: int, target: Target, constants: Sequence[Tensor]
) -> float:
    """Cycles of the product of matrices and of the copies."""
    m, n = (_elements(c.sides[side][2]) for side in (1 - right, right))
    sums = _elements(c.both) * _elements(op.reduce_axis) * _in_tiles(m, n, lanes, target)
    copied = [places for t, places, own in c.sides if len(own) > 1 and not is_known(t, constants)]
    return sums + COPIED * (_elements(op.axis) + sum(_elements(list(places)) for places in copied))


def _along_axes(op: ComputeOp, known: bool, lanes: int, target: Target) -> float:
    """Cycles of register tiles along one axis of each side."""
    p, every = product_of(op), _elements(op.axis) * _elements(op.reduce_axis)
    if p is None or p.row is None or not known:
        return every / (1 if p is None else min(lanes, size(p.column) or 1))
    m, n = size(p.row) or 1, size(p.column) or 1
    return every / (m * n) * _in_tiles(m, n, lanes, target)


def _in_tiles(m: int, n: int, lanes: int, target: Target) -> float:
    """Cycles of an iteration of the sum for ``m × n`` results."""
    table = cost_of(target) if 2 * n <= lanes else cost_of(target).of_whole
    tile = tile_for(m, n, lanes, target.vector_registers, table, masks=target.has_masks, whole=True)
    return time_of(m, n, *tile, lanes, table)


def _laid_out(s: Schedule, stage: Stage, c: Contraction, right: int) -> tuple[Stage, list[Stage]]:
    op, copies = stage.op, []
    assert isinstance(op, ComputeOp)
    place = {a: d for d, a in enumerate(op.axis)}
    sums = [[places[a] for a in op.reduce_axis] for _, places, _ in c.sides]
    for side, (tensor, places, own) in enumerate(c.sides):
        if len(own) > 1:
            copy = s[s.cache_read(tensor, "global", [stage.name])]
            front, behind = [[places[a] for a in c.both]], [sums[side]]
            mine = ([places[a] for a in own], [size(a) or 1 for a in own])
            copy.transform_layout(
                _layout([*front, *behind], [mine]) if side == right else _layout(front, [mine], behind)
            )
            copies.append(copy)
    inside, back = _written_back(s, stage)
    groups = [([place[a] for a in own], [size(a) or 1 for a in own]) for _, _, own in c.sides]
    rows, columns = groups[1 - right], groups[right]
    inside.transform_layout(_layout([[place[a] for a in c.both]], [rows, columns]))
    return inside, [*copies, *back]


def _written_back(s: Schedule, stage: Stage) -> tuple[Stage, list[Stage]]:
    """A stage that may lie in another layout, and the copy in its own where somebody wants it so."""
    return (s[s.cache_write(stage.name, "global")], [stage]) if stage.state.is_output else (stage, [])


def _layout(
    front: Sequence[Sequence[int]],
    together: Sequence[tuple[Sequence[int], Sequence[int]]],
    behind: Sequence[Sequence[int]] = (),
) -> Callable[..., list[Any]]:
    """Some dimensions as they are, then those of each group as one, then others as they are."""

    def layout(*at: Any) -> list[Any]:
        one = [i for dims, sizes in together for i in counted([at[d] for d in dims], sizes)]
        return [*(at[d] for ds in front for d in ds), *one, *(at[d] for ds in behind for d in ds)]

    return layout
