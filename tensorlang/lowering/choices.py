"""One kernel of several schedules of one computation: a condition on its sizes picks the loops of a call.
Knows loop IR only."""

from __future__ import annotations

from ..expr.nodes import Expr
from ..loopir.stmt import Func, If


def chosen(cond: Expr, these: Func, others: Func) -> Func:
    """The kernel that runs the loops of ``these`` where ``cond`` holds, and else those of ``others``, whose
    parameters it has (see ``lower_state``)."""
    return Func(
        others.name,
        others.params,
        If(cond, these.body, others.body),
        tuple(dict.fromkeys((*others.dims, *these.dims))),
        others.outputs,
        others.attrs,
        others.constants,
        tuple(dict.fromkeys((*others.needs, *these.needs))),
        others.updates,
    )
