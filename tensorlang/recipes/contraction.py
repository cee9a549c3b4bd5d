"""Contractions of two tensors over several axes in any order, as ``einsum`` has them, as products of
matrices: the axes of one tensor alone are the rows, those of the other the columns. Knows the table of costs
and schedules; no recipe of a product.

Where axes are short, register tiles along one of them are mostly empty. Those of a side that are neighbours
in its tensor, and in the result, are counted as one where they lie. Else copies lay the axes of a side
together, and the result is a copy of a product of matrices: a pass over each tensor more (transpose,
transpose, product, transpose: Springer and Bientinesi, "Design of a High-Performance GEMM-like Tensor-Tensor
Multiplication", section 2), less those in which the axes lie together. The cheapest by the table is taken.

Measured (Zen 5, one thread), of tiles along one axis of each side: 14 of 330 × 11 × 155, columns of two axes
where they lie, 0.11 of the time, 113 vectors by 106 × 220 0.10, 3 × 44 × 17760, the result copied, 0.13.
Drawn ones, letters in any order (150 of float32, 100 of float64), whose copies have each dimension by
itself, and are weighed by how they lie, 0.83 and 0.89 of the time of copies in which axes are one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..analysis import (
    Contraction,
    alone_in_of,
    constant,
    contraction_of,
    cost_of,
    product_of,
    reads_of,
    row_among,
    typical,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Operation, Tensor
from .across import AGAIN, few_and_deep, lying_across, moves_along
from .as_one import where_they_are
from .common import LINE, is_known, size
from .copies import cycles_each
from .lanes import NEAR_STEPS, time_turned
from .pixels import counted
from .register_tile import tile_for, time_of

# cycles of an element that is laid elsewhere. Measured (Zen 4): 0.5 to 1.7 near, up to 3 in the third cache
COPIED = 1.0
# the same in copies of which tiles are transposed. Measured (Zen 5): 0.3 to 0.5, of short rows 0.6 to 1
MOVED = 0.5
MANY = 16  # elements of the last axis of a copy, of which whole tiles are transposed
# cycles of an element that is read by itself, of lines of memory that are brought again for each. Measured
# (Zen 5): right operands of 0.9 and 2.7 MB packed element by element 2.4, a left one of 3.5 MB read so 2.5
SCATTERED = 2.4
# cycles in which the lanes of a sum along memory are added up. Measured (Zen 5): 4.4 for sums of 16 floats
ADDED_UP = 3.5
# of the time of a product that has a recipe as it is, at most, that the transposed one is to take. Measured
# (Zen 5, float32 and float64): 40 × 700 × 30 0.95 and 0.81 of the time, 16 × 1000 × 1000 0.74 and 0.64; of
# those said to take more, 1000 × 100 × 40 0.91 and 1.15, 12 of 97 × 64 × 97 as before and 1.14
SURE = 0.6
# of a sum by itself, cycles of a vector, which waits for the one before, and to add its lanes up
ALONE = 3.0, 10.0
BOTH = 3.0  # cycles of a vector of results of both operands
GATHERED = 0.5  # cycles of an iteration in vectors of which one operand is gathered
OPEN = 16  # what an open size counts as
# cycles of an iteration that is neither in vectors of columns nor in such of a sum
SCALAR = 3.0
# of the time of tiles along one axis of each side, at most, that those along several where they lie may take
WORTH = 0.9
SURELY = 0.95  # the same of a plan that is not the first


def contraction_in(op: ComputeOp) -> Contraction | None:
    """The contraction that ``op`` is, some side with several results of its own."""
    empty = any(size(a) == 0 for a in (*op.axis, *op.reduce_axis))
    c = contraction_of(op) if op.reduce_axis and not empty else None
    return c if c is not None and max(_elements(own) for _, _, own in c.sides) > 1 else None


class AsMatrices(NamedTuple):
    """A contraction as a product of matrices: the product, which is computed in tiles of ``out`` where that
    is a stage, the copies that are to be scheduled, and those that only name other places of what they copy,
    to be written into their readers in the end."""

    inside: Stage
    out: Stage | None
    copies: list[Stage]
    views: list[Stage]


class _Plan(NamedTuple):
    """What is counted as one on each side, in which order, in ``cycles``. The ``right`` side has the columns;
    those of ``copied`` are copied; ``back`` is whether the result is, or has its axes where they are."""

    right: int
    groups: tuple[tuple[IterVar, ...], tuple[IterVar, ...]]
    copied: tuple[int, ...]
    back: bool
    cycles: float


def as_matrices(
    s: Schedule,
    stage: Stage,
    c: Contraction,
    target: Target,
    constants: Sequence[Tensor],
    known: bool,
    out: Stage | None,
) -> AsMatrices | None:
    """Let a contraction be a product of matrices where that takes less time than tiles along two of its axes,
    or than what becomes of it where no recipe has it ``known``. ``out`` is what alone reads it, if there is
    one. None, and nothing is changed, where it stays as it is."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    sides = [own for _, _, own in c.sides]
    lanes = target.vector_lanes(op.body[0].dtype)
    if not all(sides) and _summed_along(op, c):
        return None
    whole = _known(op)  # of open sizes nothing is copied
    if whole and all(len(own) == 1 for own in sides):
        turned = _turned(op, c, known, lanes, target, constants)
        if turned is not None and (stage.state.is_output or not known):
            groups = (c.sides[0][2], c.sides[1][2])
            return _laid_out(s, stage, c, _Plan(turned, groups, (), True, 0.0), out)
        if known:
            return None
    # of equals the one whose axis comes last has the columns
    order = sorted((n for n in (0, 1) if sides[n]), key=lambda n: -op.axis.index(sides[n][-1]))
    plans = _copying(op, c, order, lanes, target, constants) if whole and (all(sides) or not known) else []
    if c.sides[0][0] is not c.sides[1][0]:
        plans += [p for n in order if (p := _in_place(op, c, n, out, lanes, target, constants)) is not None]
    best = min(plans, key=lambda p: p.cycles, default=None)
    if best is None:
        return None
    as_it_is = _along_axes(stage, c, known, lanes, target, constants)
    if best.cycles > as_it_is * (1 if best.back else WORTH):
        return None
    return _laid_out(s, stage, c, best, out)


