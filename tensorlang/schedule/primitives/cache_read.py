"""cache_read: readers get a copy of a tensor in a buffer of its own.

``C reads A`` → ``A.local[i, j] = A[i, j]``, ``C reads A.local``; with a wider ``dtype``, ``A.local[i, j] =
int16(A[i, j])``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...core.dtype import KNOWN, DType, dtype
from ...core.node import intern
from ...expr import make
from ...expr.nodes import Cast, Expr
from ...expr.walk import rewrite
from ...te.axis import fresh_axis
from ...te.tensor import ComputeOp, Tensor, TensorRead
from ..legality.verdict import YES, Verdict, refuse
from ..links import reads
from ..state import INLINED, At, ScheduleState, StageState, change
from .base import Primitive, check_names, check_output
from .fields import SCOPES, Meaning, Scope, StageName, TensorName, quoted

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey

TypeName = Annotated[str, Meaning("dtype", ("", *KNOWN))]


@dataclass(frozen=True, slots=True)
class CacheRead(Primitive):
    """Let ``readers`` read a copy of output ``index`` of stage ``tensor``, kept in ``scope``, in a wider
    ``dtype`` if one is named; returns the copy."""

    tensor: TensorName
    scope: Scope
    readers: tuple[StageName, ...]
    index: int = 0
    dtype: TypeName = ""
    name = "cache_read"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        there = check_names(state, self.tensor, *self.readers)
        if not there:
            return there
        if self.scope not in SCOPES:
            return refuse(f"scope {self.scope!r} is not known", legal=", ".join(SCOPES))
        if state.stage(self.tensor).attach == INLINED:
            return refuse(f"`{self.tensor}` is inlined: nothing reads it any more")
        verdict = check_output(state, self.tensor, self.index)
        if not verdict:
            return verdict
        if not self.readers:
            return refuse(
                "no reader is named",
                legal=lambda: ", ".join(r.name for r in state.readers(self.tensor)) or "nothing reads it",
            )
        for r in self.readers:
            # an extern reads its operands by pointer: its body is not ours to rewrite
            if state.stage(r).is_opaque:
                return refuse(
                    f"`{r}` is {state.stage(r).what.partition(':')[0]}: what it reads is fixed",
                    try_="name the stages inside it",
                )
            if self.tensor not in reads(state, state.stage(r)):
                return refuse(
                    f"`{r}` does not read `{self.tensor}`", legal=lambda: _readers(state, self.tensor)
                )
        if self.dtype:
            kind = state.stage(self.tensor).op.outputs[self.index].dtype
            if self.dtype not in KNOWN:
                return refuse(
                    f"dtype {self.dtype!r} is not known",
                    legal=", ".join(t for t in KNOWN if dtype(t).holds(kind)),
                )
            # a narrower copy would change what readers compute
            if not dtype(self.dtype).holds(kind):
                return refuse(
                    f"{self.dtype} does not hold every value of {kind}",
                    legal=lambda: ", ".join(t for t in KNOWN if dtype(t).holds(kind)),
                )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        source = state.stage(self.tensor).op.outputs[self.index]
        # of its own names, which TVM gives too: ported schedules look for ax0
        axes = tuple(fresh_axis(f"ax{d}", e) for d, e in enumerate(source.shape))
        name = state.free_name(cache_name(source.name, self.scope))
        element = intern(TensorRead, source, tuple(a.var for a in axes))
        op = ComputeOp(name, axes, (), (make.cast(self.dtype, element) if self.dtype else element,))
        copy = op.outputs[0]

        def redirect(e: Expr) -> Expr | None:
            if type(e) is TensorRead and e.tensor is source:
                # readers see the type that they were declared with
                return make.cast(source.dtype, intern(TensorRead, copy, e.indices))
            if (
                type(e) is Cast
                and copy.dtype is not source.dtype
                and type(e.a) is Cast
                and type(e.a.a) is TensorRead
                and e.a.a.tensor is copy
            ):
                return make.cast(
                    e.dtype, e.a.a
                )  # narrowed to the source's type and widened again: the same value
            return None

        changed = []
        for r in self.readers:
            st = state.stage(r)
            changed.append(
                change(st, op=st.compute.redefined(tuple(rewrite(e, redirect) for e in st.compute.body)))
            )
        from_stage = state.stage(self.tensor)
        new = StageState(name, op, axes, scope=self.scope, in_part=from_stage.in_part)
        scan = (
            state.stage(self.readers[0]).within
            if from_stage.is_placeholder and from_stage.shares
            else from_stage.within
        )
        if scan is not None:  # rows of a scan's state, or what an iteration makes: copied at each iteration
            new = change(new, attach=At(scan, state.stage(scan).leaves[-1].name), within=scan)
        state = state.with_stage(*changed).insert_after(self.tensor, new)
        return state, copy

    def uncertain_name(self) -> str:
        # that of an operation with several outputs also tells which: `.v0`
        return cache_name(self.tensor, self.scope)

    def python(self, w: Writer) -> None:
        of = w.tensor(self.tensor, self.index)
        readers = ", ".join([w.tensor(r) for r in self.readers])
        new = w.new_stage(self.uncertain_name())
        more = f", {self.dtype!r}" if self.dtype else ""
        w.line(f"{new}s.cache_read({of}, {self.scope!r}, [{readers}]{more})")

    def __str__(self) -> str:
        return f"cache_read({self.tensor}, {quoted(self.scope)}, [{', '.join(self.readers)}])"

    @staticmethod
    def call(
        schedule: Schedule,
        tensor: StageKey,
        scope: str,
        readers: StageKey | Sequence[StageKey],
        dtype: str | DType = "",
    ) -> Tensor:
        """Let ``readers`` (tensors or operations) read a copy of ``tensor`` in a buffer of its own; returns
        the copy.

        ``dtype`` is the type of the copy, one that holds every value of ``tensor`` exactly (int16 for int8);
        its own when left out.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> copy = s.cache_read(A, "local", [B])
        >>> print(s.tree())
        root
        ├─ storage A.local         float32[8, 8]  local  256 B
        ├─ loop A.local.ax0        0..8
        │  └─ loop A.local.ax1     0..8
        │     └─ compute A.local   reads A
        └─ loop B.i                0..8
           └─ loop B.j             0..8
              └─ compute B         reads A.local
        """
        listed = readers if isinstance(readers, list | tuple) else (readers,)
        index = tensor.value_index if isinstance(tensor, Tensor) else 0
        return schedule.perform(
            CacheRead(
                schedule.stage_name(tensor),
                scope,  # type: ignore[no-any-return]
                tuple(schedule.stage_name(r) for r in listed),
                index,
                str(dtype),
            )
        )


def _readers(state: ScheduleState, name: str) -> str:
    return "readers: " + (", ".join(r.name for r in state.readers(name)) or "none")


def cache_name(tensor: str, scope: str) -> str:
    """The name a cache is to have."""
    return f"{tensor}.{scope}"
