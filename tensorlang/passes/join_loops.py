"""join loops: a marked loop runs as one with the next loop of as many iterations.

``for k pragma join_next: S(k); for l: T(l)`` → ``for l: S(l); T(l)``

What both read is loaded once, and so is what is made of it: lines that are mixed for a product serve the sums
of their columns too. Both loops stand in one block, run over the same numbers one after the other, and
neither touches what the other writes; what stands between them goes in front of both, if it needs nothing of
the first. Where one of this does not hold the loops stay apart, which gives the same results. (Halide's
``compute_with``: Ragan-Kelley et al., "Halide: Decoupling Algorithms from Schedules", CACM 61(1), 2018, has
the idea; here it is a pragma, for where the stages are computed says already what there is to join.)

Runs while the nest of each stage stands once, before loops are copied for guards or unrolled.
"""

from __future__ import annotations

from ..expr.nodes import const_int
from ..loopir.stmt import SERIAL, For, Func, Stmt, preorder, rewrite, seq
from .block import chain, conflicts, opened, uses
from .simplify import replace_var

PRAGMA = "join_next"


def join_loops(func: Func) -> Func:
    """The pass."""
    if not any(_marked(s) for s in preorder(func.body)):
        return func
    return func.with_body(_joined(rewrite(func.body, _inside)))


def _inside(s: Stmt) -> Stmt | None:
    return s.with_parts(_joined(s.body)) if isinstance(s, For) else None


def _marked(s: Stmt) -> bool:
    return isinstance(s, For) and any(key == PRAGMA for key, _ in s.attrs)


def _joined(block: Stmt) -> Stmt:
    """A block with its marked loops in the ones behind them."""
    buffers, items = chain(block)
    before = len(items)
    for first in reversed([i for i, s in enumerate(items) if _marked(s)]):
        second = _partner(items, first)
        if second is not None:
            one = _one(items[first], items[second])
            items = [*items[:first], *items[first + 1 : second], one, *items[second + 1 :]]
    return block if len(items) == before else opened(buffers, items, [uses(s) for s in items])


def _partner(items: list[Stmt], first: int) -> int | None:
    """The next loop over the same numbers, if neither it nor what stands between needs the first."""
    some = items[first:]
    found = [uses(s) for s in some]
    ahead = conflicts(found)
    for i in range(1, len(some)):
        if 0 in ahead[i] or found[i].fixed:
            return None
        if _same_numbers(some[0], some[i]):
            return first + i
    return None


def _same_numbers(a: Stmt, b: Stmt) -> bool:
    if not (isinstance(a, For) and isinstance(b, For)) or {a.kind, b.kind} != {SERIAL}:
        return False
    return all(
        x is y or (const_int(x) is not None and const_int(x) == const_int(y))
        for x, y in ((a.begin, b.begin), (a.extent, b.extent))
    )


def _one(a: Stmt, b: Stmt) -> Stmt:
    assert isinstance(a, For) and isinstance(b, For)
    body = seq(replace_var(a.body, a.var, b.var), b.body)
    return For(b.var, b.begin, b.extent, b.kind, body, tuple(x for x in b.attrs if x[0] != PRAGMA))
