"""transform_layout: the memory of a stage is laid out by another index map.

``P[i, j]`` with ``lambda i, j: (j // 16, i, j % 16)`` → ``P[jo, i, ji]`` and every reader asks for ``P[j // 16, i, j % 16]``

The map is kept as digits: every new dimension is one digit ``axis // stride % size`` of one old axis, the outermost digit of an axis
without ``% size``. That covers splitting and permuting axes, which is what packing is. A size that does not divide is padded; the
padding is computed as zero so that vectors may read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.names import NameSupply
from ...core.node import intern
from ...errors import ScheduleError
from ...expr import make
from ...expr.nodes import Const, Expr, FloorDiv, FloorMod, Var, const_int
from ...expr.walk import rewrite, substitute
from ...te.axis import IterVar, fresh_axis
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, TensorRead
from ..legality.verdict import YES, Verdict, no
from ..state import ScheduleState, change
from .base import Primitive, find_own_memory

if TYPE_CHECKING:
    from ..schedule import Stage

Digit = tuple[int, int, int]  # (old axis, stride, size); size 0: all that is left


@dataclass(frozen=True, slots=True)
class TransformLayout(Primitive):
    """Lay ``stage`` out by ``digits``: for each new dimension (old axis, stride, size), size 0 for the outermost digit of an axis."""

    stage: str
    digits: tuple[Digit, ...]
    name = "transform_layout"

    def check(self, state: ScheduleState) -> Verdict:
        found = find_own_memory(state, self.stage)
        if not found:
            return found
        st = state.stage(self.stage)
        opaque = next((r for r in state.readers(self.stage) if r.is_opaque), None)
        if opaque is not None:
            return no(f"`{opaque.name}` reads it whole, in the layout it was declared with", mark=(self.stage, None))
        if st.is_output:
            return no(f"`{self.stage}` is an output: the caller decides its layout", mark=(self.stage, None),
                      try_=f"s.cache_write({self.stage}, 'global') and transform_layout of that")
        if st.relations or st.kinds or state.attached(self.stage) or st.align:
            return no(f"`{self.stage}` is scheduled already, and its axes would change", mark=(self.stage, None),
                      try_="transform_layout before split, fuse and the like")
        for digit in self.digits:
            if not (0 <= digit[0] < len(st.compute.axis) and digit[1] > 0 and digit[2] >= 0):
                return no(f"the digit {digit}: (axis from 0 to {len(st.compute.axis) - 1}, positive stride, size or 0)")
        if any(isinstance(e, Reduce) for e in st.compute.body) and self._pads(st.compute.axis):
            return no(f"a reduction is not padded, and the sizes of `{self.stage}` do not divide", mark=(self.stage, None),
                      try_=f"s.cache_read({self.stage}, 'global', readers) and transform_layout of the copy")
        for axis in range(len(st.compute.axis)):
            why = self._covers(axis, st.compute.axis[axis].name)
            if why:
                return no(why, try_="a permutation of axes, with axes cut as i // 16 and i % 16")
        return YES

    def _covers(self, axis: int, name: str) -> str | None:
        """Why the digits of an axis do not add up to it, or None."""
        mine = sorted(((stride, size) for a, stride, size in self.digits if a == axis))
        if not mine:
            return f"the map forgets axis `{name}`: two elements would share a place"
        expected = 1
        for stride, size in mine:
            if stride != expected:
                return f"the map gives axis `{name}` the digits {mine}, which leave out some of its values or name them twice"
            expected = stride * size
        return None if expected == 0 else f"the outermost part of axis `{name}` is cut off by a remainder"

    def _pads(self, axes: Sequence[IterVar]) -> bool:
        for a in range(len(axes)):
            inner = max((stride for b, stride, _ in self.digits if b == a), default=1)
            n = const_int(axes[a].extent)
            if inner > 1 and (n is None or n % inner):
                return True
        return False

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        op = st.compute
        new_axes: list[IterVar] = []
        names = NameSupply()
        for axis, stride, size in self.digits:
            old = op.axis[axis]
            extent = make.const(size, old.dtype) if size else make.ceildiv(old.extent, stride)
            wish = old.name if stride == 1 and not size else f"{old.name}.{'inner' if size else 'outer'}"
            new_axes.append(fresh_axis(names.fresh(wish), extent))
        value: dict[Var, Expr] = {}
        inside: Expr | None = None
        for i, old in enumerate(op.axis):
            parts = [make.mul(n.var, stride) for n, (a, stride, _) in zip(new_axes, self.digits, strict=True) if a == i]
            total = parts[0]
            for p in parts[1:]:
                total = make.add(total, p)
            value[old.var] = total
            largest = max(stride for a, stride, _ in self.digits if a == i)
            n = const_int(old.extent)
            if largest > 1 and (n is None or n % largest):
                cond = make.lt(total, old.extent)
                inside = cond if inside is None else make.and_(inside, cond)
        body = tuple(substitute(e, value) for e in op.body)
        if inside is not None:
            body = tuple(make.if_then_else(inside, e, make.const(0, e.dtype)) for e in body)
        laid_out = type(op)(op.name, tuple(new_axes), op.reduce_axis, body, op.tag, op.attrs)

        def read(e: Expr) -> Expr | None:
            if type(e) is TensorRead and e.tensor.op is st.key:
                index = tuple(_digit(e.indices[a], stride, size) for a, stride, size in self.digits)
                return intern(TensorRead, laid_out.outputs[e.tensor.value_index], index)
            return None

        readers = [change(r, op=r.compute.redefined(tuple(rewrite(e, read) for e in r.compute.body))) for r in state.readers(self.stage)]
        new = change(st, op=laid_out, leaves=(*new_axes, *op.reduce_axis), aliases=(*st.aliases, st.key))
        return state.with_stage(new, *readers), tuple(new_axes)

    def __str__(self) -> str:
        parts = [f"axis {a}" + (f" // {stride}" if stride != 1 else "") + (f" % {size}" if size else "") for a, stride, size in self.digits]
        return f"transform_layout({self.stage}, [{', '.join(parts)}])"

    @staticmethod
    def call(stage: Stage, index_map: Callable[..., Any]) -> tuple[IterVar, ...]:
        """Lay this stage's memory out by ``index_map``, a function from its indices to the new ones, such as
        ``lambda n, c, h, w: [n, c // 16, h, w, c % 16]``. Returns the new axes."""
        if not isinstance(stage.op, ComputeOp):
            return stage.do(TransformLayout(stage.name, ()))  # type: ignore[no-any-return]  # refused, with the reason
        axes = stage.op.axis
        shown = tuple(Var(a.name, a.dtype, "loop") for a in axes)
        try:
            new = index_map(*shown)
        except TypeError as e:
            names = [a.name for a in axes]
            raise ScheduleError(f"s[{stage.name}].transform_layout: the map failed on {len(axes)} indices",
                                because=f"`{stage.name}` has the axes {', '.join(names)}; "
                                + str(e).rpartition("() ")[2], try_=f"lambda {', '.join(names)}: [{', '.join(reversed(names))}]") from None
        listed = list(new) if isinstance(new, list | tuple) else [new]
        digits = tuple(_as_digit(stage.name, make.as_expr(e), shown) for e in listed)
        return stage.do(TransformLayout(stage.name, digits))  # type: ignore[no-any-return]


def _digit(e: Expr, stride: int, size: int) -> Expr:
    high = make.floordiv(e, stride)
    return make.floormod(high, size) if size else high


def _as_digit(stage: str, e: Expr, axes: tuple[Var, ...]) -> Digit:
    shown = str(e)
    size, stride = 0, 1
    if isinstance(e, FloorMod) and type(e.b) is Const:
        size, e = int(e.b.value), e.a
    if isinstance(e, FloorDiv) and type(e.b) is Const:
        stride, e = int(e.b.value), e.a
    for i, v in enumerate(axes):
        if v is e:
            return i, stride, size
    raise ScheduleError(f"s[{stage}].transform_layout: `{shown}` is not one axis, or i // c, i % c or i // c % d of one",
                        try_="a permutation of axes, with axes cut as i // 16 and i % 16")
