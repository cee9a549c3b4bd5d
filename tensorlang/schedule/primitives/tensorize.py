"""tensorize: the loops from one inwards are replaced by a call that computes the same.

``for i: for j: c[i] += a[j] * b[i, j]`` with s[C].tensorize(i, gemv) → ``gemv(&c[…], &a[…], &b[…])``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...errors import ScheduleError
from ...te.axis import IterVar
from ...te.tensor_intrin import TensorIntrin, declared
from ..legality.tensorize import match
from ..legality.verdict import YES, Verdict, refuse
from ..state import ScheduleState, change
from .base import Primitive, check_loop, position
from .fields import LoopName, Meaning, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage

IntrinsicName = Annotated[str, Meaning("intrinsic")]  # declared in this process


@dataclass(frozen=True, slots=True)
class Tensorize(Primitive):
    """Replace ``loop`` of ``stage`` and the loops inside it by the intrinsic of that name."""

    stage: StageName
    loop: LoopName
    intrin: IntrinsicName
    name = "tensorize"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_loop(state, self.stage, self.loop)
        if not verdict:
            return verdict
        intrin = declared(self.intrin)
        if intrin is None:
            return refuse(
                f"no intrinsic {self.intrin!r} is declared",
                try_="te.decl_tensor_intrin(op, fcompute, name=…) before",
            )
        st = state.stage(self.stage)
        got = match(state, st, position(st, self.loop), intrin)
        if isinstance(got, str):
            return refuse(
                f"the loops from {self.stage}.{self.loop} inwards are not {self.intrin}: {got}",
                mark=(self.stage, self.loop),
                try_="split and reorder so that exactly the intrinsic's loops are innermost",
            )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        return state.with_stage(change(state.stage(self.stage), tensorized=(self.loop, self.intrin))), None

    def python(self, w: Writer) -> None:
        w.line(w.step(self))  # the call takes the intrinsic itself

    @staticmethod
    def call(stage: Stage, loop: IterVar | str, intrin: TensorIntrin) -> None:
        """Replace ``loop`` and everything inside it by the calls of ``intrin`` (from
        ``te.decl_tensor_intrin``). Raises ScheduleError where they compute something else.

        >>> def add(n):
        ...     a = te.placeholder((n,), name="a")
        ...     c = te.compute((n,), lambda i: a[i] + 1, name="c")
        ...     def code(ins, outs):
        ...         return te.call_extern("int32", "add_one", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
        ...     return te.decl_tensor_intrin(c.op, code, name="add_one")
        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] + 1, name="y")
        >>> s = te.create_schedule(y)
        >>> s[y].tensorize("j", add(32))
        >>> print(tl.lower(s, [x, y], simple=True))
        def main(x: float32[8, 32], y: float32[8, 32] out):
            for i in range(0, 8):
                call_extern('add_one', &y[i, 0] (32 by 1), &x[i, 0] (32 by 1))
        """
        if not isinstance(intrin, TensorIntrin):
            raise ScheduleError(
                f"s[{stage.name}].tensorize(…, {type(intrin).__name__}): not a tensor intrinsic",
                try_="te.decl_tensor_intrin(op, fcompute)",
            )
        stage.do(Tensorize(stage.name, stage.loop_name("tensorize", loop), intrin.name))
