"""Elementwise programs: TVM's first tutorial, intrinsics, colour conversion, select chains, sizes known only
at the call."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.programs.check import agree, ints, rng


def test_vector_add_of_any_length() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")

    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=64)
    s[C].parallel(outer)
    s[C].vectorize(inner)

    fadd = tl.build(s, [A, B, C], "llvm", name="myadd")
    r = rng()
    for n_now in (0, 1, 2, 63, 64, 65, 1024, 1031):
        a, b, c = ints(r, n_now), ints(r, n_now), np.full(n_now, 7, "float32")
        fadd(a, b, c)
        np.testing.assert_array_equal(c, a + b)
        np.testing.assert_array_equal(fadd(a, b), a + b)
        agree(s, [A, B, C], [a, b], a + b)


@pytest.mark.parametrize("n", (128, 1000, 1021))
def test_vector_add_with_nested_splits_and_unroll(n: int) -> None:
    A = te.placeholder((n,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule([C.op])
    xo, xi = s[C].split(C.op.axis[0], nparts=4)
    xio, xii = s[C].split(xi, factor=32)
    s[C].reorder(xo, xio, xii)
    xiio, v = s[C].split(xii, factor=8)
    s[C].parallel(xo)
    s[C].unroll(xiio)
    s[C].vectorize(v)
    r = rng()
    a, b = ints(r, n), ints(r, n)
    agree(s, [A, B, C], [a, b], a + b)


def test_chain_of_stages_inlined_into_one_loop() -> None:
    m = 37
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] + 1, name="B")
    C = te.compute((m,), lambda i: B[i] * 2, name="C")
    D = te.compute((m,), lambda i: C[i] - B[i], name="D")
    s = te.create_schedule(D.op)
    s[B].compute_inline()
    s[C].compute_inline()
    s[D].vectorize(s[D].split(D.op.axis[0], factor=16)[1])
    a = ints(rng(), m)
    agree(s, [A, D], [a], a + 1)


@pytest.mark.parametrize(
    "name, reference",
    (
        ("exp", np.exp),
        ("log", lambda x: np.log(x)),
        ("tanh", np.tanh),
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("trunc", np.trunc),
        ("abs", np.abs),
        ("sin", np.sin),
        ("cos", np.cos),
    ),
)
def test_intrinsics(name: str, reference: object) -> None:
    n = 1003
    A = te.placeholder((n,), name="A")
    B = te.compute(A.shape, lambda *i: getattr(te, name)(A(*i)), name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].parallel(bx)
    s[B].vectorize(tx)
    a = rng().uniform(0.1, 4, n).astype("float32")
    want = reference(a.astype("float64")).astype("float32")  # type: ignore[operator]
    agree(s, [A, B], [a], want, tolerance=1e-6)


def test_power_and_select_in_a_gelu() -> None:
    n = te.size_var("n")
    X = te.placeholder((n,), name="X")
    cdf = te.compute((n,), lambda i: 0.5 * (1.0 + te.erf(X[i] * te.const(0.70710678, "float32"))), name="cdf")
    G = te.compute((n,), lambda i: X[i] * cdf[i], name="G")
    L = te.compute(
        (n,), lambda i: te.Select(X[i] > 0, G[i], te.power(te.abs(X[i]), 2.0) * te.const(-0.01)), name="L"
    )
    s = te.create_schedule(L.op)
    s[cdf].compute_inline()
    xo, xi = s[L].split(L.op.axis[0], factor=16)
    s[G].compute_at(s[L], xo)
    s[G].vectorize(G.op.axis[0])
    s[L].vectorize(xi)
    x = rng().standard_normal(101).astype("float32")
    from math import erf

    g = np.array([v * 0.5 * (1 + erf(v * 0.70710678)) for v in x.astype("float64")])
    agree(
        s, [X, L], [x], np.where(x > 0, g, -0.01 * x.astype("float64") ** 2).astype("float32"), tolerance=2e-6
    )


def test_rgb_to_gray() -> None:
    h, w = 37, 53
    image = te.placeholder((h, w, 3), dtype="uint8", name="image")
    gray = te.compute(
        (h, w),
        lambda y, x: (
            image[y, x, 0].astype("int32") * 77
            + image[y, x, 1].astype("int32") * 150
            + image[y, x, 2].astype("int32") * 29
            >> 8
        ).astype("uint8"),
        name="gray",
    )
    s = te.create_schedule(gray.op)
    y, x = s[gray].op.axis
    xo, xi = s[gray].split(x, factor=16)
    s[gray].vectorize(xi)
    s[gray].parallel(y)
    img = rng().integers(0, 256, (h, w, 3)).astype("uint8")
    i = img.astype("int32")
    agree(s, [image, gray], [img], ((i[..., 0] * 77 + i[..., 1] * 150 + i[..., 2] * 29) >> 8).astype("uint8"))


def test_mandelbrot_as_a_chain_of_selects() -> None:
    h, w, iterations = 21, 35, 6
    cr = te.placeholder((w,), name="cr", dtype="float64")
    ci = te.placeholder((h,), name="ci", dtype="float64")
    zr = te.compute((h, w), lambda y, x: te.const(0, "float64"), name="zr0")
    zi = te.compute((h, w), lambda y, x: te.const(0, "float64"), name="zi0")
    count = te.compute((h, w), lambda y, x: te.const(0, "int32"), name="count0")
    stages = [zr, zi, count]
    for t in range(1, iterations + 1):
        zr, zi, count = te.compute(
            (h, w),
            lambda y, x, zr=zr, zi=zi, count=count: (
                te.Select(
                    zr[y, x] * zr[y, x] + zi[y, x] * zi[y, x] < 4,
                    zr[y, x] * zr[y, x] - zi[y, x] * zi[y, x] + cr[x],
                    zr[y, x],
                ),
                te.Select(
                    zr[y, x] * zr[y, x] + zi[y, x] * zi[y, x] < 4, zr[y, x] * zi[y, x] * 2 + ci[y], zi[y, x]
                ),
                te.Select(zr[y, x] * zr[y, x] + zi[y, x] * zi[y, x] < 4, count[y, x] + 1, count[y, x]),
            ),
            name=f"z{t}",
        )
        stages.append(zr)
    M = te.compute((h, w), lambda y, x: count[y, x], name="M")
    s = te.create_schedule(M.op)
    y, x = s[M].op.axis
    xo, xi = s[M].split(x, factor=8)
    for st in reversed(stages):  # a place must stay legal after each call: the reader moves first
        s[st].compute_at(s[M], xo)
        s[st].vectorize(s[st].op.axis[1])
    s[M].vectorize(xi)
    s[M].parallel(y)
    c, d = np.linspace(-2, 0.75, w), np.linspace(-1.25, 1.25, h)
    z, n, cc = np.zeros((h, w), complex), np.zeros((h, w), "int32"), c[None, :] + 1j * d[:, None]
    for _ in range(iterations):
        inside = z.real * z.real + z.imag * z.imag < 4
        z = np.where(
            inside, (z.real * z.real - z.imag * z.imag + cc.real) + 1j * (z.real * z.imag * 2 + cc.imag), z
        )
        n += inside
    agree(s, [cr, ci, M], [c, d], n)


def test_two_outputs_of_one_compute() -> None:
    m, n = 13, 22
    A0 = te.placeholder((m, n), name="A0")
    A1 = te.placeholder((m, n), name="A1")
    B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
    s = te.create_schedule(B0.op)
    io, jo, ii, ji = s[B0].tile(B0.op.axis[0], B0.op.axis[1], 4, 8)
    s[B0].vectorize(ji)
    s[B0].parallel(io)
    r = rng()
    a, b = ints(r, m, n), ints(r, m, n)
    agree(s, [A0, A1, B0, B1], [a, b], a + 2, b * 3)


def test_scalar_arguments() -> None:
    n = te.var("n")
    alpha = te.var("alpha", dtype="float32")
    X = te.placeholder((n,), name="X")
    Y = te.placeholder((n,), name="Y")
    Z = te.compute((n,), lambda i: alpha * X[i] + Y[i], name="Z")
    s = te.create_schedule(Z.op)
    s[Z].vectorize(s[Z].split(Z.op.axis[0], factor=8)[1])
    r = rng()
    x, y = ints(r, 45), ints(r, 45)
    z = np.empty(45, "float32")
    for f in (tl.build(s, [alpha, X, Y, Z]), tl.compile([alpha, X, Y, Z])):
        f(3.0, x, y, z)
        np.testing.assert_array_equal(z, 3 * x + y)


@pytest.mark.parametrize("how", ("serial", "unroll", "vectorize"))
def test_division_by_an_axis_beside_the_test_that_it_is_not_zero(how: str) -> None:
    # unrolled, the first iteration divides by the literal 0 in the side that is not taken
    A = te.placeholder((8,), dtype="int32", name="A")
    C = te.compute((8,), lambda i: te.if_then_else(i > 0, A[i] // i.var + 7 % te.max(i.var, 0), -1), name="C")
    s = te.create_schedule(C.op)
    if how != "serial":
        getattr(s[C], how)(C.op.axis[0])
    a, i = ints(rng(), 8, dtype="int32", lo=-40, hi=41), np.maximum(np.arange(8, dtype="int32"), 1)
    agree(s, [A, C], [a], np.where(np.arange(8) > 0, a // i + 7 % i, -1).astype("int32"))


def test_timing_and_printing_as_the_tutorials_do():
    n = 1024
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.if_then_else(te.likely(i < n - 1), A[i] * te.convert(2), 0.0), name="B")
    s = te.create_schedule(B.op).normalize()
    assert "def main" in str(tl.lower(s, [A, B], simple_mode=True))
    f = tl.build(s, [A, B], name="twice")
    a, b = np.ones(n, "float32"), np.zeros(n, "float32")
    timing = f.time_evaluator(f.entry_name, None, number=5)(a, b)
    assert 0 < timing.min <= timing.mean
    assert (b[:-1] == 2).all() and b[-1] == 0
    with pytest.raises(tl.TensorLangError, match="this module has one kernel"):
        f.time_evaluator("other")
