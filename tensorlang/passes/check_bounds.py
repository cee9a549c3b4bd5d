"""check bounds: every access that is not proved to be in its buffer is tested first, and every divisor of
integers that is not proved to be another number than zero; a kernel that fails a test ends with a report.

``C[i] = A[I[i]]`` → ``if 0 <= I[i] and I[i] < 37: C[i] = A[I[i]] else: report("A[I[i]]", dim=0, index=I[i],
extent=37)``

For ``bounds_check=True``: indices that depend on data, and whatever else the prover cannot decide. The tests
are conditions, so that nothing the access needs is computed in front of them. A test of what only one side of
``if_then_else`` reads asks for that side first. Loops with a test run as plain ones where they were to be
vectors. A division of which ``select`` takes another value is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.conditions import denied
from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import Call, Expr, FloorDiv, FloorMod, IfThenElse, Select, TruncDiv, TruncMod, Var
from ..expr.printer import show
from ..interface.signature import DIVISION
from ..loopir.in_bounds import holds, within
from ..loopir.printer import Names, access_text
from ..loopir.stmt import Alloc, Buffer, Evaluate, For, Func, If, Let, Load, Report, Seq, Stmt, Store, seq

Division = FloorDiv | FloorMod | TruncDiv | TruncMod


def check_bounds(func: Func) -> Func:
    """The pass."""
    names = Names()
    for p in func.params:
        if isinstance(p, Buffer):
            names.buffer(p)
        else:
            names(p)
    sizes = frozenset(v for v in func.dims if v.kind == "dim")
    return func.with_body(run(_Checker(names).stmt(func.body, Facts(sizes=sizes), ())))


@dataclass(frozen=True)
class _Test:
    """An index to be tested where all of ``when`` hold."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    dim: int
    when: tuple[Expr, ...]

    def cond(self) -> Expr:
        index = self.indices[self.dim]
        inside = make.and_(make.le(0, index), make.lt(index, self.buffer.shape[self.dim]))
        return _where(self.when, inside)


@dataclass(frozen=True)
class _Divisor:
    """A divisor that must not be zero where all of ``when`` hold."""

    division: Division
    when: tuple[Expr, ...]

    def cond(self) -> Expr:
        return _where(self.when, make.ne(self.division.b, 0))


def _where(when: tuple[Expr, ...], cond: Expr) -> Expr:
    """What is asked for only where all of ``when`` hold, which are asked for first."""
    for c in reversed(when):
        cond = make.if_then_else(c, cond, make.TRUE)
    return cond


class _Checker:
    def __init__(self, names: Names) -> None:
        self.names = names

    def stmt(self, s: Stmt, facts: Facts, loops: tuple[Var, ...]) -> Steps[Stmt]:
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.name == "prefetch":
            return s  # a hint may point anywhere
        tests: dict[_Test | _Divisor, None] = {}
        for e in s.exprs():
            self.expr(e, facts, (), tests)
        if isinstance(s, Store):
            self.access(s.buffer, s.indices, facts, (), tests)
        s = yield self.below(s, facts, loops)
        for t in reversed(tests):
            s = If(t.cond(), s, self.report(t, loops))
        return s

    def below(self, s: Stmt, facts: Facts, loops: tuple[Var, ...]) -> Steps[Stmt]:
        if isinstance(s, For):
            self.names(s.var)
            return self.rebuilt(s, (yield self.stmt(s.body, within(facts, s), (*loops, s.var))))
        if isinstance(s, If):
            then = yield self.stmt(s.then, facts.assume(s.cond), loops)
            orelse = (
                ()
                if s.orelse is None
                else ((yield self.stmt(s.orelse, facts.assume(denied(s.cond)), loops)),)
            )
            return self.rebuilt(s, then, *orelse)
        if isinstance(s, Let):
            self.names(s.var)
            return self.rebuilt(s, (yield self.stmt(s.body, within(facts, s), loops)))
        if isinstance(s, Alloc):
            self.names.buffer(s.buffer)
        parts = []
        for p in s.parts():
            parts.append((yield self.stmt(p, facts, loops)))
        return self.rebuilt(s, *parts)

    @staticmethod
    def rebuilt(s: Stmt, *parts: Stmt) -> Stmt:
        if all(a is b for a, b in zip(parts, s.parts(), strict=True)):
            return s
        return seq(*parts) if isinstance(s, Seq) else s.with_parts(*parts)

    def expr(
        self,
        e: Expr,
        facts: Facts,
        when: tuple[Expr, ...],
        tests: dict[_Test | _Divisor, None],
        chosen: tuple[Expr, ...] = (),
    ) -> None:
        """Collect the tests of an expression, those of an index before that of the access it is for. Where
        all of ``chosen`` hold, the value counts too."""
        if isinstance(e, IfThenElse):
            self.expr(e.cond, facts, when, tests, chosen)
            self.expr(e.a, facts.assume(e.cond), (*when, e.cond), tests, chosen)
            self.expr(e.b, facts.assume(denied(e.cond)), (*when, make.not_(e.cond)), tests, chosen)
            return
        if isinstance(e, Select):  # which computes, and reads, both
            self.expr(e.cond, facts, when, tests, chosen)
            self.expr(e.a, facts, when, tests, (*chosen, e.cond))
            self.expr(e.b, facts, when, tests, (*chosen, make.not_(e.cond)))
            return
        for child in e.children():
            self.expr(child, facts, when, tests, chosen)
        if isinstance(e, Load):
            self.access(e.buffer, e.indices, facts, when, tests)
        elif isinstance(e, Division) and not _not_zero(e.b, facts, (*when, *chosen)):
            tests[_Divisor(e, (*when, *chosen))] = None

    def access(
        self,
        b: Buffer,
        indices: tuple[Expr, ...],
        facts: Facts,
        when: tuple[Expr, ...],
        tests: dict[_Test | _Divisor, None],
    ) -> None:
        for d, (i, extent) in enumerate(zip(indices, b.shape, strict=True)):
            if not (holds(make.le(0, i), facts) and holds(make.lt(i, extent), facts)):
                tests[_Test(b, indices, d, when)] = None

    def report(self, t: _Test | _Divisor, loops: tuple[Var, ...]) -> Report:
        names = tuple(self.names(v) for v in loops)
        if isinstance(t, _Divisor):
            e = t.division
            return Report(show(e, self.names), DIVISION, e.b, e.a, names, loops)
        access = access_text(t.buffer, t.indices, self.names)
        return Report(access, t.dim, t.indices[t.dim], t.buffer.shape[t.dim], names, loops)


def _not_zero(e: Expr, facts: Facts, when: tuple[Expr, ...]) -> bool:
    other = make.ne(e, 0)
    if any(c is other for c in when):  # such as of an element, of which nothing else is known
        return True
    for c in when:
        facts = facts.assume(c)
    return facts.prove(other) is True or holds(make.le(1, e), facts) or holds(make.le(e, -1), facts)
