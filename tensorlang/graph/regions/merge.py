"""Groups of operators that merge into regions. Knows what operators read (``facts``); no kernels' code.

A producer joins its reader when nobody else reads what it makes (or when it only names other places of what
it reads, which costs a reader nothing), and when the loops of both fit:

- maps of the same elements make one pass;
- a product, convolution or window takes what is computed of its result at its own place into its tile;
- reductions of rows take the maps before and after them, and other reductions of the same rows.

A map that would be computed more often than it has elements (read by several, or by a larger value) joins
its readers where that takes fewer cycles than to write it once for them (``price``).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...target import Target
from ..graph import Node, Program, Value
from ..kernels import Join, Part, Region
from ..sizes import same_sizes
from .facts import (
    Arithmetic,
    Facts,
    Kind,
    Reading,
    counts_apart,
    facts_of,
    in_lines,
    is_of_product,
    is_right_of_product,
    joins_pieces,
    permutes,
    turns,
)
from .joins import joins_of
from .price import Price, Prices, Reader

# Limits of the time to compile, not of the time to run: what default schedules write into one body
MOST_WORK = 100  # operations of an element of a region
MOST_NODES = 48
FEW_TURNED = 3  # of so many elements that are joined one is transposed, at most


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
    arithmetic: Arithmetic
    again: tuple[str, ...] = ()  # what other groups compute too, and why

    @property
    def out(self) -> Value:
        return self.outputs[0]

    @property
    def place(self) -> int:
        return max(self.nodes)


@dataclass(frozen=True, slots=True)
class Rule:
    """Whether a producer joins a reader. One that ``copies`` may give it to each of several, and says itself
    what stands in the way; the others are asked only about producers that nothing keeps apart."""

    joins: Callable[[Group, Group], bool]
    copies: bool = False


def grouped(graph: Program, nodes: Sequence[Node], target: Target) -> list[Part]:
    """Regions of these nodes and the nodes that no kernel computes, in an order in which they can run."""
    work = _Merge(graph, nodes, Prices(target))
    work.merge()
    return work.ordered()


class _Merge:
    def __init__(self, graph: Program, nodes: Sequence[Node], prices: Prices) -> None:
        self.prices = prices
        self.kept = set(graph.outputs)
        self.joins = joins_of(graph, nodes)
        self.node = {v: n for n in nodes for v in n.outputs}
        self.groups: dict[Group, None] = {}
        self.maker: dict[Value, Group] = {}
        for i, n in enumerate(nodes):
            f = (
                facts_of(n)
                if n.kind == "te" and n not in self.joins
                else Facts(Kind.ALONE, {v: Reading.AWAY for v in n.reads if v.data is None}, 0)
            )
            g = Group({i: n}, f.kind, dict(f.reads), f.work, f.depth, list(n.outputs), f.arithmetic)
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
        for rule in (
            Rule(_maps),
            Rule(_rows),
            Rule(_after_heavy),
            Rule(self._any_map),
            Rule(_views),
            Rule(self._by_each, copies=True),
        ):
            changed = True
            while changed:
                changed = False
                # from the outputs backwards, so that a chain ends in its last reader
                for g in sorted(self.groups, key=lambda g: -g.place):
                    if g in self.groups:
                        changed |= self._joined(g, rule)

    def _joined(self, reader: Group, rule: Rule) -> bool:
        """Let what ``reader`` reads join it. Whether something did."""
        done = False
        while True:
            # one at a time: with each the reader's body grows, and the next may no longer fit
            found = next((p for p in self._producers(reader) if self._fits(p, reader, rule)), None)
            if found is None:
                return done
            reader = self._merged(found, reader)
            done = True

    def _producers(self, reader: Group) -> list[Group]:
        made = dict.fromkeys(self.maker[v] for v in reader.reads if v in self.maker)
        return sorted(made, key=lambda g: -g.place)

    def _fits(self, producer: Group, reader: Group, rule: Rule) -> bool:
        return (rule.copies or not self._apart(producer, reader)) and rule.joins(producer, reader)

    def _any_map(self, producer: Group, reader: Group) -> bool:
        """A map that is read at several places, or elsewhere: where it costs less to compute it there."""
        if producer.kind is not Kind.MAP or reader.kind is not Kind.MAP:
            return False
        return self._price(producer, [reader]).repeats(1)

    def _by_each(self, producer: Group, reader: Group) -> bool:
        """A map that maps alone read, several at first: where it costs less to compute it in each."""
        readers = self._readers(producer)
        if len(producer.outputs) > 1:
            return False
        if any(producer.kind is not Kind.MAP or r.kind is not Kind.MAP for r in readers):
            return False
        if any(self._unjoined(producer, r) for r in readers):
            return False
        return self._price(producer, readers).repeats(len(readers))

    def _price(self, producer: Group, readers: Sequence[Group]) -> Price:
        reading = [Reader(r.out, r.arithmetic, r.reads, _how(producer, r) is Reading.ALONG) for r in readers]
        made = next(v for v in producer.outputs if v in readers[0].reads)
        return self.prices.of(made, producer.reads, producer.arithmetic, reading)

    def _readers(self, producer: Group) -> list[Group]:
        return list(dict.fromkeys(r for v in producer.outputs for r in self.readers.get(v, ())))

    def _apart(self, producer: Group, reader: Group) -> str:
        """Why a producer stays by itself whatever the loops of the two are; empty when it need not."""
        for g in (producer, reader):
            if not self.joins.keys().isdisjoint(g.nodes.values()):
                return f"{g.out.name} is no more than its parts, one behind the other"
        if Kind.ALONE in (producer.kind, reader.kind):
            return "one of the two is not a computation of elements that can be taken apart"
        free = producer.kind is Kind.MAP and producer.work == 0
        if len(producer.outputs) > 1 and not free:
            return "its operator has several results"
        readers = len(self._readers(producer))
        several = f"it is read by {readers} regions" if readers > 1 and not free else ""
        return self._unjoined(producer, reader) or several

    def _unjoined(self, producer: Group, reader: Group) -> str:
        """Why a producer is not written into this reader's body; empty when it may be."""
        if any(v in self.kept for v in producer.outputs):
            return "it is an output"
        if self._turns_apart(producer, reader):
            return "it is transposed, and most of what it is joined with is not"
        if len(producer.nodes) + len(reader.nodes) > MOST_NODES or producer.work + reader.work > MOST_WORK:
            return "both together would be too long a body"
        return ""

    def _turns_apart(self, producer: Group, reader: Group) -> bool:
        """Whether a transposition would have all that it is joined with copied in tiles, which is more than
        that of a few pieces takes by itself.

        Measured (Zen 4, one thread and two): one of four pieces of 256 × 64 × 64 apart 0.62 and 0.56 of the
        time, of open sizes 0.56 and 0.49; one of two 1.07 to 1.22 and 0.55 to 1.03, four of four 1.93 and
        1.48, of 64 × 196 in the first cache 1.03 to 1.7.
        """
        if not any(map(turns, producer.nodes.values())):
            return False
        for n in reader.nodes.values():
            if joins_pieces(n) and self.prices.beyond_first_cache(n.outputs[0]):
                turned = [v for v in n.inputs if v is not None and self._turned(v)]
                return (
                    0
                    < FEW_TURNED * sum(map(self.prices.elements, turned))
                    <= self.prices.elements(n.outputs[0])
                )
        return False

    def _turned(self, v: Value) -> bool:
        """Whether a value is another one in another order of its axes, perhaps in another shape."""
        n = self.node.get(v)
        if n is None or n.kind != "te" or facts_of(n).kind is not Kind.MAP or facts_of(n).work:
            return False
        return turns(n) or (len(n.reads) == 1 and self._turned(n.reads[0]))

    def _merged(self, producer: Group, reader: Group) -> Group:
        """One group of the two. A producer that others read too stays for them."""
        taken = [v for v in producer.outputs if v in reader.reads]
        # the worse of both ways: what is read along a row, through something read elsewhere, is read
        # elsewhere
        how = max(reader.reads[v] for v in taken)
        reads = {v: r for v, r in reader.reads.items() if v not in taken}
        for v, r in producer.reads.items():
            reads[v] = max(reads.get(v, Reading.SAME), how, r)
        both = Group(
            producer.nodes | reader.nodes,
            max(producer.kind, reader.kind),
            reads,
            producer.work + reader.work,
            producer.depth if producer.kind is Kind.ROWS else reader.depth,
            reader.outputs,
            producer.arithmetic + reader.arithmetic,
            producer.again + reader.again + self._shared(producer),
        )
        self._remove(reader)
        self.groups[both] = None
        for v in reads:
            self.readers.setdefault(v, {})[both] = None
        self.maker.update(dict.fromkeys(both.outputs, both))
        if not any(self.readers.get(v) for v in producer.outputs):
            self._remove(producer)
            for v in producer.outputs:
                del self.maker[v]
        return both

    def _shared(self, producer: Group) -> tuple[str, ...]:
        """What is said of a map that several compute."""
        readers = self._readers(producer)
        if len(readers) < 2 or not producer.work:
            return ()
        price = self._price(producer, readers)
        return (f"{producer.out.name} is computed by each of its {len(readers)} readers ({price})",)

    def _remove(self, g: Group) -> None:
        del self.groups[g]
        for v in g.reads:
            self.readers[v].pop(g, None)

    # -- the result

    def ordered(self) -> list[Part]:
        """The groups in an order in which they can run, near to the order of their nodes."""
        missing = {g: len({self.maker[v] for v in g.reads if v in self.maker}) for g in self.groups}
        # the number in the middle keeps groups of one place from being compared
        ready = [(g.place, i, g) for i, g in enumerate(self.groups) if not missing[g]]
        heapq.heapify(ready)
        found: list[Part] = []
        count = len(self.groups)
        while ready:
            *_, g = heapq.heappop(ready)
            found.append(self._region(g))
            for r in dict.fromkeys(r for v in g.outputs for r in self.readers.get(v, ())):
                missing[r] -= 1
                if not missing[r]:
                    count += 1
                    heapq.heappush(ready, (r.place, count, r))
        return found

    def _region(self, g: Group) -> Part:
        nodes = [g.nodes[i] for i in sorted(g.nodes)]
        if nodes[0] in self.joins:
            return Join(nodes[0], self.joins[nodes[0]])
        return nodes[0] if nodes[0].kind != "te" else Region(nodes, g.outputs, self._why(g))

    def _why(self, g: Group) -> list[str]:
        """What the region is, and why it does not begin earlier."""
        found = [_WHAT[g.kind]] if len(g.nodes) > 1 else []
        found += [f"{n.op} stands for {', '.join(n.was)}" for n in g.nodes.values() if n.was]
        for v in g.reads:
            p = self.maker.get(v)
            if p is not None:
                reason = self._apart(p, g) or self._unpriced(p, g) or _unfit(p, g, v)
                found.append(f"{v.name} comes from another: {reason}{self._compared(p)}")
        return found + list(g.again)

    def _unpriced(self, producer: Group, reader: Group) -> str:
        """Why a map stays apart from another; empty where other reasons count."""
        maps = producer.kind is Kind.MAP and reader.kind is Kind.MAP
        return "work would be done again for each element that reads it" if maps else ""

    def _compared(self, producer: Group) -> str:
        """The prices that decided about a map, where all that read it are maps."""
        readers = self._readers(producer)
        maps = all(g.kind is Kind.MAP for g in (producer, *readers))
        return f" ({self._price(producer, readers)})" if maps else ""


