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

from .nodes import Const, Expr, Var

SHALLOW = 40  # levels that a function may take by calling itself


def height(e: Expr) -> int:
    """How many operations stand in one another in ``e``; 0 for a variable and a literal. Kept on the node."""
    try:
        return e._height
    except AttributeError:
        pass
    stack = [e]
    while stack:
        node = stack[-1]
        tallest, waiting = -1, False
        for k in node.children():
            try:
                if k._height > tallest:
                    tallest = k._height
            except AttributeError:
                stack.append(k)
                waiting = True
        if not waiting:
            node._height = tallest + 1
            stack.pop()
    return e._height


def is_deep(e: Expr) -> bool:
    """Whether a function that calls itself on each level of ``e`` should ask below first."""
    return height(e) > SHALLOW


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


def holds_within(e: Expr, key: str, test: Callable[[Expr], bool]) -> bool:
    """Whether ``test`` holds of ``e`` or of something below it, which it never does of a literal. Kept on the
    nodes under ``key``."""
    if type(e) is Var or type(e) is Const:
        return test(e)
    known = _of_children(e, key, test)
    if known is not None:
        if e._memo is None:
            e._memo = {}
        e._memo[key] = known
        return known
    stack = [e]
    while stack:
        node = stack[-1]
        memo = node._memo
        if memo is None:
            memo = node._memo = {}
        if key in memo:
            stack.pop()
            continue
        found, waiting = test(node), []
        if not found:
            for k in node.children():
                if type(k) is Const:
                    continue
                if type(k) is Var:
                    found = test(k)
                elif k._memo is None or key not in k._memo:
                    waiting.append(k)
                else:
                    found = k._memo[key]
                if found:
                    break
        if found or not waiting:
            memo[key] = found
            stack.pop()
        else:
            stack += waiting
    return bool(e._memo[key])  # type: ignore[index]


def _of_children(e: Expr, key: str, test: Callable[[Expr], bool]) -> bool | None:
    """What ``holds_within`` says where it is known of the children, which is what most nodes are made of;
    None elsewhere."""
    if test(e):
        return True
    for k in e.children():
        kind = type(k)
        if kind is Var:
            if test(k):
                return True
        elif kind is not Const:
            memo = k._memo
            if memo is None or key not in memo:
                return None
            if memo[key]:
                return True
    return False
