"""The way back through bags of embeddings, in operators that regions take. Knows torch; no graphs.

Torch's own operators for it read what its forward operator tells of the bags besides their sums, in forms
that depend on how it computed them. Where bags begin says as much.
"""

from __future__ import annotations

from typing import Any

import torch

from .bags import MEAN, SUM

aten = torch.ops.aten


def _bag_of(indices: Any, offsets: Any) -> Any:
    """The number of the bag of each index: of several that begin at one place the last."""
    places = torch.arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
    return torch.searchsorted(offsets, places, right=True) - 1


def rows_backward(
    grad: Any,
    indices: Any,
    offsets: Any,
    bag_of: Any,
    sizes: Any,
    largest: Any,
    rows: int,
    by_count: bool,
    mode: int,
    sparse: bool,
    each: Any,
    padding: int = -1,
) -> Any:
    """The gradient of the table, ``aten._embedding_bag_backward``."""
    if sparse or mode not in (SUM, MEAN):
        return NotImplemented
    bags = _bag_of(indices, offsets)
    if mode == MEAN:
        counted = (indices != padding).to(grad.dtype)
        found = torch.zeros_like(grad[:, 0]).index_add(0, bags, counted)
        grad = grad / found.clamp(min=1)[:, None]
    made = grad.index_select(0, bags)
    if each is not None:
        made = made * each[:, None]
    return aten.embedding_dense_backward(made, indices, rows, padding, by_count)


def factors_backward(
    grad: Any, table: Any, indices: Any, offsets: Any, bag_of: Any, mode: int, padding: int = -1
) -> Any:
    """The gradient of what each row is multiplied with,
    ``aten._embedding_bag_per_sample_weights_backward``."""
    if mode != SUM:
        return NotImplemented
    made = (grad.index_select(0, _bag_of(indices, offsets)) * table.index_select(0, indices)).sum(1)
    return torch.where(indices == padding, torch.zeros_like(made), made)


DECOMPOSITIONS = {
    aten._embedding_bag_backward.default: rows_backward,
    aten._embedding_bag_per_sample_weights_backward.default: factors_backward,
}
