"""Loads and stores at other places: the one walk behind every pass that lets buffers move. Knows nothing of
why they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..expr.nodes import READS, Expr
from ..expr.walk import rewrite as rewrite_expr
from .buffer import Buffer
from .stmt import Load, Stmt, Store, load, map_exprs, rewrite


class Place(NamedTuple):
    """What an access names: elements of a buffer, and which of the lanes take part."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    mask: Expr | None


Move = Callable[[Place], Place | None]


def relocate(s: Stmt, move: Move, stored: Move | None = None) -> Stmt:
    """``s`` with the loads and stores of each place at the one that ``move`` says; None leaves an access
    where it is. ``stored`` says so for stores where they differ. What opens buffers stays, and so does what
    names them whole: views and code of others."""
    to = stored or move

    def read(e: Expr) -> Expr | None:
        new = move(Place(e.buffer, e.indices, e.mask)) if type(e) is Load else None
        return new and load(*new)

    def write(node: Stmt) -> Stmt | None:
        if not isinstance(node, Store):
            return None
        new = to(Place(node.buffer, node.indices, node.mask))
        if new is None:
            return None
        of = node.of or (node.buffer.name if node.buffer.name != new.buffer.name else None)
        return Store(new.buffer, node.value, new.indices, new.mask, of)

    done: dict[Expr, Expr] = {}  # an expression that stands in many statements changes once
    return rewrite(map_exprs(s, lambda e: rewrite_expr(e, read, done) if e.contains & READS else e), write)
