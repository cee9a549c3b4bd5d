"""What the benchmark of the cost model says beside the model's figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from autosched import Record
from autosched.tuning.session import canonical_trace
from benchmarks.autosched import model
from tensorlang import te


def test_how_well_measurements_repeat(tmp_path: Path) -> None:
    """Of three processes one puts every other pair of neighbours in another order than the rest; in the table
    a figure that a row has not got is a dash."""
    steps = canonical_trace(tl.create_schedule([te.compute((8,), lambda i: i, name="x")]).trace)
    file = tmp_path / "f.jsonl"
    lines = []
    for n in range(40):
        other = 1.0 + 0.01 * (n ^ 1)
        r = Record("t", "llvm", steps, "ok", (1.0 + 0.01 * n, 1.0 + 0.01 * n, other), name="x")
        lines.append(r.to_json() + "\n")
    file.write_text("".join(lines))
    (found,) = model.ceiling(file)
    assert found["pairs after 0"] == pytest.approx(1 - 20 / 780 / 3) and found["over 25 %"] == 1.0
    assert found["0 to 2 %"] < found["2 to 5 %"] == 1.0
    row = {"task": "y", "held out": "kinds", "pairs after 0": 0.5, "pairs after 16": 0.75}
    assert "–" in model.table([row, found]) and "0.750" in model.table([row, found])


def test_pairs_count_by_how_far_they_are_apart() -> None:
    """Two that are hardly apart, in the wrong order, do not matter beside one that takes four times as long."""
    scores, seconds = np.array([1.0, 2.0, 0.0]), np.array([1.0, 1.02, 4.0])
    weighed = model._ranked(scores, seconds, 0)["weighed after 0"]
    assert 0.99 < weighed < 1.0 and model._ranked(-seconds, seconds, 0)["weighed after 0"] == 1.0
    assert model._ranked(np.zeros(3), seconds, 0)["weighed after 0"] == pytest.approx(0.5)
    assert model._ranked(scores, np.ones(3), 0)["weighed after 0"] == 1.0
