"""Lanes to spare: a guard on a vector loop leaves the store of a register tile only where the extra elements
do no harm."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te


def tiled(n: int, dtype: str, body: object) -> tuple[str, tl.Module, te.Tensor]:
    """A vector of n elements, summed over 5 iterations in a local tile of 8 lanes; its loop IR and its
    kernel."""
    A, B = te.placeholder((5,), name="A", dtype=dtype), te.placeholder((5, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, 5), name="k")
    C = te.compute((n,), lambda j: te.sum(body(A[k], B[k, j]), axis=k), name="C")  # type: ignore[operator]
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    jo, ji = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], jo)
    s[acc].reorder(s[acc].op.reduce_axis[0], s[acc].op.axis[0])
    s[acc].vectorize(s[acc].op.axis[0])
    return str(tl.lower(s, [A, B, C])), tl.build(s, [A, B, C]), C


def stores(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip().startswith("C.local[") and "B[" in line]


def test_the_reads_ask_and_the_accumulators_do_not() -> None:
    text, f, _ = tiled(13, "float32", lambda a, b: a * b)
    assert any("if_then_else" in line or "if mask" in line for line in stores(text))
    assert not [line for line in stores(text) if line.rstrip().endswith("if mask")], (
        "a blend at each iteration"
    )
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, 5).astype("float32"), rng.integers(-4, 5, (5, 13)).astype("float32")
    assert np.array_equal(f(a, b), a @ b)


def test_a_division_of_whole_numbers_keeps_its_guard() -> None:
    text, f, _ = tiled(13, "int32", lambda a, b: te.floordiv(a, b))
    assert [line for line in stores(text) if line.rstrip().endswith("if mask")]
    rng = np.random.default_rng(0)
    a, b = rng.integers(-40, 50, 5).astype("int32"), rng.integers(1, 5, (5, 13)).astype("int32")
    assert np.array_equal(f(a, b), (a[:, None] // b).sum(0))


def test_what_a_condition_guards_is_not_read_ahead_of_it():
    """Rows of stores turn far reads in registers; a read under ``if_then_else`` may be out of bounds when the
    condition is false."""
    m = te.var("m")
    A = te.placeholder((8, m), name="A")

    def kernel(guarded):
        B = te.compute(
            (8, 8), lambda i, j: te.if_then_else(m >= 8, A[j, i], 0.0) if guarded else A[j, i], name="B"
        )
        s = te.create_schedule(B.op)
        s[B].unroll(B.op.axis[0])
        s[B].vectorize(B.op.axis[1])
        return tl.build(s, [A, B])

    a = np.arange(80, dtype="float32").reshape(8, 10)
    guarded, plain = kernel(True), kernel(False)
    assert np.array_equal(guarded(a), a[:, :8].T) and np.array_equal(plain(a), a[:, :8].T)
    assert not guarded(a[:, :3].copy()).any()
    assert "load <4 x float>" in plain.get_source("ll")
    before, asked, after = guarded.get_source("ll").partition("@main.body(")[2].partition("br i1")
    # where all of a row share the condition, it is asked once and the blocks stand behind it
    assert "icmp" in before and "load <4 x float>" not in before and asked and "load <4 x float>" in after
