"""Cutting a graph of ATen operators into regions that become engines, and what stays in torch. Knows what the
importer takes; nothing of how regions run.

Every node has a level: that of what it reads, and one more where it passes from torch back to an engine. The
nodes of a level that engines take are one region, so a graph that is taken whole is one region, and no region
waits for what comes after it. Sizes follow from the shapes of the inputs and hold nothing up.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .aliases import NAMES
from .importer import has_complex, unsupported
from .symbols import made_by_data, symbols_of

HANDED_ON = "complex numbers that come from torch, or go there"
TOO_FEW = 1  # operators that compute, below which a region costs more than it saves


@dataclass
class Part:
    """A region: a graph of its own, the nodes of the whole graph that it reads (tensors, then sizes) and the
    values of which it makes."""

    graph: fx.Graph
    reads: list[fx.Node]
    makes: list[fx.Node]
    nodes: int


@dataclass
class Cut:
    """A graph of ATen operators with its regions in place of their operators (call_module ``region<i>``), the
    regions, and for each node that stays in torch the reason."""

    graph: fx.Graph
    parts: list[Part]
    left: dict[fx.Node, str]


def straight(whole: Cut) -> tuple[list[int], list[int]] | None:
    """Of a graph that is one region and nothing else: which of its inputs the region reads, and which of the
    region's results it gives."""
    calls = [n for n in whole.graph.nodes if n.op not in ("placeholder", "output")]
    if whole.left or len(whole.parts) != 1 or len(calls) != 1 + len(whole.parts[0].makes):
        return None
    call, *made = calls
    places = {n: i for i, n in enumerate(n for n in whole.graph.nodes if n.op == "placeholder")}
    (results,) = whole.graph.output_node().args
    if any(n not in places for n in call.args) or any(n not in made for n in results):  # type: ignore[union-attr]
        return None
    reads = [places[n] for n in call.args]  # type: ignore[index]
    return reads, [made[made.index(n)].args[1] for n in results]  # type: ignore[arg-type, union-attr, misc]


def is_number(node: fx.Node) -> bool:
    """Whether a node makes a size, not a tensor."""
    return isinstance(
        node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat | int | float | bool
    )


def cut(gm: fx.GraphModule, refused: dict[str, str]) -> Cut:
    """The graph with its regions. ``refused`` has the names of nodes that the importer did not take, with
    its reasons."""
    nodes = [n for n in gm.graph.nodes if n.op in ("call_function", "get_attr", "call_module", "call_method")]
    left = {}
    taken: set[fx.Node] = set()
    for n in nodes:
        if n.op == "get_attr":
            continue
        if _getitem(n):
            # the parts of a result are where the result is
            if n.args[0] in taken:
                taken.add(n)
            continue
        if is_number(n):
            continue
        # complex numbers are pairs within a region
        reason = refused.get(n.name) or unsupported(n, pairs=has_complex(n)) or _sized_by_data(n)
        if reason:
            left[n] = reason
        else:
            taken.add(n)
    levels = _levels(gm.graph, taken)
    while outside := _handed_on(taken, levels):
        for n in outside:
            taken.remove(n)
            if not _getitem(n):
                left[n] = HANDED_ON
        levels = _levels(gm.graph, taken)
    groups: dict[int, list[fx.Node]] = {}
    for n in nodes:
        if n in taken:
            groups.setdefault(levels[n], []).append(n)
    for level in [k for k, group in groups.items() if not _worth(group)]:
        for n in groups.pop(level):
            if not _getitem(n):
                left[n] = ""  # torch does it as well
    return _Rebuilt(gm, groups, levels, left).cut()


def _getitem(n: fx.Node) -> bool:
    return n.op == "call_function" and n.target is operator.getitem


def _sized_by_data(n: fx.Node) -> str:
    """Why a region cannot have a node whose result is as large as its elements say, as the places of a mask:
    who asks for that size would have to wait for the region."""
    return "a result whose size is data" if made_by_data(n) else ""


def _handed_on(taken: Collection[fx.Node], levels: dict[fx.Node, int]) -> list[fx.Node]:
    """The nodes that a region cannot have as it would have to take complex numbers from somebody else, or
    hand them on."""

    def apart(n: fx.Node, other: fx.Node) -> bool:
        return other not in taken or levels[other] != levels[n]

    return [
        n
        for n in levels
        if n in taken
        and (
            (_getitem(n) and n.args[0] not in taken)
            or any(_makes_complex(r) and apart(n, r) for r in n.all_input_nodes)
            or (_makes_complex(n) and any(apart(n, u) for u in n.users))
        )
    ]


def _makes_complex(n: fx.Node) -> bool:
    val = n.meta.get("val")
    made = val if isinstance(val, list | tuple) else [val]
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in made)


def _worth(group: Sequence[fx.Node]) -> bool:
    return sum(str(n.target) not in NAMES and not _getitem(n) for n in group) >= TOO_FEW


def _levels(graph: fx.Graph, taken: Collection[fx.Node]) -> dict[fx.Node, int]:
    given = {s for n in graph.nodes if n.op == "placeholder" for s in symbols_of(n.meta.get("val"))}
    levels: dict[fx.Node, int] = {}
    for n in graph.nodes:
        level = 0
        for r in n.all_input_nodes:
            if r.op in ("placeholder", "get_attr"):
                continue
            if is_number(r):
                # a size that the inputs tell is computed by the region itself: nothing has to come before it
                held_up = not (n in taken and symbols_of(r.meta["val"]) <= given)
                level = max(level, levels[r] if held_up else 0)
            # one level more at each way out of a region and back: regions of a level do not wait for each
            # other, so they are one
            elif is_number(n) or (n in taken and r not in taken):
                level = max(level, levels[r] + 1)
            else:
                level = max(level, levels[r])
        levels[n] = level
    return levels


