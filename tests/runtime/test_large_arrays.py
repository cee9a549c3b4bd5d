"""Memory of large results is used again, and never while somebody can still read it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.runtime import arrays
from tensorlang.runtime.arrays import address_of, empty

F = np.dtype("float32")
MANY = arrays.LARGE // 4 + 1000


@pytest.fixture(autouse=True)
def nothing_kept():
    arrays._blocks.clear()
    yield
    arrays._blocks.clear()


def large() -> np.ndarray:
    return empty((MANY,), F)


def test_what_nobody_holds_is_used_again() -> None:
    a = large()
    at = address_of(a)
    del a
    b = large()
    assert address_of(b) == at and address_of(b) % 64 == 0
    assert address_of(large()) != at  # while b lives


@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a[5:],
        lambda a: a.reshape(2, -1).T,
        memoryview,
        lambda a: a.view("int32")[::3],
        lambda a: np.from_dlpack(a),
    ],
)
def test_what_is_seen_through_a_view_is_left_alone(hold) -> None:
    a = large()
    at, view = address_of(a), hold(a)
    del a
    assert address_of(large()) != at
    del view
    assert address_of(large()) == at


def test_torch_holds_it_too() -> None:
    torch = pytest.importorskip("torch")
    a = large()
    at, t = address_of(a), torch.from_numpy(a)[3:]
    del a
    assert address_of(large()) != at
    del t
    assert address_of(large()) == at


def test_small_results_and_too_many_are_not_kept(monkeypatch) -> None:
    empty((1000,), F), empty((arrays.LARGE // 8,), F)
    assert not arrays._blocks
    monkeypatch.setattr(arrays, "KEPT", 2 * arrays.LARGE + 10000)
    held = [large() for _ in range(4)]
    assert len(arrays._blocks) == 2
    assert len({address_of(a) for a in held}) == 4
    for n, a in enumerate(held):
        a[:] = n
    assert all((a == n).all() for n, a in enumerate(held))


def test_a_kernel_returns_one_result_after_the_other() -> None:
    x = te.placeholder((MANY,), name="x")
    f = tl.compile([x, te.compute((MANY,), lambda i: x[i] + 1.0, name="y")])
    a = np.zeros(MANY, "float32")
    first, second = f(a), f(a + 1)
    assert (first == 1).all() and (second == 2).all()
    at = address_of(first)
    del first
    third = f(a + 2)
    assert address_of(third) == at and (third == 3).all() and (second == 2).all()


def test_threads_never_get_the_same_memory() -> None:
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(6):
            a = large()
            a[:100] = n
            b = large()
            b[:100] = -n
            if (a[:100] != n).any() or (b[:100] != -n).any():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
