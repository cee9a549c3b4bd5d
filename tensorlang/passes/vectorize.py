"""vectorize: a vector loop becomes vector expressions; conditions on its variable become masks.

``for j in vectorized 0..8: if j0 + j < n: C[j0 + j] = A[j0 + j] * x`` →
``C[j0 : j0 + 8] = A[j0 : j0 + 8 if m] * x8(x) if m`` with ``m = x8(j0) + lanes < x8(n)``

A sum over the lanes, ``s = s + A[j]``, becomes a reduction of the vector; elements that are put behind those
kept before, ``if c: B[n] = A[j]; n = n + 1``, are packed where processors do that. What has no vector form
runs as a plain loop. Of the loops of a stage and of those computed inside it the outermost is the vector.
With the pragma ``whole_vectors = n`` a loop whose rest would be several shorter vectors is one masked one
longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arith.conditions import conjunction, conjuncts
from ..core.dtype import INT32, DType
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import (
    Add,
    And,
    Binary,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Or,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
)
from ..expr.walk import preorder, substitute
from ..expr.walk import rewrite as rewrite_expr
from ..loopir.loop_builder import packs
from ..loopir.packed import packed
from ..loopir.stmt import (
    Alloc,
    Evaluate,
    For,
    Func,
    If,
    Let,
    Load,
    Seq,
    Stmt,
    Store,
    load,
    map_exprs,
    rebuilt,
    reduction,
    seq,
)
from ..loopir.stmt import preorder as statements
from .pad_rows import row_mask

PACKED = (8, 16)  # lanes that are packed at once
REGISTER = 512  # bits of them at most: LLVM 22 takes wider ones apart on a stack that is not aligned for it
_DIVISIONS = (FloorDiv, FloorMod, TruncDiv, TruncMod)
_REDUCTIONS: dict[type, str] = {Add: "add", Mul: "mul", Min: "min", Max: "max", And: "and", Or: "or"}


def vectorize(func: Func) -> Func:
    """The pass."""
    return func.with_body(run(_outermost_first(func.body)))


def _outermost_first(s: Stmt) -> Steps[Stmt]:
    if isinstance(s, For) and s.kind == "vectorized":
        s = _loop(s)
    parts = []
    for p in s.parts():
        parts.append((yield _outermost_first(p)))
    return rebuilt(s, parts)


class _NoVectorForm(Exception):
    """A statement that cannot run once for all lanes."""


def _loop(s: For) -> Stmt:
    lanes = const_int(s.extent)
    plain = For(s.var, s.begin, s.extent, "serial", s.body, s.attrs)
    if lanes is None:
        return plain
    mask, unit = None, dict(s.attrs).get("whole_vectors")
    if unit is not None and (wide := whole_vectors(lanes, unit)) > lanes and const_int(s.begin) == 0:
        mask, lanes = row_mask(make.ramp(s.begin, 1, wide), s.extent), wide
    try:
        return run(_Vectorizer(s, lanes).apart(s.body, mask))
    except _NoVectorForm:
        return plain


def whole_vectors(n: int, unit: int) -> int:
    """The lanes of vectors of ``unit`` and a power of two at the end that hold ``n``, where ``n`` itself
    would be several vectors behind the whole ones: 43 are 32 and 16 masked, not 32 and 8 and 2 and 1."""
    whole, rest = n // unit * unit, n % unit
    return n if rest.bit_count() < 2 else whole + (1 << rest.bit_length())


class _Vectorizer:
    def __init__(self, loop: For, lanes: int) -> None:
        self.loop = loop
        self.values: dict[Var, Expr] = {loop.var: make.ramp(loop.begin, 1, lanes)}
        self.first: dict[Var, Expr] = {loop.var: loop.begin}
        self.lanes = lanes
        self.hosts = any(
            isinstance(s, Alloc) for s in statements(loop.body)
        )  # other stages are computed inside
        self.named = 0  # vectors with names around

    def expr(self, e: Expr, mask: Expr | None) -> Expr:
        e = substitute(e, self.values)
        if mask is None:
            return e

        def masked(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.dtype.lanes > 1:
                return load(
                    node.buffer, node.indices, mask if node.mask is None else make.and_(node.mask, mask)
                )
            if (
                isinstance(node, _DIVISIONS)
                and node.dtype.lanes > 1
                and type(getattr(node.b, "value", node.b)) is not Const
            ):
                # a lane that is off holds zero, and dividing by zero is an error: it divides by one
                return type(node).make(
                    node.a,
                    make.select(mask, node.b, make.broadcast(make.const(1, node.dtype.element), self.lanes)),
                )
            return None

        return rewrite_expr(e, masked)

    def apart(self, s: Stmt, mask: Expr | None) -> Steps[Stmt]:
        """One of several statements. Where a stage that is computed inside the loop has no vector form, as
        with a vector loop of its own, it runs once for each lane, and what reads it for all of them after."""
        named = self.named
        try:
            return (yield self.stmt(s, mask))
        except _NoVectorForm:
            if not self.hosts or mask is not None or named:
                raise
        self.named = named
        one = self.loop
        return For(one.var, one.begin, one.extent, "serial", s, one.attrs)

    def stmt(self, s: Stmt, mask: Expr | None) -> Steps[Stmt]:
        if isinstance(s, Seq):
            new: list[Stmt] = []
            waiting = list(reversed(s.stmts))
            while waiting:
                x = waiting.pop()
                kept = self.kept(x, waiting[-1], mask) if waiting else None
                if kept is not None:
                    waiting.pop()
                new.append(kept if kept is not None else (yield self.apart(x, mask)))
            return seq(*new)
        if isinstance(s, Alloc):  # of a stage computed in the loop, with elements for each lane
            return Alloc(s.buffer, (yield self.stmt(s.body, mask)))
        if isinstance(s, Store):
            return self.store(s, mask)
        if isinstance(s, If):
            return (yield self.branch(s, mask))
        if isinstance(s, Evaluate):  # a prefetch: one lane asks for the line
            return map_exprs(s, lambda e: substitute(e, self.first))
        if isinstance(s, For):
            begin, extent = self.expr(s.begin, None), self.expr(s.extent, None)
            if begin.dtype.lanes > 1 or extent.dtype.lanes > 1 or s.kind == "vectorized":
                raise _NoVectorForm
            return For(s.var, begin, extent, s.kind, (yield self.stmt(s.body, mask)), s.attrs)
        if isinstance(s, Let):
            value = self.expr(s.value, mask)
            if value.dtype.lanes == 1:
                return Let(s.var, value, (yield self.stmt(s.body, mask)))
            # the variable of one lane stays what it is: what is outside this loop may know it
            wide = Var(s.var.name, value.dtype, s.var.kind)
            self.values[s.var] = wide
            self.named += 1
            body = yield self.stmt(s.body, mask)
            self.named -= 1
            return Let(wide, value, body)
        raise _NoVectorForm

    def branch(self, s: If, mask: Expr | None) -> Steps[Stmt]:
        # what is one test for all lanes stays a test: it may guard what is read once for all
        if s.orelse is None:
            conds = [substitute(c, self.values) for c in conjuncts(s.cond)]
            uniform = [c for c, v in zip(conjuncts(s.cond), conds, strict=True) if v.dtype.lanes == 1]
            if 0 < len(uniform) < len(conds):
                varying = [c for c, v in zip(conjuncts(s.cond), conds, strict=True) if v.dtype.lanes > 1]
                return (yield self.branch(If(conjunction(uniform), If(conjunction(varying), s.then)), mask))
        cond = self.expr(s.cond, mask)
        if cond.dtype.lanes > 1 and s.orelse is None:
            kept = self.counted(s.then, cond, mask)
            if kept is not None:
                return kept
        if cond.dtype.lanes == 1:
            then = yield self.stmt(s.then, mask)
            return If(cond, then, None if s.orelse is None else (yield self.stmt(s.orelse, mask)))
        then = yield self.stmt(s.then, cond if mask is None else make.and_(mask, cond))
        if s.orelse is None:
            return then
        other = make.not_(cond)
        return seq(then, (yield self.stmt(s.orelse, other if mask is None else make.and_(mask, other))))

    def kept(self, s: Stmt, count: Stmt, mask: Expr | None) -> Stmt | None:
        """``B[n] = x; n = n + c``, where what is behind the last that counts may be anything: all lanes are
        written, those that count in front."""
        if not isinstance(s, Store) or not isinstance(count, Store) or mask is not None:
            return None
        old = load(count.buffer, count.indices)
        if type(count.value) is not Add or (count.value.a is not old and count.value.b is not old):
            return None
        flag = count.value.b if count.value.a is old else count.value.a
        if type(flag) is not Cast or not flag.a.dtype.is_bool:
            return None
        cond = self.expr(flag.a, None)
        return None if cond.dtype.lanes == 1 else self.packed((s,), count, cond, None, spare=True)

    def counted(self, s: Stmt, cond: Expr, mask: Expr | None) -> Stmt | None:
        """``B[n] = x; n = n + 1``, done by the lanes where ``cond`` holds: these one behind the other."""
        stores = s.stmts if isinstance(s, Seq) else ()
        count = stores[-1] if len(stores) > 1 else None
        if not isinstance(count, Store):
            return None
        old = load(count.buffer, count.indices)
        if not old.dtype.is_int or count.value is not make.add(old, make.const(1, old.dtype)):
            return None
        return self.packed(stores[:-1], count, cond, mask, spare=False)

    def packed(
        self, stores: Sequence[Stmt], count: Store, cond: Expr, mask: Expr | None, spare: bool
    ) -> Stmt | None:
        """What ``stores`` write, at the place that ``count`` counts, for the lanes where ``cond`` holds. The
        others are written behind them where there is room to ``spare``."""
        if self.lanes not in PACKED or not packs():
            return None
        old = load(count.buffer, count.indices)
        mine = Var("kept", cond.dtype, "data")
        many = Var("many", INT32, "data")
        there = make.lt(make.ramp(make.const(0, INT32), 1, self.lanes), make.broadcast(many, self.lanes))
        new: list[Stmt] = []
        for one in stores:
            if not isinstance(one, Store) or one.mask is not None or one.buffer is count.buffer:
                return None
            if (
                one.buffer.dtype.bits * self.lanes > REGISTER
                or _reads(one.value, count)
                or _reads(cond, one)
                or sum(i is old for i in one.indices) != 1
            ):
                return None
            indices = tuple(self.expr(i, mask) for i in one.indices if i is not old)
            value = self.expr(one.value, mask)
            value = make.broadcast(value, self.lanes) if value.dtype.lanes == 1 else packed(value, mine)
            if any(i.dtype.lanes > 1 or _reads(i, count) or _reads(i, one) for i in indices):
                return None
            if any(_reads(e.value, one) for e in stores if isinstance(e, Store)):
                return None
            rest = iter(indices)
            places = [make.ramp(old, 1, self.lanes) if i is old else next(rest) for i in one.indices]
            new.append(one.of_same(value, tuple(places), None if spare else there))
        new.append(count.of_same(make.add(old, make.cast(old.dtype, many)), count.indices))
        found = reduction("add", make.cast(INT32.with_lanes(self.lanes), mine))
        return Let(mine, cond if mask is None else make.and_(mask, cond), Let(many, found, seq(*new)))

    def store(self, s: Store, mask: Expr | None) -> Stmt:
        indices = tuple(self.expr(i, mask) for i in s.indices)
        value = self.expr(s.value, mask)
        if any(i.dtype.lanes > 1 for i in indices):
            return s.of_same(make.broadcast(value, self.lanes), indices, mask)
        # all lanes write one value to one place: one store of it
        if value.dtype.lanes == 1 and mask is None and not _reads(value, s):
            return s.of_same(value, indices)
        return self.reduce_lanes(s, indices, value, mask)

    def reduce_lanes(self, s: Store, indices: tuple[Expr, ...], value: Expr, mask: Expr | None) -> Stmt:
        """``x = op(x, vector)``: every lane writes one element."""
        op = _REDUCTIONS.get(type(value))
        if op is None or not isinstance(value, Binary):
            raise _NoVectorForm
        old = load(s.buffer, indices)
        for mine, other in ((value.a, value.b), (value.b, value.a)):
            inner = getattr(mine, "value", mine)  # x8(load) or the load itself
            if inner is old and not _reads(other, s):
                part = make.broadcast(other, self.lanes)
                if mask is not None:
                    # lanes that are left out add what changes nothing
                    part = make.select(
                        mask, part, make.broadcast(_identity(op, part.dtype.element), self.lanes)
                    )
                return s.of_same(type(value).make(old, reduction(op, part)), indices)
        raise _NoVectorForm


def _reads(e: Expr, s: Store) -> bool:
    return any(isinstance(node, Load) and node.buffer is s.buffer for node in preorder(e))


def _identity(op: str, t: DType) -> Expr:
    if op in ("and", "or"):
        return make.const(op == "and")
    if op in ("add", "mul"):
        return make.const(0 if op == "add" else 1, t)
    if t.is_float:
        return make.const(float("inf") if op == "min" else float("-inf"), t)
    return make.const(t.limits()[1 if op == "min" else 0], t)
