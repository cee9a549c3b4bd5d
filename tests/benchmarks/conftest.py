"""What a benchmark sets for its own process, such as torch without gradients, ends with its module here: graphs
of tests behind it are not found again otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def torch_as_it_was() -> Iterator[None]:
    yield
    torch, inductor = sys.modules.get("torch"), sys.modules.get("torch._inductor.config")
    if torch is not None:
        torch.set_grad_enabled(True)
    if inductor is not None:
        inductor.freezing = False  # type: ignore[attr-defined]
