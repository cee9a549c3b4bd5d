"""separate: a reduction over windows becomes one along all their axes but one, and one along that.

``B[y, x] = max(A[2y + i, 2x + j], [i, j])``, separated along j → ``B.part[y, z] = max(A[2y + i, z], [i])``,
``B[y, x] = max(B.part[y, 2x + j], [j])``

Windows that overlap share the partial results: of k × k elements each result takes k and a share of k more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.node import intern
from ...expr import make
from ...expr.linear import poly
from ...expr.nodes import Expr, Var, const_int
from ...expr.walk import preorder, rewrite, substitute, variables
from ...te.axis import REDUCE, IterVar, fresh_axis
from ...te.patterns import step
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, Operation, Tensor, TensorRead
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_loop, check_untouched
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class Separate(Primitive):
    """Reduce ``stage`` along all axes of its windows but ``loop`` first, for each place that ``loop``
    reaches."""

    stage: StageName
    loop: LoopName
    name = "separate"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        mark = (self.stage, self.loop)
        verdict = check_untouched(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        found = _window(st, self.loop)
        return refuse(f"`{self.stage}`: {found}", mark=mark) if isinstance(found, str) else YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        found = _window(st, self.loop)
        assert isinstance(found, _Window)
        first = op.body[0]
        assert isinstance(first, Reduce)
        data = tuple(fresh_axis(a.name, found.reach if a is found.axis else a.extent) for a in op.axis)
        renamed: dict[Var, Expr] = {a.var: b.var for a, b in zip(op.axis, data, strict=True)}
        rest = [a for a in op.reduce_axis if a is not found.tap]
        inner = tuple(fresh_axis(a.name, a.extent, REDUCE) for a in rest)
        for a, b in zip(rest, inner, strict=True):
            assert a.dom is not None
            renamed[a.var] = make.add(a.dom[0], b.var)
        place = data[op.axis.index(found.axis)].var
        moved = make.add(place, found.first)
        source = rewrite(first.sources[0], lambda e: moved if e is found.index else None)
        source = substitute(source, renamed)
        part = ComputeOp(
            state.free_name(_part_name(self.stage)),
            data,
            inner,
            (intern(Reduce, first.reducer, (source,), inner, None, None, 0),),
            op.tag,
        )
        # what stays is a reduction along one axis of the partial results
        tap = fresh_axis(found.tap.name, found.tap.extent, REDUCE)
        at = make.add(make.mul(found.axis.var, found.stride), make.mul(tap.var, found.dilation))
        read = intern(TensorRead, part.outputs[0], tuple(at if a is found.axis else a.var for a in op.axis))
        body = intern(Reduce, first.reducer, (read,), (tap,), None, None, 0)
        leaves = tuple(iv for iv in st.leaves if iv.kind != REDUCE)
        state = state.with_stage(
            change(st, op=op.redefined((body,), reduce_axis=(tap,)), leaves=(*leaves, tap))
        )
        new = StageState(part.name, part, (*data, *inner), in_part=st.in_part)
        return state.insert_before(self.stage, new), part.outputs[0]

    def python(self, w: Writer) -> None:
        (loop,) = w.loops(self.stage, self.loop)
        of = w.tensor(self.stage)
        w.renewed(self.stage)
        w.line(f"{w.new_stage(_part_name(self.stage), self.stage)}s.separate({of}, {loop})")

    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | str, axis: IterVar | str) -> Tensor:
        """Reduce windows in two passes: ``tensor`` along all its reduction axes but ``axis`` for each element
        that a window reaches along that, then along ``axis``; returns the tensor of the partial results,
        ``tensor.part``, as wide as the windows reach.

        ``axis`` moves one index of what is reduced, together with one axis of the result, as the columns of a
        pool do; its own extent is known. A sum of floats is added up in another order, which rounds
        otherwise. Raises ScheduleError for other reductions, and where the schedule of ``tensor`` is begun.

        >>> A = te.placeholder((9, 9), name="A")
        >>> i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
        >>> B = te.compute((4, 4), lambda y, x: te.max(A[2 * y + i, 2 * x + j], axis=[i, j]), name="B")
        >>> s = te.create_schedule(B.op)
        >>> s.separate(B, j)
        Tensor(B.part: float32[4, 9])
        """
        key: StageKey = tensor
        stage = schedule[key]
        return schedule.perform(Separate(stage.name, stage.loop_name("separate", axis)))  # type: ignore[no-any-return]


def _part_name(stage: str) -> str:
    """The name the partial results are to have."""
    return f"{stage}.part"


@dataclass(frozen=True, slots=True)
class _Window:
    """The ``index`` that moves with a place and a tap: ``axis * stride + tap * dilation`` and ``first``."""

    index: Expr
    axis: IterVar
    stride: int
    tap: IterVar
    dilation: int
    taps: int
    first: Expr

    @property
    def reach(self) -> Expr:
        """Elements along the index from the first that a window reaches to the last."""
        more = self.dilation * (self.taps - 1) + 1 - self.stride
        reach = make.add(make.mul(self.axis.extent, self.stride), more)
        return reach if more >= 0 or const_int(reach) is not None else make.max_(reach, 0)


def _window(st: StageState, loop: str) -> _Window | str:
    """How a reduction loop of a stage moves windows; or, as text, why it cannot be separated from others."""
    op = st.compute
    body = op.body[0] if len(op.body) == 1 else None
    if not isinstance(body, Reduce) or body.init is not None:
        return "it is not a plain reduction"
    if body.condition is not None:
        return "its reduction has a condition"
    tap = next((a for a in op.reduce_axis if a.name == loop), None)
    if tap is None:
        return f"loop {loop} is a data loop: there is nothing to separate"
    if len(op.reduce_axis) < 2:
        return "it reduces along no other axis"
    source = body.sources[0]
    moved = {
        i for e in preorder(source) if isinstance(e, TensorRead) for i in e.indices if tap.var in variables(i)
    }
    if len(moved) != 1:
        return f"{loop} does not move one index of what is reduced"
    (index,) = moved
    own = [a for a in (*op.axis, *op.reduce_axis) if a.var in variables(index)]
    data = [a for a in own if a in op.axis]
    alone = f"the index that {loop} moves does not move with one axis of the result alone"
    if len(data) != 1 or len(own) != 2:
        return alone
    (axis,) = data
    stride, dilation = step(index, axis), step(index, tap)
    if not stride or not dilation or stride < 0 or dilation < 0:
        return f"{loop} and {axis.name} do not move it forwards by a number"
    below = preorder(source, below=lambda e: () if e is index else e.children())
    if any(e is axis.var or e is tap.var for e in below):
        return alone
    places, taps = const_int(axis.extent), const_int(tap.extent)
    assert tap.dom is not None
    begin = const_int(tap.dom[0])
    if not taps or begin is None or places == 0:
        return f"the extent of {loop} is not known, or there are no elements"
    terms = poly(index)
    if len(terms) - (() in terms) != 2:
        return alone
    first = make.as_expr(terms.get((), 0) + dilation * begin)
    return _Window(index, axis, stride, tap, dilation, taps, first)
