"""Fourier transforms of a length with small factors, in steps of one or two factors (Stockham's order of
Cooley and Tukey's steps, 1965). Knows which steps to take, and what they compute; no arguments of operators.

A step takes ``r`` elements that lie far apart, turns each by an angle, and transforms them by sums and
differences. After steps of ``K`` in all there are ``n / K`` times with ``K`` frequencies each, and in the end
one with all of them in order: nothing is put in order behind. Real and imaginary parts lie apart in between,
``[…, time, part, frequency, …]``, so that vectors run along frequencies. A step of two factors has a stage
for each, the first for registers: that halves the passes over memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from .. import te
from ..core.dtype import FLOAT64, INT32, DType
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags

Complex = tuple[Expr, Expr | None]  # without an imaginary part: real
# elements by the indices of what is before, the time, the frequency, and the indices of what is behind
Read = Callable[[Sequence[Any], Any, Any, Sequence[Any]], Complex]
# by those of what is before, the part, the frequency and what is behind; of a stage by its time too
Element = Callable[[Sequence[Any], Any, Any, Sequence[Any]], Expr]
_Element = Callable[[Sequence[Any], Any, Any, Any, Sequence[Any]], Expr]

MOST = 13  # the largest factor of a step
AT_ONCE = 16  # elements of a step of two factors: twice as many numbers fit vectors of 32 registers
# what costs are counted for: ``ops`` know no target, and steps are nearly the same for shorter vectors
LANES = 16
# loads and stores of a pass over memory for an element, in sums; the transposition of the first pass, four
# loads and as many shuffles for each
PASS, TRANSPOSED = 6, 20
_TURN = 6  # two products, two sums of products, two loads


@dataclass(frozen=True)
class Plan:
    """``steps`` as (first factor, second factor or 1), and about how many sums an element takes."""

    steps: tuple[tuple[int, int], ...]
    cost: float


@cache
def plan(n: int, along: bool) -> Plan | None:
    """The steps for a length; ``along``: vectors run along other dimensions than that of the transform. None
    for a length with a large prime factor."""
    return _rest(n, 1, along)


@cache
def _rest(n: int, done: int, along: bool) -> Plan | None:
    left = n // done
    if left == 1:
        return Plan((), 0.0)
    best: Plan | None = None
    for a in range(2, MOST + 1):
        if left % a or not _at_once(a):
            continue
        for b in (1, *range(2, AT_ONCE // a + 1)):
            if left // a % b or (b > 1 and not _at_once(b)):
                continue
            rest = _rest(n, done * a * b, along)
            if rest is None:
                continue
            cost = rest.cost + _cost(a, b, done, left // (a * b), along)
            if best is None or cost < best.cost:
                best = Plan(((a, b), *rest.steps), cost)
    return best


def _at_once(r: int) -> bool:
    """Whether there are sums for so many elements: the others are two factors."""
    return r in (2, 4, 8) or (r % 2 == 1 and all(r % p for p in range(3, r, 2)))


def _cost(a: int, b: int, done: int, times: int, along: bool) -> float:
    """Sums of vectors that a vector of elements takes the time of."""
    work = _sums(a) / a + (_TURN * (a - 1) / a if done > 1 else 0) + PASS
    if b > 1:
        work += _sums(b) / b + _TURN * (b - 1) / b
    if along:
        return work
    across = _shares(times if done == 1 else done)
    moved = TRANSPOSED * max(across, _shares(a * b)) if done == 1 else 0
    return work * across + moved


def _shares(n: int) -> float:
    """What vectors of ``n`` elements cost, beside as many full ones: a short one takes less than a long one,
    and no less than two fifths of it. Measured (Zen 4): vectors of 8 lanes take 0.7 of the time of 16."""
    whole, rest = divmod(n, LANES)
    return (whole + (0.4 + 0.6 * rest / LANES if rest else 0)) * LANES / n


def _sums(r: int) -> int:
    """Operations of a transform of ``r`` elements."""
    few = {2: 4, 4: 16, 8: 56}
    h = r // 2
    return few.get(r) or 4 * h * h + 10 * h


def spectrum(
    name: str,
    before: Sequence[Expr],
    n: int,
    behind: Sequence[Expr],
    read: Read,
    steps: Sequence[tuple[int, int]],
    inverse: bool,
    inside: DType,
) -> Element:
    """The transform, not divided by its length."""
    m, done, times, source = len(before), 1, n, read
    for number, (a, b) in enumerate(steps):
        times //= a * b
        stage = partial(_stage, times=times, behind=behind, inverse=inverse, inside=inside)
        called = f"{name}.step{number}"
        if b > 1:
            inner = stage(
                f"{called}.inner", (*before, make.as_expr(b)), a, done, _apart(source, m, b, times), True
            )
            done *= a
            last = stage(called, before, b, done, _beside(_element(inner, done // a)))
            done *= b
        else:
            last = stage(called, before, a, done, _far(source, times))
            done *= a
        source = _both(_element(last, 1))
    return lambda at, part, k, rest: last(*at, 0, part, k, *rest)


# what a stage reads: by the indices of what is before, the number of the element, its time, the frequency it
# has so far, and the indices of what is behind
_Source = Callable[[Sequence[Any], int, Any, Any, Sequence[Any]], Complex]


def _far(source: Read, times: int) -> _Source:
    return lambda at, j, time, k, rest: source(at, j * times + time, k, rest)


def _apart(source: Read, m: int, b: int, times: int) -> _Source:
    """Of a step of two factors the elements of the first: every ``b``-th."""
    return lambda at, j, time, k, rest: source(at[:m], (j * b + at[m]) * times + time, k, rest)


def _beside(inner: _Element) -> _Source:
    return lambda at, j, time, k, rest: _both(inner)((*at, j), time, k, rest)


def _both(element: _Element) -> Read:
    return lambda at, time, k, rest: (element(at, time, 0, k, rest), element(at, time, 1, k, rest))


def _element(t: Tensor, done: int) -> _Element:
    """Elements of a stage by a frequency that is one number, where it has two: one so far, of so many."""

    def element(at: Sequence[Any], time: Any, part: Any, k: Any, rest: Sequence[Any]) -> Expr:
        place = (k,) if done == 1 else (make.floordiv(k, done), make.floormod(k, done))
        return t(*at, time, part, *place, *rest)

    return element


def _stage(
    name: str,
    before: Sequence[Expr],
    r: int,
    done: int,
    source: _Source,
    apart: bool = False,
    *,
    times: int,
    behind: Sequence[Expr],
    inverse: bool,
    inside: DType,
) -> Tensor:
    """Transforms of ``r`` elements, each turned by its angle, where ``done`` frequencies are told apart. The
    frequencies of the result are one dimension, or ``apart`` two, so that some of either make a box."""
    m, own = len(before), 2 if apart and done > 1 else 1
    turns = None if done == 1 else angles(name, r, done, r * done, inside)

    def body(*i: Any) -> Expr:
        at, time, part, k, rest = i[:m], i[m], i[m + 1], i[m + 2], i[m + 2 + own :]
        so_far: Any = 0
        if own == 2:
            so_far = i[m + 3]
        elif done > 1:
            k, so_far = make.floordiv(k, done), make.floormod(k, done)
        z = []
        for j in range(r):
            e = source(at, j, time, so_far, rest)
            if turns is not None and j > 0:
                e = turned(e, turns[0](j, so_far), turns[1](j, so_far), inverse)
            z.append(e)
        results = _transformed(z, inverse, inside)
        zero = make.const(0.0, inside)
        real = _one_of(k, [e[0] for e in results])
        imaginary = _one_of(k, [zero if e[1] is None else e[1] for e in results])
        return te.if_then_else(make.eq(part, 0), real, imaginary)

    frequencies = [r, done] if own == 2 else [r * done]
    shape: list[ExprLike] = [*before, times, 2, *frequencies, *behind]
    attrs = {"before": m, "behind": len(behind), "so far": done, "apart": apart}
    return inputs.stage(name, tags.FOURIER, shape, body, attrs)


def _one_of(k: Any, ways: Sequence[Expr]) -> Expr:
    """The way of this number; a schedule writes out all of them."""
    e = ways[-1]
    for j in range(len(ways) - 2, -1, -1):
        e = te.if_then_else(make.eq(k, j), ways[j], e)
    return e


def turned(z: Complex, c: Expr, s: Expr, inverse: bool) -> tuple[Expr, Expr]:
    """A complex number turned by an angle, backwards unless ``inverse``."""
    re, im = z
    if im is None:
        return re * c, re * s if inverse else make.neg(re * s)
    return (re * c - im * s, im * c + re * s) if inverse else (re * c + im * s, im * c - re * s)


def angles(name: str, rows: int, columns: int, length: int, inside: DType) -> tuple[Tensor, Tensor]:
    """Cosines and sines of ``2 pi j k / length`` [j, k], computed in float64 and rounded once. Of one row j
    is 1."""

    def angle(j: Any, k: Any) -> Expr:
        j = 1 if rows == 1 else j
        # no angle grows beyond a turn; where the product of the largest indices is one anyway, it is none
        product = make.mul(te.cast(INT32, j), te.cast(INT32, k))
        rest = product if (rows - 1) * (columns - 1) < length else make.floormod(product, length)
        return te.cast(FLOAT64, rest) * make.const(2 * math.pi / length, FLOAT64)

    cos, sin = te.compute(
        (rows, columns),
        lambda j, k: tuple(te.cast(inside, f(angle(j, k))) for f in (te.cos, te.sin)),
        name=f"{name}.angles",
        tag=tags.TABLE,
    )
    return cos, sin


# --- transforms of a few elements ---------------------------------------------------------------------------


def _transformed(z: Sequence[Complex], inverse: bool, inside: DType) -> list[Complex]:
    n = len(z)
    if n == 2:
        return [_sum(z[0], z[1]), _difference(z[0], z[1])]
    if n % 2:
        return _odd(z, inverse, inside)
    even, odd = (_transformed(z[first::2], inverse, inside) for first in (0, 1))
    odd = [_eighths(e, k * 8 // n, inverse, inside) for k, e in enumerate(odd)]
    pairs = list(zip(even, odd, strict=True))
    return [*(_sum(a, b) for a, b in pairs), *(_difference(a, b) for a, b in pairs)]


def _odd(z: Sequence[Complex], inverse: bool, inside: DType) -> list[Complex]:
    """Elements j and n - j are turned by opposite angles: cosines for their sum, sines for their
    difference."""
    n, half = len(z), len(z) // 2
    pairs = [(_sum(z[j], z[n - j]), _difference(z[j], z[n - j])) for j in range(1, half + 1)]
    first = z[0]
    for both, _ in pairs:
        first = _sum(first, both)
    found: list[Complex] = [first] * n
    for k in range(1, half + 1):
        same, across = z[0], None
        for j, (both, apart) in enumerate(pairs, 1):
            angle = 2 * math.pi * (j * k % n) / n
            same = _sum(same, _scaled(both, math.cos(angle), inside))
            sine = _scaled(apart, math.sin(angle), inside)
            across = sine if across is None else _sum(across, sine)
        assert across is not None
        quarter = _eighths(across, 2, inverse, inside)
        found[k], found[n - k] = _sum(same, quarter), _difference(same, quarter)
    return found


def _eighths(z: Complex, count: int, inverse: bool, inside: DType) -> Complex:
    """A number turned by so many eighths of a circle, fewer than four."""
    re, im = z
    if count == 0:
        return z
    if count == 2:
        turned = (im, make.neg(re)) if im is not None else (make.const(0.0, inside), make.neg(re))
        return (make.neg(turned[0]), make.neg(turned[1])) if inverse else turned
    root = make.const(math.sqrt(0.5), inside)
    im = make.const(0.0, inside) if im is None else im
    # (re, im) times (1 - i), or (1 + i), both divided by the root of 2
    once = ((re - im) * root, (re + im) * root) if inverse else ((re + im) * root, (im - re) * root)
    return once if count == 1 else _eighths(once, 2, inverse, inside)


def _scaled(z: Complex, by: float, inside: DType) -> Complex:
    factor = make.const(by, inside)
    return z[0] * factor, None if z[1] is None else z[1] * factor


def _sum(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], b[1] if a[1] is None else a[1] if b[1] is None else a[1] + b[1]


def _difference(a: Complex, b: Complex) -> Complex:
    im = a[1] if b[1] is None else make.neg(b[1]) if a[1] is None else a[1] - b[1]
    return a[0] - b[0], im
