"""te.decl_tensor_intrin and s[T].tensorize: matching, calls of Python functions and C symbols, what is
refused."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret


def gemv(m, l, name):
    a = te.placeholder((l,), name="a")
    b = te.placeholder((m, l), name="b")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def calls(ins, outs):
        body = te.call_packed(
            f"{name}.body", ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("w")
        )
        update = te.call_packed(
            f"{name}.update", ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("rw")
        )
        return body, body, update

    def body(a, b, c):
        c[...] = b @ a

    def update(a, b, c):
        c += b @ a

    tl.register_func(f"{name}.body", body, override=True)
    tl.register_func(f"{name}.update", update, override=True)
    return te.decl_tensor_intrin(c.op, calls, name=name)


def matmul(N=20, M=32, L=12):
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (N, L)).astype("float32"), rng.integers(-4, 5, (M, L)).astype("float32")
    return A, B, C, a, b, a @ b.T


def everywhere(s, args, a, b, want):
    out = np.zeros_like(want)
    tl.build(s, args)(a, b, out)
    assert np.array_equal(out, want)
    for simple in (True, False):
        out = np.zeros_like(want)
        interpret(tl.lower(s, args, simple=simple), a, b, out)
        assert np.array_equal(out, want)


def test_the_whole_reduction_inside():
    A, B, C, a, b, want = matmul()
    s = te.create_schedule(C)
    x, y = s[C].op.axis
    (z,) = s[C].op.reduce_axis
    yo, yi = s[C].split(y, 16)
    s[C].reorder(yo, x, yi, z)
    s[C].tensorize(yi, gemv(16, 12, "test.gemv16x12"))
    everywhere(s, [A, B, C], a, b, want)
    assert "call_packed('test.gemv16x12.body', &A[x" not in str(tl.lower(s, [A, B, C]))
    assert "&B[" in str(tl.lower(s, [A, B, C]))
    replayed = tl.Trace.from_json(s.trace.to_json()).apply(s.fresh())
    assert str(tl.lower(replayed, [A, B, C])) == str(tl.lower(s, [A, B, C]))


def test_reduction_loops_around_it():
    A, B, C, a, b, want = matmul()
    s = te.create_schedule(C)
    x, y = s[C].op.axis
    yo, yi = s[C].split(y, 8)
    zo, zi = s[C].split(s[C].op.reduce_axis[0], 4)
    s[C].reorder(x, yo, zo, yi, zi)
    s[C].tensorize(yi, gemv(8, 4, "test.gemv8x4"))
    s[C].parallel(x)
    everywhere(s, [A, B, C], a, b, want)


def test_an_intrinsic_for_the_loops_as_they_are_cut_later():
    """TVM's tutorial: gemv of whole rows, then its reduction is split and a smaller gemv takes its place."""
    A, B, C, a, b, want = matmul()
    s = te.create_schedule(C)
    x, y = s[C].op.axis
    (z,) = s[C].op.reduce_axis
    yo, yi = s[C].split(y, factor=8)
    s[C].reorder(x, yo, yi, z)
    s[C].tensorize(yi, gemv(8, 12, "test.rows"))
    assert s.can("split", C, z, factor=4).pending and not s.pending
    zo, zi = s[C].split(z, factor=4)
    assert s.pending == {
        "C": "tensorize(j.inner, test.rows): its reduction loops run 3 x 4, those of test.rows 12"
    }
    assert "pending C" in s.tree() and "# pending: C at tensorize(j.inner" in s.trace.to_python()
    with pytest.raises(tl.LowerError, match="loops are not those of the intrinsic any more"):
        tl.lower(s, [A, B, C])
    s[C].reorder(x, yo, zo, yi, zi)
    s[C].tensorize(yi, gemv(8, 4, "test.pieces"))
    assert not s.pending
    everywhere(s, [A, B, C], a, b, want)
    replayed = tl.Trace.from_json(s.trace.to_json()).apply(s.fresh())
    assert str(tl.lower(replayed, [A, B, C])) == str(tl.lower(s, [A, B, C]))


def test_what_no_other_intrinsic_would_mend_is_refused():
    _, _, C, *_ = matmul()
    s = te.create_schedule(C)
    yo, yi = s[C].split(C.op.axis[1], factor=8)
    s[C].tensorize(yi, gemv(8, 12, "test.rows"))
    with pytest.raises(tl.ScheduleError, match="would not be what its intrinsic computes"):
        s[C].vectorize(yi)


