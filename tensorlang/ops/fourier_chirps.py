"""Fourier transforms of lengths with a large prime factor, as a convolution (Bluestein 1970): ``2 t k`` is
``t² + k² - (k - t)²``, so elements are turned by the angle of their square, convolved with turns by the
squares of distances, and turned again. The convolution is two transforms of a length at least twice as long,
which has small factors; what it is convolved with is a table. Knows steps; no arguments of operators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from .. import te
from ..core.dtype import FLOAT64, INT64, DType
from ..expr import make
from ..expr.nodes import Expr
from ..te import Tensor
from . import tags
from .fourier_steps import LANES, Complex, Element, Plan, Read, plan, spectrum, turned

CANDIDATES = 16  # lengths of which the cheapest is taken
BESIDE = 3 * 8  # sums that turning an element, a product and turning a result take the time of
LONGEST = 1 << 20  # elements, of which a kernel holds tables


@cache
def length_for(n: int, along: bool) -> tuple[int, Plan, float] | None:
    """The length to convolve ``n`` elements with, its steps, and the sums that an element takes."""
    if 2 * n > LONGEST:
        return None
    least = 2 * n - 1
    sizes = range(-(-least // LANES) * LANES, 2 * least + LANES, LANES)
    smooth = [size for size in sizes if _smooth(size)][:CANDIDATES]
    found = [(size, steps) for size in smooth if (steps := plan(size, along)) is not None]
    # the first step asks which elements there are: of vectors that are not whole each part would ask
    whole = [each for each in found if along or _times(*each) % LANES == 0]
    costs = [(size, steps, (2 * steps.cost + BESIDE) * size / n) for size, steps in whole or found]
    return min(costs, key=lambda each: each[-1], default=None)


def _times(size: int, steps: Plan) -> int:
    return size // math.prod(steps.steps[0])


def _smooth(n: int) -> bool:
    for p in (2, 3, 5, 7):
        while n % p == 0:
            n //= p
    return n == 1


def chirped(
    name: str,
    before: Sequence[Expr],
    n: int,
    behind: Sequence[Expr],
    read: Read,
    size: int,
    steps: Plan,
    inverse: bool,
    inside: DType,
) -> Element:
    """The transform of ``n`` elements, not divided by their number, by two of ``size``."""
    cos, sin = _chirps(name, n, inside)
    real, imaginary = _spectrum_of_chirps(name, n, size, steps, inside)
    zero = make.const(0.0, inside)

    def started(at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        parts = turned(read(at, time, k, rest), cos(time), sin(time), inverse)
        # not a select: behind the end there are no elements
        re, im = (te.if_then_else(time < n, e, zero) for e in parts)
        return re, im

    first = spectrum(f"{name}.chirps", before, size, behind, started, steps.steps, False, inside)

    def convolved(at: Sequence[Any], time: Any, k: Any, rest: Sequence[Any]) -> Complex:
        z = first(at, 0, time, rest), first(at, 1, time, rest)
        return turned(z, real(time), imaginary(time), not inverse)

    second = spectrum(name, before, size, behind, convolved, steps.steps, True, inside)

    def result(at: Sequence[Any], part: int, k: Any, rest: Sequence[Any]) -> Expr:
        z = second(at, 0, k, rest), second(at, 1, k, rest)
        return turned(z, cos(k), sin(k), inverse)[part]

    return result


def _angle(t: Any, n: int) -> Expr:
    """``pi t² / n``, less whole turns."""
    wide = te.cast(INT64, t)
    return te.cast(FLOAT64, make.floormod(make.mul(wide, wide), 2 * n)) * make.const(math.pi / n, FLOAT64)


def _chirps(name: str, n: int, inside: DType) -> tuple[Tensor, Tensor]:
    cos, sin = te.compute(
        (n,),
        lambda t: tuple(te.cast(inside, f(_angle(t, n))) for f in (te.cos, te.sin)),
        name=f"{name}.chirps.angles",
        tag=tags.TABLE,
    )
    return cos, sin


def _spectrum_of_chirps(name: str, n: int, size: int, steps: Plan, inside: DType) -> tuple[Tensor, Tensor]:
    """The transform of what is convolved with, divided by ``size``: a turn by the square of the distance,
    forwards and backwards. In float64, and rounded once."""

    def turn(t: Any, f: Any) -> Expr:
        distance = make.min_(t, size - t)
        return te.if_then_else(distance < n, f(_angle(distance, n)), make.const(0.0, FLOAT64))

    cos, sin = te.compute(
        (size,), lambda t: tuple(turn(t, f) for f in (te.cos, te.sin)), name=f"{name}.squares", tag=tags.TABLE
    )
    made = spectrum(
        f"{name}.distances",
        (),
        size,
        (),
        lambda at, time, k, rest: (cos(time), sin(time)),
        steps.steps,
        False,
        FLOAT64,
    )
    scale = make.const(1 / size, FLOAT64)
    real, imaginary = te.compute(
        (size,),
        lambda k: tuple(te.cast(inside, made((), part, k, ()) * scale) for part in (0, 1)),
        name=f"{name}.distances",
        tag=tags.TABLE,
    )
    return real, imaginary
