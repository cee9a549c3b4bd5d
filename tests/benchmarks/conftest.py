"""What a benchmark sets in torch for its own process ends with its module here. Inductor's freezing, for one,
keeps graphs of the tests behind it from being found again."""

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
