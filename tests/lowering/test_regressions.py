"""What the fuzzer found once, each as the smallest schedule that shows it, checked by all oracles."""

from __future__ import annotations

import re

import pytest

import tensorlang as tl
from tensorlang import te
from tests.fuzz.functions import DOUBLE, GEMV
from tests.fuzz.harness import run


def agree(args, outputs, change, ranges=None, sizes=({},)):
    """Reference, lowered kernel, every pass and compiled code give the same under the schedule ``change``
    makes."""
    s = te.create_schedule([t.op for t in outputs])
    change(s)
    given = {t.name: (-4, 5) for t in args if not any(t is o for o in outputs)}
    run(args, outputs, {**given, **(ranges or {})}, s, list(sizes), each_pass=True)
    return s


def pair(m=5, n=9, t="float32"):
    """Two outputs of one compute."""
    A, B = te.placeholder((m, n), t, "A"), te.placeholder((m, n), t, "B")
    U, V = te.compute((m, n), lambda i, j: (A[i, j] + B[i, j], A[i, j] - B[i, j]), "U")
    return A, B, U, V


def argmax(m=11, n=5):
    A = te.placeholder((m, n), "int32", "A")
    best = te.comm_reducer(
        lambda x, y: (
            te.select((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda a, b: (te.const(1000, a), te.const(-1000, b)),
    )
    k = te.reduce_axis((0, n), "k")
    U, V = te.compute((m,), lambda i: best((k, A[i, k]), axis=k), "U")
    return A, U, V


@pytest.mark.parametrize("lanes", [3, 5, 6, 7, 9])
def test_several_outputs_with_an_odd_number_of_lanes(lanes):
    A, B, U, V = pair(4, 10)

    def change(s):
        _, inner = s[U].split(s[U].op.axis[1], factor=lanes)
        s[U].vectorize(inner)

    agree([A, B, U, V], [U, V], change)


def test_odd_lanes_keep_the_order_of_a_tuple_reduction():
    """The second value of the combiner reads what the first store writes: pieces of a Let must all be made
    before."""
    A = te.placeholder((7, 5), "int32", "A")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + x[0] * y[1]), lambda a, b: (te.const(0, a), te.const(0, b))
    )
    k = te.reduce_axis((0, 5), "k")
    U, V = te.compute((7,), lambda i: both((A[i, k], A[i, k]), axis=k), "U")
    agree([A, U, V], [U, V], lambda s: (s[U].reorder(k, U.op.axis[0]), s[U].vectorize(U.op.axis[0])))


def test_unrolled_copies_of_a_let_have_values_of_their_own():
    A, B, U, V = pair()
    agree([A, B, U, V], [U, V], lambda s: s[U].unroll(s[U].op.axis[1]))
    A, U, V = argmax()
    agree([A, U, V], [U, V], lambda s: s[U].unroll(U.op.reduce_axis[0]), {"A": (-40, 41)})


def test_a_vector_argmax_under_a_mask_compiles():
    """Masks that read data were guarded by masks without end."""
    A, U, V = argmax()

    def change(s):
        _, inner = s[U].split(s[U].op.axis[0], factor=4)
        s[U].vectorize(inner)

    agree([A, U, V], [U, V], change, {"A": (-40, 41)})


def test_a_box_that_a_size_of_zero_leaves_empty():
    """Its extent is ``(n + 2) // 3 * 3 - 2``, which is -2 for n = 0: no memory, and no failure."""
    n = te.var("n")
    A = te.placeholder((n, 5), name="A")
    P = te.compute((n, 5), lambda i, j: A[i, j] * 2, "P")
    C = te.compute((n, 5), lambda i, j: P[i, j] + 1, "C")

    def change(s):
        outer, inner = s[C].split(s[C].op.axis[0], factor=3)
        s[C].reorder(s[C].op.axis[1], inner, outer)
        s[P].compute_at(s[C], inner)

    agree([A, C], [C], change, sizes=[{"n": k} for k in (0, 1, 2, 3, 7)])


def test_a_region_at_a_position_that_is_data_is_the_whole_tensor():
    A, B = te.placeholder((9, 4), name="A"), te.placeholder((6,), "int32", "B")
    P = te.compute((9, 4), lambda i, j: A[i, j] + 3, "P")
    C = te.compute((6, 4), lambda i, j: P[B[i], j], "C")
    s = agree([A, B, C], [C], lambda s: s[P].compute_at(s[C], s[C].op.axis[0]), {"B": (0, 9)})
    assert "storage P         float32[9, 4]" in str(s.tree())


@pytest.mark.parametrize("how", ["floordiv", "floormod", "truncdiv", "truncmod"])
def test_lanes_that_are_off_divide_by_one(how):
    A, B = te.placeholder((5, 11), "int32", "A"), te.placeholder((11,), "int32", "B")
    C = te.compute((5, 11), lambda i, j: getattr(te, how)(A[i, j], B[j]), "C")

    def change(s):
        _, inner = s[C].split(s[C].op.axis[1], factor=8)
        s[C].vectorize(inner)

    agree([A, B, C], [C], change, {"A": (-40, 41), "B": (1, 6)})


def test_a_uniform_value_is_reduced_once_per_lane():
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis((0, 12), "k")
    C = te.compute((3,), lambda i: te.sum(A[i], axis=k), "C")

    def change(s):
        _, inner = s[C].split(k, factor=4)
        s[C].vectorize(inner)

    agree([A, C], [C], change)


def test_a_condition_common_to_all_lanes_guards_what_is_read_once():
    A = te.placeholder((6,), name="A")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((9,), lambda j: te.sum(A[k - 1] * 2, axis=k, where=(k >= 1) & (j < 7)), "C")
    agree([A, C], [C], lambda s: s[C].vectorize(s[C].op.axis[0]))


def test_a_buffer_allocated_again_has_pointers_of_its_own():
    A, B = te.placeholder((3, 5), name="A"), te.placeholder((3,), "int64", "B")
    P = te.compute((3, 5), lambda i, j: A[i, j] + 3, "P")
    C = te.compute((3, 5), lambda i, j: P[te.max(2 - B[i], 0), j], "C")

    def change(s):
        s[P].compute_at(s[C], s[C].op.axis[1])
        s[C].unroll(s[C].op.axis[1])

    agree([A, B, C], [C], change, {"B": (0, 3)})


def test_a_stage_moved_to_root_takes_its_memory_along():
    A = te.placeholder((4, 6), name="A")
    P = te.compute((4, 6), lambda i, j: A[i, j] + 3, "P")
    C = te.compute((4, 6), lambda i, j: P[i, j] * 2, "C")

    def change(s):
        i, j = s[C].op.axis
        s[P].compute_at(s[C], j)
        s[P].store_at(s[C], i)
        s[P].compute_root()

    agree([A, C], [C], change)


def test_a_knob_that_nobody_sampled_is_refused():
    A, B, U, V = pair()
    s = te.create_schedule([U.op])
    with pytest.raises(tl.ScheduleError, match=r"no sampled value `tile_x\.0`"):
        s[U].split(s[U].op.axis[0], factor=s.knob("tile_x.0"))
    s.sample_tile(s[U].op.axis[0], name="t")
    with pytest.raises(tl.ScheduleError, match=r"t\.0"):
        s[U].split(s[U].op.axis[0], factor=s.knob("t.1"))


def test_a_step_with_arguments_missing_or_of_the_wrong_type_is_refused():
    A, B, U, V = pair()
    s = te.create_schedule([U.op])
    for name, arguments in (
        ("compute_at", {"stage": "U", "loop": "i"}),
        ("split", {"stage": "U", "loop": 3, "factor": 2}),
        ("nonsense", {}),
        ("vectorize", {"stage": "U", "loop": "i", "wild": 1}),
    ):
        with pytest.raises(tl.ScheduleError):
            s.step(name, **arguments)
    assert len(s.trace) == 0


def test_arguments_have_no_loops_to_factor():
    A, B, U, V = pair()
    s = te.create_schedule([U.op])
    assert s[A].transform_layout(lambda i, j: [j, i]) == ()
    with pytest.raises(tl.ScheduleError):
        s.rfactor(A, "i", -1)
    with pytest.raises(tl.ScheduleError, match="candidates"):
        s.sample_categorical((2, "x"))
    with pytest.raises(tl.ScheduleError, match="candidates"):
        s.sample_tile(s[U].op.axis[0], candidates=(2, "x"))


def test_reverse_compute_at_below_a_loop_of_one_iteration():
    A = te.placeholder((4,), name="A")
    P = te.compute((4,), lambda i: A[i] + 3, "P")
    C = te.compute((4,), lambda i: P[i] * 2, "C")

    def change(s):
        s[P].fuse()
        s[C].reverse_compute_at(s[P], s[P].op.axis[0])

    agree([A, C], [C], change)


@pytest.mark.parametrize("levels", [1, 2])
def test_rfactor_asks_the_guards_of_its_loops_before_a_condition_that_reads(levels):
    A = te.placeholder((10, 3), "int64", "A")
    k = te.reduce_axis((4, 10), "k")
    C = te.compute((3,), lambda j: te.sum(A[k, j], axis=k, where=A[k, j] > -2), "C")

    def change(s):
        outer, inner = s[C].split(k, factor=4)
        if levels == 2:
            s[C].split(outer, factor=2)
        s.rfactor(C, inner)

    agree([A, C], [C], change)


def test_a_sampled_size_beyond_the_extent_of_a_factored_loop_is_the_extent():
    """With knobs as symbols the extent is not known, with numbers it is: both must take the same values."""
    A = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((1,), lambda z: te.sum(A[k], axis=k), "C")

    def change(s):
        outer, inner = s[C].split(k, factor=s.sample_tile(k, values=8))
        R = s.rfactor(C, inner)
        left = s[R].op.reduce_axis[0]
        s[R].split(left, factor=s.sample_tile(left, candidates=(2, 4), values=4))

    agree([A, C], [C], change)


def test_reverse_compute_at_of_an_annotated_reduction():
    """The kinds of the producer's loops were looked up with ``in``, which asks a comparison for its truth."""
    A = te.placeholder((4, 6), "int32", "A")
    k = te.reduce_axis((0, 6), "k")
    P = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "P")
    C = te.compute((4,), lambda i: P[i] * 2, "C")

    def change(s):
        s[P].vectorize(k)
        s[C].reverse_compute_at(s[P], s[P].op.axis[0])

    agree([A, C], [C], change)


