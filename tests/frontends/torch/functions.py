"""Functions of torch as modules, and their results beside ours. Knows torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f = f

    def forward(self, *args: Any) -> Any:
        return self.f(*args)


def beside(ours: Any, theirs: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each result with torch's, of the same dtype and shape."""
    ours = ours if isinstance(ours, tuple | list) else [ours]
    for a, b in zip(ours, [t.numpy() for t in tree_leaves(theirs)], strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        yield a, b
