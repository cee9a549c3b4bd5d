"""cache_write: a stage is computed into a buffer of its own and copied from there.

``C[i, j] = sum(…)`` → ``C.local[i, j] = sum(…)``, ``C[i, j] = C.local[i, j]``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from ...arith.facts import EMPTY
from ...core.node import intern
from ...errors import ScheduleError
from ...expr import make
from ...expr.nodes import Expr
from ...expr.walk import substitute
from ...te.axis import REDUCE, IterVar, fresh_axis
from ...te.tensor import ComputeOp, Operation, Tensor, TensorRead
from ..legality.cache_stages import no_layout
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Split
from ..state import At, Pending, ScheduleState, StageState, change
from .base import Primitive, check_stage
from .cache_read import cache_name
from .fields import SCOPES, Scope, StageName, quoted
from .transform_layout import laid_out, redefined

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class CacheWrite(Primitive):
    """Compute the outputs of ``stage`` in ``scope`` and copy them; returns the new tensor (or a tuple of
    them).

    When the stage was split or reordered before, the cache is laid out by its data loops,
    and padded where a split does not divide.
    """

    stage: StageName
    scope: Scope = "local"
    name = "cache_write"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_stage(state, self.stage)
        if not verdict:
            return verdict
        if self.scope not in SCOPES:
            return refuse(f"scope {self.scope!r} is not known", legal=", ".join(SCOPES))
        st = state.stage(self.stage)
        if st.is_opaque:
            return refuse(
                f"`{self.stage}` is {st.what}",
                mark=(self.stage, None),
                try_="cache_write of the update" if st.is_scan else None,
            )
        # annotations belong to loops of the user's, which are in the cache afterwards: said now, not found
        # out later
        if st.kinds:
            iv = next(iter(st.kinds))
            return refuse(
                f"loop {self.stage}.{iv.name} is {st.kinds[iv]} already, and would move to the cache",
                mark=(self.stage, iv.name),
                try_=f"call cache_write before {st.kinds[iv].removesuffix('d')}",
            )
        why = no_layout(st)
        if why:
            return refuse(
                why, mark=(self.stage, None), try_="call cache_write before split, fuse and the like"
            )
        inside = state.attached(self.stage)
        if inside:
            return refuse(
                f"`{inside[0].name}` is computed inside its loops, which would move to the cache",
                mark=(self.stage, None),
                try_="call cache_write before compute_at",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        if _reordered(
            st
        ):  # the cache takes over the loops as its layout, as in TVM; the stage itself starts afresh
            plain = change(st, leaves=(*st.compute.axis, *st.compute.reduce_axis), relations=())
            state, cached = self.apply(state.with_stage(plain))
            state, outputs = _by_loops(
                state, state.of(cached if isinstance(cached, Tensor) else cached[0]), st
            )
            return state, outputs[0] if len(outputs) == 1 else outputs
        op = st.compute
        axes = tuple(fresh_axis(a.name, a.extent) for a in op.axis)
        to_new = {a.var: b.var for a, b in zip(op.axis, axes, strict=True)}
        name = state.free_name(self.uncertain_name())
        cached = ComputeOp(
            name, axes, op.reduce_axis, tuple(substitute(e, to_new) for e in op.body), op.tag, op.attrs
        )
        index = tuple(a.var for a in op.axis)
        # the stage keeps its tensors, so that nothing that reads them has to change
        copy = op.redefined(tuple(intern(TensorRead, t, index) for t in cached.outputs), reduce_axis=())
        new = StageState(
            name,
            cached,
            (*axes, *op.reduce_axis),
            # beside the copy, where the stage ran: what it reads is there
            attach=st.attach if isinstance(st.attach, At) else None,
            scope=self.scope,
            within=st.within,
            pending=st.pending and Pending(st.pending.place),
            in_part=st.in_part,
        )
        # the copy reduces nothing
        data = tuple(iv for iv in st.leaves if not any(iv is r for r in op.reduce_axis))
        state = state.with_stage(change(st, op=copy, leaves=data)).insert_before(self.stage, new)
        return state, cached.outputs[0] if len(cached.outputs) == 1 else cached.outputs

    def uncertain_name(self) -> str:
        return cache_name(self.stage, self.scope)

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        w.renewed(self.stage)
        w.line(f"{w.new_stage(self.uncertain_name(), self.stage)}s.cache_write({of}, {self.scope!r})")

    def __str__(self) -> str:
        return f"cache_write({self.stage}, {quoted(self.scope)})"

    @overload
    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | str, scope: str = "local") -> Tensor: ...
    @overload
    @staticmethod
    def call(schedule: Schedule, tensor: Sequence[Tensor], scope: str = "local") -> tuple[Tensor, ...]: ...
    @staticmethod
    def call(schedule: Schedule, tensor: StageKey | Sequence[StageKey], scope: str = "local") -> Any:
        """Compute ``tensor`` in a buffer of its own (``tensor.local``) and copy it from there; returns that
        tensor. Raises ScheduleError for outputs of several computes.

        >>> A = te.placeholder((8, 8), name="A")
        >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
        >>> s = te.create_schedule(B.op)
        >>> acc = s.cache_write(B, "local")
        >>> print(s.tree())
        root
        ├─ storage B.local         float32[8, 8]  local  256 B
        ├─ loop B.local.i          0..8
        │  └─ loop B.local.j       0..8
        │     └─ compute B.local   reads A
        └─ loop B.i                0..8
           └─ loop B.j             0..8
              └─ compute B         reads B.local
        """
        listed: Sequence[Any] = tensor if isinstance(tensor, list | tuple) else [tensor]
        names = {schedule.stage_name(t) for t in listed}
        if len(names) != 1:
            raise ScheduleError(
                f"cache_write([{', '.join(sorted(names))}]): not the outputs of one compute",
                try_="one cache_write for each compute; all outputs of it are cached together",
            )
        return schedule.perform(CacheWrite(names.pop(), scope))


def _reordered(st: StageState) -> bool:
    return bool(st.relations) or any(
        a is not b for a, b in zip(st.leaves, (*st.compute.axis, *st.compute.reduce_axis), strict=True)
    )


def _by_loops(
    state: ScheduleState, cache: StageState, st: StageState
) -> tuple[ScheduleState, tuple[Tensor, ...]]:
    """The cache laid out by the data loops of ``st``, outermost first. Where a split does not divide there is
    padding: nobody reads it, and it holds the initial values of a reduction, else 0."""
    extent = {a: a.extent for a in st.all_loops() if a.dom is not None}
    for rel in st.relations:
        rel.extents(extent)
    leaves = [iv for iv in st.leaves if iv.kind != REDUCE]
    axes = [fresh_axis(iv.name, extent[iv]) for iv in leaves]
    value: dict[IterVar, Expr] = {iv: a.var for iv, a in zip(leaves, axes, strict=True)}
    inside: Expr | None = None
    for rel in reversed(st.relations):
        # a shifted tail computes elements twice, which in memory would be two places
        (replace(rel, tail="auto") if isinstance(rel, Split) else rel).values(value, extent)
        # the last tile of the memory is longer than the tensor: what is behind its end is not computed
        if isinstance(rel, Split) and not _divides(rel, extent):
            cond = make.lt(value[rel.parent], extent[rel.parent])
            inside = cond if inside is None else make.and_(cond, inside)

    def place(indices: Sequence[Expr]) -> tuple[Expr, ...]:
        found = dict(zip(st.compute.axis, indices, strict=True))
        for rel in st.relations:
            rel.places(found, extent)
        return tuple(found[iv] for iv in leaves)

    op = redefined(
        cache,
        axes,
        {a.var: value[old] for a, old in zip(cache.compute.axis, st.compute.axis, strict=True)},
        inside,
    )
    return laid_out(state, cache, op, place), op.outputs


def _divides(rel: Split, extent: dict[IterVar, Expr]) -> bool:
    """Whether the tiles of a split make up the whole, no element more."""
    whole, inner = extent[rel.parent], extent[rel.inner]
    return (
        EMPTY.divisible(whole, inner) is True
        and EMPTY.prove(make.eq(extent[rel.outer], make.floordiv(whole, inner))) is True
    )
