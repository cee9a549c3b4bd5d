"""Vectors of integers are divided as floats that hold their quotients, and give what integers do."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """All of 8 bits; of others the limits, powers of two, numbers at random, and multiples with neighbours."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if high < 256:
        every = np.arange(low, high + 1)
        a, b = (x.ravel() for x in np.meshgrid(every, every[every != 0]))
        return a.astype(kind), b.astype(kind)
    rng = np.random.default_rng(7)
    powers = [1 << k for k in range(high.bit_length())]
    edge = np.array(
        [low, high, low + 1, high - 1, 3, 5, 255, 257, *powers, *[p - 1 for p in powers if p > 1]]
    )
    some = rng.integers(low, high, 100, endpoint=True)
    b = np.concatenate([edge, -edge, some, some >> 8])
    b = b[(b != 0) & (b >= low) & (b <= high)]
    a = np.concatenate([edge, some])
    a, b = (x.ravel() for x in np.meshgrid(a, b))
    whole = a // b * b
    a, b = np.concatenate([a, whole, whole - 1, whole + 1]), np.tile(b, 4)
    fits = (a >= low) & (a <= high)
    return a[fits].astype(kind), b[fits].astype(kind)


def c_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = a.astype(object), b.astype(object)
    return np.array([abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y, strict=True)])


OPS = {
    "floordiv": (lambda a, b: a // b, lambda a, b: a // b),
    "floormod": (lambda a, b: a % b, lambda a, b: a % b),
    "truncdiv": (te.truncdiv, c_quotient),
    "truncmod": (te.truncmod, lambda a, b: a - c_quotient(a, b) * b),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("target", ["llvm", HASWELL])
def test_quotients_and_rests(kind: str, name: str, target: str) -> None:
    here, there = OPS[name]
    a, b = pairs(kind)
    x, y = (te.placeholder(a.shape, kind, name=n) for n in "xy")
    out = te.compute(a.shape, lambda i: here(x[i], y[i]), name="out")
    got = tl.compile([x, y, out], target=target)(a, b)
    want = there(a.astype("int64"), b.astype("int64")).astype("int64").astype(kind)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_one_divisor_of_all(kind: str) -> None:
    a, b = pairs(kind)
    x, y = te.placeholder(a.shape, kind, name="x"), te.placeholder((1,), kind, name="y")
    out = te.compute(a.shape, lambda i: x[i] // y[0], name="out")
    f = tl.compile([x, y, out])
    for divisor in np.unique(b)[:: max(1, len(np.unique(b)) // 40)]:
        want = (a.astype("int64") // int(divisor)).astype(kind)
        np.testing.assert_array_equal(f(a, np.array([divisor])), want)


def test_no_lane_is_divided_by_itself() -> None:
    for kind in KINDS:
        x, y = (te.placeholder((64, 100), kind, name=n) for n in "xy")
        out = te.compute(x.shape, lambda i, j, x=x, y=y: x[i, j] // y[i, j], name="out")
        body = tl.compile([x, y, out], target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4")
        assert "vdivp" in body.get_source("asm")
        assert "idiv" not in body.get_source("asm").split("out.parallel:")[0]
