"""Elements that are computed in a few ways in turn come in vectors of each way."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import ways_of
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, NEON

RNG = np.random.default_rng(9)


def chosen(ways, values):
    """One of some values by the number of a way."""
    *rest, found = values
    for n in reversed(range(len(rest))):
        found = te.if_then_else(ways == n, rest[n], found)
    return found


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    ("ways", "shape"), [(2, (3, 5)), (2, (7, 33)), (3, (4, 16)), (3, (1, 37)), (4, (2, 40)), (4, (9, 4))]
)
def test_arrays_one_in_the_other(ways, shape, dtype):
    given = [RNG.integers(-9, 9, shape).astype(dtype) for _ in range(ways)]
    P = [te.placeholder(shape, dtype, f"x{n}") for n in range(ways)]
    rows, n = shape
    flat = te.compute(
        (rows, n * ways), lambda i, j: chosen(j % ways, [p[i, j // ways] for p in P]), name="flat"
    )
    last = te.compute((rows, n, ways), lambda i, j, c: chosen(c, [p[i, j] for p in P]), name="last")
    want = np.stack(given, -1)
    assert ways_of(flat.op) == ways_of(last.op) == ways
    assert (tl.compile([*P, flat])(*given) == want.reshape(rows, -1)).all()
    assert (tl.compile([*P, last])(*given) == want).all()
    stacked = ops.reshape(ops.stack(P, -1), (rows, n * ways))
    assert (tl.compile([*P, stacked])(*given) == want.reshape(rows, -1)).all()


def test_of_an_open_number():
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    out = te.compute((n, 2), lambda i, c: te.if_then_else(c == 0, a[i] - b[i], a[i] + b[i]), name="out")
    f = tl.compile([a, b, out])
    for size in (1, 2, 15, 16, 17, 100, 4099):
        x, y = RNG.integers(-9, 9, (2, size)).astype("float32")
        assert (f(x, y) == np.stack([x - y, x + y], -1)).all()


@pytest.mark.parametrize("target", [AVX512, AVX2, NEON])
def test_pairs_that_are_turned_are_gathered_nowhere(target):
    """Rotary embeddings of neighbours computed both ways for each element: 22 times as long."""
    x, c, s = (te.placeholder(n, name=m) for n, m in (((4, 24, 64), "x"), ((24, 32), "c"), ((24, 32), "s")))

    def turned(h, t, j):
        a, b = x[h, t, j // 2 * 2], x[h, t, j // 2 * 2 + 1]
        even, odd = a * c[t, j // 2] - b * s[t, j // 2], a * s[t, j // 2] + b * c[t, j // 2]
        return te.if_then_else(j % 2 == 0, even, odd)

    y = te.compute((4, 24, 64), turned, name="y")
    one = f"{target} -num-cores=1"
    f = tl.build(default_schedule(y, one), [x, c, s, y], target=one)
    assert "if_then_else" not in f.get_source("ir") and "gather" not in f.get_source("asm")
    values = [RNG.integers(-4, 5, [int(str(n)) for n in p.shape]).astype("float32") for p in (x, c, s)]
    a, b = values[0][..., ::2], values[0][..., 1::2]
    want = np.stack([a * values[1] - b * values[2], a * values[2] + b * values[1]], -1)
    assert (tl.compile([x, c, s, y])(*values) == want.reshape(4, 24, 64)).all()


def test_others_stay_as_they_are():
    a = te.placeholder((8, 40), name="a")
    half = te.compute((8, 40), lambda i, j: te.if_then_else(j < 20, a[i, j], a[i, 39 - j]), name="half")
    both = te.compute(
        (8, 40), lambda i, j: te.if_then_else(te.all(j % 2 == 0, j > 3), a[i, j], -a[i, j]), name="both"
    )
    odd = te.compute((8, 39), lambda i, j: te.if_then_else(j % 2 == 0, a[i, j], -a[i, j]), name="odd")
    assert [ways_of(t.op) for t in (half, both, odd)] == [None] * 3


def test_a_vector_whose_elements_take_turns():
    a = te.placeholder((33,), "uint16", name="a")
    y = te.compute((33,), lambda i: te.if_then_else(i % 3 == 1, a[i] * 4 // 4, a[i]))
    x = np.arange(33, dtype="uint16")
    assert (tl.compile([a, y])(x) == x).all()


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("shape", [(40, 3), (7, 33, 3), (2, 9, 20, 3), (65, 2), (5, 70, 4)], ids=str)
def test_planes_become_interleaved(shape, dtype, target):
    """As channels that come first and then last: a vector of three elements, one read of each plane, took two
    to seven times as long. What is stored to the stack is read in whole registers, or it stays there."""
    x = te.placeholder((*shape[:-2], shape[-1], shape[-2]), dtype, "x")
    c = te.placeholder(shape[-1:], dtype, "c")
    out = te.compute(shape, lambda *i: x[(*i[:-2], i[-1], i[-2])] + c[i[-1]], name="out")
    rng = np.random.default_rng(1)
    a = rng.integers(0, 9, [int(n) for n in x.shape]).astype(dtype)
    b = rng.integers(0, 9, shape[-1]).astype(dtype)
    want = (np.swapaxes(a, -1, -2) + b).astype(dtype)
    s = default_schedule(out, target)
    got = np.zeros(shape, dtype)
    interpret(tl.lower(s, [x, c, out]), a, b, got)
    assert np.array_equal(got, want) and np.array_equal(tl.compile([x, c, out])(a, b), want)


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_three_ways_are_put_in_order_in_registers(target):
    """Loads of parts of two registers on the stack waited for both stores, and kept them there."""
    x = te.placeholder((4096,), name="x")
    out = te.compute((4096, 3), lambda i, c: chosen(c, [x[i] * 2.0, x[i] + 1.0, x[i] * x[i]]), name="out")
    asm = tl.build(default_schedule(out, target), [x, out], target=target).get_source("asm")
    assert "vmulps" in asm and not any("mm" in line and "(%rsp)" in line for line in asm.splitlines())
