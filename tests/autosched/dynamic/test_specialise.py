"""A kernel and the tiers that look after it: one set of figures, one explanation, one who is responsible."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask, specialise
from tensorlang import te
from tests.autosched.dynamic.computations import FEW_TILES, dense, made, whole


def test_stats_and_explain_tell_of_the_tiers() -> None:
    w = whole(np.random.default_rng(0), 16, 68)
    args = (te.dim("m", 0, 64, multiple_of=4), 68, 16)
    f = made(
        dense, args, {"m": (1, 6, 30)}, constants={"W": w}
    )  # neither the most nor the expected size is a multiple
    task = SearchTask(dense, args, FEW_TILES)
    first = specialise(f, task, constants={"W": w})
    x = whole(np.random.default_rng(1), 8, 16)
    for _ in range(5):
        assert (f(x) == x @ w).all()
    stats = f.stats()  # nobody stepped since the calls: they count all the same
    assert (
        stats.calls == 5
        and stats.shapes == {(8,): 5}
        and stats.tiers is not None
        and stats.tiers.hits.total() == 5
    )
    text = str(stats)
    assert "hits, table" in text and "latency p50 / p90 / p99" in text and "slow calls" in text
    fixed = te.serialize.resized(task.tensors, {"m": 8})
    f.dispatcher.publish((8,), tl.compile(fixed, constants={fixed[1]: w}, name="special"))
    assert f.explain(m=8).tier == "specialised" and f.explain(m=12).tier == "table"
    second = specialise(f, task, constants={"W": w})
    assert f.tiers is second and (f(x) == x @ w).all()
    with pytest.raises(tl.TensorLangError, match="closed"):
        first.manager.makes.order(None)  # type: ignore[arg-type]
    second.stop()


def test_a_call_outside_of_the_profile_says_what_to_try() -> None:
    w = whole(np.random.default_rng(0), 16, 68)
    f = made(dense, (te.dim("m", 0, 4096), 68, 16), {"m": (1, 8)}, constants={"W": w})
    with pytest.raises(tl.CallError, match=r"(?s)m = 9.*it is m: 1 … 8.*generic"):
        f(np.zeros((9, 16), "float32"))
