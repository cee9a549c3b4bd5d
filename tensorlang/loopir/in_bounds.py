"""Every access of a function in bounds, by proof: what ``verify(func, in_bounds=True)`` asks. Knows
statements and ``arith``.

The lanes of a vector are one more variable, ``0 <= lane < lanes``, so masks and conditions on vectors are
assumed like those on scalars. What a function requires of its sizes is known everywhere; of ``r < 1 or n >=
1`` only the last is left inside a loop over r. An index that depends on data cannot be proved and is passed
over: the interpreter checks it while it runs. Clamped into a tensor that may be empty, though, it is outside
for certain then, and that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..arith.conditions import conjunction, conjuncts, denied, disjuncts, never_negative
from ..arith.facts import Facts
from ..core.dtype import INT32
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import from_poly, poly, reads_data
from ..expr.nodes import And, Broadcast, Call, Compare, Expr, IfThenElse, Not, Ramp, Var, is_const
from ..expr.printer import show
from ..expr.walk import rewrite, substitute, variables
from .stmt import Buffer, Evaluate, For, Func, If, Let, Load, Stmt, Store

_lanes: dict[int, Var] = {}  # one variable for each width: equal widths are lanes of one vector


def _lane(lanes: int) -> Var:
    if lanes not in _lanes:
        _lanes[lanes] = Var("lane", INT32, "loop", lo=0, hi=lanes - 1)
    return _lanes[lanes]


def one_lane(e: Expr) -> Expr:
    """What a vector expression is in one lane, as a scalar expression of the lane's number."""

    def change(node: Expr) -> Expr | None:
        if type(node) is Ramp:
            return make.add(node.base, make.mul(make.cast(node.base.dtype, _lane(node.lanes)), node.stride))
        return node.value if type(node) is Broadcast else None

    return rewrite(e, change)


def within(facts: Facts, s: For | Let) -> Facts:
    """What is known in the body of ``s``: a loop that is run, or an index that has a name."""
    if isinstance(s, For):
        inside = facts.bind(s.var, s.begin, make.sub(make.add(s.begin, s.extent), 1))
        return inside.assume(make.ge(s.extent, 1))
    plain = s.value.dtype.is_index and not reads_data(s.value)
    return facts.bind(s.var, s.value, s.value) if plain else facts


def unproved(func: Func) -> Iterator[tuple[Stmt, int, str]]:
    """Each access that cannot be proved to stay in its buffer: the statement, how often it stood before in
    reading order, and what was left to prove."""
    needs = [c for cond, _ in func.needs for c in conjuncts(cond)]
    facts = Facts()
    for cond in needs:
        facts = facts.assume(cond)
    found: list[tuple[Stmt, int, str]] = []
    run(_Walk(found, [disjuncts(c) for c in needs]).stmt(func.body, facts))
    yield from found


