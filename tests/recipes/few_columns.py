"""Products of few columns and what they must give: for the tests of the recipes that compute them. Knows no
recipe."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import ops, te
from tests.codegen.test_assembly import AVX2


def product(m: int, k: int, n: int, dtype: str = "float32", batch: int = 0) -> list[te.Tensor]:
    front = (batch,) if batch else ()
    A = te.placeholder((*front, m, k), dtype, name="A")
    B = te.placeholder((*front, k, n), dtype, name="B")
    return [A, B, ops.relu((ops.batch_matmul if batch else ops.matmul)(A, B))]


def gives_the_product(m: int, k: int, n: int, batch: int, dtype: str, fixed: bool) -> None:
    """That of whole numbers, exactly, here and in code for AVX2."""
    front = (batch,) if batch else ()
    rng = np.random.default_rng(m * 101 + k)
    a, b = (rng.integers(-4, 5, (*front, *shape)).astype(dtype) for shape in ((m, k), (k, n)))
    for target in (None, AVX2):
        A, B, C = product(m, k, n, dtype, batch)
        given = [A, C] if fixed else [A, B, C]
        f = tl.compile(given, target=target, constants={B: b} if fixed else {})
        assert np.array_equal(f(a) if fixed else f(a, b), np.maximum(a @ b, 0))
