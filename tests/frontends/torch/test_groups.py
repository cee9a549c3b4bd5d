"""Products of groups, as mixtures of experts have them, against eager."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")


def bits(x):
    """As numpy has it: torch gives no array of bfloat16."""
    return (
        x.contiguous().view(torch.int16).numpy().view("bfloat16") if x.dtype == torch.bfloat16 else x.numpy()
    )


class Grouped(torch.nn.Module):
    def forward(self, a, b, ends):
        return torch._grouped_mm(a, b, ends)


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="torch has no such product")
@pytest.mark.parametrize("where", ["rows", "columns", "sums", "none"])
def test_groups_in_each_place(where):
    torch.manual_seed(0)
    x, w, y = (torch.randint(-4, 5, s).to(torch.bfloat16) for s in ((24, 16), (3, 16, 32), (24, 32)))
    ends = None if where == "none" else torch.tensor([8, 8, 24], dtype=torch.int32)
    turned = w.transpose(1, 2).contiguous()
    args = {"rows": (x, w), "columns": (turned, x.t()), "sums": (x.t(), y), "none": (turned, w)}[where]
    want = Grouped()(*args, ends)
    engine = tl.load_torch(torch.export.export(Grouped(), (*args, ends))).compile()
    made = engine(*(bits(v) for v in (*args, ends) if v is not None))
    assert np.array_equal(np.asarray(made, "float32"), want.float().numpy())


def test_mixtures_of_experts_are_one_engine():
    """transformers has an operator of its own for the products of chosen experts."""
    transformers = pytest.importorskip("transformers")
    config = transformers.MixtralConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=48,
        num_local_experts=4,
        use_cache=False,
    )
    torch.manual_seed(0)
    model = transformers.MixtralModel(config).eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids):
            return self.model(ids).last_hidden_state

    shapes = ({0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", min=2, max=64)},)
    ids = torch.randint(0, 50, (2, 9))
    engine = tl.load_torch(torch.export.export(Hidden(), (ids,), dynamic_shapes=shapes)).compile()
    for n, length in ((2, 9), (1, 2), (3, 20)):
        ids = torch.randint(0, 50, (n, length))
        with torch.no_grad():
            np.testing.assert_allclose(engine(ids.numpy()), Hidden()(ids).numpy(), rtol=1e-4, atol=1e-5)
