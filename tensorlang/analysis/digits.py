"""Axes that count what lies along several dimensions, as the pixels of an image in one: which they are, and
by which numbers quotients and remainders tell the dimensions apart. Knows what is read; no schedules."""

from __future__ import annotations

import itertools

from ..expr import make
from ..expr.nodes import Expr, FloorDiv, FloorMod, const_int
from ..expr.walk import preorder, rewrite, variables
from ..te import ComputeOp, IterVar
from ..te.patterns import constant, reads_of


def digits_of(op: ComputeOp) -> dict[IterVar, list[int]]:
    """The axes of known length that all reads take for numbers of several digits, ``p // 28`` and ``p % 28``:
    with what the digits are worth, the larger ones first, each a multiple of the next. Empty where there are
    none."""
    by_var: dict[Expr, IterVar] = {a.var: a for a in op.axis}
    found, plain = dict[IterVar, set[int]](), set[IterVar]()

    def told_apart(e: Expr) -> Expr | None:
        return make.const(0, e.dtype) if isinstance(e, FloorDiv | FloorMod) and e.a in by_var else None

    for _, indices in reads_of(op).plain:
        for index in indices:
            for e in preorder(index):
                if not isinstance(e, FloorDiv | FloorMod):
                    continue
                # of p // 3 % 5 the digits are worth 3 and 15
                within, inner = (e.a.a, const_int(e.a.b) or 0) if isinstance(e.a, FloorDiv) else (e.a, 1)
                worth = inner * (const_int(e.b) or 0)
                if within in by_var and worth > 0:
                    found.setdefault(by_var[within], set()).update({worth, inner} - {1})
            plain |= {by_var[v] for v in variables(rewrite(index, told_apart)) if v in by_var}
    return {
        a: sorted(worth, reverse=True)
        for a, worth in found.items()
        if a not in plain and constant(a.extent) and _multiples([*sorted(worth), constant(a.extent) or 1])
    }


def _multiples(numbers: list[int]) -> bool:
    return all(b % a == 0 for a, b in itertools.pairwise(numbers))
