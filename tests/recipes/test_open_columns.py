"""Products of an open number of columns, few of which a call tells: one masked vector for a row; right for
sizes of none, one, primes, a whole vector and more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(11)
SIZES = ((0, 5, 4, 3), (3, 0, 4, 3), (2, 3, 0, 5), (2, 3, 4, 0), (1, 1, 1, 1), (3, 5, 4, 3))
LARGER = ((2, 9, 17, 16), (4, 2, 3, 7), (2, 8, 9, 17), (3, 13, 5, 33), (1, 4, 31, 15))


def product(n, m, p, c, dtype, turned_a, turned_b, batch):
    front = [n] if batch else []
    x = te.placeholder((*front, *((p, m) if turned_a else (m, p))), dtype, "x")
    y = te.placeholder((*front, *((c, p) if turned_b else (p, c))), dtype, "y")
    return x, y, ops.matmul(x, y, transpose_a=turned_a, transpose_b=turned_b)


def arrays(n, m, p, c, dtype, turned_a, turned_b, batch):
    front = [n] if batch else []
    a = RNG.integers(-3, 4, (*front, m, p)).astype(dtype)
    b = RNG.integers(-3, 4, (*front, p, c)).astype(dtype)
    turn = lambda x, turned: np.ascontiguousarray(x.swapaxes(-1, -2)) if turned else x
    return turn(a, turned_a), turn(b, turned_b), a @ b


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize("known", ["none", "m", pytest.param("p", marks=LONG)])
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "one"])
@pytest.mark.parametrize("turned", list(itertools.product((False, True), repeat=2)), ids=str)
def test_products_of_an_open_number_of_columns(turned, batch, known, dtype):
    n, m, p, c = te.dim("n"), te.dim("m"), te.dim("p"), te.dim("c")
    sizes = [s for s in (*SIZES, *LARGER) if (known != "m" or s[1] == 5) and (known != "p" or s[2] == 4)]
    m, p = 5 if known == "m" else m, 4 if known == "p" else p
    x, y, out = product(n, m, p, c, dtype, *turned, batch)
    f = tl.compile([x, y, out])
    with asking({c: 8 if dtype == "float64" else 16}):
        short = tl.lower(default_schedule(out, AVX512), [x, y, out])
    for size in sizes:
        a, b, want = arrays(*size, dtype, *turned, batch)
        assert np.array_equal(f(a, b), want), size
        if size[3] <= 8 and size[1] < 9:
            got = np.zeros_like(want)
            interpret(short, a, b, got)
            assert np.array_equal(got, want), size


@pytest.mark.parametrize("turned", [False, True], ids=["lines", "columns"])
def test_a_row_of_few_columns_is_one_vector(turned):
    """A tile had three vectors, of which two were empty, and the mask of each was made for every tile."""
    n, m, p, c = (te.dim(name) for name in "nmpc")
    x, y, out = product(n, m, p, c, "float32", False, turned, True)
    with asking() as asked:
        default_schedule(out, AVX512)
    assert any(e is c and most == 16 for e, most in asked.choices())
    with asking({c: 16}):
        schedule = default_schedule(out, AVX512)
    loops = [line for line in schedule.tree().splitlines() if "loop" in line]
    assert "j.outer" in loops[0] and "b0" in loops[1], loops
    assert ("global" in schedule.tree()) == turned  # a panel for each product
    with asking() as asked:
        default_schedule(out, AVX2)
    assert not any(e is c for e, _ in asked.choices())


def test_a_right_operand_that_all_rows_share_keeps_its_panels():
    m, p, c = (te.dim(name) for name in "mpc")
    x, y = te.placeholder((te.dim("n"), m, p), name="x"), te.placeholder((p, c), name="y")
    out = ops.matmul(x, y)
    f = tl.compile([x, y, out])
    for size in ((2, 3, 4, 5), (1, 7, 2, 16), (3, 2, 9, 33)):
        a, b, _ = arrays(*size, "float32", False, False, True)
        assert np.array_equal(f(a, b[0]), a @ b[0]), size