def _summed_along(op: ComputeOp, c: Contraction) -> bool:
    """Whether a tensor that has results of its own is summed along memory, or nearly so."""
    return any(
        own and math.prod(constant(n) or 1 for n in t.shape[places[a] + 1 :]) <= max(NEAR_STEPS)
        for t, places, own in c.sides
        for a in op.reduce_axis
    )


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
    """Whether all sizes are, and none is 0."""
    return all(size(a) for a in (*op.axis, *op.reduce_axis))


def _elements(axes: Sequence[IterVar]) -> int:
    return math.prod(typical(a.extent, OPEN) for a in axes)


def _copying(
    op: ComputeOp,
    c: Contraction,
    order: Sequence[int],
    lanes: int,
    target: Target,
    constants: Sequence[Tensor],
) -> list[_Plan]:
    """Plans with copies, each cheaper than those before it: columns that are all axes of the right side, or a
    run of them that is one stretch of memory; rows likewise."""
    every = _elements(op.axis) * _elements(op.reduce_axis)
    found, least = list[_Plan](), math.inf
    for right in order:
        rows, columns = (_groups(*c.sides[n][1:]) for n in (1 - right, right))
        for (i, apart), (j, scattered) in itertools.product(rows, columns):
            if not _are_rows(i, c.sides[1 - right][2]):
                continue
            t, places, _ = c.sides[right]
            last = places[j[-1]] == len(t.shape) - 1
            copied = [1 - right] * apart + [right] * (scattered or not (last or is_known(t, constants)))
            back = not _lies(op.axis, i, j)
            if not copied and not back:
                continue  # as in place
            plan = _Plan(right, (j, i) if right == 0 else (i, j), tuple(copied), back, 0.0)
            cycles = _moving(op, c, plan, constants)
            if not apart:
                cycles += _scattered(op, *c.sides[1 - right][:2], i, target) * _tiles_of(_elements(j), lanes)
            if cycles + every / lanes / cost_of(target).per_cycle >= least:
                continue
            m, n = _elements(i), _elements(j)
            cycles += (
                every
                / (m * n)
                * min(_in_tiles(m, n, lanes, target), _turning(op, c, plan, (m, n), lanes, target))
            )
            if cycles < SURELY * least:
                least = cycles
                found.append(plan._replace(cycles=cycles))
    return found


