"""Operators that ATen says by others, said here at once: where a program has none that has to be taken apart,
torch does not trace it a second time, which takes it longer than all that is done here. Knows ops.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops, te
from ...expr import make
from ...te import Tensor
from .elementwise import mul
from .index import from_start, index_copy
from .reduce import distances
from .table import aten, graph_op, known
from .types import floats, held, rounded_once


@aten("meshgrid", "meshgrid.indexing")
def meshgrid(tensors: Sequence[Tensor], indexing: str = "ij") -> Any:
    """Each of the vectors repeated along the others; with ``"xy"`` the first two have changed places."""
    sizes = [t.shape[0] if t.ndim else 1 for t in tensors]
    places = list(range(len(tensors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape: list[Any] = [sizes[p] for p in places]

    def along(t: Tensor, d: int) -> Any:
        return te.compute(shape, lambda *i: t(i[d]) if t.ndim else t(), name="meshgrid")

    return tuple(along(t, places.index(k)) for k, t in enumerate(tensors))


@aten("broadcast_tensors")
def broadcast_tensors(tensors: Sequence[Tensor]) -> Any:
    shape = te.whole.broadcast_shape("broadcast_tensors", tensors)
    return tuple(ops.broadcast_to(t, shape) for t in tensors)


@aten("cdist")
def cdist(x: Tensor, y: Tensor, order: float = 2, mode: int | None = None) -> Tensor:
    return distances(x, y, order, mode)


@graph_op("pdist", "_pdist_forward")
def pdist(g: Any, x: Any, order: float = 2) -> Any:
    """Of each row to those behind it, one after the other: of the distances of all from all, which are summed
    side by side. Measured (Zen 5): of 100 rows of 1000 0.13 of the time of differences of pairs."""
    n = known(x.shape[0], "the rows of distances")
    pairs = np.ravel_multi_index(np.triu_indices(n, 1), (n, n)).astype("int64")
    square = g(ops.reshape, g(distances, x, x, order=order), shape=(-1,))
    return g(ops.take, square, g.graph.constant(pairs), axis=0)


@aten("diag_embed")
def diag_embed(x: Tensor, offset: int = 0, a: int = -2, b: int = -1) -> Tensor:
    """Matrices of 0 with the last dimension on a diagonal."""
    rank = x.ndim + 1
    a, b = a % rank, b % rank
    down, right = max(0, -offset), max(0, offset)
    n = x.shape[-1] + abs(offset)
    shape = list(x.shape[:-1])
    for d in sorted((a, b)):
        shape.insert(d, n)

    def element(*i: Any) -> Any:
        at = [j for d, j in enumerate(i) if d not in (a, b)]
        own = te.max(te.min(i[a] - down, x.shape[-1] - 1), 0)
        # no place beyond the diagonal is asked for: of none there is no element
        on = te.all(make.eq(i[b] - i[a], right - down), i[a] >= down, i[b] >= right)
        return te.if_then_else(on, x(*at, own), te.const(0, x.dtype))

    return te.compute(shape, element, name="diag_embed")  # type: ignore[return-value]


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x: Tensor, dim: int, indices: Tensor, value: Any) -> Tensor:
    number = held(value, x.dtype)
    if not x.ndim:
        return ops.broadcast_to(number, x.shape)
    dim = dim % x.ndim
    count = indices.shape[0] if indices.ndim else 1
    values = te.compute([*x.shape[:dim], count, *x.shape[dim + 1 :]], lambda *i: number(), name="values")
    n = x.shape[dim]
    at = te.compute(
        (count,), lambda i: from_start(indices(i) if indices.ndim else indices(), n), name="places"
    )
    return index_copy(x, dim, at, values)


@aten("pixel_unshuffle")
def pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    *batch, c, h, w = x.shape
    rows, columns = te.floordiv(h, factor), te.floordiv(w, factor)
    inner = ops.reshape(x, (*batch, c, rows, factor, columns, factor))
    k = len(batch)
    moved = ops.transpose(inner, [*range(k), k, k + 2, k + 4, k + 1, k + 3])
    return ops.reshape(moved, (*batch, c * (factor * factor), rows, columns))


@aten("_weight_norm")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v`` with the lengths ``g`` along all dimensions but one."""
    return rounded_once(_with_length)(v, g, dim)


def _with_length(v: Tensor, g: Tensor, dim: int) -> Tensor:
    axes = tuple(d for d in range(v.ndim) if d != dim % v.ndim) if dim != -1 else tuple(range(v.ndim))
    return mul(v, ops.divide(g, ops.sqrt(ops.sum(ops.square(v), axes, keepdims=True))))


@aten("cosine_similarity")
def cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, least: float = 1e-8) -> Tensor:
    return rounded_once(_cosine)(floats(x), floats(y), dim, least)


def _cosine(x: Tensor, y: Tensor, dim: int, least: float) -> Tensor:
    x, y = broadcast_tensors([x, y])

    def along(t: Tensor) -> Tensor:
        length = ops.sqrt(ops.sum(ops.square(t), dim, keepdims=True))
        return ops.divide(t, ops.maximum(length, te.const(least, t.dtype)))

    return ops.sum(ops.multiply(along(x), along(y)), dim)


@graph_op("slogdet")
def slogdet(g: Any, x: Any) -> Any:
    both = functools.cache(lambda: g(ops.slogdet, x))
    return lambda: both()[0], lambda: both()[1]


@graph_op("hann_window")
def hann_window(g: Any, length: Any, kind: str | None = None) -> Any:
    return hann_window_of(g, length, True, kind)


@graph_op("hann_window.periodic")
def hann_window_of(g: Any, length: Any, periodic: bool = True, kind: str | None = None) -> Any:
    """Half a wave of the cosine, whose last element is that before the first where it is periodic."""
    n = known(length, "a window")
    around = n if periodic else max(n - 1, 1)
    wave = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / around) if n != 1 else np.ones(1)
    return g.graph.constant(wave.astype(kind if isinstance(kind, str) else "float32"))
