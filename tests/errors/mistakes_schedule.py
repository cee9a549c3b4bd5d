"""Mistakes of scheduling. Each function makes one; its last statement is refused with a ScheduleError and
changes nothing."""

from __future__ import annotations

from tensorlang import te

from .scene import Scene


def _matmul(M=64, N=64, K=32):
    """C = A @ B; the schedule and C."""
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), "k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), C


def _chain(n=64):
    """A, P = A + 1, S = P * 2, C[i] = S[i] + P[i]; the schedule and the tensors."""
    A = te.placeholder((n, 16), name="A")
    P = te.compute((n, 16), lambda i, j: A[i, j] + 1.0, name="P")
    S = te.compute((n, 16), lambda i, j: P[i, j] * 2.0, name="S")
    C = te.compute((n, 16), lambda i, j: S[i, j] + P[i, j], name="C")
    return te.create_schedule(C.op), A, P, S, C


# --- stages and loops ---------------------------------------------------------------------------------------


def schedule_of_a_placeholder(t: Scene):
    te.create_schedule(t.watch(te.placeholder((4,), name="A")).op)


def schedule_of_nothing(t: Scene):
    te.create_schedule([])


def schedule_of_a_number(t: Scene):
    te.create_schedule(3)


def stage_of_a_foreign_tensor(t: Scene):
    s, _ = _matmul()
    _, other = _matmul()
    t.watch(s)[te.compute((4,), lambda i: 0, name="D")].split(other.op.axis[0], 4)


def stage_by_a_wrong_name(t: Scene):
    s, _ = _matmul()
    t.watch(s)["D"]


def loop_by_a_wrong_name(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].loop("x")


def loop_of_another_stage(t: Scene):
    s, _, P, _, C = _chain()
    t.watch(s)[P].split(C.op.axis[0], 4)


def loop_of_another_computation(t: Scene):
    s, C = _matmul()
    _, other = _matmul()
    t.watch(s)[C].vectorize(other.op.axis[1])


def loop_is_a_number(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].unroll(0)


def axis_after_cache_write(t: Scene):
    s, C = _matmul()
    CC = s.cache_write(C, "local")
    t.watch(s)[CC].split(C.op.axis[0], 4)


def loops_of_an_argument(t: Scene):
    s, A, *_ = _chain()
    t.watch(s)[A].split("i", 4)


# --- split, tile, fuse, reorder -----------------------------------------------------------------------------


def split_of_a_split_loop(t: Scene):
    s, C = _matmul()
    i, _ = s[C].op.axis
    s[C].split(i, 8)
    t.watch(s)[C].split(i, 4)


def split_of_a_fused_loop(t: Scene):
    s, C = _matmul()
    i, j = s[C].op.axis
    s[C].fuse(i, j)
    t.watch(s)[C].split(j, 4)


def split_by_zero(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], 0)


def split_by_a_negative_number(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], nparts=-2)


def split_by_a_float(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], 8.5)


def split_by_a_symbol(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], te.var("f") * 2)


def split_by_nothing(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0])


def split_by_factor_and_nparts(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], factor=8, nparts=8)


def split_with_an_unknown_tail(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].split(C.op.axis[0], 8, tail="cut")


def split_of_a_vector_loop(t: Scene):
    s, C = _matmul()
    s[C].vectorize(C.op.axis[1])
    t.watch(s)[C].split(C.op.axis[1], 8)


def tile_with_a_bad_factor(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].tile(*C.op.axis, 8, 0)


def fuse_of_loops_apart(t: Scene):
    s, C = _matmul()
    i, j = s[C].op.axis
    io, ii = s[C].split(i, 8)
    t.watch(s)[C].fuse(io, j)


def fuse_of_a_loop_with_itself(t: Scene):
    s, C = _matmul()
    i, _ = s[C].op.axis
    t.watch(s)[C].fuse(i, i)


def fuse_of_data_and_reduction(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].fuse(C.op.axis[1], C.op.reduce_axis[0])


def fuse_of_a_parallel_loop(t: Scene):
    s, C = _matmul()
    s[C].parallel(C.op.axis[0])
    t.watch(s)[C].fuse(*C.op.axis)


def reorder_names_a_loop_twice(t: Scene):
    s, C = _matmul()
    i, j = s[C].op.axis
    t.watch(s)[C].reorder(j, i, j)


def reorder_of_a_gone_loop(t: Scene):
    s, C = _matmul()
    i, j = s[C].op.axis
    s[C].split(i, 8)
    t.watch(s)[C].reorder(j, i)


