"""Operators whose sizes are known at the call: their loops are parallel, how many parts there are is decided by
the call's sizes, and the answers are numpy's for sizes of none, one and primes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

TWO = "llvm -num-cores=2"


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = tl.num_threads()
    tl.set_num_threads(2)
    yield
    tl.set_num_threads(before)


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


OF_MATRICES: dict[str, tuple[Callable[[te.Tensor], te.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "softmax": (lambda x: ops.softmax(x), _softmax),
    "relu": (lambda x: ops.relu(x), lambda a: np.maximum(a, 0)),
    "transpose": (lambda x: ops.transpose(x), lambda a: a.T),
    "sum of rows": (lambda x: ops.sum(x, -1), lambda a: a.sum(-1)),
    "sum of columns": (lambda x: ops.sum(x, 0), lambda a: a.sum(0)),
    "product": (lambda x: ops.matmul(x, x, transpose_b=True), lambda a: a @ a.T),
}


@pytest.mark.parametrize("name", OF_MATRICES)
def test_threads_are_asked_for_at_the_call(name: str) -> None:
    """The loop is parallel in the schedule, and a call of any size is right, of two parts or one."""
    operator, reference = OF_MATRICES[name]
    x = te.placeholder((te.dim("m"), te.dim("n")), name="x")
    y = operator(x)
    assert "parallel" in default_schedule(y, TWO).tree()
    f = tl.compile([x, y])
    rng = np.random.default_rng(len(name))
    for shape in ((0, 5), (1, 1), (1, 307), (307, 1), (4, 16), (67, 131), (613, 509)):
        a = rng.integers(-4, 5, shape).astype("float32")
        if name == "softmax":
            np.testing.assert_allclose(f(a), reference(a), rtol=1e-5, atol=1e-7)
        else:
            assert np.array_equal(f(a), reference(a)), shape


def test_what_is_small_at_most_stays_serial() -> None:
    """Where even the largest sizes are not worth a second thread no call is asked."""
    x = te.placeholder((te.dim("m", 1, 16), te.dim("n", 1, 64)), name="x")
    for operator, _ in OF_MATRICES.values():
        assert "parallel" not in default_schedule(operator(x), TWO).tree()


@pytest.mark.parametrize("sizes", [(1,), (7,), (8191,), (8193,), (300007,)])
def test_a_sum_of_everything_of_an_open_size(sizes: tuple[int, ...]) -> None:
    x = te.placeholder((te.dim("n"),), name="x")
    y = ops.sum(x)
    assert "parallel" in default_schedule(y, TWO).tree()
    a = np.random.default_rng(sizes).integers(-2, 3, sizes).astype("float32")
    assert tl.compile([x, y], target=TWO)(a) == a.sum()
