"""Schedules without a measurement: right, the same every time, the default one where nothing promises more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched import SearchTask, guess
from autosched.measure import Measurer
from tensorlang import ops, recipes, te
from tensorlang.errors import TensorLangError

from .workloads import matmul


@pytest.fixture(autouse=True)
def _nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measurer, "start", lambda self: pytest.fail("a guess measures nothing"))


def _chain() -> list[te.Tensor]:
    x, w1, w2 = (te.placeholder((48, 48), name=n) for n in ("x", "w1", "w2"))
    return [x, w1, w2, ops.matmul(ops.relu(ops.matmul(x, w1)), w2)]


def _ints(t: te.Tensor) -> np.ndarray:
    return np.random.default_rng(3).integers(-3, 4, [int(str(n)) for n in t.shape]).astype("float32")


@pytest.mark.parametrize("promise", [-1e9, 1e9], ids=["a guess", "the default"])
def test_a_guess_is_right_and_the_same_every_time(monkeypatch: pytest.MonkeyPatch, promise: float) -> None:
    monkeypatch.setattr(guess, "CLEARLY", promise)
    for tensors in ([*matmul(40, 33, 24)], _chain()):
        task = SearchTask.of(tensors)
        s = autosched.best_guess(task, seed=4)
        assert s.trace == autosched.best_guess(task, seed=4).trace
        values = [_ints(t) for t in tensors if isinstance(t.op, te.PlaceholderOp)]
        want = tl.compile(tensors)(*values)
        assert (tl.build(s, tensors)(*values) == want).all()
        default = recipes.default_schedule([tensors[-1]]).trace
        assert (s.trace == default) == (promise > 0)


@pytest.mark.parametrize(
    ("left", "right", "sum_"), [("uint8", "int8", "int32"), ("bfloat16",) * 2 + ("float32",)]
)
def test_a_guess_leaves_products_that_are_summed_several_at_a_time(
    monkeypatch: pytest.MonkeyPatch, left: str, right: str, sum_: str
) -> None:
    """The analysis counts each product, and promised half of the time of what took a quarter."""
    monkeypatch.setattr(guess, "CLEARLY", -1e9)
    x, w = te.placeholder((64, 256), left, "x"), te.placeholder((256, 192), right, "w")
    k = te.reduce_axis((0, 256), "k")
    y = te.compute(
        (64, 192), lambda i, j: te.sum(x[i, k].astype(sum_) * w[k, j].astype(sum_), axis=k), name="y"
    )
    default = lambda cpu: recipes.default_schedule([y], f"llvm -mcpu={cpu}").trace
    guessed = lambda cpu: autosched.best_guess(SearchTask.of([x, w, y], f"llvm -mcpu={cpu}")).trace
    assert guessed("znver4") == default("znver4")  # which has the instructions
    if left == "bfloat16":
        assert guessed("znver3") != default("znver3")  # which sums no pairs of them


def test_what_cannot_be_tuned_has_its_default_schedule() -> None:
    a = te.placeholder((), name="a")
    out = te.compute((), lambda: a[()] + 1.0, name="out")
    assert autosched.compile([a, out])(np.array(2.0, np.float32)) == 3.0
    with pytest.raises(TensorLangError, match="not computed"):
        autosched.compile([a])


def test_compile_prefers_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measurer: Measurer
) -> None:
    tensors = list(matmul(32, 32, 32))
    task = SearchTask.of(tensors)
    monkeypatch.undo()
    path = tmp_path / "r.jsonl"
    autosched.tune(task, trials=2, records=path, model="random", measurer=measurer, progress=False)
    monkeypatch.setattr(guess, "best_guess", lambda *a, **k: pytest.fail("the records have this task"))
    f = autosched.compile(tensors, records=path)
    a, b = (_ints(t) for t in tensors[:2])
    assert (f(a, b) == a @ b).all()
