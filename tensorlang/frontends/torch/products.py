"""ATen's matrix products. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...te import Tensor
from ..words import times
from .elementwise import mul
from .table import aten, needs
from .types import as_type, is_just, rounded_once


@aten("mm", "bmm", "matmul", "mv", "dot")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return _narrow(ops.matmul(a, b), a)


def _narrow(y: Tensor, x: Tensor) -> Tensor:
    """A sum of products of whole numbers in their own type, in which torch lets it come round."""
    return as_type(y, x.dtype) if x.dtype.is_int else y


@aten("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Of 16-bit floats the bias is added before the sum is rounded."""
    wide = "float32" if bias is not None and x.dtype.is_float and x.dtype.bits == 16 else None
    if x.ndim == 1:
        y = ops.squeeze(ops.matmul(ops.expand_dims(x, (0,)), weight, False, True, wide), (0,))
    else:
        y = ops.matmul(x, weight, False, weight.ndim == 2, wide)
    return _narrow(y, x) if bias is None else as_type(ops.add(y, as_type(bias, y.dtype)), x.dtype)


@aten("addmm", "baddbmm", "addmv")
@rounded_once
def addmm(x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    y = times(matmul(a, b), alpha)
    # torch does not read x for a beta of 0: NaN in it stays out
    return y if is_just(beta, 0) else ops.add(y, times(x, beta))


@aten("einsum")
def einsum(equation: str, tensors: Sequence[Tensor], path: Any = None) -> Tensor:
    """Two operands at a time: from the left, or in the order of the ``path`` that torch has chosen."""
    y = ops.einsum(equation, *tensors) if not path or "." in equation else _in_pairs(equation, tensors, path)
    return _narrow(y, tensors[0])


def _in_pairs(equation: str, tensors: Sequence[Tensor], path: Sequence[int]) -> Tensor:
    """The einsum of operands of which two at these places are taken at a time; their product is the last."""
    left, arrow, wanted = equation.replace(" ", "").partition("->")
    if not arrow:
        wanted = "".join(sorted(c for c in left if c != "," and left.count(c) == 1))
    given = list(zip(left.split(","), tensors, strict=True))
    for i, j in zip(path[::2], path[1::2], strict=True):
        (first, a), (second, b) = given[i], given[j]
        given = [g for k, g in enumerate(given) if k not in (i, j)]
        later = {*wanted}.union(*(labels for labels, _ in given))
        made = "".join(c for c in dict.fromkeys(first + second) if c in later) if given else wanted
        given.append((made, ops.einsum(f"{first},{second}->{made}", a, b)))
    return given[0][1]


@aten("_trilinear")
def trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    summed: Sequence[int],
    unroll: int = 1,
) -> Tensor:
    """The sum over the dimensions ``summed`` of the product of all three, each with a dimension of one more
    at every place of its list: ``nn.Bilinear``."""
    dims = range(a.ndim + len(expand_a))
    own = [[d for d in dims if d not in more] for more in (expand_a, expand_b, expand_c)]
    left = [d for d in dims if d not in summed]
    kept = [d for d in dims if d in own[0] + own[1] and (d in left or d in own[2])]
    # two at a time: the first product is one of matrices
    return _contracted(_contracted(a, own[0], b, own[1], kept), kept, c, own[2], left)


def _contracted(a: Tensor, own: list[int], b: Tensor, other: list[int], kept: list[int]) -> Tensor:
    """The product of two tensors whose dimensions have numbers, summed over those that are not kept."""
    first, second, result = ("".join(chr(ord("a") + d) for d in dims) for dims in (own, other, kept))
    return ops.einsum(f"{first},{second}->{result}", a, b)


@aten("_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(
    a: Tensor, b: Tensor, ends: Tensor | None = None, bias: Tensor | None = None, kind: Any = None
) -> Tensor:
    """Products of groups, of which ``ends`` tells where each ends: in the rows of ``a``, in the columns of
    ``b``, or where both are matrices in what is summed."""
    needs(bias is None, "a bias of grouped products")
    if ends is None:
        return ops.matmul(a, b, out_dtype=kind)
    if b.ndim == 3:
        return ops.grouped_matmul(a, b, ends, kind)
    if a.ndim == 3:
        turned = ops.grouped_matmul(ops.transpose(b), ops.transpose(a, (0, 2, 1)), ends, kind)
        return ops.transpose(turned)
    return _sums_of_groups(a, b, ends, kind)


def _sums_of_groups(a: Tensor, b: Tensor, ends: Tensor, kind: Any) -> Tensor:
    """The product of matrices for each group of what is summed: the gradient of a group's matrix."""
    wide = "float32" if a.dtype.bits == 16 else a.dtype
    end = lambda g: te.cast("int32", ends(g))
    begin = te.compute(ends.shape, lambda g: te.if_then_else(g > 0, end(te.max(g - 1, 0)), 0), name="begin")

    def element(g: Any, i: Any, j: Any) -> Any:
        k = te.reduce_axis((0, a.shape[1]), "k")
        inside = te.all(begin(g) <= te.cast("int32", k), te.cast("int32", k) < end(g))
        return te.sum(te.cast(wide, a(i, k)) * te.cast(wide, b(k, j)), axis=k, where=inside)

    total = te.compute((ends.shape[0], a.shape[0], b.shape[1]), element, name="grouped_mm")
    return as_type(total, kind or a.dtype)


@aten("outer")
def outer(a: Tensor, b: Tensor) -> Tensor:
    return mul(ops.expand_dims(a, (1,)), ops.expand_dims(b, (0,)))


@aten("_int_mm")
def int_mm(a: Tensor, b: Tensor) -> Tensor:
    """Of small whole numbers, summed in 32 bits."""
    return ops.matmul(a, b, out_dtype="int32")
