"""Operands of 8 and 16 bits whose products are summed in 32: which are made wider, and which multiplied in
pairs and fours. Knows products."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import Product
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import Tensor
from .choices import at_most
from .common import PACKED_ROWS, converts, is_known, share_out, size, together_of, work
from .lanes import in_vectors

# rows from which pairs of bfloat16 that lie column by column are put side by side, and the same for 8- and
# 16-bit integers. Measured (Zen 4, one thread, 512 × 512, 100 × 300, 1000 × 64, 768 × 3072), beside sums
# along memory: bfloat16, 8 rows 0.48 to 0.99, 48 0.37 to 0.56, 4 0.64 to 1.5; uint8 and int8, 4 rows 0.28 to
# 0.64, 15 0.14 to 0.26, 3 1.1 to 1.8; int16, 4 rows 0.58 to 0.94; int8, 4 rows 0.53 to 1.1, 8 0.41 to 0.79
PAIRS_PAY, PAIRED_ROWS = 8, 4
# rows from which a right operand that lies column by column is copied where the left one lies so that sums
# along memory would need a copy of that, for a vector of columns. Measured (Zen 5, one thread), batches of
# 50: 8 × 16 × 16 0.23 of the time of sums along memory, 4 × 16 × 16 0.33, 3 × 16 × 64 0.32, 8 × 7 × 30 0.11,
# 12 × 128 × 16 0.42, 4 × 512 × 40 1.0, 2 × 512 × 40 1.7, 8 × 512 × 5 1.6; one of 8 × 300 × 300 0.56. And
# where sums are of an open number of elements that a vector holds, all sizes from 2 to 15: of 3 rows 0.4 to
# 0.7 (16 × 3 1.35), of 5 0.24 to 0.46, of 15 0.1 to 0.2
FEW_ROWS = 3


def copied_across(inside: Stage, product: Product, target: Target) -> bool:
    """Whether rows are so many that a right operand which lies column by column is copied: a few, where
    products are summed in pairs or fours, and where sums along memory are dear."""
    paired = product.narrow and together_of(product.left, product.right, target) > 1
    fewest = PAIRED_ROWS if paired else PACKED_ROWS
    m = 1 if product.row is None else size(product.row)
    if m is not None:
        return m >= fewest or (m >= FEW_ROWS and not paired and _dear_along(inside, product, target))
    assert product.row is not None
    return not (paired and at_most(product.row.extent, fewest - 1))


def _dear_along(inside: Stage, product: Product, target: Target) -> bool:
    """Whether sums along memory would be mostly masked lanes, as a call tells, or need a copy of the left
    operand, whose rows are neighbours, and there may be a vector of columns."""
    n, k, lanes = size(product.column), inside.op.reduce_axis[-1], target.vector_lanes(product.right.dtype)
    if product.left_axes.get(k) == len(product.left.shape) - 1:
        return size(k) is None and target.has_masks and at_most(k.extent, lanes)
    row = product.left_axes.get(product.row) if product.row is not None else None
    return row == len(product.left.shape) - 1 and (n is None or n >= lanes)


def wide_copies(
    s: Schedule, inside: Stage, constants: Sequence[Tensor], target: Target, but: Tensor | None = None
) -> None:
    """Let a reduction whose recipe uses elements one by one, and has no place where many of them are made
    wide together, read copies in the type of its sums: of narrower constants, which are computed ahead and
    cost the memory and no time, and of halves, whose conversion takes three instructions, ``but`` one that is
    read in vectors."""
    for t in dict.fromkeys(inside.op.input_tensors):
        known = is_known(t, constants)
        if not _is_narrower(inside, t) or not (known or (t.dtype.is_float and t is not but)):
            continue
        copy = s[s.cache_read(t, "global", [inside.name], inside.op.body[0].dtype.name)]
        if not known:
            row = in_vectors(copy, target)
            share_out(copy, [copy.op.axis[0] if len(copy.op.axis) > 1 else row], work(copy), target)


def halves(inside: Stage, product: Product) -> bool:
    """Whether products of bfloat16 are summed in float32."""
    return all(t.dtype == "bfloat16" and widens(inside, t) for t in (product.left, product.right))


def widens(inside: Stage, tensor: Tensor) -> bool:
    """Whether an operand of 16-bit floats is summed in float32. A copy of it is of that type: converted once
    by whole vectors, and not at every use, where one element of the left operand takes three instructions in
    the place of a load."""
    return tensor.dtype.is_float and tensor.dtype.bits == 16 and inside.op.body[0].dtype.name == "float32"


def made_wide(inside: Stage, image: Tensor, weight: Tensor, together: int) -> str:
    """The type of a copy of the image of a convolution, whose elements are used one by one, "" for its own:
    an instruction that sums pairs takes no bytes, and one by one they are converted at every use."""
    if together > 1:
        return "int16" if together == 2 and 8 in (image.dtype.bits, weight.dtype.bits) else ""
    kind = inside.op.body[0].dtype
    return kind.name if kind.is_float and _is_narrower(inside, image) else ""


def held_narrow(inside: Stage, tensor: Tensor, constants: Sequence[Tensor], target: Target) -> bool:
    """Whether an operand is a constant of a narrower type than the sum's, which holds its values."""
    narrow = inside.op.body[0].dtype.is_float and _is_narrower(inside, tensor)
    return is_known(tensor, constants) and narrow and converts(tensor, target)


def _is_narrower(inside: Stage, tensor: Tensor) -> bool:
    """Whether an operand is of another type than the sums, which holds its values."""
    kind = inside.op.body[0].dtype
    return tensor.dtype != kind and kind.holds(tensor.dtype)
