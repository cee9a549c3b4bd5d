"""prefetch: what a later iteration of a loop reads is asked for while this one runs.

``for i: C reads A[i, …]`` with s[C].prefetch(A, i, 2) → ``for i: { prefetch A[i + 2, …]; C reads A[i, …] }``

``for j: for i: for k: C reads A[j, k]`` with s[C].prefetch(A, k, 1, share=True) asks at each iteration for a
little of A[j + 1, …], which all of them together have asked for when the next j begins.

``for j: for i: C reads A[i, j]`` with s[C].prefetch(A, i, 1, outer=j) asks in each iteration of i for what
the same one reads at the next j.

``for i: C[i] = A[i]`` with s[C].prefetch(C, i, 2) asks for the lines of C[i + 2] to write to: a store to a
line that no cache near has waits for it, and others behind it.

``for i: { for j: B[j] = …; for j: C[i, j] = B[j] … }`` with s[B].prefetch(C, j, 0) asks for them while B is
computed within the loops of a C of the same shape.

A hint: it does nothing when the tensor is moved so that its memory is made inside the loop, where a later
iteration has other memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.axis import IterVar
from ...te.tensor import Tensor
from ..legality.verdict import YES, Verdict, refuse
from ..state import INLINED, Ahead, ScheduleState, change
from .base import Primitive, check_loop, check_output
from .fields import LoopName, StageName, TensorName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage, StageKey

# iterations: more is a mistake, and its addresses might leave 32 bits
MAX_OFFSET = 1 << 20
LEVELS = (1, 2)  # caches that may be named


def written_around(state: ScheduleState, stage: str, tensor: Tensor) -> bool:
    """Whether ``stage`` is computed in the loops of the one that writes ``tensor``, place for place."""
    st = state.stage(stage)
    if st.host != state.of(tensor).name or not st.op.outputs:
        return False
    own, other = st.op.outputs[0].shape, tensor.shape
    return len(own) == len(other) and all(n is m for n, m in zip(own, other, strict=True))


@dataclass(frozen=True, slots=True)
class Prefetch(Primitive):
    """At each iteration of ``loop``, ask for what ``stage`` reads of output ``index`` of ``tensor``, or
    writes of its own, or what the stage around it writes there, ``offset`` iterations later; with ``share``,
    for a share of what comes after the loops around the stage that read the same again. ``level`` is the
    cache that it shall come to. ``outer`` is the loop whose iterations are counted, one around ``loop``;
    None: ``loop`` itself."""

    stage: StageName
    tensor: TensorName
    loop: LoopName
    offset: int = 1
    index: int = 0
    share: bool = False
    level: int = 1
    outer: LoopName | None = None
    name = "prefetch"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        if self.tensor not in state.position or state.stage(self.tensor).attach == INLINED:
            return refuse(
                f"there is no stored tensor `{self.tensor}`",
                legal=", ".join(t.name for t in state.stage(self.stage).op.input_tensors),
            )
        verdict = check_output(state, self.tensor, self.index)
        if not verdict:
            return verdict
        own = self.tensor == self.stage or written_around(
            state, self.stage, state.stage(self.tensor).op.outputs[self.index]
        )
        if own and self.share:
            return refuse("share=True is for what other loops read again; a stage writes its own once")
        if not own and not any(r.name == self.stage for r in state.readers(self.tensor)):
            return refuse(
                f"`{self.stage}` does not read `{self.tensor}`",
                mark=(self.stage, self.loop),
                legal=", ".join(t.name for t in state.stage(self.stage).op.input_tensors),
            )
        if self.outer is not None:
            verdict = check_loop(state, self.stage, self.outer)
            if not verdict:
                return verdict
            if self.share:
                return refuse(
                    "outer= and share=True: a share is of what comes after loops that are found by it"
                )
            names = [iv.name for iv in state.stage(self.stage).leaves]
            if names.index(self.outer) > names.index(self.loop):
                return refuse(
                    f"`{self.outer}` runs inside of `{self.loop}`",
                    legal=", ".join(names[: names.index(self.loop)]),
                )
        if not 0 <= self.offset <= MAX_OFFSET:
            return refuse(f"offset={self.offset}: a number of iterations from 0 to {MAX_OFFSET}")
        if self.level not in LEVELS:
            return refuse(f"level={self.level}: the number of a cache, 1 or 2")
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        tensor = state.stage(self.tensor).op.outputs[self.index]
        ahead = Ahead(tensor, self.loop, self.outer or self.loop, self.offset, self.share, self.level)
        return state.with_stage(change(st, prefetches=(*st.prefetches, ahead))), None

    def python(self, w: Writer) -> None:
        loop, *outer = w.loops(self.stage, self.loop, *([] if self.outer is None else [self.outer]))
        of = w.tensor(self.tensor, self.index)
        how = ", share=True" * self.share + f", level={self.level}" * (self.level != 1)
        how += "".join(f", outer={name}" for name in outer)
        w.line(f"s[{w.tensor(self.stage)}].prefetch({of}, {loop}, {self.offset}{how})")

    @staticmethod
    def call(
        stage: Stage,
        tensor: StageKey,
        loop: IterVar | str,
        offset: int = 1,
        share: bool = False,
        level: int = 1,
        outer: IterVar | str | None = None,
    ) -> None:
        """Ask for what this stage reads of ``tensor``, or writes where that is its own or of the same shape
        and this stage is computed in its loops, ``offset`` iterations of ``loop`` ahead. ``level=2`` brings
        it no nearer than the second cache: what streams from memory
        would come to the first one too early, or too late. ``outer`` counts the iterations of another loop,
        around ``loop``: each iteration of this one asks for what it will read then.

        ``share=True`` is for a stage computed inside loops of which some read the same elements again, as
        each tile of rows reads a block of a product's right operand: each iteration of ``loop`` asks for a
        share of the block ``offset`` after it. Without such loops, and where a block is not known to be one
        run of memory, it does nothing.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[y].prefetch(x, "i", 2)
        >>> print(s.trace)
          1  prefetch(y, x, i, offset=2)
        """
        schedule = stage.schedule
        stage.do(
            Prefetch(
                stage.name,
                schedule.stage_name(tensor),
                stage.loop_name("prefetch", loop),
                whole(offset),
                getattr(tensor, "value_index", 0),
                share,
                whole(level),
                None if outer is None else stage.loop_name("prefetch", outer),
            )
        )
