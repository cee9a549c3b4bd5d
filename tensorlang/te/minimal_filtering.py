"""Winograd's minimal filtering F(m×m, 3×3) by itself: the matrices, and one row of them times given elements.
After Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, equations 8 to 13.

With G, B and A of ``POINTS`` a tile of m × m outputs of a convolution by 3×3 kernels is Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d
B)]A. What declares such a convolution, and what rewrites one, are elsewhere; knows expressions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from ..core.dtype import DType
from ..expr import make
from ..expr.nodes import Expr

# tags of the stages that such a convolution is made of, whoever declares them: what depends on the weight
# only; the image, channels last, and its transform; the products, one for each point; the way back
WEIGHT_STAGE, DATA_STAGE = "winograd_weight", "winograd_data"
PRODUCT_STAGE, INVERSE_STAGE = "winograd_matmul", "winograd_inverse"
Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class Points:
    """The matrices of one F(m×m, 3×3), in the paper's letters: Bᵀ for data, G for the kernel, Aᵀ for the way
    back."""

    data: Matrix
    kernel: Matrix
    inverse: Matrix


def _matrix(text: str) -> Matrix:
    return tuple(tuple(Fraction(x) for x in row.split()) for row in text.split(","))


# the interpolation points 0, 1, -1 (2, -2) and infinity: larger tiles need others, whose powers lose too many
# bits of a float32
POINTS = {
    2: Points(
        _matrix("1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1"),
        _matrix("1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1"),
        _matrix("1 1 1 0, 0 1 -1 -1"),
    ),
    4: Points(
        _matrix("4 0 -5 0 1 0, 0 -4 -4 1 1 0, 0 4 -4 -1 1 0, 0 -2 -1 2 1 0, 0 2 -1 -2 1 0, 0 4 0 -5 0 1"),
        _matrix("1/4 0 0, -1/6 -1/6 -1/6, -1/6 1/6 -1/6, 1/24 1/12 1/6, 1/24 -1/12 1/6, 0 0 1"),
        _matrix("1 1 1 1 1 0, 0 1 -1 2 -2 0, 0 1 1 4 4 0, 0 1 -1 8 -8 1"),
    ),
}


def row(matrix: Matrix, index: Any, elements: Sequence[Expr]) -> Expr:
    """Row ``index`` of ``matrix`` times ``elements``: a choice of the rows written out, of which one is
    computed. When the loop over ``index`` is unrolled, only the sum is left."""
    t = elements[0].dtype

    def chosen(lo: int, hi: int) -> Expr:
        if hi - lo == 1:
            return _sum(matrix[lo], elements, t)
        middle = (lo + hi) // 2
        # halves: where the index is not a number yet, a lookup takes as few tests as there are bits in it
        return make.if_then_else(make.lt(make.as_expr(index), middle), chosen(lo, middle), chosen(middle, hi))

    return chosen(0, len(matrix))


def _sum(row: tuple[Fraction, ...], elements: Sequence[Expr], t: DType) -> Expr:
    total: Expr | None = None
    for place, factor in _factors(row):
        e, size = elements[place], abs(factor)
        term = e if size == 1 else make.mul(e, make.const(size, t))
        if total is None:
            total = term if factor > 0 else make.neg(term)
        else:
            total = make.add(total, term) if factor > 0 else make.sub(total, term)
    assert total is not None
    return total


@cache
def _factors(row: tuple[Fraction, ...]) -> list[tuple[int, float]]:
    """The places of a row that count, with what they count."""
    return [(place, float(factor)) for place, factor in enumerate(row) if factor]
