"""Operators that do the same to the same values are computed once; equal constants are one.

Functions of arrays are left alone: they may draw random numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ...expr.nodes import Expr
from ...runtime.constants import digest
from ..graph import Node, Program, Value
from .rewrite import plain, renewed, resolved

MOST_BYTES = 1 << 24  # of a constant that is compared with others


def merge_duplicates(graph: Program) -> Program:
    """The graph with one of each."""
    replaced: dict[Value, Value] = {}
    first: dict[Any, Value] = {}
    alike = Counter(map(_looks, graph.constants))
    for v in graph.constants:
        same = first.setdefault(_content(v), v) if alike[_looks(v)] > 1 else v
        if same is not v:
            replaced[v] = same
    fixed = set(graph.outputs) if graph.rest is not None else set()
    made: dict[Any, Node] = {}
    nodes = []
    for n in graph.nodes:
        key = _key(n, replaced)
        same_node = None if key is None else made.setdefault(key, n)
        if same_node is None or same_node is n:
            nodes.append(n)
            continue
        replaced.update(zip(n.outputs, same_node.outputs, strict=True))
        # it stays where the rest of the model reads it, though nothing here does
        if any(v in fixed for v in n.outputs):
            nodes.append(n)
    changed = len(nodes) < len(graph.nodes) or any(v in replaced for n in nodes for v in n.reads)
    return renewed(graph, nodes, replaced) if changed else graph


def _looks(v: Value) -> Any:
    """Equal for equal constants: bytes are compared of those alone that look alike."""
    assert v.data is not None
    return v.data.dtype, v.data.shape, () if v.data.dtype.hasobject else v.data.flat[:16].tobytes()


def _content(v: Value) -> Any:
    assert v.data is not None
    # hashing gigabytes takes longer than a duplicate costs; objects have no bytes of their own
    if v.data.nbytes > MOST_BYTES or v.data.dtype.hasobject:
        return id(v)
    return digest(v.data)


def _key(n: Node, replaced: dict[Value, Value]) -> Any:
    """Equal for nodes that do the same; None for one that is equal to no other."""
    if not plain(n):
        return None
    try:
        inputs = tuple(None if v is None else id(resolved(v, replaced)) for v in n.inputs)
        key = (function_key(n), inputs, tuple(str(v.dtype) for v in n.outputs))
        # here, where an attribute that has no hash can still be told from an error
        hash(key)
    except TypeError:
        return None
    return key


def function_key(n: Node) -> Any:
    """Equal for nodes that do the same to their inputs, whatever these are. Raises TypeError where that
    cannot be decided."""
    return _function(n.fn), tuple((k, _frozen(x)) for k, x in sorted(n.attrs.items()))


def _function(fn: Any) -> Any:
    """A function, or what an object that is called consists of."""
    if not hasattr(fn, "__dict__") or hasattr(fn, "__code__"):
        return id(fn)
    return type(fn), tuple(
        (k, _function(x) if callable(x) else _frozen(x)) for k, x in sorted(vars(fn).items())
    )


def _frozen(x: Any) -> Any:
    """An attribute as something that can be looked up. Raises TypeError for what cannot."""
    if isinstance(x, Expr):
        return ("expr", id(x))
    if isinstance(x, list | tuple):
        return (type(x).__name__, *map(_frozen, x))
    if isinstance(x, np.ndarray):
        if x.dtype == object:
            return (x.shape, *map(_frozen, x.reshape(-1)))
        return (x.dtype.str, x.shape, x.tobytes())
    if isinstance(x, float):
        # by bits: 0.0 and -0.0 are equal and do not do the same, NaN is not equal to itself and does
        return ("float", np.float64(x).tobytes())
    return (type(x).__name__, x)
