"""side by side: recurrences that need nothing of each other run in threads of their own.

``for t: H[t + 1] = f(H[t]); <other nests>; for u: G[u + 1] = g(G[u])`` → ``<other nests>; for p in
parallel(0, 2): if p == 0: for t: … else: for u: …``

A recurrence goes from time to time, so its loop stays in one thread, and what it does at a time is seldom
worth two; but a layer that reads its sequence forwards and backwards is two recurrences, and each finds its
weights in the caches of its own processor. Asked of nests at the top of a kernel whose loops are the same, so
that none waits long for another, and that have no parallel loop inside. What stands between two of them runs
before both where it does not need the first, else behind both. Whether the region is worth a second thread
its work decides, as for every parallel loop.

Runs before workspaces share memory, for what the second one writes might lie where the first one reads.
"""

from __future__ import annotations

from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import variables
from ..loopir.stmt import PARALLEL, SERIAL, Alloc, Buffer, For, Func, If, Stmt, Store, loads, preorder
from .block import Uses, chain, conflicts, opened, uses


def side_by_side(func: Func) -> Func:
    """The pass."""
    buffers, items = chain(func.body)
    forms = {s: _form(s) for s in items if _carries(s)}
    if len(forms) < 2:
        return func
    found = [uses(s) for s in items]
    before = len(items)
    while group := _group(items, found, forms):
        items, found = _merged(items, found, group)
    return func if len(items) == before else func.with_body(opened(buffers, items, found))


def _carries(s: Stmt) -> bool:
    """Whether ``s`` is a loop in one thread that reads what an earlier iteration has written."""
    if not isinstance(s, For) or s.kind != SERIAL:
        return False
    written: dict[Buffer, set[tuple[Expr, ...]]] = {}
    read: dict[Buffer, set[tuple[Expr, ...]]] = {}
    own: set[Buffer] = set()
    for one in preorder(s.body):
        if isinstance(one, For) and one.kind == PARALLEL:
            return False
        if isinstance(one, Alloc):
            own.add(one.buffer)
        elif isinstance(one, Store):
            written.setdefault(one.buffer, set()).add(one.indices)
        for e in one.exprs():
            for node in loads(e):
                read.setdefault(node.buffer, set()).add(node.indices)
    return any(
        s.var in variables(i)
        for b, places in written.items()
        if b not in own
        for at in read.get(b, set()) - places
        for i in at
    )


def _form(s: Stmt) -> tuple[object, ...]:
    """The loops of a nest and its stores: nests of one form take about the same time."""
    return tuple(
        (one.kind, id(one.begin), id(one.extent)) if isinstance(one, For) else one.buffer.dtype
        for one in preorder(s)
        if isinstance(one, For | Store)
    )


def _group(items: list[Stmt], found: list[Uses], forms: dict[Stmt, tuple[object, ...]]) -> list[int]:
    """The first nests of one form none of which needs another; nothing when there are none."""
    behind = _behind(found)
    for i, s in enumerate(items):
        if s not in forms or found[i].fixed:
            continue
        group = [i]
        for j in range(i + 1, len(items)):
            if forms.get(items[j]) == forms[s] and not found[j].fixed and behind[j].isdisjoint(group):
                group.append(j)
        if len(group) > 1:
            return group
    return []


def _behind(found: list[Uses]) -> list[set[int]]:
    """For each item those that have to run before it, and those before them."""
    out: list[set[int]] = []
    for ahead in conflicts(found):
        out.append(set(ahead).union(*(out[i] for i in ahead)))
    return out


def _merged(items: list[Stmt], found: list[Uses], group: list[int]) -> tuple[list[Stmt], list[Uses]]:
    """The items with those of the group as one."""
    behind = _behind(found)
    last = [i for i in range(group[0], len(items)) if i not in group and not behind[i].isdisjoint(group)]
    first = [i for i in range(len(items)) if i not in group and i not in last]
    var = Var("side", "int32", "loop")
    body = items[group[-1]]
    for k in reversed(range(len(group) - 1)):
        body = If(make.eq(var, k), items[group[k]], body)
    zero = make.const(0, var.dtype)
    one = For(var, zero, make.const(len(group), var.dtype), PARALLEL, body)
    order = [*(items[i] for i in first), one, *(items[i] for i in last)]
    return order, [*(found[i] for i in first), uses(one), *(found[i] for i in last)]
