"""How blocks of columns are shared out, and that a product's tile is one for what its threads share."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.recipes.column_blocks import block_of, shared_panels


def test_the_thread_with_the_most_blocks_counts() -> None:
    assert block_of(320, 64, 256, 2) == 3 and shared_panels(5, 3, 2) == pytest.approx(3.06)
    assert block_of(320, 32, 256, 2) == 5 and shared_panels(10, 5, 2) == pytest.approx(5.06)
    assert block_of(64, 64, 256, 2) is None and shared_panels(1, None, 2) == pytest.approx(1.06)


def test_threads_that_share_columns_out_have_as_many_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile that was chosen for shares of rows left five panels for two threads, which shared columns out: 200 ×
    1280 × 320 took 1.25 times as long."""
    monkeypatch.delenv("TENSORLANG_COST")  # with the table that Zen 4 has
    x, w = te.placeholder((200, 1280), name="x"), te.placeholder((1280, 320), name="w")
    y = ops.matmul(x, w)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"
    tree = str(default_schedule(y, target, constants=[w]).tree())
    (panels,) = re.findall(r"storage w\.global +float32\[(\d+), 1280, \d+\]", tree)
    assert int(panels) % 2 == 0, tree
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype("float32") for s in ((200, 1280), (1280, 320)))
    assert np.array_equal(tl.compile([x, y], constants={w: b})(a), a @ b)
