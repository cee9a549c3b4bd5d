"""Rows of a few elements, as the colours of a pixel or the coordinates of a point, and small matrices: whole
ones side by side in a vector, as many as fill registers. What a row has one of is spread over its elements in
registers, and what a column has one of is a vector of its own. Uses public primitives only.

A vector of one row leaves most lanes empty, and is written under a mask. Measured (Zen 4, one thread; AVX2
alike), three colours of 480 × 640: bytes less a mean 0.12 of the time, two images blended 0.13, colours
turned 0.08, cross products of points 0.12; in the caches rows of 2 to 10 floats 0.5 to 0.9, of 12 to 15 1.0
(turned 1.4), exponentials 0.27 to 0.7, bytes 0.1 to 0.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import (
    MOST_ALIKE,
    constant,
    cost_of,
    cut_within,
    period,
    read_alike,
    reads_of,
    reducer_kind,
    step,
    told_by_data,
    typical,
    uneven_over,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Expr, IterVar, Tensor
from .choices import at_most
from .common import in_registers, plain_work, share_out, size, work

MOST = 7  # registers that rows of an odd number of elements fill
MOST_OF_MATRICES = 9  # the same of small matrices
MOST_OF_BLOCK = 8  # the same of rows that fill them nearly
FAR = 2.5  # times their elements, what lies from one to the next of rows that are loaded together
DEEP, WIDE, LEAST = 4, 6, 8  # elements of a row that a small matrix takes and gives, and rows together
# parts for each thread, from which on the loops outside of rows are enough: places of a loop made of more are
# divided again and again
FEW_SHARES = 8
MOST_KNOWN = 192  # vectors that are written out
OPEN = 64  # rows that an open number counts as


def rows_of(stage: Stage, target: Target) -> int | None:
    """How many rows of an elementwise stage fill registers; None where a row does by itself, where there are
    too few, or where columns, or places that are data, are what lies side by side."""
    if len(stage.op.axis) < 2:
        return None
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    *_, row, column = stage.op.axis
    rows = filling(size(column), lanes)
    if rows is None or any(_lies_across(at, row, [column]) for _, at in reads_of(stage.op).plain):
        return None
    if _number(stage, row) < rows or _few_far(stage, rows):
        return None
    known = rows % read_alike(stage.op, row) == 0 or _written_out(stage, rows, 1, target) > 0
    return rows if known else None


def _few_far(stage: Stage, rows: int) -> bool:
    """Whether a call tells that rows are fewer, again and again, of some that lie far apart: each lane of the
    mostly empty vectors is a load. Measured (Zen 5, one thread), an open number of 1000 × 5 floats with its
    first axes exchanged: of one 15.5 → 1.1 µs, of 7 × 100 bytes 7.9 → 0.8."""
    *front, row, column = stage.op.axis
    if size(row) is not None or all(size(a) == 1 for a in front):
        return False
    far = any(_far(tensor, at, row, size(column) or 1) for tensor, at in reads_of(stage.op).plain)
    return far and at_most(row.extent, rows - 1)


def _number(stage: Stage, row: IterVar) -> int:
    """Of the rows that are read one after the other."""
    return _again(stage, row) or typical(row.extent, OPEN)


def _again(stage: Stage, row: IterVar) -> int | None:
    """After how many rows the same are read again, as of a tensor that is repeated as a whole, where those
    are not few."""
    each, n = period(stage.op, row), size(row)
    return each if each is not None and n is not None and MOST_ALIKE < each < n and n % each == 0 else None


def filling(n: int | None, lanes: int) -> int | None:
    """How many rows of ``n`` elements fill registers; None where one does by itself, and where it takes many
    registers."""
    if n is None or not 2 <= n < lanes:
        return None
    rows = lanes // math.gcd(n, lanes)
    return rows if rows * n <= MOST * lanes else None


def _lies_across(at: Sequence[Expr], row: IterVar, columns: Sequence[IterVar]) -> bool:
    """Whether columns, or places that are data, are what lies side by side in a read."""
    if told_by_data(at):
        return True
    return bool(at) and step(at[-1], row) != 0 and any(step(i, c) != 0 for i in at[:-1] for c in columns)


def matrices_of(stage: Stage, target: Target) -> tuple[int, int] | None:
    """How many small matrices of an elementwise stage fill registers, as rotations of 3 × 3, which have too
    few rows for that, and of how many of the last axes each is; None where there are none.

    Measured (Zen 4, one thread, AVX2 in brackets), 20,000 of 3 × 3: transposed 0.31 (0.35) of the time of
    vectors of a row, outer products 0.36 (0.41), minors 0.13 (0.22), of vectors that are crossed 0.05 (0.06),
    of quaternions 0.19 (0.23).
    """
    axes, lanes = stage.op.axis, target.vector_lanes(stage.op.body[0].dtype)
    n = size(axes[-1]) or lanes
    if n >= lanes:
        return None
    for behind in range(2, len(axes)):
        n *= size(axes[-behind]) or OPEN
        rows = lanes // math.gcd(n, lanes)
        if rows * n > MOST_OF_MATRICES * lanes or rows % read_alike(stage.op, axes[-behind - 1]):
            return None
        if _number(stage, axes[-behind - 1]) >= rows:
            own = axes[-behind:]
            apart = any(_lies_across(at, axes[-behind - 1], own) for _, at in reads_of(stage.op).plain)
            return (rows, behind) if rows > 1 and not apart else None
    return None


def block_of(stage: Stage, target: Target) -> tuple[int, int] | None:
    """How many rows, or small matrices, of an elementwise stage nearly fill registers, and of how many of the
    last axes each is, where none fill them, or there are too few for that; None where nothing is gained.

    Measured (Zen 4, one thread): rows of 9 to 31 bytes, the last column doubled, 0.03 to 0.06 of the time, of
    9 to 13 that are rolled in their images 0.2 to 0.4, two arrays of 31 columns interleaved 0.07.
    """
    axes, lanes, n = stage.op.axis, target.vector_lanes(stage.op.body[0].dtype), 1
    for behind in range(1, len(axes)):
        n *= size(axes[-behind]) or lanes
        row = axes[-behind - 1]
        if n >= lanes:
            return None
        most = min(_number(stage, row), MOST_OF_BLOCK * lanes // n)
        unit = read_alike(stage.op, row)
        least = -(-lanes // (n * unit)) * unit
        found = [(-(-rows * n // lanes) / (rows * n), rows) for rows in range(least, most + 1, unit)]
        if found:
            own = axes[-behind:]
            cut, around = cut_within(stage.op, row)
            around = around and _again(stage, row) is None and not target.has_masks
            apart = any(
                _lies_across(at, row, own) or _far(tensor, at, row, n)
                for tensor, at in reads_of(stage.op).plain
            )
            return None if apart or cut or around else (min(found)[1], behind)
    return None


def _written_out(stage: Stage, rows: int, behind: int, target: Target) -> int:
    """How many blocks of so many rows to write out, so that the places of their lanes are numbers, of an
    image in another size with the colours of a pixel side by side; 0 where they are known anyway, and where
    too many were to be written.

    Measured (Zen 4, one thread; AVX2 in brackets), colours last, to 0.44 to 2.9 times their width: bytes, the
    nearest 0.04 to 0.06 (0.05), linear 0.14 to 0.44 (0.35 to 0.53), floats, linear, 0.3 to 0.4 (0.42).
    """
    *front, row = stage.op.axis[:-behind]
    n, again = size(row), uneven_over(stage.op, row)
    if n is None or rows % again == 0 or not _enough(front, stage, target):
        return 0
    each = math.prod(size(a) or 1 for a in stage.op.axis[-behind:])
    vectors = -(-rows * each // target.vector_lanes(stage.op.body[0].dtype))
    for blocks in (-(-n // rows), math.lcm(again, rows) // rows):
        if blocks * vectors <= MOST_KNOWN:
            return blocks
    return 0


def _enough(front: Sequence[IterVar], stage: Stage, target: Target) -> bool:
    """Whether the loops outside of rows are enough for the threads."""
    parts = math.prod(typical(a.extent, OPEN) for a in front)
    return parts >= FEW_SHARES * target.num_cores or not cost_of(target).shared(plain_work(stage))


def _far(tensor: Tensor, at: Sequence[Expr], row: IterVar, n: int) -> bool:
    """Whether rows of ``n`` elements lie so far apart that a vector of them would be gathered, or picked out
    of many."""
    apart = (
        abs(step(i, row) or 1) * math.prod(constant(k) or n for k in tensor.shape[d + 1 :])
        for d, i in enumerate(at)
        if step(i, row) != 0
    )
    return any(elements > FAR * n for elements in apart)


def elements(stage: Stage, rows: int, behind: int, target: Target) -> None:
    """Compute so many rows of an elementwise stage in a vector, or matrices, each of the last axes. Where
    they do not fill registers, the last vector overlaps the one before."""
    *front, row = stage.op.axis[:-behind]
    own, lanes = stage.op.axis[-behind:], target.vector_lanes(stage.op.body[0].dtype)
    known = _written_out(stage, rows, behind, target)
    outer, inner = share_rows(stage, front, row, rows, plain_work(stage), target, _again(stage, row))
    if known > 1:
        _, some = stage.split(outer, known)
        stage.unroll(some)
    block, n = stage.fuse(inner, *own), rows * math.prod(size(a) or 1 for a in own)
    if n > lanes and n % lanes:
        vectors, block = stage.split(block, lanes, tail="shift")
        stage.unroll(vectors)
    stage.vectorize(block)


def share_rows(
    stage: Stage,
    front: Sequence[IterVar],
    row: IterVar,
    rows: int,
    iterations: int,
    target: Target,
    again: int | None = None,
) -> tuple[IterVar, IterVar]:
    """The loop over so many ``rows``, and the loop of those, behind the axes ``front``: shared out among
    threads where there is work for them. A rest is rows that overlap those before, where it may be. After
    ``again`` of them the same are read again."""
    own, several = list(front), any(size(a) != 1 for a in front) or again is not None
    n, shared = again or size(row), cost_of(target).shared(iterations)
    if again is not None:
        times, row = stage.split(row, again)
        front = [*front, times]
    tail = "auto" if n is not None and n % rows == 0 else "peel" if shared and not several else "shift"
    outer, inner = stage.split(row, rows, tail=tail)
    many = not several or math.prod(typical(a.extent, OPEN) for a in own) < FEW_SHARES * target.num_cores
    loops = [*front, outer] if many and (tail == "auto" or not several) else list(front)
    share = share_out(stage, loops, iterations, target)
    return (share if share is not None and outer in loops else outer), inner


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` multiplies short rows by a small matrix, as colours, points and vertices are turned,
    or reduces them otherwise with the same for all rows: an element of a row is spread over the results that
    it adds to.

    Measured (Zen 4, one thread), 20,000 rows of 2, 3 and 4 elements by 2 to 6 columns, beside tiles of rows:
    0.5 to 0.7, 0.45 to 0.75 and 0.7 to 0.9 of the time; of 5 and 6 elements 0.75 to 0.95, of 8 1.2 to 1.4;
    three colours of 480 × 640 bytes 0.28. Where each row has a matrix of its own, beside a row at a time
    (AVX2 in brackets): 20,000 of 3 × 3 0.10 (0.34), transposed 0.8 (0.74), of 2 × 2 0.3, of 4 × 4 0.55 (1.6,
    which is left), transposed 1.2, which is left (0.94).
    """
    op = inside.op
    if reducer_kind(op) in (None, "custom") or len(op.body) != 1 or len(op.axis) < 2:
        return False
    deep = math.prod(size(a) or DEEP + 1 for a in op.reduce_axis)
    *front, row, column = op.axis
    if not 2 <= deep <= DEEP or not 2 <= (size(column) or 0) <= WIDE or rows_of(inside, target) is None:
        return False
    found = False
    for tensor, at in reads_of(op).plain:
        moved = [d for d, i in enumerate(at) if step(i, row) != 0]
        if any(step(i, a) != 0 for i in at for a in front) and not moved:
            return False
        if moved:
            behind = math.prod(constant(n) or DEEP + 1 for n in tensor.shape[moved[0] + 1 :])
            spread = all(step(i, column) == 0 for i in at)
            most = DEEP
            if not spread:  # a matrix of each row's own
                near = deep < DEEP or target.has_masks != (step(at[-1], column) == 1)
                most = deep * (size(column) or 0) if near else 0
            if len(moved) > 1 or step(at[moved[0]], row) != 1 or behind > most:
                return False
            found = found or spread
    return found


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in vectors of whole rows of ``out``, which has its shape and reads it at its own
    place."""
    *front, row, column = out.op.axis
    rows = max(LEAST, rows_of(inside, target) or 1)
    outer, inner = share_rows(out, front, row, rows, work(inside), target)
    out.vectorize(out.fuse(inner, column))
    inside.compute_at(out, outer)
    in_registers(s, inside)
    inside.reorder(*inside.op.reduce_axis, *inside.op.axis)
    inside.vectorize(inside.fuse(*inside.op.axis[-2:]))
    for a in inside.op.reduce_axis:
        inside.unroll(a)
