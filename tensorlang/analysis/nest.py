"""The loops around each compute statement of a schedule, and how much of each axis they cover from a given
loop inwards. Knows the schedule tree and its bounds.

``width(axis, level)`` is the number of values an axis takes while the loops from number ``level`` inwards run
and those outside stand still. It is computed from the relations of the loops (a split's parent covers
``(w(outer) - 1) * extent(inner) + w(inner)``) and, beyond a stage's own loops, from what its readers touch.
It goes through no proof and no simplification of index expressions, so the same formula serves knobs and
numbers: that is what makes the columns of a symbolic schedule equal the numbers of a concrete one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.recursion import Steps, run
from ..expr.nodes import Expr, Var
from ..expr.walk import preorder
from ..schedule.bounds import Bounds, bounds_of
from ..schedule.relations import Fuse, Split
from ..schedule.state import ScheduleState, StageState
from ..schedule.tree.nodes import ComputeNode, LoopNode, StorageNode, TreeNode, tree_of
from ..te.axis import REDUCE, IterVar
from ..te.tensor import Tensor, TensorRead
from .quantity import Amount, amount, ceil_quotient, choose, least, minus, most, plus, times
from .sizes import Sizes
from .span import span


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop around a statement. ``reduce`` tells a reduction loop, ``own`` one of the statement's own
    stage."""

    stage: str
    name: str
    extent: Expr
    kind: str
    reduce: bool
    own: bool


class Nest:
    """A compute statement with the loops around it, outermost first; ``start`` is the number of the first
    loop of its own."""

    __slots__ = ("inside", "loops", "stage", "start")

    def __init__(self, stage: StageState, loops: tuple[Loop, ...], inside: tuple[IterVar, ...]) -> None:
        self.stage = stage
        self.loops = loops
        self.inside = inside
        self.start = next((p for p, loop in enumerate(loops) if loop.own), len(loops))

    @property
    def leaves(self) -> tuple[IterVar, ...]:
        """The loops of its own, those that were fused one by one where the nests take them apart."""
        return self.inside[self.start :]


