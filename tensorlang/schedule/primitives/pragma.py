"""pragma: a note to the passes about a loop and what is inside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...te.axis import REDUCE, IterVar
from ...te.reducers import ALL, ANY, Reduce
from ..legality.verdict import YES, Verdict, refuse
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
    "until_known": "a loop of te.any or te.all to one element asks before each iteration whether the answer "
    "is known, and does nothing more if it is",
    "unroll_explicit": "accepted for TVM's sake: unrolled loops are always written out",
}
PragmaName = Annotated[str, Meaning("pragma", tuple(KNOWN))]


def _lanes(value: int | None) -> bool:
    return value is not None and 2 <= value <= 256 and value & (value - 1) == 0


def asks(stage: StageState) -> bool:
    """Whether the stage is a ``te.any`` or ``te.all`` over axes."""
    first = stage.compute.body[0] if stage.compute.reduce_axis else None
    return isinstance(first, Reduce) and (first.reducer is ANY or first.reducer is ALL)


def known_by(stage: StageState) -> bool:
    """The value of one element by which the answer of such a stage is known."""
    first = stage.compute.body[0]
    return isinstance(first, Reduce) and first.reducer is ANY


def beside(stage: StageState, position: int) -> list[str]:
    """The loops from ``position`` inwards that are of several answers, where one alone may not be asked
    for."""
    return [iv.name for iv in stage.leaves[position:] if iv.kind != REDUCE]


def _asks_one(state: ScheduleState, name: str, loop: str) -> Verdict:
    st = state.stage(name)
    if not asks(st):
        return refuse(f"until_known: {name} is no te.any or te.all, whose answer one element may tell")
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
