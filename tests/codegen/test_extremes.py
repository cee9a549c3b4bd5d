"""Minima and maxima that hand NaN on: by an instruction that puts it in its place where that is quick (a Zen
5), in vectors of any length, and where tiles of them are read from memory; by a mask elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

from .helper import Func, Kernel, Store, buffer, load, loop, make, ramp
from .test_assembly import AVX512, inner_loop

ZEN5 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5"
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 1e-42, -1e-42]


def assembly(shape, axis, dtype="float32", target=ZEN5, word="max"):
    x = te.placeholder(shape, dtype, name="x")
    return tl.compile([x, getattr(ops, word)(x, axis)], target=target).get_source("asm")


@pytest.mark.parametrize("word", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_mask_tells_where_nan_is(word, dtype):
    """Registers of masks are few: as many extremes as there were of them were under way, and columns from
    memory took 1.25 times as long."""
    asm = assembly((64, 512), 1, dtype, word=word)
    assert "vfixupimmp" in asm and "vcmpordp" not in asm
    assert "vfixupimmp" not in assembly((64, 512), 1, dtype, AVX512, word)
    # half floats are widened, and whole numbers have none
    assert "vfixupimmp" not in assembly((64, 512), 1, "int32", word=word)


def test_what_comes_from_memory_is_read_before_the_tile_is_asked_about():
    """An operand in memory of an instruction under a mask is read when the mask is there: of the largest of
    each column, when that of the row before is. Columns of 41 MB took twice as long."""
    far = inner_loop(assembly((40_000, 256), 0), "vmaxps")
    assert not [i for i in far if i.startswith("vmaxps") and "{%k" in i]
    assert sum(i.startswith("vmaxps") for i in far) == sum(i.startswith("vfixupimmps") for i in far) == 32
    assert not [i for i in far if i.startswith("vmovups") and "(%r" in i], "each row is an operand"
    near = inner_loop(assembly((400, 256), 0), "vmaxps")
    assert all("{%k" in i for i in near if i.startswith("vmaxps"))  # from a cache that is quicker


@pytest.mark.parametrize("word", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("target", ["here", AVX512], ids=["here", "avx512"])
def test_all_pairs_of_special_numbers_in_vectors_of_all_lengths(word, dtype, lanes, target):
    if target != "here" and not tl.Target.host().has_masks:
        pytest.skip("this processor has no masks")
    n = 192
    a, b, c = buffer("A", dtype, n), buffer("B", dtype, n), buffer("C", dtype, n)

    def extreme(at):
        place = (ramp(at * lanes, lanes),)
        return Store(c, getattr(make, f"{word}_")(load(a, place), load(b, place)), place)

    func = Func("k", (a, b, c), loop(n // lanes, extreme), (), (c,))
    f = Kernel(func, None if target == "here" else tl.Target.parse(target))
    x, y = (np.resize(v, n).astype(dtype) for v in (np.repeat(SPECIAL, len(SPECIAL)), SPECIAL))
    got, read = np.zeros(n, dtype), np.zeros(n, dtype)
    f(x, y, got)
    interpret(func, x, y, read)
    want = (np.maximum if word == "max" else np.minimum)(x, y)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(read, want, equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (9, 256), (33, 96), (64, 67)])
def test_nan_anywhere_is_the_largest_and_the_smallest(shape, dtype, axis):
    x = te.placeholder(shape, dtype, name="x")
    outs = [ops.max(x, axis), ops.min(x, axis)]
    f = tl.compile([x, *outs])
    text = tl.lower(default_schedule(outs, ZEN5), [x, *outs])
    rng = np.random.default_rng(shape[1])
    for nans in (0, 1, 5):
        a = rng.standard_normal(shape).astype(dtype)
        a.reshape(-1)[rng.integers(0, a.size, nans)] = np.nan
        want = [a.max(axis), a.min(axis)]
        read = [np.zeros_like(w) for w in want]
        interpret(text, a, *read)
        for got, r, w in zip(f(a), read, want, strict=True):
            assert np.array_equal(got, w, equal_nan=True)
            assert np.array_equal(r, w, equal_nan=True)


def test_columns_that_no_cache_holds_hand_nan_on():
    shape = (45_000, 96)
    x = te.placeholder(shape, name="x")
    f = tl.compile([x, ops.max(x, 0)])
    a = np.random.default_rng(3).standard_normal(shape).astype("float32")
    assert np.array_equal(f(a), a.max(0))
    for row in (0, 1, 22_500, 44_999):
        a[row, row % 96] = np.nan
        assert np.array_equal(f(a), a.max(0), equal_nan=True)
