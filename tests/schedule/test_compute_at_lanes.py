"""Stages computed inside of a vector loop of another: for all lanes at once, each with elements of its own."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify
from tensorlang.te.reference import evaluate

A = te.placeholder((6, 31), name="A")
X = te.placeholder((31,), "int32", name="X")
a = (np.arange(6 * 31) % 23 - 11).astype("float32").reshape(6, 31)
x = (np.arange(31) * 7 % 31).astype("int32")


def built(s, C, bounds: bool = True):
    """The kernel after every oracle agreed, and its loop IR."""
    ins = [t for t in (A, X) if any(r is t for st in s.state.stages for r in st.op.input_tensors)]
    arrays = [{A: a, X: x}[t] for t in ins]
    (want,) = evaluate(C, dict(zip(ins, arrays, strict=True)))
    verify(tl.lower(s, [*ins, C], simple=True))
    func = tl.lower(s, [*ins, C])
    verify(func, in_bounds=bounds)
    out = np.zeros(want.shape, want.dtype)
    interpret(func, *arrays, out)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(tl.build(s, [*ins, C])(*arrays), want)
    return str(func)


def pair(reads, shape=(6, 31)):
    P = te.compute((6, 31), lambda i, j: A[i, j] * 2, name="P")
    C = te.compute(shape, lambda i, j: reads(P, i, j), name="C")
    return te.create_schedule(C.op), P, C


READS = {
    "one": lambda P, i, j: P[i, j] + 1,
    "window": lambda P, i, j: P[i, te.max(j - 1, 0)] + P[i, j] + P[i, te.min(j + 1, 30)],
    "guarded": lambda P, i, j: te.if_then_else(j < 30, P[i, te.min(j + 1, 30)], 0.0) + j,
    "backwards": lambda P, i, j: P[i, 30 - j] - P[5 - i, j],
    "anywhere": lambda P, i, j: P[i, X[j]],
}


@pytest.mark.parametrize("factor", [8, 5])
@pytest.mark.parametrize("reads", READS)
def test_elements(reads: str, factor: int) -> None:
    s, P, C = pair(READS[reads])
    inner = s[C].split(C.op.axis[1], factor)[1]
    s[C].vectorize(inner)
    s[P].compute_at(s[C], inner)
    assert "vectorized" not in built(s, C, bounds=reads == "one" or (factor == 8 and reads != "anywhere"))


def test_the_plain_case_is_vectors_without_memory() -> None:
    s, P, C = pair(READS["one"], (6, 16))
    inner = s[C].split(C.op.axis[1], 8)[1]
    s[P].compute_at(s[C], inner)
    s[C].vectorize(inner)
    text = built(s, C)
    assert (
        "P[0, 0, 0 : 8] = A[i, j.outer*8 : j.outer*8 + 8] * x8(2.0)" in text and "in range(0, 8)" not in text
    )
    assert "float32[1, 1, 8]" in str(s.tree())


def product(own: str):
    k = te.reduce_axis((0, 31), name="k")
    P = te.compute((6, 4), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="P")
    C = te.compute((6, 4), lambda i, j: P[i, j] * 2 + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    s[P].compute_at(s[C], C.op.axis[1])
    if own == "unrolled":
        s[P].unroll(s[P].split(k, 4)[1])
    if own == "vector":
        s[P].vectorize(s[P].split(k, 8)[1])
    if own == "rfactor":
        s.rfactor(P, s[P].split(k, 8)[1])
    return s, P, C


@pytest.mark.parametrize("own", ["plain", "unrolled", "vector", "rfactor"])
def test_a_reduction(own: str) -> None:
    s, _, C = product(own)
    text = built(s, C)
    if own == "plain":  # the lanes of C are those of the sums
        assert "P[0, 0, 0 : 4] = P[0, 0, 0 : 4] + x4(A[i, k]) * A[0 : 4, k]" in text.replace(
            "ramp(0, 1, 4)", "0 : 4"
        )


def test_a_vector_loop_inside_of_one_runs_for_each_lane() -> None:
    s, _, C = product("vector")
    text = built(s, C)
    assert text.count("for j in range(0, 4)") == 1 and "C[i, 0 : 4] =" in text


def test_stages_inside_of_stages() -> None:
    P = te.compute((6, 31), lambda i, j: A[i, j] * 2, name="P")
    Q = te.compute((6, 31), lambda i, j: P[i, j] + P[i, te.max(j - 1, 0)], name="Q")
    C = te.compute((6, 31), lambda i, j: Q[i, j] * Q[i, te.min(j + 1, 30)], name="C")
    s = te.create_schedule(C.op)
    inner = s[C].split(C.op.axis[1], 4)[1]
    s[C].vectorize(inner)
    s[Q].compute_at(s[C], inner)
    s[P].compute_at(s[Q], Q.op.axis[1])
    s[Q].unroll(Q.op.axis[1])
    built(s, C)


def test_two_vector_loops_around() -> None:
    P = te.compute((6, 31), lambda i, j: A[i, j] * 2, name="P")
    Q = te.compute((6, 30), lambda i, j: P[i, j] + P[i, j + 1], name="Q")
    C = te.compute((6, 29), lambda i, j: Q[i, j] * Q[i, j + 1], name="C")
    s = te.create_schedule(C.op)
    inner = s[C].split(C.op.axis[1], 4)[1]
    s[C].vectorize(inner)
    s[Q].compute_at(s[C], inner)
    s[Q].vectorize(Q.op.axis[1])
    s[P].compute_at(s[Q], Q.op.axis[1])
    assert "float32[1, 2, 4]" in str(s.tree()) and "float32[1, 2, 4, 2]" in str(s.tree())
    built(s, C)


def test_a_loop_inside_of_the_vector_loop_hosts_it() -> None:
    k = te.reduce_axis((0, 31), name="k")
    P = te.compute((6, 31), lambda i, j: A[i, j] * 2, name="P")
    C = te.compute((6, 6), lambda i, j: te.sum(P[i, k] * P[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    s[P].compute_at(s[C], k)
    built(s, C)


def test_a_vector_loop_that_reduces_hosts_it() -> None:
    k = te.reduce_axis((0, 31), name="k")
    P = te.compute((6, 31), lambda i, j: A[i, j] * 2, name="P")
    C = te.compute((6,), lambda i: te.sum(P[i, k] + P[5 - i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    inner = s[C].split(k, 8)[1]
    s[C].vectorize(inner)
    s[P].compute_at(s[C], inner)
    built(s, C)


def test_local_padded_memory_under_threads() -> None:
    s, P, C = pair(READS["window"])
    inner = s[C].split(C.op.axis[1], 8)[1]
    s[C].parallel(C.op.axis[0])
    s[C].vectorize(inner)
    s[P].compute_at(s[C], inner)
    s[P].set_scope("local")
    s[P].storage_align(P.op.axis[0], 16, 4)
    built(s, C)


def test_a_cache_of_what_is_read() -> None:
    C = te.compute((6, 29), lambda i, j: A[i, j] + A[i, j + 2], name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", [C])
    s[C].vectorize(s[C].split(C.op.axis[1], 8)[1])
    s[AA].compute_at(s[C], s[C].leaf_iter_vars[-1])
    built(s, C)


def test_symbolic_rows_and_columns() -> None:
    m, n = te.var("m"), te.var("n")
    B = te.placeholder((m, n), name="B")
    P = te.compute((m, n), lambda i, j: B[i, j] * 2, name="P")
    C = te.compute((m, n), lambda i, j: P[i, j] + P[i, te.max(j - 1, 0)], name="C")
    s = te.create_schedule(C.op)
    inner = s[C].split(C.op.axis[1], 8)[1]
    s[C].vectorize(inner)
    s[P].compute_at(s[C], inner)
    f = tl.build(s, [B, C])
    for part in (a, a[:2, :16].copy(), a[:1, :3].copy()):
        np.testing.assert_array_equal(
            f(part), 2 * (part + part[:, np.maximum(np.arange(part.shape[1]) - 1, 0)])
        )


def test_the_memory_is_made_inside_of_the_vector_loop() -> None:
    s, P, C = pair(READS["window"])
    inner = s[C].split(C.op.axis[1], 8)[1]
    s[P].compute_at(s[C], inner)
    s[P].store_at(s[C], C.op.axis[0])
    assert not s.can("vectorize", C, inner)
    with pytest.raises(tl.ScheduleError, match="vectorized: its lanes would share"):
        s[C].vectorize(inner)
    s, P, C = pair(READS["window"])
    inner = s[C].split(C.op.axis[1], 8)[1]
    s[C].vectorize(inner)
    s[P].compute_at(s[C], inner)
    with pytest.raises(tl.ScheduleError, match="vectorized: its lanes would share"):
        s[P].store_at(s[C], C.op.axis[0])
    built(s, C)


def test_places_in_lanes_come_last() -> None:
    s, P, C = pair(READS["one"])
    outer, inner = s[C].split(C.op.axis[1], 8)
    s[C].reorder(inner, outer)
    before = s.legal_places(P)
    s[C].vectorize(inner)
    assert s.legal_places(P) == [p for p in before if p[1] == "i"] + [p for p in before if p[1] != "i"]
    assert all(s.can("compute_at", P, C, loop) for _, loop in before)


def test_lanes_beyond_the_edge_of_a_register_tile_compute_nothing_inside() -> None:
    """The store of a local tile does without its guard; a stage inside of its vector loop does not."""
    P = te.compute((6, 31), lambda i, j: te.if_then_else((i + j) % 3 == 0, A[i, j], 1.0), name="P")
    Q = te.compute((6, 31), lambda i, j: P[5 - i, 30 - j], name="Q")
    C = te.compute((6, 31), lambda i, j: Q[i, te.min(j + 1, 30)] * 2 + Q[i, j], name="C")
    s = te.create_schedule(C.op)
    s[Q].compute_at(s[C], C.op.axis[1])
    s[Q].set_scope("local")
    s[Q].vectorize(Q.op.axis[1])
    s[P].compute_at(s[Q], Q.op.axis[1])
    built(s, C, bounds=False)