def _bare(n: Any) -> Any:
    """The symbol that a size is; None for another."""
    return n.node.expr if isinstance(n, torch.SymInt) and n.node.expr.is_Symbol else None


class _Rebuilt:
    """The graph anew, with calls of regions."""

    def __init__(
        self,
        gm: fx.GraphModule,
        groups: dict[int, list[fx.Node]],
        levels: dict[fx.Node, int],
        left: dict[fx.Node, str],
    ) -> None:
        self.gm, self.groups, self.levels, self.left = gm, groups, levels, left
        self.inside = {n for group in groups.values() for n in group}
        self.graph = fx.Graph(gm)
        self.env: dict[fx.Node, fx.Node] = {}
        self.parts: list[Part] = []

    def cut(self) -> Cut:
        outer: dict[int, list[fx.Node]] = {}
        # inputs first: torch's graphs begin with them
        for n in sorted(self.gm.graph.nodes, key=lambda n: n.op != "placeholder"):
            if n not in self.inside and n.op != "output":
                outer.setdefault(self.levels[n], []).append(n)
        for level in sorted({*self.groups, *outer}):
            own = outer.get(level, [])
            self._copy(n for n in own if _first(n))
            if level in self.groups:
                self._call(self.groups[level])
            self._copy(n for n in own if not _first(n))
        self.graph.node_copy(self.gm.graph.output_node(), self.env.__getitem__)
        for n in reversed(list(self.graph.nodes)):
            if n.op == "call_function" and is_number(n) and not n.users:
                self.graph.erase_node(n)
        return Cut(self.graph, self.parts, self.left)

    def _copy(self, nodes: Iterable[fx.Node]) -> None:
        for n in nodes:
            self.env[n] = self.graph.node_copy(n, self.env.__getitem__)

    def _call(self, group: Sequence[fx.Node]) -> None:
        """A region in the place of its nodes."""
        part = self._part(group)
        name = f"region{len(self.parts)}"
        self.parts.append(part)
        call = self.graph.create_node("call_module", name, tuple(self.env[n] for n in part.reads))
        for i, n in enumerate(part.makes):
            self.env[n] = self.graph.call_function(operator.getitem, (call, i))
            self.env[n].meta = dict(n.meta)

    def _part(self, group: Sequence[fx.Node]) -> Part:
        own = set(group)
        reads = list(
            dict.fromkeys(r for n in group for r in n.all_input_nodes if r not in own and not is_number(r))
        )
        # of an operator of several results the parts are handed on, each by itself
        makes = [n for n in group if any(u not in own for u in n.users) and not _several(n)]
        numbers = self._numbers(group, reads)
        graph = fx.Graph(self.gm)
        env: dict[fx.Node, fx.Node] = {}
        for r in (*reads, *numbers):
            env[r] = graph.placeholder(r.name)
            env[r].meta = dict(r.meta)
        for n in group:
            made = env[n] = graph.node_copy(n, env.get)
            if any(
                r not in env for r in n.all_input_nodes
            ):  # sizes, which torch takes later than at the birth
                made.args, made.kwargs = (_placed(x, env) for x in (n.args, n.kwargs))
        graph.output(tuple(env[n] for n in makes))
        return Part(graph, [*reads, *numbers], makes, sum(not _getitem(n) for n in group))

    def _numbers(self, group: Sequence[fx.Node], reads: Sequence[fx.Node]) -> list[fx.Node]:
        """The sizes that a region must be given, for no tensor that it reads tells them."""
        given = {
            _bare(n)
            for r in reads
            if isinstance(r.meta.get("val"), torch.Tensor)
            for n in r.meta["val"].shape
        }
        wanted = {s for n in group for s in symbols_of(n.meta["val"])}
        wanted |= {
            s for n in group for r in n.all_input_nodes if is_number(r) for s in symbols_of(r.meta["val"])
        }
        # also those that only occur in a product, as the size of an axis
        wanted |= {s for r in reads for s in symbols_of(r.meta["val"])}
        return [self._number(s) for s in sorted(wanted - given, key=str)]

    def _number(self, symbol: Any) -> fx.Node:
        """A node of the whole graph that is this size."""
        tensor, axis = None, 0
        for n in self.gm.graph.nodes:
            val = n.meta.get("val")
            if n in self.env and _bare(val) == symbol:
                return n
            if n in self.env and isinstance(val, torch.Tensor) and tensor is None:
                for d, m in enumerate(val.shape):
                    if _bare(m) == symbol:
                        tensor, axis = n, d
        if tensor is None:
            raise LookupError(f"no value has the size {symbol}")
        made = self.graph.call_function(torch.ops.aten.sym_size.int, (self.env[tensor], axis))
        made.meta["val"] = tensor.meta["val"].shape[axis]
        self.env[made] = made
        return made


def _placed(args: Any, env: dict[fx.Node, fx.Node]) -> Any:
    """Arguments with nodes of another graph, and with sizes where it has none."""
    return fx.node.map_arg(args, lambda r: env[r] if r in env else r.meta["val"])


def _first(n: fx.Node) -> bool:
    """Whether a node comes before the region of its level."""
    return n.op in ("placeholder", "get_attr") or is_number(n)


def _several(n: fx.Node) -> bool:
    return isinstance(n.meta.get("val"), list | tuple)
