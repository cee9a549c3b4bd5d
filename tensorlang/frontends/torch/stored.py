"""Regions that an earlier process has compiled, found by all that decides them: the text of their graph, the
elements of their parameters, settings, compiler. Knows graphs of torch and files; nothing of how regions run.

The text says of each node what it does and of each tensor its type, shape and strides; of symbols what they
may be and were when torch saw them. What it does not say leaves a graph without a name: operators of a user,
whose code no text shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ...graph.engine_cache import Engines, name_of
from ...graph.kernel_cache import Cache, digest
from .settings import Settings
from .table import OPERATORS, Operator
from .tensors import dtype_name, held

_OURS = __name__.rpartition(".")[0]
_LARGE = 1 << 22  # bytes that are worth several threads


class Unnamed(Exception):
    """A graph that its text does not decide."""


def engines(settings: Settings) -> Engines:
    """Where engines are kept."""
    return Engines(Cache(settings.cache))


def name(graph: fx.Graph, settings: Settings) -> str | None:
    """The name of what is made of a graph; None where nobody can tell."""
    try:
        return named([*_ranges(graph), *(_line(n) for n in graph.nodes)], settings)
    except Unnamed:
        return None


def named(lines: Iterable[str], settings: Settings) -> str:
    """The name of what is made of a graph that these lines decide. Raises Unnamed where more decides."""
    if settings.records is not None or settings.trials:  # what a search finds changes
        raise Unnamed
    asked = torch.get_num_threads(), settings.level, settings.freeze, sorted(settings.sizes.items())
    return name_of("\n".join([torch.__version__, repr(asked), *lines]))


def name_with(name: str, frozen: Sequence[int], held: Sequence[torch.Tensor]) -> str:
    """The name of the engine of a graph of this name, with these tensors as constants at these places."""
    return digest(f"{name} {tuple(frozen)} {_elements(held)}")


def _line(node: fx.Node) -> str:
    entry = OPERATORS.get(str(node.target))
    if entry is not None and not ours(entry):
        raise Unnamed
    return f"{said(node, str(node.target))} {[shown(x) for x in tree_leaves(node.meta.get('val'))]}"


def ours(entry: Operator) -> bool:
    """Whether a line of the table was not put there by somebody else."""
    return entry.fn.__module__.startswith((_OURS, "tensorlang.ops"))


def said(node: fx.Node, target: str) -> str:
    """What a node says. Raises Unnamed for objects without a text of their own."""
    text = f"{node.op} {node.name} {target} {node.args} {node.kwargs}"
    if " at 0x" in text:
        raise Unnamed
    return text


def shown(x: Any) -> str:
    """What decides how a tensor lies, or a number."""
    if isinstance(x, torch.Tensor):
        if x.layout is not torch.strided:
            return f"{x.layout} {x.dtype}"
        sizes = [_number(n) for n in (*x.shape, *x.stride())]
        return f"{dtype_name(x.dtype)} {x.device} {sizes} {x.is_neg()} {x.is_conj()}"
    return _number(x)


def _number(n: Any) -> str:
    if isinstance(n, torch.SymInt | torch.SymFloat | torch.SymBool):
        return f"{n.node.expr}~{n.node.hint}"
    return repr(n)


def _ranges(graph: fx.Graph) -> list[str]:
    """What is known of symbols."""
    found = {}
    for n in graph.nodes:
        for x in tree_leaves(n.meta.get("val")):
            for size in x.shape if isinstance(x, torch.Tensor) else (x,):
                if isinstance(size, torch.SymInt) and size.node.shape_env is not None:
                    known = size.node.shape_env.var_to_range
                    found.update({s: known.get(s) for s in size.node.expr.free_symbols})
    return sorted(f"{s} {r}" for s, r in found.items())


def _elements(tensors: Sequence[torch.Tensor]) -> list[str]:
    """For each tensor its form and a hash of its elements."""
    arrays = [held(x) for x in tensors]

    def hashed(a: Any) -> str:
        return hashlib.sha256(a.reshape(-1).view("u1")).hexdigest()

    large = sum(a.nbytes for a in arrays) > _LARGE
    threads = min(torch.get_num_threads(), len(arrays)) if large else 1
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            digests = list(pool.map(hashed, arrays))
    else:
        digests = [hashed(a) for a in arrays]
    return [f"{dtype_name(x.dtype)} {tuple(x.shape)} {d}" for x, d in zip(tensors, digests, strict=True)]
