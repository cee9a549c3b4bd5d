"""Two kernels of one computation as one, of which a call takes this or that: what both begin with and end
with stands once, and a test chooses among the nests between. No pass by itself.

``if c: A; B; D`` and ``else: A; C; D`` → ``A; if c: B else: C; D``

Schedules for other sizes often differ in one nest of several. Measured (Zen 5): a product of int8 of open
sizes, of whose four schedules all but one differ in the sums of columns alone, has half the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from ..expr import make
from ..expr.nodes import Expr
from ..loopir.digest import text_of
from ..loopir.stmt import Buffer, Func, If, Stmt, seq
from .block import Uses, chain, opened, uses
from .reuse_storage import rename


def unless(func: Func, cond: Expr, these: Func) -> Func:
    """The kernel that runs the loops of ``these``, which has the same parameters, where ``cond`` holds."""
    dims = tuple(dict.fromkeys((*func.dims, *these.dims)))
    changed = func.changed(body=_either(cond, these.body, func.body, (*func.params, *dims)))
    changed.dims = dims
    changed.needs = tuple(dict.fromkeys((*func.needs, *these.needs)))
    return changed


def _either(cond: Expr, these: Stmt, those: Stmt, given: Sequence[object]) -> Stmt:
    """``these`` where ``cond`` holds, ``those`` elsewhere; ``given`` is what both may speak of."""
    (some, first), (others, second) = chain(these), chain(those)
    home = _paired(some, others)
    used, used_too = [uses(i) for i in first], [uses(i) for i in second]
    if any(u.fixed for u in (*used, *used_too)):
        return If(cond, these, those)  # code of others names buffers whole
    texts = _texts(first, used, set(some) - home.keys(), (*given, *home))
    texts_too = _texts(second, used_too, set(others) - set(home.values()), (*given, *home.values()))
    ahead = _alike(texts, texts_too)
    after = _alike(texts[ahead:][::-1], texts_too[ahead:][::-1])
    if not ahead and not after:
        return If(cond, these, those)
    here = [rename(i, home) for i in first[ahead : len(first) - after]]
    there = second[ahead : len(second) - after]
    branch = _opening([b for b in some if b not in home], here)
    branch_too = _opening([b for b in others if b not in set(home.values())], there)
    if not here and not there:
        return those
    test = If(cond, branch, branch_too if there else None) if here else If(make.not_(cond), branch_too)
    items = [*second[:ahead], test, *second[len(second) - after :]]
    return opened(list(home.values()), items, [uses(i) for i in items])


def _paired(some: Sequence[Buffer], others: Sequence[Buffer]) -> dict[Buffer, Buffer]:
    """The buffers of ``others`` that may be in the place of those of ``some``: of one name and form."""
    left = {(b.name, b.dtype, b.scope, b.shape, b.strides): b for b in others}
    found = {b: left.pop((b.name, b.dtype, b.scope, b.shape, b.strides), None) for b in some}
    return {b: other for b, other in found.items() if other is not None}


def _texts(
    items: Sequence[Stmt], used: Sequence[Uses], own: set[Buffer], known: Sequence[object]
) -> list[str | None]:
    """What each nest says, None of one that touches a buffer of ``own``, which the other kernel has not."""
    return [
        None if own & {*u.reads, *u.writes} else text_of(item, known)
        for item, u in zip(items, used, strict=True)
    ]


def _alike(some: Sequence[str | None], others: Sequence[str | None]) -> int:
    """How many in front are the same."""
    pairs = zip(some, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is not None and pair[0] == pair[1], pairs))


def _opening(buffers: Sequence[Buffer], items: Sequence[Stmt]) -> Stmt:
    """The items, with the buffers that they alone use."""
    return opened(list(buffers), list(items), [uses(i) for i in items]) if items else seq()
