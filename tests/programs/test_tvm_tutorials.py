"""The subjects of TVM's tutorials on tensor expressions and of d2l-tvm's chapters, in TVM's words throughout:
only the imports differ.

``import tensorlang as tvm`` stands for ``import tvm``. Written anew, small, on integers in floats, so that
results compare with ``==``.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tensorlang as tvm
from tensorlang import te
from tests.programs.check import ints, rng

dev = tvm.device("llvm", 0)


def made(s, args, *inputs, **options):
    """The last argument, as the kernel writes it; the others are inputs."""
    func = tvm.build(s, args, "llvm", name="program", **options)
    given = [tvm.nd.array(x, dev) for x in inputs]
    sizes = dict(
        zip(
            (v.name for a, x in zip(args, inputs) for v in a.shape if hasattr(v, "name")),
            (n for x in inputs for n in x.shape),
        )
    )
    shape = [sizes.get(getattr(n, "name", None)) or int(n) for n in args[-1].shape]
    out = tvm.nd.empty(shape, args[-1].dtype, dev)
    out[...] = 77
    func(*given, out)
    return out.numpy()


# --- get started: vector addition ---------------------------------------------------------------------------


def test_vector_addition():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    tgt = tvm.target.Target(target="llvm", host="llvm")
    assert tgt.kind.name == "llvm"
    fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
    r = rng()
    for size in (1, 100):
        a, b = tvm.nd.array(ints(r, size), dev), tvm.nd.array(ints(r, size), dev)
        c = tvm.nd.array(np.zeros(size, dtype=C.dtype.name), dev)
        fadd(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=2)
    assert evaluator(a, b, c).mean > 0
    assert "parallel" in str(tvm.lower(s, [A, B, C], simple_mode=True))


# --- schedule primitives: each printed and right ------------------------------------------------------------


def pair(m=12, n=10):
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), A, B, C


def split_factor(s, B, C):
    s[C].split(C.op.axis[0], factor=5)


def split_nparts(s, B, C):
    s[C].split(C.op.axis[0], nparts=5)


def tile(s, B, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)


def fuse(s, B, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    s[C].fuse(xi, yi)


def reorder(s, B, C):
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
    s[C].reorder(xi, yo, xo, yi)


def compute_at(s, B, C):
    s[B].compute_at(s[C], C.op.axis[0])


def compute_inline(s, B, C):
    s[B].compute_inline()


def compute_root(s, B, C):
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].compute_root()


@pytest.mark.parametrize(
    "primitive",
    [split_factor, split_nparts, tile, fuse, reorder, compute_at, compute_inline, compute_root],
    ids=lambda f: f.__name__,
)
def test_schedule_primitives(primitive):
    s, A, B, C = pair()
    primitive(s, B, C)
    text = str(tvm.lower(s, [A, B, C], simple_mode=True))
    assert "C[" in text and "B[" in text
    a = ints(rng(), 12, 10)
    func = tvm.build(s, [A, B, C])
    b, c = tvm.nd.empty((12, 10)), tvm.nd.empty((12, 10))
    func(a, b, c)
    tvm.testing.assert_allclose(b, a + 1)
    tvm.testing.assert_allclose(c, (a + 1) * 2)


def test_threads_of_a_gpu_are_named():
    s, A, B, C = pair()
    with pytest.raises(AttributeError, match="threads of a GPU"):
        s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))


# --- reduction ----------------------------------------------------------------------------------------------


def test_sum_of_rows_factored():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    assert str(tvm.lower(s, [A, B], simple_mode=True))
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    xo, xi = s[s[B].op.output(0)].split(s[B].op.axis[0], factor=32)
    s[B.op].parallel(xo)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    assert s[B].op.body and s[BF].op.body
    a = ints(rng(), 12, 37)
    tvm.testing.assert_allclose(made(s, [A, B], a), a.sum(1))


def test_convolution_by_a_reduction():
    n = te.var("n")
    Input = te.placeholder((n, n), name="Input")
    Filter = te.placeholder((3, 3), name="Filter")
    di = te.reduce_axis((0, 3), name="di")
    dj = te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2),
        lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
        name="Output",
    )
    s = te.create_schedule(Output.op)
    x, w = ints(rng(), 9, 9), ints(rng(), 3, 3)
    got = tvm.build(s, [Input, Filter, Output])(x, w)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    tvm.testing.assert_allclose(got, np.einsum("ijkl,kl->ij", windows, w))


def test_product_by_a_commutative_reducer():
    n, m = te.var("n"), te.var("m")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    a = ints(rng(), 5, 6, lo=-2, hi=3)
    tvm.testing.assert_allclose(made(te.create_schedule(B.op), [A, B], a), a.prod(1))


# --- tuple inputs -------------------------------------------------------------------------------------------


def test_tuple_inputs():
    n, m = te.var("n"), te.var("m")
    A0, A1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
    s = te.create_schedule(B0.op)
    assert str(tvm.lower(s, [A0, A1, B0, B1], simple_mode=True))
    a, b = ints(rng(), 3, 4), ints(rng(), 3, 4)
    x, y = tvm.build(s, [A0, A1, B0, B1])(a, b)
    tvm.testing.assert_allclose(x, a + 2)
    tvm.testing.assert_allclose(y, b * 3)


def test_argmax_by_tuples():
    def fcombine(x, y):
        lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
        rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
        return lhs, rhs

    def fidentity(t0, t1):
        return tvm.tir.const(-1, t0), tvm.te.min_value(t1)

    argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
    m, n = te.var("m"), te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="int32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    v = rng().permutation(20).reshape(4, 5).astype("int32")
    i = np.tile(np.arange(5, dtype="int32"), (4, 1))
    t0, t1 = tvm.build(s, [idx, val, T0, T1])(i, v)
    assert np.array_equal(t0, v.argmax(1)) and np.array_equal(t1, v.max(1))


def test_tuples_are_placed_together():
    n, m = te.var("n"), te.var("m")
    A0 = te.placeholder((m, n), name="A0")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
    A1 = te.placeholder((m, n), name="A1")
    C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
    s = te.create_schedule(C.op)
    s[B0].compute_at(s[C], C.op.axis[0])
    a, b = ints(rng(), 3, 4), ints(rng(), 3, 4)
    tvm.testing.assert_allclose(tvm.build(s, [A0, A1, C])(a, b), b + a + 2)


# --- scan ---------------------------------------------------------------------------------------------------


def test_running_sum():
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
    s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_init].split(s_init.op.axis[1], factor=8)
    xo, xi = s[s_update].split(s_update.op.axis[1], factor=8)
    s[s_update].vectorize(xi)
    x = ints(rng(), 6, 11)
    tvm.testing.assert_allclose(made(s, [X, s_scan], x), np.cumsum(x, axis=0))


def test_several_stages_and_states_of_a_scan():
    m, n, l = te.var("m"), te.var("n"), te.var("l")
    X = te.placeholder((m, n), name="X")
    s_state = te.placeholder((m, n))
    s_init = te.compute((1, n), lambda _, i: X[0, i])
    s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
    s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
    s_scan = tvm.te.scan(s_init, s_update_s2, s_state, inputs=[X])
    s = te.create_schedule(s_scan.op)
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=4)
    s[s_update_s1].compute_at(s[s_update_s2], xo)
    x = ints(rng(), 4, 6)
    want = x.copy()
    for t in range(1, 4):
        want[t] += 2 * want[t - 1]
    tvm.testing.assert_allclose(made(s, [X, s_scan], x), want)

    s_state1, s_state2 = te.placeholder((m, n)), te.placeholder((m, l))
    s_init1 = te.compute((1, n), lambda _, i: X[0, i])
    s_init2 = te.compute((1, l), lambda _, i: 0.0)
    s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + X[t, i])
    s_update2 = te.compute((m, l), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
    s_scan1, s_scan2 = tvm.te.scan(
        [s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X]
    )
    s = te.create_schedule(s_scan1.op)
    func = tvm.build(s, [X, s_scan1, s_scan2])
    one, two = tvm.nd.empty((4, 6)), tvm.nd.empty((4, 3))
    func(x, one, two)
    tvm.testing.assert_allclose(one, x.cumsum(0))
    tvm.testing.assert_allclose(two[1:, 0], x.cumsum(0)[:-1, 0].cumsum())


# --- extern, tensorize, mathematical functions --------------------------------------------------------------


def test_a_step_done_by_python():
    @tvm.register_func("tutorial.addone", override=True)
    def my_addone(x, y):
        tvm.nd.array(x.numpy() + 1).copyto(y)

    n = 17
    A = te.placeholder((n,), name="A")
    B = te.extern(
        A.shape, [A], lambda ins, outs: tvm.tir.call_packed("tutorial.addone", ins[0], outs[0]), name="B"
    )
    C = te.compute(B.shape, lambda i: B[i] * 2, name="C")
    a = ints(rng(), n)
    tvm.testing.assert_allclose(made(te.create_schedule(C.op), [A, C], a), (a + 1) * 2)


POINTER = ctypes.POINTER(ctypes.c_float)


@ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, POINTER, POINTER, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)
def gemv_update(cc, aa, bb, m, l, stride):
    for i in range(m):
        for j in range(l):
            cc[i] += aa[j] * bb[i * stride + j]
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int32, POINTER, ctypes.c_int32)
def gemv_reset(cc, m):
    for i in range(m):
        cc[i] = 0.0
    return 0


def test_tensorize():
    N, M, L, factor = 4, 6, 8, 2
    tvm.register_symbol("tutorial_gemv_update", gemv_update)
    tvm.register_symbol("tutorial_gemv_reset", gemv_reset)

    def intrin_gemv(m, l):
        a = te.placeholder((l,), name="a")
        b = te.placeholder((m, l), name="b")
        k = te.reduce_axis((0, l), name="k")
        c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
        Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
        Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
        Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

        def intrin_func(ins, outs):
            aa, bb = ins
            cc = outs[0]

            def _body():
                ib = tvm.tir.ir_builder.create()
                ib.emit(
                    tvm.tir.call_extern(
                        "int32",
                        "tutorial_gemv_update",
                        cc.access_ptr("w"),
                        aa.access_ptr("r"),
                        bb.access_ptr("r"),
                        m,
                        l,
                        bb.strides[0],
                    )
                )
                return ib.get()

            def _reduce_reset():
                ib = tvm.tir.ir_builder.create()
                ib.emit(tvm.tir.call_extern("int32", "tutorial_gemv_reset", cc.access_ptr("w"), m))
                return ib.get()

            return _body(), _reduce_reset(), _body()

        return te.decl_tensor_intrin(c.op, intrin_func, binds={a: Ab, b: Bb, c: Cb})

    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    (z,) = C.op.reduce_axis
    yo, yi = s[C].split(y, factor=factor)
    zo, zi = s[C].split(z, factor=4)
    s[C].reorder(x, yo, zo, yi, zi)
    s[C].tensorize(yi, intrin_gemv(factor, 4))
    a, b = ints(rng(), N, L), ints(rng(), M, L)
    tvm.testing.assert_allclose(made(s, [A, B, C], a, b), a @ b.T)


def test_mathematical_functions():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(tx)
    a = np.linspace(-2, 2, 21, dtype="float32")
    tvm.testing.assert_allclose(made(s, [A, B], a), np.exp(a), rtol=1e-6)


# --- matrix products on a CPU -------------------------------------------------------------------------------

M, N, K, bn = 32, 48, 16, 16


def product(packed=False):
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    if not packed:
        return A, B, k, None, te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    packedB = te.compute((N / bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB")
    C = te.compute(
        (M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k), name="C"
    )
    return A, B, k, packedB, C


def right(s, A, B, C):
    a, b = ints(rng(), M, K), ints(rng(), K, N)
    tvm.testing.assert_allclose(made(s, [A, B, C], a, b), a @ b)


def test_blocking_vectors_permutation():
    A, B, k, _, C = product()
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn / 2, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=4)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    assert "16] +" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    right(s, A, B, C)


def test_array_packing():
    A, B, k, packedB, C = product(packed=True)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=4)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    right(s, A, B, C)


def test_write_cache_in_parallel():
    A, B, k, packedB, C = product(packed=True)
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    right(s, A, B, C)


def test_a_template_of_tiles():
    """The matrix product that AutoTVM's tutorial tunes, at some of its points."""
    for tile_y, tile_x in ((1, 1), (4, 8), (32, 16)):
        A, B, k, _, C = product()
        s = te.create_schedule(C.op)
        y, x = s[C].op.axis
        k = s[C].op.reduce_axis[0]
        yo, yi = s[C].split(y, tile_y)
        xo, xi = s[C].split(x, tile_x)
        s[C].reorder(yo, xo, k, yi, xi)
        right(s, A, B, C)
