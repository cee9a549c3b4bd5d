"""Recurrent layers stay whole, and give what torch gives."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "how", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}], ids=str
)
def test_layers(kind, how):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = getattr(torch.nn, kind)(6, 8, **how)

        def forward(self, x):
            return self.layers(x)

    model, x = Layers().eval(), torch.randn(5, 3, 6)
    graph = tl.load_torch(torch.export.export(model, (x,)))
    assert len(graph.nodes) <= 14
    ours = graph.compile()(x.numpy())
    with torch.no_grad():
        y, state = model(x)
    theirs = [y, *(state if kind == "LSTM" else [state])]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)