class _Walk:
    def __init__(self, found: list[tuple[Stmt, int, str]], choices: list[list[Expr]]) -> None:
        self.found = found
        self.choices = choices  # of each list one condition holds
        self.visits: dict[Stmt, int] = {}
        self.conditions: dict[Expr, Expr] = {}  # masks and conditions by their names

    def assumed(self, facts: Facts, cond: Expr) -> Facts:
        """Also knowing that ``cond`` holds, and what the names in it stand for."""
        found: dict[Expr, None] = {}
        stack = [one_lane(cond)]
        while stack:
            c = stack.pop()
            if c in found:
                continue
            found[c] = None
            if isinstance(c, And):
                stack += (c.b, c.a)
            elif isinstance(c, Broadcast):  # beside a mask that has a name, and its lanes
                stack.append(c.value)
            elif isinstance(c, IfThenElse) and is_const(c.b, False):
                # the second was tested where the first holds
                stack += (c.a, c.cond)
            elif c in self.conditions:
                stack.append(self.conditions[c])
            elif isinstance(c, Not) and c.a in self.conditions:
                stack.append(denied(self.conditions[c.a]))
        plain = [c for c in found if isinstance(c, Compare)]
        return facts.assume(conjunction(plain)) if plain else facts

    def left(self, facts: Facts) -> Facts:
        """Also knowing what is left of each choice when all else is sure not to hold."""
        for choice in self.choices:
            open_ = [c for c in choice if facts.prove(c) is not False]
            if len(choice) > 1 and len(open_) == 1:
                facts = facts.assume(open_[0])
        return facts

    def stmt(self, s: Stmt, facts: Facts) -> Steps[None]:
        nth = self.visits.get(s, 0)
        self.visits[s] = nth + 1
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.name == "prefetch":
            return  # a hint may point anywhere
        for e in s.exprs():
            self.found += [(s, nth, problem) for problem in self.problems(one_lane(e), facts)]
        if isinstance(s, Store) and not (s.mask is not None and is_const(s.mask, False)):
            masked = facts if s.mask is None else self.assumed(facts, s.mask)
            self.found += [
                (s, nth, problem) for problem in _access(s.buffer, tuple(map(one_lane, s.indices)), masked)
            ]
        elif isinstance(s, For):
            yield self.stmt(s.body, self.left(within(facts, s)))
        elif isinstance(s, If):
            yield self.stmt(s.then, self.assumed(facts, s.cond))
            if s.orelse is not None:
                yield self.stmt(s.orelse, self.assumed(facts, denied(s.cond)))
        elif isinstance(s, Let) and s.value.dtype.is_bool:
            self.conditions[s.var] = one_lane(s.value)
            yield self.stmt(s.body, facts)
        elif isinstance(s, Let):
            yield self.stmt(s.body, within(facts, s))
        else:
            for part in s.parts():
                yield self.stmt(part, facts)

    def problems(self, e: Expr, facts: Facts) -> Iterator[str]:
        """What is not proved of the accesses in a value, each checked once under what is known there."""
        seen: dict[tuple[Expr, Facts], None] = {}
        stack = [(e, facts)]
        while stack:
            e, facts = stack.pop()
            if (e, facts) in seen:
                continue
            seen[e, facts] = None
            if isinstance(e, IfThenElse):
                stack += (
                    (e.b, self.assumed(facts, denied(e.cond))),
                    (e.a, self.assumed(facts, e.cond)),
                    (e.cond, facts),
                )
                continue
            if isinstance(e, Load) and not (e.mask is not None and is_const(e.mask, False)):
                yield from _access(
                    e.buffer, e.indices, facts if e.mask is None else self.assumed(facts, e.mask)
                )
            stack += [(child, facts) for child in reversed(e.children())]


def holds(need: Expr, facts: Facts) -> bool:
    """Whether an inequality is proved, if need be with loop variables replaced, innermost first, by the end
    of their range that makes it hardest: the conditions known may speak of the outer variables only."""
    if facts.prove(need) is True:
        return True
    rest = never_negative(need)
    for v in reversed(facts.ranges):
        if rest is None or (v,) not in rest:
            continue
        if any((len(m) > 1 or m[0] is not v) and v in variables(a) for m in rest for a in m):
            continue  # not linear: no end of the range need be the hardest
        lo, hi = facts.ranges[v]
        end = lo if rest[(v,)] > 0 else hi
        rest = poly(substitute(from_poly(rest, v.dtype), {v: end}))
        if facts.prove(make.le(0, from_poly(rest, v.dtype))) is True:
            return True
    return False


def _access(b: Buffer, indices: tuple[Expr, ...], facts: Facts) -> Iterator[str]:
    for d, (i, extent) in enumerate(zip(indices, b.shape, strict=True)):
        if reads_data(i):
            some = facts.assume(make.ge(extent, 1))
            if not _inside(i, extent, facts) and _inside(i, extent, some):
                yield f"index {d} of {b.name} is not proved in bounds: {b.name} may be empty"
            continue
        for need in (make.le(0, i), make.lt(i, extent)):
            if not holds(need, facts):
                yield f"index {d} of {b.name} is not proved in bounds: {show(need)}"


def _inside(i: Expr, extent: Expr, facts: Facts) -> bool:
    return i.dtype.is_index and facts.prove(make.le(0, i)) is True and facts.prove(make.lt(i, extent)) is True
