"""Operators of every kind with open sizes: whatever the tree picks is right, and so is every variant it might
pick."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

import tensorlang as tl
from autosched import Record, SearchTask
from autosched.dynamic.declaration import Declaration
from autosched.dynamic.families import Settings
from autosched.dynamic.families.variants import representatives, schedules
from autosched.dynamic.kernel_times import Tables
from autosched.records import RecordLog
from autosched.statuses import OK
from tensorlang import ops, te
from tests.autosched.dynamic.computations import dense, least_of, made, whole


def softmax(m, n):
    x = te.placeholder((m, n), name="X")
    return [x, ops.softmax(x)]


def layer_norm(m, n):
    x, g, b = te.placeholder((m, n), name="X"), te.placeholder((n,), name="G"), te.placeholder((n,), name="B")
    return [x, g, b, ops.layer_norm(x, (n,), g, b)]


def row_sum(m, n):
    x = te.placeholder((m, n), name="X")
    return [x, ops.sum(x, axis=1)]


def chain(m, n):
    x, b = te.placeholder((m, n), name="X"), te.placeholder((n,), name="B")
    y = te.compute((m, n), lambda i, j: x[i, j] + b[j], name="Z")
    return [
        x,
        b,
        te.compute((m, n), lambda i, j: te.select(y[i, j] > 0.0, y[i, j], y[i, j] * 0.5) + x[i, j], name="Y"),
    ]


def scores(t):
    a, b = te.placeholder((3, t, 8), name="A"), te.placeholder((3, t, 8), name="B")
    return [a, b, ops.batch_matmul(a, b, transpose_b=True)]


def conv(n, h, w):
    x, k = te.placeholder((n, 3, h, w), name="X"), te.placeholder((8, 3, 3, 3), name="K")
    return [x, k, ops.conv2d(x, k, padding=1)]


def depthwise(n, h, w):
    x, k = te.placeholder((n, 4, h, w), name="X"), te.placeholder((4, 1, 3, 3), name="K")
    return [x, k, ops.depthwise_conv2d(x, k, padding=1)]


def pool(n, h, w):
    x = te.placeholder((n, 4, h, w), name="X")
    return [x, ops.max_pool2d(x, 2)]


def attention(t):
    q, k, v = (te.placeholder((2, t, 8), name=name) for name in "QKV")
    return [q, k, v, ops.scaled_dot_product_attention(q, k, v)]


MODULE = importlib.import_module(
    "autosched.dynamic.families.variants"
)  # the package has a function of that name
SMALL = (1, 3, 8, 17, 33)
CASES = {
    "softmax": (softmax, {"m": (1, 40), "n": (1, 40)}),
    "layer_norm": (layer_norm, {"m": (1, 40), "n": (1, 40)}),
    "row_sum": (row_sum, {"m": (0, 40), "n": (1, 40)}),
    "chain": (chain, {"m": (0, 40), "n": (0, 40)}),
    "scores": (scores, {"t": (1, 40)}),
    "matmul": (dense, {"m": (0, 40), "n": (1, 40), "k": (1, 40)}),
    "conv": (conv, {"n": (1, 3), "h": (1, 20), "w": (1, 20)}),
    "depthwise": (depthwise, {"n": (1, 3), "h": (1, 20), "w": (1, 20)}),
    "pool": (pool, {"n": (1, 3), "h": (2, 20), "w": (2, 20)}),
    "attention": (attention, {"t": (1, 40)}),
}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Fewer representative shapes and points to measure at: what is right does not depend on how many there
    are."""
    monkeypatch.setattr(MODULE, "PER_DIM", {1: 3, 2: 2, 3: 2})
    monkeypatch.setattr(MODULE, "POINTS", 5)


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    func, profile = CASES[name]
    f = made(func, tuple(te.dim(d, 0, 64) for d in profile), profile, seconds=0.0)
    rng = np.random.default_rng(0)
    shapes = list(
        itertools.product(*[[n for n in SMALL if lo <= n <= hi] or [hi] for lo, hi in profile.values()])
    )
    for number, shape in enumerate(shapes[i] for i in rng.permutation(len(shapes))[:16]):
        tensors = func(*shape)
        inputs = [whole(rng, *[int(str(n)) for n in t.shape]) for t in tensors[:-1]]
        want = te.reference.evaluate(tensors[-1:], dict(zip(tensors[:-1], inputs, strict=True)))[0]
        serving = [
            r
            for r in f.dispatcher.routes
            if all(least_of(r, d) <= n for d, n in zip(profile, shape, strict=True))
        ]
        for d in (f, *serving):
            got = d(*inputs)
            assert got.shape == want.shape and np.allclose(got, want, rtol=1e-5, atol=1e-5), (name, shape)
        if number < len(POISONS) and all(a.size for a in inputs):
            nothing_leaks(
                POISONS[number], (f, *serving), tensors, inputs, want, tuple(rng.integers(inputs[0].shape))
            )


