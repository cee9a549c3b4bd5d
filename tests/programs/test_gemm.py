"""TVM's tutorial 'How to optimize GEMM on CPU', step by step, at a size that divides and at one that does
not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlang import te
from tests.programs.check import agree, ints, rng

SIZES = pytest.mark.parametrize("M, N, K", ((64, 64, 64), (37, 45, 29)))
bn = 32
kfactor = 4


def gemm(M: int, N: int, K: int) -> tuple[Any, Any, Any]:
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
    return A, B, C


def check(s: Any, A: Any, B: Any, C: Any, M: int, N: int, K: int) -> None:
    r = rng()
    a, b = ints(r, M, K), ints(r, K, N)
    agree(s, [A, B, C], [a, b], a @ b, interpreted=M < 64)


@SIZES
def test_1_default(M: int, N: int, K: int) -> None:
    A, B, C = gemm(M, N, K)
    s = te.create_schedule(C.op)
    check(s, A, B, C, M, N, K)


@SIZES
def test_2_blocking(M: int, N: int, K: int) -> None:
    A, B, C = gemm(M, N, K)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=kfactor)
    s[C].reorder(mo, no, ko, ki, mi, ni)
    check(s, A, B, C, M, N, K)


@SIZES
def test_3_vectorization(M: int, N: int, K: int) -> None:
    A, B, C = gemm(M, N, K)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=kfactor)
    s[C].reorder(mo, no, ko, ki, mi, ni)
    s[C].vectorize(ni)
    check(s, A, B, C, M, N, K)


@SIZES
def test_4_loop_permutation(M: int, N: int, K: int) -> None:
    A, B, C = gemm(M, N, K)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=kfactor)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    check(s, A, B, C, M, N, K)


def packed_gemm(M: int, N: int, K: int) -> tuple[Any, Any, Any, Any]:
    # TVM's tutorial writes N / bn, of a size that divides
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    packedB = te.compute((N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB")
    C = te.compute(
        (M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, te.indexmod(n, bn)], axis=k), name="C"
    )
    return A, B, packedB, C


@pytest.mark.parametrize("M, K", ((64, 64), (37, 29)))
def test_5_array_packing(M: int, K: int) -> None:
    A, B, packedB, C = packed_gemm(M, 64, K)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=kfactor)
    s[C].reorder(mo, no, ko, mi, ki, ni)
    s[C].vectorize(ni)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    check(s, A, B, C, M, 64, K)


@pytest.mark.parametrize("M, K", ((64, 64), (37, 29)))
@pytest.mark.parametrize("parallel", (False, True))
def test_6_write_cache_and_7_parallel(M: int, K: int, parallel: bool) -> None:
    A, B, packedB, C = packed_gemm(M, 64, K)
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=kfactor)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    if parallel:
        s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    check(s, A, B, C, M, 64, K)


@pytest.mark.parametrize("left, right", ((False, True), (True, False), (True, True)))
def test_transposed_operands(left: bool, right: bool) -> None:
    M, N, K = 19, 35, 23
    k = te.reduce_axis((0, K), "k")
    A = te.placeholder((K, M) if left else (M, K), name="A")
    B = te.placeholder((N, K) if right else (K, N), name="B")
    C = te.compute(
        (M, N),
        lambda i, j: te.sum((A[k, i] if left else A[i, k]) * (B[j, k] if right else B[k, j]), axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    AA = s.cache_read(A, "global", [CC])
    xo, yo, xi, yi = s[C].tile(*C.op.axis, x_factor=4, y_factor=16)
    s[CC].compute_at(s[C], yo)
    s[AA].compute_at(s[C], xo)
    i, j = s[CC].op.axis
    s[CC].reorder(s[CC].op.reduce_axis[0], i, j)
    s[CC].unroll(i)
    s[CC].vectorize(j)
    s[C].vectorize(yi)
    r = rng()
    a, b = ints(r, *((K, M) if left else (M, K))), ints(r, *((N, K) if right else (K, N)))
    agree(s, [A, B, C], [a, b], (a.T if left else a) @ (b.T if right else b))


def test_batch_matmul() -> None:
    batch, M, N, K = 3, 17, 24, 13
    A = te.placeholder((batch, M, K), name="A")
    B = te.placeholder((batch, N, K), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute(
        (batch, M, N), lambda b, y, x: te.sum(A[b, y, k] * B[b, x, k], axis=k), name="C", tag="batch_matmul"
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    b, y, x = s[C].op.axis
    yo, yi = s[C].split(y, 8)
    xo, xi = s[C].split(x, 8)
    s[C].reorder(b, yo, xo, yi, xi)
    bxyo = s[C].fuse(b, yo, xo)
    s[C].parallel(bxyo)
    s[CC].compute_at(s[C], bxyo)
    (kk,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kk, 4)
    s[CC].reorder(ko, s[CC].op.axis[1], ki, s[CC].op.axis[2])
    s[CC].unroll(ki)
    s[CC].vectorize(s[CC].op.axis[2])
    r = rng()
    a, w = ints(r, batch, M, K), ints(r, batch, N, K)
    agree(s, [A, B, C], [a, w], np.einsum("byk,bxk->byx", a, w))


def test_int8_with_int32_accumulation() -> None:
    M, N, K = 16, 35, 40
    A = te.placeholder((M, K), dtype="int8", name="A")
    B = te.placeholder((K, N), dtype="int8", name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute(
        (M, N), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k), name="C"
    )
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, x_factor=4, y_factor=16)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    s[C].unroll(ki)
    s[C].vectorize(ji)
    s[C].parallel(io)
    r = rng()
    a, b = ints(r, M, K, dtype="int8", lo=-128, hi=128), ints(r, K, N, dtype="int8", lo=-128, hi=128)
    agree(s, [A, B, C], [a, b], a.astype("int32") @ b.astype("int32"))


def test_any_size_with_one_kernel() -> None:
    M, N, K = te.var("M"), te.var("N"), te.var("K")
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), "k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 8)
    ko, ki = s[C].split(k, factor=4)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    s[C].vectorize(ji)
    s[C].unroll(ii)
    r = rng()
    for m, n, kk in ((1, 1, 1), (8, 16, 4), (7, 19, 13), (5, 3, 0)):
        a, b = ints(r, m, kk), ints(r, kk, n)
        agree(s, [A, B, C], [a, b], a @ b)


def test_bias_and_relu_follow_in_the_tile() -> None:
    M, N, K = 30, 50, 20
    A, B, C = gemm(M, N, K)
    bias = te.placeholder((N,), name="bias")
    D = te.compute((M, N), lambda i, j: C[i, j] + bias[j], name="D")
    R = te.compute((M, N), lambda i, j: te.max(D[i, j], te.const(0, "float32")), name="R")
    s = te.create_schedule(R.op)
    s[D].compute_inline()
    i, j = R.op.axis
    io, jo, ii, ji = s[R].tile(i, j, 8, 16)
    s[R].vectorize(ji)
    s[C].compute_at(s[R], jo)
    s[C].set_scope("local")
    ci, cj = C.op.axis
    s[C].reorder(s[C].op.reduce_axis[0], ci, cj)
    s[C].vectorize(cj)
    s[C].unroll(ci)
    s[R].parallel(io)
    r = rng()
    a, b, c = ints(r, M, K), ints(r, K, N), ints(r, N)
    agree(s, [A, B, bias, R], [a, b, c], np.maximum(a @ b + c, 0))
