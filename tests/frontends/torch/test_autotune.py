"""Functions that tune themselves take tensors of torch, and give them."""

from __future__ import annotations

import pytest

import autosched
from tensorlang import te
from tensorlang.errors import CallError

torch = pytest.importorskip("torch")


def test_autotune_takes_tensors(tmp_path):
    @autosched.autotune(trials=1, cache=tmp_path)
    def twice(x):
        return te.compute(x.shape, lambda i, j: x[i, j] * 2, name="twice")

    x = torch.arange(6.0).reshape(2, 3).t()
    y = twice(x)
    assert isinstance(y, torch.Tensor) and torch.equal(y, x * 2)
    with pytest.raises(CallError, match="cannot be read as an array"):
        twice(torch.ones(2, 3, requires_grad=True))