_WHAT = {
    Kind.MAP: "maps: each element is computed by itself",
    Kind.ROWS: "reductions of rows and maps of the same rows",
    Kind.HEAVY: "a reduction that reads elements again and again, and maps of each of its results",
    Kind.ALONE: "an operator by itself",
}


def _unfit(producer: Group, reader: Group, v: Value) -> str:
    """Why the loops of the two do not fit."""
    if producer.kind is Kind.HEAVY:
        again = "it would be summed again for each of its readers' places"
        return again if reader.kind is Kind.HEAVY or reader.reads[v] is not Reading.SAME else "shapes differ"
    if reader.kind is Kind.HEAVY:
        return "it is read again and again, and would be computed as often"
    if Kind.ROWS in (producer.kind, reader.kind):
        return "the rows of the two differ"
    return "work would be done again for each element that reads it"


# -- rules: whether a producer joins its only reader


def _maps(producer: Group, reader: Group) -> bool:
    """Maps of the same elements."""
    return (
        producer.kind is Kind.MAP
        and reader.kind is Kind.MAP
        and _how(producer, reader) is Reading.SAME
        and same_sizes(producer.out.shape, reader.out.shape)
    )


def _after_heavy(producer: Group, reader: Group) -> bool:
    """A product and what is computed of it at its own place."""
    return (
        producer.kind is Kind.HEAVY
        and reader.kind is Kind.MAP
        and _how(producer, reader) is Reading.SAME
        and same_sizes(producer.out.shape, reader.out.shape)
    )


