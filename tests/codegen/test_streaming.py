"""Stores past the caches: right wherever an array begins, fenced, and only where the loop does not read what
it writes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

from .test_assembly import AVX2, NEON

ROWS, COLUMNS = 37, 43


def doubled(
    dtype: str = "float32", width: int = 8, parallel: bool = True
) -> tuple[te.Schedule, list[te.Tensor]]:
    x = te.placeholder((ROWS, COLUMNS), dtype, name="x")
    y = te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] + x[i, j], name="y")
    s = te.create_schedule(y.op)
    row, column = y.op.axis
    s[y].vectorize(s[y].split(column, width)[1])
    if parallel:
        s[y].parallel(row)
    s[y].pragma(row, "stream_stores")
    return s, [x, y]


def placed(dtype: str, offset: int) -> np.ndarray:
    """An array of the shape that begins ``offset`` bytes behind a boundary of 64."""
    raw = np.zeros(ROWS * COLUMNS * 8 + 128, np.uint8)
    first = -raw.ctypes.data % 64 + offset
    return raw[first : first + ROWS * COLUMNS * np.dtype(dtype).itemsize].view(dtype).reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("dtype", "width"), [("float32", 8), ("float32", 2), ("float64", 4), ("int8", 32), ("uint16", 16)]
)
def test_every_beginning_of_an_array_is_written_right(dtype: str, width: int, parallel: bool) -> None:
    s, tensors = doubled(dtype, width, parallel)
    f = tl.build(s, tensors)
    x = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(dtype)
    for offset in range(0, 32, np.dtype(dtype).itemsize):
        y = placed(dtype, offset)
        f(x, y)
        assert np.array_equal(y, x + x), offset


@pytest.mark.parametrize("parallel", [False, True])
def test_lines_are_gathered_and_a_fence_follows(parallel: bool) -> None:
    s, tensors = doubled(parallel=parallel)
    asm = tl.build(s, tensors, AVX2).get_source("asm").splitlines()
    stores = [n for n, line in enumerate(asm) if "movntps" in line]
    fences = [n for n, line in enumerate(asm) if "sfence" in line]
    assert stores and any(n > stores[-1] for n in fences)


def test_other_targets_store_plainly() -> None:
    s, tensors = doubled()
    assert "nontemporal" not in tl.build(s, tensors, NEON).get_source("ll")


def test_what_the_loop_reads_again_stays_in_the_caches() -> None:
    x = te.placeholder((ROWS, 64), name="x")
    k = te.reduce_axis((0, ROWS), name="k")
    y = te.compute((64,), lambda j: te.sum(x[k, j], axis=k), name="y")
    s = te.create_schedule(y.op)
    (j,) = y.op.axis
    jo, ji = s[y].split(j, 8)
    s[y].reorder(k, jo, ji)
    s[y].vectorize(ji)
    s[y].pragma(jo, "stream_stores")
    f = tl.build(s, [x, y])
    assert "nontemporal" not in f.get_source("ll")
    a = np.ones((ROWS, 64), "f4")
    assert np.array_equal(f(a), a.sum(0))


@pytest.mark.parametrize(("n", "past"), [(40, True), (197, False), (250, False), (1001, False), (1024, True)])
def test_rows_that_end_within_a_piece_are_written_plainly(n: int, past: bool) -> None:
    """A bias for rows of 197 took 3.8 times as long: a line went to memory once for each of its parts."""
    x, b = te.placeholder(((1 << 26) // n, n), name="x"), te.placeholder((n,), name="b")
    y = te.compute(x.shape, lambda i, j: x[i, j] + b[j], name="y")
    assert ("stream_stores" in str(tl.lower(default_schedule(y, AVX2), [x, b, y]))) is past
    flat = te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="y")  # rows without an end
    assert "stream_stores" in str(tl.lower(default_schedule(flat, AVX2), [x, flat]))


@pytest.mark.parametrize(
    ("n", "past"), [(40, False), (500, False), (600, True), (1000, True), (1004, False), (2001, False)]
)
def test_short_rows_and_those_whose_last_vector_is_masked_are_written_plainly(n: int, past: bool) -> None:
    """Softmax of 150,000 rows of 40 took 14 times as long, a layer norm of 60,000 rows of 100 12 times."""
    x = te.placeholder(((1 << 26) // n, n), name="x")
    for y in (ops.softmax(x, -1), ops.layer_norm(x, n)):
        assert ("stream_stores" in str(tl.lower(default_schedule(y, AVX2), [x, y]))) is past


@pytest.mark.parametrize(("rows", "past"), [(1 << 16, True), (1 << 10, False)])
def test_the_default_schedule_wants_it_where_no_cache_holds_the_result(rows: int, past: bool) -> None:
    x = te.placeholder((rows, 1024), name="x")
    y = te.compute((rows, 1024), lambda i, j: x[i, j] + 1.0, name="y")
    assert ("stream_stores" in str(tl.lower(default_schedule(y, AVX2), [x, y]))) is past
