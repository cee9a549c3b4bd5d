"""The vector math library against float64 (numpy) in units of the last place: random bits, the neighbourhood
of hard points, pairs for functions of two arguments, special values, and under ``make fuzz`` all 2**32
float32 numbers. float64 against numpy's long double."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from tensorlang.codegen.llvm.mathlib import ROWS
from tensorlang.expr.intrinsics import TABLE
from tensorlang.target import Target

from .accuracy import CHUNK, SPECIAL, Worst, around, bit_patterns, chunk_kernel, errors, hard_points

ROUNDS = int(os.environ.get("TENSORLANG_FUZZ_ROUNDS", "0"))
OWN = [n for n, row in ROWS.items() if row.own is not None]
UNARY = [n for n in OWN if TABLE[n].arity == 1]
BINARY = [n for n in OWN if TABLE[n].arity == 2]
DOUBLE = [n for n in OWN if ROWS[n].double is not None]


def oracle(name: str) -> Callable[..., np.ndarray]:
    """The function in float64: numpy's, or where numpy has none that is quick, the C library's."""
    if name == "erf":
        return chunk_kernel(name, "float64", 1, "precise")
    return TABLE[name].numpy


def worst(name: str, chunks: object, target: object = None) -> Worst:
    """The largest error over these chunks of arguments."""
    run, exact, found = chunk_kernel(name, "float32", 8, target=target), oracle(name), Worst()
    for x in chunks:  # type: ignore[attr-defined]
        arguments = x if isinstance(x, tuple) else (x,)
        with np.errstate(all="ignore"):
            want = exact(*(a.astype(np.float64) for a in arguments))
        got = run(*arguments)
        found.add(arguments, got, want, errors(got, want))
    return found


def check(name: str, found: Worst, bound: float | None = None) -> None:
    assert found.error <= (ROWS[name].ulp if bound is None else bound), f"{name}: {found}"


@pytest.mark.parametrize("name", UNARY)
def test_three_million_random_numbers_and_the_hard_points(name: str) -> None:
    points = around(hard_points(name), 40)
    check(
        name,
        worst(
            name,
            [np.resize(SPECIAL, CHUNK), *points.reshape(-1, CHUNK), *bit_patterns(3 * 10**6, seed=len(name))],
        ),
    )


def pairs(name: str, count: int, seed: int) -> object:
    """Random bits; for pow also such whose result is within the range, and near 1; for the others such of
    similar size."""
    rng = np.random.default_rng(seed)
    for i in range(-(-count // CHUNK)):
        a, b = rng.integers(0, 2**32, (2, CHUNK), np.uint32).view(np.float32)
        if i % 4 and name == "pow":
            if i % 4 == 1:
                a = np.exp(rng.uniform(-87, 88, CHUNK)).astype(np.float32)
            else:
                a = (1 + rng.uniform(-0.3, 0.5, CHUNK) * 2.0 ** rng.uniform(-22, 0, CHUNK)).astype(np.float32)
            with np.errstate(all="ignore"):
                b = (rng.uniform(-152, 130, CHUNK) / np.log2(a.astype(np.float64))).astype(np.float32)
            if i % 4 == 3:
                a, b = -a, np.rint(b)
        elif i % 2:
            with np.errstate(all="ignore"):
                b = (a * rng.uniform(-4, 4, CHUNK)).astype(np.float32)
        yield a, b


def structured(seed: int) -> object:
    """Special values and small integers with each other and with random numbers."""
    rng = np.random.default_rng(seed)
    pool = np.concatenate([SPECIAL, np.arange(-40, 41) / 4]).astype(np.float32)
    a, b = (np.resize(x, CHUNK) for x in (np.repeat(pool, pool.size), np.tile(pool, pool.size)))
    some = rng.integers(0, 2**32, CHUNK, np.uint32).view(np.float32)
    near = rng.uniform(-4, 4, CHUNK).astype(np.float32)
    chosen = rng.choice(pool, CHUNK)
    return [(a, b), (some, chosen), (chosen, some), (near, chosen), (chosen, near), (near, np.rint(near * 8))]


@pytest.mark.parametrize("name", BINARY)
def test_three_million_pairs(name: str) -> None:
    check(name, worst(name, [*structured(1), *pairs(name, 3 * 10**6, 2)]))


@pytest.mark.parametrize("name", [n for n in OWN if ROWS[n].ulp])
def test_every_width_gives_the_same_bits_whatever_stands_in_the_other_lanes(name: str) -> None:
    """The rare lanes, which take another way, stand between usual ones."""
    rng = np.random.default_rng(5)
    mixed = [
        np.where(
            rng.random(CHUNK) < 0.1, np.resize(around(hard_points(name), 2), CHUNK), rng.uniform(-3, 3, CHUNK)
        ).astype(np.float32),
        np.where(rng.random(CHUNK) < 0.1, rng.choice(SPECIAL, CHUNK), rng.uniform(-3, 3, CHUNK)).astype(
            np.float32
        ),
    ][: TABLE[name].arity]
    for dtype in ("float32", "float64") if name in DOUBLE else ("float32",):
        arguments = [x.astype(dtype) for x in mixed]
        first = chunk_kernel(name, dtype, 1)(*arguments).copy()
        for lanes in (2, 8, 16):
            np.testing.assert_array_equal(chunk_kernel(name, dtype, lanes)(*arguments), first)


@pytest.mark.parametrize("name", OWN)
def test_without_fma(name: str) -> None:
    """A machine without fma rounds products too; the bounds are the same."""
    target = Target.parse("llvm -mcpu=x86-64-v2")
    assert not target.has_fma
    if TABLE[name].arity == 2:
        check(name, worst(name, [*structured(3), *pairs(name, 10**6, 4)], target))
    else:
        check(
            name,
            worst(
                name,
                [*around(hard_points(name), 40).reshape(-1, CHUNK), *bit_patterns(10**6, seed=7)],
                target,
            ),
        )


def long_erf(x: np.ndarray) -> np.ndarray:
    """By the series of positive terms, ``2 / sqrt(pi) e**-x² Σ 2**n x**(2n + 1) / (2n + 1)!!``."""
    size = np.minimum(np.abs(x), np.longdouble(6.25))  # from there on it is 1 - 2**-59
    term = size * np.exp(-size * size) * (2 / np.sqrt(4 * np.arctan(np.longdouble(1))))
    total, square = term.copy(), 2 * size * size
    for n in range(3, 320, 2):
        term *= square / n
        total += term
        if n % 32 == 1 and not (term > total * 2.0**-70).any():
            break
    return np.copysign(total, x)


LONG: dict[str, Callable[..., np.ndarray]] = {
    "erf": long_erf,
    "exp10": lambda x: np.power(np.longdouble(10), x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
RANGE = {
    "exp": (-760, 720),
    "exp2": (-1080, 1030),
    "exp10": (-330, 310),
    "expm1": (-40, 40),
    "log1p": (-1, 2),
    "tanh": (-20, 20),
    "erf": (-6.5, 6.5),
    "sinh": (-712, 712),
    "cosh": (-712, 712),
    "asin": (-1.05, 1.05),
    "acos": (-1.05, 1.05),
    "atan": (-30, 30),
    "sigmoid": (-750, 50),
    "sin": (-1000, 1000),
    "cos": (-1000, 1000),
}


def double_arguments(name: str) -> list[tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(11)
    bits = rng.integers(0, 2**64, CHUNK, np.uint64).view(np.float64)
    special = np.concatenate(
        [
            SPECIAL.astype(np.float64),
            [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1.1e-308],
        ]
    )
    if TABLE[name].arity == 2:
        a = 1 + rng.uniform(-0.3, 0.5, CHUNK) * 2.0 ** rng.uniform(-40, 0, CHUNK)
        wide = np.exp(rng.uniform(-700, 700, CHUNK))
        both = [
            np.resize(x, CHUNK) for x in (np.repeat(special, special.size), np.tile(special, special.size))
        ]
        return [
            (a, rng.uniform(-1070, 1024, CHUNK) / np.log2(a)),
            (wide, rng.uniform(-1070, 1024, CHUNK) / np.log2(wide)),
            (bits, rng.choice(special, CHUNK)),
            (both[0], both[1]),
            (-a, np.rint(rng.uniform(-800, 800, CHUNK))),
        ]
    low, high = RANGE.get(name, (0.3, 3))
    return [
        (bits,),
        (rng.uniform(low, high, CHUNK),),
        (rng.uniform(-4, 4, CHUNK),),
        (np.resize(special, CHUNK),),
        (rng.choice([-1, 1], CHUNK) * 2.0 ** rng.uniform(-60, 4, CHUNK),),
    ]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than float64 here")
@pytest.mark.parametrize("name", DOUBLE)
def test_float64_against_long_double(name: str) -> None:
    run, exact = chunk_kernel(name, "float64", 4), LONG.get(name, TABLE[name].numpy)
    for arguments in double_arguments(name):
        with np.errstate(all="ignore"):
            want = exact(*(a.astype(np.longdouble) for a in arguments))
            nearest = want.astype(np.float64)
            got = run(*arguments)
            exponent = np.maximum(
                np.frexp(np.minimum(np.abs(want), np.longdouble(1.7976931348623157e308)))[1] - 53, -1074
            )
            far = np.abs(got.astype(np.longdouble) - want) / np.ldexp(np.longdouble(1), exponent)
        same = (got == nearest) & (np.signbit(got) == np.signbit(nearest)) | (
            np.isnan(got) & np.isnan(nearest)
        )
        good = same | (far <= ROWS[name].double)
        bad = np.flatnonzero(~good)
        assert bad.size == 0, (
            name,
            [float(a[bad[0]]).hex() for a in arguments],
            got[bad[0]],
            want[bad[0]],
            bad.size,
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sine_and_cosine_stay_within_one(dtype: str) -> None:
    centres = np.arange(1, 3001) * (np.pi / 2)
    kind = np.dtype(dtype).type
    word = f"i{kind().itemsize}"
    x = np.resize(
        (centres.astype(kind)[:, None].view(word) + np.arange(-100, 101, dtype=word)).view(kind), CHUNK * 5
    )
    for name in ("sin", "cos"):
        run = chunk_kernel(name, dtype, 4)
        for part in x.reshape(5, CHUNK):
            assert np.nanmax(np.abs(run(part))) <= 1.0


def everything() -> object:
    base = np.arange(CHUNK, dtype=np.uint32)
    for start in range(0, 2**32, CHUNK):
        yield (base + np.uint32(start)).view(np.float32)


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.skipif(not ROUNDS, reason="TENSORLANG_FUZZ_ROUNDS is not set")
@pytest.mark.parametrize("name", UNARY)
def test_all_float32_numbers(name: str) -> None:
    check(name, worst(name, everything()))


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.skipif(not ROUNDS, reason="TENSORLANG_FUZZ_ROUNDS is not set")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", BINARY)
def test_many_pairs(name: str, seed: int) -> None:
    """2**28 pairs in eight parts."""
    check(name, worst(name, pairs(name, 2**25, seed)))
