"""Schedules of a search in whole models: replayed where a kernel computes what was searched."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.maker import schedules, tune
from tensorlang import ops, te
from tensorlang.graph import makers


def product(m, k, n):
    x, w = te.placeholder((m, k), name="left"), te.placeholder((k, n), name="right")
    return [x, w, ops.matmul(x, w)]


@pytest.fixture(scope="module")
def task():
    return autosched.SearchTask(product, (6, 8, 16))


@pytest.fixture(scope="module")
def record(task):
    """A measurement made up: the columns in vectors, the rows from the last to the first in pairs."""
    s = task.schedule()
    (out,) = task.outputs
    row, column = s[out].op.axis
    outer, inner = s[out].split(row, factor=2)
    s[out].reorder(inner, outer, column)
    return autosched.Record(
        task.workload_key, str(task.target), s.trace.to_json(), "ok", (1e-6,) * 8, names=task.names
    )


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(makers, "installed", lambda: [schedules])


def test_a_kernel_takes_the_schedule_that_was_found(known, record, tmp_path):
    log = autosched.RecordLog(tmp_path / "found.jsonl")
    log.append(record)
    rng = np.random.default_rng(0)
    w = rng.integers(-2, 3, (8, 16)).astype("float32")
    g = tl.Graph()
    x = g.input(("n", 8), "float32", "x")
    ones = np.ones((16, 4), "float32")
    g.output(g.call(ops.matmul, g.call(ops.matmul, x, g.constant(w)), g.constant(ones)))
    a = rng.integers(-2, 3, (6, 8)).astype("float32")
    engine = g.compile(profile={"n": 6}, records=log.path, cache=False, workers=1)
    assert np.array_equal(engine(a), a @ w @ ones)
    assert engine.explain().count("its schedule was found by a search") == 1
    other = g.compile(profile={"n": 6}, cache=False, workers=1)
    assert [c.symbol for c in engine.codes][1:] == [c.symbol for c in other.codes][1:]
    assert engine.codes[0].symbol != other.codes[0].symbol
    assert "found by a search" not in g.compile(records=log.path, cache=False, workers=1).explain()


def test_records_that_nobody_reads(monkeypatch):
    monkeypatch.setattr(makers, "installed", list)
    g = tl.Graph()
    g.output(g.call(ops.relu, g.input((2,), "float32", "x")))
    with pytest.raises(tl.TensorLangError, match="no reader of records is installed"):
        g.compile(records="found.jsonl")


def test_records_that_are_not_there(known, tmp_path):
    g = tl.Graph()
    g.output(g.call(ops.relu, g.input((2,), "float32", "x")))
    with pytest.raises(tl.TensorLangError, match="cannot read records"):
        g.compile(records=tmp_path / "none.jsonl")


def test_the_package_offers_its_search():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    points = project["project"]["entry-points"]
    assert points[makers.GROUP] == {"autosched": "autosched.maker:schedules"}
    assert points[makers.TUNERS] == {"autosched": "autosched.maker:tune"}


def test_a_graph_is_tuned_once_for_kernels_that_are_alike(known, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(makers, "tuners", lambda: [lambda *args: (asked.append(args), tune(*args))])
    g = tl.Graph()
    x = g.input(("n", 8), "float32", "x")
    w = np.ones((8, 8), "float32")
    g.output(g.call(ops.matmul, g.call(ops.matmul, x, g.constant(w)), g.constant(w)))
    path = tmp_path / "found.jsonl"
    g.tune(path, 2, profile={"n": 6})
    ((tasks, _, _, trials, progress),) = asked
    assert [count for _, count in tasks] == [2] and trials == 2 and progress is False
    found, bad = autosched.records.load(path)
    assert len(found) >= 2 and not bad  # the fastest are measured again
    assert {r.task for r in found} == {autosched.SearchTask.of(tasks[0][0]).workload_key}


def test_a_graph_where_nobody_searches(monkeypatch, tmp_path):
    monkeypatch.setattr(makers, "tuners", list)
    g = tl.Graph()
    g.output(g.call(ops.relu, g.input((2,), "float32", "x")))
    with pytest.raises(tl.TensorLangError, match="no tuner is installed"):
        g.tune(tmp_path / "found.jsonl")
