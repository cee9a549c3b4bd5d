"""Results of a graph that name places of other results, or places with gaps: torch names them, as it does
eagerly, in the memory of what an engine made, or of an input. Knows views; nothing of engines.

A region makes memory for each of its results. A tensor and a view of it, returned together, would share none,
and what is written to one would not be seen in the other; and a view that leaves places out, or says one
several times, would lie otherwise than eager's. What a graph keeps for the way back is mostly such a name
too: a region would write all of it once more.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import torch
from torch import fx

from .tensors import elements, has_gaps

REASON = "a result that names places of another"
NAMES = {  # what only names other places: torch does it without touching an element
    f"aten.{n}"
    for n in (
        "view.default",
        "_unsafe_view.default",
        "reshape.default",
        "permute.default",
        "transpose.int",
        "t.default",
        "expand.default",
        "unsqueeze.default",
        "squeeze.dim",
        "squeeze.dims",
        "squeeze.default",
        "slice.Tensor",
        "select.int",
        "alias.default",
        "detach.default",
        "split.Tensor",
        "split_with_sizes.default",
        "unbind.int",
    )
}
_COPIES = {
    "aten.reshape.default",
    "aten._unsafe_view.default",
}  # where memory does not allow it, or by promise
LEAST = 1 << 14  # elements, of which a copy costs more than a call of torch


def named_last(gm: fx.GraphModule, first: int | None, kept: bool = False) -> dict[str, str]:
    """Let such results, of the ``first`` that the program sees, be named by nodes of their own, which nothing
    else reads; their names, with the reason. ``kept``: the others are kept for the way back, and are named
    where that saves a copy."""
    output = gm.graph.output_node()
    (made,) = output.args
    seen = list(made) if isinstance(made, list | tuple) else [made]
    results = [n for n in dict.fromkeys(seen[:first]) if isinstance(n, fx.Node)]
    # two results in one memory, or one with gaps: a region would give each a memory of its own, and a write
    # to one of them would not show in the other. In the memory of what comes from outside AOTAutograd names
    # them again: where sizes are open by the strides and the offset of what the graph made
    many = Counter(_root(n) for n in results)
    named = [
        n for n in results if _root(n) is not n and (not _made(_root(n)) or many[_root(n)] > 1 or _gaps(n))
    ]
    rest = [n for n in seen[len(seen[:first]) :] if isinstance(n, fx.Node)] if kept else []
    once = {n for n in results if n not in named}  # the engine writes them for the program anyway
    spared = {n for n in rest if n not in once and _saves(n)}
    named += [n for n in dict.fromkeys(rest) if n in spared]
    if not named:
        return {}
    copies: dict[fx.Node, fx.Node] = {}
    with gm.graph.inserting_before(output):
        anew: dict[Any, fx.Node] = {n: _copied(gm.graph, n, copies) for n in named}
    output.args = (
        tuple(anew.get(n, n) if i < len(seen[:first]) or n in spared else n for i, n in enumerate(seen)),
    )
    # users before what they use, so that a chain of names goes at once
    for n in reversed(list(gm.graph.nodes)):
        if _is_name(n) and not n.users:
            gm.graph.erase_node(n)
    gm.recompile()
    return {n.name: REASON for n in copies.values()}


def _root(n: fx.Node) -> fx.Node:
    """What has the memory of a node."""
    while _is_name(n):
        n = n.args[0]  # type: ignore[assignment]
    return n


def _is_name(n: fx.Node) -> bool:
    if n.op != "call_function":
        return False
    if n.target is operator.getitem:
        return isinstance(n.args[0], fx.Node) and str(n.args[0].target) in NAMES
    return str(n.target) in NAMES - _COPIES


def _made(n: fx.Node) -> bool:
    """Whether the graph makes it; if not, it comes from outside."""
    return n.op == "call_function"


def _saves(n: fx.Node) -> bool:
    """Whether a copy is saved where torch names this, and no larger tensor has to be made for it."""
    root = _root(n)
    return root is not n and max(LEAST, elements(root.meta["val"])) <= elements(n.meta["val"])


def _gaps(n: fx.Node) -> bool:
    val: Any = n.meta.get("val")
    return isinstance(val, torch.Tensor) and has_gaps(val)


def _copied(graph: fx.Graph, n: fx.Node, copies: dict[fx.Node, fx.Node]) -> fx.Node:
    """A node that names places, and those between it and its memory, once more."""
    if not _is_name(n):
        return n
    if n not in copies:
        source = _copied(graph, n.args[0], copies)  # type: ignore[arg-type]
        copies[n] = graph.node_copy(n, lambda r: source if r is n.args[0] else r)
    return copies[n]
