"""Parallel kernels give the same bits however many threads run them, in every run: iterations are
independent, and how a sum is split over threads is the schedule's decision, never the pool's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen.llvm import parallel
from tensorlang.runtime import threads
from tests.fresh import python

RUNS = 20
rng = np.random.default_rng(3)


def random(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("float32")


def product() -> tuple[tl.Module, list[np.ndarray]]:
    A, B = te.placeholder((140, 121), name="A"), te.placeholder((121, 180), name="B")
    k = te.reduce_axis((0, 121), name="k")
    C = te.compute((140, 180), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tl.compile([A, B, C]), [random(140, 121), random(121, 180)]


def softmax() -> tuple[tl.Module, list[np.ndarray]]:
    A = te.placeholder((300, 601), name="A")
    k, q = te.reduce_axis((0, 601), name="k"), te.reduce_axis((0, 601), name="q")
    top = te.compute((300,), lambda i: te.max(A[i, k], axis=k), name="top")
    E = te.compute((300, 601), lambda i, j: te.exp(A[i, j] - top[i]), name="E")
    total = te.compute((300,), lambda i: te.sum(E[i, q], axis=q), name="total")
    return tl.compile([A, te.compute((300, 601), lambda i, j: E[i, j] / total[i], name="S")]), [
        random(300, 601)
    ]


def convolution() -> tuple[tl.Module, list[np.ndarray]]:
    A, W = te.placeholder((5, 20, 20), name="A"), te.placeholder((9, 5, 3, 3), name="W")
    P = te.compute(
        (5, 22, 22),
        lambda c, y, x: te.if_then_else(te.all(y >= 1, y < 21, x >= 1, x < 21), A[c, y - 1, x - 1], 0.0),
        name="P",
    )
    c, r, s = (
        te.reduce_axis((0, 5), name="c"),
        te.reduce_axis((0, 3), name="r"),
        te.reduce_axis((0, 3), name="s"),
    )
    C = te.compute(
        (9, 20, 20), lambda o, y, x: te.sum(P[c, y + r, x + s] * W[o, c, r, s], axis=[c, r, s]), name="C"
    )
    return tl.compile([A, W, C]), [random(5, 20, 20), random(9, 5, 3, 3)]


def partial_sums() -> tuple[tl.Module, list[np.ndarray]]:
    """One sum of 5,000 numbers in 8 partial ones, each by some thread."""
    A = te.placeholder((5000,), name="A")
    k = te.reduce_axis((0, 5000), name="k")
    C = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="C")
    s = te.create_schedule(C.op)
    outer, _inner = s[C].split(s[C].op.reduce_axis[0], nparts=8)
    part = s.rfactor(C, outer)
    s[part].parallel(s[part].op.axis[0])
    return tl.build(s, [A, C]), [random(5000)]


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "processors", lambda: 8)
    monkeypatch.setattr(parallel, "PIECE", 1)  # five thousand numbers are shared out too
    yield
    monkeypatch.undo()
    tl.set_num_threads(None)


@pytest.mark.parametrize("make", [product, softmax, convolution, partial_sums])
def test_the_same_bits(make: Callable[[], tuple[tl.Module, list[np.ndarray]]]) -> None:
    f, inputs = make()
    assert "tensorlang_parallel" in f.get_source("ll")
    tl.set_num_threads(1)
    expected = f(*inputs).tobytes()
    for count in (2, 3, 8):
        tl.set_num_threads(count)
        assert all(f(*inputs).tobytes() == expected for _ in range(RUNS))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_a_kernel_without_memory_for_its_temporary_says_so() -> None:
    """Inside a parallel loop too: the status reaches the caller, nothing is left behind, and the next call is
    right."""
    script = """
import resource
import numpy as np
import tensorlang as tl
from tensorlang import te
from tensorlang.runtime import threads
threads.processors = lambda: 8
tl.set_num_threads(4)
n, m = te.var("n"), te.var("m")
A = te.placeholder((n,), name="A")
P = te.compute((n, m), lambda i, j: A[i] + j, name="P")
k = te.reduce_axis((0, m), name="k")
C = te.compute((n,), lambda i: te.sum(P[i, k], axis=k), name="C")
s = te.create_schedule(C.op)
s[P].compute_at(s[C], C.op.axis[0])
s[C].parallel(C.op.axis[0])
f = tl.build(s, [A, m, C])
x = np.arange(9, dtype="float32")
assert (f(x, 3) == x * 3 + 3).all()
now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20), now + (64 << 20)))
for _ in range(5):
    try:
        f(x, 100 << 20)
    except MemoryError as error:
        print(error)
    assert (f(x, 3) == x * 3 + 3).all()
    assert (f(x, 100_000)[0] > 0).all()
"""
    done = python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "main: no memory for its temporary buffers; its outputs are incomplete\n" * 5
