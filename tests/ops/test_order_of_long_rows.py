"""Long rows in order, in blocks; rows of one element, and the first of fewer rows than lanes: against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import exact
from tests.ops.test_order import FUZZ, everywhere, few

ops = tl.ops
RNG = np.random.default_rng(12)


@pytest.mark.each_value
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("descending", [False, pytest.param(True, marks=FUZZ)])
@pytest.mark.parametrize("t", ["float32", "int32", "uint32", "float64", "int64", "int16", "uint16"])
def test_one_long_row_in_blocks(t, descending, known):
    """Whole and broken blocks, of wide lines and others, and what is merged behind the first cache; integers
    of few digits and of many."""
    sizes = [300, 511, 513, 4095, 4097, 8192, 20000, 70001]
    open_size = te.var("n")
    f = None
    for n in sizes:
        if known or f is None:
            x = te.placeholder((n if known else open_size,), t, name="x")
            f = tl.compile([x, ops.sort(x, -1, descending)])
        for most in (50, 1 << 30):
            a = RNG.integers(0 if t[0] == "u" else -most, most, n).astype(t)
            if t[0] == "f":
                a[RNG.random(n) < 0.01], a[RNG.random(n) < 0.01] = np.nan, -0.0
            want = np.sort(a)
            if descending:  # NaN first
                want = want[::-1]
            got = f(a)
            np.testing.assert_array_equal(got, want)
            assert np.signbit(got[got == 0]).sum() == np.signbit(a[a == 0]).sum()


@pytest.mark.parametrize("t", ["float32", "int64"])
@pytest.mark.parametrize("rows", [2, 7, 17, None])
def test_lanes_are_left_empty_where_few_rows_are_taken_in_them(t, rows):
    m = te.var("rows") if rows is None else rows
    x = te.placeholder((m, 60), t, name="x")
    f = tl.compile([x, *ops.top_k(x, 3)])
    assert "held" in f.get_source("ir") and ("else" in f.get_source("ir")) == (rows is None)
    for given in [rows] if rows else [0, 1, 2, 16, 19]:
        a = np.array(RNG.permuted(np.tile(np.arange(60), (given, 1)), axis=1), t).reshape(given, 60)
        values, at = f(a)
        exact(at, np.argsort(-a, 1, kind="stable")[:, :3], "int64")
        exact(values, -np.sort(-a, 1)[:, :3], t)


@pytest.mark.parametrize("t", ["float32", "int64"])
def test_rows_of_one_element_are_copied(t):
    a = few((5, 1), t)
    x = te.placeholder(a.shape, t, name="x")
    values, at = everywhere([ops.sort(x, 1), ops.argsort(x, 1)], {x: a})
    exact(values, a, t)
    exact(at, np.zeros((5, 1)), "int64")
    assert "key" not in tl.compile([x, ops.sort(x, 1)]).get_source("ir")


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["sort", "argsort", "top_k", "cummax", "cummin", "unique"])
def test_what_16_bit_floats_mean_with_nan_among_them(name, kind):
    """numpy leaves NaN of bfloat16 where they are when it sorts: the meaning of a program was no order."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (5, 33)).astype("float32")
    a = np.where(rng.random(a.shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf], a.shape), a)

    def told(kind):
        x = te.placeholder(a.shape, kind, name="x")
        how = {
            "top_k": lambda: ops.top_k(x, 4, 1),
            "cummax": lambda: ops.cummax(x, 1),
            "cummin": lambda: ops.cummin(x, 1),
            "unique": lambda: ops.unique(x, axis=0),
        }
        made = how[name]() if name in how else getattr(ops, name)(x, 1)
        made = list(made) if isinstance(made, tuple | list) else [made]
        given = a.astype(x.dtype.to_numpy())
        meant = te.reference.evaluate(made, {x: given})
        return meant, tl.compile([x, *made])(given)

    (meant, found), (wanted, _) = told(kind), told("float32")
    found = found if isinstance(found, tuple) else (found,)
    for m, f, w in zip(meant, found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(m).astype(w.dtype), w)
        np.testing.assert_array_equal(np.asarray(f).astype(w.dtype), w)


@pytest.mark.parametrize(("cpu", "wide"), [("znver5", True), ("znver3", False)])
def test_lines_are_as_wide_as_vectors_where_few_keys_are_added(cpu, wide):
    """Of 501 keys two tiles of 16 lines; of 300 they would be a third empty."""
    for n, lines in ((501, wide), (300, False), (4096, True)):
        x = te.placeholder((n,), "int32", name="x")
        out = ops.sort(x)
        target = f"llvm -mcpu={cpu} -num-cores=1"
        made = tl.build(te.create_schedule(out.op), [x, out], target, load=False).get_source("ir")
        assert ("near: int32[256]" in made) == lines, (cpu, n)


@pytest.mark.parametrize("n", [129, 171, 256, 385, 501, 513, 1000, 2047, 4095])
def test_tiles_of_wide_lines_are_in_order(n):
    x = te.placeholder((n,), "float32", name="x")
    f = tl.compile([x, ops.sort(x)])
    for most in (3, n, 1 << 30):
        a = RNG.integers(-most, most, n).astype("float32")
        np.testing.assert_array_equal(f(a), np.sort(a))


@pytest.mark.parametrize("t", ["int32", "int8", "float32"])
def test_a_condition_that_is_no_bool_holds_where_it_is_not_zero(t):
    """A number of its own was added to the count: of 57 the next element was written behind the result."""
    c, a = np.array([0, 57, -3, 0, 1, 0.5 if t == "float32" else 2], t), few((6,), "int16")
    on, x = te.placeholder((6,), t, name="on"), te.placeholder((6,), "int16", name="x")
    got, count = everywhere(list(ops.compress(on, x)), {on: c, x: a})
    assert count == 4
    exact(got, np.concatenate([a[c != 0], [0, 0]]), "int16")
