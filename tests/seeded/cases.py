"""Small scheduled programs that between them pass through every part of the compiler: what the mutants are
run on, after the ones aimed at.

Each gives ``(args, outputs, ranges of the inputs, schedule, sizes)``, the form of the fuzzer's harness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorlang as tl
from tensorlang import te

Case = tuple[list[Any], list[Any], dict[str, tuple[int, int]], tl.Schedule, tuple[dict[str, int], ...]]
CASES: dict[str, Callable[[], Case]] = {}
SMALL = (-4, 5)


def case(f: Callable[[], Case]) -> Callable[[], Case]:
    CASES[f.__name__] = f
    return f


def pair(n: Any, dtype: str = "float32") -> tuple[Any, Any]:
    A = te.placeholder((n,), dtype, "A")
    return A, te.compute((n,), lambda i: A[i] * 2 + 1, name="C")


def product(m: Any, n: Any, k: Any) -> tuple[Any, Any, Any]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def tiled_in_registers(C: Any, rows: int, columns: int) -> Any:
    """The schedule of a product whose sums are kept for a tile, its rows written out and its columns a vector."""
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=rows, y_factor=columns)
    s[CC].compute_at(s[C], jo)
    i, j = s[CC].op.axis
    s[CC].reorder(s[CC].op.reduce_axis[0], i, j)
    s[CC].unroll(i)
    s[CC].vectorize(j)
    s[C].vectorize(ji)
    s[C].unroll(ii)
    return s


@case
def split_tail() -> Case:
    A, C = pair(13)
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 4)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def split_of_split() -> Case:
    A, C = pair(67)
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], nparts=5)
    io, ii = s[C].split(i, nparts=3)
    s[C].unroll(ii)
    s[C].reorder(io, o, ii)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def vector_tail() -> Case:
    n = te.var("n")
    A, C = pair(n)
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(i)
    return [A, C], [C], {"A": SMALL}, s, tuple({"n": k} for k in (0, 1, 7, 8, 9, 16, 21))


@case
def odd_vectors() -> Case:
    A = te.placeholder((5, 47), name="A")
    C = te.compute((5, 47), lambda i, j: A[i, 46 - j] - A[i, j], name="C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], 12)
    s[C].vectorize(ji)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def fused() -> Case:
    A = te.placeholder((5, 7, 3), name="A")
    C = te.compute((5, 7, 3), lambda i, j, k: A[i, j, k] + i * 100 + j * 10 + k, name="C")
    s = te.create_schedule(C.op)
    f = s[C].fuse(*C.op.axis)
    o, i = s[C].split(f, 8)
    s[C].vectorize(i)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def matmul_in_registers() -> Case:
    A, B, C = product(te.var("m"), 21, 13)
    s = tiled_in_registers(C, 4, 8)
    return [A, B, C], [C], {"A": SMALL, "B": SMALL}, s, tuple({"m": k} for k in (1, 4, 7, 8))


@case
def a_tile_of_the_last_columns() -> Case:
    """Of 16 columns, nine are left."""
    A, B, C = product(5, 41, 13)
    s = tiled_in_registers(C, 5, 16)
    return [A, B, C], [C], {"A": SMALL, "B": SMALL}, s, ({},)


@case
def reduction_split() -> Case:
    A = te.placeholder((6, 29), "int32", "A")
    k = te.reduce_axis((2, 29), "k")
    C = te.compute((6,), lambda i: te.max(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 8)
    s[C].reorder(ko, C.op.axis[0], ki)
    s[C].unroll(ki)
    return [A, C], [C], {"A": (-40, -3)}, s, ({},)


@case
def reduction_in_lanes() -> Case:
    A = te.placeholder((3, 29), "int32", "A")
    k = te.reduce_axis((0, 29), "k")
    C = te.compute((3,), lambda i: te.min(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(k, 8)[1])
    return [A, C], [C], {"A": (3, 40)}, s, ({},)


@case
def where_and_init() -> Case:
    A = te.placeholder((9, 17), "int32", "A")
    k = te.reduce_axis((0, 17), "k")
    C = te.compute((9,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > -2, init=3), name="C")
    D = te.compute((9,), lambda i: C[8 - i] + 1, name="D")
    s = te.create_schedule(D.op)
    s[C].vectorize(s[C].split(C.op.axis[0], 4)[1])
    return [A, D], [D], {"A": SMALL}, s, ({},)


@case
def partial_results() -> Case:
    A = te.placeholder((4, 29), name="A")
    k = te.reduce_axis((0, 29), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k] + 1, axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 8)
    F = s.rfactor(C, ki)
    s[F].vectorize(s[F].op.axis[0])
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def partial_results_where() -> Case:
    A = te.placeholder((4, 24), "int32", "A")
    k = te.reduce_axis((0, 24), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=A[i, k] > 0), name="C")
    s = te.create_schedule(C.op)
    s.rfactor(C, s[C].split(k, 8)[0], factor_axis=1)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def cached_transpose() -> Case:
    A = te.placeholder((6, 11), name="A")
    C = te.compute((11, 6), lambda i, j: A[j, i], name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "local", [C])
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 4)
    s[AA].compute_at(s[C], jo)
    s[C].unroll(ji)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def sliding_rows() -> Case:
    A = te.placeholder((14, 9), name="A")
    P = te.compute((14, 9), lambda i, j: A[i, j] * 2, name="P")
    C = te.compute((12, 7), lambda i, j: P[i, j] + P[i + 2, j + 2], name="C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], 3)
    s[P].compute_at(s[C], jo)
    s[P].store_at(s[C], C.op.axis[0])
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def stencil_in_tiles() -> Case:
    n = te.var("n")
    A = te.placeholder((n + 2, 23), name="A")
    P = te.compute((n + 2, 21), lambda i, j: A[i, j] + A[i, j + 2], name="P")
    C = te.compute((n, 21), lambda i, j: P[i, j] - P[i + 2, j], name="C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 5, 8)
    s[P].compute_at(s[C], jo)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return [A, C], [C], {"A": SMALL}, s, tuple({"n": k} for k in (1, 5, 12))


@case
def padded_convolution() -> Case:
    A, F = te.placeholder((3, 17), name="A"), te.placeholder((3,), name="F")
    P = te.compute(
        (3, 19), lambda b, x: te.if_then_else(te.all(x >= 1, x < 18), A[b, x - 1], te.const(0.0)), name="P"
    )
    r = te.reduce_axis((0, 3), "r")
    C = te.compute((3, 17), lambda b, x: te.sum(P[b, x + r] * F[r], axis=r), name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[1], 8)
    s[C].reorder(C.op.axis[0], xo, r, xi)
    s[P].compute_inline()
    s[C].vectorize(xi)
    return [A, F, C], [C], {"A": SMALL, "F": SMALL}, s, ({},)


@case
def turned_chain() -> Case:
    A = te.placeholder((5, 7), name="A")
    P = te.compute((5, 7), lambda i, j: A[i, j] * 2.0, name="P")
    Q = te.compute((7, 5), lambda i, j: P[j, i] + 1.0, name="Q")
    C = te.compute((5, 7), lambda i, j: Q[j, i] * Q[j, i], name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    s[Q].compute_inline()
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def argmax() -> Case:
    best = te.comm_reducer(
        lambda x, y: (
            te.select((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda t0, t1: (te.const(1000, t0), te.min_value(t1)),
        name="argmax",
    )
    A = te.placeholder((5, 13), "int32", "A")
    k = te.reduce_axis((0, 13), "k")
    U, V = te.compute((5,), lambda i: best((k.var, A[i, k]), axis=k), name="U")
    s = te.create_schedule(U.op)
    s[U].split(k, 4)
    return [A, U, V], [U, V], {"A": (-3, 4)}, s, ({},)


@case
def smallest_with_its_place() -> Case:
    least = te.comm_reducer(
        lambda x, y: (
            te.min(x[0], y[0]),
            te.select((x[0] < y[0]) | ((x[0] == y[0]) & (x[1] < y[1])), x[1], y[1]),
        ),
        lambda t0, t1: (te.max_value(t0), te.const(1000, t1)),
        name="least",
    )
    A = te.placeholder((5, 13), "int32", "A")
    k = te.reduce_axis((0, 13), "k")
    U, V = te.compute((5,), lambda i: least((A[i, k], k.var), axis=k), name="U")
    s = te.create_schedule(U.op)
    s[U].reorder(k, U.op.axis[0])
    return [A, U, V], [U, V], {"A": (-3, 4)}, s, ({},)


@case
def divisions() -> Case:
    A, B = te.placeholder((8, 11), "int32", "A"), te.placeholder((11,), "int32", "B")
    C = te.compute(
        (8, 11),
        lambda i, j: A[i, j] // 3 * 100 + A[i, j] % 4 + A[i, j] // B[j] * 7 + te.truncdiv(A[i, j], 4) * 1000,
        name="C",
    )
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], 8)[1])
    return [A, B, C], [C], {"A": (-40, 41), "B": (1, 6)}, s, ({},)


@case
def index_arithmetic() -> Case:
    n = te.var("n")
    A = te.placeholder((60,), "int32", "A")
    C = te.compute(
        (n, 7), lambda i, j: A[(i * 7 + j) // 4 % 15 * 4 + (i - j + 70) % 4] + (j - i - 3) // 5, name="C"
    )
    s = te.create_schedule(C.op)
    s[C].split(s[C].fuse(*C.op.axis), 5)
    return [A, C], [C], {"A": (0, 50)}, s, tuple({"n": k} for k in (1, 9, 20))


@case
def two_outputs() -> Case:
    A = te.placeholder((6, 10), name="A")
    U, V = te.compute((6, 10), lambda i, j: (A[i, j] + 1, A[i, j] * 3), name="U")
    C = te.compute((6, 10), lambda i, j: U[i, j] - V[i, 9 - j], name="C")
    s = te.create_schedule([C.op, U.op])
    s.cache_write(U, "local")
    s[U].split(U.op.axis[1], 4)
    return [A, C, U, V], [C, U, V], {"A": SMALL}, s, ({},)


@case
def packed_with_padding() -> Case:
    A, B, C = product(6, 21, 5)
    s = te.create_schedule(C.op)
    BB = s.cache_read(B, "global", [C])
    s[BB].transform_layout(lambda k, j: (j // 8, k, j % 8))
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 8)
    s[C].vectorize(ji)
    return [A, B, C], [C], {"A": SMALL, "B": SMALL}, s, ({},)


@case
def consumer_into_producer() -> Case:
    A = te.placeholder((19, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    P = te.compute((19,), lambda i: te.sum(A[i, k], axis=k), name="P")
    C = te.compute((19,), lambda i: P[i] * 2, name="C")
    s = te.create_schedule(C.op)
    io, ii = s[P].split(P.op.axis[0], 8)
    s[P].parallel(io)
    s[C].reverse_compute_at(s[P], io)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def decomposed_and_aligned() -> Case:
    A = te.placeholder((7, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    P = te.compute((7, 7), lambda i, j: te.sum(A[i, k] * A[j, k], axis=k), name="P")
    C = te.compute((7, 7), lambda i, j: P[j, i] + 1, name="C")
    s = te.create_schedule(C.op)
    io, ii = s[P].split(P.op.axis[0], 3)
    s[P].decompose_reduction(io)
    s[P].storage_align(P.op.axis[0], 8, 1)
    s[P].vectorize(ii)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def many_threads() -> Case:
    n = te.var("n")
    A = te.placeholder((n, 5), "int64", "A")
    P = te.compute((n, 5), lambda i, j: A[i, j] + i, name="P")
    C = te.compute((n, 5), lambda i, j: P[i, j] * P[i, 4 - j] + n, name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    return [A, C], [C], {"A": SMALL}, s, tuple({"n": k} for k in (1, 2, 7, 64, 65))


@case
def gathered() -> Case:
    A, I = te.placeholder((9, 4), "int8", "A"), te.placeholder((13,), "int64", "I")
    C = te.compute((13, 4), lambda i, j: A[I[i], 3 - j], name="C")
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 8)
    s[C].reorder(io, C.op.axis[1], ii)
    s[C].vectorize(ii)
    return [A, I, C], [C], {"A": SMALL, "I": (0, 9)}, s, ({},)


@case
def strided() -> Case:
    A = te.placeholder((4, 41), name="A")
    C = te.compute((4, 13), lambda i, j: A[i, 3 * j + 2] + A[3 - i, 12 - j], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def strided_to_the_end() -> Case:
    A = te.placeholder((2, 24), name="A")
    C = te.compute((2, 8), lambda i, j: A[i, 3 * j + 2] + A[i, 3 * j], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def no_rows() -> Case:
    n = te.var("n")
    A = te.placeholder((n, 4), "int32", "A")
    C = te.compute((n, 4), lambda i, j: A[i, j] * 3, name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(C.op.axis[1])
    return [A, C], [C], {"A": SMALL}, s, tuple({"n": k} for k in (0, 3))


@case
def unrolled_rows() -> Case:
    m = te.var("m")
    A, B, C = product(m, 8, 6)
    s = te.create_schedule(C.op)
    io, ii = s[C].split(C.op.axis[0], 3)
    s[C].reorder(io, C.op.reduce_axis[0], ii, C.op.axis[1])
    s[C].unroll(ii)
    s[C].vectorize(C.op.axis[1])
    return [A, B, C], [C], {"A": SMALL, "B": SMALL}, s, tuple({"m": k} for k in (1, 3, 5))


@case
def sampled_tiles() -> Case:
    A, C = pair(50)
    s = te.create_schedule(C.op)
    knob = s.sample_tile(C.op.axis[0], candidates=(4, 8, 16), values=8)
    o, i = s[C].split(C.op.axis[0], factor=knob[0] if isinstance(knob, tuple) else knob)
    s[C].vectorize(i)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def auto_unrolled() -> Case:
    A = te.placeholder((6, 4), "float64", "A")
    C = te.compute(
        (6, 4),
        lambda i, j: te.if_then_else(A[i, j] > 0, A[i, j], te.const(0.5, "float64") * A[i, 3 - j]),
        name="C",
    )
    s = te.create_schedule(C.op)
    s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 16)
    return [A, C], [C], {"A": SMALL}, s, ({},)


@case
def scanned() -> Case:
    m = te.var("m")
    X, state = te.placeholder((m, 11), name="X"), te.placeholder((m, 11), name="state")
    first = te.compute((1, 11), lambda _, i: X[0, i] + 1, name="first")
    twice = te.compute((m, 11), lambda t, i: state[t - 1, i] * 2, name="twice")
    update = te.compute((m, 11), lambda t, i: twice[t, 10 - i] + X[t, i], name="update")
    R = te.scan(first, update, state, inputs=[X], name="R")
    s = te.create_schedule(R.op)
    s[update].vectorize(s[update].split(update.op.axis[1], 4)[1])
    return [X, R], [R], {"X": (-2, 3)}, s, tuple({"m": k} for k in (1, 2, 5))


@case
def scan_in_a_ring() -> Case:
    m = te.var("m")
    X, state = te.placeholder((m, 7), name="X"), te.placeholder((m, 7), name="state")
    first = te.compute((2, 7), lambda t, i: X[t, i], name="first")
    update = te.compute((m, 7), lambda t, i: state[t - 1, i] - state[t - 2, 6 - i], name="update")
    R = te.scan(first, update, state, name="R")
    L = te.compute((7,), lambda i: R[m - 1, i] * 2, name="L")
    return [X, L], [L], {"X": (-2, 3)}, te.create_schedule(L.op), tuple({"m": k} for k in (2, 3, 6))


@case
def workspaces_in_a_row() -> Case:
    A = te.placeholder((6, 9), name="A")
    P = te.compute((6, 9), lambda i, j: A[i, j] + 1, name="P")
    Q = te.compute((6, 9), lambda i, j: P[5 - i, j] * 2, name="Q")
    R = te.compute((6, 9), lambda i, j: Q[i, 8 - j] + P[5 - i, j], name="R")
    C = te.compute((6, 9), lambda i, j: R[5 - i, j] - Q[i, j], name="C")
    return [A, C], [C], {"A": SMALL}, te.create_schedule(C.op), ({},)
