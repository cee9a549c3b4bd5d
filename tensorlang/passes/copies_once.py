"""copies once: what an earlier nest has made already is not made again.

``P: float32[n]; P[i] = W[i]; …; Q: float32[n]; Q[i] = W[i]; … reads Q`` → the second nest goes, and P is read

A thousand products with one right operand pack it once. Asked of nests at the top of a kernel that read
arguments nobody writes, and write a workspace that nobody else writes and no code of others sees; whether two
are equal does not hang on the names of their loops. Runs while loops are still one each.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..expr.nodes import Expr, Var
from ..expr.walk import substitute
from ..loopir.stmt import Buffer, For, Func, If, Seq, Stmt, Store, preorder, rewrite
from .block import Uses, chain, uses
from .reuse_storage import own, rename


def copies_once(func: Func) -> Func:
    """The pass."""
    buffers, items = chain(func.body)
    if len(items) < 3:
        return func
    found = [uses(i) for i in items]
    copies = {i: b for i, b in _copies(func, set(own(buffers, items)), found).items() if _plain(items[i])}
    rough = {i: (b.dtype, b.shape, b.strides, *found[i].reads) for i, b in copies.items()}
    often = Counter(rough.values())
    first: dict[Any, Buffer] = {}
    home: dict[Buffer, Buffer] = {}
    gone: set[Stmt] = set()
    for i, b in copies.items():
        if often[rough[i]] > 1:
            kept = first.setdefault((rough[i], _form(items[i])), b)
            if kept is not b:
                home[b] = kept
                gone.add(items[i])
    if not home:
        return func
    return func.with_body(rename(rewrite(func.body, lambda s: Seq(()) if s in gone else None), home))


def _copies(func: Func, workspaces: set[Buffer], found: list[Uses]) -> dict[int, Buffer]:
    """The items that make one workspace, all of it, from arguments that stay as they are."""
    writers = Counter(b for u in found for b in u.writes)
    given = {b for b in func.buffers() if not writers[b]}
    out: dict[int, Buffer] = {}
    for i, u in enumerate(found):
        if not u.fixed and len(u.writes) == 1 and u.reads and u.reads.keys() <= given:
            b = next(iter(u.writes))
            if b in workspaces and writers[b] == 1:
                out[i] = b
    return out


def _plain(s: Stmt) -> bool:
    return all(isinstance(one, For | If | Seq | Store) for one in preorder(s))


_counters: list[Var] = []  # that stand for loops, counted from the outside


def _form(s: Stmt) -> tuple[Any, ...]:
    """What the nest does, without the names of its loops and of what it writes."""
    number: dict[Var, Expr] = {}
    for one in preorder(s):
        if isinstance(one, For):
            while len(_counters) <= len(number):
                _counters.append(Var(f"at{len(_counters)}", one.var.dtype, "loop"))
            number[one.var] = _counters[len(number)]
    done: dict[Expr, Expr] = {}
    out: list[Any] = []
    for one in preorder(s):
        out.append((type(one), len(one.parts()), *(substitute(e, number, done) for e in one.exprs())))
        if isinstance(one, For):
            out.append((one.var.dtype, one.kind, one.attrs))
        elif isinstance(one, Store):
            out.append(len(one.indices))
    return tuple(out)
