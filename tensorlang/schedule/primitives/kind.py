"""vectorize, unroll, parallel: how the iterations of a loop are run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...expr.nodes import const_int
from ...te.axis import REDUCE, IterVar
from ...te.reducers import parts_alone
from ...te.scan import SCAN
from ..bounds import bounds_of
from ..legality.verdict import YES, Verdict, refuse
from ..relations import depends_on_dims
from ..state import ScheduleState, change
from .base import Primitive, check_loop, leaf
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..schedule import Stage

# beyond all registers by far: more is a mistake, and takes LLVM very long
MAX_LANES = 1024
MAX_UNROLL = 4096
LIMITS = {"vectorized": MAX_LANES, "unrolled": MAX_UNROLL}


@dataclass(frozen=True, slots=True)
class Kind(Primitive):
    """Base of the three."""

    stage: StageName
    loop: LoopName
    kind: ClassVar[str] = "serial"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        iv = leaf(st, self.loop)
        if st.kind(iv) == self.kind:  # said once more
            return YES
        if st.kind(iv) != "serial":
            return refuse(
                f"loop {self.stage}.{self.loop} is {st.kind(iv)} already: a loop runs one way",
                mark=(self.stage, self.loop),
                try_="split it before, and run its halves in different ways",
            )
        return self.fits(state)

    def fits(self, state: ScheduleState) -> Verdict:
        """What this kind asks of its loop."""
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        return state.with_stage(change(st, kinds={**st.kinds, leaf(st, self.loop): self.kind})), None

    def _constant(self, state: ScheduleState, limit: int) -> Verdict:
        st = state.stage(self.stage)
        if st.pending is not None:  # what its loops run is known once it has its place; lowering asks again
            return YES
        extent = bounds_of(state).extent(self.stage, leaf(st, self.loop))
        where = f"{self.stage}.{self.loop}"
        if depends_on_dims(extent):
            return refuse(
                f"loop {where} runs {extent} times, which is known only at run time; {self.kind} loops need "
                "a constant extent",
                mark=(self.stage, self.loop),
                try_=f"split {self.loop} by a constant factor and take the inner half"
                + ("" if st.is_output else ", or compute_at first so that its extent is that of a tile"),
            )
        n = const_int(extent)
        if n is not None and n > limit:
            return refuse(
                f"loop {where} runs {n} times; the limit of {self.kind} loops is {limit}",
                mark=(self.stage, self.loop),
                try_=f"split {self.loop} by a small factor and take the inner half",
            )
        return YES


@dataclass(frozen=True, slots=True)
class Vectorize(Kind):
    """All iterations of ``loop`` at once, one per lane. Tails are masked."""

    name = "vectorize"
    kind = "vectorized"

    def fits(self, state: ScheduleState) -> Verdict:
        st = state.stage(self.stage)
        if leaf(st, self.loop).kind == SCAN:
            return refuse(
                f"loop {self.stage}.{self.loop} is a scan: each iteration needs the one before",
                mark=(self.stage, self.loop),
            )
        if leaf(st, self.loop).kind == REDUCE and not _built_in_reducer(st):
            return refuse(
                "the lanes of a reduction loop are combined by a vector reduction, which exists for sum, "
                "prod, min, max, any, all only",
                mark=(self.stage, self.loop),
                try_="vectorize a data loop",
            )
        for other, kind in st.kinds.items():
            # a loop that has been split since keeps its note, and is no loop any more
            if kind == "vectorized" and st.loop(other.name) is other:
                return refuse(
                    f"loop {self.stage}.{other.name} is vectorized already: a stage has one vector loop",
                    mark=(self.stage, self.loop),
                    try_=f"fuse({other.name}, {self.loop}) and vectorize the fused loop, or unroll one of "
                    "them",
                )
        return self._constant(state, MAX_LANES)

    @staticmethod
    def call(stage: Stage, loop: IterVar | str) -> None:
        """Run all iterations of the loop at once, one per vector lane. The extent must be constant.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].vectorize(j)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.j       0..8  vectorized
              └─ compute B   reads A
        """
        stage.do(Vectorize(stage.name, stage.loop_name("vectorize", loop)))


@dataclass(frozen=True, slots=True)
class Unroll(Kind):
    """The iterations of ``loop`` written out one after the other."""

    name = "unroll"
    kind = "unrolled"

    def fits(self, state: ScheduleState) -> Verdict:
        return self._constant(state, MAX_UNROLL)

    @staticmethod
    def call(stage: Stage, loop: IterVar | str) -> None:
        """Write the iterations of the loop out one after the other. The extent must be constant.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].unroll(j)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8
           └─ loop B.j       0..8  unrolled
              └─ compute B   reads A
        """
        stage.do(Unroll(stage.name, stage.loop_name("unroll", loop)))


@dataclass(frozen=True, slots=True)
class Parallel(Kind):
    """The iterations of ``loop`` shared out among threads."""

    name = "parallel"
    kind = "parallel"

    def fits(self, state: ScheduleState) -> Verdict:
        st = state.stage(self.stage)
        if leaf(st, self.loop).kind == SCAN:
            return refuse(
                f"loop {self.stage}.{self.loop} is a scan: each iteration needs the one before",
                mark=(self.stage, self.loop),
                try_="a data loop of the update",
            )
        if leaf(st, self.loop).kind == REDUCE:
            return refuse(
                f"loop {self.stage}.{self.loop} reduces: its iterations write the same element, and threads "
                "would race",
                mark=(self.stage, self.loop),
                legal="data loops: "
                + (", ".join(iv.name for iv in st.leaves if iv.kind != REDUCE) or "none"),
                try_="s.rfactor(…) makes partial results that threads can compute apart",
            )
        return YES

    @staticmethod
    def call(stage: Stage, loop: IterVar | str) -> None:
        """Share the iterations of the loop out among threads. Not for reduction loops.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> i, j = B.op.axis
        >>> s[B].parallel(i)
        >>> print(s.tree())
        root
        └─ loop B.i          0..8  parallel
           └─ loop B.j       0..8
              └─ compute B   reads A
        """
        stage.do(Parallel(stage.name, stage.loop_name("parallel", loop)))


def _built_in_reducer(stage: Any) -> bool:
    return all(parts_alone(e) for e in stage.compute.body)
