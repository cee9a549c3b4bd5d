"""copies late: what is made of arguments alone is made in front of its first reader.

``P: float32[n]; P[i] = W[i]; <other nests>; nest reading P`` → ``<other nests>; P: float32[n]; P[i] = W[i];
nest reading P``

A schedule copies an operand where it is first known, so the copies of a long program would all be alive from
its start. Late ones are still in the caches when they are read, and share memory one after the other. Only
nests move that read arguments, or what a nest that moves makes for them alone: nothing else stays alive
longer for it. What writes a buffer keeps its order among all that touch it.
"""

from __future__ import annotations

from ..core.recursion import Steps, run
from ..loopir.stmt import Buffer, Func
from .block import Uses, chain, conflicts, opened, uses


def copies_late(func: Func) -> Func:
    """The pass."""
    buffers, items = chain(func.body)
    if len(items) < 3:
        return func
    found = [uses(i) for i in items]
    order = _order(found, _moving(func, set(buffers), found))
    if order == sorted(order):
        return func
    return func.with_body(opened(buffers, [items[i] for i in order], [found[i] for i in order]))


def _moving(func: Func, own: set[Buffer], found: list[Uses]) -> set[int]:
    """The items that wait for their reader."""
    written = {b for u in found for b in u.writes}
    free = {b for b in func.buffers() if b not in written}
    readers: dict[Buffer, int] = {}
    for u in found:
        for b in u.reads:
            if b not in u.writes:
                readers[b] = readers.get(b, 0) + 1
    still = {b for u in found if u.fixed for b in u.writes}
    out: set[int] = set()
    for i, u in enumerate(found):
        if u.fixed or not u.writes or not u.writes.keys() <= own or still & u.writes.keys():
            still |= u.writes.keys()
        elif all(
            b in free or b in u.writes or (b in own and b not in still and readers.get(b) == 1)
            for b in u.reads
        ):
            out.add(i)
        else:
            still |= u.writes.keys()
    return {i for i in out if not still & found[i].writes.keys()}


def _order(found: list[Uses], moving: set[int]) -> list[int]:
    """The items in their new order: each that stays in its turn, and in front of it what it needs."""
    before = conflicts(found)
    order: list[int] = []
    placed: set[int] = set()

    def place(i: int) -> Steps[None]:
        placed.add(i)
        for j in before[i]:
            if j not in placed:
                yield place(j)
        order.append(i)

    for may_go in (lambda i: i not in moving, lambda i: True):  # at last what nobody reads
        for i in range(len(found)):
            if i not in placed and may_go(i):
                run(place(i))
    return order
