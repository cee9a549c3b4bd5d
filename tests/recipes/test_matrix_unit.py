"""Products of 8-bit integers in the tiles of a matrix unit: exact for every combination of signs, with rests of
columns and sums, and the loops stay what the interpreter runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.runtime.export import needed_symbols
from tests.fuzz.harness import run

AMX = "llvm -mcpu=icelake-server -mattr=+amx-int8,+amx-tile"
SIGNS = list(itertools.product(("uint8", "int8"), repeat=2))
# one tile, several; rests of columns, of the sum and of rows; a low tile; one step only, and none that is whole;
# few columns
SIZES = [
    (32, 64, 32),
    (96, 128, 64),
    (64, 200, 41),
    (5, 133, 100),
    (40, 64, 33),
    (77, 199, 70),
    (34, 262, 15),
    (101, 30, 24),
]
here = pytest.mark.skipif(not tl.Target.host().has_tiles, reason="this processor or system has no tiles")


def declared(m, k, n, left, right):
    a, b = te.placeholder((m, k), left, name="a"), te.placeholder((k, n), right, name="b")
    r = te.reduce_axis((0, k), "k")
    sums = lambda i, j: te.sum(te.cast("int32", a[i, r]) * te.cast("int32", b[r, j]), axis=r)
    return a, b, te.compute((m, n), sums, name="c")


def values(shape, kind, seed):
    info = np.iinfo(kind)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, kind, endpoint=True)


@pytest.mark.each_value
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


def test_the_explanation_tells_of_tiles():
    a, b, c = declared(77, 199, 70, "uint8", "int8")
    told = [x for x in tl.compile([a, b, c], target=AMX).explain().loops if x.in_tiles]
    assert told and all(x.writes == ("c.local",) for x in told)
    assert "in tiles of a matrix unit, rows of 32 sums" in str(tl.compile([a, b, c], target=AMX).explain())
    plain = tl.compile([a, b, c], target="llvm -mcpu=icelake-server").explain()
    assert not any(x.in_tiles for x in plain.loops)


@pytest.mark.parametrize("size", [(34, 70, 30), (340, 25, 8)])
def test_what_the_tiles_stand_for_is_exact_where_there_are_none(size):
    m, k, n = size
    a, b, c = declared(m, k, n, "uint8", "int8")
    with tl.Target.parse(AMX):
        s = default_schedule([c])
    run([a, b, c], [c], {"a": (0, 255), "b": (-128, 128)}, s, [{}])


def batches(shape, left, right, shared=False):
    """A product for each index of the first axis; ``shared``: all with the same right operand."""
    count, m, k, n = shape
    a = te.placeholder((count, m, k), left, name="a")
    b = te.placeholder((k, n) if shared else (count, k, n), right, name="b")
    r = te.reduce_axis((0, k), "k")

    def sums(p, i, j):
        other = b[r, j] if shared else b[p, r, j]
        return te.sum(te.cast("int32", a[p, i, r]) * te.cast("int32", other), axis=r)

    return a, b, te.compute((count, m, n), sums, name="c")


@here
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("shape", [(3, 33, 61, 40), (7, 16, 100, 33), (1, 70, 130, 77)])
def test_batches_are_exact(shape, shared, threads):
    count, m, k, n = shape
    a, b, c = batches(shape, "int8", "uint8", shared)
    x = values((count, m, k), "int8", 9)
    y = values((k, n) if shared else (count, k, n), "uint8", 10)
    f = tl.compile([a, b, c])
    assert "tdpbsud" in f.get_source("asm")
    before = tl.num_threads()
    tl.set_num_threads(threads)
    try:
        got = np.full((count, m, n), -1, "int32")
        f(x, y, got)
    finally:
        tl.set_num_threads(before)
    np.testing.assert_array_equal(got, x.astype("int32") @ y.astype("int32"))


@here
@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_number_of_rows_is_exact(threads):
    a, b, c = declared(te.var("m"), 150, 70, "int8", "int8")
    y = values((150, 70), "int8", 11)
    f = tl.compile([a, te.compute(c.shape, lambda i, j: c[i, j] + 1, name="d")], constants={b: y})
    assert "tdpbssd" in f.get_source("asm")
    before = tl.num_threads()
    tl.set_num_threads(threads)
    try:
        for m in (0, 1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 64, 65, 131):
            x, got = values((m, 150), "int8", m), np.full((m, 70), -1, "int32")
            f(x, got)
            np.testing.assert_array_equal(got, x.astype("int32") @ y.astype("int32") + 1)
    finally:
        tl.set_num_threads(before)


@here
def test_operands_that_lie_along_the_columns_are_exact():
    m, k, n = 67, 101, 55
    r = te.reduce_axis((0, k), "k")
    x, y = values((m, k), "uint8", 12), values((k, n), "int8", 13)
    for left, right in ((False, True), (True, False), (True, True)):
        a = te.placeholder((k, m) if left else (m, k), "uint8", name="a")
        b = te.placeholder((n, k) if right else (k, n), "int8", name="b")

        def sums(i, j, a=a, b=b, left=left, right=right):
            one, other = a[r, i] if left else a[i, r], b[j, r] if right else b[r, j]
            return te.sum(te.cast("int32", one) * te.cast("int32", other), axis=r)

        f = tl.compile([a, b, te.compute((m, n), sums, name="c")])
        got = np.empty((m, n), "int32")
        given = [np.ascontiguousarray(v.T) if turned else v for v, turned in ((x, left), (y, right))]
        f(*given, got)
        assert "tdpbusd" in f.get_source("asm")
        np.testing.assert_array_equal(got, x.astype("int32") @ y.astype("int32"))


def test_a_configuration_is_made_once_for_all_tiles_of_a_height():
    a, b, c = declared(96, 256, 320, "uint8", "int8")
    asm = tl.compile([a, b, c], target=AMX).get_source("asm")
    body = asm[asm.index("ldtilecfg") :]
    # one for all: behind it are all products and no other, and tiles are given back once
    assert asm.count("ldtilecfg") == asm.count("tilerelease") == 1 and body.count("tdpbusd") == 4
    a, b, c = declared(97, 256, 320, "uint8", "int8")
    assert tl.compile([a, b, c], target=AMX).get_source("asm").count("tdpbusd") == 4  # heights need no code


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
