"""If, Loop and Scan, and lists of values. Knows the importer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...expr.nodes import Expr
from .proto import Call
from .table import graph_op

if TYPE_CHECKING:
    from .importer import Importer


@graph_op("If")
def if_(c: Importer, call: Call) -> Any:
    """The branch that is taken, in the place of the node: its condition is known by now, or follows from
    sizes."""
    taken = c.numbers(call.inputs[0])
    while isinstance(taken, list):
        taken = taken[0]
    if isinstance(taken, Expr):
        taken = c.decided(taken, call.inputs[0])
    c.splice(call.graphs["then_branch" if taken else "else_branch"], (), call.outputs)
