"""Masked stores, and what is stored there, have no more lanes than can be on."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.core.dtype import INT32
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.stmt import Alloc, If, Store, seq
from tensorlang.passes.dead_code import dead_code
from tensorlang.passes.live_lanes import live_lanes
from tests.loopir.kernels import buffer, func, loop, n, read, store, var
from tests.passes.same import body_text, same

INTEGERS = np.random.default_rng(0)


def small(*shape: int) -> np.ndarray:
    """Numbers whose sums are exact."""
    return INTEGERS.integers(-4, 5, shape).astype("float32")


def tile(columns: int, test: Expr, first: Expr):
    """Sums of 16 lanes of which as many are stored as there are columns, where a test does not hold."""
    a, c, t = buffer("A", 4, 64), buffer("C", columns), buffer("t", 16, scope="local")
    k, lanes = var("k"), make.ramp(n(0), 1, 16)
    at = make.ramp(first, 1, 16)
    mask = make.lt(at, make.broadcast(make.const(columns, INT32), 16))
    step = store(t, lanes, read(t, lanes) + read(a, k, lanes))
    last = seq(
        store(t, lanes, make.broadcast(make.const(0.0), 16)),
        loop(k, 4, step),
        Store(c, read(t, lanes), (at,), mask),
    )
    return (a, c), If(test, store(c, 0, 1.0), Alloc(t, last))


@pytest.mark.parametrize(("columns", "left"), [(33, 8), (39, 8), (40, 8), (41, None), (32, 0), (30, 0)])
def test_the_last_tile_has_the_lanes_that_are_left(columns: int, left: int | None) -> None:
    j = var("j")
    parameters, body = tile(columns, make.le(j, 1), j * 16)
    before = func("f", parameters, loop(j, 3, body))
    after = dead_code(live_lanes(before))
    text = body_text(after)
    if left is None:
        assert text == body_text(before)
    elif left == 0:
        assert "t[" not in text and "A[" not in text
    else:
        assert f"t[0 : {left}] = t[0 : {left}] + A[k, 0 : {left}]" in text
        assert f"C[j*16 : j*16 + {left}] = t[0 : {left}]" in text and ": 16]" not in text
        assert ("ramp" in text) == (columns < 32 + left), "a mask that is on in all lanes is none"
    same(before, after, coverage=False)
    assert dead_code(live_lanes(after)) is after


def test_of_a_tile_that_may_be_any_all_lanes_stay() -> None:
    j = var("j")
    parameters, body = tile(39, make.le(j, 0), j * 16)
    before = func("f", parameters, loop(j, 3, body))
    assert live_lanes(before) is before


def test_several_widths_are_left_of_a_long_vector() -> None:
    c, j = buffer("C", 100), var("j")
    at = make.ramp(j * 64, 1, 64)
    mask = make.lt(at, make.broadcast(make.const(100, INT32), 64))
    value = make.broadcast(make.const(2.0), 64)
    masked = If(make.le(j, 0), store(c, 0, 1.0), Store(c, value, (at,), mask))
    before = func("f", (c,), loop(j, 2, masked))
    after = live_lanes(before)
    text = body_text(after)
    assert "C[j*64 : j*64 + 32] = x32(2.0)" in text and "C[j*64 + 32 : j*64 + 40] = " in text
    same(before, after, coverage=False)


@pytest.mark.parametrize(
    "target", ["llvm -mcpu=skylake-avx512 -num-cores=1", "llvm -mcpu=haswell -num-cores=1"]
)
@pytest.mark.parametrize(("rows", "columns"), [(36, 103), (35, 103), (18, 295), (27, 391), (7, 71), (36, 17)])
def test_the_last_columns_of_a_product_are_no_whole_tile(rows: int, columns: int, target: str) -> None:
    """Of 729 × 701 × 391 a ninth of the time went into 41 columns that nobody reads."""
    a, b = te.placeholder((rows, 40), name="a"), te.placeholder((40, columns), name="b")
    c = ops.matmul(a, b)
    f = tl.compile([a, b, c], target)
    x, y = small(rows, 40), small(40, columns)
    np.testing.assert_array_equal(f(x, y), x @ y)


def test_the_sums_of_the_last_tile_are_as_many_as_its_columns() -> None:
    a, b = te.placeholder((729, 701), name="a"), te.placeholder((701, 391), name="b")
    f = tl.compile([a, b, ops.matmul(a, b)], "llvm -mcpu=skylake-avx512 -num-cores=1")
    ir = f.get_source("ir")
    assert "matmul.local[0, 0 : 8] = matmul.local[0, 0 : 8] + " in ir