def test_inside_a_cache_at_a_tile():
    A, B, C, a, b, want = matmul()
    s = te.create_schedule(C)
    CC = s.cache_write(C, "local")
    xo, yo, xi, yi = s[C].tile(*s[C].op.axis, 4, 8)
    s[CC].compute_at(s[C], yo)
    s[CC].tensorize(s[CC].op.axis[1], gemv(8, 12, "test.gemv8x12"))
    everywhere(s, [A, B, C], a, b, want)


def test_a_c_symbol_gets_addresses_and_strides():
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_float),
        ctypes.POINTER(ctypes.c_float),
        ctypes.c_int32,
        ctypes.c_int32,
    )

    @kind
    def double_columns(src, dst, src_stride, dst_stride):
        for r in range(4):
            for c in range(2):
                dst[r * dst_stride + c] = 2 * src[r * src_stride + c]
        return 0

    tl.register_symbol("test_double_columns", double_columns)
    x = te.placeholder((4, 2), name="x")
    y = te.compute((4, 2), lambda i, j: x[i, j] * 2, name="y")
    intrin = te.decl_tensor_intrin(
        y.op,
        lambda ins, outs: te.call_extern(
            "int32",
            "test_double_columns",
            ins[0].access_ptr("r"),
            outs[0].access_ptr("w"),
            ins[0].strides[0],
            outs[0].strides[0],
        ),
        name="test.double",
    )
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B)
    io, jo, ii, ji = s[B].tile(*s[B].op.axis, 4, 2)
    s[B].tensorize(ii, intrin)
    a = np.arange(48, dtype="float32").reshape(8, 6)
    assert np.array_equal(tl.build(s, [A, B])(a), 2 * a)


@pytest.mark.parametrize(
    "prepare, because",
    [
        (lambda s, C: s[C].split(C.op.axis[1], 8)[1], "run 8, those of"),
        (lambda s, C: s[C].op.axis[0], "run 20 x 32, those of"),
    ],
)
def test_loops_of_another_form_are_refused(prepare, because):
    _, _, C, *_ = matmul()
    s = te.create_schedule(C)
    intrin = gemv(16, 12, "test.refused")
    loop = prepare(s, C)
    before = s.tree()
    with pytest.raises(tl.ScheduleError, match=because):
        s[C].tensorize(loop, intrin)
    assert s.tree() == before


def test_another_body_is_refused():
    A = te.placeholder((20, 12), name="A")
    B = te.placeholder((16, 12), name="B")
    k = te.reduce_axis((0, 12), name="k")
    C = te.compute((20, 16), lambda i, j: te.sum(A[i, k] + B[j, k], axis=k), name="C")
    s = te.create_schedule(C)
    with pytest.raises(tl.ScheduleError, match="is not of the form of"):
        s[C].tensorize(s[C].op.axis[1], gemv(16, 12, "test.form"))
    D = te.compute((20, 16), lambda i, j: te.sum(A[i, k] * B[j, 11 - k], axis=k), name="D")
    s = te.create_schedule(D)
    with pytest.raises(tl.ScheduleError, match="is not a box read in the order of"):
        s[D].tensorize(s[D].op.axis[1], gemv(16, 12, "test.form"))


def test_no_update_under_reduction_loops_is_an_error_when_lowered():
    x = te.placeholder((4,), name="x")
    k = te.reduce_axis((0, 4), name="k")
    y = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="y")
    tl.register_func("test.sum4", lambda x, y: None, override=True)
    intrin = te.decl_tensor_intrin(
        y.op, lambda ins, outs: te.call_packed("test.sum4", ins[0], outs[0]), name="test.sum4"
    )
    A = te.placeholder((3, 8), name="A")
    r = te.reduce_axis((0, 8), name="r")
    B = te.compute((3,), lambda i: te.sum(A[i, r], axis=r), name="B")
    s = te.create_schedule(B)
    ro, ri = s[B].split(r, 4)
    s[B].tensorize(ri, intrin)
    with pytest.raises(tl.LowerError, match="no reset and update"):
        tl.lower(s, [A, B])
