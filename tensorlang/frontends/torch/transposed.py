"""Transpositions that graphs of training are full of, told as what they mean. Knows graphs of torch; no
regions.

Autograd writes a linear layer as a product with a transposed weight, and the gradient of a weight as what is
transposed twice. A product reads a weight as it lies, and twice transposed is not at all: each of them would
cost a copy of a weight.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


def folded(gm: fx.GraphModule) -> fx.GraphModule:
    """The same module, its graph without transpositions of transpositions; products with a transposed matrix
    are linear layers."""
    for n in list(gm.graph.nodes):
        if n.target is aten.t.default:
            _untold(n)
        elif n.target is aten.mm.default:
            _as_layer(n, None, *n.args)
        elif n.target is aten.addmm.default and not n.kwargs and len(n.args) == 3:
            _as_layer(n, *n.args)
    return gm


def _untold(n: fx.Node) -> None:
    """Readers of what is transposed twice read what it was. A result that is an input stays a view."""
    before = _source(n)
    source = None if before is None else _source(before)
    if source is not None:
        given = source.op == "placeholder"
        n.replace_all_uses_with(source, delete_user_cb=lambda user: not given or user.op != "output")
        _drop(n, before)


def _as_layer(n: fx.Node, bias: Any, x: fx.Node, right: fx.Node) -> None:
    """A product with a transposed matrix, and with what is added to each row."""
    weight = _source(right)
    if weight is None or (bias is not None and bias.meta["val"].ndim != 1):
        return
    if bias is not None and bias.meta["val"].shape != n.meta["val"].shape[1:]:
        return
    n.target = aten.linear.default
    n.args = (x, weight) if bias is None else (x, weight, bias)
    _drop(right)


def _source(n: Any) -> fx.Node | None:
    """What a node transposes."""
    found = n.args[0] if isinstance(n, fx.Node) and n.target is aten.t.default else None
    return found if isinstance(found, fx.Node) else None


def _drop(*nodes: fx.Node | None) -> None:
    """Take out those that nobody reads; readers come first."""
    for n in nodes:
        if n is not None and not n.users:
            n.graph.erase_node(n)
