"""Products of few rows and columns and a long sum: parts of the sum, blocks of lines, tiles of all of them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule


def product(n: int, rows: int, columns: int, left: bool, dtype: str = "float32") -> list[te.Tensor]:
    a = te.placeholder((n, rows) if left else (rows, n), dtype, name="a")
    b = te.placeholder((n, columns), dtype, name="b")
    return [a, b, ops.relu(ops.matmul(a, b, transpose_a=left))]


@pytest.mark.each_value
@pytest.mark.parametrize("cpu", ["znver3", "znver4"])
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize(
    ("n", "rows", "columns", "dtype"),
    [
        (3000, 16, 16, "float32"),
        (4001, 13, 8, "float32"),
        (9001, 33, 64, "float32"),
        (8191, 9, 101, "float32"),
        (5003, 7, 64, "float64"),
        (6000, 5, 11, "int32"),
    ],
)
@pytest.mark.parametrize("left", [False, True])
def test_long_sums_are_right(
    n: int, rows: int, columns: int, dtype: str, left: bool, cores: int, cpu: str
) -> None:
    a, b, out = product(n, rows, columns, left, dtype)
    s = default_schedule(out, f"llvm -mcpu={cpu} -num-cores={cores}")
    rng = np.random.default_rng(n)
    x = rng.integers(-2, 3, (n, rows) if left else (rows, n)).astype(dtype)
    y = rng.integers(-2, 3, (n, columns)).astype(dtype)
    assert (tl.build(s, [a, b, out])(x, y) == np.maximum((x.T if left else x) @ y, 0)).all()


def test_threads_take_parts_of_the_sum() -> None:
    for n, rows, columns in ((20000, 16, 16), (20000, 64, 64), (20000, 10, 128)):
        tree = default_schedule(product(n, rows, columns, True)[-1], "llvm -mcpu=znver4 -num-cores=2").tree()
        assert ".rf" in tree and "a.global" not in tree and "b.global" not in tree
    # as many tiles for each thread, of operands that lie near
    tree = default_schedule(product(2000, 64, 64, True)[-1], "llvm -mcpu=znver4 -num-cores=2").tree()
    assert ".rf" not in tree
