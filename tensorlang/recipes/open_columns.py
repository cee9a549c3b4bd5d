"""Products of an open number of columns, where a call tells that a vector holds a row of one: tiles of some
rows of one masked vector each, written where they lie. The loop over vectors of columns stands outside of all
others, so that the mask is made once. A right operand that lies column by column is copied into one panel.
Uses public primitives only.

A tile of an open number of columns has several vectors, and all but one are empty here. Measured (Zen 5, one
thread), µs, all sizes open: 1000 × 5 × 4 × 3 15.6 → 7.7, transposed 75.8 → 20.8, 1000 × 2 × 3 × 3 8.5 → 3.9
and 64 → 14, 20 × 64 × 64 × 16 35 → 16.8 and 40.7 → 18.1, 8 × 100 × 200 × 7 66 → 36 and 74 → 38, one of 1000 ×
4 × 3 2.4 → 1.05, of 300 × 300 × 10 33 → 20.6.
"""

from __future__ import annotations

from ..analysis import Product
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .choices import at_most
from .common import size
from .nests import fill, lines_at_once, nest, pack, sums

# rows of a tile where a call tells how many there are: it has code for each number of them. Measured (Zen 5):
# of eight 64 × 64 × 16 takes 0.79 of the time, and a kernel 25 ms more to compile
HIGH = 4
MOST = 8  # rows that are one tile


def applies(inside: Stage, product: Product, keep: list[IterVar], fixed: bool, target: Target) -> bool:
    """Whether a row may be as short, of products of one type, each with a right operand of its own."""
    kind = inside.op.body[0].dtype
    lanes = target.vector_lanes(kind)
    if fixed or size(product.column) is not None or not target.has_masks or lanes < 2:
        return False
    own = all(a in product.right_axes for a in keep)
    return own and product.left.dtype == product.right.dtype == kind and at_most(product.column.extent, lanes)


def apply(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    keep: list[IterVar],
    own: dict[IterVar, IterVar],
    shared: bool,
    target: Target,
) -> None:
    """Compute ``inside`` in tiles of ``out``, whose axes ``own`` names by those of the product."""
    rows, over = [] if product.row is None else [product.row], inside.op.reduce_axis
    m, lanes = size(rows[0]) if rows else 1, target.vector_lanes(inside.op.body[0].dtype)
    high = HIGH if m is None or m > MOST else m
    # columns are gathered once
    copied = not product.in_lines and (m is None or m > HIGH)
    right = pack(s, inside, product.right, product.right_axes, product.column, lanes) if copied else None
    loops = nest(
        out,
        {"b": [own[a] for a in keep], "i": [own[a] for a in rows], "j": own[product.column]},
        "jo (b) io | ii ji" if keep else "jo (io) | ii ji",
        {"i": high, "j": (lanes, "mask")},
        parallel=shared,
    )
    sums(s, inside, out, loops.place, {"b": keep, "k": over, "i": rows, "j": product.column}, "b k | i j")
    if right is not None:
        fill(right, len(over), lines_at_once(size(over[-1])))
        right.compute_at(out, loops.around[1 if keep else 0])
