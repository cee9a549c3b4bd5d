"""Lanes compared with a place, as those of a diagonal, are compared in a byte each where that is one register."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

from .test_assembly import AVX2, AVX512

FOUND = {
    "diagonal": lambda i, j: i == j,
    "before": lambda i, j: i < j,
    "from": lambda i, j: i <= j,
    "behind": lambda i, j: j < i,
    "to": lambda i, j: j <= i,
    "further": lambda i, j: j == i + 100,
    "nearer": lambda i, j: j == i - 70,
    "turned": lambda i, j: j == 50 - i,
    "column": lambda i, j: j == 5,
    "far": lambda i, j: i * 1_000_000_000 <= j,
}


def matrix(rows: int, columns: int, dtype: str, found: str) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder((rows, columns), dtype, name="x")
    zero = te.const(0, dtype)
    kept = te.compute((rows, columns), lambda i, j: te.select(FOUND[found](i, j), x[i, j], zero), name="y")
    return x, kept


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "float32"])
@pytest.mark.parametrize("shape", [(130, 197), (3, 300), (200, 63)], ids=str)
@pytest.mark.parametrize("found", list(FOUND))
def test_lanes_are_compared_with_their_place(found, shape, dtype):
    x, y = matrix(*shape, dtype, found)
    a = np.random.default_rng(5).integers(1, 9, shape).astype(dtype)
    i, j = np.meshgrid(*map(np.arange, shape), indexing="ij")
    want = np.where(FOUND[found](i.astype("int64"), j.astype("int64")), a, np.zeros((), dtype))
    np.testing.assert_array_equal(tl.compile([x, y])(a), want)
    if shape == (3, 300):
        got = np.zeros_like(want)
        interpret(tl.lower(default_schedule(y), [x, y]), a, got)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("target", "register"), [(AVX512, "zmm"), (AVX2, "ymm")], ids=["avx512", "avx2"])
def test_a_diagonal_of_bytes_is_one_comparison(target, register):
    """It took four of 32 bits for each vector of 64 bytes, and 2.2 times as long."""
    x, y = matrix(130, 197, "uint8", "diagonal")
    text = tl.compile([x, y], target=target).get_source("asm")
    assert re.search(rf"vpcmpeqb\t.*{register}", text) and not re.search(rf"vpcmpeqd\t.*{register}", text)
