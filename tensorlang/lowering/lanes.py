"""Lanes to spare: elements of a register tile beyond the edge of its tensor may be computed, since nobody
reads them.

``if j < n: acc[jj] = acc[jj] + A[i, k] * B[k, j]`` → ``acc[jj] = acc[jj] + A[i, k] * (B[k, j] if j < n else
0)``

A guard on a vector loop that is left out of the store leaves plain multiply-adds where each would be followed
by a blend. The reads that the guard kept in range ask it themselves; those of padded memory need not. Knows
bounds; writes no loop IR.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arith.facts import Facts
from ..expr import make
from ..expr.nodes import Const, Div, Expr, FloorDiv, FloorMod, TruncDiv, TruncMod
from ..expr.walk import preorder, variables
from ..schedule.bounds import Bounds, depends_on_dims
from ..schedule.state import At, StageState
from ..te.axis import REDUCE
from ..te.extern import OpaqueOp
from ..te.reducers import Reduce
from ..te.tensor import TensorRead

_DIVISIONS = (Div, FloorDiv, FloorMod, TruncDiv, TruncMod)


def spare_guards(stage: StageState, bounds: Bounds, guards: Sequence[Expr], facts: Facts) -> list[Expr]:
    """Those of the guards that the store of ``stage`` does without. ``facts``: what holds where the stage is
    computed."""
    if (
        stage.scope != "local"
        or stage.store is not None
        or not isinstance(stage.attach, At)
        or stage.is_output
        or stage.tensorized is not None
    ):
        return []
    lanes = [iv.var for iv in stage.leaves if stage.kind(iv) == "vectorized" and iv.kind != REDUCE]
    if any(v in bounds.around(st.attach) for st in bounds.state.attached(stage.name) for v in lanes):
        return []  # what is computed inside the vector loop counts on them
    tested = [g for g in guards if any(v in variables(g) for v in lanes)]
    if not tested or not _harmless(stage):
        return []
    for g in guards:
        if not any(g is a for a in tested):
            facts = facts.assume(g)
    b = bounds[stage.name]
    for a, extent in zip(stage.compute.axis, b.store_extent, strict=True):  # the extra elements have room
        at = b.local[a.var]
        if facts.prove(make.lt(at, extent)) is not True or facts.prove(make.ge(at, 0)) is not True:
            return []
    return tested


def _harmless(stage: StageState) -> bool:
    """Whether the body may be computed of anything: nothing divides whole numbers, no index is data, no
    condition depends on what is read."""
    op = stage.compute
    if isinstance(op, OpaqueOp):
        return False
    first = op.body[0]
    if isinstance(first, Reduce) and first.init is not None:
        return False
    if isinstance(first, Reduce) and first.condition is not None:
        # of indices alone, as that of causal attention, it is one more guard; not one of remainders, as those
        # of a transposed convolution, whose sums then do not all stay in registers
        asked = [*preorder(first.condition)]
        if any(
            isinstance(e, TensorRead | FloorMod | TruncMod)
            or (isinstance(e, _DIVISIONS) and type(e.b) is not Const)
            for e in asked
        ):
            return False
    for e in first.sources if isinstance(first, Reduce) else op.body:
        for node in preorder(e):
            if isinstance(node, _DIVISIONS) and not node.dtype.is_float and type(node.b) is not Const:
                return False
            if isinstance(node, TensorRead) and any(
                isinstance(x, TensorRead) for i in node.indices for x in preorder(i)
            ):
                return False
    return True


def in_range(read: TensorRead, facts: Facts, bounds: Bounds) -> bool:
    """Whether a read stays inside its tensor, or the part of it that is in memory, whether the guards hold or
    not."""
    room = _room(read, bounds)
    return all(
        has_room or (facts.prove(make.lt(i, n)) is True and facts.prove(make.ge(i, 0)) is True)
        for i, n, has_room in zip(read.indices, read.tensor.shape, room, strict=True)
    )


def _room(read: TensorRead, bounds: Bounds) -> list[bool]:
    """For each dimension, whether memory was made for all that any iteration reads, guarded or not: a part of
    the tensor, then, which is computed where its readers are."""
    producer = bounds.state.of(read.tensor)
    if not isinstance(producer.attach, At) or producer.store is not None or producer.is_output:
        return [False] * read.tensor.ndim
    if producer.shares or producer.is_opaque or producer.is_scan or producer.name not in bounds.stages:
        return [False] * read.tensor.ndim
    extents = bounds[producer.name].store_extent
    return [
        depends_on_dims(extent) and extent is not n
        for extent, n in zip(extents, read.tensor.shape, strict=True)
    ]
