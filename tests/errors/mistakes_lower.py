"""Mistakes of building a kernel. Each function makes one; its last statement is refused with a LowerError."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te

from .scene import Scene


def _chain(n=64):
    """A, P = A + 1, C = P * 2; the schedule and the tensors."""
    A = te.placeholder((n, 16), name="A")
    P = te.compute((n, 16), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((n, 16), lambda i, j: P[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), A, P, C


def no_schedule(t: Scene):
    _, A, _, C = _chain()
    tl.lower(C, [A, C])


def argument_missing(t: Scene):
    s, _, _, C = _chain()
    tl.build(t.watch(s), [C])


def output_missing(t: Scene):
    s, A, _, _ = _chain()
    tl.build(t.watch(s), [A])


def argument_given_twice(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), [A, A, C])


def number_given_twice(t: Scene):
    alpha = te.var("alpha", "float32")
    C = te.compute((4,), lambda i: i * alpha, name="C")
    tl.build(t.watch(te.create_schedule(C.op)), [alpha, C, alpha])


def argument_of_another_computation(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), [A, te.compute((4,), lambda i: i, name="B"), C])


def argument_computed_in_parts(t: Scene):
    A = te.placeholder((64,), name="A")
    P = te.compute((64,), lambda i: A[i] + 1.0, name="P")
    C = te.compute((32,), lambda i: P[i * 2], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    tl.build(t.watch(s), [A, P, C])


def argument_computed_by_several_threads(t: Scene):
    A = te.placeholder((64,), name="A")
    P = te.compute((64,), lambda i: A[i] + 1.0, name="P")
    C = te.compute((63,), lambda i: P[i] + P[i + 1], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    tl.build(t.watch(s), [A, P, C])


def constant_in_another_layout(t: Scene):
    s, A, P, C = _chain()
    s[A].transform_layout(lambda i, j: [j, i])
    tl.build(t.watch(s), [C], constants={A: np.zeros((64, 16), np.float32)})


def argument_is_a_number(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), [A, 64, C])


def argument_is_an_array(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), [np.zeros((64, 16), np.float32), C])


def argument_is_an_operation(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), [A, C.op])


def arguments_not_in_a_list(t: Scene):
    s, A, _, C = _chain()
    tl.build(t.watch(s), A)


def variable_missing(t: Scene):
    alpha = te.var("alpha", "float32")
    A = te.placeholder((4,), name="A")
    C = te.compute((4,), lambda i: A[i] * alpha, name="C")
    tl.build(t.watch(te.create_schedule(C.op)), [A, C])


def size_that_no_argument_determines(t: Scene):
    n = te.var("n")
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((4,), lambda i: te.sum(A[i] * k, axis=k), name="C")
    tl.build(t.watch(te.create_schedule(C.op)), [A, C])


def size_hidden_in_a_product(t: Scene):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n * m,), name="A")
    C = te.compute((n * m,), lambda i: A[i] + 1.0, name="C")
    tl.build(t.watch(te.create_schedule(C.op)), [A, C])


def two_sizes_hidden_in_a_sum(t: Scene):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n + m,), name="A")
    C = te.compute((n + m,), lambda i: A[i] + 1.0, name="C")
    tl.build(t.watch(te.create_schedule(C.op)), [A, C])


def vector_loop_that_lost_its_constant_extent(t: Scene):
    n = te.var("n")
    A = te.placeholder((n, 64), name="A")
    P = te.compute((n, 64), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((64, n), lambda j, i: P[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[1])
    s[P].vectorize(P.op.axis[0])
    s[P].compute_root()
    tl.lower(t.watch(s), [A, C])


def _diamond(n=64):
    """A, P = A + 1, S = P * 2, C = S + P; the schedule and the tensors."""
    A = te.placeholder((n, 16), name="A")
    P = te.compute((n, 16), lambda i, j: A[i, j] + 1.0, name="P")
    S = te.compute((n, 16), lambda i, j: P[i, j] * 2.0, name="S")
    C = te.compute((n, 16), lambda i, j: S[i, j] + P[i, j], name="C")
    return te.create_schedule(C.op), A, P, S, C


def a_stage_still_waits_for_its_place(t: Scene):
    s, A, P, S, C = _diamond()
    s[P].compute_at(s[C], C.op.axis[0])
    tl.lower(t.watch(s), [A, C])


def two_stages_still_wait(t: Scene):
    s, A, P, S, C = _diamond()
    s.cache_read(S, "local", [C])
    s[P].compute_at(s[C], C.op.axis[0])
    s[S].compute_at(s[C], C.op.axis[0])
    tl.build(t.watch(s), [A, C])


def a_reader_moved_away_from_its_producer(t: Scene):
    s, A, P, S, C = _diamond()
    s[S].compute_at(s[C], C.op.axis[0])
    s[P].compute_at(s[C], C.op.axis[0])
    s[S].compute_root()
    tl.lower(t.watch(s), [A, C])


def too_many_lanes_where_the_stage_ended(t: Scene):
    A = te.placeholder((8, 4096), name="A")
    P = te.compute((8, 4096), lambda i, j: A[i, j] + 1.0, name="P")
    S = te.compute((8, 4096), lambda i, j: P[i, j] * 2.0, name="S")
    C = te.compute((8, 4096), lambda i, j: S[i, j] + P[i, j], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    s[P].vectorize(P.op.axis[1])
    s[S].compute_at(s[C], C.op.axis[0])
    tl.lower(t.watch(s), [A, C])
