"""Expressions thousands of operations deep: how functions that call themselves are kept from going as deep.
Knows only ``children``.

A function that keeps its answers asks what stands deepest first, so that no call meets more than a few levels
that are not answered yet::

    def weight(e):
        found = table.get(e)
        if found is None:
            if is_deep(e):
                ask_below(e, table.__contains__, weight)
            found = table[e] = 1 + sum(map(weight, e.children()))
        return found
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .nodes import Expr

SHALLOW = 40  # levels that a function may take by calling itself


def height(e: Expr) -> int:
    """How many operations stand in one another in ``e``; 0 for a variable and a literal. Each node
    knows it from birth: most are asked."""
    return e._height


def is_deep(e: Expr) -> bool:
    """Whether a function that calls itself on each level of ``e`` should ask below first."""
    return e._height > SHALLOW


def ask_below(e: Expr, known: Callable[[Expr], bool], ask: Callable[[Expr], Any]) -> None:
    """``ask`` of every expression below ``e`` that is not ``known``, after those below it; what is known
    stands for all below itself."""
    visited: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        waiting = [k for k in node.children() if k not in visited and not known(k)]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if stack and node not in visited:
            visited[node] = None
            ask(node)
