"""The table of pipelines beside Halide; Halide itself where ``AUTOSCHED_HALIDE`` says it is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from benchmarks.autosched import beside_halide as halide
from benchmarks.autosched.suites import SUITES, declared


def test_the_table_is_against_the_better_of_halides() -> None:
    times = {"default": 4e-4, "tuned": 2e-4, "Adams2019": 3e-4, "Mullapudi2016": 9e-4}
    entry = {"pipeline": "unsharp", "median": times}
    alone = {"pipeline": "harris", "median": {"default": 1e-4, "tuned": 1e-4}}
    lines = halide.table([entry, alone]).splitlines()
    assert lines[1].split() == ["unsharp", "400", "200", "300", "900", "1.50"]
    assert lines[2].split()[-3:] == ["–", "–", "–"] and lines[3] == "geometric mean of 1: 1.50, least 1.50"


@pytest.mark.skipif("AUTOSCHED_HALIDE" not in os.environ, reason="no environment with Halide is named")
@pytest.mark.parametrize("name", [*SUITES["images"], "GMM", "TBG", "C2D", "DEP", "conv 1x1", "SFM"])
def test_halide_computes_the_same(name: str, tmp_path: Path) -> None:
    tensors = declared(name)
    rng = np.random.default_rng(0)
    values = [rng.random([int(str(e)) for e in t.shape], dtype=np.float32) for t in tensors[:-1]]
    np.savez(tmp_path / "inputs.npz", *values)
    right = tl.compile(tensors)(*values)
    for scheduler in halide.SCHEDULERS:
        found = halide.asked(halide.default_python(), name, scheduler, 1, tmp_path, right)
        assert isinstance(found, float), found


def test_where_halide_is_missing_that_is_said(tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", np.zeros((4, 4), np.float32))
    found = halide.asked("/usr/bin/false", "unsharp", "Adams2019", 1, tmp_path, None)
    assert found == "no reason"
