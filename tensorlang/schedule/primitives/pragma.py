"""pragma: a note to the passes about a loop and what is inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...expr import make
from ...expr.nodes import Expr
from ...te.axis import REDUCE, IterVar
from ...te.first_places import nowhere
from ...te.reducers import ALL, ANY, Reduce
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Fuse, Split
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_loop, leaf
from .fields import LoopName, Meaning, StageName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage

KNOWN = {
    "auto_unroll_max_step": "constant loops inside are unrolled while the result has at most this many steps",
    "stream_stores": "vectors that are written inside go past the caches, where the target can: for a result "
    "that no cache holds",
    "whole_vectors": "a vector loop whose rest would be several shorter vectors, behind vectors of this many "
    "elements, is one masked vector longer",
    "matrix_tiles": "sums of products of 8-bit integers inside are computed in the tiles of a matrix unit, "
    "where the target has one and the loops are those of such tiles",
    "join_next": "the loop runs as one with the next one of as many iterations, where neither needs the "
    "other: what both read is loaded once",
    "until_known": "a loop of te.any or te.all to one element, or of the least place where something holds, "
    "asks before each iteration whether the answer is known, and does nothing more if it is",
    "unroll_explicit": "accepted for TVM's sake: unrolled loops are always written out",
}
PragmaName = Annotated[str, Meaning("pragma", tuple(KNOWN))]


def _lanes(value: int | None) -> bool:
    return value is not None and 2 <= value <= 256 and value & (value - 1) == 0


def asks(stage: StageState) -> bool:
    """Whether the stage is a ``te.any`` or ``te.all`` over axes, or looks for the first of something."""
    first = stage.compute.body[0] if stage.compute.reduce_axis else None
    if not isinstance(first, Reduce):
        return False
    return first.reducer is ANY or first.reducer is ALL or nowhere(stage.compute) is not None


def not_known(stage: StageState, answer: Expr) -> Expr:
    """Whether more elements may change the ``answer`` of such a stage."""
    none = nowhere(stage.compute)
    if none is not None:
        return make.eq(answer, none)
    first = stage.compute.body[0]
    return make.not_(answer) if isinstance(first, Reduce) and first.reducer is ANY else answer


def beside(stage: StageState, position: int) -> list[str]:
    """The loops from ``position`` inwards that are of several answers, where one alone may not be asked
    for."""
    return [iv.name for iv in stage.leaves[position:] if iv.kind != REDUCE]


def in_order(stage: StageState, loop: str) -> bool:
    """Whether a loop is the outermost one over all that the stage reduces, in the order of that."""
    first, *others = stage.compute.reduce_axis
    outermost = next((iv for iv in stage.leaves if iv.kind == REDUCE), None)
    at, relations = first, list(stage.relations)
    while relations:
        r = relations.pop(0)
        if isinstance(r, Fuse) and r.outer is at:
            if not others or r.inner is not others.pop(0):
                return False
            at = r.fused
        elif isinstance(r, Split) and r.parent is at:
            # no other axis is fused with what is outer now
            if others:
                return False
            at = r.outer
    return not others and at is outermost and at.name == loop


def _asks_one(state: ScheduleState, name: str, loop: str) -> Verdict:
    st = state.stage(name)
    if not asks(st):
        return refuse(
            f"until_known: {name} is no te.any or te.all, whose answer one element may tell, nor the least "
            "place where something holds, counted from the first to the last"
        )
    if nowhere(st.compute) is not None and not in_order(st, loop):
        return refuse(
            f"until_known: places found in later iterations of {loop} may be less",
            legal="the outermost loop over what is reduced, of its axes split and fused in their order",
        )
    other = beside(st, next(p for p, iv in enumerate(st.leaves) if iv.name == loop))
    if other:
        return refuse(
            f"until_known: inside {loop} is {other[0]}, a loop over other answers, perhaps not known",
            try_=f"reorder {other[0]} outwards",
        )
    return YES


@dataclass(frozen=True, slots=True)
class Pragma(Primitive):
    """Note ``pragma`` = ``value`` on ``loop`` of ``stage``."""

    stage: StageName
    loop: LoopName
    pragma: PragmaName
    value: int | None = None
    name = "pragma"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        if self.pragma not in KNOWN:
            return refuse(
                f"pragma {self.pragma!r} is not known", legal="; ".join(f"{k}: {v}" for k, v in KNOWN.items())
            )
        if self.pragma == "auto_unroll_max_step" and (self.value is None or not 0 <= self.value <= 4096):
            return refuse(f"auto_unroll_max_step={self.value}: a number of steps from 0 to 4096")
        if self.pragma == "whole_vectors" and not _lanes(self.value):
            return refuse(f"whole_vectors={self.value}: a power of two from 2 to 256")
        if self.pragma == "until_known":
            return _asks_one(state, self.stage, self.loop)
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        iv = leaf(st, self.loop)
        # sorted: states that say the same are equal
        notes = tuple(sorted({**dict(st.pragmas.get(iv, ())), self.pragma: self.value}.items()))
        return state.with_stage(change(st, pragmas={**st.pragmas, iv: notes})), None

    def python(self, w: Writer) -> None:
        w.line(w.call(self))

    @staticmethod
    def call(stage: Stage, loop: IterVar | str, pragma_type: str, pragma_value: int | None = None) -> None:
        """Note ``pragma_type`` on a loop: ``auto_unroll_max_step`` (a number of steps), ``whole_vectors``
        (elements of a vector), ``stream_stores``, ``matrix_tiles``, ``until_known``, ``join_next`` or
        ``unroll_explicit``.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].pragma("i", "auto_unroll_max_step", 16)
        >>> print(s.trace)
          1  pragma(z, i, pragma=auto_unroll_max_step, value=16)
        """
        stage.do(Pragma(stage.name, stage.loop_name("pragma", loop), pragma_type, whole(pragma_value)))
