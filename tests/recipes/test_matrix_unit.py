"""Products of 8-bit integers in the tiles of a matrix unit: exact for every combination of signs, with rests of
columns and sums, and the loops stay what the interpreter runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.runtime.export import needed_symbols

AMX = "llvm -mcpu=icelake-server -mattr=+amx-int8,+amx-tile"
SIGNS = list(itertools.product(("uint8", "int8"), repeat=2))
# one tile, several; rests of columns and of the sum; a low tile; one step only
SIZES = [(32, 64, 32), (96, 128, 64), (64, 200, 41), (8, 68, 100), (16, 64, 33), (5, 132, 33)]
here = pytest.mark.skipif(not tl.Target.host().has_tiles, reason="this processor or system has no tiles")


def declared(m, k, n, left, right):
    a, b = te.placeholder((m, k), left, name="a"), te.placeholder((k, n), right, name="b")
    r = te.reduce_axis((0, k), "k")
    sums = lambda i, j: te.sum(te.cast("int32", a[i, r]) * te.cast("int32", b[r, j]), axis=r)
    return a, b, te.compute((m, n), sums, name="c")


def values(shape, kind, seed):
    info = np.iinfo(kind)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, kind, endpoint=True)


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("size", SIZES)
def test_the_innermost_loop_is_one_of_tiles(size, signs):
    a, b, c = declared(*size, *signs)
    f = tl.compile([a, b, c], target=AMX)
    kinds = "".join("u" if s == "uint8" else "s" for s in signs)
    assert f"tdpb{kinds}d" in f.get_source("asm") and "vpdpb" not in f.get_source("asm")


@here
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("size", SIZES)
def test_sums_are_exact(size, signs, threads):
    m, k, n = size
    a, b, c = declared(*size, *signs)
    x, y = values((m, k), signs[0], 1), values((k, n), signs[1], 2)
    wanted = x.astype("int32") @ y.astype("int32")
    before = tl.num_threads()
    tl.set_num_threads(threads)
    try:
        for constants, given in (({}, [a, b]), ({b: y}, [a])):
            f = tl.compile([*given, c], constants=constants)
            got = np.full((m, n), -1, "int32")
            f(*(x, y)[: len(given)], got)
            np.testing.assert_array_equal(got, wanted)
            assert "tdpb" in f.get_source("asm")
    finally:
        tl.set_num_threads(before)


@here
def test_rows_of_no_one_height_and_sums_of_no_whole_groups_are_exact():
    for m, k, n in ((103, 128, 54), (37, 64, 20), (64, 66, 64), (32, 63, 32)):
        a, b, c = declared(m, k, n, "uint8", "int8")
        x, y = values((m, k), "uint8", 3), values((k, n), "int8", 4)
        got = np.empty((m, n), "int32")
        tl.compile([a, b, c])(x, y, got)
        np.testing.assert_array_equal(got, x.astype("int32") @ y.astype("int32"))


@here
def test_a_saved_kernel_asks_for_the_tiles_itself(tmp_path):
    a, b, c = declared(32, 64, 32, "uint8", "int8")
    tl.compile([a, b, c]).save(tmp_path / "k.tl")
    assert needed_symbols(tl.load(tmp_path / "k.tl").object_code) == (), (
        "a program need define nothing for it"
    )
    x, y, got = values((32, 64), "uint8", 5), values((64, 32), "int8", 6), np.empty((32, 32), "int32")
    tl.load(tmp_path / "k.tl")(x, y, got)
    np.testing.assert_array_equal(got, x.astype("int32") @ y.astype("int32"))


@here
def test_only_kernels_with_tiles_ask_a_processor_for_them():
    x = te.placeholder((8, 32), name="x")
    plain = tl.compile([x, te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")])
    a, b, c = declared(32, 64, 32, "uint8", "int8")
    assert "amx-int8" not in plain.features and "amx-int8" in tl.compile([a, b, c]).features


@here
def test_a_product_with_zero_points_is_exact():
    a, b = te.placeholder((64, 96), "int8", name="a"), te.placeholder((96, 80), "int8", name="b")
    zero = te.placeholder((), "int8", name="zero")
    x, y = values((64, 96), "int8", 7), values((96, 80), "int8", 8)
    got = np.empty((64, 80), "int32")
    f = tl.compile([a, b, zero, out := ops.matmul_integer(a, b, zero)])
    f(x, y, np.array(-7, "int8"), got)
    np.testing.assert_array_equal(got, (x.astype("int32") + 7) @ y.astype("int32"))
    assert "tdpbusd" in f.get_source("asm") and out.dtype == "int32"


def test_a_loop_with_the_pragma_that_is_no_tile_keeps_its_loops():
    x = te.placeholder((8, 32), name="x")
    y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
    s = te.create_schedule(y)
    s[y].pragma("i", "matrix_tiles")
    data, got = np.ones((8, 32), "float32"), np.empty((8, 32), "float32")
    tl.build(s, [x, y])(data, got)
    np.testing.assert_array_equal(got, 2 * data)
