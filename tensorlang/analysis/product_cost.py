"""From how much work on a second thread pays. Knows the table of costs and products; chooses nothing."""

from __future__ import annotations

import math

from ..target import Target
from ..te import ComputeOp, Tensor
from ..te.patterns import constant
from ..te.products import Product, product_of
from .cost_tables import cost_of


def bytes_of(t: Tensor) -> int | None:
    """How many bytes the elements of a tensor take together; None where one of its sizes is open."""
    sizes = [constant(n) for n in t.shape]
    return None if None in sizes else math.prod(n or 0 for n in sizes) * t.dtype.bytes


def worth_a_thread(op: ComputeOp, iterations: int, target: Target) -> bool:
    """Whether so many iterations of ``op`` are worth a second thread."""
    return iterations >= least_for_a_thread(op, target)


def least_for_a_thread(op: ComputeOp, target: Target) -> int:
    """From how many iterations of ``op`` on they are. Those of a register tile take less time than others."""
    table, product = cost_of(target), product_of(op, views=True) if op.reduce_axis else None
    if product is None:
        return table.thread
    ahead = max(1.0, table.product / _slower(op, product, target))
    # each sum is written once, in the time of an iteration elsewhere: of short ones that is most of it
    depth = [constant(a.extent) for a in op.reduce_axis]
    written = (ahead - 1) / max(1, math.prod(n or 0 for n in depth)) if None not in depth else 0.0
    return math.ceil(table.thread * ahead / (1 + written))


def _slower(op: ComputeOp, product: Product, target: Target) -> float:
    """How many times as long a multiply-add takes as in a full tile, because every vector of the right
    operand comes from behind a cache and serves few rows. One row times 768 × 768 weights, more than the
    second cache holds, took three times as long on one thread as on two, which hold half of them each."""
    table = cost_of(target)
    rows = [constant(a.extent) for a in op.axis if a not in product.right_axes]
    held = bytes_of(product.right)
    if None in rows or held is None:
        return 1.0
    behind = [(target.l2_bytes, table.l3_rate), (target.l1_bytes, table.l2_rate), (0, table.l1_rate)]
    rate = next(rate for size, rate in behind if held > size or not size)
    cycles = target.vector_bits / 8 / rate / max(1, math.prod(n or 0 for n in rows))
    return max(1.0, cycles * table.per_cycle)