def test_lanes_that_lie_before_a_buffer_do_not_count_as_reads():
    A, B = te.placeholder((2, 7), name="A"), te.placeholder((2,), name="B")
    C = te.compute(
        (4, 7),
        lambda i, j: te.if_then_else((i >= 1) & (i <= 2), A[i - 1, j] + B[i - 1], te.const(1, "float32")),
        "C",
    )

    def change(s):
        s.cache_read(B, "local", [C])
        s[C].vectorize(s[C].op.axis[0])

    agree([A, B, C], [C], change)


@pytest.mark.parametrize("shape", [(0, 6, 5), (6, 0, 5), (6, 5, 0), (1, 1, 1), (7, 1, 3)])
@pytest.mark.parametrize("tiled", [False, True])
def test_matmul_of_no_rows_columns_or_terms(shape, tiled):
    m, n, length = shape
    A, B = te.placeholder((m, length), name="A"), te.placeholder((length, n), name="B")
    k = te.reduce_axis((0, length), "k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")

    def change(s):
        if tiled:
            L = s.cache_write(C, "local")
            _, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 8)
            s[L].compute_at(s[C], jo)
            s[L].reorder(k, *s[L].op.axis)
            s[L].unroll(s[L].op.axis[0])
            s[L].vectorize(s[L].op.axis[1])
            s[C].vectorize(ji)
        else:
            s[C].parallel(s[C].fuse(*s[C].op.axis))

    agree([A, B, C], [C], change)


