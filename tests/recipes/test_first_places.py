"""The first place where something holds: bits of comparisons, asked until one is set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import nowhere
from tensorlang.errors import LowerError, ScheduleError
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

TARGET = "llvm -mcpu=znver5 -num-cores=1"


def text(shape: Sequence[Any], dtype: str, op: str = "argmax") -> str:
    x = te.placeholder(shape, dtype, name="x")
    out = getattr(ops, op)(x, axis=-1)
    return str(tl.lower(default_schedule(out, TARGET), [x, out]))


def assembly(shape: Sequence[Any], dtype: str) -> str:
    x = te.placeholder(shape, dtype, name="x")
    out = ops.argmax(x, axis=-1)
    return tl.build(default_schedule(out, TARGET), [x, out], target=TARGET).get_source("asm")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "int64", "bool"])
def test_long_rows_end_where_it_is_found(dtype: str) -> None:
    for shape in ((40, 300), (te.var("m"), te.var("n"))):
        found = text(shape, dtype)
        assert "until_known" in found and "argmax.first.rf" not in found
        code = assembly(shape, dtype)
        assert "tzcnt" in code and "vpminsd" not in code


def test_short_rows_are_asked_at_once_and_overlap() -> None:
    found = text((40, 100), "int32")
    assert "until_known" not in found and "36 : 100" in found
    assert "mask" not in found.partition("argmax.first:")[2]


def test_few_elements_stay_in_lanes() -> None:
    assert "argmax.first.rf" in text((40, 41), "int32")
    assert "argmax.first.rf" not in text((40, 41), "bool")


def test_bools_are_read_once() -> None:
    for shape in ((40, 300), (te.var("m"), te.var("n")), (40_000,)):
        found = text(shape, "bool")
        assert "argmax.value" not in found and "argmax.blocks" not in found


def test_a_processor_without_bits_of_comparisons_stays_as_it_was() -> None:
    x = te.placeholder((40, 300), "int32", name="x")
    out = ops.argmax(x, axis=-1)
    s = default_schedule(out, "llvm -mcpu=znver3 -num-cores=1")
    assert "until_known" not in str(tl.lower(s, [x, out]))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 100, 255, 257, 1999, 4096, 20_011])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool"])
def test_the_place_is_that_of_numpy(dtype: str, n: int, op: str) -> None:
    rng = np.random.default_rng(n)
    rows = te.var("m")
    for shape in ((3, n), (rows, te.var("n"))):
        x = te.placeholder(shape, dtype, name="x")
        f = tl.compile([x, getattr(ops, op)(x, axis=-1)])
        for kind in range(4):
            a = rng.integers(0, 2 if kind else 100, (3, n)).astype(dtype)
            if kind == 2:
                a[:] = a[0, 0]
            if kind == 3 and dtype.startswith("float"):
                a[rng.random((3, n)) < 0.02] = np.nan
                a[1] = -np.inf
            np.testing.assert_array_equal(f(a), getattr(np, op)(a, axis=-1))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_the_place_in_open_rows_of_each_length_is_that_of_numpy(dtype: str, op: str) -> None:
    rng = np.random.default_rng(5)
    x = te.placeholder((te.var("m"), te.var("n")), dtype, name="x")
    f = tl.compile([x, getattr(ops, op)(x, axis=-1)])
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 50, 127, 128, 129, 191, 192, 193, 384, 385, 1536, 1537):
        for m in (1, 8, 11):
            a = rng.integers(0, 3 if dtype != "bool" else 2, (m, n)).astype(dtype)
            if "float" in dtype:
                a[a == 0] = -0.0
                a[0] = -np.inf if op == "argmax" else np.inf
                a[m // 2, rng.integers(n) :] = np.nan
                a[-1, -1] = np.nan
            np.testing.assert_array_equal(f(a), getattr(np, op)(a, axis=-1), err_msg=f"{m} x {n}")


def test_open_rows_of_a_few_vectors_are_several_together() -> None:
    # of one vector with a mask that is the same for all rows, of two side by side, and longer ones
    x = te.placeholder((te.var("m"), te.var("n")), "float64", name="x")
    code = tl.compile([x, ops.argmax(x, axis=-1)], target=TARGET).get_source("ir")
    one, several, long = re.split(r"\n    el(?:if n <= \d+|se):", code)[1:4]
    assert "if n <= 4" in code and "elif n <= 16" in code and "elif n <= 192" in code
    assert "for k1" not in one and "range(0, (n" not in one
    assert "rf: float64[16" in several and "argmax.value_2: float64[4]" in several
    assert "rf_1: float64[32" in long and "argmax.value_3: float64[1]" in long


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_the_place_in_a_tensor_of_open_sizes_is_that_of_numpy(op: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for rank, shapes in (
        (2, [(1, 1), (5, 7), (40, 1), (1, 300), (70, 33), (300, 500), (3, 0), (0, 3)]),
        (3, [(2, 3, 5), (40, 30, 50), (300, 1, 3), (2, 0, 5)]),
        (4, [(2, 3, 4, 5), (10, 20, 30, 40)]),
    ):
        x = te.placeholder([te.var(f"n{d}") for d in range(rank)], dtype, name="x")
        f = tl.compile([x, getattr(ops, op)(x)])
        for shape in shapes:
            for kind in range(3):
                a = rng.integers(0, 2 if kind else 100, shape).astype(dtype)
                if kind == 2 and "float" in dtype and a.size:
                    a[a == 0] = -0.0
                    a.flat[rng.integers(a.size) :] = np.nan
                # of nothing there is no first one
                want = getattr(np, op)(a) if a.size else np.iinfo(np.int64).max
                assert f(a) == want, (shape, kind)


def test_places_in_a_tensor_of_open_sizes_are_first_ones() -> None:
    # counted along the dimensions, the last one innermost: bits of all of it, as one stretch of memory
    x = te.placeholder([te.var("a"), te.var("b"), te.var("c")], "float32", name="x")
    for cores in (1, 2):
        f = tl.compile([x, ops.argmax(x)], target=f"llvm -mcpu=znver5 -num-cores={cores}")
        assert "until_known" in f.get_source("ir") and "argmax.first.rf" not in f.get_source("ir")
        assert "vpgather" not in f.get_source("asm") and "vgather" not in f.get_source("asm")


def test_places_counted_in_another_order_are_no_first_ones() -> None:
    a, b = te.var("a"), te.var("b")
    x = te.placeholder((a, b), "int32", name="x")
    i, j = te.reduce_axis((0, a), "i"), te.reduce_axis((0, b), "j")
    none = te.max_value("int64")

    def least(place: te.Expr) -> te.Tensor:
        return te.compute((), lambda: te.min(te.select(x[i, j] > 7, place, none), axis=[i, j]), name="y")

    row, column, wide = te.cast("int64", i.var), te.cast("int64", j.var), te.cast("int64", b)
    assert nowhere(least(row * wide + column).op) is not None
    assert nowhere(least(wide * row + column + 3).op) is not None
    for place in (
        row + column * te.cast("int64", a),
        row * te.cast("int64", a) + column,
        row * wide * wide + column,
        row * wide + 2 * column,
        row * wide,
        row * wide + te.cast("int64", te.cast("int8", j.var)),
        row * te.cast("int64", te.cast("int8", b)) + column,
        row * row * wide + column,
    ):
        assert nowhere(least(place).op) is None, place


def test_of_numbers_only_equality_is_asked() -> None:
    for n in (300, te.var("n")):
        found = text((te.var("m"), n), "float32")
        assert "if_then_else" in found.partition("argmax.first")[2]
        assert "or isnan" not in found


def test_an_open_row_of_no_bools_has_no_first_one() -> None:
    x = te.placeholder((te.var("m"), te.var("n")), "bool", name="x")
    f = tl.compile([x, ops.argmax(x, axis=-1)])
    np.testing.assert_array_equal(f(np.zeros((2, 0), bool)), np.full(2, np.iinfo(np.int32).max))


def first_of(shape: tuple[int, ...] = (5, 300)) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder(shape, "int32", name="x")
    k = te.reduce_axis((0, shape[-1]), "k")
    none = te.max_value("int32")
    found = te.compute(shape[:-1], lambda i: te.min(te.select(x[i, k] > 7, k.var, none), axis=k), name="y")
    return x, found


@pytest.mark.parametrize("vector", [False, True])
def test_a_loop_of_the_users_ends_at_the_first_place(vector: bool) -> None:
    # in scalar code the elements of a block come one by one, and the first of them may change the answer: what
    # was asked in front of the block held for all of it once
    x, y = first_of()
    s = te.create_schedule(y.op)
    ko, ki = s[y].split(s[y].op.reduce_axis[0], 32)
    s[y].pragma(ko, "until_known")
    if vector:
        s[y].vectorize(ki)
    lowered = tl.lower(s, [x, y])
    assert "if y[i] == 2147483647:" in str(lowered)
    a = np.zeros((5, 300), np.int32)
    a[0, 299], a[2, :], a[3, 31], a[4, 32:] = 8, 9, 10, 11
    want = [299, np.iinfo(np.int32).max, 0, 31, 32]
    np.testing.assert_array_equal(tl.build(s, [x, y])(a), want)
    out = np.empty(5, np.int32)
    interpret(lowered, a, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(("n", "begin", "ends"), [(128, 0, True), (129, 0, False), (100, 100, False)])
def test_places_that_wrap_are_no_first_ones(n: int, begin: int, ends: bool) -> None:
    # behind 127 comes -128, which is less than all places before it
    x = te.placeholder((5, n), "int32", name="x")
    k = te.reduce_axis((0, n), "k")
    none = te.max_value("int8")
    place = te.cast("int8", k.var) + te.const(begin, "int8")
    y = te.compute((5,), lambda i: te.min(te.select(x[i, k] > 7, place, none), axis=k), name="y")
    a = np.zeros((5, n), np.int32)
    a[0], a[1, n // 2 :], a[2, [5, n - 1]], a[3, 0] = 8, 8, 8, 8
    places = (np.arange(n) + begin).astype(np.int8)
    want = np.where(a > 7, places, np.int8(127)).min(axis=1)
    np.testing.assert_array_equal(tl.build(default_schedule(y), [x, y])(a), want)
    s = te.create_schedule(y.op)
    ko, _ = s[y].split(s[y].op.reduce_axis[0], 32)
    if not ends:
        with pytest.raises(ScheduleError, match="least place"):
            s[y].pragma(ko, "until_known")
        return
    s[y].pragma(ko, "until_known")
    np.testing.assert_array_equal(tl.build(s, [x, y])(a), want)


def test_places_made_of_data_are_no_first_ones() -> None:
    # sums of data wrap
    x, first = te.placeholder((300,), "int32", name="x"), te.placeholder((1,), "int32", name="first")
    k = te.reduce_axis((0, 300), "k")
    none = te.max_value("int32")
    y = te.compute((), lambda: te.min(te.select(x[k] > 7, first[0] + k.var, none), axis=k), name="y")
    with pytest.raises(ScheduleError, match="least place"):
        te.create_schedule(y.op)[y].pragma("k", "until_known")
    a, begin = np.full(300, 8, np.int32), np.array([2**31 - 100], np.int32)
    f = tl.build(default_schedule(y, TARGET), [x, first, y])
    assert f(a, begin) == -(2**31)


def test_loops_in_another_order_may_not_ask() -> None:
    _, y = first_of()
    s = te.create_schedule(y.op)
    ko, ki = s[y].split(s[y].op.reduce_axis[0], 32)
    s[y].reorder(ki, ko)
    with pytest.raises(ScheduleError, match="may be less"):
        s[y].pragma(ki, "until_known")


def test_places_that_fall_may_not_ask() -> None:
    x = te.placeholder((300,), "int32", name="x")
    k = te.reduce_axis((0, 300), "k")
    none = te.max_value("int32")
    y = te.compute((), lambda: te.min(te.select(x[k] > 7, 299 - k.var, none), axis=k), name="y")
    s = te.create_schedule(y.op)
    with pytest.raises(ScheduleError, match="least place"):
        s[y].pragma("k", "until_known")


def test_last_tiles_of_the_least_may_overlap_and_of_sums_not() -> None:
    x = te.placeholder((100,), "int32", name="x")
    k = te.reduce_axis((0, 100), "k")
    for reducer, ok in ((te.min, True), (te.max, True), (te.sum, False)):
        y = te.compute((), lambda reducer=reducer: reducer(x[k], axis=k), name="y")
        s = te.create_schedule(y.op)
        _, ki = s[y].split(s[y].op.reduce_axis[0], 64, tail="shift")
        s[y].vectorize(ki)
        if not ok:
            with pytest.raises(LowerError, match="count twice"):
                tl.lower(s, [x, y])
            continue
        assert "mask" not in str(tl.lower(s, [x, y]))
        a = np.arange(100, dtype=np.int32)[::-1].copy()
        assert tl.build(s, [x, y])(a) == (a.min() if reducer is te.min else a.max())


def test_a_loop_is_left_where_nothing_more_can_be_found() -> None:
    x = te.placeholder((te.var("n"),), "bool", name="x")
    out = ops.argmax(x)
    code = tl.build(default_schedule(out, TARGET), [x, out], target=TARGET).get_source("ll")
    assert any("and i1" in line for line in code.splitlines())


def test_threads_keep_what_they_found_to_themselves() -> None:
    x = te.placeholder((te.var("n"),), "float64", name="x")
    out = ops.argmax(x)
    found = str(tl.lower(default_schedule(out, "llvm -mcpu=znver5 -num-cores=2"), [x, out]))
    assert "if argmax.first.rf.local" in found
