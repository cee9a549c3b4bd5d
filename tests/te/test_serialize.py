"""A computation goes to JSON and comes back the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensorlang import te
from tensorlang.errors import DeclareError
from tensorlang.te import serialize
from tensorlang.te.reference import evaluate


def _cases() -> dict[str, list[te.Tensor]]:
    m = te.dim("m", 1, 64, hint=8)
    a, b = te.placeholder((m, 6), name="A"), te.placeholder((6, 5), name="B")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((m, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, where=k != 2), name="C")
    d = te.compute(
        (m, 5),
        lambda i, j: te.if_then_else(c[i, j] > 0.0, c[i, j] * 0.1, te.const(-0.0)),
        name="D",
        tag="leaky",
        attrs={"slope": 0.1},
    )
    x = te.placeholder((7, 9), name="X", dtype="int32")
    r = te.reduce_axis((1, 9), "r")
    argmax = te.comm_reducer(
        lambda p, q: (te.select(p[1] >= q[1], p[0], q[0]), te.select(p[1] >= q[1], p[1], q[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    index, value = te.compute((7,), lambda i: argmax((te.cast("int32", r), x[i, r]), axis=r), name="best")
    y, state = te.placeholder((7, 9), name="Y"), te.placeholder((7, 9), name="state")
    first = te.compute((1, 9), lambda _, j: y[0, j], name="first")
    update = te.compute((7, 9), lambda t, j: state[t - 1, j] * 2.0 + y[t, j], name="update")
    return {"relu matmul": [a, b, d], "argmax": [x, index, value], "scan": [y, te.scan(first, update, state)]}


@pytest.mark.parametrize("name", ["relu matmul", "argmax", "scan"])
def test_round_trip(name: str) -> None:
    tensors = _cases()[name]
    text = serialize.to_json(tensors)
    back = serialize.from_json(text)
    assert serialize.to_json(back) == text
    assert serialize.key_of(back) == serialize.key_of(tensors)
    rng = np.random.default_rng(0)
    n_out = len([t for t in tensors if t.op.input_tensors])
    arrays = [
        rng.integers(-4, 5, [8 if not str(e).isdigit() else int(str(e)) for e in t.shape]).astype(
            t.dtype.to_numpy()
        )
        for t in tensors[:-n_out]
    ]
    for p, q in zip(
        evaluate(tensors[-n_out:], dict(zip(tensors, arrays, strict=False))),
        evaluate(back[-n_out:], dict(zip(back, arrays, strict=False))),
        strict=True,
    ):
        assert (p == q).all()


def test_declared_twice_has_one_key() -> None:
    assert serialize.key_of(_cases()["argmax"]) == serialize.key_of(_cases()["argmax"])


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(version=99),
        lambda d: d.pop("nodes"),
        lambda d: d["nodes"].__setitem__(0, ["Add", [5, 6]]),
        lambda d: d["ops"].__setitem__(0, ["system", "rm"]),
        lambda d: d["tensors"].append([99, 0]),
        lambda d: d["vars"][0].__setitem__(2, "knob"),
    ],
)
def test_broken_text_is_refused(change: object) -> None:
    document = json.loads(serialize.to_json(_cases()["relu matmul"]))
    change(document)  # type: ignore[operator]
    with pytest.raises(DeclareError):
        serialize.from_json(json.dumps(document))


def test_resized() -> None:
    m, n = te.dim("m", 0, 64, hint=8), te.dim("n", 1, 64)
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2 + te.cast("float32", m), name="B")
    made = serialize.resized([a, b], {"m": 3, "n": {"hi": 16, "multiple_of": 4}})
    assert [t.name for t in made] == ["A", "B"] and str(made[0].shape[0]) == "3"
    assert (made[0].shape[1].lo, made[0].shape[1].hi, made[0].shape[1].multiple_of) == (1, 16, 4)
    assert (a.shape[1].hi, a.shape[0].hint) == (64, 8)  # the given ones stay as they are
    got = evaluate(made[1:], {made[0]: np.ones((3, 4), np.float32)})[0]
    assert (got == 5).all()
    with pytest.raises(DeclareError, match="no dim 'k'"):
        serialize.resized([a, b], {"k": 3})
    with pytest.raises(DeclareError, match="no fact 'most'"):
        serialize.resized([a, b], {"m": {"most": 3}})


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (-3, "from 0 to 64"),
        (65, "from 0 to 64"),
        (6, "a multiple of 4"),
        (8.0, "whole number"),
        (True, "whole number"),
    ],
)
def test_resized_keeps_to_what_was_declared(size: object, why: str) -> None:
    """-3 rows were compiled once."""
    m = te.dim("m", 0, 64, multiple_of=4)
    a = te.placeholder((m, 6), name="A")
    with pytest.raises(DeclareError, match=why):
        serialize.resized([a], {"m": size})  # type: ignore[dict-item]
    wider = serialize.resized([a], {"m": {"hi": None, "multiple_of": 1}})
    assert serialize.resized(wider, {"m": 65})[0].shape[0].value == 65