def _turning(
    op: ComputeOp, c: Contraction, p: _Plan, shape: tuple[int, int], lanes: int, target: Target
) -> float:
    """Cycles of an iteration of the sum where few columns are turned, and summed along memory."""
    (left, places, _), (m, n), depth = c.sides[1 - p.right], shape, _elements(op.reduce_axis)
    if len(op.reduce_axis) > 1 or not n < lanes <= depth or 1 - p.right in p.copied:
        return math.inf
    if any(t.dtype != op.body[0].dtype for t, _, _ in c.sides):  # narrow integers are multiplied in pairs
        return math.inf
    if places[op.reduce_axis[0]] != len(left.shape) - 1:
        return math.inf
    return n * time_turned(m, n, depth, op.body[0].dtype.bytes, False, lanes, target)


def _moving(op: ComputeOp, c: Contraction, p: _Plan, constants: Sequence[Tensor]) -> float:
    """Cycles of the copies of a plan."""
    cycles, bytes = 0.0, op.body[0].dtype.bytes
    for side in p.copied:
        t, places, _ = c.sides[side]
        if not is_known(t, constants):
            source = sorted(places, key=lambda a: places[a])
            order = [source[d] for d in _order(op, c, p, side)]
            cycles += _elements(source) * cycles_each(source, order, t.dtype.bytes)
    return cycles + (_elements(op.axis) * cycles_each(_back(op, c, p), op.axis, bytes) if p.back else 0.0)


def _are_rows(rows: Sequence[IterVar], own: Sequence[IterVar]) -> bool:
    """Whether these are the rows of a product, where they are the last of the axes that its left operand
    alone has."""
    others = [_elements([a]) for a in own if a not in rows]
    return row_among([*others, _elements(rows)]) == len(others)


def _scattered(
    op: ComputeOp, t: Tensor, places: Mapping[IterVar, int], rows: Sequence[IterVar], target: Target
) -> float:
    """Cycles to read the elements of a left operand for one tile of columns, where neither rows nor what is
    summed are neighbours in it and no line stays in the first cache until its other elements are read."""
    last, together = next(a for a, d in places.items() if d == len(t.shape) - 1), (*rows, *op.reduce_axis)
    if last in together:
        return 0.0
    # read until the loop along the last dimension takes its next iteration
    within = op.axis[op.axis.index(last) + 1 :]
    lines = _elements([a for a in places if a in together or a in within])
    elements = _elements(list(places))
    near = min(lines * LINE, elements * t.dtype.bytes) <= target.l1_bytes
    return 0.0 if near else SCATTERED * elements


