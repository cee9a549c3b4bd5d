"""Relations between the loops of a stage: what a split, a fuse and a loop of one iteration make of extents
and values. Knows expressions and axes; nothing of stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arith.facts import EMPTY
from ..expr import make
from ..expr.nodes import Cast, Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..te.axis import IterVar


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """``parent = outer * extent(inner) + inner``; exactly one of ``factor`` (of inner) and ``nparts`` (of
    outer) is given."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    tail: str = "auto"

    def extents(self, extent: dict[IterVar, Expr]) -> None:
        """Derive the extents of the new loops from the parent's."""
        whole = extent[self.parent]
        if self.factor is not None:
            # in zeros a part is whole, however few iterations there are
            inner = self.factor if self.tail == "zeros" else clip(self.factor, whole)
            extent[self.inner] = inner
            extent[self.outer] = make.ceildiv(whole, inner)
        else:
            assert self.nparts is not None
            outer = clip(self.nparts, whole)
            extent[self.inner] = make.ceildiv(whole, outer)
            extent[self.outer] = outer

    def values(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """Recover the parent's value from those of the new loops. With ``tail="shift"`` no tile ends past the
        whole: the last one begins earlier instead."""
        begin, size, whole = (
            make.mul(value[self.outer], extent[self.inner]),
            extent[self.inner],
            extent[self.parent],
        )
        if self.tail == "shift" and EMPTY.divisible(whole, size) is not True:
            last = make.sub(whole, size)
            begin = make.min_(begin, last if EMPTY.prove(make.ge(last, 0)) is True else make.max_(last, 0))
        value[self.parent] = make.add(begin, value[self.inner])

    def places(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """The iterations of the new loops that reach a value of the parent's (in tiles that do not
        overlap)."""
        size = nonzero(extent[self.inner])
        value[self.outer], value[self.inner] = (
            make.floordiv(value[self.parent], size),
            make.floormod(value[self.parent], size),
        )

    def makes(self, loop: IterVar) -> bool:
        """Whether the loop is one of the new ones."""
        return loop is self.outer or loop is self.inner

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)


@dataclass(frozen=True, slots=True, eq=False)
class Fuse:
    """``outer = fused // extent(inner)``, ``inner = fused % extent(inner)``."""

    outer: IterVar
    inner: IterVar
    fused: IterVar

    def extents(self, extent: dict[IterVar, Expr]) -> None:
        """Derive the extent of the fused loop."""
        extent[self.fused] = make.cast(
            self.fused.dtype, make.mul(make.cast(self.fused.dtype, extent[self.outer]), extent[self.inner])
        )

    def values(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """Recover the values of the two loops."""
        inner = extent[self.inner]
        # said outright: the bounds of `fused // n` for a symbolic n are wider than 0..1
        if const_int(extent[self.outer]) == 1:
            value[self.outer], value[self.inner] = (
                make.const(0, self.outer.dtype),
                make.cast(self.inner.dtype, value[self.fused]),
            )
            return
        inner = nonzero(inner)
        value[self.outer] = make.cast(self.outer.dtype, make.floordiv(value[self.fused], inner))
        value[self.inner] = make.cast(self.inner.dtype, make.floormod(value[self.fused], inner))

    def places(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """The iteration of the fused loop that reaches the values of the two."""
        outer, inner = (make.cast(self.fused.dtype, value[iv]) for iv in (self.outer, self.inner))
        value[self.fused] = make.add(make.mul(outer, extent[self.inner]), inner)

    def makes(self, loop: IterVar) -> bool:
        """Whether the loop is one of the new ones."""
        return loop is self.fused

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.fused,)


@dataclass(frozen=True, slots=True, eq=False)
class Singleton:
    """A loop of one iteration, made of nothing."""

    unit: IterVar

    def extents(self, extent: dict[IterVar, Expr]) -> None:
        """One iteration."""
        extent[self.unit] = make.const(1, self.unit.dtype)

    def values(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """Nothing hangs on it."""

    def places(self, value: dict[IterVar, Expr], extent: dict[IterVar, Expr]) -> None:
        """Its one iteration."""
        value[self.unit] = make.const(0, self.unit.dtype)

    def makes(self, loop: IterVar) -> bool:
        """Whether the loop is one of the new ones."""
        return loop is self.unit

    @property
    def parents(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def children(self) -> tuple[IterVar, ...]:
        return (self.unit,)


Relation = Split | Fuse | Singleton


def placed(e: Expr, value: Mapping[Var, Expr]) -> Expr:
    """``e`` with axes in terms of loops. An axis that is a part of a longer count, cut to 32 bits, is that
    part where ``e`` makes it wider: row and column are one number again, in which nothing is divided.
    Measured (Zen 4, one thread): argmax of all of n × m floats 0.06 of the time."""
    whole: dict[Expr, Expr] = {
        make.cast("int64", v): part.a
        for v, part in value.items()
        if type(part) is Cast and part.dtype.name == "int32" and part.a.dtype.name == "int64"
    }
    return substitute(e, value, whole)


def nonzero(size: Expr) -> Expr:
    """A size to divide by: where it is 0 the loops never run, and any divisor but zero will do."""
    return make.const(1, size.dtype) if const_int(size) == 0 else size


def clip(part: Expr, whole: Expr) -> Expr:
    """A factor beyond the extent is the extent (at least 1), as far as no run-time size decides it. The rule
    is the same for constants and for knobs, so that what is computed symbolically equals what a concrete
    replay gives."""
    if depends_on_dims(whole) or depends_on_dims(part):
        return part
    if EMPTY.prove(make.le(part, whole)) is not True:
        part = make.min_(part, whole)
    return part if EMPTY.prove(make.le(1, part)) is True else make.max_(part, 1)


def depends_on_dims(e: Expr) -> bool:
    """Whether a run-time size (or any other value known only at the call) decides the value."""
    return any(v.kind != "knob" for v in variables(e))
