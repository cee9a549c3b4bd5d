"""Accumulators in memory become registers for the duration of a loop, and only where nobody can tell."""

from __future__ import annotations

import re

import numpy as np
import pytest

from .helper import Func, If, Store, buffer, compiled, i32, load, loop, make, ramp, run, seq, var
from .test_assembly import AVX2, inner_loop


def naive(mr: int, nr: int, lanes: int) -> Func:
    """A matmul that accumulates in C itself, with ``mr * nr`` of it unrolled inside the reduction loop."""
    a, b, c = buffer("A", "float32", 24, 50), buffer("B", "float32", 50, 64), buffer("C", "float32", 24, 64)
    tiles = [(r, ramp(v, lanes)) for r in range(mr) for v in range(0, nr, lanes)]
    return Func(
        "naive",
        (a, b, c),
        loop(
            24 // mr,
            lambda i: loop(
                64 // nr,
                lambda j: seq(
                    *[
                        Store(
                            c,
                            make.const(0.0, f"float32x{lanes}"),
                            (i * mr + r, at + make.broadcast(j * nr, lanes)),
                        )
                        for r, at in tiles
                    ],
                    loop(
                        50,
                        lambda k: seq(
                            *[
                                Store(
                                    c,
                                    load(c, (i * mr + r, at + make.broadcast(j * nr, lanes)))
                                    + make.broadcast(load(a, (i * mr + r, k)), lanes)
                                    * load(b, (k, at + make.broadcast(j * nr, lanes))),
                                    (i * mr + r, at + make.broadcast(j * nr, lanes)),
                                )
                                for r, at in tiles
                            ]
                        ),
                    ),
                ),
            ),
        ),
        (),
        (c,),
    )


@pytest.mark.parametrize(("mr", "nr", "lanes"), [(1, 8, 8), (6, 16, 8), (1, 1, 1), (3, 16, 16)])
def test_accumulators_in_memory_become_registers_in_the_reduction_loop(mr: int, nr: int, lanes: int) -> None:
    func = naive(mr, nr, lanes)
    a, b = (np.random.default_rng(0).integers(-8, 8, s).astype("float32") for s in ((24, 50), (50, 64)))
    c = np.full((24, 64), np.nan, "float32")
    run(func, a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    body = inner_loop(compiled(func, AVX2).asm, "vfmadd")
    assert not [x for x in body if re.match(r"vmov\w+\s+%[xyz]mm\d+, .*\(", x)]  # no store
    assert not [x for x in body if re.search(r"\(%r[sb]p", x)]


def test_the_address_of_an_accumulator_is_computed_once_in_a_scope() -> None:
    text = compiled(naive(6, 16, 8), AVX2).ll
    body = text[text.index(".body") :]
    bodies = body.split("\nloop")
    for block in bodies:
        places = re.findall(r"= (getelementptr float, ptr %v\d+, i64 \d+)$", block, re.M)
        assert len(places) == len(set(places))
    assert any("getelementptr" in block for block in bodies)


def test_accumulators_stay_in_memory_where_that_could_be_seen() -> None:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", 16), buffer("Y", "float32", 16)

    def both(build: object) -> None:
        func = Func("k", (x, y), build, (n,), (y,))  # type: ignore[arg-type]
        got, a = np.zeros(16, "float32"), np.arange(16, dtype="float32") + 1
        for size, want in expected:
            got[:] = 1
            run(func, a, got, dims=(size,))
            np.testing.assert_array_equal(got, want)

    one, zero = i32(1), i32(0)
    ones = np.ones(16, "float32")

    def with_(**at: float) -> np.ndarray:
        w = ones.copy()
        for k, v in at.items():
            w[int(k[1:])] = v
        return w

    expected = [(0, ones), (3, with_(_0=1 + 1 + 2 + 3))]  # a loop that may not run
    both(loop(n, lambda k: Store(y, load(y, (zero,)) + load(x, (k,)), (zero,))))
    expected = [(0, ones), (3, with_(_1=1 + 2 + 3))]  # written in some iterations only
    both(loop(n, lambda k: If(make.lt(zero, k), Store(y, load(y, (one,)) + load(x, (k,)), (one,)))))
    expected = [(3, with_(_0=4, _1=6, _2=8))]  # another place that moves may be the same
    both(
        loop(
            n,
            lambda k: seq(
                Store(y, load(y, (zero,)) + 1, (zero,)),
                If(make.lt(zero, k), Store(y, load(y, (zero,)) * 2, (k,))),
            ),
        )
    )
    two, three = ramp(0, 2), ramp(1, 2)  # overlapping vectors
    expected = [(1, with_(_0=2, _1=4, _2=3)), (2, with_(_0=3, _1=10, _2=7))]
    both(
        loop(
            n,
            lambda k: seq(
                Store(y, load(y, (two,)) + 1, (two,)),
                Store(
                    y,
                    load(y, (three,)) * make.const(1.0)
                    + load(y, (three,))
                    + make.select(
                        make.lt(ramp(0, 2), i32(1)),
                        make.const(0.0, "float32x2"),
                        make.const(1.0, "float32x2"),
                    ),
                    (three,),
                ),
            ),
        )
    )


def test_masked_accumulators_touch_nothing_that_is_masked_off() -> None:
    from .test_memory import guarded_page

    x, y = buffer("X", "float32", 5), buffer("Y", "float32", 5)
    at = ramp(0, 8)
    mask = make.lt(at, i32(5))
    func = Func(
        "k",
        (x, y),
        loop(4, lambda k: Store(y, load(y, (at,), mask) + load(x, (at,), mask), (at,), mask)),
        (),
        (y,),
    )
    a, b = guarded_page(5), guarded_page(5)
    a[:], b[:] = np.arange(5), 1
    run(func, a, b)
    np.testing.assert_array_equal(b, 1 + 4 * np.arange(5))