def _tiles_of(columns: int, lanes: int) -> int:
    """Tiles of so many columns, about."""
    return -(-columns // (4 * lanes))


def _groups(
    places: Mapping[IterVar, int], own: tuple[IterVar, ...]
) -> list[tuple[tuple[IterVar, ...], bool]]:
    """What axes of one tensor alone may be counted as one, and whether that takes a copy of it: all of them,
    in the order in which they lie, and those that lie side by side."""
    lying = tuple(sorted(own, key=lambda a: places[a]))
    runs = _runs(lying, places)
    if len(runs) < 2:
        return [(lying, False)]
    longest = max(runs, key=_elements)
    last = runs[-1] if _elements(runs[-1]) >= MANY else longest
    return [
        (tuple(a for r in (*(r for r in runs if r is not last), last) for a in r), True),
        *((r, False) for r in runs),
    ]


def _lies(axes: Sequence[IterVar], rows: Sequence[IterVar], columns: Sequence[IterVar]) -> bool:
    """Whether a result with these axes has rows and columns side by side, and the columns last."""
    at = {a: d for d, a in enumerate(axes)}
    return columns[-1] is axes[-1] and _together(at, rows) and _together(at, columns)


def _in_place(
    op: ComputeOp,
    c: Contraction,
    right: int,
    out: Stage | None,
    lanes: int,
    target: Target,
    constants: Sequence[Tensor],
) -> _Plan | None:
    """Runs of axes that lie side by side in a tensor and in the result as one, where they are; None where
    there are none, or what reads the result would have to gather for it."""
    at = {a: d for d, a in enumerate(op.axis)}
    groups = list[tuple[IterVar, ...]]()
    for side, (_, places, own) in enumerate(c.sides):
        if side != right and not own:
            groups.append(())
            continue
        runs = [r for r in _runs(own, places, at) if side != right or r[-1] is op.axis[-1]]
        if not runs:
            return None
        groups.append(max(runs, key=lambda r: (_elements(r), at[r[-1]])))
    columns = groups[right]
    if len(columns) == 1 and len(groups[1 - right]) < 2:
        return None
    if out is not None and _gathers(out.op, op, columns):
        return None
    t, places, _ = c.sides[right]
    if places[columns[-1]] != len(t.shape) - 1 and not is_known(t, constants):
        return None
    m, n = (_elements(groups[side]) for side in (1 - right, right))
    every = _elements(op.axis) * _elements(op.reduce_axis)
    cycles = every / (m * n) * _in_tiles(m, n, lanes, target)
    return _Plan(right, (groups[0], groups[1]), (), False, cycles)


def _runs(own: Sequence[IterVar], *orders: Mapping[IterVar, int]) -> list[tuple[IterVar, ...]]:
    """Axes of known length, of more than one element each, in runs that lie side by side in all of the
    ``orders``; others by themselves."""
    runs = list[tuple[IterVar, ...]]()
    for a in own:
        before = runs[-1][-1] if runs else None
        if (
            before is not None
            and (size(before) or 0) > 1
            and (size(a) or 0) > 1
            and all(_together(o, (before, a)) for o in orders)
        ):
            runs[-1] = (*runs[-1], a)
        else:
            runs.append((a,))
    return runs


def _together(places: Mapping[IterVar, int], axes: Sequence[IterVar]) -> bool:
    """Whether axes are neighbours in this order."""
    return all(places[a] + 1 == places[b] for a, b in itertools.pairwise(axes))


def _gathers(reader: Operation, op: ComputeOp, columns: Sequence[IterVar]) -> bool:
    """Whether an operation that reads ``op`` at its own place reads another tensor at some of the columns, or
    at all of them that are no neighbours in it."""
    if not isinstance(reader, ComputeOp):
        return True
    mine = [reader.axis[op.axis.index(a)].var for a in columns]
    reads = reads_of(reader)
    for used, (_, at) in zip(reads.everywhere, reads.plain, strict=True):
        if used.isdisjoint(mine):
            continue
        first = next((d for d, i in enumerate(at) if i is mine[0]), 0)
        if not all(i is v for i, v in itertools.zip_longest(at[first : first + len(mine)], mine)):
            return True
    return False


def _along_axes(
    stage: Stage, c: Contraction, known: bool, lanes: int, target: Target, constants: Sequence[Tensor]
) -> float:
    """Cycles of register tiles along one axis of each side, or of what becomes of it otherwise."""
    op = stage.op
    assert isinstance(op, ComputeOp)
    p, every = product_of(op), float(_elements(op.axis) * _elements(op.reduce_axis))
    if p is None:
        return _of_both(stage, lanes, constants)
    if known and p.row is not None:
        m, n = _elements([p.row]), _elements([p.column])
        cycles = every / (m * n) * _in_tiles(m, n, lanes, target)
        cycles += _scattered(op, p.left, p.left_axes, [p.row], target) * _tiles_of(n, lanes)
        last = {d: a for a, d in p.right_axes.items()}.get(len(p.right.shape) - 1)
        if p.in_lines or is_known(p.right, constants):
            return cycles
        # a transposed copy, or one element by element where what lies side by side is not summed
        far = _elements_of(p.right) * p.right.dtype.bytes > target.l2_bytes // 2
        each = MOVED if last in op.reduce_axis else SCATTERED if far else COPIED
        along = _in_sums(op, c, lanes, 1.0, ADDED_UP)
        return min(math.inf if along is None else along, cycles + each * _elements(list(p.right_axes)))
    n = _elements([p.column])  # the vectors of one row wait for those before
    in_vectors = every / n * _in_tiles(1, n, lanes, target)
    if p.in_lines:
        return in_vectors
    last, both = op.reduce_axis[-1], ((p.left, p.left_axes), (p.right, p.right_axes))
    if all(axes.get(last) == len(tensor.shape) - 1 for tensor, axes in both):
        return every / lanes + ADDED_UP * _elements(op.axis)
    laid = [] if few_and_deep(stage, target) else lying_across(stage, constants)
    if not laid:
        along = _in_sums(op, c, lanes, *ALONE)
        return every * SCALAR if along is None else along
    return in_vectors + COPIED * sum(math.prod(constant(n) or 1 for n in t.shape) for t, _ in laid)


def _in_sums(op: ComputeOp, c: Contraction, lanes: int, each: float, added: float) -> float | None:
    """Cycles of sums along memory, ``each`` of a vector, the lanes of a sum ``added`` up; None where a tensor
    is read from line to line, and not copied."""
    last, copied = op.reduce_axis[-1], 0.0
    for t, places, _ in c.sides:
        if math.prod(constant(n) or 1 for n in t.shape[places[last] + 1 :]) > max(NEAR_STEPS):
            if _elements([a for a in op.axis if a not in places]) < AGAIN:
                return None
            copied += MOVED * _elements_of(t)
    n = _elements([last])
    turns = _elements(op.reduce_axis) / n * -(-n // lanes)
    return copied + _elements(op.axis) * (turns * each + added)


def _of_both(stage: Stage, lanes: int, constants: Sequence[Tensor]) -> float:
    """The same of results of which neighbours are of both operands."""
    op, last = stage.op, stage.op.axis[-1]
    every, copied = float(_elements(op.axis) * _elements(op.reduce_axis)), list[Tensor]()
    if not any(moves_along(at, last) for _, at in reads_of(op).plain):
        return every
    across = [t for t, at in reads_of(op).plain if not moves_along(at, last)]
    if across:
        copied = [t for t, _ in lying_across(stage, constants)]
        if not copied:
            return every * GATHERED
    moved = sum(_elements_of(t) for t in copied if not is_known(t, constants))
    return BOTH * every / min(lanes, size(last) or lanes) + MOVED * moved


def _elements_of(t: Tensor) -> int:
    return math.prod(typical(n, OPEN) for n in t.shape)


def _in_tiles(m: int, n: int, lanes: int, target: Target) -> float:
    """Cycles of an iteration of the sum for ``m × n`` results."""
    table = cost_of(target) if 2 * n <= lanes else cost_of(target).of_whole
    tile = tile_for(m, n, lanes, target.vector_registers, table, masks=target.has_masks, whole=True)
    return time_of(m, n, *tile, lanes, table)


def _laid_out(s: Schedule, stage: Stage, c: Contraction, p: _Plan, out: Stage | None) -> AsMatrices:
    """Copies and the result in the order of the plan, each dimension by itself: such a copy is tiles that are
    transposed, and one that counts several as one would gather its elements. Then the axes of each group are
    next to each other, and counted as one where they are."""
    op, copies, views = stage.op, list[Stage](), list[Stage]()
    assert isinstance(op, ComputeOp)
    for side, (tensor, places, _) in enumerate(c.sides):
        mine, read = [places[a] for a in p.groups[side]], tensor
        if side in p.copied:
            copy = s[s.cache_read(tensor, "global", [stage.name])]
            order = _order(op, c, p, side)
            copy.transform_layout(lambda *at, order=order: [at[d] for d in order])
            copies.append(copy)
            mine, read = [order.index(d) for d in mine], copy.op.outputs[0]
        if len(mine) > 1:
            view = s[s.cache_read(read, "global", [stage.name])]
            one = (mine, [size(a) or 1 for a in p.groups[side]])
            view.transform_layout(where_they_are(len(tensor.shape), [one]))
            views.append(view)
    at = {a: d for d, a in enumerate(op.axis)}
    if p.back:
        stage, back = _written_back(s, stage)
        order = [at[a] for a in _back(op, c, p)]
        stage.transform_layout(lambda *at: [at[d] for d in order])
        copies += back
        at, out = {a: order.index(d) for a, d in at.items()}, None
    groups = [([at[a] for a in g], [size(a) or 1 for a in g]) for g in p.groups]
    inside = stage if out is not None else s[s.cache_write(stage.name, "local")]
    inside.transform_layout(where_they_are(len(op.axis), groups))
    return AsMatrices(inside, out or stage, copies, views)


def _back(op: ComputeOp, c: Contraction, p: _Plan) -> list[IterVar]:
    """The axes in the order in which the result is computed: the columns last, the rows where the last of
    those is that the left operand has, others as in the result."""
    rows, columns, left = p.groups[1 - p.right], p.groups[p.right], c.sides[1 - p.right][2]
    found = [a for a in op.axis if a not in columns and a not in rows]
    at = next((d for d in range(len(found), 0, -1) if found[d - 1] in left), None)
    if at is None and rows:
        # no other rows: where the first of them is
        at = sum(a not in columns for a in op.axis[: min(op.axis.index(a) for a in rows)])
    return [*found[:at], *rows, *found[at:], *columns] if rows else [*found, *columns]


def _order(op: ComputeOp, c: Contraction, p: _Plan, side: int) -> list[int]:
    """The dimensions of a tensor in the order of its copy: the columns behind the others, of which each is
    where it was in the larger tensor; else what is summed in the order in which the other one has it, which
    is read where it lies."""
    _, places, own = c.sides[side]
    group = p.groups[side]
    other = {} if 1 - side in p.copied else c.sides[1 - side][1]
    if side == p.right and (not other or _elements(list(places)) >= _elements(list(other))):
        front = sorted((a for a in places if a not in group), key=lambda a: places[a])
        return [places[a] for a in (*front, *group)]
    sums = sorted(op.reduce_axis, key=lambda a: other.get(a, 0))
    if side == p.right:
        return [places[a] for a in (*c.both, *(a for a in own if a not in group), *sums, *group)]
    return [places[a] for a in (*c.both, *(a for a in own if a not in group), *group, *sums)]


def _written_back(s: Schedule, stage: Stage) -> tuple[Stage, list[Stage]]:
    """A stage that may lie in another layout, and the copy in its own where somebody wants it so."""
    return (s[s.cache_write(stage.name, "global")], [stage]) if stage.state.is_output else (stage, [])


def _layout(
    front: Sequence[Sequence[int]], together: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Callable[..., list[Any]]:
    """Some dimensions as they are, then those of each group as one."""

    def layout(*at: Any) -> list[Any]:
        one = [i for dims, sizes in together if dims for i in counted([at[d] for d in dims], sizes)]
        return [*(at[d] for ds in front for d in ds), *one]

    return layout
