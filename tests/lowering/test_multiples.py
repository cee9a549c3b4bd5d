"""What is known of a symbolic size takes guards away: a dim that is a multiple of the tile has no tail, in no
form."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr import make
from tensorlang.expr.walk import substitute
from tests.fuzz.harness import run


def rows(multiple, columns=8):
    m = te.dim("m", 0, 4096, multiple_of=multiple)
    A = te.placeholder((m, columns), name="A")
    return A, te.compute((m, columns), lambda i, j: A[i, j] * 2 + i, name="C")


def checked(s, A, C, sizes):
    """The loop IR as text, once numpy, the interpreter and compiled code agree on these sizes."""
    run([A, C], [C], {"A": (-4, 5)}, s, [{"m": m} for m in sizes])
    return str(tl.lower(s, [A, C]))


def by_vectors(s, C):
    _, inner = s[C].split(C.op.axis[0], 16)
    s[C].reorder(C.op.axis[1], inner)
    s[C].vectorize(inner)


def unrolled(s, C):
    _, inner = s[C].split(C.op.axis[0], 4)
    s[C].unroll(inner)


def twice(s, C):
    outer, inner = s[C].split(C.op.axis[0], 4)
    _, middle = s[C].split(outer, 2)
    s[C].unroll(inner)
    s[C].unroll(middle)


def fused(s, C):
    _, lanes = s[C].split(s[C].fuse(*C.op.axis), 32)
    s[C].vectorize(lanes)


def parts(s, C):
    _, inner = s[C].split(C.op.axis[0], 8, tail="peel")
    s[C].vectorize(s[C].split(inner, 4)[1])


@pytest.mark.parametrize("cut", [by_vectors, unrolled, twice, fused, parts], ids=lambda f: f.__name__)
def test_no_tail_where_the_tile_divides(cut):
    A, C = rows(16)
    s = te.create_schedule(C.op)
    cut(s, C)
    text = checked(s, A, C, (0, 16, 48))
    assert "mask" not in text and "if " not in text and "min(" not in text, text


@pytest.mark.parametrize("cut", [by_vectors, unrolled], ids=lambda f: f.__name__)
def test_a_tail_where_it_does_not(cut):
    A, C = rows(6)
    s = te.create_schedule(C.op)
    cut(s, C)
    text = checked(s, A, C, (0, 6, 36, 42))
    assert "mask" in text or "if " in text


def test_a_padded_operand_of_whole_tiles_is_copied_without_a_choice():
    A, C = rows(16)
    s = te.create_schedule(C.op)
    copy = s.cache_read(A, "global", [C])
    s[copy].transform_layout(lambda i, j: (i // 16, j, i % 16))
    assert "if " not in checked(s, A, C, (0, 16, 32))


def test_a_product_of_whole_tiles_has_one_body():
    m = te.dim("m", 0, 4096, multiple_of=6)
    A, B = te.placeholder((m, 10), name="A"), te.placeholder((10, 32), name="B")
    k = te.reduce_axis((0, 10), name="k")
    C = te.compute((m, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    outer, inner = s[C].split(C.op.axis[0], 6)
    s[acc].compute_at(s[C], outer)
    s[acc].reorder(k, *s[acc].op.axis)
    for stage, i, j in ((acc, *s[acc].op.axis), (C, inner, C.op.axis[1])):
        s[stage].unroll(i)
        s[stage].vectorize(j)
    run([A, B, C], [C], {"A": (-4, 5), "B": (-4, 5)}, s, [{"m": 0}, {"m": 6}, {"m": 18}])
    text = str(tl.lower(s, [A, B, C]))
    assert "if " not in text and text.count("for k") == 1


def test_quotients_and_remainders_of_multiples():
    m, n, i = te.dim("m", 0, multiple_of=16), te.dim("n", 0, multiple_of=24), te.var("i")
    assert str((m + 15) // 16) == "m // 16" and str((m * 2 + n + i) // 8) == "(m*2 + n) // 8 + i // 8"
    assert ((m + i) % 16) is (i % 16) and make.floormod(m * n, 384) is make.const(0)
    assert ((m + 5) // 16) is (m // 16) and ((m - 1) // 16) is (m // 16 - 1)
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b, c, d = (int(x) for x in rng.integers(-20, 20, 4))
        size = int(rng.integers(1, 50))
        values = {
            m: 16 * int(rng.integers(0, 9)),
            n: 24 * int(rng.integers(0, 9)),
            i: int(rng.integers(-50, 50)),
        }
        whole = values[m] * a + values[n] * b + values[i] * c + d
        for e, want in (
            ((m * a + n * b + i * c + d) // size, whole // size),
            ((m * a + n * b + i * c + d) % size, whole % size),
        ):
            assert int(substitute(e, {v: make.const(x, "int32") for v, x in values.items()})) == want, (
                a,
                b,
                c,
                d,
                size,
            )