class Nests:
    """All statements of a state, in the order they run, and the widths of their axes; with ``apart``, those
    with the loops that were fused one by one."""

    def __init__(self, state: ScheduleState, sizes: Sizes, apart: bool = False) -> None:
        self.state = state
        self.apart = apart
        self.sizes = sizes
        self.bounds: Bounds = bounds_of(state)
        self.statements: list[Nest] = []
        self.storage: list[StageState] = []
        self.by_stage: dict[str, Nest] = {}
        self._widths: dict[tuple[str, int], dict[Var, Expr]] = {}
        self._extents: dict[str, dict[IterVar, Expr]] = {}
        for node in tree_of(state):
            run(self._walk(node, ()))

    def _walk(self, node: TreeNode, around: tuple[tuple[StageState, IterVar, str], ...]) -> Steps[None]:
        if isinstance(node, LoopNode):
            for child in node.children:
                yield self._walk(child, (*around, *self._parts(node)))
        elif isinstance(node, StorageNode):
            self.storage.append(node.stage)
        elif isinstance(node, ComputeNode) and not node.stage.is_opaque:
            # what no schedule changes costs the same in all
            own = node.stage.name
            loops = tuple(
                Loop(st.name, iv.name, self.extents(st)[iv], kind, iv.kind == REDUCE, st.name == own)
                for st, iv, kind in around
            )
            nest = Nest(node.stage, loops, tuple(iv for _, iv, _ in around))
            self.statements.append(nest)
            self.by_stage[own] = nest

    def _parts(self, node: LoopNode) -> list[tuple[StageState, IterVar, str]]:
        """A loop with its stage and kind, or the loops that it was fused from, outermost first, where they
        are taken apart."""
        found = [node.loop]
        for rel in reversed(node.stage.relations if self.apart else ()):
            if isinstance(rel, Fuse) and rel.fused in found:
                at = found.index(rel.fused)
                found[at : at + 1] = [rel.outer, rel.inner]
        return [(node.stage, iv, node.stage.kind(node.loop)) for iv in found]

    def extents(self, stage: StageState) -> dict[IterVar, Expr]:
        """The extent of every loop and axis of a stage, in 64 bits, with a value for each size."""
        result = self._extents.get(stage.name)
        if result is None:
            result = self._extents[stage.name] = {
                iv: amount(self.sizes(e)) for iv, e in self.bounds[stage.name].loops.items()
            }
        return result

    def box(self, tensor: Tensor) -> tuple[Expr, ...]:
        """The extents of the memory a tensor lives in: its shape, or the computed box."""
        stage = self.state.of(tensor)
        shape = (
            tensor.shape
            if stage.is_placeholder or stage.is_output or stage.is_opaque
            else self.bounds[stage.name].extent
        )
        return tuple(amount(self.sizes(e)) for e in shape)

    # -- widths ----------------------------------------------------------------------------------------------

    def widths(self, nest: Nest, level: int) -> dict[Var, Expr]:
        """How many values each axis of the statement takes while the loops from ``level`` inwards run."""
        key = (nest.stage.name, level)
        result = self._widths.get(key)
        if result is None:
            result = self._widths[key] = (
                self._own(nest, level) if level >= nest.start else self._from_readers(nest, level)
            )
        return result

    def _own(self, nest: Nest, level: int) -> dict[Var, Expr]:
        stage, extent = nest.stage, self.extents(nest.stage)
        width: dict[IterVar, Expr] = {
            iv: extent[iv] if nest.start + p >= level else amount(1) for p, iv in enumerate(nest.leaves)
        }
        for rel in reversed(stage.relations):
            if isinstance(rel, Split):
                covered = plus(times(minus(width[rel.outer], 1), extent[rel.inner]), width[rel.inner])
                width[rel.parent] = least(covered, extent[rel.parent])
            elif isinstance(rel, Fuse) and rel.fused in width:
                width[rel.outer] = least(
                    ceil_quotient(width[rel.fused], extent[rel.inner]), extent[rel.outer]
                )
                width[rel.inner] = least(width[rel.fused], extent[rel.inner])
        op = stage.compute
        return {a.var: width[a] for a in (*op.axis, *op.reduce_axis)}

    def _from_readers(self, nest: Nest, level: int) -> dict[Var, Expr]:
        op = nest.stage.compute
        touched: list[Expr] | None = None
        for reader in self.state.readers(nest.stage.name):
            other = self.by_stage.get(reader.name)
            if other is None:  # a scan, a scatter or an extern: it takes all there is
                return {
                    **{a.var: self.extents(nest.stage)[a] for a in op.reduce_axis},
                    **{a.var: amount(self.sizes(a.extent)) for a in op.axis},
                }
            for t in op.outputs:
                reads = [r.indices for r in reads_of(reader) if r.tensor is t]
                if reads:
                    part = self.region(other, level, reads, tuple(amount(self.sizes(e)) for e in t.shape))
                    touched = (
                        list(part)
                        if touched is None
                        else [most(a, b) for a, b in zip(touched, part, strict=True)]
                    )
        extent = self.extents(nest.stage)
        result = {a.var: extent[a] for a in op.reduce_axis}
        for d, a in enumerate(op.axis):
            result[a.var] = amount(1) if touched is None else touched[d]
        return result

    def region(
        self, nest: Nest, level: int, reads: list[tuple[Expr, ...]], shape: tuple[Expr, ...]
    ) -> tuple[Expr, ...]:
        """The box that these index tuples cover together while the loops from ``level`` inwards run."""
        width = self.widths(nest, level)
        out = []
        for d, whole in enumerate(shape):
            lo: Amount | None = None
            hi: Amount = 0
            for indices in reads:
                ends = span(self.sizes(indices[d]), width)
                if ends is None:
                    lo = None
                    break
                lo, hi = ends if lo is None else (least(lo, ends[0]), most(hi, ends[1]))
            out.append(whole if lo is None else least(plus(minus(hi, lo), 1), whole))
        return tuple(out)

    # -- steps -----------------------------------------------------------------------------------------------

    def steps(self, nest: Nest, p: int) -> dict[Var, Expr]:
        """By how much each axis moves when own loop number ``p`` of the whole nest takes one iteration."""
        stage, extent = nest.stage, self.extents(nest.stage)
        if p < nest.start:
            return {}
        step: dict[IterVar, Expr] = {iv: amount(int(q == p - nest.start)) for q, iv in enumerate(nest.leaves)}
        for rel in reversed(stage.relations):
            if isinstance(rel, Split):
                step[rel.parent] = plus(times(step[rel.outer], extent[rel.inner]), step[rel.inner])
            elif isinstance(rel, Fuse) and rel.fused in step:
                step[rel.outer] = choose(extent[rel.inner], 1, step[rel.fused], 0)
                step[rel.inner] = choose(extent[rel.inner], 1, 0, step[rel.fused])
        op = stage.compute
        return {a.var: step[a] for a in (*op.axis, *op.reduce_axis)}


def reads_of(stage: StageState) -> Iterator[TensorRead]:
    """Every distinct element read in the body of a stage, in order."""
    seen: dict[TensorRead, None] = {}
    for e in stage.compute.body:
        for node in preorder(e):
            if type(node) is TensorRead and node not in seen:
                seen[node] = None
                yield node
