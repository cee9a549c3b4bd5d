"""Convolutions of images of four short rows: register tiles of outputs × vectors of a whole image, whose
weight is read where it lies.

A row fills a quarter of a vector, so that vectors of a row, and of rows with their margins, are mostly
empty, and vectors of outputs want a packed weight: more work than the sums where it comes with the call. A
packed one is as good where outputs fill vectors. Measured (Zen 4, one thread and two, 3×3 and 5×5 of 4 × 4
pixels): 76 drawn shapes at the call 0.75 and 0.60 of the time, none slower; packed, of outputs that leave a
rest of a vector, 0.84 and 0.7. Rows of half a vector take 0.6 to 1.7, those of an eighth up to 4. Uses public
primitives only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import conv_of, made_of_place
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from . import whole_rows
from .common import is_known
from .tiles import register_tiles

ROWS = 4  # of an image that fill a vector
LEAST = 4  # pixels of a row


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` is a convolution without a stride of such images, of several taps."""
    conv = conv_of(inside.op)
    if conv is None or len(conv.sizes) != 2 or conv.groups > 1 or conv.pointwise or max(conv.strides) > 1:
        return False
    lanes, (rows, row) = target.vector_lanes(inside.op.body[0].dtype), conv.sizes
    if row < LEAST or ROWS * row != lanes or rows % ROWS or made_of_place(inside.op):
        return False
    if is_known(conv.weight, constants) and conv.each % lanes == 0:
        return False
    if conv.each <= lanes and (conv.images or 1) < target.num_cores:
        return False  # one tile has all outputs, and nothing is left to share out
    return whole_rows.rows_of(inside, target) is not None


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute the convolution ``inside`` in register tiles of ``out``."""
    register_tiles(s, out, inside, target)
