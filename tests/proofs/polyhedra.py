"""Loop IR as integer sets: the iterations of each statement and the elements each access touches, in isl's
notation.

Written apart from ``arith``: nothing of the compiler's own reasoning is asked, only its syntax trees are
read. What is not affine (a position that is data, a product of loop variables) raises NotAffine, and the
access or kernel that holds it is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl

from tensorlang.expr import nodes as n
from tensorlang.loopir.stmt import (
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    Func,
    If,
    Let,
    Load,
    Reduction,
    Seq,
    Stmt,
    Store,
)

_COMPARE = {n.LT: "<", n.LE: "<=", n.EQ: "=", n.NE: "!="}


Lives = dict[Buffer, tuple[int, tuple[str, ...]]]  # the number of the allocation, and the loops around it


class NotAffine(Exception):
    """Outside what isl can express."""


@dataclass(frozen=True)
class Access:
    """``{ iteration -> element }`` of one load or store; ``around`` are the loops that enclose the buffer's
    allocation (none: an argument); ``life`` tells allocations of one buffer apart: copies of a nest share
    their buffers.

    ``exact`` is False when the condition under which it happens is not affine: then the iterations are too
    many, never too few.
    """

    buffer: Buffer
    is_store: bool
    loops: tuple[str, ...]
    around: tuple[str, ...]
    life: int
    indices: tuple[str | None, ...]
    condition: str
    exact: bool
    text: str

    def relation(self, params: str, number: int) -> Any:
        """As an isl relation; every index must be affine."""
        if None in self.indices:
            raise NotAffine(f"an index of {self.text}")
        return isl.Map(
            f"[{params}] -> {{ S{number}[{', '.join(self.loops)}] -> B[{', '.join(str(i) for i in self.indices)}] : {self.condition} }}"
        )

    def by_life(self, params: str) -> Any:
        """``{ loops around the buffer's life -> element }``."""
        if None in self.indices:
            raise NotAffine(f"an index of {self.text}")
        inner = [v for v in self.loops if v not in self.around]
        exists = f"exists {', '.join(inner)} : " if inner else ""
        places = ", ".join(f"e{d}" for d in range(len(self.indices)))
        same = " and ".join([self.condition, *(f"e{d} = {i}" for d, i in enumerate(self.indices))])
        return isl.Map(f"[{params}] -> {{ L[{', '.join(self.around)}] -> B[{places}] : {exists}({same}) }}")


class Reader:
    """All accesses of a kernel."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.names: dict[n.Var, str] = {}
        self.fresh = 0
        self.accesses: list[Access] = []
        self.opaque: set[Buffer] = set()  # touched by code that is not loop IR
        self.params = [self.name(d) for d in func.dims] + [
            self.name(p) for p in func.params if isinstance(p, n.Var) and p.dtype.is_int
        ]
        self.context = [f"{self.names[d]} >= {d.lo if d.lo is not None else 0}" for d in func.dims]
        self.context += [f"{self.names[d]} <= {d.hi}" for d in func.dims if d.hi is not None]
        self.context += [f"{self.names[d]} mod {d.multiple_of} = 0" for d in func.dims if d.multiple_of > 1]
        self.values: dict[n.Var, str] = {}
        self.masks: dict[n.Var, n.Expr] = {}  # conditions and masks by their names
        self.context += [self.condition(c) for c, _ in func.needs]  # calls with other sizes are refused
        self.statement(func.body, (), tuple(self.context), {}, True)

    @property
    def parameters(self) -> str:
        return ", ".join(self.params)

    def name(self, v: n.Var) -> str:
        found = self.names.get(v)
        if found is None:
            clean = "".join(c if c.isalnum() else "_" for c in v.name)
            found = self.names[v] = f"{clean}_{len(self.names)}"
        return found

    # -- expressions -----------------------------------------------------------------------------------------

    def affine(self, e: n.Expr, lane: str | None = None) -> str:
        """An index expression as text; a vector one in terms of its lane."""
        if isinstance(e, n.Const):
            return str(int(e.value))
        if isinstance(e, n.Var):
            if e in self.values:
                return self.values[e]
            if e not in self.names:
                raise NotAffine(e.name)
            return self.names[e]
        if isinstance(e, n.Ramp):
            if lane is None:
                raise NotAffine("a vector where a scalar belongs")
            return f"({self.affine(e.base)} + {lane} * {self.number(e.stride)})"
        if isinstance(e, n.Broadcast):
            return self.affine(e.value)
        if isinstance(e, n.Cast) and e.dtype.is_int and e.a.dtype.is_int and e.dtype.bits >= 32:
            return self.affine(e.a, lane)
        if isinstance(e, n.Add | n.Sub):
            return (
                f"({self.affine(e.a, lane)} {'+' if isinstance(e, n.Add) else '-'} {self.affine(e.b, lane)})"
            )
        if isinstance(e, n.Mul):
            if isinstance(e.b, n.Const):
                return f"({self.number(e.b)} * {self.affine(e.a, lane)})"
            return f"({self.number(e.a)} * {self.affine(e.b, lane)})"
        if isinstance(e, n.FloorDiv | n.FloorMod):
            by = self.number(e.b)
            if by <= 0:
                raise NotAffine("a division by what is not positive")
            a = self.affine(e.a, lane)
            return f"floor({a} / {by})" if isinstance(e, n.FloorDiv) else f"({a} mod {by})"
        if isinstance(e, n.Min | n.Max):
            return f"{'min' if isinstance(e, n.Min) else 'max'}({self.affine(e.a, lane)}, {self.affine(e.b, lane)})"
        raise NotAffine(type(e).__name__)

    @staticmethod
    def number(e: n.Expr) -> int:
        e = e.value if isinstance(e, n.Broadcast) else e
        if not isinstance(e, n.Const):
            raise NotAffine("a product or quotient of variables")
        return int(e.value)

    def condition(self, e: n.Expr, lane: str | None = None) -> str:
        """A condition as a formula."""
        if isinstance(e, n.Var) and e in self.masks:
            return self.condition(self.masks[e], lane)
        if isinstance(e, n.Broadcast):
            return self.condition(e.value, lane)
        if isinstance(e, n.Const):
            return "0 = 0" if e.value else "0 = 1"
        if isinstance(e, n.And | n.Or):
            return f"({self.condition(e.a, lane)} {'and' if isinstance(e, n.And) else 'or'} {self.condition(e.b, lane)})"
        if isinstance(e, n.Not):
            return f"not ({self.condition(e.a, lane)})"
        if type(e) in _COMPARE and e.a.dtype.is_int:  # type: ignore[attr-defined]
            return f"{self.affine(e.a, lane)} {_COMPARE[type(e)]} {self.affine(e.b, lane)}"  # type: ignore[attr-defined, index]
        raise NotAffine(type(e).__name__)

    # -- statements ------------------------------------------------------------------------------------------

    def statement(
        self, s: Stmt, loops: tuple[str, ...], domain: tuple[str, ...], life: Lives, exact: bool
    ) -> None:
        if isinstance(s, Seq):
            for part in s.stmts:
                self.statement(part, loops, domain, life, exact)
        elif isinstance(s, For):
            self.reads(s.begin, loops, domain, life, exact)
            self.reads(s.extent, loops, domain, life, exact)
            begin, extent = self.affine(s.begin), self.affine(s.extent)
            before = self.names.pop(
                s.var, None
            )  # copies of a nest share their variables: each copy gets a name of its own
            self.fresh += 1
            v = self.names[s.var] = (
                f"{''.join(c if c.isalnum() else '_' for c in s.var.name)}_{len(self.names)}_{self.fresh}"
            )
            self.statement(
                s.body, (*loops, v), (*domain, f"{begin} <= {v}", f"{v} < {begin} + {extent}"), life, exact
            )
            del self.names[s.var]
            if before is not None:
                self.names[s.var] = before
        elif isinstance(s, If):
            self.reads(s.cond, loops, domain, life, exact)
            try:
                cond = self.condition(s.cond)
                yes, no, known = (cond,), (f"not ({cond})",), exact
            except NotAffine:
                yes, no, known = (), (), False
            self.statement(s.then, loops, (*domain, *yes), life, known)
            if s.orelse is not None:
                self.statement(s.orelse, loops, (*domain, *no), life, known)
        elif isinstance(s, Let):
            self.reads(s.value, loops, domain, life, exact)
            if s.value.dtype.is_bool:
                self.masks[s.var] = s.value
            try:
                if s.value.dtype.is_index:
                    self.values[s.var] = self.affine(s.value)
            except NotAffine:
                pass
            self.statement(s.body, loops, domain, life, exact)
            self.values.pop(s.var, None)
        elif isinstance(s, Alloc):
            self.fresh += 1
            self.statement(s.body, loops, domain, {**life, s.buffer: (self.fresh, loops)}, exact)
        elif isinstance(s, Store):
            for e in s.exprs():
                self.reads(e, loops, domain, life, exact)
            self.access(s.buffer, s.indices, s.mask, True, loops, domain, life, exact)
        elif isinstance(s, Extern):
            self.opaque.update(s.buffers())
        elif not (
            isinstance(s, Evaluate) and isinstance(s.value, n.Call) and s.value.name == "prefetch"
        ):  # a hint may point anywhere
            for e in s.exprs():
                self.reads(e, loops, domain, life, exact)

    def access(
        self,
        b: Buffer,
        indices: tuple[n.Expr, ...],
        mask: n.Expr | None,
        is_store: bool,
        loops: tuple[str, ...],
        domain: tuple[str, ...],
        life: Lives,
        exact: bool,
    ) -> None:
        lanes = max(
            [i.dtype.lanes for i in indices] + [mask.dtype.lanes if mask is not None else 1], default=1
        )
        lane = None
        if lanes > 1:
            self.fresh += 1
            lane = f"lane_{self.fresh}"
            loops, domain = (*loops, lane), (*domain, f"0 <= {lane}", f"{lane} < {lanes}")
        if mask is not None:
            try:
                domain = (*domain, self.condition(mask, lane))
            except NotAffine:
                exact = False
        places: list[str | None] = []
        for i in indices:
            try:
                places.append(self.affine(i, lane))
            except NotAffine:
                places.append(None)
        shown = f"{b.name}[{', '.join(map(str, indices))}]"
        number, around = life.get(b, (0, ()))
        self.accesses.append(
            Access(
                b,
                is_store,
                loops,
                around,
                number,
                tuple(places),
                " and ".join(domain) or "0 = 0",
                exact,
                shown,
            )
        )

    def reads(
        self, e: n.Expr, loops: tuple[str, ...], domain: tuple[str, ...], life: Lives, exact: bool
    ) -> None:
        """The loads in an expression; the sides of a lazy choice only under its condition."""
        if isinstance(e, n.IfThenElse):
            self.reads(e.cond, loops, domain, life, exact)
            yes, no, known = (), (), False  # type: tuple[str, ...], tuple[str, ...], bool
            if e.cond.dtype.lanes == 1:
                try:
                    cond = self.condition(e.cond)
                    yes, no, known = (cond,), (f"not ({cond})",), exact
                except NotAffine:
                    pass
            self.reads(e.a, loops, (*domain, *yes), life, known)
            self.reads(e.b, loops, (*domain, *no), life, known)
            return
        if isinstance(e, Load):
            self.access(e.buffer, e.indices, e.mask, False, loops, domain, life, exact)
        if isinstance(e, Reduction):
            self.reads(e.value, loops, domain, life, exact)
            return
        for child in e.children():
            self.reads(child, loops, domain, life, exact)
