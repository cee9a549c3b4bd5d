"""Engines in which a kernel counts its rows: NonZero, NonMaxSuppression and what follows, as one native call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.runtime.counted import Counted
from tensorlang.runtime.engine import Engine

onnx = pytest.importorskip("onnx")

from .test_onnx_control import F, I, node  # noqa: E402
from .test_onnx_models import model  # noqa: E402


def picked():
    """The positive elements, their places, and twice their number of neighbours: sizes that counts give."""
    m = model(
        [
            node("Greater", ["x", "zero"], ["mask"]),
            node("NonZero", ["mask"], ["places"]),
            node("Transpose", ["places"], ["rows"], perm=[1, 0]),
            node("GatherND", ["x", "rows"], ["found"]),
            node("Concat", ["found", "found"], ["twice"], axis=0),
            node("Mul", ["twice", "two"], ["y"]),
        ],
        [("x", F, ["n", "m"])],
        [("y", F, None), ("places", I, None), ("rows", I, None)],
        {"zero": np.float32(0), "two": np.float32(2)},
    )

    def f(x):
        places = np.array(np.nonzero(x > 0))
        return np.tile(x[x > 0], 2) * 2, places, places.T

    return tl.load_onnx(m), f


def twice():
    """What is chosen is chosen from again; an input and a constant are outputs too."""
    m = model(
        [
            node("NonZero", ["x"], ["i"]),
            node("Squeeze", ["i", "first"], ["at"]),
            node("Gather", ["x", "at"], ["y"]),
            node("Greater", ["y", "two"], ["large"]),
            node("NonZero", ["large"], ["j"]),
            node("Squeeze", ["j", "first"], ["again"]),
            node("Gather", ["y", "again"], ["z"]),
            node("ReduceSum", ["z"], ["total"], keepdims=0),
        ],
        [("x", F, ["n"])],
        [("z", F, None), ("j", I, None), ("total", F, None), ("y", F, None)],
        {"first": np.array([0]), "two": np.float32(2)},
    )

    def f(x):
        y = x[x != 0]
        j = np.array(np.nonzero(y > 2))
        return y[j[0]], j, np.float32(y[j[0]].sum()), y

    return tl.load_onnx(m), f


@pytest.fixture(scope="module")
def picking():
    g, f = picked()
    return g.compile(), f


@pytest.fixture
def natively(monkeypatch):
    """What runs step by step from then on fails."""

    def begin():
        monkeypatch.setattr(Engine, "work", lambda *_: pytest.fail("step by step"))

    return begin


def same(have, wanted):
    return all(np.array_equal(a, b) and a.shape == b.shape for a, b in zip(have, wanted, strict=True))


def given(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def test_one_call_serves_every_count(picking, natively):
    engine, f = picking
    engine(given(5, 6))
    engine(given(0, 3))
    natively()
    x = np.full((5, 6), -1, "float32")
    for count in (0, 1, 7, 30):
        x.reshape(-1)[:count] = np.arange(1, 1 + count)
        assert same(engine(x), f(x))
        assert same(engine.run({"x": x}).values(), f(x))
        assert same(engine.called({"x": x}, {}).values(), f(x))
    assert same(engine(x.T.copy().T), f(x)) and same(engine(given(0, 3)), f(given(0, 3)))


def test_arrays_to_write_to_and_new_sizes_go_step_by_step(picking):
    engine, f = picking
    engine(given(5, 6))
    x = given(5, 6, seed=1)
    outs = [np.empty(a.shape, a.dtype) for a in f(x)]
    engine(x, out=tuple(outs))
    assert same(outs, f(x))
    with pytest.raises(tl.CallError):
        engine(x, out=(outs[0][1:], *outs[1:]))
    with pytest.raises(tl.CallError):
        engine(x, *outs, np.empty(1, "int64"))
    assert same(engine(given(7, 2)), f(given(7, 2)))


def test_results_are_arrays_of_their_own(picking):
    engine, f = picking
    x = np.full((200, 200), -1.0, "float32")
    x[3, 4] = 5
    first = engine(x)
    second = engine(x * 1)
    assert same(first, f(x)) and same(second, f(x))
    assert not any(np.shares_memory(a, b) for a in first for b in second)
    assert first[1].base is None or first[1].base.nbytes <= 1 << 16  # not the room for all elements


def test_what_is_counted_counts_again(natively):
    g, f = twice()
    engine = g.compile()
    engine(given(9))
    assert isinstance(engine._whole, Counted)
    natively()
    for seed in range(6):
        x = given(9, seed=seed)
        assert same(engine(x), f(x))
    assert same(engine(np.zeros(9, "float32")), f(np.zeros(9, "float32")))


def test_boxes_and_what_follows(natively):
    m = model(
        [
            node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]),
            node("Gather", ["chosen", "column"], ["at"], axis=1),
            node("Squeeze", ["boxes", "column0"], ["b"]),
            node("Gather", ["b", "at"], ["kept"]),
        ],
        [("boxes", F, [1, "n", 4]), ("scores", F, [1, 2, "n"])],
        [("chosen", I, None), ("kept", F, None)],
        {
            "most": np.array([3]),
            "overlap": np.float32([0.5]),
            "least": np.float32([0.3]),
            "column": np.array(2),
            "column0": np.array([0]),
        },
    )
    g = tl.load_onnx(m)
    engine, plain = g.compile(), g.compile(level=0)
    corner = np.arange(6, dtype="float32")[:, None]
    boxes = np.concatenate([corner, corner, corner + 0.9, corner + 0.9], 1)[None]
    calls = [np.where(np.arange(12).reshape(1, 2, 6) % 5 < k, 0.9, 0.1).astype("float32") for k in range(5)]
    wanted = [plain(boxes, s) for s in calls]
    engine(boxes, calls[0])
    natively()
    assert [len(w[0]) for w in wanted] == [0, 3, 6, 6, 6]
    for scores, w in zip(calls, wanted, strict=True):
        assert same(engine(boxes, scores), w)


def test_counts_that_would_take_much_memory_go_step_by_step():
    """A table of all pairs of what is chosen: 16 places are many less than the square of all."""
    m = model(
        [
            node("NonZero", ["x"], ["i"]),
            node("Transpose", ["i"], ["j"], perm=[1, 0]),
            node("Mul", ["i", "j"], ["y"]),
        ],
        [("x", F, ["n"])],
        [("y", I, None)],
    )
    engine = tl.load_onnx(m).compile()
    for n in (16, 20_000):
        x = np.zeros(n, "float32")
        x[-16::2] = 1
        at = np.flatnonzero(x)
        for _ in range(2):
            assert np.array_equal(engine(x), np.outer(at, at))
    assert len(engine._whole.plans) == 1


def test_a_loaded_engine_calls_natively(tmp_path, picking, natively):
    engine, f = picking
    engine.save(tmp_path / "counted.engine")
    loaded = tl.Engine.load(tmp_path / "counted.engine")
    x = given(4, 5, seed=3)
    loaded(x)
    natively()
    assert same(loaded(x), f(x))


def test_threads_have_counts_of_their_own(picking):
    engine, f = picking
    calls = [given(5, 6, seed=s) for s in range(8)]
    wanted, wrong = [f(x) for x in calls], []

    def work(k):
        for i in range(200):
            n = (i + k) % 8
            if not same(engine(calls[n]), wanted[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