def reorder_of_strangers(t: Scene):
    s, _, P, _, C = _chain()
    t.watch(s)[C].reorder(C.op.axis[1], P.op.axis[0])


# --- how loops run ------------------------------------------------------------------------------------------


def vectorize_and_unroll(t: Scene):
    s, C = _matmul()
    s[C].vectorize(C.op.axis[1])
    t.watch(s)[C].unroll(C.op.axis[1])


def vectorize_two_loops(t: Scene):
    s, C = _matmul()
    s[C].vectorize(C.op.axis[1])
    t.watch(s)[C].vectorize(C.op.axis[0])


def vectorize_a_symbolic_extent(t: Scene):
    s, C = _matmul(N=te.var("n"))
    t.watch(s)[C].vectorize(C.op.axis[1])


def vectorize_a_symbolic_extent_that_can_move(t: Scene):
    s, _, P, S, C = _chain(te.var("n"))
    t.watch(s)[S].vectorize(S.op.axis[0])


def vectorize_too_many_lanes(t: Scene):
    s, C = _matmul(N=4096)
    t.watch(s)[C].vectorize(C.op.axis[1])


def vectorize_a_custom_reduction(t: Scene):
    A, k = te.placeholder((8, 32), name="A"), te.reduce_axis((0, 32), "k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda a, b: (te.const(-1, a), te.min_value(b)),
        name="argmax",
    )
    index, _ = te.compute((8,), lambda i: argmax((k, A[i, k]), axis=k), name="best")
    s = te.create_schedule(index.op)
    t.watch(s)[index].vectorize(k)


def unroll_too_much(t: Scene):
    s, C = _matmul(M=100_000)
    t.watch(s)[C].unroll(C.op.axis[0])


def unroll_a_symbolic_extent(t: Scene):
    s, C = _matmul(M=te.dim("m", 1, 512))
    t.watch(s)[C].unroll(C.op.axis[0])


def parallel_reduction(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].parallel(C.op.reduce_axis[0])


# --- where stages are computed ------------------------------------------------------------------------------


def compute_at_beside_another_reader(t: Scene):
    _, _, P, S, C = _chain()
    s = te.create_schedule([C.op, S.op])  # an output: nothing can bring it into the loops of C
    t.watch(s)[P].compute_at(s[C], C.op.axis[0])


def compute_at_a_stage_that_does_not_read(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].compute_at(s[P], P.op.axis[0])


def compute_at_itself(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].compute_at(s[S], S.op.axis[0])