def test_a_prefetch_of_memory_made_inside_the_loop_is_left_out():
    A = te.placeholder((5, 6), name="A")
    B = te.compute((5, 6), lambda i, j: A[i, j] * 2, "B")
    C = te.compute((5, 6), lambda i, j: B[i, j] + 1, "C")

    def change(s):
        s[C].prefetch(B, C.op.axis[0], 1)
        s[B].compute_at(s[C], C.op.axis[1])

    s = agree([A, C], [C], change)
    assert "prefetch" not in str(tl.lower(s, [A, C], simple=True))


def test_a_prefetch_in_shares_is_of_what_comes_after_the_loops_that_read_the_same():
    """A block of B is read by each of three rows: they ask for the next block together, 8 elements each. Where
    nothing is read again, where the block is cut out of longer rows, and after moves that take the loops away,
    nothing is asked for. A share of more than a line of the cache is asked for line by line."""
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((5, 4, 6), name="B")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((5, 3, 6), lambda p, i, j: te.sum(A[i, k] * B[p, k, j], axis=k), "C")

    def change(order, at, part=6, C=C):
        def change(s):
            axes, L = dict(zip("pij", C.op.axis)), s.cache_write(C, "local")
            axes["o"], axes["j"] = s[C].split(axes["j"], factor=part)
            s[C].reorder(*(axes[x] for x in order))
            s[L].compute_at(s[C], axes[at])
            s[L].reorder(s[L].op.reduce_axis[0], *s[L].op.axis)
            s[L].prefetch(B, s[L].op.reduce_axis[0], share=True)

        return change

    for how, asked in (
        (("pioj", "o"), "prefetch(B[p + 1, 0, i*8 + k*2])"),
        (("pioj", "o", 3), "prefetch(B[p + 1, 0, i*8 + j.outer*4 + k])"),
        (("pioj", "p"), None),
        (("ipoj", "o"), None),
        (("oipj", "p", 3), None),
    ):
        text = str(tl.lower(agree([A, B, C], [C], change(*how)), [A, B, C], simple=True))
        assert asked in text if asked else "prefetch" not in text, how

    def fused(s):
        (p, i, _), L = C.op.axis, s.cache_write(C, "local")
        i, inner = s[C].split(i, factor=1)
        s[L].compute_at(s[C], inner)
        s[L].reorder(s[L].op.reduce_axis[0], *s[L].op.axis)
        s[C].fuse(p, i)
        s[L].prefetch(B, s[L].op.reduce_axis[0], share=True)

    text = str(tl.lower(agree([A, B, C], [C], fused), [A, B, C], simple=True))
    assert "prefetch(B[p.i.outer.fused // 3 + 1, 0, (p.i.outer.fused % 3)*8 + k*2])" in text

    def within(s):
        """The loops that read the same again are those of the stage itself."""
        (p, i, j), L = C.op.axis, s.cache_write(C, "local")
        p, i, j = s[L].op.axis
        s[L].reorder(p, i, s[L].op.reduce_axis[0], j)
        s[L].prefetch(B, i, share=True)

    text = str(tl.lower(agree([A, B, C], [C], within), [A, B, C], simple=True))
    assert "prefetch(B[p + 1, 0, i*8])" in text
    B = te.placeholder((5, 4, 66), name="B")
    C = te.compute((5, 3, 66), lambda p, i, j: te.sum(A[i, k] * B[p, k, j], axis=k), "C")
    text = str(tl.lower(agree([A, B, C], [C], change("pioj", "o", 66, C)), [A, B, C], simple=True))
    assert re.findall(r"prefetch\(.*\)", text) == [
        "prefetch(B[p + 1, 0, i*88 + k*22])",
        "prefetch(B[p + 1, 0, i*88 + k*22 + 16])",
    ]


