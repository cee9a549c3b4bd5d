"""Sums of products of 8-bit integers of one sign, int8 by int8 or uint8 by uint8, by those of both, which
processors sum in fours: one operand is 128 more (or less), and 128 times sums of the other is taken away. The
same in int32, to the last bit. Knows te; not where it pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.dtype import dtype
from ..core.node import intern
from ..expr import make
from ..expr.nodes import Cast, Expr, Mul
from ..expr.walk import rewrite, variables
from .axis import IterVar
from .compute import LINES, compute
from .patterns import narrow_product
from .reducers import Reduce
from .sums_apart import sum_of
from .tensor import ComputeOp, Tensor, TensorRead

OTHER = {"int8": "uint8", "uint8": "int8"}
HALF = 128


@dataclass(frozen=True, slots=True)
class OneSign:
    """A sum of products of two operands of 8 bits and one sign: ``turned`` is read as the other sign, sums of
    ``beside``, which every term of the sum reads elsewhere, are over all the axes of the sum, for each of
    ``axes``, those of the result that it depends on."""

    turned: TensorRead
    beside: TensorRead
    axes: tuple[IterVar, ...]


def one_sign_of(op: ComputeOp, tensor: Tensor) -> OneSign | None:
    """The operands of a sum of products of 8-bit integers that are both signed or both unsigned, of which
    ``tensor`` may be turned to the other sign; None for all else."""
    first = op.body[0] if len(op.body) == 1 else None
    if not narrow_product(op) or type(first) is not Reduce or first.condition is not None:
        return None
    product = first.sources[0]
    if first.init is not None or type(product) is not Mul:
        return None
    reads = [e.a for e in (product.a, product.b) if type(e) is Cast and type(e.a) is TensorRead]
    mine = [e for e in reads if e.tensor is tensor]
    others = [e for e in reads if e.tensor is not tensor]
    if (
        len(mine) != 1
        or len(others) != 1
        or others[0].dtype != tensor.dtype
        or tensor.dtype.name not in OTHER
    ):
        return None
    used = {v for i in others[0].indices for v in variables(i)}
    if not all(a.var in used for a in op.reduce_axis):
        return None
    return OneSign(mine[0], others[0], tuple(a for a in op.axis if a.var in used))


def turned(
    op: ComputeOp, found: OneSign, named: Callable[[str], str], known: Tensor | None = None
) -> tuple[list[ComputeOp], Expr]:
    """The definitions in front of ``op`` and what it is of them: the operand of the other sign, sums of the
    other operand, unless they are ``known``, and the products. ``named`` gives each the name that it gets for
    the one it asks for."""
    other = OTHER[found.turned.dtype.name]
    half = HALF if other == "uint8" else -HALF
    # 128 more or less is the same bits but for the highest
    more, high = make.const(half, "int32"), make.const(half, dtype(other))
    given = found.turned.tensor
    turns = lambda *i: make.cast(other, given(*i)) ^ high
    shifted: Tensor = compute(given.shape, turns, name=named(f"{op.name}.{other}"), tag=LINES)

    one = make.cast("int32", found.beside)
    sums: Tensor
    if known is None:
        shape = tuple(a.extent for a in found.axes)
        sums = compute(shape, lambda *at: sum_of(op, one, found.axes, at), name=named(f"{op.name}.sums"))
    else:
        sums = known
    read = intern(TensorRead, shifted, found.turned.indices)
    instead: dict[Expr, Expr] = {found.turned: read}
    first = op.body[0]
    assert isinstance(first, Reduce)
    product = rewrite(first.sources[0], instead.get)
    axes = tuple(op.axis)
    products: Tensor = compute(
        tuple(a.extent for a in axes),
        lambda *at: sum_of(op, product, axes, at),
        name=named(f"{op.name}.products"),
        tag=op.tag,
    )
    less = make.mul(sums(*(a.var for a in found.axes)), more)
    body = make.sub(products(*(a.var for a in axes)), less)
    made = (shifted, sums, products) if known is None else (shifted, products)
    return [t.op for t in made if isinstance(t.op, ComputeOp)], body
