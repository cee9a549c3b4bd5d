"""When a call gives up the interpreter's lock. Counted, not timed: between two steps of a counter that no
bytecode separates, another thread can only count while the kernel runs without the lock."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.runtime import call

from . import kernels


@pytest.fixture
def counted() -> Iterator[Any]:
    """A function that makes a call and says how often the other thread counted meanwhile."""
    counter, stop = itertools.count(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            next(counter)

    thread = threading.Thread(target=work)
    thread.start()

    def meanwhile(entry: Any, *args: Any) -> int:
        steps = [counter.__next__, functools.partial(entry, *args), counter.__next__]
        before, _, after = map(functools.partial.__call__, [functools.partial(s) for s in steps])
        return int(after - before - 1)

    yield meanwhile
    stop.set()
    thread.join()


def busy(n: Any, name: str = "busy") -> tl.Module:
    """C[i] = sum of A[(i + k) % 64] over n * n * 64 iterations: much work on 512 bytes."""
    A = te.placeholder((64,), "int32", name="A")
    N = te.placeholder((n,), "int8", name="N")
    k = te.reduce_axis((0, n * n * 64), name="k")
    C = te.compute((64,), lambda i: te.sum(A[(i + k) % 64], axis=k), name="C")
    D = te.compute((n,), lambda i: N[i], name="D")
    return tl.build(te.create_schedule([C.op, D.op]), [A, N, C, D], name=name)


def native(f: tl.Module) -> Any:
    if type(f.entry).__name__ != "builtin_function_or_method":
        pytest.skip("no native entry here")
    return f.entry


@pytest.mark.parametrize("dynamic", [False, True])
def test_long_work_on_few_bytes_gives_it_up(counted: Any, dynamic: bool) -> None:
    f = busy(te.var("n") if dynamic else 60)
    args = [np.ones(64, np.int32), np.zeros(60, np.int8), np.zeros(64, np.int32), np.zeros(60, np.int8)]
    entry = native(f)
    assert sum(a.nbytes for a in args) < call.RELEASE_BYTES
    assert any(counted(entry, *args) for _ in range(20))
    assert (args[2] == 60 * 60 * 64).all()


def test_a_matmul_gives_it_up(counted: Any) -> None:
    A, B = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis((0, 512), name="k")
    C = te.compute((512, 512), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    entry = native(tl.compile([A, B, C]))
    args = [np.ones((512, 512), np.float32) for _ in range(3)]
    assert any(counted(entry, *args) for _ in range(20))


@pytest.mark.parametrize("dynamic", [False, True])
def test_short_calls_keep_it(counted: Any, dynamic: bool) -> None:
    f = busy(te.var("n") if dynamic else 1)
    args = [np.ones(64, np.int32), np.zeros(1, np.int8), np.zeros(64, np.int32), np.zeros(1, np.int8)]
    entry = native(f)
    assert [counted(entry, *args) for _ in range(50)] == [0] * 50
    g = native(kernels.add())
    small = [np.ones(8, np.float32) for _ in range(3)]
    assert [counted(g, *small) for _ in range(50)] == [0] * 50


def test_many_bytes_give_it_up(counted: Any) -> None:
    entry = native(kernels.add())
    args = [np.ones(4 << 20, np.float32) for _ in range(3)]
    assert any(counted(entry, *args) for _ in range(20))


def test_what_is_told_of_the_work() -> None:
    """Of the order of the iterations of the loops, in the sizes of the call: a sum for each, and the two numbers
    that it reads in memory on its way to memory."""
    n = te.var("n")
    A = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    terms = {slots: c for c, slots in tl.build(s, [A, C]).signature.work}
    assert terms[(0, 0, 0)] == 3
    s[C].vectorize(s[C].split(C.op.axis[1], 8)[1])
    terms = {slots: c for c, slots in tl.build(s, [A, C]).signature.work}
    assert 1 / 8 <= terms[(0, 0, 0)] <= 1 / 2  # body and tail


def test_failing_checks_in_many_threads_tell_their_own() -> None:
    """Calls of a kernel with bounds checks that fail at the same time: each error names the index of its own
    call."""
    A, I = te.placeholder((4,), name="A"), te.placeholder((1,), "int32", name="I")
    B = te.compute((1,), lambda i: A[I[i]], name="B")
    f = tl.build(te.create_schedule(B.op), [A, I, B], bounds_check=True)
    wrong: list[str] = []

    def work(index: int) -> None:
        a, at, out = np.ones(4, np.float32), np.array([index], np.int32), np.zeros(1, np.float32)
        for _ in range(200):
            try:
                f(a, at, out)
            except tl.CallError as error:
                if f"is {index}, out of range 0..4" not in str(error):
                    wrong.append(f"{index}: {error}")
            else:
                wrong.append(f"{index}: accepted")

    threads = [threading.Thread(target=work, args=(100 + t,)) for t in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