POISONS = (np.nan, np.inf, -np.inf, np.nan)


def nothing_leaks(poison, kernels, tensors, inputs, want, at):
    """Outputs that do not depend on one element of the first input stay what they are when that is not a number.
    They depend on it where the interpreter computes something else for another value in its place, small,
    large or the poison itself."""
    free = np.ones(want.shape, bool)
    for value in (inputs[0][at] - 1000, inputs[0][at] + 1000, poison):
        other = [inputs[0].copy(), *inputs[1:]]
        other[0][at] = value
        with np.errstate(all="ignore"):
            free &= (
                te.reference.evaluate(tensors[-1:], dict(zip(tensors[:-1], other, strict=True)))[0] == want
            )
    for kernel in kernels:
        with np.errstate(all="ignore"):
            got = kernel(*other)
        assert np.allclose(got[free], want[free], rtol=1e-5, atol=1e-5), (at, poison)


def test_sizes_of_zero():
    f = made(chain, (te.dim("m"), te.dim("n")), {"m": (0, 9), "n": (0, 9)}, seconds=0.0)
    for shape in ((0, 0), (0, 4), (4, 0)):
        assert f(np.zeros(shape, "float32"), np.zeros(shape[1], "float32")).shape == shape
    g = made(
        dense, (te.dim("m"), te.dim("n"), te.dim("k")), {"m": (0, 9), "n": (0, 9), "k": (0, 9)}, seconds=0.0
    )
    assert (g(np.zeros((3, 0), "float32"), np.zeros((0, 5), "float32")) == np.zeros((3, 5))).all()


def test_a_schedule_of_one_shape_that_is_no_schedule_of_all_is_left_out():
    """The trace of a convolution of 20 × 20 merges its pixels, which open sizes cannot be: such variants are
    refused, not wrong."""
    f = made(
        conv,
        (te.dim("n", 1, 4), te.dim("h", 1, 32), te.dim("w", 1, 32)),
        {"n": (1, 2), "h": (20, 20), "w": (20, 20)},
        seconds=0.0,
    )
    rng = np.random.default_rng(0)
    x, k = whole(rng, 2, 3, 20, 20), whole(rng, 8, 3, 3, 3)
    tensors = conv(2, 20, 20)
    assert (f(x, k) == te.reference.evaluate(tensors[-1:], {tensors[0]: x, tensors[1]: k})[0]).all()


def test_serving_inside_the_profile_allocates_nothing():
    """Buffers of a row are planned for its largest size; without a largest size they are allocated in the
    call."""
    f = made(softmax, (te.dim("m"), te.dim("n")), {"m": (1, 64), "n": (1, 4097)}, seconds=0.0)
    assert all(b"tensorlang_alloc" not in r.object_code for r in f.dispatcher.routes)
    assert b"tensorlang_alloc" in tl.compile(softmax(te.dim("m"), te.dim("n"))).object_code


def test_multiples_are_kept():
    f = made(
        softmax,
        (te.dim("m", 4, 64, multiple_of=4), te.dim("n", 1, 64)),
        {"m": (4, 32), "n": (1, 9)},
        seconds=0.0,
    )
    x = np.zeros((8, 5), "float32")
    assert np.allclose(f(x), 0.2)
    with pytest.raises(tl.CallError):
        f(np.zeros((6, 5), "float32"))


def test_tuned_schedules_of_single_shapes_are_tried(tmp_path):
    fixed = te.serialize.resized(SearchTask(lambda m: chain(m, 16), (te.dim("m", 1, 64),)).tensors, {"m": 8})
    schedule = tl.create_schedule(fixed[-1])
    schedule["Y"].split(schedule["Y"].op.axis[0], 4)
    target = tl.Target.host()
    record = Record(te.serialize.key_of(fixed), str(target), schedule.trace.to_json(), OK, (1e-9,) * 5)
    log = RecordLog(tmp_path / "r.jsonl")
    log.append(record)
    decl = Declaration(SearchTask(lambda m: chain(m, 16), (te.dim("m", 1, 64),)))
    box = {"m": (1, 64)}
    settings = Settings(0.0, Tables(False, target), {"m": 8}, tmp_path / "r.jsonl")
    found = {label[0]: s for label, s, *_ in schedules(decl, box, settings, ("m",))}
    assert "tuned for 8" in found and "4" in str(found["tuned for 8"].trace)


def test_representatives_lie_apart_and_in_the_box():
    box = {"m": (4, 4096), "n": (1, 100)}
    found = representatives(box, ["m", "n"], {"m": 128, "n": 7}, {"m": 4, "n": 1})
    assert found[0] == {"m": 128, "n": 7} and len(found) <= 26
    assert all(4 <= s["m"] <= 4096 and s["m"] % 4 == 0 and 1 <= s["n"] <= 100 for s in found)
    assert len({s["m"] for s in found}) >= 3
