"""How often a stage computes each of its elements: the iterations of the loops around it, times the box of
one iteration, over its whole domain.

A stage computed in the loops of its reader computes what neighbouring iterations share again in each of them.
A copy computes nothing: tiles are fetched again on purpose. Knows bounds; draws nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import make
from ...expr.nodes import Expr, Var, const_int
from ...expr.walk import substitute, variables
from ...te.tensor import TensorRead
from ..bounds import Bounds
from ..legality.places import chain
from ..sliding import slide_of
from ..state import StageState

SHOWN = 1.25  # below, the guarded rest of a last tile looks like repeated work
# every element twice and more: most likely the stage stands in a loop too far inside
WARNED = 2.0
USUAL = 1024  # a size of which nothing is known


def repeats(bounds: Bounds, stage: StageState, chosen: Mapping[Var, Expr]) -> float | None:
    """How often each element is computed, with sampled values as ``chosen`` and run-time sizes at their
    hints; None where it cannot be said."""
    copies = all(type(e) is TensorRead for e in stage.compute.body)
    if stage.host is None or stage.is_opaque or stage.within is not None or copies:
        return None
    iterations = 1.0
    moves = {m[0]: m[1:] for m in slide_of(bounds.state, bounds, stage).moves}
    moved = [1.0] * len(
        stage.compute.axis
    )  # by how much more the loops that slide compute than one iteration
    for outer, position in chain(bounds.state, stage):
        for iv in outer.leaves[: position + 1]:
            n = _number(bounds[outer.name].loops[iv], chosen)
            if n is None:
                return None
            if iv.var not in moves or n < 1:
                iterations *= n
                continue
            d, step, rows = moves[iv.var]
            if step:
                moved[d] *= 1 + (n - 1) * step / (rows or 1)
    factor = iterations
    for times, low, extent, a in zip(
        moved, bounds[stage.name].low, bounds[stage.name].extent, stage.compute.axis, strict=True
    ):
        n, whole = _number(extent, chosen), _number(a.extent, chosen)
        if n is None or whole is None or whole < 1:
            return None
        once = times > 1 and all(v in moves for v in variables(low) if v.kind == "loop")
        factor *= min(1, n * times / whole) if once else n * times / whole
    return factor


def _number(e: Expr, chosen: Mapping[Var, Expr]) -> int | None:
    known = substitute(e, chosen)
    usual = {v: make.const(_usual(v), v.dtype) for v in variables(known) if v.kind == "dim"}
    return const_int(substitute(known, usual))


def _usual(v: Var) -> int:
    n = v.hint or max(USUAL, v.lo or 0)
    n -= n % v.multiple_of
    return n if v.hi is None else min(n, v.hi)


def note(factor: float | None) -> str:
    """What the tree says of it: nothing when there is nothing to say."""
    if factor is None or factor < SHOWN:
        return ""
    return f"each element {factor:.1f} times" + ("  ← repeated work" if factor > WARNED else "")
