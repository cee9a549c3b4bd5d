"""Engines under many calls: the same answers from eight threads, in a fork, and after thousands of calls, and
memory that does not grow."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops

CALLS = {"short": 40, "long": 1000}
LENGTHS = "short", pytest.param("long", marks=pytest.mark.fuzz)


def resident() -> int:
    """kB of this process that lie in memory and are of nobody else."""
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Private_Dirty:"))


def in_a_row():
    """One row of kernels with a product that runs in parallel and needs a workspace."""
    g = tl.Graph("row")
    x, y = g.input(("n", 48), "float32", "x"), g.input((48, "m"), "float32", "y")
    h = g.call(ops.relu, g.call(ops.matmul, x, y))
    g.output(g.call(ops.sum, h, axis=1), "s")
    return g.compile(), lambda x, y: np.maximum(x @ y, 0).sum(1)


def of_branches():
    """What follows depends on a value and on sizes."""
    onnx = pytest.importorskip("onnx")
    h, f = onnx.helper, onnx.TensorProto.FLOAT
    bodies = [
        h.make_graph([h.make_node(op, ["x"], ["r"])], op, [], [h.make_tensor_value_info("r", f, None)])
        for op in ("Neg", "Abs")
    ]
    nodes = [
        h.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        h.make_node("Greater", ["total", "zero"], ["c"]),
        h.make_node("If", ["c"], ["z"], then_branch=bodies[0], else_branch=bodies[1]),
        h.make_node("Add", ["z", "b"], ["s"]),
    ]
    infos = [
        [h.make_tensor_value_info(n, f, shape) for n, shape in which]
        for which in ((("x", ["k"]), ("b", ["l"])), (("s", None),))
    ]
    zero = onnx.numpy_helper.from_array(np.zeros((), "float32"), "zero")
    graph = h.make_graph(nodes, "g", *infos, [zero])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return tl.load_onnx(model).compile(level=0), lambda x, b: (-x if x.sum() > 0 else abs(x)) + b


def in_stages():
    """A function of arrays between kernels, whose result has a size nobody knows before."""
    g = tl.Graph("staged")
    x = g.input(("n",), "float32", "x")
    (positive,) = g.host(lambda a: a[a > 0], [x], [((None,), "float32")], op="positive")
    g.output(g.call(ops.multiply, positive, positive), "squares")
    return g.compile(level=0), lambda x: x[x > 0] ** 2


ENGINES = {"row": in_a_row, "branches": of_branches, "stages": in_stages}


def given(which: str, i: int):
    rng, n = np.random.default_rng(i), 1 + i % 7
    shapes = {"row": [(n, 48), (48, 3 + i % 5)], "branches": [(n,), (n if i % 3 else 1,)], "stages": [(n,)]}
    return [rng.integers(-4, 5, s).astype("float32") for s in shapes[which]]


@pytest.fixture(scope="module", params=ENGINES)
def made(request):
    engine, f = ENGINES[request.param]()
    calls = [given(request.param, i) for i in range(21)]
    wanted = [f(*c) for c in calls]
    for c, w in zip(calls, wanted, strict=True):
        assert np.array_equal(engine(*c), w)
    return engine, calls, wanted


def right(engine, calls, wanted, count, seed=0) -> bool:
    """Whether so many calls, in an order of their own, say what is wanted."""
    order = np.random.default_rng(seed).integers(0, len(calls), count)
    return all(np.array_equal(engine(*calls[i]), wanted[i]) for i in order)


@pytest.mark.parametrize("length", LENGTHS)
def test_eight_threads(made, length):
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda s=s: answers.append(right(*made, CALLS[length], s))) for s in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [True] * 8


@pytest.mark.parametrize("length", LENGTHS)
def test_a_fork_while_others_call(made, length):
    stop = threading.Event()

    def work():
        while not stop.is_set():
            right(*made, 5)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for seed in range(1 if length == "short" else 20):
            child = os.fork()
            if not child:
                os._exit(0 if right(*made, 30, seed) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("length", LENGTHS)
def test_memory_does_not_grow(made, length):
    count = 10 * CALLS[length]
    assert right(*made, count)
    gc.collect()
    before = resident()
    assert right(*made, count, 1)
    gc.collect()
    assert resident() - before < 1024
