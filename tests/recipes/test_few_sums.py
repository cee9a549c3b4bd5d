"""Products whose sums are one register tile with few chains: several lines are summed apart, each thread has
some."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

SHAPES = [
    (1, 30_000, 20),
    (1, 30_001, 20),
    (1, 257, 16),
    (2, 4003, 17),
    (3, 513, 16),
    (4, 9001, 16),
    (1, 9000, 50),
]


def product(m: int, k: int, n: int, dtype: str = "float32") -> list[te.Tensor]:
    x, y = te.placeholder((m, k), dtype, name="x"), te.placeholder((k, n), dtype, name="y")
    return [x, y, ops.matmul(x, y)]


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_several_lines_are_those_of_numpy(
    shape: tuple[int, int, int], cores: int, dtype: str
) -> None:
    args = product(*shape, dtype)
    f = tl.build(default_schedule(args[-1], tl.Target.host().for_threads(cores)), args)
    rng = np.random.default_rng(1)
    a, b = rng.random(shape[:2]).astype(dtype), rng.random(shape[1:]).astype(dtype)
    np.testing.assert_allclose(f(a, b), a.astype("f8") @ b.astype("f8"), rtol=1e-4)


def test_chains_are_enough_and_threads_have_a_part_each() -> None:
    tree = default_schedule(product(1, 30_000, 20)[-1], "llvm -mcpu=znver5 -num-cores=2").tree()
    assert "float32[4, 1, 1, 20]" in tree
    assert any("0..2 " in line and "parallel" in line for line in tree.splitlines())


@pytest.mark.parametrize("shape", [(8, 30_000, 20), (1, 100, 20), (1, 30_000, 200)])
def test_sums_that_are_chains_enough_or_short_are_one(shape: tuple[int, int, int]) -> None:
    tree = default_schedule(product(*shape)[-1], "llvm -mcpu=znver5 -num-cores=1").tree()
    assert ".rf" not in tree
