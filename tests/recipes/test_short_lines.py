"""Products of few columns from several lines of the right operand in one vector: exact on awkward sizes, and
read as they lie."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, NEON
from tests.recipes.few_columns import gives_the_product, product


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 5000, 3), (1, 3871, 2), (1, 16365, 2), (1, 1401, 3)])
def test_lines_of_few_columns_lie_side_by_side(m: int, k: int, n: int, target: str) -> None:
    """One row by three columns was one chain of sums of three lanes."""
    tree = default_schedule(product(m, k, n)[-1], target).tree()
    assert "k.inner.j.fused" in tree and "B.global" not in tree


@pytest.mark.parametrize(("m", "k", "n"), [(1, 5000, 48), (16, 20, 12), (500, 1000, 2), (1, 9, 3)])
def test_full_vectors_short_sums_and_many_rows_do_not(m: int, k: int, n: int) -> None:
    assert "k.inner.j.fused" not in default_schedule(product(m, k, n)[-1], AVX512).tree()


def test_lines_are_read_as_they_lie() -> None:
    """Whole vectors of the right operand, and no element picked out of memory in the loop."""
    text = tl.compile(product(1, 4800, 3), target=AVX512).get_source("asm")
    loop = [line for line in text.splitlines() if "vfmadd" in line]
    assert len(loop) >= 3 and all("zmm" in line for line in loop) and "gather" not in text


@pytest.mark.each_value
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    ("m", "k", "n", "batch"),
    [(1, 400, 3, 0), (1, 391, 2, 0), (2, 594, 6, 0), (7, 1003, 2, 0), (1, 333, 13, 0), (3, 250, 2, 2)],
)
def test_lines_give_the_product(m: int, k: int, n: int, batch: int, dtype: str, fixed: bool) -> None:
    gives_the_product(m, k, n, batch, dtype, fixed)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 391, 3), (40, 64, 3), (33, 70, 45), (128, 128, 128)])
def test_whole_numbers_wrap_around_as_those_of_numpy(m: int, k: int, n: int, dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(k)
    a, b = (rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in ((m, k), (k, n)))
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    assert np.array_equal(tl.compile([A, B, ops.matmul(A, B)])(a, b), a @ b)


@pytest.mark.parametrize(("k", "n"), [(300, 10), (100, 3), (1000, 12)])
def test_a_single_row_of_no_matrix(k: int, n: int) -> None:
    """It has no loop around its tile, and was refused with a Python error."""
    a, x = te.placeholder((k, n), name="a"), te.placeholder((k,), name="x")
    r = te.reduce_axis((0, k), name="r")
    f = tl.compile([a, x, te.compute((n,), lambda j: te.sum(a[r, j] * x[r], axis=r), name="o")])
    rng = np.random.default_rng(n)
    m, v = rng.integers(-4, 5, (k, n)).astype("float32"), rng.integers(-4, 5, k).astype("float32")
    assert np.array_equal(f(m, v), v @ m)
