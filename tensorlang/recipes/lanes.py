"""Reductions that run along memory: partial results in vector lanes, combined at the end; a few long rows are
first divided among the threads; products of that kind, and when they are worth a copy of their right operand.
How wide elementwise loops are. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import (
    Product,
    cost_of,
    has_calls,
    joins,
    made_of_place,
    moves_pieces,
    product_of,
    reads_neighbours,
    reads_of,
    reducer_kind,
    step,
    transposed,
    typical,
    worth_a_thread,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar
from . import first_places, histograms, searches
from .across import laid_along, moves_along
from .as_one import elements_of, one_stretch, summed_along
from .choices import at_most, bound
from .common import FEW_REGISTERS, PACKED_ROWS, ask_for_rows, in_registers, share_out, size, work
from .copies import transpose_in_tiles
from .nests import Axes, nest, sums
from .open_rows import FEW_REDUCED, elements_at_most
from .register_tile import Tile, column, lane_tile, tile_for
from .written_out import repeats, write_out

FEW_PARTS = 4  # that are written out
FEW_STRETCHES = 8  # for each thread, below which their vectors are shared out and not they
VECTORS = 4  # side by side: as many chains of operations, of which each waits for the one before
# iterations of a short row that leaves a rest, which are written out: the masks of the last one are constants
# then, and not computed in each. Measured (Emerald Rapids) with the ends of elementwise loops apart: softmax
# of rows of 197 takes 0.83 of the time, of 321 0.78, of 100 0.85
MOST_WRITTEN_OUT = 8
# elements of a row from which on a masked vector of them is added up. Measured (Emerald Rapids), rows of 9
# and 12 floats: sums take a third of the time, softmax 0.7 and 0.6
FEWEST = 8
FEWER = 2  # times fewer vectors, where short rows that are one stretch are taken as one
# rows of a tile of sums along memory where a call tells how many there are: it has code for each number of
# them. Measured (Zen 4), open × 256 × 4, 1000 rows: tiles of one row 27.9 µs, of two 21.9, of four 19.9
OPEN_HIGH = 4
# rows from which on those that are read again for each tile of columns no longer come ahead of their use.
# Measured (Zen 4), a right operand that lies column by column: 12 × 512 × 512 0.38 of the time of a copy, 11
# × 911 × 658 0.70, 10 × 658 × 53 0.36, 24 × 512 × 512 0.56, 30 × 400 × 252 0.87; 40 × 300 × 300 0.95
MOST_AHEAD = 2 * PACKED_ROWS
NEAR_STEPS = (-1, 2, 3, 4)  # between elements of which vectors are put together
OPEN_ROWS = (8, 16, 32, 64, 128)  # from one of which on they pay, as the table of costs says


def reduce_in_lanes(s: Schedule, stage: Stage, target: Target) -> bool:
    """Partial results in vector lanes, for a reduction whose innermost axis runs along memory. Whether it was
    done."""
    op = stage.op
    last = op.reduce_axis[-1]
    if reducer_kind(op) in (None, "custom") or not _reads_near(op, last):
        return False
    together = one_stretch(op, op.reduce_axis)
    n = elements_of(together)
    least = _narrowest(stage, n if len(together) > 1 else size(last), target)
    lanes = least if not together and size(last) is None else least * VECTORS  # a window is short
    if len(together) < 2 or _in_rows(n, size(last), least, len(together) == len(op.reduce_axis)):
        together, n = [last], size(last)
    places = len(together) == len(op.reduce_axis) and first_places.applies(stage, n, target)
    extreme = n is None and first_places.extreme_of(s, stage, target)
    if size(last) is None and len(together) == len(op.reduce_axis) == 1 and target.has_masks:
        looks = places or extreme
        short = first_places.one_vector(stage, target) if looks else least
        most = elements_at_most(last, short, (1,) if looks else FEW_REDUCED)
        if most is not None:
            _few_vectors(s, stage, last, most, short, target)
            return True
    few = extreme and len(op.reduce_axis) == 1 and at_most(last.extent, first_places.FEW * least)
    if places:
        row = stage.fuse(*together) if len(together) > 1 else last
        first_places.search(s, stage, row, n, target)
        return True
    again = histograms.asked_again(stage, together, n, target)
    if again is not None:
        return histograms.apply(s, stage, together, n, *again, target)
    if n is not None and 1 < n <= lanes and len(op.reduce_axis) > len(together) == 1:
        inner = last  # short rows: a lane for each place, and no masks
    else:
        while n is not None and lanes > least and n < 2 * lanes:
            lanes //= 2
        if n is not None and n < lanes:
            return _all_lanes(s, stage, together, n, lanes, target)
        lanes = min(lanes, least * first_places.SIDE) if few else lanes
        vectors, inner = stage.split(stage.fuse(*together) if len(together) > 1 else last, lanes)
        if stage.state.attach is None and len(together) == len(op.reduce_axis) and searches.applies(op, n):
            stage, inner = searches.by_block(s, stage, vectors, lanes, target)
    if s.can("rfactor", stage.name, inner):
        _add_up(s, stage, inner, n, lanes, target)
    return True


def _reads_near(op: ComputeOp, axis: IterVar) -> bool:
    """Whether some read runs through memory as ``axis`` advances, or backwards, or picks every second, third
    or fourth element, which vectors are put together of. Measured (Zen 5, one thread): sums of 512 rows of
    768 from the last to the first 0.09 of the time, of every second element 0.15."""
    reads = reads_of(op)
    return reads.along(axis) or any(moves_along(at, axis, NEAR_STEPS) for _, at in reads.plain)


def _narrowest(stage: Stage, n: int | None, target: Target) -> int:
    """Lanes of the shortest vectors that rows of ``n`` are reduced in: of bytes, which fill less than half of
    a vector, fewer than it has. Measured (Zen 4, two threads): sums of rows of 16 bytes take 0.12 of the
    time, of 20 0.17, of 31 0.11, their largest 0.05, which were summed one by one."""
    kind = stage.op.body[0].dtype
    lanes = target.vector_lanes(kind)
    if n is None or n >= lanes or kind.bytes > 1:
        return lanes
    some = max(FEWEST, 1 << (n.bit_length() - 1))
    return some if target.has_masks or n % some == 0 else lanes


def _add_up(s: Schedule, stage: Stage, inner: IterVar, n: int | None, lanes: int, target: Target) -> None:
    """Reduce in vectors along ``inner``, the so many lanes of a row of ``n``, and then these."""
    partial = s[s.rfactor(stage.name, inner)]
    axes = list(stage.op.axis)
    root = stage.state.attach is None
    if root:
        ask_for_rows(partial, n if axes else None, target)
    if root and len(axes) > 1:
        axes = [stage.fuse(*axes)]
    partial.reorder(*partial.op.axis[1:], *partial.op.reduce_axis, partial.op.axis[0])
    partial.vectorize(partial.op.axis[0])
    vectors = partial.op.reduce_axis[-1]
    few = size(vectors) is not None if n is None else lanes < n <= MOST_WRITTEN_OUT * lanes and n % lanes
    if few:
        partial.unroll(vectors)
    if axes:
        partial.compute_at(stage, axes[-1])
        partial.set_scope("local")
    combined = stage.op.reduce_axis[0]
    stage.vectorize(combined)
    if axes and root:
        share_out(stage, axes, work(partial), target)


def _in_rows(n: int | None, last: int | None, lanes: int, all_of_it: bool) -> bool:
    """Whether rows of ``last`` elements are reduced by themselves, and not all ``n`` of several that are one
    stretch: where these are not much fewer vectors. What is no more than one vector is ``all_of_it``, all
    that is reduced."""
    if n is None or last is None or n >= 2 * lanes:
        return False
    return (n < lanes and not (all_of_it and _fills(n, lanes))) or FEWER * -(-n // lanes) > n // last


def _few_vectors(s: Schedule, stage: Stage, row: IterVar, most: int, lanes: int, target: Target) -> None:
    """Rows of an open length that a few vectors of so many lanes hold, each masked, which are added up
    without a loop over them. The masks are the same for all rows. Measured (Zen 5, one thread, 1000 rows of
    13 floats): sums 3.2 → 1.0 µs, the largest 6.8 → 1.6, softmax 24 → 8.7, layer norm 21 → 5.0."""
    _, inner = stage.split(row, most, tail="mask")
    if most > lanes:
        # not as one vector: of a mask of several LLVM makes those of its parts again for each row. Measured
        # (Zen 5): softmax of 33 to 64 takes 0.78 of the time of vectors of 64, layer norm 0.7, sums 0.93
        _, inner = stage.split(inner, lanes)
        _add_up(s, stage, inner, None, lanes, target)
        return
    stage.vectorize(inner)
    if stage.op.axis and stage.state.attach is None:
        axes = list(stage.op.axis)
        share_out(stage, [stage.fuse(*axes)] if len(axes) > 1 else axes, work(stage), target)


def _fills(n: int, lanes: int) -> bool:
    """Whether so many elements are enough of a vector to be added up in one that is masked."""
    return n >= max(FEWEST, lanes // 2)


def _all_lanes(s: Schedule, stage: Stage, row: Sequence[IterVar], n: int, lanes: int, target: Target) -> bool:
    """A row that is less than a vector, in one that is masked and added up. Whether it was done: not for one
    that fills less than half of it."""
    op = stage.op
    if not _fills(n, lanes) or len(op.reduce_axis) > len(row) or not s.can("vectorize", stage.name, row[-1]):
        return False
    stage.vectorize(stage.fuse(*row) if len(row) > 1 else row[0])
    if op.axis and stage.state.attach is None:
        axes = list(op.axis)
        share_out(stage, [stage.fuse(*axes)] if len(axes) > 1 else axes, work(stage), target)
    return True


def apart_from_parts(stage: Stage, axes: list[IterVar], target: Target) -> list[IterVar]:
    """Those of ``axes`` that threads share: without the ones that tell of which tensor an element is, where
    there are enough others. Each part of them is a loop then, and no row asks for its own. Measured (Zen 4,
    one thread): 33, 129 and 7 rows of 19, joined 65 times, take 0.6 of the time."""
    if len(stage.op.input_tensors) < 2:
        return axes
    placed = made_of_place(stage.op)
    own = set(stage.op.axis)  # others are parts of one, which tell less
    first = next((d for d, a in enumerate(axes) if a not in own or a.var in placed), len(axes))
    rows = elements_of(axes[:first])
    return axes[:first] if rows is not None and rows >= FEW_STRETCHES * target.num_cores else axes


def parts_inside(stage: Stage, axes: list[IterVar]) -> list[IterVar]:
    """Those of ``axes``, the last the vectors of long stretches, that threads share: without the first where
    it has few iterations and alone tells which tensor elements are copied from, which are written out for
    each vector then, so that none divides its number and asks. Measured (Zen 5, one thread): two matrices of
    132 × 437 of int16 stacked take 0.6 of the time."""
    first = axes[0]
    if len(axes) != 2 or (size(first) or FEW_PARTS + 1) > FEW_PARTS or not joins(stage.op):
        return axes
    if first not in stage.op.axis or made_of_place(stage.op) != {first.var}:
        return axes
    stage.reorder(axes[1], first)
    stage.unroll(first)
    return axes[1:]


def lanes_of(depth: int | None, lanes: int) -> int:
    """Of how many lanes the sums along memory of that many elements are: half of a vector's where no rest is
    left then."""
    return lanes // 2 if depth is not None and depth % lanes and depth % (lanes // 2) == 0 else lanes


def sums_in_lanes(s: Schedule, inside: Stage, out: Stage, place: IterVar, keep: Axes, lanes: int) -> Stage:
    """Compute the product ``inside``, whose last reduced axes run along memory in both operands, in
    ``place`` of ``out``: each sum in the lanes of a register of its own, which are added up at the end.
    ``keep`` are its axes: ``b`` outside of the tile, ``i`` and ``j`` in it. Gives the stage of partial
    sums."""
    inside.compute_at(out, place)
    along = summed_along(inside.op)
    _, lane = inside.split(along[0] if len(along) == 1 else inside.fuse(*along), lanes)
    partial = s[s.rfactor(inside.name, lane)]
    partial.transform_layout(lambda at, *rest: [*rest, at])  # the lanes of a sum lie side by side
    own = dict(zip(inside.op.axis, partial.op.axis, strict=False))
    loops = {name: [own[a] for a in ([at] if isinstance(at, IterVar) else at)] for name, at in keep.items()}
    sums(
        s,
        partial,
        out,
        place,
        {**loops, "k": list(partial.op.reduce_axis), "l": partial.op.axis[-1]},
        "b k | i j l",
    )
    in_registers(s, inside)
    nest(inside, {**keep, "l": list(inside.op.reduce_axis)}, "b | i j l")
    return partial


def beside(inside: Stage, product: Product) -> list[IterVar]:
    """The axes of the result that are neither rows nor columns of a product."""
    return [a for a in inside.op.axis if a is not product.row and a is not product.column]


def rows_in_lanes(n: int | None, depth: int | None, element: int, lanes: int, target: Target) -> int:
    """Up to how many rows, one at a time, ``in_lanes`` holds, where that is few."""
    rows = range(PACKED_ROWS - 1, 0, -1)
    return next((m for m in rows if in_lanes(m, n, depth, element, lanes, target, 1)), 0)


def in_lanes(
    m: int | None, n: int | None, depth: int | None, element: int, lanes: int, target: Target, high: int = 0
) -> bool:
    """Whether sums along memory, whose lanes are added up for each element of the result, take less time than
    a transposed copy of the right operand, which a tile of rows and vectors reads: for ``m`` rows, ``n``
    columns, and a sum of ``depth`` of so many bytes each, in tiles of ``high`` rows, if that is not 0. Not
    where rows or depth are symbolic."""
    if m is None or depth is None or depth < lanes // 2:
        return False
    table = cost_of(target)
    ours = _time_in_lanes(m, n, depth, element, lanes, target, high)
    return ours < table.transposition + time_in_tiles(m, n, lanes, target)


def _rows_outside(m: int, n: int | None) -> bool:
    """Whether sums along memory of ``m`` rows are taken for all columns, then for the next rows: the larger
    operand is read once."""
    return n is not None and n < m


def _fold_of(wide: int, lanes: int, target: Target) -> float:
    """Cycles to add up the lanes of a sum, one of so many that are neighbours."""
    table = cost_of(target)
    if target.arch != "x86_64":
        return table.fold(lanes)
    # three move as four do
    fours, rest = divmod(wide, 4)
    ends = [0.0, table.fold(lanes), 2 * table.fold_of_two(lanes), 4 * table.fold_of_four(lanes)][rest]
    return (4 * fours * table.fold_of_four(lanes) + ends) / wide


def tile_in_lanes(m: int | None, n: int | None, depth: int | None, lanes: int, target: Target) -> Tile:
    """The tile of sums along memory of ``m`` rows and ``n`` columns, each of ``depth`` products in so many
    lanes: the sums are few iterations where that is little, and to add up their lanes takes most of the
    time."""
    table = cost_of(target)
    if depth is None:
        return lane_tile(m, n, target.vector_registers, table)
    turns = -(-depth // lanes)
    return lane_tile(
        m, n, target.vector_registers, table, lambda wide: wide * _fold_of(wide, lanes, target) / turns
    )


def _time_in_lanes(
    m: int, n: int | None, depth: int, element: int, lanes: int, target: Target, high: int = 0
) -> float:
    """Cycles for an element of the right operand, of sums along memory; in tiles of ``high`` rows, if that is
    not 0."""
    table, lanes = cost_of(target), lanes_of(depth, lanes)
    high, wide = tile_in_lanes(high or m, n, depth, lanes, target)
    whole = table.of_whole if lanes == target.vector_bits // 8 // element else table
    step, far = whole.tile(high, wide), high * lanes * element / table.l2_rate
    once = (n is not None and n <= wide) or (
        _rows_outside(m, n) and high * depth * element <= target.l1_bytes
    )
    if once or m < MOST_AHEAD:
        step = max(step, far)  # rows come ahead of their use
    elif (m + 2 * wide) * depth * element > target.l1_bytes:
        step += far  # they are read again for each tile of columns, which bring others into the first cache
    fold = _fold_of(wide, lanes, target)
    # a last tile overlaps the one before, and a last vector is masked
    again = 1 if n is None else -(-n // wide) * wide / n
    return m * again * (step / (high * wide) * -(-depth // lanes) + fold) / depth


def time_in_tiles(m: int, n: int | None, lanes: int, target: Target) -> float:
    """The same in tiles of vectors of columns."""
    table = cost_of(target)
    high, wide = tile_for(m, n, lanes, target.vector_registers, table, masks=target.has_masks, whole=True)
    # columns of half a vector are computed in half a vector
    whole = table if n is not None and 2 * n <= lanes else table.of_whole
    each = 1 / (wide * lanes) if n is None else -(-n // (wide * lanes)) / n
    # part of a vector is dear to a processor without masks. Measured (AVX2 on an Emerald Rapids): 64 × 300 ×
    # 7 takes 2.0 times as long as along memory, 197 × 2000 × 5 2.5 times
    partly = 2 if n is not None and n < lanes and not target.has_masks else 1
    return column(m, high, wide, whole) * each * partly


def turned(inside: Stage, product: Product, m: int | None, fixed: bool, lanes: int, target: Target) -> bool:
    """Whether so few columns lie side by side that a vector of them is mostly empty, and sums along memory
    take less time, a copy of the right operand column by column included: a constant's costs nothing. From
    how many rows on an open number of them does a call tells."""
    n, depth = size(product.column), size(inside.op.reduce_axis[-1])
    if (
        n is None
        or depth is None
        or n >= lanes
        or depth < lanes
        or not rows_along_columns_across(inside, product)
    ):
        return False
    element = inside.op.body[0].dtype.bytes
    if m is None and product.row is not None:
        if any(size(a) is None for a in beside(inside, product)):
            return False
        most = bound(product.row.extent)
        few = (r for r in OPEN_ROWS if most is None or r <= most)
        least = next((r for r in few if _turns(r, n, depth, element, fixed, lanes, target, OPEN_HIGH)), 0)
        return least > 0 and not at_most(product.row.extent, least - 1)
    return _turns(m or 1, n, depth, element, fixed, lanes, target)


def rows_along_columns_across(inside: Stage, product: Product) -> bool:
    """Whether the only sum runs along memory in the left operand and from line to line in the right one, two
    tensors of the type of the result."""
    last, kind = inside.op.reduce_axis[-1], inside.op.body[0].dtype
    return (
        len(inside.op.reduce_axis) == 1
        and all(t.dtype == kind for t in (product.left, product.right))
        and product.left_axes.get(last) == len(product.left.shape) - 1
        and product.in_lines
        and product.left is not product.right
    )


def _turns(
    m: int, n: int, depth: int, element: int, fixed: bool, lanes: int, target: Target, high: int = 0
) -> bool:
    """The same of ``m`` rows, in tiles of up to ``high`` of them, if that is not 0."""
    # a tile of one column reads its rows for that alone. Measured (Emerald Rapids): 300 × 700 × 5 takes 1.37
    # of the time, where the table says 0.99
    if tile_in_lanes(high or m, n, depth, lanes_of(depth, lanes), target)[1] == 1:
        return False
    ours = time_turned(m, n, depth, element, fixed, lanes, target, high)
    return ours < time_in_tiles(m, n, lanes, target)


def time_turned(
    m: int, n: int, depth: int, element: int, fixed: bool, lanes: int, target: Target, high: int = 0
) -> float:
    """Sums along memory with the copy of ``n`` columns, fewer than a vector has lanes, column by column,
    which a ``fixed`` operand has ahead: a tile of it takes as long as half of one of whole vectors. Measured
    (Zen 4, 7 to 12 rows), counted as a whole one: 11 × 18402 × 3 and 7 × 1056 × 4 missed sums along memory,
    which take 0.27 and 0.34 of the time."""
    copied = 0 if fixed else cost_of(target).transposition * lanes / (2 * n)
    return _time_in_lanes(m, n, depth, element, lanes, target, high) + copied


def turn(s: Schedule, inside: Stage, product: Product, fixed: bool, target: Target) -> Product:
    """Let the product read a copy of its right operand that lies column by column."""
    copy = laid_along(s, inside, product.right, product.right_axes[inside.op.reduce_axis[-1]])
    transposition = transposed(copy.op)
    if transposition is not None and not fixed:
        transpose_in_tiles(s, copy, transposition, target)
    found = product_of(inside.op, views=True)
    assert found is not None
    return found


def product_in_lanes(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    m: int | None,
    lanes: int,
    target: Target,
) -> None:
    """Compute the product ``inside`` of ``m`` rows within ``out``, whose axes ``own`` names by those of the
    product: each sum in the lanes of a register. None are many rows, of which a call tells how many."""
    n = size(product.column)
    depth = elements_of(summed_along(inside.op))
    lanes = lanes_of(depth, lanes)
    high, wide = tile_in_lanes(m or OPEN_HIGH, n, depth, lanes, target)
    rows = [] if product.row is None else [product.row]
    keep = beside(inside, product)
    shared = worth_a_thread(inside.op, work(inside), target)
    overlaps = not shared and n is not None and n > wide
    # the larger operand is read once, while what the other one has for a tile stays near. Measured (Granite
    # Rapids, one thread and two): 160 × 3867 × 8 0.61 and 0.58 of the time, 1000 × 500 × 6 0.84 and 0.80
    order, last = ("b io", "jo") if m is None or _rows_outside(m, n) else ("b jo", "io")
    loops = nest(
        out,
        {"b": [own[a] for a in keep], "i": [own[a] for a in rows], "j": own[product.column]},
        f"({order}) {last} | ii ji" if shared else f"{order} {last} | ii ji",
        {"i": high, "j": (wide, "shift") if overlaps else wide},
        parallel=shared,
    )
    sums_in_lanes(s, inside, out, loops.place, {"b": keep, "i": rows, "j": product.column}, lanes)


def vector_width(stage: Stage, n: int | None, target: Target, *, long: bool = False) -> int:
    """Elements to compute at once of ``n`` that lie side by side: a vector, or several when an element takes
    a long chain of operations, or is copied from one of several pieces of memory. An open number of them is
    ``long`` where it is that of a whole tensor."""
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    if n is None:
        return VECTORS * lanes if long and has_calls(stage.op) else lanes
    if n <= VECTORS * lanes:
        return n  # a whole row: narrower vectors at its end are cheaper than a masked one
    # a loop of one load and one store asks for the next piece later. Measured (Zen 3): rows that are gathered
    # 1.2 to 1.7, tensors that are joined 1.1 to 1.9 times as fast; copies of whole tensors are not
    pieces = target.vector_registers <= FEW_REGISTERS and moves_pieces(stage.op)
    if pieces or has_calls(stage.op):
        for v in (VECTORS, VECTORS // 2):
            if n % (v * lanes) == 0 or n >= 8 * v * lanes:
                return v * lanes
    return min(lanes, n)


def moved_in_halves(stage: Stage, width: int, target: Target) -> bool:
    """Whether half of so many elements at once are no slower to compute, and quicker on their way to memory,
    which takes longer. Measured (Zen 4, one thread, arrays of numpy of 0.4 to 12 MB): sums and products of
    two take 0.9 of the time; bytes that become float32 take 1.3 times as long, so what is read is as wide."""
    op = stage.op
    element = op.body[0].dtype
    return (
        target.moves_halves
        and width == target.vector_lanes(element) > 1
        and reads_neighbours(op)
        and not _written_whole(op, target)
        and all(tensor.dtype.bytes == element.bytes for tensor, _ in reads_of(op).plain)
        and not has_calls(op)
    )


def _written_whole(op: ComputeOp, target: Target) -> bool:
    """Whether each element is made of rows and columns that a cache holds, so that memory is written and
    hardly read, and whole vectors, which are whole lines, are quicker on their way there: not in the third
    cache, where halves are. Measured (Zen 4, one thread, outer products of elements of four bytes): of 0.4
    to 1.5 MB 0.80 to 0.85 of the time, of 36 MB 0.62; of 4.4 to 12 MB it would be 1.35."""
    elements = elements_of(op.axis)
    if elements is None or any(
        all(any(step(i, a) != 0 for i in index) for a in op.axis) for _, index in reads_of(op).plain
    ):
        return False
    written = elements * op.body[0].dtype.bytes
    return written <= 2 * target.l2_bytes or written >= target.l3_bytes


def in_vectors(stage: Stage, target: Target) -> IterVar:
    """Compute an elementwise stage in vectors along memory; the rest of a row is one that overlaps the one
    before. The loop that is left over the vectors of a row."""
    last = stage.op.axis[-1]
    n = size(last)
    if n is not None and n < 2:
        return last
    width = vector_width(stage, n, target)
    overlaps = n is not None and n > width and n % width > 0 and not repeats(stage, width)
    outer, inner = stage.split(last, width, tail="shift") if overlaps else stage.split(last, width)
    stage.vectorize(inner)
    return write_out(stage, outer, width)


def share_reduction(s: Schedule, stage: Stage, target: Target) -> bool:
    """Schedule a reduction to fewer elements than there are threads: a stage of partial results, one of each
    for a thread. False, and nothing done, for any other."""
    op, cores = stage.op, target.num_cores
    rows = 1
    for a in op.axis:
        rows *= typical(a.extent, 64)
    if (
        cores == 1
        or rows >= cores
        or not cost_of(target).shared(work(stage) // 2)
        or reducer_kind(op) in (None, "custom")
    ):
        return False
    together = one_stretch(op, op.reduce_axis)
    n = elements_of(together)
    lanes = VECTORS * target.vector_lanes(op.body[0].dtype)
    stretch = 1 < len(together) == len(op.reduce_axis)
    if stretch and n is None and first_places.applies(stage, n, target):
        return False
    if stretch and (n is None or n >= lanes * cores):
        # as many stretches of memory as there are threads: one of the axes may be short, or leave each of
        # them pieces of rows. Measured (Zen 4, two threads): sums of 2000 × 3000 take 0.27 of the time, of
        # 1777 × 1999 0.5, of 20,000 × 7 0.33, of 300 × 500 0.8
        vectors, _ = stage.split(stage.fuse(*together), lanes)
        partial = s[s.rfactor(stage.name, stage.split(vectors, nparts=cores)[0])]
        inner = partial.op.reduce_axis[-1]
        if searches.applies(op, n):
            partial, inner = searches.by_block(s, partial, partial.op.reduce_axis[0], lanes, target)
        _add_up(s, partial, inner, n, lanes, target)
        return True
    longest = max(op.reduce_axis, key=lambda a: typical(a.extent, 64))
    group, _ = stage.split(longest, nparts=cores)
    partial = s[s.rfactor(stage.name, group)]
    if not reduce_in_lanes(s, partial, target):
        partial.parallel(partial.op.axis[0])
    return True
