"""transform_layout of what a caller passes: inputs, outputs, and what is written out on the way. The arrays
of a call lie as the map says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tensorlang.errors import ScheduleError
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify
from tensorlang.schedule.trace import Trace

BLOCKS = {  # maps of [n, h, w, c], each with the shape it gives to (1, 6, 8, 12)
    "nhwc": (lambda n, h, w, c: [n, h, w, c], (1, 6, 8, 12)),
    "nchw": (lambda n, h, w, c: [n, c, h, w], (1, 12, 6, 8)),
    "nchwc": (lambda n, h, w, c: [n, c // 4, h, w, c % 4], (1, 3, 6, 8, 4)),
    "2h2w4c": (lambda n, h, w, c: [n, h // 2, w // 2, c // 4, h % 2, w % 2, c % 4], (1, 3, 4, 3, 2, 2, 4)),
    "flat": (lambda n, h, w, c: [n, h, w * 12 + c], (1, 6, 96)),
    "odd": (lambda n, h, w, c: [n, h // 4, c // 5, w, c % 5, h % 4], (1, 2, 3, 8, 5, 4)),  # both are padded
}


def laid(array, index_map, shape, pad=0):
    """An array in another layout, element by element."""
    out = np.full(shape, pad, array.dtype)
    for index in itertools.product(*map(range, array.shape)):
        new = index_map(*index)
        out[tuple(new) if isinstance(new, list | tuple) else (new,)] = array[index]
    return out


def check(s, args, inputs, want):
    """Interpreted, compiled and replayed, the kernel makes of these arrays that one."""
    func = tl.lower(s, args)
    verify(func)
    got = np.full_like(want, 55)
    interpret(func, *inputs, got)
    assert np.array_equal(got, want)
    got = np.full_like(want, 55)
    tl.build(s, args)(*inputs, got)
    assert np.array_equal(got, want)
    again = Trace.from_json(s.trace.to_json()).apply(s.fresh())
    assert again.trace == s.trace and str(tl.lower(again, args)) == str(func)


def image():
    A = te.placeholder((1, 6, 8, 12), name="A")
    C = te.compute((1, 6, 8, 12), lambda n, h, w, c: A[n, h, w, c] * 2 + h, "C")
    a = np.random.default_rng(0).integers(-9, 9, (1, 6, 8, 12)).astype("float32")
    return A, C, a, a * 2 + np.arange(6, dtype="float32")[None, :, None, None]


@pytest.mark.parametrize("into", BLOCKS)
@pytest.mark.parametrize("out_of", ["nhwc", "nchwc", "odd"])
def test_inputs_and_outputs_in_blocks(out_of, into):
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    assert s[A].transform_layout(BLOCKS[out_of][0]) == ()
    axes = s[C].transform_layout(BLOCKS[into][0])
    assert axes == s[C].op.axis and len(axes) == len(BLOCKS[into][1])
    check(s, [A, C], [laid(a, *BLOCKS[out_of])], laid(want, *BLOCKS[into]))


def test_the_new_axes_are_scheduled():
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    n, co, h, w, ci = s[C].transform_layout(BLOCKS["nchwc"][0])
    s[C].reorder(h, co, n, w, ci)
    s[C].vectorize(ci)
    s[C].parallel(h)
    cached = s.cache_read(A, "local", [C])
    s[cached].compute_at(s[C], w)
    check(s, [A, C], [a], laid(want, *BLOCKS["nchwc"]))


def test_a_cache_and_its_source_in_different_layouts():
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    copy = s.cache_read(A, "global", [C])
    s[A].transform_layout(BLOCKS["nchw"][0])
    s[copy].transform_layout(BLOCKS["2h2w4c"][0])
    check(s, [A, C], [laid(a, *BLOCKS["nchw"])], want)


@pytest.mark.parametrize("size", [12, 13])
def test_products_in_tiles_with_padding(size):
    """Both operands and the result of a product, whose padding holds the initial values of the sum."""
    A, B = te.placeholder((size, 7), name="A"), te.placeholder((7, 10), name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((size, 10), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    tiles, panels = lambda i, j: [i // 4, j // 4, i % 4, j % 4], lambda k, j: [j // 4, k, j % 4]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((size, 7), (7, 10)))
    s = te.create_schedule(C.op)
    s[B].transform_layout(panels)
    io, jo, ii, ji = s[C].transform_layout(tiles)
    s[C].reorder(io, jo, s[C].op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    check(s, [A, B, C], [a, laid(b, panels, (3, 7, 4))], laid(a @ b, tiles, (-(-size // 4), 3, 4, 4)))


@pytest.mark.parametrize("pad", [None, 0, -3, 2.5])
def test_padding_is_filled(pad):
    A = te.placeholder((14,), name="A")
    B = te.compute((14,), lambda i: A[i] + 1, "B")
    C = te.compute((14,), lambda i: B[i] * 2, "C")
    s = te.create_schedule(C.op)
    for T in (B, C):
        s[T].transform_layout(lambda i: [i // 4, i % 4], pad_value=pad)
    a = np.arange(14, dtype="float32")
    check(s, [A, C], [a], laid((a + 1) * 2, lambda i: [i // 4, i % 4], (4, 4), pad or 0))


def test_layouts_on_top_of_each_other():
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    s[A].transform_layout(BLOCKS["nchw"][0])
    s[A].transform_layout(lambda n, c, h, w: [n, h, w, c])
    s[C].transform_layout(BLOCKS["nchw"][0])
    s[C].transform_layout(lambda n, c, h, w: [c, n, w, h])
    check(s, [A, C], [a], np.ascontiguousarray(np.transpose(want, (3, 0, 2, 1))))


def test_symbolic_sizes_follow():
    n = te.var("n")
    A = te.placeholder((n, 6), name="A")
    C = te.compute((n, 6), lambda i, j: A[i, j] + i, "C")
    s = te.create_schedule(C.op)
    s[A].transform_layout(lambda i, j: [j, i])
    s[C].transform_layout(lambda i, j: [j // 4, i, j % 4])
    f = tl.build(s, [A, C])
    for rows in (0, 1, 5):
        a = np.arange(rows * 6, dtype="float32").reshape(rows, 6)
        want = laid(
            a + np.arange(rows, dtype="float32")[:, None], lambda i, j: [j // 4, i, j % 4], (2, rows, 4)
        )
        assert np.array_equal(f(np.ascontiguousarray(a.T)), want)


def test_a_prefetch_follows_the_layout():
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    s[C].prefetch(A, C.op.axis[1], 1)
    s[A].transform_layout(BLOCKS["nchwc"][0])
    assert "prefetch" in str(tl.lower(s, [A, C], simple=True))
    check(s, [A, C], [laid(a, *BLOCKS["nchwc"])], want)


def test_a_line_of_several_rows_is_asked_for_once():
    """Rows of two elements: one request for 16 floats, not one for each row."""
    A = te.placeholder((64, 32, 2), name="A")
    k, r = te.reduce_axis((0, 32), name="k"), te.reduce_axis((0, 2), name="r")
    C = te.compute((64,), lambda i: te.sum(A[i, k, r], axis=[k, r]), name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(A, C.op.axis[0], 4)
    text = str(tl.lower(s, [A, C]))
    assert text.count("prefetch(") == 4 and "ahead" not in text  # written out


def test_an_iteration_asks_for_what_the_same_one_reads_in_the_next_of_an_outer_loop():
    A, C, a, want = image()
    s = te.create_schedule(C.op)
    i, j = C.op.axis[-2:]
    s[C].prefetch(A, j, 1, level=2, outer=i)
    check(s, [A, C], [a], want)
    (asked,) = s[C].state.prefetches
    assert (asked.loop, asked.of) == (j.name, i.name)
    with pytest.raises(ScheduleError, match="inside"):
        s[C].prefetch(A, i, 1, outer=j)
    again = Trace.from_json(s.trace.to_json()).apply(te.create_schedule(C.op))
    assert again[C].state.prefetches == s[C].state.prefetches
    assert f"1, level=2, outer={i.name})" in s.trace.to_python()


def test_what_a_stage_writes_is_asked_for_to_be_written():
    A = te.placeholder((64, 64), name="A")
    C = te.compute((64, 64), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(C, C.op.axis[0], 2)
    assert "prefetch(C[i + 2, 0], 1, 3)" in str(tl.lower(s, [A, C]))
    with pytest.raises(ScheduleError, match="level"):
        s[C].prefetch(A, C.op.axis[0], 1, level=3)


def test_what_the_stage_around_will_write_is_asked_for():
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((64, 64), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="does not read"):
        s[B].prefetch(C, B.op.axis[1])
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].prefetch(C, B.op.axis[1], 0)
    assert "prefetch(C[i, j], 1, 3)" in str(tl.lower(s, [A, C]))


def test_an_element_that_a_loop_asks_for_is_read_ahead_of_it():
    """Its address was taken from within the loop: no code could be made."""
    A, k = te.placeholder((16, 4), name="A"), te.reduce_axis((0, 4), name="k")
    B = te.compute((16,), lambda i: te.max(A[i, k], axis=k), name="B")
    C = te.compute((16, 4), lambda i, j: A[i, j] - B[i], name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(B, C.op.axis[1], 0)
    s[C].unroll(C.op.axis[0])
    a = np.arange(64, dtype="float32").reshape(16, 4) % 7
    assert np.array_equal(tl.build(s, [A, C])(a), a - a.max(1, keepdims=True))


def test_an_array_of_the_declared_shape_is_refused():
    A, C, a, _ = image()
    s = te.create_schedule(C.op)
    s[A].transform_layout(BLOCKS["nchw"][0])
    with pytest.raises(tl.CallError, match="12"):
        tl.build(s, [A, C])(a)


def test_a_record_may_not_change_the_layout_of_arguments():
    task = autosched.SearchTask.of(
        [A := te.placeholder((8,), name="A"), te.compute((8,), lambda i: A[i] + 1, "C")], name="one"
    )
    s = task.schedule()
    s["A"].transform_layout(lambda i: [i // 4, i % 4])
    from autosched.records.replay import replay

    with pytest.raises(ScheduleError, match="layout of arguments"):
        replay(s.trace.to_json(), task.schedule())


@pytest.mark.parametrize(
    ("dtype", "pad"), [("int8", 128), ("int32", 2.5), ("uint8", -1), ("bool", 2), ("float32", float("nan"))]
)
def test_padding_is_of_the_type_of_its_tensor(dtype, pad):
    A = te.placeholder((6,), dtype, name="A")
    C = te.compute((6,), lambda i: A[5 - i], "C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="pad_value"):
        s[C].transform_layout(lambda i: [i // 4, i % 4], pad_value=pad)
    assert s[C].transform_layout(lambda i: [i // 4, i % 4], pad_value=1.0)


@pytest.mark.parametrize(("taps", "legal"), [(3, True), (4, False)])
def test_what_a_reduction_leaves_out_is_not_read(taps, legal):
    """Five sums in pairs: a sixth is computed, and of a weight of three taps its condition leaves out what
    would be read beyond."""
    W, X = te.placeholder((3,), name="W"), te.placeholder((9,), name="X")
    k = te.reduce_axis((0, 2), "k")

    def element(i):
        tap = i % 2 + 2 * k
        return te.sum(W[tap] * X[i + k], axis=k, where=tap < taps)

    A = te.compute((5,), element, name="A")
    B = te.compute((5,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if not legal:
        with pytest.raises(ScheduleError, match="beyond `W`"):
            s[A].transform_layout(lambda i: [i % 2, i // 2], pad_value="any")
        return
    s[A].transform_layout(lambda i: [i % 2, i // 2], pad_value="any")
    x, w = np.arange(9, dtype="float32"), np.array([1, 2, 4], "float32")
    (want,) = te.reference.evaluate(B, {W: w, X: x})
    np.testing.assert_array_equal(tl.build(s, [W, X, B])(w, x), want)


def test_a_margin_goes_on_behind_its_rows_where_reads_are_chosen_by_place():
    """Of a choice only the taken side is read: rows of a margin that are made longer hold more of it."""
    n = te.dim("n")
    X = te.placeholder((4, n), name="X")
    A = te.compute((4, n + 2), lambda y, x: te.if_then_else((x >= 1) & (x <= n), X[y, x - 1], 7.0), name="A")
    B = te.compute((4, n), lambda y, x: A[y, x] + A[y, x + 2], name="B")
    s = te.create_schedule(B.op)
    s[A].transform_layout(lambda y, x: [y, x // 8, x % 8], pad_value="any")
    assert "< n + 2" not in str(tl.lower(s, [X, B]))
    f = tl.build(s, [X, B])
    for count in (1, 5, 8, 21):
        x = np.arange(4.0 * count, dtype="float32").reshape(4, count)
        wide = np.pad(x, ((0, 0), (1, 1)), constant_values=7)
        np.testing.assert_array_equal(f(x), wide[:, :-2] + wide[:, 2:])
    C = te.compute((4, n), lambda y, x: te.if_then_else(x >= 1, X[y, x - 1], 7.0), name="C")
    D = te.compute((4, n), lambda y, x: C[y, x] + 1.0, name="D")
    with pytest.raises(ScheduleError, match="beyond `X`"):
        te.create_schedule(D.op)[C].transform_layout(lambda y, x: [y, x // 8, x % 8], pad_value="any")


def test_rows_of_more_places_than_values_need_no_test_where_the_formula_reads_nothing_beyond():
    """Rows of 4 sums behind each other, 6 places apart, as the rows of what they read are: one loop, and the
    last row ends with its last value."""
    X, k = te.placeholder((5, 6), name="X"), te.reduce_axis((0, 3), "k")
    A = te.compute((5, 4), lambda y, x: te.sum(X[y, x + k], axis=k), name="A")
    B = te.compute((5, 4), lambda y, x: A[y, x] + 1.0, name="B")
    s = te.create_schedule(B.op)

    def rows(y, x):
        return [y * 6 + x]

    with pytest.raises(ScheduleError, match="beyond `X`"):
        s[A].transform_layout(rows, pad_value="any")
    with pytest.raises(ScheduleError, match="'some'"):
        s[A].transform_layout(rows, pad_value="some")
    with pytest.raises(ScheduleError, match="an input"):
        s[X].transform_layout(lambda y, x: [y * 7 + x], pad_value="any")
    copy = s[s.cache_read(X, "global", [A])]
    copy.transform_layout(rows)
    (p,) = s[A].transform_layout(rows, pad_value="any")
    assert str(p.extent) == "28" and "if" not in str(tl.lower(s, [X, B]))
    x = np.arange(30, dtype="float32").reshape(5, 6)
    want = x[:, :4] + x[:, 1:5] + x[:, 2:] + 1
    np.testing.assert_array_equal(tl.build(s, [X, B])(x), want)
    guarded = te.create_schedule(B.op)
    guarded[A].transform_layout(rows)
    np.testing.assert_array_equal(tl.build(guarded, [X, B])(x), want)
    assert "% 6 < 4" in str(tl.lower(guarded, [X, B]))
