"""Sums of products of 8- and 16-bit integers, before anything else is scheduled: zero points are taken apart,
and where a processor sums products of uint8 and int8 in fours, one of two operands of one sign is turned to
the other. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import (
    Product,
    constant,
    cost_of,
    parts_of,
    product_of,
    reads_of,
    sums_columns,
    typical,
    windows_of,
)
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Operation, Tensor
from .common import PAGE, is_known, share_out, size, work
from .inlining import reduction_to_fuse
from .lanes import vector_width
from .nests import Axes, Cut, nest, sums

# products that read the same element of one operand and of the other, and terms of a sum, from which on it
# pays: sums of the one and a copy of the other cost as much as so few gain. Measured (Zen 4, one thread):
# int8, 512 × 512 × 512 0.51 of the time, 64 × 64 × 64 0.57, 768 × 768 × 16 0.55, 16 × 768 × 768 0.65 (a
# constant on the right 0.51), 4 × 768 × 768 0.77; convolutions 0.50 to 0.65, of three channels, these last,
# 0.77 to 1.03
ROWS, COLUMNS, TERMS = 4, 16, 16
FOUR = 4  # products that one instruction sums
# the same of a product that mixes lines, whose sums of columns come with it (``mixed_lines``), in one thread;
# one row has them where there is a zero point anyway, and threads, which have a cache each. Measured (Zen 5),
# uint8 with a zero point by int8: 1 × 768 × 768 0.43 to 0.77 of the time, 1 × 2000 × 500 0.7, 2 × 768 × 768
# 0.6, 3 × 300 × 2000 0.29; int8: 2 × 768 × 768 0.36 to 0.7, 3 × 1000 × 1400 0.55, 1 × 768 × 768 1.12, on two
# threads 0.86, 1 × 1000 × 1400 1.15 and 0.61; 1 × 4000 × 3992 of uint8 by int8 1.40 and 0.82
MIXED_ROWS = 2
WIDE = 32  # columns of a tile that mixes lines, whose four bytes each are two registers
DEPTH = 64  # terms of a sum whose lines are mixed, at least
# in how many places of a page lines begin that lie as far from each other as a row is long, at least: the
# first cache has room for few in each. Measured (Zen 5): 8 × 1024 × 1024 1.15 of the time, 8 × 768 × 1536
# 1.04, 8 × 768 × 3072 1.33, 16 × 512 × 2048 1.54
PLACES = 16
MOST_PANELS = 4  # whose columns are summed up together
OPEN = 64  # what an open size counts as
LITTLE = 16  # times the terms of a sum that another one beside it has, which alone is worth much code


def begin_integers(s: Schedule, target: Target, constants: Sequence[Tensor] = ()) -> None:
    """Zero points apart, and an operand of each product of one sign turned, where that takes less time: what
    is made of ``constants`` alone takes none."""
    for stage in s.stages:
        if splits(s, stage, target, constants):
            s.split_sum(stage.name)
    for stage in s.stages:
        operand = operand_to_turn(s, stage, target, constants)
        if operand is not None:
            s.turn_sign(stage.name, operand)


def lines_mix(op: ComputeOp, target: Target) -> bool:
    """Whether ``op``, a product of two operands or of differences of them, by bytes that are given at the
    call, has a form whose lines are mixed in registers (``mixed_lines``)."""
    if len(op.axis) != 2 or len(op.reduce_axis) != 1 or not target.mixes_bytes:
        return False
    (row, column), (over,) = op.axis, op.reduce_axis
    m, n, depth = (size(a) for a in (row, column, over))
    if m is None or n is None or depth is None:
        return False
    # the elements of a row that are multiplied together are neighbours, and so are those of a line
    near = all(reads_of(op).along(a) for a in (column, over))
    apart = PAGE // math.gcd(n, PAGE) >= PLACES
    most = cost_of(target).mixed_rows
    return near and n >= WIDE and depth >= DEPTH and apart and most > 1 and m <= most


def fewest_mixed(s: Schedule, op: ComputeOp, product: Product, target: Target) -> int:
    """The fewest rows of a product whose lines are mixed."""
    readers = (st.op for st in s.state.readers(s.state.of(product.right).name))
    has_sums = any(isinstance(o, ComputeOp) and o is not op and sums_columns(o, product) for o in readers)
    return 1 if has_sums or target.num_cores > 1 else MIXED_ROWS


def splits(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor] = ()) -> bool:
    """Whether a stage sums differences of narrow integers that are better taken apart."""
    parts = parts_of(stage.op) if isinstance(stage.op, ComputeOp) else None
    if parts is None or not parts[0].is_narrow:
        return False
    main, others = parts
    taken = [p for p in others if not all(is_known(t, constants) for t in p.reads)]
    rows = 1 if lines_mix(stage.op, target) else ROWS
    return all(rows * p.results <= main.results for p in taken) and bool(s.can("split_sum", stage.name))


def is_little(s: Schedule, stage: Stage) -> bool:
    """Whether what reads a sum reads another of many more terms too, as that of a product is beside the sums
    of its columns, which its zero point is multiplied with."""
    beside = [_terms(t.op) for r in s.state.readers(stage.name) for t in r.op.input_tensors]
    return LITTLE * _terms(stage.op) <= max(beside, default=0)


def takes_rows_away(s: Schedule, stage: Stage) -> bool:
    """Whether a stage takes sums of the rows of an operand away from a product of bytes, for the zero point
    of the other operand: it is finished in its tiles, as by the sums of columns, and not row by row, once all
    of it is written.

    Measured (Zen 5, one thread), with sums of panels: uint8 with zero points on both sides, 16 × 768 × 768
    0.92 of the time, 128 × 256 × 256 0.96, 512 × 512 × 512 0.97, 64 × 64 × 64 0.91.
    """
    inside = reduction_to_fuse(s, stage)
    product = None if inside is None else product_of(inside.op)
    if product is None or not product.narrow:
        return False
    beside = [s[s.state.of(t).name] for t in stage.op.input_tensors]
    return all(
        is_little(s, st) or st.name == inside.name  # type: ignore[union-attr]
        for st in beside
        if isinstance(st.op, ComputeOp) and st.op.reduce_axis
    )


def _terms(op: Operation) -> int:
    """How many terms are summed up, for all results."""
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        return 0
    return math.prod(typical(a.extent, OPEN) for a in (*op.axis, *op.reduce_axis))


def operand_to_turn(
    s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor] = ()
) -> str | None:
    """Of a product of one sign the left operand, of a convolution the image, where it takes less time by the
    other sign; for few rows the right operand, if it is one of ``constants``; None for all else."""
    op = stage.op
    if not target.summed(4) or target.has_tiles or not isinstance(op, ComputeOp) or not op.reduce_axis:
        return None
    operand = _read_again(s, op, target, constants)
    return operand.name if operand is not None and s.can("turn_sign", stage.name, operand.name) else None


def _read_again(s: Schedule, op: ComputeOp, target: Target, constants: Sequence[Tensor]) -> Tensor | None:
    """The left operand or the image, if each element is read often enough and has the sign of the other; a
    right operand that is known is turned ahead of the call.

    Measured (Zen 5, one thread), uint8 by constants of uint8: 1 × 2028 × 1350 0.45 of the time."""
    product, window = product_of(op), windows_of(op)
    if product is not None:
        left, right, axes = product.left, product.right, set(product.right_axes)
    elif window is not None:
        left, right, axes = window.data, window.weight, {window.outputs}
    else:
        return None
    count = lambda of: math.prod(typical(a.extent, OPEN) for a in of)
    rows, columns = count(a for a in op.axis if a not in axes), count(a for a in op.axis if a in axes)
    if left.dtype != right.dtype or left.dtype.name not in ("int8", "uint8"):
        return None
    if columns < COLUMNS or count(op.reduce_axis) < TERMS:
        return None
    if rows >= ROWS:
        return left
    if product is None:
        return None
    if is_known(right, constants):
        return right
    return left if lines_mix(op, target) and rows >= fewest_mixed(s, op, product, target) else None


def sums_beside(s: Schedule, out: Stage, inside: Stage, product: Product, together: int) -> Stage | None:
    """The sums of the right operand's columns that ``out`` takes away from the product ``inside`` for a zero
    point, where the operand is packed in fours, which the sums can read; None where there are none."""
    # the last four of a panel are filled with zeros only behind the end of the operand, not of a part of it
    whole = all(
        a.dom is not None and constant(a.dom.min) == 0 and a.extent is product.right.shape[d]
        for a, d in product.right_axes.items()
        if a.kind == "reduce"
    )
    if together < FOUR or not whole:
        return None
    for st in s.state.readers(s.state.of(product.right).name):
        alone = not (st.is_output or st.attach or st.relations) and isinstance(st.op, ComputeOp)
        if alone and st.name != inside.name and sums_columns(st.compute, product):
            return s[st.name] if [r.name for r in s.state.readers(st.name)] == [out.name] else None
    return None


def sum_panels(
    s: Schedule,
    stage: Stage,
    out: Stage,
    place: IterVar | None,
    width: int,
    panels: int | None,
    target: Target,
    tail: str = "zeros",
) -> None:
    """Compute sums of columns from panels of fours, each so many columns wide, behind the copy, in the loop
    ``place`` of ``out`` or at the root: an instruction for each vector of a panel. A few at a time of so many
    ``panels`` as a block has, for each addition waits for the one before; None are all columns. ``tail`` says
    what is behind the last term: zeros of a panel, or nothing where lines are read as they lie.

    Measured (Zen 5, one thread), where sums of the bytes as they lie were a pass of their own: int8, 16 × 768
    × 768 0.90 of the time, 8 × 768 × 768 0.90, 128 × 768 × 3072 0.97, 512 × 512 × 512 0.99.
    """
    some, n = MOST_PANELS, size(stage.op.axis[-1])
    panels = -(-n // width) if panels is None and n is not None else panels
    if panels is not None:
        some = next(n for n in range(min(MOST_PANELS, panels), 0, -1) if panels % n == 0)
    if place is not None:
        stage.compute_at(out, place)
    made = s[s.cache_write(stage.name, "local")]
    whole = width if target.has_masks else 0
    (*batch, column), cuts = stage.op.axis, {"j": some * width, "ji": width}
    loops = nest(stage, {"b": batch, "j": column}, "b jo | jio jii", cuts, whole=whole)
    (*batch, column), (*others, last) = made.op.axis, made.op.reduce_axis
    named: Axes = {"b": batch, "k": others, "p": last, "j": column}
    # a panel holds whole fours, the last filled with zeros
    fours: dict[str, Cut | None] = {"p": (FOUR, tail), "j": width}
    sums(s, made, stage, loops.place, named, "b k po | jo pi ji", fours, whole=whole)
    if place is None:
        share_out(stage, [loops.around[0]], work(stage) // 16, target)


def turn_as_packed(s: Schedule, operand: Tensor, copy: Stage) -> None:
    """Let a right operand of bytes that is turned to the other sign be turned where its panels are filled, if
    nothing else reads it.

    Measured (Zen 5, one thread): uint8 with zero points on both sides, 16 × 768 × 768 0.76 of the time, 128 ×
    256 × 256 0.97, 512 × 512 × 512 0.99.
    """
    made = s.state.of(operand)
    turned = isinstance(made.op, ComputeOp) and made.op.tag == tags.LINES and operand.dtype.bytes == 1
    alone = [r.name for r in s.state.readers(made.name)] == [copy.name]
    if turned and alone and not made.relations and s.can("compute_inline", made.name):
        s[made.name].compute_inline()


def turn_in(s: Schedule, out: Stage, inside: Stage, product: Product, place: IterVar, target: Target) -> None:
    """Let each thread turn the left operand for itself, in ``place``, the loop that threads share, which has
    an iteration for each, where the operand stays near. One that all of them turn together waits for the
    last, and half of it comes out of the cache of another core.

    Measured (Zen 4, two threads), 256 × 256 × 256: 0.78 of the time, with what ``slabs`` leaves alone.
    """
    made = s.state.of(product.left)
    op = made.op
    if not isinstance(op, ComputeOp) or not op.axis:
        return
    sizes = [size(a) for a in op.axis]
    alone = made.attach is None and not made.is_output and not op.reduce_axis
    alone = alone and [r.name for r in s.state.readers(made.name)] == [inside.name]
    near = None not in sizes and math.prod(n or 0 for n in sizes) <= target.l2_bytes // 4
    if not alone or not near or op.body[0].dtype.bytes > 1:
        return
    stage = s[made.name]
    last = op.axis[-1]
    stage.compute_at(out, place)
    stage.vectorize(stage.split(last, vector_width(stage, sizes[-1], target))[1])