def _rows(producer: Group, reader: Group) -> bool:
    """Reductions of rows and maps between them, all of the same rows."""
    if Kind.HEAVY in (producer.kind, reader.kind) or producer.kind == reader.kind == Kind.MAP:
        return False
    depth = producer.depth if producer.kind is Kind.ROWS else reader.depth
    if producer.kind == reader.kind and producer.depth != reader.depth:
        return False
    if _how(producer, reader) is Reading.AWAY or Reading.AWAY in producer.reads.values():
        return False
    return _rows_of(producer.out, depth) == _rows_of(reader.out, depth)


def _views(producer: Group, reader: Group) -> bool:
    """Other places of what is there, read by a product where they lie: a row that is read stays one row in
    memory."""
    return (
        reader.kind is Kind.HEAVY
        and producer.kind is Kind.MAP
        and producer.work == 0
        and (all(in_lines(n) for n in producer.nodes.values()) or _turned_operand(producer, reader))
        and not _hides_a_product(producer, reader)
    )


def _turned_operand(producer: Group, reader: Group) -> bool:
    """Whether a matrix product reads another order of the axes of what is there: it knows its operands in
    every order, and copies parts of them that lie across."""
    return all(map(permutes, producer.nodes.values())) and all(
        is_of_product(n, v) for v in producer.outputs for n in reader.nodes.values() if v in n.inputs
    )


def _hides_a_product(producer: Group, reader: Group) -> bool:
    """Whether a product would no longer be known as one: 128 × 128 scores of keys that are a part of each row
    of a matrix took six times as long as the copy of the keys and the product."""
    return any(counts_apart(n) for n in producer.nodes.values()) and any(
        is_right_of_product(n, v) for n in reader.nodes.values() for v in producer.outputs
    )


def _how(producer: Group, reader: Group) -> Reading:
    return max(reader.reads[v] for v in producer.outputs if v in reader.reads)


def _rows_of(v: Value, depth: int) -> list[int]:
    return [id(n) for n in v.shape[:depth]]
