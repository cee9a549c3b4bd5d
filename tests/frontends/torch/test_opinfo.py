"""Torch's own samples (OpInfo) for the operators of the table, forward and backward: our te, evaluated by the numpy
reference, beside eager. The default run takes the first samples of some operators, ``-m fuzz`` all operators and
types; ``make test-torch`` runs them on engines."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from tensorlang.errors import DeclareError
from tensorlang.te import reference

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's tests need
from torch.utils._pytree import tree_leaves  # noqa: E402

from tensorlang.frontends.torch.importer import Importer  # noqa: E402
from tensorlang.frontends.torch.tensors import held, tensor_of  # noqa: E402

from . import opinfo  # noqa: E402
from .samples import TYPES, calls_of, close, graph_of, op_db, shown, takes, tolerances_of  # noqa: E402

KINDS = [getattr(torch, name) for name in TYPES.values()]
SOME = [
    "add",
    "clamp",
    "gather",
    "index_select",
    "mean",
    "nn.functional.layer_norm",
    "softmax",
    "std",
    "where",
]
MOST = 4000  # elements of a sample: the reference computes them one by one


def ours(f, args, kwargs, out):
    graph, tensors = graph_of(f, args, kwargs, out)
    importer = Importer("call", {})
    g = importer.load(graph)
    values = {v: held(tensors[i]) for v, i in zip(g.inputs, importer.inputs, strict=True)}
    for n in g.nodes:
        made = reference.evaluate(n.results, {v.tensor: values[v] for v in n.reads})
        values.update(zip(n.outputs, made, strict=True))
    return [tensor_of(np.array(values[v], order="C")) for v in g.outputs]


def compare(call, **tolerances):
    """Whether an operator gives what torch gives; None where it is not taken."""
    try:
        found = ours(*call)
    except DeclareError:  # runs in torch
        return None
    try:
        close(call, found, **tolerances)
    except AssertionError as error:
        raise AssertionError(f"{call[0]}{shown(call[1:3])}\n{error}") from None
    return True


def check(info, kind, samples, seen, backward=False, wrong=None):
    """Compare the calls that samples of an operator make; how many agree. Those that do not are put into
    ``wrong``."""
    agree = 0
    for sample in itertools.islice(info.sample_inputs("cpu", kind, requires_grad=backward), samples):
        try:
            calls = calls_of(info, sample, backward)
        except (AssertionError, RuntimeError, NotImplementedError, TypeError):  # samples that do not run here
            continue
        for call in calls:
            f = call[0]
            size = sum(t.numel() for t in tree_leaves(call[1:3]) if isinstance(t, torch.Tensor))
            if seen[f, kind] >= samples or size > MOST:
                continue
            seen[f, kind] += 1
            try:
                agree += compare(call, **tolerances_of(info, kind)) is True
            except AssertionError as error:
                if wrong is None:
                    raise
                wrong.append((str(f), str(kind), str(error)[:600]))
    return agree


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", SOME)
def test_samples_of_torchs_own_tests(name, backward):
    (info, *_) = [i for i in op_db if i.name == name]
    assert all(check(info, t, 3, Counter(), backward) for t in KINDS if takes(info, t, backward))


@pytest.mark.fuzz
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_samples_of_torchs_own_tests(kind, backward):
    seen, wrong, agree = Counter(), [], 0
    for info in op_db:
        if takes(info, kind, backward):
            agree += check(info, kind, 6, seen, backward, wrong)
    if agree:  # integers have no gradients
        assert len(wrong) < 0.01 * agree, wrong


def test_samples_on_engines_are_counted_and_run_once(tmp_path, monkeypatch, capsys):
    given = ["opinfo", "tanh", "bincount", "--types", "f32", "i64", "--out", str(tmp_path / "found.jsonl")]
    monkeypatch.setattr("sys.argv", given)
    opinfo.main()
    said = capsys.readouterr().out
    assert "f32 backward" in said and "100.00 %" in said and "wrong" not in said
    rows = opinfo.rows(tmp_path / "found.jsonl")
    assert {r["name"]: r["samples"] for r in rows if r["direction"] == "forward" and r["kind"] == "i64"} == {
        "tanh": {"equal": 1},
        "bincount": {"torch": 1},  # whose result has a size that nobody knows before
    }
    opinfo.main()
    assert (capsys.readouterr().out, opinfo.rows(tmp_path / "found.jsonl")) == (said, rows)
