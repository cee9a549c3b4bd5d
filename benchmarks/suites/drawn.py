"""Shapes drawn by a seed, beside the fixed lists: what is tuned to a list falls behind here. Each run names
its seed, and another seed gives other shapes.

Sizes are uniform in their logarithm, and so are the classes of work: small and large, even and odd."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..harness.case import Argument, Array, Case
from . import matmul, memory
from .attention import attention_case
from .conv import conv_case

T = TypeVar("T")
EACH = 4  # cases of each kind
MOST = 4e8  # operations of a case: more tells nothing that less does not
FAR = (3_000_000, 15_000_000)  # elements that no cache holds


class Draw:
    """Sizes by seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def size(self, low: int, high: int) -> int:
        """Between ``low`` and ``high``, uniform in the logarithm; every third a multiple of 8 where it can
        be."""
        n = round(math.exp(self._rng.uniform(math.log(low), math.log(high))))
        return max(8, n // 8 * 8) if n >= 8 and self._rng.random() < 1 / 3 else n

    def order(self, of: Sequence[T]) -> list[T]:
        return [of[i] for i in self._rng.permutation(len(of))]

    def of(self, *options: int) -> int:
        return int(self._rng.choice(options))


def _product(draw: Draw, packed: bool, quick: bool) -> Case:
    while True:
        m, k, n = draw.size(1, 600), draw.size(8, 2000), draw.size(8, 2000)
        if m * k * n <= MOST / 2:
            return matmul.case(m, k, n, packed, "drawn", quick)


def _convolution(draw: Draw, packed: bool, quick: bool) -> Case:
    while True:
        kernel, stride = draw.of(1, 3, 3, 5), draw.of(1, 1, 2)
        channels, out, size = (
            draw.size(3, 300),
            draw.size(4, 300),
            (draw.size(kernel + stride, 120), draw.size(kernel + stride, 120)),
        )
        if channels * out * kernel**2 * math.prod(size) <= MOST / 2 * stride**2:
            return conv_case("drawn", channels, size, out, kernel, stride, packed=packed, quick=quick)


def _depthwise(draw: Draw, packed: bool, quick: bool) -> Case:
    channels, size = draw.size(8, 600), (draw.size(8, 120), draw.size(8, 120))
    return conv_case(
        "drawn",
        channels,
        size,
        channels,
        draw.of(3, 3, 5, 7),
        draw.of(1, 2),
        groups=channels,
        packed=packed,
        quick=quick,
    )


def _attention(draw: Draw, quick: bool) -> Case:
    queries = draw.size(1, 700)
    keys = draw.of(queries, draw.size(8, 1500))
    return attention_case(
        "drawn", draw.of(4, 8, 12, 16), queries, keys, draw.of(32, 40, 64, 80, 128), quick=quick
    )


Rows = tuple[str, Callable[[Array], Array], dict[str, int], Callable[[int, int], tuple[int, ...]], float]
OVER_ROWS: tuple[Rows, ...] = (
    ("softmax", memory.softmax, {"axis": -1}, lambda m, n: (m, n), 5),
    ("gelu", memory.gelu, {}, lambda m, n: (m, n), 4),
    ("sum_last", lambda x: x.sum(axis=1, dtype="float64"), {"axis": 1}, lambda m, n: (m,), 1),
    ("sum_first", lambda x: x.sum(axis=0, dtype="float64"), {"axis": 0}, lambda m, n: (n,), 1),
    ("max_last", lambda x: x.max(axis=1), {"axis": 1}, lambda m, n: (m,), 1),
    ("transpose", lambda x: x.T, {}, lambda m, n: (n, m), 0),
)


def _rows(draw: Draw, row: Rows, quick: bool, far: bool = False) -> Case:
    op, reference, params, result, flops = row
    m, n = draw.size(1, 3000), draw.size(3, 3000)
    shape = (draw.size(*FAR) // n, n) if far else (m, n)
    return Case(
        "drawn",
        f"{op} {'x'.join(map(str, shape))}",
        op,
        (Argument("x", shape),),
        Argument("y", result(*shape)),
        reference,
        flops=flops * math.prod(shape),
        params=params,
        tolerance=1e-4,
        quick=quick,
    )


def _contraction(draw: Draw, quick: bool) -> Case:
    """A sum of products over one or two axes, of axes in any order: one or two of each operand alone, and one
    of both or none."""
    letters = iter("abcdefg")
    both, rows, columns, sums = ([next(letters) for _ in range(draw.of(*n))] for n in ((0, 1), *[(1, 2)] * 3))
    sizes = {c: draw.size(2, 10) for c in both}
    for group in (rows, columns, sums):
        few = draw.size(2, 16) if len(group) == 2 else 1
        sizes |= zip(group, draw.order([few, max(2, draw.size(16, 300) // few)][-len(group) :]), strict=True)
    a, b, c = (draw.order(both + group) for group in (rows + sums, columns + sums, rows + columns))
    subscripts = f"{''.join(a)},{''.join(b)}->{''.join(c)}"
    return Case(
        "drawn",
        f"{subscripts} {'x'.join(str(sizes[k]) for k in sorted(sizes))}",
        "einsum",
        tuple(Argument(n, tuple(sizes[k] for k in axes)) for n, axes in (("a", a), ("b", b))),
        Argument("c", tuple(sizes[k] for k in c)),
        lambda x, y: np.einsum(subscripts, x, y, optimize=True),
        flops=2 * math.prod(sizes.values()),
        params={"subscripts": subscripts},
        quick=quick,
    )


def cases(seed: int = 0) -> list[Case]:
    """Different cases for different seeds, and the same for the same."""
    draw, found = Draw(seed), []
    others, far = Draw(~seed & 0xFFFFFFFF), Draw((seed ^ 0x5A5A5A5A) & 0xFFFFFFFF)
    for n in range(EACH):
        for packed in (False, True):
            found += [make(draw, packed, n == 0) for make in (_product, _convolution, _depthwise)]
        found.append(_attention(draw, n == 0))
        found += [_rows(draw, row, n == 0) for row in OVER_ROWS]
        found += [_contraction(others, n == 0) for _ in range(2)]
        found += [_rows(far, row, False, far=True) for row in OVER_ROWS]
    return list({(c.name, c.weights): c for c in found}.values())
