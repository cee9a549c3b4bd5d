"""Functions of what a loop does not change are called in front of it, and nothing that was not called before."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.expr import make
from tensorlang.loopir.stmt import For, If, Let, preorder, seq
from tensorlang.loopir.verify import verify
from tensorlang.passes.calls_ahead import calls_ahead
from tests.loopir.kernels import buffer, dim, func, loop, read, store, var
from tests.passes.same import body_text, same

A, B, C = buffer("A", 6, 9), buffer("B", 6), buffer("C", 6, 9)
i, j = var("i"), var("j")


def test_a_call_stands_in_front_of_the_loop():
    before = func(
        "f", (A, B, C), loop(i, 6, loop(j, 9, store(C, (i, j), read(A, i, j) * te.exp(read(B, i)))))
    )
    after = calls_ahead(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 6):
    same = exp(B[i])
    for j in range(0, 9):
        C[i, j] = A[i, j] * same"""
    )
    same(before, after)
    assert calls_ahead(after) is after
    verify(after, in_bounds=True)


def test_out_of_all_loops_but_parallel_ones():
    body = lambda kind: loop(i, 6, loop(j, 9, store(C, (i, j), te.exp(read(B, 2)) * 2.0)), kind=kind)
    first = calls_ahead(func("f", (B, C), body("serial"))).body
    assert isinstance(first, Let)
    first = calls_ahead(func("f", (B, C), body("parallel"))).body
    assert isinstance(first, For) and isinstance(first.body, Let)


def test_what_is_written_in_the_loop_is_read_there():
    place = read(B, 3)
    before = func("f", (A, B), loop(j, 6, store(B, (j,), read(A, j, j) + te.exp(place))))
    assert calls_ahead(before) is before


def test_what_is_not_always_called_stays():
    """Under a condition, in a side of a choice: what is read there may not be there otherwise."""
    value = read(A, i, j) * te.exp(read(B, i))
    guarded = func("f", (A, B, C), loop(i, 6, loop(j, 9, If(make.lt(j, 4), store(C, (i, j), value)))))
    assert calls_ahead(guarded) is guarded
    chosen = te.if_then_else(make.lt(j, 4), value, read(A, i, j))
    choice = func("f", (A, B, C), loop(i, 6, loop(j, 9, store(C, (i, j), chosen))))
    assert calls_ahead(choice) is choice
    both = If(make.lt(j, 4), store(C, (i, j), value), store(C, (i, j), value + 1.0))
    twice = func("f", (A, B, C), loop(i, 6, loop(j, 9, both)))
    after = calls_ahead(twice)
    assert sum(isinstance(s, Let) for s in preorder(after.body)) == 1
    same(twice, after)


def test_a_loop_of_no_iterations_calls_nothing():
    m = dim("m", 0)
    x, y, z = buffer("X", m), buffer("Y", 6, m), buffer("Z", 6, m)
    value = read(y, i, j) * te.exp(read(x, 0))
    before = func("f", (x, y, z), loop(i, 6, loop(j, m, store(z, (i, j), value))), dims=(m,))
    after = calls_ahead(before)
    assert any(isinstance(s, If) for s in preorder(after.body))
    same(before, after, [{"m": size} for size in (0, 1, 5)], coverage=False)


def test_few_values_wait_in_registers():
    many = [te.exp(read(B, k)) for k in range(6)]
    stores = [store(C, (k, j), read(A, k, j) * e) for k, e in enumerate(many)]
    after = calls_ahead(func("f", (A, B, C), loop(j, 9, seq(*stores))))
    assert sum(isinstance(s, Let) for s in preorder(after.body)) == 4
    same(func("f", (A, B, C), loop(j, 9, seq(*stores))), after)


def test_each_channel_has_one_sigmoid():
    """It was computed for every vector of the channel."""
    h, w = te.dim("h"), te.dim("w")
    x, e = te.placeholder((64, h, w), name="x"), te.placeholder((64,), name="e")
    o = te.compute((64, h, w), lambda c, y, z: x[c, y, z] * te.sigmoid(e[c]), name="o")
    f = tl.compile([x, e, o], "llvm -num-cores=1")
    assert "same = sigmoid(e[" in f.get_source("ir")
    rng = np.random.default_rng(3)
    for shape in ((64, 0, 7), (64, 1, 1), (64, 13, 29)):
        a, b = rng.standard_normal(shape).astype("float32"), rng.standard_normal(64).astype("float32")
        np.testing.assert_allclose(f(a, b), a / (1 + np.exp(-b[:, None, None])), rtol=1e-5)
