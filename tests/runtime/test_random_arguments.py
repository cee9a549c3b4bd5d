"""Arguments at random, most of them wrong: a call is right or refused with one CallError, on both paths
alike, and an arena of memory that all arrays are cut from changes in no byte but those of the outputs of a
call that is right. A second, naive reading of the rules says which is due."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import CallError

from . import kernels
from .foreign import Foreign

ARENA = np.zeros(512, np.float32)
BEFORE = np.random.default_rng(1).integers(-4, 5, 512).astype(np.float32)


class Mine(np.ndarray):
    """A subclass that changes nothing."""


@functools.cache
def mixed() -> tl.Module:
    """y[m, n] = x[m, n] * alpha + k + v[n], x and y lying anyhow."""
    m, n = te.dim("m", 0, 1 << 31), te.var("n")
    x = te.placeholder((m, n), name="x", strides="any")
    v = te.placeholder((n,), name="v")
    alpha, k = te.var("alpha", "float32"), te.var("k", "int8")
    y = te.compute((m, n), lambda i, j: x[i, j] * alpha + k.astype("float32") + v[j], name="y")
    return tl.build(
        te.create_schedule(y.op),
        [x, v, alpha, k, y],
        name="mixed",
        binds={y: te.decl_buffer((m, n), name="y", strides="any")},
    )


def cut(rng: np.random.Generator, rank: int, sizes: list[int]) -> np.ndarray:
    """A view of the arena: compact mostly, sometimes stepping, reversed, repeated or transposed."""
    shape = tuple(sizes[:rank])
    start = int(rng.integers(0, 400))
    whole = int(np.prod(shape))
    plain = ARENA[start : start + whole]
    if plain.size < whole:
        plain = ARENA[:whole]
    a = plain.reshape(shape)
    kind = int(rng.integers(0, 12))
    if kind == 0:
        return a[..., ::-1]
    if kind == 1 and rank == 2:
        return ARENA[start % 100 :][: 2 * whole].reshape(shape[0], -1)[:, ::2] if whole else a
    if kind == 2 and rank == 2:
        return ARENA[start % 200 : start % 200 + whole].reshape(shape[::-1]).T
    if kind == 3:
        return np.broadcast_to(ARENA[start : start + 1].reshape((1,) * rank), shape)
    if kind == 4:
        return np.lib.stride_tricks.as_strided(
            ARENA[start % 100 :],
            shape,
            tuple(4 * int(s) for s in rng.integers(-2, 9, rank))
            if start % 100 > 40
            else tuple(4 * int(s) for s in rng.integers(0, 9, rank)),
        )
    if kind == 5 and rank:
        return ARENA[start % 300 : start % 300 + 2 * whole].reshape(2 * shape[0], *shape[1:])[::-2]
    return a


def pick(rng: np.random.Generator, rank: int, sizes: list[int]) -> Any:
    """An argument for an array of that rank; right more often than not."""
    a = cut(rng, rank, sizes)
    kind = int(rng.integers(0, 60))
    if kind == 0:
        return a.astype(rng.choice(["f8", ">f4", "i4", "f2", "O", "c8", "U4", "?", "m8[s]"]))
    if kind == 1:
        return np.zeros(a.shape, [("u", "f4"), ("v", "u1")])["u"]
    if kind == 2:
        return np.zeros(max(1, a.nbytes) + 1, np.uint8)[1:][: a.nbytes].view(np.float32).reshape(a.shape)
    if kind == 3:
        return rng.choice(np.array([None, 1, 2.5, "x", np.float32(3), 1j, b"bytes", print], dtype=object))
    if kind == 4:
        return a.tolist() if rng.random() < 0.7 else memoryview(bytes(8))
    if kind == 5:
        frozen = a.copy()
        frozen.flags.writeable = False
        return frozen
    if kind == 6:
        return a[None] if rng.random() < 0.5 else np.float32(1).reshape(())
    if kind == 7:
        return a.view(Mine)
    if kind == 8:
        return (
            np.ma.masked_array(a, mask=True)
            if rng.random() < 0.5
            else np.ones((2, 2), np.float32).view(np.matrix)
        )
    if kind in (9, 10):
        return Foreign(a, versioned=bool(rng.random() < 0.8))
    if kind == 11:
        return np.zeros(a.shape, [("u", "f4"), ("v", "f4")])[
            "v"
        ]  # whole elements apart, but compact it is not
    if kind == 12:
        return np.broadcast_to(np.float32(1), (1 << 40,) * rank if rank == 1 else (1 << 33, 1 << 27))
    if kind == 13:
        return cut(rng, rank, [int(rng.integers(0, 5)) for _ in sizes])
    return a


def number(rng: np.random.Generator, name: str) -> Any:
    right: list[Any] = (
        [2.0, 1, True, np.float32(0.5), np.array(3)]
        if name == "alpha"
        else [3, -2, np.int64(5), np.array(7), True]
    )
    wrong: list[Any] = (
        ["1", None, 1j, [1], np.ones(3)]
        if name == "alpha"
        else [1.5, 128, -129, 2**70, "1", None, np.float32(2), [1]]
    )
    return (wrong if rng.random() < 0.05 else right)[int(rng.integers(0, 5))]


def held(a: Any) -> Any:
    """The array behind an argument, with whether it may be written."""
    if isinstance(a, Foreign):
        return a.array, a.versioned and a.array.flags.writeable
    return (
        (a, a.flags.writeable)
        if isinstance(a, np.ndarray) and not isinstance(a, np.ma.MaskedArray)
        else (None, False)
    )


def offsets(a: np.ndarray) -> set[int]:
    """The address of every byte of a small array."""
    at = np.zeros(a.shape, np.int64) + a.__array_interface__["data"][0]
    for d, s in enumerate(a.strides):
        at += (np.arange(a.shape[d]) * s).reshape([-1 if e == d else 1 for e in range(a.ndim)])
    return {int(x) + i for x in at.ravel() for i in range(a.itemsize)}


def due(args: list[Any], ranks: dict[int, int], anyhow: set[int], out: int, count: int, given: int) -> bool:
    """Whether the call is right, by the rules as one would tell them to a person; scalars aside."""
    if len(args) not in (count, given):
        return False
    shapes = {}
    for i, rank in ranks.items():
        if i >= len(args):
            continue
        a, writable = held(args[i])
        if (
            a is None
            or a.dtype != np.float32
            or not a.dtype.isnative
            or a.ndim != rank
            or (i == out and not writable)
            or (i not in anyhow and not a.flags.c_contiguous)
            or (not a.flags.aligned and a.size)
        ):
            return False
        shapes[i] = a.shape
    if ranks[0] == 2:
        if (
            shapes[0][1] != shapes[1][0]
            or shapes[0][0] > 1 << 31
            or shapes[0][1] > (1 << 31) - 1
            or shapes.get(out, shapes[0]) != shapes[0]
        ):
            return False
    elif len(set(shapes.values())) > 1 or shapes[0][0] > (1 << 31) - 1:
        return False
    if out >= len(args):
        return True
    a, _ = held(args[out])
    if a.size == 0:
        return True
    mine = offsets(a)
    if len(mine) != a.nbytes:
        return False
    return not any(mine & offsets(held(args[i])[0]) for i in ranks if i != out)


@pytest.mark.parametrize(("which", "seed"), [("add", 5), ("add", 6), ("mixed", 7), ("mixed", 8)])
def test_random_arguments(which: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    made = kernels.add if which == "add" else mixed.__wrapped__
    ranks, anyhow, out, count, given = (
        ({0: 1, 1: 1, 2: 1}, set(), 2, 3, 2) if which == "add" else ({0: 2, 1: 1, 4: 2}, {0, 4}, 4, 5, 4)
    )
    calls = []
    for native in ("0", "1"):
        monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", native)
        calls.append(made())
    ran = 0
    for _ in range(2500):
        m, n = int(rng.choice([0, 1, 2, 3, 5])), int(rng.choice([0, 1, 2, 4, 7]))
        args: list[Any] = []
        for i in range(int(rng.choice([0, 1, given, given, count, count, count, count, count + 1]))):
            rank = ranks.get(i, 1)
            args.append(
                number(rng, "alpha" if i == 2 else "k")
                if which == "mixed" and i in (2, 3)
                else pick(rng, rank, [m, n] if rank == 2 else [n])
            )
        ARENA[:] = BEFORE
        numbers = [] if which == "add" or len(args) not in (count, given) else args[2:4]
        good = (
            due(args, ranks, anyhow, out, count, given)
            and all(
                isinstance(x, int | float | np.number | np.bool_)
                or (isinstance(x, np.ndarray) and x.ndim == 0)
                for x in numbers
            )
            and (
                not numbers or (not isinstance(numbers[1], float | np.floating) and -128 <= numbers[1] <= 127)
            )
        )
        want = None
        if good:
            x, y = held(args[0])[0], held(args[1])[0]
            want = np.asarray(
                x + y if which == "add" else x * np.float32(args[2]) + np.float32(int(args[3])) + y
            )
        said = []
        for f in calls:
            ARENA[:] = BEFORE
            try:
                result = f(*args)
            except CallError as error:
                assert not good, (args, error)
                assert str(error).startswith(which)
                said.append(str(error).split("\n  at ")[0])
                np.testing.assert_array_equal(ARENA, BEFORE)
            else:
                assert good, args
                said.append("right")
                ran += 1
                target = held(args[out])[0] if len(args) == count else result
                np.testing.assert_array_equal(np.asarray(target), want)
                after = ARENA.copy()
                ARENA[:] = BEFORE
                if len(args) == count:
                    np.asarray(target)[...] = want
                np.testing.assert_array_equal(ARENA, after)
        assert said[0] == said[1]
    assert ran > 500, ran
    assert not Foreign.live
