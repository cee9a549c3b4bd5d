"""Region inference: which part of each tensor a stage computes where it stands, how long every loop runs,
which guards remain.

Consumers come first: a stage at root computes its whole domain; an attached stage computes the box of
elements that its readers touch while the loops inside the attachment point run and those outside stand still.
Boxes are affine intervals over the outer loops, dims and knobs; what cannot be proved becomes a guard. After
the bounds inference of Ragan-Kelley et al., "Halide: A Language and Compiler for Optimizing Parallelism,
Locality, and Recomputation in Image Processing Pipelines", PLDI 2013, section 4.2. Knows te, arith and the
state; nothing of loop IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import reduce
from itertools import islice
from typing import NamedTuple

from ..arith.extents import extent_bound
from ..arith.facts import Facts
from ..arith.simplify import Simplifier
from ..arith.widen import widened
from ..expr import make
from ..expr.nodes import Expr, Max, Min, Var, const_int
from ..expr.walk import preorder, substitute, variables
from ..te.axis import IterVar, dims_of
from ..te.extern import OpaqueOp
from ..te.tensor import ComputeOp, Operation, Tensor, TensorRead
from .links import changed, reads
from .relations import Fuse, Relation, Split, depends_on_dims
from .state import At, ScheduleState, StageState

LARGE = 48  # nodes


class StageBounds:
    """What region inference found for one stage.

    ``low`` and ``extent`` give the computed box per data axis (``low`` speaks of the loops around). ``loops``
    has the extent of every loop and axis, ``counts`` what each counts in terms of the innermost loops.
    ``local`` is each axis's value from the stage's own loops, counted from the box's corner (a reduction axis
    from its begin), ``value`` the absolute value. ``store_low`` and ``store_extent`` are the box its memory
    holds, larger only after store_at. ``bound`` are the variables whose ranges it is known by.
    """

    __slots__ = ("bound", "counts", "extent", "local", "loops", "low", "store_extent", "store_low", "value")

    def __init__(
        self,
        low: tuple[Expr, ...],
        extent: tuple[Expr, ...],
        loops: dict[IterVar, Expr],
        counts: dict[IterVar, Expr],
        local: dict[Var, Expr],
        value: dict[Var, Expr],
        store: list[tuple[Expr, Expr]] | None,
        bound: tuple[Var, ...],
    ) -> None:
        self.low = low
        self.extent = extent
        self.loops = loops
        self.counts = counts
        self.local = local
        self.value = value
        self.bound = bound
        self.store_low = low if store is None else tuple(b[0] for b in store)
        self.store_extent = extent if store is None else tuple(b[1] for b in store)


class Extents(NamedTuple):
    """How often every axis and loop of a stage runs, and what that follows from: its definition, the extents
    of the box it computes, and the relations between its loops."""

    op: ComputeOp
    box: tuple[Expr, ...]
    relations: tuple[Relation, ...]
    loops: dict[IterVar, Expr]

    def after(self, op: ComputeOp, box: tuple[Expr, ...], relations: tuple[Relation, ...]) -> Extents | None:
        """Those of the stage once it has ``relations``, where they only add to these; else None."""
        known = len(self.relations)
        if (
            self.op is not op
            or self.relations != relations[:known]
            # by identity: ``==`` of expressions makes an expression
            or list(map(id, self.box)) != list(map(id, box))
        ):
            return None
        loops = self.loops
        if known < len(relations):
            loops = loops.copy()
            for rel in relations[known:]:
                rel.extents(loops)
        return Extents(op, box, relations, loops)

    @staticmethod
    def of(op: ComputeOp, box: tuple[Expr, ...], relations: tuple[Relation, ...]) -> Extents:
        """Those of a stage nothing is known of."""
        loops = dict(zip(op.axis, box, strict=True))
        for a in op.reduce_axis:
            loops[a] = a.extent
        for rel in relations:
            rel.extents(loops)
        return Extents(op, box, relations, loops)


class Bounds:
    """The result for a whole state: a StageBounds per stage, found when it is asked for, and the facts about
    the loop variables of the stages found so far. What a state has in common with the one it came from is
    taken over."""

    __slots__ = ("_done", "_extents", "_guards", "_implied", "_known", "facts", "state")

    def __init__(self, state: ScheduleState, earlier: Bounds | None = None) -> None:
        self.state = state
        self._guards: dict[str, tuple[Expr, ...]] = {}
        self._implied: dict[str, tuple[Expr, ...]] = {}
        self._known: dict[At, Facts] = {}
        self._done: dict[str, StageBounds] = {}
        # of states before, too: a loop that is cut leaves the extents of the others as they are
        self._extents: dict[str, Extents] = {} if earlier is None else earlier._extents.copy()
        if earlier is None:
            sizes = dims_of(
                *(
                    e
                    for st in state.stages
                    for e in (*(n for t in st.op.outputs for n in t.shape), *_cuts(st))
                )
            )
            self.facts = Facts(sizes=frozenset(v for v in sizes if v.kind == "dim"))
        else:
            self._inherit(earlier)

    def _inherit(self, earlier: Bounds) -> None:
        """Take over what ``earlier`` has found, without the stages whose loops changed and what follows from
        theirs."""
        state, before = self.state, earlier.state
        # copies: the earlier state may be asked again, when a search goes another way from it
        done, ranges, level = earlier._done.copy(), earlier.facts.ranges.copy(), earlier.facts.level.copy()
        fresh = changed(before, state)
        todo = [
            st.name
            for st in fresh
            if st.name not in before.position or not same_loops(before.stage(st.name), st)
        ]
        first = len(todo)
        for n, name in enumerate(todo):  # grows on the way
            found = done.pop(name, None)
            if found is not None:
                for v in found.bound:
                    ranges.pop(v, None)
                    level.pop(v, None)
            elif n >= first:
                continue  # what follows from a stage is found after it
            for s in (state, before):
                if name in s.position:
                    st = s.stage(name)
                    todo += s.links.attached.get(name, ())
                    todo += [
                        r
                        for r in reads(s, st)
                        if s.stage(r).host is not None or s.stage(r).store is not None or s.stage(r).in_part
                    ]
        sizes = {
            v
            for st in fresh
            for e in (*(n for t in st.op.outputs for n in t.shape), *_cuts(st))
            for v in variables(e)
            if v.kind == "dim"
        }
        self._done = done
        self.facts = Facts(ranges, level, sizes=earlier.facts.sizes | sizes)

    def of(self, state: ScheduleState) -> Bounds:
        """The same regions for a state that has the same loops: what else it says of its stages is its
        own."""
        new = copy(self)
        new.state = state
        return new

    @property
    def stages(self) -> dict[str, StageBounds]:
        """Those of every stage that has loops, consumers first."""
        for st in reversed(self.state.stages):
            if not st.is_placeholder and not st.is_inlined and st.name not in self._done:
                self._find(st.name)
        return self._done

    def __getitem__(self, name: str) -> StageBounds:
        result = self._done.get(name)
        if result is None:
            self._find(name)
            result = self._done[name]
        return result

    # -- one stage -------------------------------------------------------------------------------------------

    def _find(self, name: str) -> None:
        """Infer a stage after all that its box follows from: its readers, and the stages around them and
        it."""
        todo = [name]
        while todo:
            stage = self.state.stage(todo[-1])
            # a stack of its own and no recursion: chains of attached stages are longer than Python's
            missing = [n for n in self._follows_from(stage) if n not in self._done]
            if missing:
                todo += missing
                continue
            todo.pop()
            if stage.name not in self._done:
                self._infer(stage)

    def _follows_from(self, stage: StageState) -> tuple[str, ...]:
        if stage.host is None and stage.store is None and not stage.in_part:
            return ()
        hosts = () if stage.host is None else (stage.host,)
        return (*hosts, *self.state.links.readers.get(stage.name, ()))

    def _infer(self, stage: StageState) -> None:
        op = stage.compute
        box = self._box_of(stage)
        loops = self._loops(stage, box)
        ranges: list[tuple[Var, Expr, Expr]] = []
        if isinstance(op, OpaqueOp):
            ranges += [(a.var, make.const(0, a.dtype), make.sub(a.extent, 1)) for a in op.spatial]
        value: dict[IterVar, Expr] = {}
        for iv in stage.leaves:
            # a loop of one iteration has no variable: its name would stand in every index
            value[iv] = make.const(0, iv.dtype) if const_int(loops[iv]) == 1 else iv.var
        ranges += [(iv.var, make.const(0, iv.dtype), make.sub(loops[iv], 1)) for iv in stage.leaves]
        self.facts.grow(ranges)
        simplifier = Simplifier(self.facts)
        # from the innermost loops to the axes: a parent is known once its children are
        for rel in reversed(stage.relations):
            rel.values(value, loops)
            for p in rel.parents:
                # small ones are canonical at birth; simplifying all would take most of the time of a schedule
                if _is_large(value[p]):
                    value[p] = simplifier(value[p])
        local = {a.var: value[a] for a in (*op.axis, *op.reduce_axis)}
        absolute = {a.var: make.add(low, local[a.var]) for a, (low, _) in zip(op.axis, box, strict=True)}
        for a in op.reduce_axis:
            assert a.dom is not None
            absolute[a.var] = make.add(a.dom[0], local[a.var])
        store = None if stage.store is None else self._required(stage, stage.store)
        self._done[stage.name] = StageBounds(
            tuple(b[0] for b in box),
            tuple(b[1] for b in box),
            loops,
            value,
            local,
            absolute,
            store,
            tuple([r[0] for r in ranges]),
        )

    def _box_of(self, stage: StageState) -> list[tuple[Expr, Expr]]:
        """Corner and extent of what a stage computes, per data axis."""
        # a pending stage is computed whole until it has its place
        place = stage.attach if isinstance(stage.attach, At) else None
        if place is not None or stage.in_part:
            return self._required(stage, place)
        return [_domain(a) for a in stage.compute.axis]

    def _loops(self, stage: StageState, box: list[tuple[Expr, Expr]]) -> dict[IterVar, Expr]:
        op, sizes = stage.compute, tuple([b[1] for b in box])
        known = self._extents.get(stage.name)
        found = None if known is None else known.after(op, sizes, stage.relations)
        if found is None:
            found = Extents.of(op, sizes, stage.relations)
        self._extents[stage.name] = found
        return found.loops

    def extent(self, name: str, loop: IterVar) -> Expr:
        """How often a loop of a stage runs. Of a stage at root it takes no more than the relations made since
        it was last asked: a hundred loops cut and annotated in turns do not look at all of them each time."""
        stage = self.state.stage(name)
        if name in self._done or self._follows_from(stage):
            return self[name].loops[loop]
        return self._loops(stage, self._box_of(stage))[loop]

    # -- regions ---------------------------------------------------------------------------------------------

    def around(self, place: At | str | None) -> dict[Var, None]:
        """The loop variables that stand still inside a place: its stage's, up to the loop named, and those
        around them."""
        result: dict[Var, None] = {}
        while isinstance(place, At):
            outer = self.state.stage(place.stage)
            for iv in outer.leaves:
                result[iv.var] = None
                if iv.name == place.loop:
                    break
            place = outer.attach
        return result

    def _required(self, stage: StageState, place: At | None) -> list[tuple[Expr, Expr]]:
        boxes = self.touched(stage.key, self.state.readers(stage.name), place)
        axes = stage.compute.axis
        if boxes is None:  # nobody reads it: nothing is required of it
            return [(make.const(0, a.dtype), make.const(0, a.dtype)) for a in axes]
        return [self.box(ends, a.extent) for ends, a in zip(boxes, axes, strict=True)]

    def touched(
        self, key: Operation, readers: Sequence[StageState], place: At | None
    ) -> list[tuple[Expr, Expr] | None] | None:
        """The ends of what ``readers`` touch of an operation's tensors, per dimension, while the loops
        around ``place`` stand still; None for a dimension that cannot be bounded, None at all when nothing
        is read."""
        gone = self._inside(place)
        boxes: list[tuple[Expr, Expr] | None] | None = None
        for reader in readers:
            known = self[reader.name]
            for node in reader.compute.reads:
                if node.tensor.op is key:
                    ends = [self._ends(substitute(i, known.value), gone) for i in node.indices]
                    boxes = (
                        list(ends)
                        if boxes is None
                        else [_union(a, b) for a, b in zip(boxes, ends, strict=True)]
                    )
        # ends with min and max grow with every stage they pass through, unless they are simplified where they
        # arise
        if boxes is not None and any(ends is not None and _clamped(ends) for ends in boxes):
            simplifier = Simplifier(self._running(place))
            boxes = [
                ends if ends is None or not _clamped(ends) else (simplifier(ends[0]), simplifier(ends[1]))
                for ends in boxes
            ]
        return boxes

    def written(self, stage: StageState, place: At) -> list[tuple[Expr, Expr] | None]:
        """The same of what a stage writes of its own."""
        gone, known = self._inside(place), self[stage.name]
        return [self._ends(known.value[a.var], gone) for a in stage.compute.axis]

    def _inside(self, place: At | None) -> Callable[[Var], bool]:
        """Whether a variable is of a loop inside the place, which runs through all its values; those around
        it stand still."""
        around = self.around(place)
        return lambda v: v.kind == "loop" and v not in around

    def _running(self, place: At | str | None) -> Facts:
        """What holds while an iteration of the loops around a place runs: none of them is empty."""
        facts = self.known_at(place)
        for v in self.around(place):
            low, high = self.facts.ranges[v]
            facts = facts.assume(make.le(low, high))
        return facts

    def _ends(self, index: Expr, gone: object) -> tuple[Expr, Expr] | None:
        if any(isinstance(node, TensorRead) for node in preorder(index)):
            return None  # a position that is data may be anywhere
        lo = self.facts.bound(index, gone, False)  # type: ignore[arg-type]
        hi = self.facts.bound(index, gone, True)  # type: ignore[arg-type]
        return None if lo is None or hi is None else (lo, hi)

    def box(self, ends: tuple[Expr, Expr] | None, whole: Expr) -> tuple[Expr, Expr]:
        """Corner and extent of a dimension of ``whole`` elements; all of it when its ends are not known."""
        full = (make.const(0, whole.dtype), whole)
        if ends is None:
            return full
        lo, hi = (make.cast(whole.dtype, e) for e in ends)
        extent = extent_bound(self.facts, make.add(make.sub(widened(hi), widened(lo)), 1), is_loop)
        extent = None if extent is None else make.cast(whole.dtype, extent)
        # as much as the whole tensor, by a longer formula
        if extent is None or (depends_on_dims(extent) and self.facts.prove(make.le(whole, extent)) is True):
            return full
        if (
            self.facts.prove(make.ge(lo, 0)) is True
            and not depends_on_dims(whole)
            and not depends_on_dims(extent)
        ):
            extent = make.min_(extent, whole)  # a box that starts inside needs no more than the whole
        return lo, extent

    # -- guards ----------------------------------------------------------------------------------------------

    def guards(self, stage: StageState) -> tuple[Expr, ...]:
        """The conditions under which one iteration of the stage's loops is a point of its domain, without the
        provable ones: those that follow from the guards of the stages around it, or from other guards of its
        own, are not tested again."""
        done = self._guards.get(stage.name)
        if done is None:
            done = self._guards[stage.name] = self._needed(stage, self.known_at(stage.attach))
        return done

    def holding(self, stage: StageState) -> tuple[Expr, ...]:
        """The guards of a stage, and what follows from them though nobody could prove it."""
        return (*self.guards(stage), *self._implied[stage.name])

    def known_at(self, place: At | str | None) -> Facts:
        """What holds inside a place: the ranges of all loops, and the guards of the stages around that stand
        outside it."""
        if not isinstance(place, At):
            return self.facts
        result = self._known.get(place)
        if result is None:
            result = self._known[place] = self._known_inside(place)
        return result

    def _known_inside(self, place: At | str | None) -> Facts:
        facts = self.facts
        while isinstance(place, At):
            outer = self.state.stage(place.stage)
            at = [iv.name for iv in outer.leaves].index(place.loop)
            inside = {iv.var for iv in outer.leaves[at + 1 :]}
            for g in self.holding(outer):
                if not any(v in inside for v in variables(g)):
                    facts = facts.assume(g)
            place = outer.attach
        return facts

    def _needed(self, stage: StageState, facts: Facts) -> tuple[Expr, ...]:
        found: dict[Expr, None] = {}
        before = facts
        b = self[stage.name]
        op = stage.compute

        def need(cond: Expr) -> None:
            nonlocal facts
            known, own_loops = facts, variables(cond)
            if any(variables(c) > own_loops for c in found):
                # what speaks of further loops tests each of their iterations: it bounds no loop around them
                known = reduce(_knowing, [c for c in found if not variables(c) > own_loops], before)
            if not _certain(cond, known):
                found[cond] = None
                facts = _knowing(facts, cond)

        own = {a: (a.extent, low) for a, low in zip(op.axis, b.low, strict=True)}
        for rel in stage.relations:
            if isinstance(rel, Split):
                if rel.tail == "zeros":  # runs on behind the end; ``lowering.tails`` sees to it that it may
                    continue
                # whole tiles: no iteration goes beyond the parent's
                if self.facts.divisible(b.loops[rel.parent], b.loops[rel.inner]) and rel.factor is not None:
                    continue
                if (
                    rel.parent in own
                    and own[rel.parent][0] is b.loops[rel.parent]
                    and const_int(own[rel.parent][1]) == 0
                ):
                    continue  # the domain's own guard below says the same
                need(make.lt(b.counts[rel.parent], b.loops[rel.parent]))
        parts = {iv for rel in stage.relations if isinstance(rel, Fuse) for iv in rel.parents}
        tested = not any(isinstance(rel, Split) and rel.tail == "zeros" for rel in stage.relations)
        implied: list[Expr] = []
        for a in op.axis:
            begin, extent = _domain(a)
            whole = own[a][0] is b.loops[a] and const_int(own[a][1]) == 0 and const_int(begin) == 0
            open_ = const_int(extent) is None or (tested and depends_on_dims(b.value[a.var]))
            if a in parts and whole and open_:
                # quotient and remainder of a counter that stays below the product, as tested above; where one
                # of the two sizes is open nobody could prove it of either
                implied.append(make.lt(b.value[a.var], extent))
                continue
            need(make.lt(b.value[a.var], make.add(begin, extent)))
            need(make.ge(b.value[a.var], begin))
        for cond in list(found)[:-1]:
            # a region rounded up to whole tiles ends behind the domain, which is asked for after it. Not by
            # what speaks of further loops: a guard of the outer ones leaves out all that is inside
            rest = [c for c in found if c is not cond and variables(c) <= variables(cond)]
            if rest and _certain(cond, reduce(_knowing, rest, before).looking_closely()):
                del found[cond]
                implied.append(cond)
        self._implied[stage.name] = tuple(implied)
        return tuple(found)


def _certain(cond: Expr, facts: Facts) -> bool:
    """Whether a condition always holds. Asked in 64 bits too, where no overflow stands in the way of a
    proof."""
    return facts.prove(cond) is True or facts.prove(widened(cond)) is True


def _knowing(facts: Facts, cond: Expr) -> Facts:
    """``facts``, and that a condition holds, in 64 bits too."""
    facts = facts.assume(cond)
    return facts if widened(cond) is cond else facts.assume(widened(cond))


def _is_large(e: Expr) -> bool:
    """Whether an axis in terms of loops is larger than a few splits and fuses make it: each further one would
    double it again, where the ranges of the loops, which the canonical form does not know, may fold it."""
    return next(islice(preorder(e), LARGE, None), None) is not None


def _cuts(stage: StageState) -> list[Expr]:
    """What loops are cut by."""
    return [
        n
        for rel in stage.relations
        if isinstance(rel, Split)
        for n in (rel.factor, rel.nparts)
        if n is not None
    ]


def is_loop(v: Var) -> bool:
    """Whether a variable counts the iterations of a loop."""
    return v.kind == "loop"


def _domain(axis: IterVar) -> tuple[Expr, Expr]:
    assert axis.dom is not None
    return axis.dom[0], axis.dom[1]


def _clamped(ends: tuple[Expr, Expr]) -> bool:
    """Whether an end is the smaller or larger of several, of which the ranges of loops may tell which."""
    return any(isinstance(node, Min | Max) for e in ends for node in preorder(e))


def _union(a: tuple[Expr, Expr] | None, b: tuple[Expr, Expr] | None) -> tuple[Expr, Expr] | None:
    return None if a is None or b is None else (make.min_(a[0], b[0]), make.max_(a[1], b[1]))


def bounds_of(state: ScheduleState) -> Bounds:
    """Region inference of a state, each stage computed once."""
    if state._bounds is None:
        earlier, state._earlier = state._earlier, None
        if earlier is not None and all(
            [before is not None and same_loops(before, st) for before, st in _pairs(earlier.state, state)]
        ):
            state._bounds = earlier.of(state.bare())  # it differs in nothing that regions depend on
        else:
            state._bounds = Bounds(state.bare(), earlier)
    return state._bounds  # type: ignore[no-any-return]


def _pairs(before: ScheduleState, state: ScheduleState) -> list[tuple[StageState | None, StageState]]:
    return [
        (before.stage(st.name) if st.name in before.position else None, st) for st in changed(before, state)
    ]


def same_loops(a: StageState, b: StageState) -> bool:
    """Whether two states of a stage differ in nothing that regions depend on: how iterations of a loop are
    run is not part of it."""
    return (
        a.op is b.op
        and a.leaves is b.leaves
        and a.relations is b.relations
        and a.attach == b.attach
        and a.store == b.store
    )


def lanes_around(state: ScheduleState, bounds: Bounds, stage: StageState) -> list[tuple[Expr, Var]]:
    """How many iterations the vector loops around the memory of a stage run, and their variables, the
    outermost first. All iterations run at once: each has an element of its own for every element of the
    region."""
    result: list[tuple[Expr, Var]] = []
    place = stage.attach
    while isinstance(place, At):
        outer = state.stage(place.stage)
        last = next(p for p, iv in enumerate(outer.leaves) if iv.name == place.loop)
        extents = bounds[outer.name].loops
        wide = [iv for iv in outer.leaves[: last + 1] if outer.kind(iv) == "vectorized"]
        result = [*[(extents[iv], iv.var) for iv in wide if const_int(extents[iv]) != 1], *result]
        place = outer.attach
    return result


def region_size(tensor: Tensor, bounds: Bounds) -> tuple[Expr, ...]:
    """The extents of the storage of a tensor: the computed box, or the whole shape at root and for
    arguments."""
    stage = bounds.state.of(tensor)
    return tensor.shape if stage.is_placeholder or stage.is_opaque else bounds[stage.name].store_extent


def padded(shape: tuple[Expr, ...], align: dict[int, tuple[int, int]]) -> tuple[Expr, ...] | None:
    """Strides where each axis in ``align`` has one that is a multiple of a factor, plus an offset; None when
    ``align`` is empty."""
    if not align:
        return None
    strides: list[Expr] = []
    step = make.const(1, "int32")
    for d in reversed(range(len(shape))):
        if d in align:
            factor, offset = align[d]
            # the least number from ``step`` on that is a multiple plus the offset, as TVM rounds
            step = make.add(make.mul(make.ceildiv(make.sub(step, offset), factor), factor), offset)
        strides.append(step)
        step = make.mul(step, shape[d])
    return tuple(reversed(strides))
