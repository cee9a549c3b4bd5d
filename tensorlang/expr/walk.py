"""Walks over expressions: visit, rebuild, substitute, free variables. Knows only ``children`` and ``with_children``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .nodes import Expr, Var


def preorder(e: Expr) -> Iterator[Expr]:
    """Every distinct node below and including ``e``, parents first."""
    seen: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = None
        yield node
        stack.extend(reversed(node.children()))


def variables(e: Expr) -> frozenset[Var]:
    """The free variables. Cached on the node."""
    if type(e) is Var:
        return frozenset((e,))  # not kept: it would refer to itself
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    elif "vars" in memo:
        return memo["vars"]  # type: ignore[no-any-return]
    kids = e.children()
    found: frozenset[Var] = frozenset().union(*[variables(k) for k in kids]) if kids else frozenset()
    memo["vars"] = found
    return found


def rewrite(e: Expr, change: Callable[[Expr], Expr | None], done: dict[Expr, Expr] | None = None) -> Expr:
    """Bottom-up rebuild: ``change`` sees each node after its children were rebuilt and returns a replacement or None.

    Nothing changed means the very same node comes back. ``done`` is the memo, to be shared between calls with one ``change``.
    """
    memo: dict[Expr, Expr] = {} if done is None else done

    def walk(node: Expr) -> Expr:
        found = memo.get(node)
        if found is not None:
            return found
        kids = node.children()
        new = node
        if kids:
            new_kids = [walk(k) for k in kids]
            for old, k in zip(kids, new_kids, strict=True):
                if old is not k:
                    new = node.with_children(*new_kids)
                    break
        replaced = change(new)
        if replaced is not None:
            new = replaced
        memo[node] = new
        return new

    return walk(e)


def substitute(e: Expr, values: Mapping[Var, Expr], done: dict[Expr, Expr] | None = None) -> Expr:
    """``e`` with variables replaced, canonicalised again on the way up."""
    if not values:
        return e
    memo: dict[Expr, Expr] = {} if done is None else done
    wanted = values.keys()

    def walk(node: Expr) -> Expr:
        if type(node) is Var:
            return values.get(node, node)
        found = memo.get(node)
        if found is not None:
            return found
        if variables(node).isdisjoint(wanted):
            new = node
        else:
            new = node.with_children(*[walk(k) for k in node.children()])
        memo[node] = new
        return new

    return walk(e)
