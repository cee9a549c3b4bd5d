"""Minima and maxima of the lanes of vectors: a NaN in any of them is handed on, and asked for once."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

TARGET = "llvm -mcpu=znver5 -num-cores=1"


def kernel(word: str, dtype: str, lanes: int, target: str | None = None) -> tl.Module:
    x = te.placeholder((te.var("m"), lanes), dtype, name="x")
    k = te.reduce_axis((0, lanes), "k")
    y = te.compute((x.shape[0],), lambda i: getattr(te, word)(x[i, k], axis=k), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].op.reduce_axis[0])
    return tl.build(s, [x, y], target=target)


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("word", ["max", "min"])
def test_a_nan_in_any_lane_is_handed_on(word: str, dtype: str, lanes: int) -> None:
    f = kernel(word, dtype, lanes)
    a = np.random.default_rng(lanes).integers(-9, 9, (3 * lanes + 2, lanes)).astype("float32")
    for at in range(lanes):
        a[at, at] = np.nan
        a[lanes + at, at] = -np.inf
        a[2 * lanes + at, at] = np.inf
    a[-2], a[-1] = np.nan, -np.inf
    a = a.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    np.testing.assert_array_equal(
        np.asarray(f(a)).astype("float32"), getattr(np, word)(a.astype("float32"), axis=1)
    )


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float64", 8)])
def test_a_register_is_asked_for_nan_once(dtype: str, lanes: int) -> None:
    # each half waited for the answer of the one before
    code = kernel("max", dtype, lanes, TARGET).get_source("asm")
    assert len(re.findall(r"vcmpunordp[sd]\s.*zmm", code)) == 1
    assert not re.search(r"vcmpordp[sd]\s.*[xy]mm", code)
