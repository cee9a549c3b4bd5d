"""Windows over images: Halide's blur, convolutions in their layouts, pooling, stencils, Winograd; scheduled
as TVM's tutorials do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlang import te
from tests.programs.check import agree, ints, rng


def conv2d(x: Any, w: Any, stride: int = 1, pad: int = 0) -> Any:
    """NCHW and OIHW, by shifted views."""
    n, c, h, wd = x.shape
    o, _, kh, kw = w.shape
    p = np.zeros((n, c, h + 2 * pad, wd + 2 * pad), x.dtype)
    p[:, :, pad : pad + h, pad : pad + wd] = x
    oh, ow = (h + 2 * pad - kh) // stride + 1, (wd + 2 * pad - kw) // stride + 1
    out = np.zeros((n, o, oh, ow), x.dtype)
    for y in range(kh):
        for z in range(kw):
            out += np.einsum(
                "ncyx,oc->noyx",
                p[:, :, y : y + stride * (oh - 1) + 1 : stride, z : z + stride * (ow - 1) + 1 : stride],
                w[:, :, y, z],
            )
    return out


@pytest.mark.parametrize("h, w", ((34, 66), (23, 31)))
@pytest.mark.parametrize("how", ("inline", "root", "sliding window", "tiles"))
def test_blur_3x3(h: int, w: int, how: str) -> None:
    A = te.placeholder((h, w), name="A", dtype="int32")
    bx = te.compute((h, w - 2), lambda y, x: (A[y, x] + A[y, x + 1] + A[y, x + 2]) // 3, name="blur_x")
    by = te.compute((h - 2, w - 2), lambda y, x: (bx[y, x] + bx[y + 1, x] + bx[y + 2, x]) // 3, name="blur_y")
    s = te.create_schedule(by.op)
    y, x = by.op.axis
    if how == "inline":
        s[bx].compute_inline()
    elif how == "sliding window":
        yo, yi = s[by].split(y, factor=8)
        s[by].parallel(yo)
        s[bx].compute_at(s[by], yi)
        s[bx].vectorize(s[bx].split(bx.op.axis[1], 8)[1])
    elif how == "tiles":
        yo, xo, yi, xi = s[by].tile(y, x, 8, 16)
        s[bx].compute_at(s[by], xo)
        s[bx].vectorize(bx.op.axis[1])
        s[by].vectorize(xi)
        s[by].parallel(yo)
    a = rng().integers(-50, 50, (h, w)).astype("int32")
    b = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) // 3
    agree(s, [A, by], [a], (b[:-2] + b[1:-1] + b[2:]) // 3)


@pytest.mark.parametrize("stride, pad", ((1, 1), (2, 1), (1, 0)))
def test_conv2d_nchw(stride: int, pad: int) -> None:
    batch, ci, h, w, co, kernel = 2, 3, 13, 14, 5, 3
    oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
    A = te.placeholder((batch, ci, h, w), name="A")
    W = te.placeholder((co, ci, kernel, kernel), name="W")
    Apad = te.compute(
        (batch, ci, h + 2 * pad, w + 2 * pad),
        lambda nn, cc, yy, xx: te.if_then_else(
            te.all(yy >= pad, yy - pad < h, xx >= pad, xx - pad < w),
            A[nn, cc, yy - pad, xx - pad],
            te.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kernel), name="ry")
    rx = te.reduce_axis((0, kernel), name="rx")
    B = te.compute(
        (batch, co, oh, ow),
        lambda nn, ff, yy, xx: te.sum(
            Apad[nn, rc, yy * stride + ry, xx * stride + rx] * W[ff, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    BL = s.cache_write(B, "local")
    n, f, y, x = s[B].op.axis
    s[B].parallel(s[B].fuse(n, f))
    xo, xi = s[B].split(x, factor=8)
    s[B].vectorize(xi)
    s[BL].compute_at(s[B], xo)
    ln, lf, ly, lx = s[BL].op.axis
    lc, lry, lrx = s[BL].op.reduce_axis
    s[BL].reorder(lc, lry, lrx, ln, lf, ly, lx)
    s[BL].unroll(lrx)
    s[BL].vectorize(lx)
    r = rng()
    a, k = ints(r, batch, ci, h, w), ints(r, co, ci, kernel, kernel)
    agree(s, [A, W, B], [a, k], conv2d(a, k, stride, pad))


def test_conv2d_with_packed_layouts() -> None:
    n, ic, oc, h, w, block = 1, 8, 16, 9, 10, 4
    data = te.placeholder((n, ic, h, w), name="data")
    kernel = te.placeholder((oc, ic, 3, 3), name="kernel")
    data_vec = te.compute(
        (n, ic // block, h, w, block), lambda n, C, y, x, c: data[n, C * block + c, y, x], name="data_vec"
    )
    kernel_vec = te.compute(
        (oc // block, ic // block, 3, 3, block, block),
        lambda O, I, ky, kx, i, o: kernel[O * block + o, I * block + i, ky, kx],
        name="kernel_vec",
    )
    r = te.reduce_axis((0, ic), name="ic")
    kh, kw = te.reduce_axis((0, 3), name="kh"), te.reduce_axis((0, 3), name="kw")
    conv = te.compute(
        (n, oc // block, h - 2, w - 2, block),
        lambda n, O, y, x, o: te.sum(
            data_vec[n, r // block, y + kh, x + kw, r % block]
            * kernel_vec[O, r // block, kh, kw, r % block, o],
            axis=[r, kh, kw],
        ),
        name="conv2d_NCHWc",
    )
    unpack = te.compute(
        (n, oc, h - 2, w - 2),
        lambda n, o, y, x: conv[n, te.indexdiv(o, block), y, x, te.indexmod(o, block)],
        name="unpack",
    )
    s = te.create_schedule(unpack.op)
    s[data_vec].parallel(s[data_vec].fuse(*s[data_vec].op.axis[:2]))
    s[data_vec].vectorize(data_vec.op.axis[4])
    s[kernel_vec].vectorize(kernel_vec.op.axis[5])
    CC = s.cache_write(conv, "global")
    bn, O, y, x, o = s[conv].op.axis
    xo, xi = s[conv].split(x, factor=4)
    s[conv].reorder(bn, O, y, xo, xi, o)
    s[conv].parallel(s[conv].fuse(bn, O, y))
    s[conv].vectorize(o)
    s[CC].compute_at(s[conv], xo)
    _, cO, cy, cx, co = s[CC].op.axis
    ric, rkh, rkw = s[CC].op.reduce_axis
    ro, ri = s[CC].split(ric, factor=block)
    s[CC].reorder(ro, rkh, rkw, ri, cx, co)
    s[CC].vectorize(co)
    s[CC].unroll(cx)
    s[unpack].parallel(unpack.op.axis[1])
    g = rng()
    a, k = ints(g, n, ic, h, w), ints(g, oc, ic, 3, 3)
    agree(s, [data, kernel, unpack], [a, k], conv2d(a, k))


def test_conv2d_of_any_batch() -> None:
    n = te.size_var("n")
    X = te.placeholder((n, 3, 8, 9), name="X")
    W = te.placeholder((4, 3, 3, 3), name="W")
    rc, ry, rx = (te.reduce_axis((0, 3), name=v) for v in ("rc", "ry", "rx"))
    Y = te.compute(
        (n, 4, 6, 7),
        lambda b, f, y, x: te.sum(X[b, rc, y + ry, x + rx] * W[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="Y",
    )
    s = te.create_schedule(Y.op)
    b, f, y, x = Y.op.axis
    bo, bi = s[Y].split(b, factor=2)
    s[Y].reorder(bo, f, y, bi, *Y.op.reduce_axis, x)
    s[Y].vectorize(x)
    s[Y].parallel(bo)
    r = rng()
    w = ints(r, 4, 3, 3, 3)
    for batch in (0, 1, 2, 5):
        a = ints(r, batch, 3, 8, 9)
        agree(s, [X, W, Y], [a, w], conv2d(a, w), interpreted=batch == 5)


def test_depthwise_conv2d_with_scale_shift_and_relu() -> None:
    c, h, w = 6, 11, 13
    Input = te.placeholder((1, c, h, w), name="Input")
    Filter = te.placeholder((c, 1, 3, 3), name="Filter")
    Scale, Shift = te.placeholder((c,), name="Scale"), te.placeholder((c,), name="Shift")
    PaddedInput = te.compute(
        (1, c, h + 2, w + 2),
        lambda *i: te.if_then_else(
            te.all(i[2] >= 1, i[2] < h + 1, i[3] >= 1, i[3] < w + 1),
            Input[i[0], i[1], i[2] - 1, i[3] - 1],
            te.const(0.0, "float32"),
        ),
        name="PaddedInput",
    )
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    Depthwise = te.compute(
        (1, c, h, w),
        lambda b, ch, i, j: te.sum(PaddedInput[b, ch, i + di, j + dj] * Filter[ch, 0, di, dj], axis=[di, dj]),
        name="Depthwise",
        tag="depthwise_conv2d_nchw",
    )
    ScaleShift = te.compute(
        Depthwise.shape, lambda *i: Depthwise(*i) * Scale[i[1]] + Shift[i[1]], name="ScaleShift"
    )
    Relu = te.compute(
        ScaleShift.shape, lambda *i: te.max(ScaleShift(*i), te.const(0, ScaleShift.dtype)), name="Relu"
    )
    s = te.create_schedule(Relu.op)
    s[ScaleShift].compute_inline()
    b, ch, i, j = Relu.op.axis
    s[Relu].parallel(ch)
    s[Depthwise].compute_at(s[Relu], i)
    s[PaddedInput].compute_at(s[Relu], ch)
    s[PaddedInput].vectorize(s[PaddedInput].split(PaddedInput.op.axis[3], 8)[1])
    _, _, _, dw = Depthwise.op.axis
    wo, wi = s[Depthwise].split(dw, 8)
    s[Depthwise].reorder(wo, *Depthwise.op.reduce_axis, wi)
    s[Depthwise].vectorize(wi)
    r = rng()
    x, f, sc, sh = ints(r, 1, c, h, w), ints(r, c, 1, 3, 3), ints(r, c), ints(r, c)
    want = np.stack([conv2d(x[:, q : q + 1], f[q : q + 1], 1, 1)[:, 0] for q in range(c)], 1)
    agree(
        s,
        [Input, Filter, Scale, Shift, Relu],
        [x, f, sc, sh],
        np.maximum(want * sc[:, None, None] + sh[:, None, None], 0),
    )


@pytest.mark.parametrize("dtype", ("float32", "int8"))
def test_max_pool_2x2(dtype: str) -> None:
    c, h, w = 5, 17, 22
    X = te.placeholder((c, h, w), name="X", dtype=dtype)
    ky, kx = te.reduce_axis((0, 2), name="ky"), te.reduce_axis((0, 2), name="kx")
    P = te.compute(
        (c, h // 2, w // 2), lambda ch, y, x: te.max(X[ch, y * 2 + ky, x * 2 + kx], axis=[ky, kx]), name="P"
    )
    s = te.create_schedule(P.op)
    ch, y, x = P.op.axis
    xo, xi = s[P].split(x, factor=8)
    s[P].reorder(ch, y, xo, ky, kx, xi)
    s[P].unroll(kx)
    s[P].vectorize(xi)
    s[P].parallel(s[P].fuse(ch, y))
    x_ = ints(rng(), c, h, w, dtype=dtype, lo=-100, hi=100)
    agree(s, [X, P], [x_], x_[:, :16].reshape(c, 8, 2, w // 2, 2).max((2, 4)))


def test_two_jacobi_steps_fused_in_tiles() -> None:
    h, w = 27, 38
    A = te.placeholder((h, w), name="A")
    step = lambda X, name: te.compute(
        (h, w),
        lambda i, j: te.if_then_else(
            te.any(i == 0, i == h - 1, j == 0, j == w - 1),
            X[i, j],
            X[i - 1, j] + X[i + 1, j] + X[i, j - 1] + X[i, j + 1] - 3 * X[i, j],
        ),
        name=name,
    )
    B = step(A, "B")
    C = step(B, "C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 16)
    s[B].compute_at(s[C], jo)
    s[C].vectorize(ji)
    s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])
    s[C].parallel(io)

    def jacobi(x: Any) -> Any:
        y = x.copy()
        y[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 3 * x[1:-1, 1:-1]
        return y

    a = ints(rng(), h, w)
    agree(s, [A, C], [a], jacobi(jacobi(a)))


def const_matrix(matrix: Any, name: str) -> Any:
    """As topi.util.const_matrix: a constant matrix as a chain of selects."""
    row, col = matrix.shape

    def select_array(i: Any, j: Any) -> Any:
        now = te.const(0.0, "float32")
        for ii in range(row):
            for jj in range(col):
                now = te.Select(
                    te.all(i % row == ii, j % col == jj), te.const(float(matrix[ii][jj]), "float32"), now
                )
        return now

    return te.compute(matrix.shape, select_array, name=name)


def test_winograd_f2_3() -> None:
    CI, CO, H, W, m, r = 3, 4, 8, 10, 2, 3
    alpha = m + r - 1
    A_data = np.array([[1, 0], [1, 1], [1, -1], [0, -1]], "float32")
    G_data = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "float32")
    B_data = np.array([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]], "float32")
    nH, nW = (H + m - 1) // m, (W + m - 1) // m
    P = nH * nW
    data = te.placeholder((CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, r, r), name="kernel")
    data_pad = te.compute(
        (CI, H + 2, W + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < H + 1, x >= 1, x < W + 1), data[c, y - 1, x - 1], te.const(0, "float32")
        ),
        name="data_pad",
    )
    G, B, A = const_matrix(G_data, "G"), const_matrix(B_data, "B"), const_matrix(A_data, "A")
    r_kh, r_kw = te.reduce_axis((0, r), "r_kh"), te.reduce_axis((0, r), "r_kw")
    kernel_pack = te.compute(
        (alpha, alpha, CI, CO),
        lambda eps, nu, ci, co: te.sum(
            kernel[co, ci, r_kh, r_kw] * G[eps, r_kh] * G[nu, r_kw], axis=[r_kh, r_kw]
        ),
        name="kernel_pack",
    )
    input_tile = te.compute(
        (CI, P, alpha, alpha),
        lambda c, p, eps, nu: data_pad[
            c, te.indexmod(te.indexdiv(p, nW), nH) * m + eps, te.indexmod(p, nW) * m + nu
        ],
        name="d",
    )
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    data_pack = te.compute(
        (alpha, alpha, CI, P),
        lambda eps, nu, ci, p: te.sum(
            input_tile[ci, p, r_a, r_b] * B[r_a, eps] * B[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
    )
    ci = te.reduce_axis((0, CI), name="ci")
    bgemm = te.compute(
        (alpha, alpha, CO, P),
        lambda eps, nu, co, p: te.sum(kernel_pack[eps, nu, ci, co] * data_pack[eps, nu, ci, p], axis=[ci]),
        name="bgemm",
    )
    r_g, r_h = te.reduce_axis((0, alpha), "r_g"), te.reduce_axis((0, alpha), "r_h")
    inverse = te.compute(
        (CO, P, m, m),
        lambda co, p, vh, vw: te.sum(bgemm[r_g, r_h, co, p] * A[r_g, vh] * A[r_h, vw], axis=[r_g, r_h]),
        name="inverse",
    )
    output = te.compute(
        (CO, H, W),
        lambda co, h, w: inverse[
            co, te.indexdiv(h, m) * nW + te.indexdiv(w, m), te.indexmod(h, m), te.indexmod(w, m)
        ],
        name="output",
        tag="conv2d_nchw_winograd",
    )
    s = te.create_schedule(output.op)
    s[data_pad].compute_inline()
    for stage, matrix in ((kernel_pack, G), (data_pack, B), (inverse, A)):
        s[matrix].compute_inline()
        first, second = s[stage].op.reduce_axis
        s[stage].unroll(first)
        s[stage].unroll(second)
    eps, nu, c, p = s[data_pack].op.axis
    s[data_pack].reorder(c, p, eps, nu)
    s[input_tile].compute_at(s[data_pack], p)
    e, v, co, pp = s[bgemm].op.axis
    s[bgemm].parallel(s[bgemm].fuse(e, v))
    po, pi = s[bgemm].split(pp, 8)
    s[bgemm].reorder(co, po, s[bgemm].op.reduce_axis[0], pi)
    s[bgemm].vectorize(pi)
    g = rng()
    x, k = ints(g, CI, H, W), 4 * ints(g, CO, CI, r, r)
    agree(s, [data, kernel, output], [x, k], conv2d(x[None], k, 1, 1)[0])


def test_bilinear_upsampling_by_two() -> None:
    h, w = 7, 9
    X = te.placeholder((h, w), name="X")

    def at(y: Any, x: Any) -> Any:
        y0, x0 = te.indexdiv(y, 2), te.indexdiv(x, 2)
        y1, x1 = te.min(y0 + te.indexmod(y, 2), h - 1), te.min(x0 + te.indexmod(x, 2), w - 1)
        return (X[y0, x0] + X[y1, x0] + X[y0, x1] + X[y1, x1]) * te.const(0.25, "float32")

    Y = te.compute((2 * h, 2 * w), at, name="Y")
    s = te.create_schedule(Y.op)
    s[Y].vectorize(s[Y].split(Y.op.axis[1], factor=8)[1])
    s[Y].parallel(Y.op.axis[0])
    x = 4 * ints(rng(), h, w)
    yy, xx = np.arange(2 * h), np.arange(2 * w)
    y0, x0 = yy // 2, xx // 2
    y1, x1 = np.minimum(y0 + yy % 2, h - 1), np.minimum(x0 + xx % 2, w - 1)
    agree(s, [X, Y], [x], (x[np.ix_(y0, x0)] + x[np.ix_(y1, x0)] + x[np.ix_(y0, x1)] + x[np.ix_(y1, x1)]) / 4)
