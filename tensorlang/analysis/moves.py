"""Copies in another order, by what they do to memory: which loops count elements one behind the other where
they are read, and where they are written, whatever the axes of the declaration are. Axes that stay together
are one, and an axis that tells several dimensions apart is several. Reads bodies; knows no schedules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Expr, FloorDiv, FloorMod, Var, const_int
from ..expr.walk import rewrite, variables
from ..te import ComputeOp, IterVar, Tensor, TensorRead
from ..te.patterns import constant, reads_of
from .digits import digits_of

LEAST = 4  # elements of a side that is turned


@dataclass(frozen=True)
class Part:
    """What ``axis`` counts of one dimension: so many ``places``, each worth so many iterations of it."""

    axis: IterVar
    worth: int
    places: int


@dataclass(frozen=True)
class Turned:
    """A copy of which ``last`` of the ``parts``, outermost first, are one stretch where it is written, and
    ``along`` of them, all before, where it is read: ranges of places. Elements that are neighbours in the
    result lie ``row`` elements apart in the source."""

    parts: tuple[Part, ...]
    along: range
    last: range
    row: int

    def elements(self, places: range) -> int:
        """Of a stretch."""
        return math.prod(self.parts[k].places for k in places)


def turned_copy(op: ComputeOp) -> Turned | None:
    """How a copy of known sizes turns what it reads; None where it does not, or not all of it is known."""
    copies = len(op.body) == 1 or all(type(e) is TensorRead for e in op.body)
    if not op.axis or op.reduce_axis or not copies:
        return None
    parts = _parts(op)
    if parts is None or any(p.places == 0 for p in parts):
        return None
    reads = reads_of(op).plain
    flat = [_place(tensor, at) for tensor, at in reads]
    steps = [[None if f is None else _step(f, p) for p in parts] for f in flat]
    kept = _told_by_place(op)
    last = _stretch(parts, steps, len(parts) - 1, kept)
    within = next((k for k in reversed(last) if parts[k].places > 1), None)
    if within is None:
        return None
    for found in steps:
        row = abs(found[within] or 0)
        before = [k for k in range(last.start) if found[k] in (1, -1) and parts[k].places > 1]
        if not before:
            continue
        along = _stretch(parts, steps, before[-1], kept)
        result = Turned(parts, along, last, row)
        # nearer ones overlap, as windows do
        if row >= max(LEAST, result.elements(along)) and result.elements(last) >= LEAST:
            return result if result.elements(along) >= LEAST else None
    return None


def _parts(op: ComputeOp) -> tuple[Part, ...] | None:
    """All axes, each as what it counts of every dimension; None where one is of an open size."""
    digits, found = digits_of(op), list[Part]()
    for a in op.axis:
        n = constant(a.extent)
        if n is None:
            return None
        worth = [*digits.get(a, ()), 1]
        found += [Part(a, low, high // low) for high, low in itertools.pairwise([n, *worth])]
    return tuple(found)


def _place(tensor: Tensor, at: Sequence[Expr]) -> dict[tuple[Expr, ...], int] | None:
    """Where in memory a read is, as terms; None in a tensor of an open size."""
    found, stride = dict[tuple[Expr, ...], int](), 1
    for index, n in zip(reversed(at), reversed(tensor.shape), strict=True):
        for term, factor in poly(index).items():
            found[term] = found.get(term, 0) + factor * stride
        stride *= constant(n) or 0
    return found if stride else None


def _step(flat: dict[tuple[Expr, ...], int], part: Part) -> int | None:
    """How far a place moves in one step of a part; None where that is not always the same."""
    var, total = part.axis.var, 0
    for term, factor in flat.items():
        if not any(var in variables(e) for e in term):
            continue
        digit = _digit(term[0], var) if len(term) == 1 else None
        if digit is None:
            return None
        low, high = digit
        if low <= part.worth and (high is None or part.worth < high):
            total += factor * (part.worth // low)
    return total


def _digit(e: Expr, var: Var) -> tuple[int, int | None] | None:
    """What a number counts of ``var``: from which worth on, and up to which."""
    if e is var:
        return 1, None
    if isinstance(e, FloorDiv) and e.a is var:
        low = const_int(e.b)
        return (low, None) if low else None
    if isinstance(e, FloorMod):
        inner, n = _digit(e.a, var), const_int(e.b)
        return (inner[0], inner[0] * n) if inner is not None and inner[1] is None and n else None
    return None


def _told_by_place(op: ComputeOp) -> set[Var]:
    """The axes whose places values are made of, beside what is read there."""
    away = lambda e: make.const(0, e.dtype) if type(e) is TensorRead else None
    return {v for e in op.body for v in variables(rewrite(e, away))}


def _stretch(parts: Sequence[Part], steps: Sequence[Sequence[int | None]], end: int, kept: set[Var]) -> range:
    """The parts up to this one that are counted on from it, wherever something is read."""
    begin, n = end, parts[end].places
    within = end if n > 1 else None
    while begin > 0 and parts[end].axis.var not in kept:
        p = parts[begin - 1]
        near = [(s[begin - 1], 0 if within is None else s[within]) for s in steps]
        counted = within is None or all(a is not None and b is not None and a == b * n for a, b in near)
        if p.axis.var in kept or not (p.places == 1 or counted):
            break
        begin, n = begin - 1, n * p.places
        within = begin if within is None and p.places > 1 else within
    return range(begin, end + 1)
