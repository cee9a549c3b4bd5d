"""Values for run-time sizes, so that amounts speak of knobs only. Knows te's dims."""

from __future__ import annotations

from collections.abc import Mapping

from ..arith.facts import Facts
from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import substitute, variables

USUAL = 128  # a size of which nothing at all is known


def limits(extent: Expr) -> tuple[int | None, int | None]:
    """The least and the most that a size can be, as its dims are declared; None for no limit."""
    return Facts().interval(extent)


class Sizes:
    """Puts a typical value in place of each run-time size: the given one, the dim's hint, the middle of its
    range."""

    __slots__ = ("_done", "_values", "given")

    def __init__(self, given: Mapping[Var, int] | None = None) -> None:
        self.given = dict(given or {})
        self._values: dict[Var, Expr] = {}
        self._done: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        unknown = [v for v in variables(e) if v.kind in ("dim", "value")]
        if not unknown:
            return e
        for v in unknown:
            if v not in self._values:
                self._values[v] = make.const(self.typical(v), v.dtype)
        return substitute(e, {v: self._values[v] for v in unknown})

    def typical(self, v: Var) -> int:
        """The value a size is given here."""
        if v in self.given:
            return self.given[v]
        if v.hint is not None:
            return v.hint
        lo = v.lo or 0
        n = USUAL if v.hi is None else (lo + v.hi + 1) // 2
        return max(lo, n // v.multiple_of * v.multiple_of)
