"""The chapters of d2l-tvm, in TVM's words throughout: only the imports differ. Written anew, small, on
integers in floats, so that results compare with ``==``.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tvm
from tensorlang import te, topi
from tests.programs.check import ints, rng

from .test_tvm_tutorials import made, product, right

dev = tvm.device("llvm", 0)


def test_broadcast_addition():
    def broadcast_add(shape1, shape2):
        assert len(shape1) == 2 and len(shape2) == 2, "broadcast tensors should both be 2-dimension"
        A, B = te.placeholder(shape1, name="A"), te.placeholder(shape2, name="B")
        m = shape1[0] if shape2[0] == 1 else shape2[0]
        n = shape1[1] if shape2[1] == 1 else shape2[1]
        f = lambda x, y: (
            A[0 if shape1[0] == 1 else x, 0 if shape1[1] == 1 else y]
            + B[0 if shape2[0] == 1 else x, 0 if shape2[1] == 1 else y]
        )
        return A, B, te.compute((m, n), f, name="C")

    for one, two in (((3, 1), (3, 4)), ((3, 1), (1, 4))):
        A, B, C = broadcast_add(one, two)
        a, b = ints(rng(), *one), ints(rng(), *two)
        tvm.testing.assert_allclose(made(te.create_schedule(C.op), [A, B, C], a, b), a + b)
        D = A + B
        tvm.testing.assert_allclose(made(te.create_schedule(D.op), [A, B, D], a, b), a + b)


def conv_out_size(n, k, p, s):
    return (n - k + 2 * p) // s + 1


def padding(X, ph, pw, val=0):
    nh, nw = X.shape[-2], X.shape[-1]
    return te.compute(
        (*X.shape[0:-2], nh + ph * 2, nw + pw * 2),
        lambda *i: te.if_then_else(
            te.any(i[-2] < ph, i[-2] >= nh + ph, i[-1] < pw, i[-1] >= nw + pw),
            val,
            X[(*i[:-2], i[-2] - ph, i[-1] - pw)],
        ),
        name="PaddedX",
    )


def conv(oc, ic, nh, nw, kh, kw, ph=0, pw=0, sh=1, sw=1):
    ric, rkh, rkw = (
        te.reduce_axis((0, ic), name="ric"),
        te.reduce_axis((0, kh), name="rkh"),
        te.reduce_axis((0, kw), name="rkw"),
    )
    oh, ow = conv_out_size(nh, kh, ph, sh), conv_out_size(nw, kw, pw, sw)
    X, W = te.placeholder((ic, nh, nw), name="X"), te.placeholder((oc, ic, kh, kw), name="K")
    PaddedX = padding(X, ph, pw) if ph * pw != 0 else X
    Y = te.compute(
        (oc, oh, ow),
        lambda c, i, j: te.sum(
            PaddedX[ric, i * sh + rkh, j * sw + rkw] * W[c, ric, rkh, rkw], axis=[ric, rkh, rkw]
        ),
        name="Y",
    )
    return X, W, Y, PaddedX


def windows(x, k, p, s, value=0.0):
    x = np.pad(x, ((0, 0), (p, p), (p, p)), constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), (1, 2))[:, ::s, ::s]


def test_convolution_scheduled():
    oc, ic, n, k, p, s = 4, 3, 8, 3, 1, 1
    X, W, Y, PaddedX = conv(oc, ic, n, n, k, k, p, p, s, s)
    sch = te.create_schedule(Y.op)
    CachedY = sch.cache_write(Y, "local")
    c, h, w = sch[Y].op.axis
    h, w = sch[Y].split(h, factor=4)
    sch[Y].parallel(sch[Y].fuse(c, h))
    sch[CachedY].compute_at(sch[Y], w)
    cc, ch, cw = sch[CachedY].op.axis
    ric, rkh, rkw = sch[CachedY].op.reduce_axis
    sch[CachedY].reorder(ric, rkh, ch, rkw, cw)
    sch[CachedY].vectorize(cw)
    sch[CachedY].unroll(rkw)
    sch[PaddedX].parallel(PaddedX.op.axis[0])
    x, w = ints(rng(), ic, n, n), ints(rng(), oc, ic, k, k)
    tvm.testing.assert_allclose(
        made(sch, [X, W, Y], x, w), np.einsum("chwij,ocij->ohw", windows(x, k, p, s), w)
    )


def test_depthwise_convolution():
    ic, n, k, p, s = 3, 7, 3, 1, 2
    rkh, rkw = te.reduce_axis((0, k), name="rkh"), te.reduce_axis((0, k), name="rkw")
    o = conv_out_size(n, k, p, s)
    X, W = te.placeholder((ic, n, n), name="X"), te.placeholder((ic, 1, k, k), name="K")
    PaddedX = padding(X, p, p)
    Y = te.compute(
        (ic, o, o),
        lambda c, i, j: te.sum(PaddedX[c, i * s + rkh, j * s + rkw] * W[c, 0, rkh, rkw], axis=[rkh, rkw]),
        name="Y",
    )
    sch = te.create_schedule(Y.op)
    sch[PaddedX].compute_inline()
    sch[Y].vectorize(sch[Y].op.axis[-1])
    x, w = ints(rng(), ic, n, n), ints(rng(), ic, 1, k, k)
    tvm.testing.assert_allclose(
        made(sch, [X, W, Y], x, w), np.einsum("chwij,cij->chw", windows(x, k, p, s), w[:, 0])
    )


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pooling(kind):
    c, n, k, p, s = 2, 6, 3, 1, 1
    rkh, rkw = te.reduce_axis((0, k), name="rkh"), te.reduce_axis((0, k), name="rkw")
    o = conv_out_size(n, k, p, s)
    X = te.placeholder((c, n, n), name="X")
    if kind == "max":
        PaddedX = padding(X, p, p, val=te.min_value(X.dtype))
        Y = te.compute(
            (c, o, o),
            lambda c, h, w: te.max(PaddedX[c, h * s + rkh, w * s + rkw], axis=[rkh, rkw]),
            name="PoolMax",
        )
    else:
        PaddedX = padding(X, p, p)
        tsum = te.compute(
            (c, o, o),
            lambda c, h, w: te.sum(PaddedX[c, h * s + rkh, w * s + rkw], axis=[rkh, rkw]),
            name="PoolSum",
        )
        Y = te.compute((c, o, o), lambda c, h, w: tsum[c, h, w] / (k * k), name="PoolAvg")
    sch = te.create_schedule(Y.op)
    te.schedule.AutoInlineInjective(sch)
    x = ints(rng(), c, n, n)
    around = windows(x, k, p, s, -np.inf if kind == "max" else 0)
    tvm.testing.assert_allclose(
        made(sch, [X, Y], x),
        around.max((3, 4)) if kind == "max" else around.sum((3, 4)) / np.float32(9),
        rtol=1e-6,
    )


def test_batch_normalisation():
    c, n, eps = 3, 5, 1e-5
    X = te.placeholder((c, n, n), name="X")
    Mean, Var, Gamma, Beta = (
        te.placeholder((c, 1, 1), name=name) for name in ("Mean", "Var", "Gamma", "Beta")
    )
    C1 = X - Mean
    C2 = topi.sqrt(Var + eps)
    Y = C1 / C2 * Gamma + Beta
    sch = te.create_schedule(Y.op)
    te.schedule.AutoInlineInjective(sch)
    x = ints(rng(), c, n, n)
    mean, var, gamma, beta = (ints(rng(), c, 1, 1, lo=1) for _ in range(4))
    tvm.testing.assert_allclose(
        made(sch, [X, Mean, Var, Gamma, Beta, Y], x, mean, var, gamma, beta),
        (x - mean) / np.sqrt(var + np.float32(eps)) * gamma + beta,
        rtol=1e-5,
        atol=1e-5,
    )


def test_matrix_times_matrix_with_caches_of_blocks():
    A, B, k, _, C = product()
    s = te.create_schedule(C.op)
    cached_b = s.cache_read(B, "global", [C])
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 8, 16)
    s[C].reorder(xo, yo, k, xi, yi)
    s[cached_b].compute_at(s[C], yo)
    s[C].vectorize(yi)
    s[C].parallel(xo)
    right(s, A, B, C)
