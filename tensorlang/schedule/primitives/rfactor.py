"""rfactor: a reduction loop becomes a data axis of partial results, which a second, small reduction combines.

``B = sum(A[k], k)`` split into ko, ki, then rfactor(ki) → ``B.rf[ki] = sum(A[ko * 4 + ki], ko)``, ``B =
sum(B.rf[v], v)``

The partial results do not depend on each other, so their loop may be parallel or vectorized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from ...arith.conditions import conjuncts
from ...core.node import intern
from ...errors import counted
from ...expr import make
from ...expr.nodes import Expr, Var
from ...expr.walk import substitute
from ...te.axis import REDUCE, IterVar, fresh_axis
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, Operation, Tensor, TensorRead
from ..bounds import bounds_of
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Split, placed
from ..state import At, Pending, ScheduleState, StageState, change
from .base import Primitive, check_loop, leaf
from .fields import LoopName, StageName, whole

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class Rfactor(Primitive):
    """Factor ``loop`` out of the reduction of ``stage``; the new axis stands at ``factor_axis`` among the
    data axes."""

    stage: StageName
    loop: LoopName
    factor_axis: int = 0
    name = "rfactor"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        mark = (self.stage, self.loop)
        # partial results of a data loop would be the results
        if leaf(st, self.loop).kind != REDUCE:
            return refuse(
                f"loop {self.stage}.{self.loop} is a data loop: there is nothing to factor",
                mark=mark,
                legal="reduction loops: "
                + (", ".join(iv.name for iv in st.leaves if iv.kind == REDUCE) or "none"),
            )
        if not 0 <= self.factor_axis <= len(st.compute.axis):
            have = counted(len(st.compute.axis), "data axis", "data axes")
            return refuse(
                f"factor_axis={self.factor_axis}: `{self.stage}` has {have}",
                legal=f"0..{len(st.compute.axis)}",
            )
        for st2 in state.attached(self.stage):
            return refuse(
                f"`{st2.name}` is computed inside its loops, which would move to the partial results",
                mark=mark,
                try_="rfactor before compute_at",
            )
        for iv in st.leaves:
            if iv.kind == REDUCE and st.kind(iv) != "serial":
                return refuse(
                    f"loop {self.stage}.{iv.name} is {st.kind(iv)} already, and would move to the partial "
                    "results",
                    mark=(self.stage, iv.name),
                    try_=f"rfactor first, then {st.kind(iv).removesuffix('d')} the loops of {self.stage}.rf",
                )
        for rel in st.relations:
            if isinstance(rel, Split) and rel.tail == "shift" and rel.parent.kind == REDUCE:
                return refuse(
                    f"{self.stage}.{rel.parent.name} is split with tail='shift': the last tile begins "
                    "earlier, and what it shares with the one "
                    "before would count twice",
                    mark=(self.stage, rel.outer.name),
                    try_="another tail, as 'auto'",
                )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        extent = bounds_of(state)[self.stage].loops
        first = op.body[0]
        assert isinstance(first, Reduce)
        # the loops of the old reduction become axes of the partial one: the factored loop a data axis, the
        # others reductions
        chosen = leaf(st, self.loop)
        factor = fresh_axis(chosen.name, extent[chosen])
        data = tuple(fresh_axis(a.name, a.extent) for a in op.axis)
        inner = {
            iv: fresh_axis(iv.name, extent[iv], REDUCE)
            for iv in st.leaves
            if iv.kind == REDUCE and iv is not chosen
        }
        to_new: dict[Var, Expr] = {a.var: b.var for a, b in zip(op.axis, data, strict=True)}
        conds = _in_new_loops(st, extent, {**inner, chosen: factor}, to_new)
        if first.condition is not None:
            conds.append(first.condition)
        condition: Expr | None = None
        for c in conds:
            c = substitute(c, to_new)
            condition = c if condition is None else make.and_(condition, c)
        axes = (*data[: self.factor_axis], factor, *data[self.factor_axis :])
        partial = _partial(
            state.free_name(_partial_name(self.stage)),
            op,
            first,
            axes,
            tuple(inner.values()),
            condition,
            to_new,
        )
        # the old stage combines the partial results over one new axis
        v = fresh_axis(f"{chosen.name}.v", extent[chosen], REDUCE)
        own = tuple(a.var for a in op.axis)
        index = (*own[: self.factor_axis], v.var, *own[self.factor_axis :])
        reads = tuple(intern(TensorRead, t, index) for t in partial.outputs)
        body = tuple(
            intern(Reduce, first.reducer, reads, (v,), None, first.init, i) for i in range(len(reads))
        )
        leaves = tuple(iv for iv in st.leaves if iv.kind != REDUCE)
        kept = tuple(r for r in st.relations if r.children[0].kind != REDUCE)
        new = StageState(
            partial.name,
            partial,
            (*axes, *partial.reduce_axis),
            attach=st.attach if isinstance(st.attach, At) else None,
            within=st.within,
            pending=st.pending and Pending(st.pending.place),
            in_part=st.in_part,
        )
        state = state.with_stage(
            change(st, op=op.redefined(body, reduce_axis=(v,)), leaves=(*leaves, v), relations=kept)
        )
        return state.insert_before(self.stage, new), partial.outputs[0] if len(
            reads
        ) == 1 else partial.outputs

    def python(self, w: Writer) -> None:
        (loop,) = w.loops(self.stage, self.loop)
        of = w.tensor(self.stage)
        w.renewed(self.stage, layout=True)
        at = f", {self.factor_axis}" if self.factor_axis else ""
        w.line(f"{w.new_stage(_partial_name(self.stage), self.stage)}s.rfactor({of}, {loop}{at})")

    @overload
    @staticmethod
    def call(
        schedule: Schedule, tensor: Tensor | Operation | str, axis: IterVar | str, factor_axis: int = 0
    ) -> Tensor: ...
    @overload
    @staticmethod
    def call(
        schedule: Schedule, tensor: tuple[Tensor, ...], axis: IterVar | str, factor_axis: int = 0
    ) -> tuple[Tensor, ...]: ...
    @staticmethod
    def call(schedule: Schedule, tensor: StageKey, axis: IterVar | str, factor_axis: int = 0) -> Any:
        """Turn the reduction loop ``axis`` of ``tensor`` into an axis of partial results; returns their
        tensor (``tensor.rf``), or a tuple of tensors. The data axes of the partial results are those of
        ``tensor`` with the new one at ``factor_axis``. After Suriana, Adams and Kamil, "Parallel
        Associative Reductions in Halide", CGO 2017, section 4.

        >>> A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
        >>> B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
        >>> s = te.create_schedule(B.op)
        >>> ko, ki = s[B].split(k, factor=16)
        >>> part = s.rfactor(B, ki)
        >>> print(s.tree())
        root
        ├─ storage B.rf              float32[16, 1]  global  64 B
        ├─ loop B.rf.k.inner         0..16
        │  └─ loop B.rf.i            0..1
        │     └─ loop B.rf.k.outer   0..4  reduce
        │        └─ compute B.rf     reads A
        └─ loop B.i                  0..1
           └─ loop B.k.inner.v       0..16  reduce
              └─ compute B           reads B.rf
        """
        stage = schedule[tensor]
        rank = len(stage.op.axis) if isinstance(stage.op, ComputeOp) else 0  # the check words the mistake
        at = whole(factor_axis)
        at = at + rank + 1 if isinstance(at, int) and at < 0 else at
        return schedule.perform(Rfactor(stage.name, stage.loop_name("rfactor", axis), at))


def _partial_name(stage: str) -> str:
    """The name the partial results are to have."""
    return f"{stage}.rf"


def _in_new_loops(
    st: StageState, extent: dict[IterVar, Expr], loops: Mapping[IterVar, IterVar], to_new: dict[Var, Expr]
) -> list[Expr]:
    """Add to ``to_new`` what each reduction axis is in the partial stage, whose ``loops`` stand for those
    that it was split into. The conditions that keep tails out: the partial stage has no splits that say
    so."""
    value: dict[IterVar, Expr] = {iv: a.var for iv, a in loops.items()}
    conds: list[Expr] = []
    for rel in reversed(st.relations):
        if all(c in value for c in rel.children):
            rel.values(value, extent)
            conds.extend(make.lt(value[p], extent[p]) for p in rel.parents if len(rel.parents) == 1)
    for k in st.compute.reduce_axis:
        assert k.dom is not None
        to_new[k.var] = make.add(k.dom[0], value[k])
    return conds


def _partial(
    name: str,
    op: ComputeOp,
    first: Reduce,
    axes: tuple[IterVar, ...],
    reduced: tuple[IterVar, ...],
    condition: Expr | None,
    to_new: dict[Var, Expr],
) -> ComputeOp:
    sources = tuple(placed(e, to_new) for e in first.sources)
    if reduced:
        body: tuple[Expr, ...] = tuple(
            intern(Reduce, first.reducer, sources, reduced, condition, None, i) for i in range(len(sources))
        )
    elif condition is None:
        body = sources
    else:
        # no reduction is left: what lies outside the ranges has to count nothing in the sum that follows
        identity = first.reducer.identity(tuple(s.dtype for s in sources))
        body = sources
        for c in reversed(
            conjuncts(condition)
        ):  # one inside the other: the guards of the loops keep what the others read in range
            body = tuple(make.if_then_else(c, s, i) for s, i in zip(body, identity, strict=True))
    return ComputeOp(name, axes, reduced, body, op.tag, op.attrs)
