"""What it costs to compute a map again where it is read, beside writing it once. Knows the table of costs and
sizes as they are declared (a profile's usual values, else typical ones); no rules of merging.

Counted in cycles of one core, by the roofline of each kernel: its vector operations, or the bytes that come
from and go to the cache in which a value as large would lie, whichever takes longer. The same table gives the
same prices, and so the same regions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...analysis import Sizes, cost_of
from ...expr.nodes import Expr, const_int
from ...expr.walk import variables
from ...target import Target
from ..graph import Value
from .facts import Arithmetic

# cycles to call a kernel of an engine: 200 operators on 16 elements take 2.7 µs (Zen 3)
CALL = 50
# vector operations that a choice counts as: where it guards a read, that is a masked load
CHOICE = 10
NEAR = 1.25  # ratios up to this tell nothing: 3 % of a detector's time were lost at 1.04
HINT = 64  # of a size nobody knows
WIDE = 1 << 16  # the middle of a range beyond it says nothing of what is usual


@dataclass(frozen=True)
class Price:
    """Cycles of a map that is computed by each of its readers, and of one that is written for them."""

    again: float
    once: float

    def repeats(self, readers: int) -> bool:
        """Whether computing it again is worth it. What is nearly equal is written into one reader, which
        saves a kernel, and not into several, which are longer by it."""
        return self.again <= (self.once * NEAR if readers == 1 else self.once / NEAR)

    def __str__(self) -> str:
        return f"computed again: {self.again:,.0f} cycles, written once: {self.once:,.0f}"


@dataclass(frozen=True)
class Reader:
    """Who reads a map: its own elements, what they take and read from memory anyway, and whether it reads the
    map along its own indices, so that the map stays the same while the last of them moves."""

    out: Value
    work: Arithmetic
    reads: Collection[Value]
    along: bool


class Prices:
    """Prices on a processor."""

    def __init__(self, target: Target) -> None:
        self.target, self.cost, self.sizes = target, cost_of(target), Sizes()

    def of(self, out: Value, reads: Collection[Value], work: Arithmetic, readers: Sequence[Reader]) -> Price:
        """The price of the map ``out``, an element of which is ``work``."""
        element, lanes = self._operations(work), self.target.vector_lanes(out.dtype)
        total = max(1, self.elements(out))
        taken = {v: self._bytes(v, total) for v in reads}
        again, once = 0.0, CALL + max(total * element / lanes, sum(taken.values()) + self._bytes(out))
        for r in readers:
            times, alone = self._evaluations(out, r)
            own = self.elements(r.out) * self._operations(r.work) / self.target.vector_lanes(r.out.dtype)
            more = sum(n for v, n in taken.items() if v not in r.reads) * times / total
            written = self._bytes(r.out)
            # the roofline of the reader's kernel: arithmetic or memory, whichever takes longer, as the other
            # hides behind it
            again += max(own + times * element / (1 if alone else lanes), more + written)
            once += max(own, self._bytes(out) * times / total + written)
        return Price(again, once)

    def _operations(self, w: Arithmetic) -> float:
        """Cycles of a vector."""
        simple = w.simple + self.cost.division * w.divisions + self.cost.call * w.calls + CHOICE * w.choices
        return simple / self.cost.per_cycle

    def _evaluations(self, made: Value, reader: Reader) -> tuple[int, bool]:
        """How many elements of ``made`` a reader computes, and whether each by itself: what stays the same
        along the innermost loops is computed outside of them."""
        total, alone = self.elements(reader.out), False
        if not reader.along:
            return total, alone
        shape = [self._size(n) for n in made.shape]
        for d, n in enumerate(reversed([self._size(n) for n in reader.out.shape])):
            if d < len(shape) and shape[-1 - d] != 1:
                break
            total, alone = total // max(1, n), alone or n > 1
        return max(1, total), alone

    def beyond_first_cache(self, v: Value) -> bool:
        """Whether a value is larger than that."""
        return self.elements(v) * v.dtype.bytes > self.target.l1_bytes

    def _bytes(self, v: Value, most: int | None = None) -> float:
        """Cycles in which a value, ``most`` elements of it, comes from memory, or goes there."""
        n = min(self.elements(v), self.elements(v) if most is None else most) * v.dtype.bytes
        near, nearer = n <= self.target.l2_bytes, n <= self.target.l1_bytes
        return n / (self.cost.l1_rate if nearer else self.cost.l2_rate if near else self.cost.l3_rate)

    def elements(self, v: Value) -> int:
        """How many a value has, as far as anybody knows."""
        total = 1
        for n in v.shape:
            total *= self._size(n)
        return total

    def _size(self, n: Expr) -> int:
        for v in variables(n):
            # rounded down to a multiple that the size may have
            if v.hint is None and (v.hi is None or v.hi > WIDE):
                self.sizes.given[v] = max(v.lo or 0, HINT // v.multiple_of * v.multiple_of)
        return const_int(self.sizes(n)) or 0
