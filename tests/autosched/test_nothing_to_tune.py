"""Computations of which a search can decide nothing: numbers by themselves, arrays of no elements, programs of loops.
Who tunes them gets the default schedule, which gained nothing, and is told so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import Measurer
from tensorlang import ops, te

from .workloads import Pretend, matmul, scale


def number() -> list[te.Tensor]:
    x = te.placeholder((), name="x")
    return [x, te.compute((), lambda: x[()] * 2.0, name="twice")]


def no_rows() -> list[te.Tensor]:
    x = te.placeholder((0, 5), name="x")
    return [x, te.compute((0, 5), lambda i, j: x[i, j] + 1.0, name="more")]


def sums_of_nothing() -> list[te.Tensor]:
    x, k = te.placeholder((4, 0), name="x"), te.reduce_axis((0, 0), "k")
    return [x, te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="zeros")]


def sorted_rows() -> list[te.Tensor]:
    x = te.placeholder((16, 33), name="x")
    return [x, ops.sort(x, axis=1)]


CASES = [number, no_rows, sums_of_nothing, sorted_rows]


@pytest.mark.parametrize("make", CASES)
def test_the_default_schedule_is_measured_and_kept(
    make: Callable[[], list[te.Tensor]], tmp_path: Path
) -> None:
    tensors, records = make(), tmp_path / "records.jsonl"
    task = SearchTask.of(tensors)
    with Measurer() as measurer:
        result = tune(task, trials=8, records=records, measurer=measurer, progress=False)
    assert (result.trials, result.gain, result.failures) == (1, 1.0, {})
    assert any(n.startswith("nothing to tune: ") and "default schedule" in n for n in result.notes)
    said = f"{result}\n{result.report()}"
    assert "1.00× as fast" in said and "side by side" not in str(result) and "cost model" not in said
    again = tune(task, trials=8, records=records, measurer=Pretend(), progress=False)
    assert again.measured == 0 and again.best == result.best
    shape = [int(str(n)) for n in tensors[0].shape]
    x = np.array(np.random.default_rng(0).random(shape), "float32")
    (right,) = te.reference.evaluate(tensors[1:], {tensors[0]: x})
    kernels = [tl.build(*task.apply_best(records)), autosched.compile(tensors), autosched.compile(make())]
    for f in kernels:
        assert np.array_equal(f(x), right)


def test_beside_others_it_is_a_task_like_them() -> None:
    tasks = [SearchTask.of(number()), SearchTask.of(scale(64))]
    found = autosched.tune_tasks(
        tasks, trials=12, batch=4, measurer=Pretend(), model="random", progress=False
    )
    assert found.results[0] is not None and found.results[0].trials == 1
    assert "all 1 candidates were measured" in found.closed[0]


def test_a_piece_of_a_program_is_left_out() -> None:
    """Its default schedule is what the whole begins with: it is worth no trial."""
    (a, b, c) = matmul(24, 32, 40)
    first = ops.sort(c, axis=1)
    w = te.placeholder((32, 16), name="w")
    task = SearchTask.of(
        [a, b, w, ops.matmul(ops.matmul(first, w), te.compute((16, 8), lambda i, j: w[i, j]))]
    )
    result = tune(task, trials=12, measurer=Pretend(), model="random", progress=False)
    assert result.best is not None and result.trials >= 12
