"""``split(tail=…)``: every choice gives numpy's numbers for sizes around the tile, and the code it
promises."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.stmt import For, If, Store, preorder
from tests.fuzz.harness import run


def rows(n, tail, vector, factor=8):
    A = te.placeholder((n, 3), name="A")
    C = te.compute((n, 3), lambda i, j: A[i, j] * 2, "C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    s[C].reorder(j, i)
    _, inner = s[C].split(i, factor, tail=tail)
    if vector:
        s[C].vectorize(inner)
    return s, [A, C], C


def masked(func):
    return [st for st in preorder(func.body) if isinstance(st, Store) and st.mask is not None]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("tail", "vector"),
    [(t, v) for t in ("auto", "guard", "mask", "peel", "shift") for v in (False, True) if v or t != "mask"],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_right_for_sizes_around_the_tile(tail, vector, symbolic):
    sizes = (0, 1, 7, 8, 9, 16, 30)
    if symbolic:
        n = te.var("n")
        s, args, out = rows(n, tail, vector)
        run(args, [out], {"A": (-4, 5)}, s, [{"n": k} for k in sizes], each_pass=True)
    else:
        for k in sizes:
            s, args, out = rows(k, tail, vector)
            run(args, [out], {"A": (-4, 5)}, s, [{}], each_pass=True)


def test_guard_and_mask_have_one_body():
    for tail in ("guard", "mask"):
        func = tl.lower(*rows(30, tail, True)[:2])
        assert [len(masked(func)), len([st for st in preorder(func.body) if isinstance(st, Store)])] == [1, 1]


def test_peel_has_no_test_in_the_main_loop():
    func = tl.lower(*rows(te.var("n"), "peel", True)[:2])
    assert not [st for st in preorder(func.body) if isinstance(st, If)]
    # j, the whole tiles, the last one
    assert len([st for st in preorder(func.body) if isinstance(st, For)]) == 3
    assert len(masked(func)) == 1


def test_shift_has_neither_test_nor_mask_nor_second_body():
    func = tl.lower(*rows(30, "shift", True)[:2])
    assert "min(i.outer*8, 22)" in str(func)
    assert not masked(func)
    assert len([st for st in preorder(func.body) if isinstance(st, Store | If)]) == 1


def test_what_fits_needs_nothing():
    texts = {tail: str(tl.lower(*rows(32, tail, True)[:2])) for tail in ("auto", "peel", "shift")}
    assert len(set(texts.values())) == 1


def matmul(order, tail, mark=None):
    A, B = te.placeholder((10, 6), name="A"), te.placeholder((6, 10), name="B")
    k = te.reduce_axis((0, 6), "k")
    C = te.compute((10, 10), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    io, ii = s[C].split(i, 4, tail=tail)
    s[C].reorder(*[{"io": io, "ii": ii, "j": j, "k": k}[x] for x in order.split()])
    if mark:
        getattr(s[C], mark)({"io": io, "ii": ii}["io"])
    return s, [A, B, C], C


@pytest.mark.parametrize("order", ["io ii j k", "io k ii j", "j io ii k", "k io j ii"])
def test_shifted_tiles_of_a_reduction(order):
    s, args, out = matmul(order, "shift")
    if order.startswith("k"):  # the sums of a shifted tile would grow twice
        with pytest.raises(tl.LowerError, match="reorder k inside"):
            tl.lower(s, args)
    else:
        run(args, [out], {"A": (-4, 5), "B": (-4, 5)}, s, [{}], each_pass=True)


def test_tails_that_cannot_be_had_are_refused():
    with pytest.raises(tl.LowerError, match=r"tail='peel', or another loop than"):
        tl.lower(*matmul("io ii j k", "shift", "parallel")[:2])
    with pytest.raises(tl.LowerError, match=r"no loop of i\.inner is a vector"):
        tl.lower(*rows(30, "mask", False)[:2])
    A = te.placeholder((30,), name="A")
    k = te.reduce_axis((0, 30), "k")
    C = te.compute((1,), lambda i: te.sum(A[k], axis=k), "C")
    s = te.create_schedule(C.op)
    s[C].split(k, 8, tail="shift")
    with pytest.raises(tl.LowerError, match="count twice"):
        tl.lower(s, [A, C])
    with pytest.raises(tl.ScheduleError, match="tail='wild' is not known"):
        s[C].split(s[C].op.axis[0], 8, tail="wild")


@pytest.mark.parametrize("half", [0, 1])
def test_a_shifted_tile_of_a_reduction_is_not_made_partial_results(half):
    """Found by a wrong softmax: the sums of the rows that two tiles share were counted twice, for nobody
    looked at the tail again."""
    A = te.placeholder((30,), name="A")
    k = te.reduce_axis((0, 30), "k")
    C = te.compute((1,), lambda i: te.sum(A[k], axis=k), "C")
    s = te.create_schedule(C.op)
    halves = s[C].split(k, 8, tail="shift")
    with pytest.raises(tl.ScheduleError, match="would count twice"):
        s.rfactor(C, halves[half])


def test_a_shifted_output_does_not_take_the_memory_of_what_it_reads():
    """In place, an element of the last tile would be doubled twice."""
    A = te.placeholder((30,), name="A")
    B = te.compute((30,), lambda i: A[i] + 1, "B")
    C = te.compute((30,), lambda i: B[i] * 2, "C")
    D = te.compute((30,), lambda i: C[i] - 1, "D")
    s = te.create_schedule(D.op)
    s[C].split(s[C].op.axis[0], 8, tail="shift")
    a = np.arange(30, dtype=np.float32)
    np.testing.assert_array_equal(tl.build(s, [A, D])(a), (a + 1) * 2 - 1)


@pytest.mark.parametrize(("n", "factor", "copies"), [(28, 6, 2), (28, 7, 1), (37, 5, 2), (7, 4, 2)])
def test_a_tile_of_two_fused_axes_is_written_once_for_whole_tiles_and_once_for_the_last(n, factor, copies):
    """Found by a slow build: that ``x // 28 < 28`` says no more than ``x < 784`` was not seen, and copies
    stayed for tiles that are never met."""
    A = te.placeholder((8, n, n), name="A")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[k, i, j], axis=k), "C")
    D = te.compute((n, n), lambda i, j: C[i, j] * 2, "D")
    s = te.create_schedule(D.op)
    s[C].transform_layout(lambda i, j: [i * n + j])
    tiles, pixels = s[D].split(s[D].fuse(*D.op.axis), factor)
    s[D].unroll(pixels)
    s[C].compute_at(s[D], tiles)
    s[C].set_scope("local")
    s[C].reorder(*s[C].op.reduce_axis, *s[C].op.axis)
    s[C].unroll(*s[C].op.axis)
    assert str(tl.lower(s, [A, D])).count("for k in range") == copies
    a = np.arange(8 * n * n, dtype=np.float32).reshape(8, n, n) % 7
    np.testing.assert_array_equal(tl.build(s, [A, D])(a), a.sum(0) * 2)


@pytest.mark.parametrize(("loop", "right"), [("b", False), ("xo", False), ("xi", True), ("k", True)])
def test_a_shifted_tile_of_a_reduction_has_start_values_of_its_own(loop, right):
    """Written once, in front of the tiles, they would be added to twice where the last tile begins
    earlier."""
    A = te.placeholder((6, 15), name="A")
    k = te.reduce_axis((0, 6), name="k")
    T = te.compute((2, 15), lambda b, x: te.sum(A[k, x] + b, axis=k), name="T")
    s = te.create_schedule(T.op)
    b, x = T.op.axis
    xo, xi = s[T].split(x, factor=8, tail="shift")
    s[T].decompose_reduction({"b": b, "xo": xo, "xi": xi, "k": k}[loop])
    if not right:
        with pytest.raises(tl.LowerError, match="grow twice from initial values written once"):
            tl.lower(s, [A, T])
        return
    a = np.arange(90, dtype="float32").reshape(6, 15)
    want = np.stack([a.sum(0), a.sum(0) + 6])
    np.testing.assert_array_equal(tl.build(s, [A, T])(a), want)


def padded_sum(dtype="int8", cut=8, both=True, layout=True):
    """A matrix product whose sum of 21 is cut by ``cut``, over copies that are cut by 8."""
    wide = "float32" if dtype == "float32" else "int32"
    a, b = te.placeholder((5, 21), dtype, name="A"), te.placeholder((21, 6), dtype, name="B")
    k = te.reduce_axis((0, 21), "k")

    def sums(i, j):
        return te.sum(te.cast(wide, a[i, k]) * te.cast(wide, b[k, j]), axis=k)

    c = te.compute((5, 6), sums, name="C")
    s = te.create_schedule(c)
    maps = (lambda i, j: [i, j // 8, j % 8]), (lambda i, j: [i // 8, i % 8, j])
    for tensor, index_map in list(zip((a, b), maps, strict=True))[: 2 if both else 1]:
        copy = s[s.cache_read(tensor, "global", [c])]
        if layout:
            copy.transform_layout(index_map)
    s[c].split(s[c].op.reduce_axis[0], cut, tail="zeros")
    return s, [a, b, c], c


def test_a_sum_goes_on_in_zeros_without_a_test():
    s, args, out = padded_sum()
    run(args, [out], {"A": (-128, 128), "B": (-128, 128)}, s, [{}], each_pass=True)
    nest = str(tl.lower(s, args)).partition("C[i, j] = 0")[2]
    assert "range(0, 3)" in nest and "range(0, 8)" in nest and "if " not in nest


def test_a_sum_of_less_than_a_part_is_one_whole_part_in_zeros():
    """A factor beyond the extent was the extent: three of four bytes were no product of four."""
    a, b = te.placeholder((5, 3), "uint8", name="A"), te.placeholder((3, 6), "int8", name="B")
    k = te.reduce_axis((0, 3), "k")
    c = te.compute(
        (5, 6), lambda i, j: te.sum(te.cast("int32", a[i, k]) * te.cast("int32", b[k, j]), axis=k), name="C"
    )
    s = te.create_schedule(c)
    for tensor, layout in ((a, lambda i, j: [i, j // 4, j % 4]), (b, lambda i, j: [i // 4, i % 4, j])):
        s[s.cache_read(tensor, "global", [c])].transform_layout(layout)
    s[c].split(s[c].op.reduce_axis[0], 4, tail="zeros")
    run([a, b, c], [c], {"A": (0, 256), "B": (-128, 128)}, s, [{}], each_pass=True)
    nest = str(tl.lower(s, [a, b, c])).partition("C[i, j] = 0")[2]
    assert "range(0, 4)" in nest and "if " not in nest


def test_a_sum_goes_on_in_zeros_only_where_there_are_some():
    for given, why in (
        ({"layout": False}, "no factor, of whole numbers, is read from the padding"),
        ({"dtype": "float32"}, "no factor, of whole numbers, is read from the padding"),
        ({"both": False}, "it would read beyond a tensor"),
        ({"cut": 16}, "it would read beyond a tensor"),
    ):
        s, args, _ = padded_sum(**given)
        with pytest.raises(tl.LowerError, match=why):
            tl.lower(s, args)
    s, args, out = padded_sum(layout=False, cut=7)  # whole tiles need none
    run(args, [out], {"A": (-128, 128), "B": (-128, 128)}, s, [{}])
    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B)
    s[B].split(B.op.axis[0], 4, tail="zeros")
    with pytest.raises(tl.LowerError, match="only a sum may go on behind its end"):
        tl.lower(s, [A, B])


def test_a_guard_of_outer_loops_stays_beside_one_that_says_more():
    """``j < 300`` says that the tile of 64 exists; asked of the tile alone, none of it is gone through."""
    A = te.placeholder((300,), name="A")
    B = te.compute((300,), lambda j: A[j] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(s[B].op.axis[0], 64)
    s[B].split(outer, 3)
    assert "range(0, min(5 - " in str(tl.lower(s, [A, B]))


def test_places_of_a_tile_are_no_threads_where_its_tiles_are_inside():
    # two threads would write what two tiles have in common
    s, args, C = rows(30, "shift", False)
    j, outer, inner = s[C].leaf_iter_vars
    s[C].reorder(inner, j, outer)
    s[C].parallel(inner)
    with pytest.raises(tl.LowerError, match="written at the same time"):
        tl.lower(s, args)
    s, args, C = rows(30, "shift", False)
    s[C].parallel(s[C].leaf_iter_vars[2])
    tl.lower(s, args)
