"""fuse: neighbouring loops become one.

``for i in 0..N: for j in 0..M`` → ``for i.j.fused in 0..N * M: i = i.j.fused // M; j = i.j.fused % M``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...arith.facts import Facts
from ...core.dtype import INT32, INT64, DType
from ...expr.nodes import Var
from ...te.axis import DATA, IterVar
from ...te.scan import SCAN
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Fuse as FuseRelation
from ..relations import Singleton
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_loop, check_stage, fresh_loop_name, leaf, position, renamed
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage

SINGLE = "singleton"  # the loop that is made of none
_MANY = 1 << 30  # tails may round the iterations up


@dataclass(frozen=True, slots=True)
class Fuse(Primitive):
    """Fuse ``loops`` of ``stage``, neighbours in any order; no loops at all gives a loop of one iteration,
    outermost."""

    stage: StageName
    loops: tuple[LoopName, ...]
    name = "fuse"

    def check(self, state: ScheduleState) -> Verdict:
        if not self.loops:
            return check_stage(state, self.stage)
        if len(set(self.loops)) != len(self.loops):
            return refuse("a loop is named twice", try_="name each loop once")
        for loop in self.loops:
            verdict = check_loop(state, self.stage, loop)
            if not verdict:
                return verdict
        st = state.stage(self.stage)
        start = min(position(st, loop) for loop in self.loops)
        # the order of the names does not matter, that of the loops does: fusing reorders nothing
        if {iv.name for iv in st.leaves[start : start + len(self.loops)]} != set(self.loops):
            order = ", ".join(iv.name for iv in st.leaves)
            end = max(position(st, loop) for loop in self.loops) + 1
            between = [iv.name for iv in st.leaves[start:end] if iv.name not in self.loops]
            return refuse(
                f"{', '.join(self.loops)} are not neighbours: the loops are {order}",
                mark=(self.stage, self.loops[0]),
                try_=f"s[{self.stage}].reorder({', '.join([*self.loops, *between])}) first",
            )
        ivs = [leaf(st, loop) for loop in self.loops]
        if len(ivs) > 1 and any(iv.kind == SCAN for iv in ivs):
            return refuse(
                f"a loop of the scan {self.stage} stays by itself: its iterations are the rows, in order",
                mark=(self.stage, self.loops[0]),
                try_="loops of the update",
            )
        if len({iv.kind for iv in ivs}) > 1:
            mixed = ", ".join(
                f"{iv.name} is a {'data' if iv.kind == DATA else 'reduction'} loop" for iv in ivs
            )
            return refuse(
                f"a data loop and a reduction loop cannot be one loop: {mixed}",
                mark=(self.stage, self.loops[0]),
                try_="reorder so that loops of one kind are neighbours, and fuse those",
            )
        for iv in ivs:
            if st.kind(iv) != "serial":
                return refuse(
                    f"loop {self.stage}.{iv.name} is {st.kind(iv)} already",
                    mark=(self.stage, iv.name),
                    try_="fuse first, then annotate the fused loop",
                )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        if not self.loops:
            unit = IterVar(Var(fresh_loop_name(st, SINGLE), INT32, "loop"), None)
            new = change(st, leaves=(unit, *st.leaves), relations=(*st.relations, Singleton(unit)))
            return state.with_stage(new), unit
        fused: IterVar | None = None
        # two at a time: a fused loop of three is one of a fused loop and a third
        for loop in [iv.name for iv in st.leaves if iv.name in self.loops]:
            st = state.stage(self.stage)
            iv = leaf(st, loop)
            if fused is None:
                fused = iv
                continue
            name = fresh_loop_name(st, _both(fused.name, iv.name))
            both = IterVar(Var(name, _counter(st, fused, iv), "loop"), None, iv.kind)
            p = position(st, fused.name)
            gone = {fused.name: name, iv.name: name}
            new = change(
                st,
                leaves=(*st.leaves[:p], both, *st.leaves[p + 2 :]),
                relations=(*st.relations, FuseRelation(fused, iv, both)),
                names=st.used() | {name},
                init_at=gone.get(st.init_at or "", st.init_at),
                pragmas=_noted(st, fused, iv, both),
                prefetches=tuple(p.renamed(gone) for p in st.prefetches),
            )
            state = state.with_stage(new, *renamed(state, self.stage, gone))
            fused = both
        return state, fused

    def python(self, w: Writer) -> None:
        loops = w.loops(self.stage, *self.loops)
        if len(loops) == 1:  # the loop itself
            new = w.renamed(self.stage, self.loops[0], f"{self.loops[0]}.same")
        else:
            preferred = self.loops[0] if loops else SINGLE
            for x in self.loops[1:]:
                preferred = w.fresh_loop(self.stage, _both(preferred, x))
            new = w.bind(self.stage, [preferred])
        w.line(f"{new} = s[{w.tensor(self.stage)}].fuse({', '.join(loops)})")

    @staticmethod
    def call(stage: Stage, *loops: IterVar | str) -> IterVar:
        """Fuse neighbouring loops into one; returns it. Without loops, a new outermost loop of one
        iteration. Loops may be named in any order, as in TVM: the order of iterations stays what it is, and
        ``reorder`` first is what changes it. Raises ScheduleError for loops that are not neighbours, of two
        kinds, or annotated already.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> both = s[B].fuse(i, j)
        >>> print(s.tree())
        root
        └─ loop B.i.j.fused   0..64
           └─ compute B       reads A
        """
        listed = tuple(loops[0]) if len(loops) == 1 and isinstance(loops[0], list | tuple) else loops
        return stage.do(Fuse(stage.name, tuple(stage.loop_name("fuse", x) for x in listed)))  # type: ignore[no-any-return]


def _both(outer: str, inner: str) -> str:
    """The name the fused loop of two is to have."""
    return f"{outer.removesuffix('.fused')}.{inner}.fused"


def _noted(
    st: StageState, outer: IterVar, inner: IterVar, both: IterVar
) -> dict[IterVar, tuple[tuple[str, Any], ...]]:
    """The pragmas of the loops, those of the two now on the one."""
    kept = {iv: said for iv, said in st.pragmas.items() if iv is not outer and iv is not inner}
    noted = {**dict(st.pragmas.get(outer, ())), **dict(st.pragmas.get(inner, ()))}
    return {**kept, both: tuple(sorted(noted.items()))} if noted else kept


def _counter(st: StageState, outer: IterVar, inner: IterVar) -> DType:
    """The type the loop of these two is counted in: that of the inner one, unless the iterations of all axes
    that they are parts of may be too many for it."""
    made_of = {outer: None, inner: None}
    for rel in reversed(st.relations):
        if any(loop in made_of for loop in rel.children):
            made_of.update(dict.fromkeys(rel.parents))
    facts, iterations = Facts(), 1
    for axis in st.compute.axis if inner.kind == DATA else st.compute.reduce_axis:
        if axis in made_of:
            most = facts.interval(axis.extent)[1]
            if most is None:
                return INT64
            iterations *= max(1, most)
    return inner.dtype if iterations < _MANY else INT64
