"""Operators on constants are computed once, here, unless what they make is much larger than what it is made
of."""

from __future__ import annotations

import math

import numpy as np

from ...errors import TensorLangError
from ...te import reference
from ..graph import Node, Program, Value
from .rewrite import plain, renewed

# bytes that a folded value may have in any case, and times as many as it is made of: a weight in another type
# is worth keeping, one that is repeated a thousand times is not
MOST_BYTES = 16 << 20
MOST_GROWTH = 4


def fold_constants(graph: Program) -> Program:
    """The graph with their results as constants."""
    replaced: dict[Value, Value] = {}
    # the rest of a model reads outputs as values of a run
    fixed = set(graph.outputs) if graph.rest is not None else set()
    nodes = []
    for n in graph.nodes:
        given = [replaced.get(v, v) if v is not None else None for v in n.inputs]
        arrays = _evaluated(n, given) if not fixed.intersection(n.outputs) else None
        if arrays is None:
            nodes.append(n)
            continue
        for v, a in zip(n.outputs, arrays, strict=True):
            replaced[v] = Value(v.name, a.shape, v.dtype, data=a)
    return renewed(graph, nodes, replaced) if replaced else graph


def evaluated(v: Value, most: int) -> np.ndarray | None:
    """The elements of a value that follows from constants alone, through values of ``most`` elements each;
    None for any other."""
    found: dict[Value, Value] = {}
    stack = [v]
    while stack:
        top = stack[-1]
        n = top.node
        if top in found or top.data is not None:
            found.setdefault(top, top)
            stack.pop()
            continue
        # what is large or open ends the walk: it is short in a network's many layers
        if n is None or any(s is None for s in top.sizes) or math.prod(s or 0 for s in top.sizes) > most:
            return None
        waiting = [i for i in n.inputs if i is not None and i not in found]
        if waiting:
            stack.append(waiting[0])
            continue
        arrays = _evaluated(n, [None if i is None else found[i] for i in n.inputs])
        if arrays is None:
            return None
        for o, a in zip(n.outputs, arrays, strict=True):
            found[o] = Value(o.name, a.shape, o.dtype, data=a)
    return found[v].data


def _evaluated(n: Node, given: list[Value | None]) -> list[np.ndarray] | None:
    """What a node of constants makes; None for one that stays."""
    if not plain(n) or any(v is not None and v.data is None for v in given):
        return None
    sizes = [v.sizes for v in n.outputs]
    if any(s is None for shape in sizes for s in shape):
        return None
    made = sum(
        math.prod(s or 0 for s in shape) * v.dtype.bytes for v, shape in zip(n.outputs, sizes, strict=True)
    )
    held = sum(v.data.nbytes for v in given if v is not None and v.data is not None)
    # a file of a few bytes may describe gigabytes: they are made at run time, where they are wanted
    if made > max(MOST_BYTES, MOST_GROWTH * held):
        return None
    try:
        results = n.of([None if v is None else v.tensor for v in given])
        values = {v.tensor: v.data for v in given if v is not None and v.data is not None}
        # by the numpy reference: no code is compiled for what runs once
        return list(reference.evaluate(results, values))
    except TensorLangError:  # such as a division by zero, which the kernel will tell of when it runs
        return None