def test_a_step_that_would_undo_a_tensorize_is_refused():
    """It was an error of lowering once, far from the call that caused it."""
    A, B = te.placeholder((3, 4), name="A"), te.placeholder((8, 4), name="B")
    D = te.compute((3, 4), lambda i, j: A[i, j] + 1, "D")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((3, 8), lambda i, j: te.sum(D[i, k] * B[j, k], axis=k), "C")
    s = te.create_schedule(C)
    s[C].tensorize(s[C].split(C.op.axis[1], 4)[1], GEMV["fuzz.gemv4x4.float32"][3])
    before = s.tree()
    for call in (lambda: s[D].compute_inline(), lambda: s[C].vectorize(k), lambda: s[D].compute_at(s[C], k)):
        with pytest.raises(
            tl.ScheduleError, match="is tensorized and would not be what its intrinsic computes"
        ):
            call()
    assert s.tree() == before
    run([A, B, C], [C], {"A": (-4, 5), "B": (-4, 5)}, s, [{}], each_pass=True)


@pytest.mark.parametrize("what", ["state", "update"])
def test_a_copy_of_rows_of_a_scan_is_made_at_each_iteration(what):
    """It stood before the scan once, and read rows that nobody had written."""
    X, H = te.placeholder((6, 5), name="X"), te.placeholder((6, 5), name="H")
    first = te.compute((1, 5), lambda t, i: X[t, i], "first")
    mid = te.compute((6, 5), lambda t, i: H[t - 1, i] + 1, "mid")
    new = te.compute((6, 5), lambda t, i: mid[t, i] - X[t, i], "new")
    Y = te.scan(first, new, H, name="Y")
    agree(
        [X, Y],
        [Y],
        lambda s: s.cache_read(H, "local", [mid]) if what == "state" else s.cache_read(mid, "local", [new]),
    )


