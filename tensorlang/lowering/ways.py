"""On which ways an expression is evaluated: through which sides of which choices. Knows expressions only.

``if_then_else(c, a, if_then_else(d, a, b))`` evaluates ``a`` where ``c`` holds or where it does not and ``d``
does; with ``c`` and ``d`` the same condition, everywhere.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..expr.nodes import Expr, IfThenElse
from ..expr.walk import postorder


class Lit:
    """A way that goes on from ``before`` (None: from where everything begins) to one side of a choice."""

    __slots__ = ("before", "cond", "holds")

    def __init__(self, before: Way | None, cond: Expr, holds: bool) -> None:
        self.before = before
        self.cond = cond
        self.holds = holds


class Either:
    """Several ways, of which one is taken."""

    __slots__ = ("ways",)

    def __init__(self, ways: tuple[Way, ...]) -> None:
        self.ways = ways


Way = Lit | Either


def ways_to(values: Sequence[Expr], wanted: Container[Expr], known: Container[Expr]) -> dict[Expr, Way]:
    """The way to each of the expressions ``wanted`` that is not evaluated in any case, below the ``values``;
    what is ``known`` has none below."""
    order: dict[Expr, None] = {}
    for value in values:
        order.update(dict.fromkeys(postorder(value, order)))
    if not any(isinstance(e, IfThenElse) for e in order):
        return {}
    leads: dict[Expr, None] = {}
    for e in order:
        if e in wanted or (e not in known and any(k in leads for k in e.children())):
            leads[e] = None
    finder = _Finder()
    arriving: dict[Expr, dict[Way | None, None]] = {e: {None: None} for e in values}
    result: dict[Expr, Way] = {}
    for e in reversed(order):  # what stands around an expression comes before it
        if e not in leads or e not in arriving:
            continue
        way = finder.joined(arriving.pop(e))
        if way is not None and e in wanted:
            result[e] = way
        sides = e.children()
        to = (
            (way, finder.step(way, sides[0], True), finder.step(way, sides[0], False))
            if isinstance(e, IfThenElse)
            else [way] * len(sides)
        )
        for k, w in zip(sides, to, strict=True):
            arriving.setdefault(k, {})[w] = None
    return result


class _Finder:
    def __init__(self) -> None:
        self.lits: dict[tuple[Way | None, Expr, bool], Lit] = {}

    def step(self, before: Way | None, cond: Expr, holds: bool) -> Lit:
        """The one object for a way."""
        key = (before, cond, holds)
        if key not in self.lits:
            self.lits[key] = Lit(before, cond, holds)
        return self.lits[key]

    def joined(self, ways: dict[Way | None, None]) -> Way | None:
        """Where one of these ways is taken: without those that go through another, and both sides of a choice
        as none."""
        ways, todo = dict(ways), list(ways)
        while todo and None not in ways:
            one = todo.pop()
            other = (
                self.lits.get((one.before, one.cond, not one.holds))
                if isinstance(one, Lit) and one in ways
                else None
            )
            if other is not None and other in ways:
                del ways[one], ways[other]
                ways[other.before] = None
                todo.append(other.before)
        if None in ways:
            return None
        left = tuple(w for w in ways if w is not None and not _goes_through(w, ways))
        return left[0] if len(left) == 1 else Either(left)


def _goes_through(way: Way | None, others: Container[Way | None]) -> bool:
    while isinstance(way, Lit):
        way = way.before
        if way in others:
            return True
    return False
