"""Libraries beside what a search finds: that each computes the task, and the table."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from benchmarks.autosched import libraries
from benchmarks.autosched.ansor_suite import TASKS
from benchmarks.autosched.suites import declared


def test_torch_computes_every_task() -> None:
    torch = pytest.importorskip("torch")
    functions = libraries.functions()
    assert list(functions) == list(TASKS)
    rng = np.random.default_rng(0)
    for name in ("CAP", "conv bn relu", "NRM"):
        tensors = declared(name)
        values = [rng.random([int(str(e)) for e in t.shape], dtype=np.float32) for t in tensors[:-1]]
        got = functions[name](*map(torch.from_numpy, values)).numpy()
        np.testing.assert_allclose(got, tl.compile(tensors)(*values), rtol=1e-3, atol=1e-3)


def test_the_table_has_the_best_library_and_what_was_refused() -> None:
    entry = {"program": "GMM", "median": {"tuned": 8e-5}, "failed": {"openvino": "no"}}
    text = libraries.table([{**entry, "ratio": {"torch": 1.5, "inductor": 1.8, "onnxruntime": 1.2}}])
    assert text.splitlines()[1].split() == ["GMM", "80", "1.00", "1.50", "1.80", "1.20", "–", "1.20"]
    assert text.endswith("geometric mean of 1: 1.20, least 1.20\nGMM: openvino: no")
