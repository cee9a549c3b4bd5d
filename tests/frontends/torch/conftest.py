"""What tests of compiled functions begin with. Knows torch when a test asks, for these files are collected where
it is not installed too."""

from __future__ import annotations

import pytest


@pytest.fixture
def fresh():
    """Nothing was compiled, and random numbers are the same each time."""
    import torch

    import tensorlang.torch as tlt

    torch._dynamo.reset()
    tlt.reset()
    torch.manual_seed(0)
