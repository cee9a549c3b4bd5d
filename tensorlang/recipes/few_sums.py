"""Products of so few rows and columns that their sums are one register tile, whose multiply-adds wait for
those before: several lines of the right operand are summed apart, and each thread has some of them. Uses
public primitives only.

Measured (Zen 5, one thread and two): 1 × 30,000 × 20 29 → 21 and 31 → 13 µs, 1 × 5000 × 20 5.2 → 2.8, 1 ×
30,000 × 50 on two threads 52 → 35, 4 × 2000 × 16 2.4 → 2.1, 1 × 256 × 16 0.71 → 0.56, 1 × 9000 × 10 of
float64 9.1 → 5.7.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import Product, cost_of, worth_a_thread
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import in_registers, size, work
from .nests import nest
from .streams import row_axes

LONG = 32  # lines from which on to add up those that were summed apart takes little of the time


def _lines(inside: Stage, product: Product, lanes: int, target: Target) -> int:
    """How many lines are summed apart, so that there are chains of sums enough; 0 where it does not pay."""
    if len(inside.op.axis) != 2 or len(inside.op.reduce_axis) != 1 or not product.in_lines:
        return 0
    m = 1 if product.row is None else size(product.row)
    n, depth = size(product.column), size(inside.op.reduce_axis[0])
    if m is None or n is None or depth is None or n < lanes or (n % lanes and not target.has_masks):
        return 0
    enough = cost_of(target).chains // max(1, m * -(-n // lanes))
    lines = next((c for c in (8, 4, 2) if c <= enough), 0)
    return lines if depth >= LONG * lines else 0


def sum_apart(
    s: Schedule,
    out: Stage,
    inside: Stage,
    product: Product,
    own: dict[IterVar, IterVar],
    lanes: int,
    target: Target,
) -> bool:
    """Compute the product ``inside`` within ``out``, whose axes ``own`` names by those of the product.
    Whether it was done: only where it pays."""
    lines, n = _lines(inside, product, lanes, target), size(product.column)
    if not lines:
        return False
    assert n is not None
    (k,), rows = inside.op.reduce_axis, row_axes(product)
    shares = target.num_cores if worth_a_thread(inside.op, work(inside), target) else 1
    place = nest(out, {"i": [own[a] for a in rows], "j": own[product.column]}, "jo | i ji", {"j": n}).place
    inside.compute_at(out, place)
    one = inside
    if shares > 1:
        part, _ = inside.split(k, -(-(size(k) or 1) // (shares * lines)) * lines)
        one = s[s.rfactor(inside.name, part)]
        _within(inside, rows, product.column)
        place = one.op.axis[0]
        one.parallel(place)
    _, line = one.split(one.op.reduce_axis[0], lines)
    apart = s[s.rfactor(one.name, line)]
    first, (*_, i, j) = apart.op.axis[0], apart.op.axis
    apart.compute_at(out if one is inside else one, place)
    in_registers(s, apart)
    # the last lines, which may be fewer, are code of their own
    ko, _ = apart.split(apart.op.reduce_axis[0], 1, tail="peel")
    apart.reorder(ko, first, i, j)
    for loop in (first, i):
        apart.unroll(loop)
    apart.vectorize(j)
    _within(one, one.op.axis[-2:-1], one.op.axis[-1])
    return True


def _within(stage: Stage, rows: Sequence[IterVar], column: IterVar) -> None:
    """What adds up the few partial sums, all of it written out."""
    in_registers(stage.schedule, stage)
    nest(stage, {"k": list(stage.op.reduce_axis), "i": rows, "j": column}, "| k i j")
