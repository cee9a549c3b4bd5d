"""The vector of a whole program: the blocks of its heaviest statements, the sum of all the others, and what
all together ought to cost against what the computation needs at least, which is the same unit for every task.
Knows blocks and analysis.

Which statements are the heaviest is decided once for a variant, at the values its schedule has now, so a
column always speaks of the same statement. Everything is an amount that is never negative, and is given to
the model as ``log2(1 + x)``. The first column is what all together ought to cost, and the second the sum of
everything that takes time: each is a prediction by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlang import Target
from tensorlang.analysis import (
    Analysis,
    Expr,
    Statement,
    amount,
    compile_columns,
    plus,
    quotient,
    ratio,
    times,
)

from .block import Block
from .estimate import SCALE, estimate, parts
from .handed import handed

PRIOR = 1  # the number of the column that a model begins with: all that takes time, added up
TIME, SUM, HANDED = "estimate.time", "part.sum", "part.handed"
SLOTS = 2
SUMMED = 3  # of the list of blocks, this many are added up for the lighter statements


class FeatureSet:
    """Names and expressions of the features of one variant; ``scaled`` turns their columns into what the
    model takes. ``declared`` are the operations of the computation as it was declared, which are the same for
    all variants of a task (0: those of the statements, which are fewer where sums are computed otherwise, and
    more where something is computed at each of its uses)."""

    def __init__(
        self,
        analysis: Analysis,
        target: Target,
        blocks: Sequence[Block],
        order: Sequence[int] | None = None,
        declared: int = 0,
    ) -> None:
        self.order = order = list(_by_weight(analysis) if order is None else order)
        named = _whole(analysis, target, declared or analysis.flops)
        for slot in range(SLOTS):
            st = analysis.statements[order[slot]] if slot < len(order) else None
            for block in blocks:
                for name, e in (
                    block(st, target) if st is not None else _nothing(block, analysis.statements[0], target)
                ).items():
                    named[f"{slot}.{name}"] = e
        rest: dict[str, list[Expr]] = {}
        for i in sorted(order[SLOTS:]):
            st = analysis.statements[i]
            for block in blocks[:SUMMED]:
                for name, e in block(st, target).items():
                    if not e.dtype.is_float:
                        rest.setdefault(name, []).append(e)
        for block in blocks[:SUMMED]:
            for name, e in block(analysis.statements[0], target).items():
                if not e.dtype.is_float:
                    named[f"rest.{name}"] = plus(*rest.get(name, [amount(0)]))
        named["storage"] = plus(*[m.bytes for m in analysis.storage])
        named["statements"] = amount(len(analysis.statements))
        self.names = tuple(named)
        self.exprs = tuple(named.values())

    @staticmethod
    def scaled(table: Any) -> Any:
        """``log2(1 + x)`` as float32."""
        return np.log2(1.0 + np.maximum(table, 0)).astype(np.float32)


def _whole(analysis: Analysis, target: Target, declared: int) -> dict[str, Expr]:
    """Estimates of all statements added up, as multiples (of a 64th) of the time the declared operations take
    at full speed."""
    every = []
    for st, fetched in zip(analysis.statements, handed(analysis.statements, target), strict=True):
        e = parts(st, target) | estimate(st, target)
        every.append(e | {HANDED: fetched, SUM: plus(e[SUM], fetched)})
    order = sorted(every[0], key=lambda name: (name != TIME, name != SUM))
    return {f"whole.{name}": _relative([e[name] for e in every], target, declared) for name in order}


def _relative(every: list[Expr], target: Target, declared: int) -> Expr:
    ideal = quotient(times(SCALE, declared), 4 * target.vector_lanes("float32") * target.num_cores)
    return ratio(times(64, plus(*every)), ideal)


def expected(analysis: Analysis, target: Target, declared: int = 0) -> Expr:
    """The first of the features by itself: how long the whole program ought to take."""
    every = [estimate(st, target)[TIME] for st in analysis.statements]
    return _relative(every, target, declared or analysis.flops)


def _nothing(block: Any, st: Statement, target: Target) -> dict[str, Expr]:
    return dict.fromkeys(block(st, target), amount(0))


def _by_weight(analysis: Analysis) -> list[int]:
    """The numbers of the statements, heaviest first, at the values the decisions have now."""
    weights = [times(st.iterations, st.work.flops + len(st.accesses)) for st in analysis.statements]
    row = np.array([[v for d in analysis.decisions if d.knobs for v in d.values]], np.int64)
    found = compile_columns(weights, analysis.knobs)(row)[0]
    return sorted(range(len(weights)), key=lambda i: (-int(found[i]), i))