def test_a_tensorized_stage_is_not_inlined():
    A = te.placeholder((5, 8), name="A")
    B = te.compute((5, 8), lambda i, j: A[i, j] * 2, "B")
    C = te.compute((5, 8), lambda i, j: B[i, j] + 1, "C")

    def change(s):
        s[B].tensorize(s[B].split(B.op.axis[1], 4)[1], DOUBLE["fuzz.double4.float32"][2])
        with pytest.raises(tl.ScheduleError, match="it would be inlined"):
            s[B].compute_inline()

    agree([A, C], [C], change)


def test_a_fused_row_of_a_scan_needs_no_later_rows():
    """The row was ``fused // n`` with bounds wider than the one iteration it has, so that rows not written
    yet were read."""
    n = te.dim("n", 4, 64, multiple_of=4)
    X, H, W = (
        te.placeholder((6, n), name="X"),
        te.placeholder((6, n), name="H"),
        te.placeholder((n, n), name="W"),
    )
    first = te.compute((1, n), lambda t, i: X[t, i], "first")
    k = te.reduce_axis((0, n), "k")
    mid = te.compute((6, n), lambda t, i: te.sum(H[t - 1, k] * W[k, i], axis=k), "mid")
    new = te.compute((6, n), lambda t, i: te.max(te.min(mid[t, i], 3), -3), "new")
    Y = te.scan(first, new, H, name="Y")
    s = agree([X, W, Y], [Y], lambda s: s[new].fuse(*new.op.axis), sizes=({"n": 4}, {"n": 8}))
    assert "storage mid   float32[1, n]" in " ".join(s.tree().split()).replace("mid float32", "mid   float32")


@pytest.mark.parametrize("index", [2, -1])
def test_an_output_that_is_not_there_is_refused_in_a_trace(index):
    """It was an IndexError once."""
    _, _, U, V = pair()
    C = te.compute(U.shape, lambda i, j: U[i, j] + V[i, j], "C")
    s = te.create_schedule(C)
    with pytest.raises(tl.ScheduleError, match="has 2 outputs"):
        s.step("cache_read", tensor="U", scope="local", readers=("C",), index=index)
    with pytest.raises(tl.ScheduleError, match="has 2 outputs"):
        s.step("prefetch", stage="C", tensor="U", loop="i", index=index)


def test_a_sampled_location_does_not_take_the_update_out_of_its_scan():
    """Place 0 was root even for a stage that hangs on the state of a scan."""
    X, H = te.placeholder((5, 3), name="X"), te.placeholder((5, 3), name="H")
    first = te.compute((1, 3), lambda t, i: X[t, i], "first")
    mid = te.compute((5, 3), lambda t, i: H[t - 1, i] * 2, "mid")
    new = te.compute((5, 3), lambda t, i: mid[t, i] + X[t, i], "new")
    Y = te.scan(first, new, H, name="Y")

    def change(s):
        s.sample_location(new, value=0)
        s.sample_location(mid, value=0)

    agree([X, Y], [Y], change)


@pytest.mark.parametrize(
    "digits", [((0, 1, 0), (1, 1, 0), (2, 1, 0)), ((0, 1, 0), (1, 1, 0), (-1, 1, 0)), ((0, -1, 0), (1, 1, 0))]
)
def test_a_layout_in_a_trace_that_names_axes_that_are_not_there_is_refused(digits):
    """It was an IndexError once."""
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1, "B")
    C = te.compute((4, 6), lambda i, j: B[i, j] * 2, "C")
    s = te.create_schedule(C)
    with pytest.raises(tl.ScheduleError, match="positive stride"):
        s.step("transform_layout", stage="B", digits=digits)
