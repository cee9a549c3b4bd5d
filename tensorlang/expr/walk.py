"""Walks over expressions: visit, rebuild, substitute, free variables. Knows only ``children`` and
``with_children``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from .deep import is_deep
from .nodes import Const, Expr, Var


def preorder(e: Expr, below: Callable[[Expr], Sequence[Expr]] | None = None) -> Iterator[Expr]:
    """Every distinct node below and including ``e``, parents first. ``below`` says what counts as below a
    node: its children unless given."""
    seen: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = None
        yield node
        kids = node.children() if below is None else below(node)
        if kids:
            # the first child on top: in the order in which it is written
            stack += kids[::-1]


def postorder(e: Expr, known: Container[Expr] = ()) -> Iterator[Expr]:
    """Every distinct node below and including ``e``, children first; what is ``known`` is left out with all
    below it."""
    seen: dict[Expr, None] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        if node in seen or node in known:
            stack.pop()
            continue
        waiting = [k for k in node.children() if k not in seen and k not in known]
        if waiting:
            waiting.reverse()
            stack += waiting
            continue
        stack.pop()
        seen[node] = None
        yield node


def variables(e: Expr) -> frozenset[Var]:
    """The free variables. Cached on the node."""
    memo = e._memo
    if memo is not None and (known := memo.get("vars")) is not None:
        return known  # type: ignore[no-any-return]
    if type(e) is Var:
        return frozenset((e,))  # not kept: it would refer to itself
    kids = e.children()
    for k in kids:
        if type(k) is not Var and (k._memo is None or "vars" not in k._memo):
            _find_variables(k)
    # kept with the node, which is interned: asked again for every expression that holds it
    result: frozenset[Var] = frozenset().union(*[variables(k) for k in kids]) if kids else frozenset()
    if e._memo is None:
        e._memo = {}
    e._memo["vars"] = result
    return result


def _find_variables(e: Expr) -> None:
    """Fill in the caches below and including ``e``, deepest first: an expression may be thousands of
    operations deep."""
    stack = [e]
    while stack:
        waiting = [
            k
            for k in stack[-1].children()
            if type(k) is not Var and (k._memo is None or "vars" not in k._memo)
        ]
        if waiting:
            stack += waiting
        else:
            variables(stack.pop())


def rewrite(e: Expr, change: Callable[[Expr], Expr | None], done: dict[Expr, Expr] | None = None) -> Expr:
    """Bottom-up rebuild: ``change`` sees each node after its children were rebuilt and returns a replacement
    or None. It does not see again what it has made.

    Nothing changed means the very same node comes back. ``done`` is the memo, to be shared between calls with
    one ``change``.
    """
    memo: dict[Expr, Expr] = {} if done is None else done
    stack = [e]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        kids = node.children()
        new = node
        if kids:
            waiting = [k for k in kids if k not in memo]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            new_kids = [memo[k] for k in kids]
            for old, k in zip(kids, new_kids, strict=True):
                if old is not k:
                    new = node.with_children(*new_kids)
                    break
        stack.pop()
        # what a choice between two alike is simplified to has been changed already, as a part of it: a read
        # that moves by one would move by two
        if (
            new is not node
            and type(new) is not type(node)
            and any(new is x for k in new_kids for x in preorder(k))
        ):
            memo[node] = new
            continue
        replaced = change(new)
        memo[node] = new if replaced is None else replaced
    return memo[e]


def substitute(e: Expr, values: Mapping[Var, Expr], done: dict[Expr, Expr] | None = None) -> Expr:
    """``e`` with variables replaced, canonicalised again on the way up."""
    if not values:
        return e
    if type(e) is Const:
        return e
    if type(e) is Var:
        return values.get(e, e)
    memo: dict[Expr, Expr] = {} if done is None else done
    found = memo.get(e)
    if found is not None:
        return found
    # recursion is twice as fast, and safe where there are few levels
    if not is_deep(e):
        return _substituted(e, values, memo)
    wanted = values.keys()
    stack = [e]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        # a part without these variables stays the node that it is
        if variables(node).isdisjoint(wanted):
            memo[node] = node
            stack.pop()
            continue
        kids = node.children()
        waiting = [k for k in kids if type(k) is not Var and k not in memo]
        if waiting:
            waiting.reverse()
            stack += waiting
            continue
        stack.pop()
        memo[node] = node.with_children(*[values.get(k, k) if type(k) is Var else memo[k] for k in kids])
    return memo[e]


def _substituted(e: Expr, values: Mapping[Var, Expr], memo: dict[Expr, Expr]) -> Expr:
    """The same of an expression that is not deep, in half of the time."""
    if variables(e).isdisjoint(values):
        memo[e] = e
        return e
    kids: list[Expr] = []
    for k in e.children():
        kind = type(k)
        if kind is Var:
            kids.append(values.get(k, k))  # type: ignore[call-overload]
        elif kind is Const:
            kids.append(k)
        else:
            known = memo.get(k)
            kids.append(_substituted(k, values, memo) if known is None else known)
    new = memo[e] = e.with_children(*kids)
    return new
