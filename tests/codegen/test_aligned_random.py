"""Random kernels of elements in a row, long enough to begin on a boundary, against numpy: operands along some of
the dimensions, tests and numbers of the place, results that begin anywhere. A scale of channels that are last was
that of another channel once."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

from .test_aligned import placed

ROUNDS = int(os.environ.get("TENSORLANG_FUZZ_ROUNDS", "0")) // 10
SIZES = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 128, 300, 1024, 2050]
TYPES = ["float32", "float64", "int32", "int8", "int16", "uint8"]
LEAST, MOST = 3_000, 400_000  # elements


def shape_of(numbers: np.random.Generator) -> list[int]:
    shape = [int(n) for n in numbers.choice(SIZES, numbers.integers(1, 5))]
    while np.prod(shape) > MOST:
        shape[int(np.argmax(shape))] //= 3
    while np.prod(shape) < LEAST:
        shape[-1] *= 3
    return shape


@pytest.mark.parametrize("seed", range(24 + ROUNDS))
def test_elements_in_a_row(seed):
    numbers = np.random.default_rng(seed)
    for _ in range(6):
        shape, dtype = shape_of(numbers), str(numbers.choice(TYPES))
        open_ = numbers.random() < 0.3
        sizes = [te.size_var(f"n{d}") if open_ and numbers.random() < 0.5 else n for d, n in enumerate(shape)]
        # the dimensions that each operand has; of none, one element of four
        along = [np.flatnonzero(numbers.random(len(shape)) < p) for p in numbers.choice([1.0, 0.5, 0.2], 3)]
        given = [numbers.integers(0, 5, [shape[d] for d in dims] or [4]).astype(dtype) for dims in along]
        read = [
            te.placeholder([sizes[d] for d in dims] or [4], dtype, f"x{k}") for k, dims in enumerate(along)
        ]
        way, period = int(numbers.integers(4)), int(numbers.choice([2, 3, 8, 16]))

        def element(*i, way=way, period=period, read=read, along=along, dtype=dtype):
            a, b, c = (x(*[i[d] for d in dims] or [2]) for x, dims in zip(read, along, strict=True))
            if way == 0:
                return te.max(a + b, c)
            if way == 1:
                return te.if_then_else(a > 2, b, c)
            if way == 2:
                return te.if_then_else((i[-1] % period).equal(0), a, b + c)
            return a + b + c + te.cast(dtype, i[-1] % period)

        whole = [
            np.broadcast_to(
                x.reshape([n if d in dims else 1 for d, n in enumerate(shape)]) if len(dims) else x[2], shape
            )
            for x, dims in zip(given, along, strict=True)
        ]
        a, b, c = whole
        places = np.arange(shape[-1]) % period
        want = [
            lambda a=a, b=b, c=c: np.maximum(a + b, c),
            lambda a=a, b=b, c=c: np.where(a > 2, b, c),
            lambda a=a, b=b, c=c, places=places: np.where(places == 0, a, b + c),
            lambda a=a, b=b, c=c, places=places: a + b + c + places.astype(a.dtype),
        ][way]()
        out = placed(tuple(shape), dtype, int(numbers.integers(20)))
        tl.compile([*read, te.compute(sizes, element, name="out")])(*given, out)
        np.testing.assert_array_equal(out, want.astype(dtype), f"{dtype} {shape} {sizes} {along} way {way}")
