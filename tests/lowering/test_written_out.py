"""The list of arguments is free: computed tensors on the way are written out, inputs nobody reads are passed,
`lower` adds outputs.

Every program is run by the interpreter (which reports elements never written) and compiled, on rubbish.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tests.te.oracles import poisoned, same

N, M = 12, 10


def chain(n=N, m=M):
    A = te.placeholder((n, m), name="A")
    P = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="P")
    Q = te.compute((n, m), lambda i, j: P[i, j] * 2.0, name="Q")
    C = te.compute((n, m), lambda i, j: Q[i, j] - 3.0, name="C")
    return te.create_schedule(C.op), A, P, Q, C


def written(s, inputs, outputs):
    """Asserts that every tensor of ``outputs``, arguments all, gets what numpy computes."""
    rng = np.random.default_rng(5)
    values = {t: rng.integers(-4, 5, [int(n) for n in t.shape]).astype("float32") for t in inputs}
    want = te.reference.evaluate(outputs, values)
    args = [*inputs, *outputs]
    for run in (lambda *a: interpret(tl.lower(s, args), *a), tl.build(s, args)):
        got = [poisoned(w) for w in want]
        run(*values.values(), *got)
        for t, g, w in zip(outputs, got, want, strict=True):
            same(g, w, t.dtype, 0, t.name)


def at_root(s, P, Q, C):
    s[P].vectorize(s[P].op.axis[1])


def one_in_the_other(s, P, Q, C):
    s[Q].compute_at(s[C], s[C].op.axis[0])
    s[P].compute_at(s[Q], s[Q].op.axis[0])


def in_tiles(s, P, Q, C):
    io, jo, ii, _ = s[C].tile(*s[C].op.axis, 5, 4)  # neither divides
    s[Q].compute_at(s[C], ii)
    s[P].compute_at(s[C], jo)


def in_parallel(s, P, Q, C):
    io, ii = s[C].split(s[C].op.axis[0], 5)
    s[C].parallel(io)
    s[Q].compute_at(s[C], ii)
    s[P].compute_at(s[C], io)


def stored_further_out(s, P, Q, C):
    s[Q].set_scope("local")
    s[Q].compute_at(s[C], s[C].op.axis[1])
    s[Q].store_at(s[C], s[C].op.axis[0])


def inlined(s, P, Q, C):
    s[P].compute_inline()
    s[Q].compute_inline()


def inlined_last_first(s, P, Q, C):
    s[Q].compute_inline()
    s[P].compute_inline()


@pytest.mark.parametrize(
    "how",
    [at_root, one_in_the_other, in_tiles, in_parallel, stored_further_out, inlined, inlined_last_first],
    ids=lambda f: f.__name__,
)
def test_computed_arguments_are_written_out(how):
    s, A, P, Q, C = chain()
    how(s, P, Q, C)
    written(s, [A], [P, Q, C])
    written(s, [A], [Q, C])


def test_what_a_schedule_adds_can_be_written_out():
    A, B = te.placeholder((N, 8), name="A"), te.placeholder((8, M), name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    s = te.create_schedule(C.op)
    Bs = s.cache_read(B, "global", [C])
    acc = s.cache_write(C, "local")
    i, _ = s[C].op.axis
    s[acc].compute_at(s[C], i)
    s[Bs].compute_at(s[acc], s[acc].op.reduce_axis[0])
    written(s, [A, B], [Bs, acc, C])


def test_a_window_that_covers_its_source_writes_it_whole():
    A = te.placeholder((N + 2,), name="A")
    P = te.compute((N + 2,), lambda i: A[i] * 2.0, name="P")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((N,), lambda i: te.sum(P[i + k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    written(s, [A], [P, C])
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 4)
    s[C].parallel(io)
    s[P].compute_at(s[C], ii)
    with pytest.raises(
        tl.LowerError, match=r"iterations of the parallel loop C\.i\.outer may write the same"
    ):
        tl.lower(s, [A, P, C])  # windows of neighbouring tiles overlap


@pytest.mark.parametrize(
    "index",
    [lambda i: 2 * i, lambda i: i + 1, lambda i: te.if_then_else(i > 3, i, 4)],
    ids=["gaps", "beginning", "choice"],
)
def test_parts_that_may_leave_some_out_are_refused(index):
    A = te.placeholder((2 * N,), name="A")
    P = te.compute((2 * N,), lambda i: A[i] * 2.0, name="P")
    C = te.compute((N,), lambda i: P[index(i)] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    with pytest.raises(tl.LowerError, match="these may leave some of it out"):
        tl.build(s, [A, P, C])
    s[P].compute_root()
    written(s, [A], [P, C])


def test_a_diagonal_does_not_cover_its_source():
    A = te.placeholder((N, N), name="A")
    P = te.compute((N, N), lambda i, j: A[i, j] * 2.0, name="P")
    C = te.compute((N,), lambda i: P[i, i], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    with pytest.raises(tl.LowerError, match="may leave some of it out"):
        tl.lower(s, [A, P, C])


def test_symbolic_sizes():
    n = te.size_var("n")
    s, A, P, Q, C = chain(n)
    io, ii = s[C].split(s[C].op.axis[0], 4)
    s[Q].compute_at(s[C], io)
    s[P].compute_inline()
    f = tl.build(s, [A, P, Q, C])
    for rows in (0, 3, 9):
        a = np.arange(rows * M, dtype="float32").reshape(rows, M)
        p, q, c = (np.full_like(a, 77) for _ in range(3))
        f(a, p, q, c)
        assert np.array_equal(p, a + 1) and np.array_equal(q, p * 2) and np.array_equal(c, q - 3)


def test_left_out_arguments_are_given_back():
    s, A, P, _, C = chain()
    a = np.arange(N * M, dtype="float32").reshape(N, M)
    p, c = tl.build(s, [A, P, C])(a)
    assert np.array_equal(p, a + 1) and np.array_equal(c, (a + 1) * 2 - 3)


def test_lower_shows_outputs_that_were_left_out():
    s, A, _, _, C = chain()
    assert str(tl.lower(s, [A])) == str(tl.lower(s, [A, C]))
    with pytest.raises(tl.LowerError, match="output `C` is missing"):
        tl.build(s, [A])


def test_inputs_nobody_reads_are_accepted_and_left_alone():
    s, A, _, _, C = chain()
    n = te.var("n")
    U = te.placeholder((n, 2), "int8", name="U")
    f = tl.build(s, [U, A, C, n])
    a, u, c = np.ones((N, M), "float32"), np.full((3, 2), 7, "int8"), np.zeros((N, M), "float32")
    f(u, a, c, 3)
    assert np.array_equal(c, (a + 1) * 2 - 3) and (u == 7).all()
    with pytest.raises(tl.CallError):
        f(u, a, c, 4)  # its shape is checked all the same


def test_a_packed_constant_can_be_written_out():
    W, A = te.placeholder((M,), name="W"), te.placeholder((N, M), name="A")
    P = te.compute((M,), lambda j: W[j] * 2.0, name="P")
    C = te.compute((N, M), lambda i, j: A[i, j] + P[j], name="C")
    w = np.arange(M, dtype="float32")
    f = tl.build(te.create_schedule(C.op), [A, P, C], constants={W: w})
    p, c = f(np.ones((N, M), "float32"))
    assert np.array_equal(p, w * 2) and np.array_equal(c, 1 + np.tile(w * 2, (N, 1)))


def test_a_changed_layout_is_that_of_the_argument():
    s, A, P, _, C = chain()
    s[P].transform_layout(lambda i, j: [j, i])
    assert [tuple(map(int, map(str, b.shape))) for b in tl.lower(s, [A, P, C]).params] == [
        (N, M),
        (M, N),
        (N, M),
    ]


def test_a_stage_inside_a_scan_is_refused():
    X = te.placeholder((5, M), name="X")
    state = te.placeholder((5, M), name="S")
    init = te.compute((1, M), lambda _, i: X[0, i], name="init")
    half = te.compute((5, M), lambda t, i: state[t - 1, i] * 2.0, name="half")
    step = te.compute((5, M), lambda t, i: half[t, i] + X[t, i], name="step")
    R = te.scan(init, step, state, name="R")
    with pytest.raises(tl.LowerError, match="recomputed at each iteration of the scan"):
        tl.lower(te.create_schedule(R.op), [X, half, R])
