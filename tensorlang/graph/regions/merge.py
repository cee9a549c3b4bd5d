"""Groups of operators that merge into regions. Knows what operators read (``facts``); no kernels' code.

A producer joins its reader when nobody else reads what it makes (or when it only names other places of what
it reads, which costs a reader nothing), and when the loops of both fit:

- maps of the same elements make one pass;
- a product, convolution or window takes what is computed of its result at its own place into its tile;
- reductions of rows take the maps before and after them, and other reductions of the same rows.

Work that would be done again for each of many readers stays where it is done once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...analysis import typical
from ..graph import Node, Program, Value
from ..kernels import Region
from .facts import Facts, Kind, Reading, facts_of

MOST_WORK = 100  # operations of an element of a region: what default schedules write into one body
MOST_NODES = 48
# operations of an element that may be done again for every element that reads it
CHEAP = 2
HINT = 64  # of a size nobody knows


@dataclass(eq=False)
class Group:
    """``nodes`` that one kernel computes; ``reads`` how its output's elements read what comes from
    outside."""

    nodes: dict[int, Node]
    kind: Kind
    reads: dict[Value, Reading]
    work: int
    depth: int
    outputs: list[Value]
    why: list[str] = field(default_factory=list)

    @property
    def out(self) -> Value:
        return self.outputs[0]

    @property
    def place(self) -> int:
        return max(self.nodes)


def grouped(graph: Program, nodes: Sequence[Node]) -> list[Region | Node]:
    """Regions of these nodes and the nodes that no kernel computes, in an order in which they can run."""
    work = _Merge(graph, nodes)
    work.merge()
    return work.ordered()


class _Merge:
    def __init__(self, graph: Program, nodes: Sequence[Node]) -> None:
        self.kept = set(graph.outputs)
        self.groups: dict[Group, None] = {}
        self.maker: dict[Value, Group] = {}
        for i, n in enumerate(nodes):
            f = (
                facts_of(n)
                if n.kind == "te"
                else Facts(Kind.ALONE, {v: Reading.AWAY for v in n.reads if v.data is None}, 0)
            )
            g = Group({i: n}, f.kind, dict(f.reads), f.work, f.depth, list(n.outputs))
            self.groups[g] = None
            self.maker.update(dict.fromkeys(n.outputs, g))
        self.readers: dict[Value, dict[Group, None]] = {}
        for g in self.groups:
            for v in g.reads:
                self.readers.setdefault(v, {})[g] = None

    # -- which merge

    def merge(self) -> None:
        """Merge until nothing does: maps of the same elements first, since what follows a product must end in
        one result."""
        for rule in (_maps, _rows, _after_heavy, _any_map):
            changed = True
            while changed:
                changed = False
                for g in sorted(self.groups, key=lambda g: -g.place):
                    if g in self.groups:
                        changed |= self._joined(g, rule)

    def _joined(self, reader: Group, rule: Rule) -> bool:
        """Let what ``reader`` reads join it. Whether something did."""
        done = False
        while True:
            found = next((p for p in self._producers(reader) if self._fits(p, reader, rule)), None)
            if found is None:
                return done
            reader = self._merged(found, reader)
            done = True

    def _producers(self, reader: Group) -> list[Group]:
        made = dict.fromkeys(self.maker[v] for v in reader.reads if v in self.maker)
        return sorted(made, key=lambda g: -g.place)

    def _fits(self, producer: Group, reader: Group, rule: Rule) -> bool:
        if (
            len(producer.outputs) > 1
            or producer.out in self.kept
            or Kind.ALONE in (producer.kind, reader.kind)
        ):
            return False
        if list(self.readers.get(producer.out, ())) != [reader]:
            return False
        if len(producer.nodes) + len(reader.nodes) > MOST_NODES or producer.work + reader.work > MOST_WORK:
            return False
        return rule(producer, reader) and not self._around(producer, reader)

    def _around(self, producer: Group, reader: Group) -> bool:
        """Whether something between the two must run after the one and before the other."""
        return False  # the producer has one reader

    def _merged(self, producer: Group, reader: Group) -> Group:
        how = reader.reads[producer.out]
        reads = {v: r for v, r in reader.reads.items() if v is not producer.out}
        for v, r in producer.reads.items():
            reads[v] = max(reads.get(v, Reading.SAME), how, r)
        kind = max(producer.kind, reader.kind)
        depth = producer.depth if producer.kind is Kind.ROWS else reader.depth
        both = Group(
            producer.nodes | reader.nodes, kind, reads, producer.work + reader.work, depth, reader.outputs
        )
        for old in (producer, reader):
            del self.groups[old]
            for v in old.reads:
                self.readers[v].pop(old, None)
        self.groups[both] = None
        for v in reads:
            self.readers.setdefault(v, {})[both] = None
        for v in both.outputs:
            self.maker[v] = both
        del self.maker[producer.out]
        return both

    # -- the result

    def ordered(self) -> list[Region | Node]:
        """The groups in an order in which they can run, near to the order of their nodes."""
        missing = {g: len({self.maker[v] for v in g.reads if v in self.maker}) for g in self.groups}
        ready = [(g.place, i, g) for i, g in enumerate(self.groups) if not missing[g]]
        heapq.heapify(ready)
        found: list[Region | Node] = []
        count = len(self.groups)
        while ready:
            *_, g = heapq.heappop(ready)
            found.append(_region(g))
            for r in dict.fromkeys(r for v in g.outputs for r in self.readers.get(v, ())):
                missing[r] -= 1
                if not missing[r]:
                    count += 1
                    heapq.heappush(ready, (r.place, count, r))
        return found


def _region(g: Group) -> Region | Node:
    nodes = [g.nodes[i] for i in sorted(g.nodes)]
    return nodes[0] if nodes[0].kind != "te" else Region(nodes, g.outputs)


# -- rules: whether a producer joins its only reader

Rule = Callable[[Group, Group], bool]


def _maps(producer: Group, reader: Group) -> bool:
    """Maps of the same elements."""
    return (
        producer.kind is Kind.MAP
        and reader.kind is Kind.MAP
        and reader.reads[producer.out] is Reading.SAME
        and _same(producer.out, reader.out)
    )


def _after_heavy(producer: Group, reader: Group) -> bool:
    """A product and what is computed of it at its own place."""
    return (
        producer.kind is Kind.HEAVY
        and reader.kind is Kind.MAP
        and reader.reads[producer.out] is Reading.SAME
        and _same(producer.out, reader.out)
    )


def _rows(producer: Group, reader: Group) -> bool:
    """Reductions of rows and maps between them, all of the same rows."""
    if Kind.HEAVY in (producer.kind, reader.kind) or producer.kind == reader.kind == Kind.MAP:
        return False
    depth = producer.depth if producer.kind is Kind.ROWS else reader.depth
    if producer.kind == reader.kind and producer.depth != reader.depth:
        return False
    if reader.reads[producer.out] is Reading.AWAY or Reading.AWAY in producer.reads.values():
        return False
    return _rows_of(producer.out, depth) == _rows_of(reader.out, depth)


def _any_map(producer: Group, reader: Group) -> bool:
    """A map that is read elsewhere, or at several places: where little is done again."""
    if producer.kind is not Kind.MAP or reader.kind is not Kind.MAP:
        return False
    again = _elements(reader.out) / max(1, _elements(producer.out))
    return producer.work <= CHEAP or (again <= 1 and reader.reads[producer.out] is not Reading.ALONG)


def _same(a: Value, b: Value) -> bool:
    return len(a.shape) == len(b.shape) and all(n is m for n, m in zip(a.shape, b.shape, strict=True))


def _rows_of(v: Value, depth: int) -> list[int]:
    return [id(n) for n in v.shape[:depth]]


def _elements(v: Value) -> int:
    total = 1
    for n in v.shape:
        total *= typical(n, HINT)
    return total
