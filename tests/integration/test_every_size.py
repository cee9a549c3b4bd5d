"""A kernel for every size: a matmul declared with a dynamic row count, one register-tiled schedule, right for
every M."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def _kernel(m: object, n: int, k_size: int, rows: int, vector: int) -> tl.Module:
    A = te.placeholder((m, k_size), name="A")
    B = te.placeholder((k_size, n), name="B")
    k = te.reduce_axis((0, k_size), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=rows, y_factor=vector)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[CC].compute_at(s[C], jo)
    i, j = s[CC].op.axis
    (k,) = s[CC].op.reduce_axis
    s[CC].reorder(k, i, j)
    s[CC].unroll(i)
    s[CC].vectorize(j)
    s[C].parallel(io)
    return tl.build(s, [A, B, C], name="dense")


@pytest.mark.parametrize("n", [48, 37])
def test_one_matmul_kernel_is_right_for_every_row_count(n: int) -> None:
    m = te.dim("m", 0, 300)
    f = _kernel(m, n, 29, 6, 16)
    rng = np.random.default_rng(n)
    b = rng.integers(-4, 5, (29, n)).astype("float32")
    wrong = []
    for rows in range(301):
        a = rng.integers(-4, 5, (rows, 29)).astype("float32")
        c = np.full((rows, n), np.nan, "float32")
        f(a, b, c)
        if not np.array_equal(c, a @ b):
            wrong.append(rows)
    assert wrong == []


def test_a_row_count_outside_its_range_is_refused_and_nothing_written() -> None:
    f = _kernel(te.dim("m", 0, 300), 16, 8, 4, 16)
    c = np.full((301, 16), 7, "float32")
    with pytest.raises(tl.CallError, match="300"):
        f(np.zeros((301, 8), "float32"), np.zeros((8, 16), "float32"), c)
    assert (c == 7).all()


def test_nan_and_infinity_in_one_row_do_not_leak_into_others() -> None:
    f = _kernel(te.dim("m", 0, 300), 37, 29, 6, 16)
    rng = np.random.default_rng(5)
    b = rng.integers(-4, 5, (29, 37)).astype("float32")
    for rows in (1, 5, 7, 13):
        a = rng.integers(-4, 5, (rows, 29)).astype("float32")
        clean = f(a, b)
        poisoned = a.copy()
        poisoned[rows // 2, 3] = np.nan
        poisoned[rows // 2, 4] = np.inf
        got = f(poisoned, b)
        keep = np.arange(rows) != rows // 2
        assert np.array_equal(got[keep], clean[keep])
        assert np.isnan(got[rows // 2]).all()
