"""Products of few columns, several lines of the right operand in one vector, as they lie in memory.

Sums of three columns fill three lanes of a vector, and those of one row wait for one another. Here 16 lines
of three columns are three whole vectors; the elements of a row are put beside them in registers, each as
often as there are columns, and the sums of the 16 lines are added up at the end. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ..analysis import Product, cost_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import in_registers, size
from .lanes import beside, rows_along_columns_across, time_in_tiles, time_turned
from .nests import nest, sums
from .register_tile import column, even

SHUFFLES = 2  # operations that put a row's elements beside a vector: a load, and a move of lanes
MOST_LINES = 64  # whose sums are added up one after the other at the end


class Lines(NamedTuple):
    """So many ``lines`` of the right operand side by side, in tiles of ``high`` rows."""

    high: int
    lines: int


def lines_for(
    inside: Stage, product: Product, m: int | None, fixed: bool, lanes: int, target: Target
) -> Lines | None:
    """The lines that are taken together where that takes less time than tiles of columns and than sums along
    memory; None where it does not, or where the operands do not lie that way."""
    last = inside.op.reduce_axis[-1]
    n, depth = size(product.column), size(last)
    if m is None or n is None or depth is None or n >= lanes:
        return None
    together = (
        rows_along_columns_across(inside, product)
        and product.right_axes.get(last) == len(product.right.shape) - 2
        and product.right.shape[-1] is product.column.extent
        and product.column is inside.op.axis[-1]
    )
    if not together:
        return None
    others = [time_in_tiles(m, n, lanes, target)]
    if depth >= lanes // 2:
        element = inside.op.body[0].dtype.bytes
        others.append(time_turned(m, n, depth, element, fixed, lanes, target))
    found = [
        (_time(lines, m, n, depth, lanes, target), lines)
        for lines in _of_whole_vectors(m, n, lanes, target)
        if depth >= 2 * lines.lines
    ]
    time, lines = min(found, default=(math.inf, None))
    return lines if time < min(others) else None


def _of_whole_vectors(m: int, n: int, lanes: int, target: Target) -> Iterator[Lines]:
    """Lines that fill whole vectors, and the rows whose sums and places of elements are held in registers
    beside them."""
    least = lanes // math.gcd(n, lanes)
    for lines in range(least, MOST_LINES + 1, least):
        vectors = lines * n // lanes
        # places of the elements, one vector of them and one of the right operand
        most = (target.vector_registers - 2 - least * n // lanes) // vectors
        if most >= 1 and lines & (lines - 1) == 0:
            yield Lines(even(m, most), lines)


def _time(found: Lines, m: int, n: int, depth: int, lanes: int, target: Target) -> float:
    """Cycles for an element of the right operand."""
    table, vectors = cost_of(target).of_whole, found.lines * n // lanes
    moved = SHUFFLES * m * vectors / table.per_cycle
    turns, rest = divmod(depth, found.lines)
    # rows are read once, from behind the first cache
    read = m * found.lines * target.vector_bits / 8 / lanes / table.l2_rate
    steps = max(column(m, found.high, vectors, table) + moved, read) * turns
    if rest:  # elements of the last lines are picked one by one
        steps += m * vectors * lanes
    # the sums of the lines are written, and read again
    ends = m * (vectors * table.spill + found.lines * table.latency / min(m, table.chains))
    return (steps + ends) / (depth * n)


def apply(
    s: Schedule, out: Stage, inside: Stage, product: Product, own: dict[IterVar, IterVar], found: Lines
) -> None:
    """Compute the product ``inside`` within ``out``, whose axes ``own`` names by those of the product."""
    rows = [] if product.row is None else [product.row]
    keep = beside(inside, product)
    n = size(product.column)
    assert n is not None
    # of a single row the tile is all there is: it stands in a loop of one tile
    loops = nest(
        out,
        {"b": [own[a] for a in keep], "i": [own[a] for a in rows], "j": own[product.column]},
        "b io | ii j" if rows or keep else "jo | ji",
        {"i": found.high} if rows or keep else {"j": n},
    )
    inside.compute_at(out, loops.place)
    _, line = inside.split(inside.op.reduce_axis[-1], found.lines)
    partial = s[s.rfactor(inside.name, line)]
    partial.transform_layout(lambda at, *rest: [*rest[:-1], at * n + rest[-1]])
    places = dict(zip(inside.op.axis, partial.op.axis, strict=True))
    sums(
        s,
        partial,
        out,
        loops.place,
        {
            "b": [places[a] for a in keep],
            "i": [places[a] for a in rows],
            "k": list(partial.op.reduce_axis),
            "l": partial.op.axis[-1],
        },
        "b k | i l",
    )
    in_registers(s, inside)
    nest(inside, {"b": keep, "i": rows, "k": list(inside.op.reduce_axis), "j": product.column}, "b k | i j")