def compute_at_of_an_output(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[C].compute_at(s[S], S.op.axis[0])


def compute_at_of_an_argument(t: Scene):
    s, A, P, S, C = _chain()
    t.watch(s)[A].compute_at(s[P], P.op.axis[0])


def compute_at_a_gone_loop(t: Scene):
    s, _, P, S, C = _chain()
    i, j = C.op.axis
    s[C].split(i, 8)
    t.watch(s)[S].compute_at(s[C], i)


def compute_at_a_tensor(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].compute_at(C, C.op.axis[0])


def compute_at_with_the_loop_of_another(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].compute_at(s[C], S.op.axis[0])


def compute_at_an_inlined_stage(t: Scene):
    s, _, P, S, C = _chain()
    i = S.op.axis[0]
    s[S].compute_inline()
    t.watch(s)[P].compute_at(s[S], i)


def store_around_a_vector_loop(t: Scene):
    s, _, P, S, C = _chain()
    s[C].vectorize(C.op.axis[1])
    s[S].compute_at(s[C], C.op.axis[1])
    t.watch(s)[S].store_at(s[C], C.op.axis[0])


def inline_an_output(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].compute_inline()


def inline_an_output_that_reads_a_stage(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[C].compute_inline()


def inline_a_reduction(t: Scene):
    A, k = te.placeholder((8, 32), name="A"), te.reduce_axis((0, 32), "k")
    R = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="R")
    C = te.compute((8,), lambda i: R[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    t.watch(s)[R].compute_inline()


def inline_an_argument(t: Scene):
    s, A, *_ = _chain()
    t.watch(s)[A].compute_inline()


def split_of_an_inlined_stage(t: Scene):
    s, _, P, S, C = _chain()
    i = S.op.axis[0]
    s[S].compute_inline()
    t.watch(s)[S].split(i, 4)


def reverse_compute_at_of_a_reduction(t: Scene):
    A, k = te.placeholder((8, 32), name="A"), te.reduce_axis((0, 32), "k")
    P = te.compute((8, 32), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((8,), lambda i: te.sum(P[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    t.watch(s)[C].reverse_compute_at(s[P], P.op.axis[0])


def reverse_compute_at_of_the_reader_of_an_output(t: Scene):
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule([B.op, C.op])
    t.watch(s)[C].reverse_compute_at(s[B], B.op.axis[0])


def reverse_compute_at_beside_another_reader(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].reverse_compute_at(s[P], P.op.axis[0])


def store_at_of_a_stage_at_root(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s)[S].store_at(s[C], C.op.axis[0])


def store_at_inside_the_computation(t: Scene):
    s, _, P, S, C = _chain()
    i, j = C.op.axis
    s[S].compute_at(s[C], i)
    t.watch(s)[S].store_at(s[C], j)


# --- caches and memory --------------------------------------------------------------------------------------


def cache_write_after_vectorize(t: Scene):
    s, C = _matmul()
    s[C].vectorize(C.op.axis[1])
    t.watch(s).cache_write(C, "local")


def cache_write_around_a_stage(t: Scene):
    s, _, P, S, C = _chain()
    s[S].compute_at(s[C], C.op.axis[0])
    t.watch(s).cache_write(C, "local")


def cache_write_of_an_argument(t: Scene):
    s, A, *_ = _chain()
    t.watch(s).cache_write(A, "local")


def cache_write_into_an_unknown_scope(t: Scene):
    s, C = _matmul()
    t.watch(s).cache_write(C, "shared")


def cache_read_by_a_stage_that_does_not_read(t: Scene):
    s, A, P, S, C = _chain()
    t.watch(s).cache_read(A, "local", [C])


def cache_read_by_nobody(t: Scene):
    s, A, *_ = _chain()
    t.watch(s).cache_read(A, "local", [])


def cache_read_into_an_unknown_scope(t: Scene):
    s, A, P, *_ = _chain()
    t.watch(s).cache_read(A, "wmma", [P])


def cache_read_in_a_narrower_type(t: Scene):
    s, A, P, *_ = _chain()
    t.watch(s).cache_read(A, "local", [P], "float16")


def cache_read_in_no_type(t: Scene):
    s, A, P, *_ = _chain()
    t.watch(s).cache_read(A, "local", [P], "float33")


def scope_of_an_output(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].set_scope("local")


def align_the_last_axis(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].storage_align(P.op.axis[1], 16)


def align_a_reduction_axis(t: Scene):
    s, C = _matmul()
    CC = s.cache_write(C, "local")
    t.watch(s)[CC].storage_align(s[CC].op.reduce_axis[0], 16)


def align_by_zero(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].storage_align(P.op.axis[0], 0)


def layout_of_an_input_that_fills_its_padding(t: Scene):
    s, A, *_ = _chain()
    t.watch(s)[A].transform_layout(lambda i, j: [i // 7, j, i % 7], pad_value=1)


def layout_with_an_axis_separator(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].transform_layout(lambda i, j: [i, te.AXIS_SEPARATOR, j])


def layout_of_an_input_with_strides(t: Scene):
    A = te.placeholder((8, 8), name="A", strides="any")
    s = te.create_schedule(te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="C").op)
    t.watch(s)[A].transform_layout(lambda i, j: [j, i])


def layout_that_forgets_an_axis(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].transform_layout(lambda i, j: [j])


def layout_of_too_many_indices(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].transform_layout(lambda i, j, k: [k, j, i])


def layout_that_mixes_axes(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].transform_layout(lambda i, j: [i + j, j])


def rfactor_of_a_data_loop(t: Scene):
    s, C = _matmul()
    t.watch(s).rfactor(C, C.op.axis[0])


def rfactor_at_a_wild_place(t: Scene):
    s, C = _matmul()
    t.watch(s).rfactor(C, C.op.reduce_axis[0], 5)


def decompose_a_compute_without_reduction(t: Scene):
    s, _, P, *_ = _chain()
    t.watch(s)[P].decompose_reduction(P.op.axis[0])


def decompose_inside_the_reduction(t: Scene):
    s, C = _matmul()
    i, j = C.op.axis
    s[C].reorder(C.op.reduce_axis[0], j)
    t.watch(s)[C].decompose_reduction(j)


def unknown_pragma(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].pragma(C.op.axis[0], "unrol_explicit")


def pragma_without_its_number(t: Scene):
    s, C = _matmul()
    t.watch(s)[C].pragma(C.op.axis[0], "auto_unroll_max_step")
