"""Operations on bits against numpy: every width, signs, shifts beyond the type, bools, broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import INTS, compiled, exact

ops = tl.ops


def numbers(t, shape, seed):
    info = np.iinfo(t)
    return np.random.default_rng(seed).integers(info.min, info.max, shape, t, endpoint=True)


@pytest.mark.parametrize("t", [*INTS, "uint64", "bool"])
def test_of_two_and_of_one(t):
    a, b = (
        (numbers(t, (3, 17), 1), numbers(t, (17,), 2))
        if t != "bool"
        else (numbers("int8", (3, 17), 1) > 0, numbers("int8", (17,), 2) > 0)
    )
    x, y = te.placeholder((3, 17), t, name="x"), te.placeholder((17,), t, name="y")
    names = ("bitwise_and", "bitwise_or", "bitwise_xor")
    got = compiled([*[getattr(ops, n)(x, y) for n in names], ops.bitwise_not(x)], {x: a, y: b})
    for name, g in zip(names, got, strict=False):
        exact(g, getattr(np, name)(a, b), t)
    exact(got[-1], np.invert(a), t)


@pytest.mark.parametrize("t", [*INTS, "uint64"])
def test_shifts(t):
    a = numbers(t, (70, 3), 1)
    by = np.arange(70).astype(t)[:, None]
    x, y = te.placeholder((70, 3), t, name="x"), te.placeholder((70, 1), t, name="y")
    left, right, three = compiled(
        [ops.left_shift(x, y), ops.right_shift(x, y), ops.right_shift(x, 3)], {x: a, y: by}
    )
    exact(left, np.left_shift(a, by), t)
    exact(right, np.right_shift(a, by), t)
    exact(three, a >> np.asarray(3, t), t)


def test_types_meet_as_in_numpy():
    a, b = numbers("int16", (17,), 1), numbers("uint8", (17,), 2)
    x, y = te.placeholder((17,), "int16", name="x"), te.placeholder((17,), "uint8", name="y")
    exact(compiled(ops.bitwise_xor(x, y), {x: a, y: b}), a ^ b, "int16")


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_floats_have_no_bits(name):
    x, i = te.placeholder((3,), name="x"), te.placeholder((3,), "int32", name="i")
    with pytest.raises(tl.DeclareError, match=rf"ops.{name}: x \(3,\) of float32 is a float"):
        getattr(ops, name)(i, x)
    with pytest.raises(tl.DeclareError, match="integers are needed"):
        getattr(ops, name)(i, 1.5)


def test_bools_are_not_shifted():
    x = te.placeholder((3,), "bool", name="x")
    with pytest.raises(tl.DeclareError, match="the operands are bool"):
        ops.left_shift(x, True)
