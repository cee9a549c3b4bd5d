"""Files that version 0.1.0 wrote, one of each kind (``before``): they are taken and mean what they meant, or
are refused with the reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.records import load
from tensorlang import te

BEFORE = Path(__file__).parent / "before"
TARGET = "llvm -mcpu=x86-64 -num-cores=1"
HERE = tl.Target.host().triple.startswith("x86_64")
ON_X86 = pytest.mark.skipif(not HERE, reason="they hold code of x86-64")


def dense(m, n, k):
    X, W = te.placeholder((m, k), name="X"), te.placeholder((k, n), name="W")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), name="r")
    product = te.compute((m, n), lambda i, j: te.sum(X[i, r] * W[r, j], axis=r), name="product")
    return [X, W, bias, te.compute((m, n), lambda i, j: te.max(product[i, j] + bias[j], 0.0), name="out")]


@ON_X86
def test_records_replay_to_the_loops_they_were_measured_with():
    records, bad = load(BEFORE / "records.jsonl")
    assert len(records) == 3 and not bad
    task = autosched.SearchTask(dense, (24, 40, 16), target=TARGET)
    schedule, tensors = task.apply_best(BEFORE / "records.jsonl")
    assert (
        str(tl.lower(schedule, tensors, name="dense")).rstrip() == (BEFORE / "loops.txt").read_text().rstrip()
    )


def placed(name, tmp_path):
    """A file of before as its user has it: not for others to write, whatever the checkout says."""
    shutil.copyfile(BEFORE / name, tmp_path / name)
    (tmp_path / name).chmod(0o644)
    return tmp_path / name


@ON_X86
def test_a_saved_kernel_still_computes(tmp_path):
    f = tl.load(placed("dense.tl", tmp_path))
    x, w, b = (
        np.arange(np.prod(s)).reshape(s).astype("float32") % 7 - 3 for s in ((24, 16), (16, 40), (40,))
    )
    assert (f(x, w, b) == np.maximum(x @ w + b, 0)).all()


@ON_X86
def test_a_saved_dynamic_kernel_still_computes(tmp_path):
    f = autosched.DynamicKernel.load(placed("layer.dyn", tmp_path))
    w = np.arange(128, dtype="float32").reshape(16, 8)
    for m in (1, 5, 64):
        x = np.arange(m * 16).reshape(m, 16).astype("float32") % 5
        assert (f(x) == x @ w).all() and f.explain(m=m).chosen


@pytest.mark.parametrize("name", ["dense.tl", "layer.dyn"])
def test_a_version_that_is_not_known_is_refused_by_its_number(name, tmp_path):
    path = placed(name, tmp_path)
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first.rpartition(b" ")[0] + b" 99\n" + rest)
    with pytest.raises(tl.TensorLangError, match="version 99"):
        autosched.DynamicKernel.load(path) if name.endswith("dyn") else tl.load(path)


def test_records_and_traces_of_another_version_are_refused_by_its_number(tmp_path):
    line = json.loads((BEFORE / "records.jsonl").read_text().splitlines()[0])
    (tmp_path / "r").write_text(json.dumps({**line, "version": 99}) + "\n")
    records, bad = load(tmp_path / "r")
    assert not records and "version 99" in str(bad[0])
    with pytest.raises(tl.ScheduleError, match="version 99"):
        tl.Trace.from_json(json.dumps({**line["steps"], "version": 99}))
