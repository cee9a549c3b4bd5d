"""Loops that look for one element and do nothing more once it is found, where a schedule asks for it with the
pragma ``until_known``. Knows stages and statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..expr.nodes import Expr
from ..loopir.stmt import Buffer, If, Stmt, load
from ..schedule.primitives.pragma import asks, beside, in_order, not_known
from ..schedule.state import StageState
from ..te.axis import IterVar
from ..te.first_places import nowhere
from ..te.tensor import Tensor


def until_known(
    stage: StageState,
    loop: IterVar,
    position: int,
    buffers: Mapping[Tensor, Buffer],
    place: Callable[[StageState], tuple[Expr, ...]],
    body: Stmt,
) -> Stmt:
    """What a loop of ``stage``, whose element is at ``place``, does in each iteration: nothing where the
    answer is known, if it is asked to look. Loops that were reordered since may be of several answers."""
    if all(name != "until_known" for name, _ in stage.pragmas.get(loop, ())):
        return body
    if not asks(stage) or beside(stage, position):
        return body
    if nowhere(stage.compute) is not None and not in_order(stage, loop.name):
        return body
    return If(not_known(stage, load(buffers[stage.op.outputs[0]], place(stage))), body)
