"""Rests of vectors in one masked vector (the pragma ``whole_vectors``), and rows of own buffers that end where
it ends."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.core.dtype import FLOAT32
from tensorlang.errors import TensorLangError
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Alloc, Buffer, For, Func, If, Store, load, reduction, seq
from tensorlang.passes.pad_rows import pad_rows, row_mask
from tensorlang.passes.vectorize import whole_vectors
from tensorlang.recipes.nests import nest, sums

ROWS, DEPTH = 7, 5


@pytest.mark.parametrize(
    ("n", "lanes"), [(43, 48), (11, 16), (9, 16), (5, 8), (3, 4), (17, 17), (24, 24), (16, 16), (1, 1)]
)
def test_a_rest_of_several_vectors_is_one(n: int, lanes: int) -> None:
    assert whole_vectors(n, 16) == lanes


def _product(n: int, dtype: str = "float32") -> tuple[te.Schedule, list[te.Tensor]]:
    a = te.placeholder((ROWS, DEPTH), dtype, name="A")
    b = te.placeholder((DEPTH, n), dtype, name="B")
    k = te.reduce_axis((0, DEPTH), name="k")
    c = te.compute((ROWS, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    inside, out = s[s.cache_write(c, "local")], s[c]
    i, j = out.op.axis
    loops = nest(out, {"i": i, "j": j}, "io | ii j", {"i": 3}, whole=16)
    own = {"k": inside.op.reduce_axis[0], "i": inside.op.axis[0], "j": inside.op.axis[1]}
    sums(s, inside, out, loops.place, own, "k | i j", whole=16)
    return s, [a, b, c]


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 7, 11, 16, 21, 43, 59])
def test_products_whose_columns_leave_a_rest(n: int, dtype: str) -> None:
    s, args = _product(n, dtype)
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-4, 5, t.shape).astype(dtype) for t in args[:2])
    assert (tl.build(s, args)(a, b) == a @ b).all()
    read = np.full((ROWS, n), 99, dtype)
    interpret(tl.lower(s, args), a, b, read)
    assert (read == a @ b).all()


def test_rows_of_sums_end_with_their_vectors_and_need_no_mask() -> None:
    s, args = _product(43)
    text = str(tl.lower(s, args))
    assert "C.local: float32[3, 48] local" in text
    assert "C.local[0, 32 : 48] = C.local[0, 32 : 48] + x16(A[0, k])" in text.replace("i.outer*3", "0")
    assert "32 : 40" not in text and "40 : 42" not in text


def test_divisors_behind_the_end_are_not_zero() -> None:
    x, y = (te.placeholder((11,), "int32", name=n) for n in "xy")
    z = te.compute((11,), lambda i: te.floordiv(x[i], y[i]), name="z")
    s = te.create_schedule(z)
    s[z].vectorize("i")
    s[z].pragma("i", "whole_vectors", 16)
    a, b = np.arange(11, dtype="int32") - 5, np.array([1, 2, 3, -1, -2, 4, 5, 6, 7, 8, 9], "int32")
    assert (tl.build(s, [x, y, z])(a, b) == a // b).all()


def test_a_buffer_that_is_also_read_otherwise_keeps_its_shape() -> None:
    x = te.placeholder((4, 11), name="x")
    y = te.compute((4, 11), lambda i, j: x[i, j] + 1, name="y")
    z = te.compute((4, 11), lambda i, j: y[i, 10 - j], name="z")
    s = te.create_schedule(z)
    s[y].set_scope("local")
    s[y].compute_at(s[z], "i")
    for stage in (s[y], s[z]):
        stage.vectorize("j")
        stage.pragma("j", "whole_vectors", 16)
    a = np.arange(44, dtype="float32").reshape(4, 11)
    assert (tl.build(s, [x, z])(a) == (a + 1)[:, ::-1]).all()


@pytest.mark.parametrize("lanes", [None, 0, 3, 512])
def test_the_pragma_asks_for_the_lanes_of_a_vector(lanes: int | None) -> None:
    s, args = _product(11)
    with pytest.raises(TensorLangError, match="a power of two from 2 to 256"):
        s[args[2]].pragma(s[args[2]].leaf_iter_vars[-1], "whole_vectors", lanes)


def test_rows_whose_lanes_are_summed_keep_their_masks():
    """A masked lane is a zero of the sum; in the padding there is anything."""
    n = make.const(5, "int32")
    b, x, y = (
        Buffer(name, FLOAT32, shape, scope)
        for name, shape, scope in (("b", (n,), "local"), ("x", (n,), "arg"), ("y", (), "arg"))
    )
    lanes = make.ramp(make.const(0, "int32"), 1, 8)
    mask = row_mask(lanes, n)
    body = Alloc(
        b,
        seq(
            Store(b, load(x, (lanes,), mask), (lanes,), mask),
            Store(y, reduction("add", load(b, (lanes,), mask)), ()),
        ),
    )
    func = Func("main", (x, y), body, outputs=(y,))
    assert pad_rows(func) is func


def _short_row(most: int, chosen: bool = True) -> Func:
    """A row of an open length of at most so many elements, of which lanes are summed."""
    n = te.dim("n")
    size = make.as_expr(n)
    b, x, y = (
        Buffer(name, FLOAT32, shape, scope)
        for name, shape, scope in (("b", (size,), "local"), ("x", (size,), "arg"), ("y", (), "arg"))
    )
    lanes = make.ramp(make.const(0, size.dtype), 1, 16)
    mask = row_mask(lanes, size)
    read = load(b, (lanes,), mask)
    value = make.select(mask, read, make.broadcast(make.const(0, "float32"), 16)) if chosen else read
    body = Alloc(
        b, seq(Store(b, load(x, (lanes,), mask), (lanes,), mask), Store(y, reduction("add", value), ()))
    )
    return Func("main", (x, y), If(make.le(size, most), body), outputs=(y,))


def test_a_short_row_of_an_open_length_has_room_for_its_vectors() -> None:
    """And the sum of its lanes says itself which of them count."""
    text = str(pad_rows(_short_row(16)))
    assert "b: float32[16] local" in text and "select(" in text
    assert "b[0 : 16] if" not in text


@pytest.mark.parametrize(("most", "chosen"), [(16, False), (17, True), (600, True)])
def test_an_open_row_that_may_be_longer_or_whose_lanes_all_count_stays(most: int, chosen: bool) -> None:
    func = _short_row(most, chosen)
    assert pad_rows(func) is func


def _rows_of_vectors(base: int, lanes: int) -> Func:
    """A row of 21 numbers, written 8 at a time and read so many at a time from ``base`` on."""
    n, at = make.const(21, "int32"), te.Var("j")
    b, x, y = (
        Buffer(name, FLOAT32, (n,), scope) for name, scope in (("b", "local"), ("x", "arg"), ("y", "arg"))
    )
    into, out = (make.ramp(make.add(make.mul(at, 8), first), 1, w) for first, w in ((0, 8), (base, lanes)))
    body = seq(
        For(at, make.const(0, "int32"), make.const(3, "int32"), "serial", _copied(b, x, into, n)),
        For(at, make.const(0, "int32"), make.const(2, "int32"), "serial", _copied(y, b, out, n)),
    )
    return Func("main", (x, y), Alloc(b, body), outputs=(y,))


def _copied(to: Buffer, source: Buffer, lanes: Expr, n: Expr) -> Store:
    mask = row_mask(lanes, n)
    return Store(to, load(source, (lanes,), mask), (lanes,), mask)


def test_rows_of_several_vectors_end_with_the_last_of_them() -> None:
    text = str(pad_rows(_rows_of_vectors(0, 8)))
    assert "b: float32[24] local" in text
    assert "b[j*8 : j*8 + 8] = (x[j*8 : j*8 + 8] if" in text


@pytest.mark.parametrize(("base", "lanes"), [(16, 8), (8, 16)], ids=["begins behind the end", "is longer"])
def test_rows_are_no_longer_than_what_is_written_of_them(base: int, lanes: int) -> None:
    func = _rows_of_vectors(base, lanes)
    assert pad_rows(func) is func
