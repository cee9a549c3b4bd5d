"""cache_windows: what the windows of a reduction read becomes a stage of its own, read at sums of axes.

``C[i] = sum(A[(i + k) % n] * W[k])`` → ``C.window[j] = A[j % n]``, ``C[i] = sum(C.window[i + k] * W[k])``

A place that is asked about or computed for each tap is so for each element once, and loops over windows that
are sums are vectorized, tiled and shared as those of any convolution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...te.exchange import reading
from ...te.graph import operations
from ...te.tensor import ComputeOp, Operation, Tensor
from ...te.windows_apart import window_apart
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, StageState, change
from .base import Primitive, check_formula
from .fields import StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Schedule, StageKey


@dataclass(frozen=True, slots=True)
class CacheWindows(Primitive):
    """Compute what the windows of ``stage`` read, an image with its margin or elements at places that are no
    sums, in a stage before it."""

    stage: StageName
    name = "cache_windows"
    of = "schedule"

    def check(self, state: ScheduleState) -> Verdict:
        mark = (self.stage, None)
        verdict = check_formula(state, self.stage, self.name, mark)
        if not verdict:
            return verdict
        st = state.stage(self.stage)
        if window_apart(st.compute) is not None:
            return YES
        return refuse(
            f"`{self.stage}` reads no tensor in windows that ask about edges, or at places that are no sums",
            mark=mark,
            legal="sum(if_then_else(0 <= i + k - 1 < n, A[i + k - 1], 0) * W[k]) of a convolution; "
            "sum(A[(i + k) % n] * W[k]), with some taps",
        )

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        st = state.stage(self.stage)
        made = window_apart(st.compute)
        assert made is not None and isinstance(made.op, ComputeOp)
        known = set(operations([st.op]))
        (window,) = [op for op in operations([made.op])[:-1] if isinstance(op, ComputeOp) and op not in known]
        own = reading(window, {}, state.free_name(self.uncertain_name()))
        body = reading(made.op, {window.outputs[0]: own.outputs[0]}, self.stage).body
        state = state.with_stage(change(st, op=st.compute.redefined(body)))
        new = StageState(own.name, own, own.axis, in_part=st.in_part)
        return state.insert_before(self.stage, new), own.outputs[0]

    def uncertain_name(self) -> str:
        return f"{self.stage}.window"

    def python(self, w: Writer) -> None:
        of = w.tensor(self.stage)
        name = w.new_stage(self.uncertain_name(), self.stage)
        w.line(f"{name}s.cache_windows({of})")

    @staticmethod
    def call(schedule: Schedule, tensor: Tensor | Operation | str) -> Tensor:
        """Compute what the windows of ``tensor`` read in a stage before it, and read that at sums of axes:
        the image of a convolution with its margin of zeros, where the formula asks about the edges for each
        tap; a tensor at places that are no sums, as ``(i + k) % n`` and ``abs(i + k - 3)`` are. Returns the
        tensor of that stage, ``tensor.window``, as wide as the windows reach. Each call takes one tensor.

        It pays where windows overlap, and ``tl.compile`` does so by itself. Results are the same, bit for
        bit. Raises ScheduleError for other reductions, where nothing would be read twice, and where the
        schedule of ``tensor`` is begun.

        >>> A, W = te.placeholder((32,), name="A"), te.placeholder((5,), name="W")
        >>> k = te.reduce_axis((0, 5), name="k")
        >>> C = te.compute((32,), lambda i: te.sum(A[(i + k) % 32] * W[k], axis=k), name="C")
        >>> s = te.create_schedule(C.op)
        >>> s.cache_windows(C)
        Tensor(C.window: float32[36])
        """
        key: StageKey = tensor
        return schedule.perform(CacheWindows(schedule[key].name))  # type: ignore[no-any-return]
