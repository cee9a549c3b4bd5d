"""More than 2**31 elements: views that repeat one element, sparse reads and writes of large arrays, and one
whole array of 2.2e9 bytes."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import CallError

M, N = 50_000, 44_000  # 2.2e9 elements
ENOUGH = 8 << 30


def memory() -> int:
    """Bytes this machine can still give."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 0


@pytest.fixture(scope="module")
def whole():
    """M by N bytes, in pages the system provides at once: one at a time they may cost many seconds."""
    if os.name != "posix" or memory() < ENOUGH:
        pytest.skip(f"{ENOUGH >> 30} GiB of free memory are needed")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
    return np.frombuffer(mmap.mmap(-1, M * N, flags=flags), np.int8).reshape(M, N)


def test_a_view_of_one_element():
    """2**32 elements over one, read here and there."""
    n = te.var("n", "int64")
    A = te.placeholder((n,), "int32", name="A", strides="any")
    B = te.compute((3,), lambda i: A[i.astype("int64") * (n // 2 - 1)], name="B")
    f = tl.build(te.create_schedule(B.op), [A, B])
    one = np.broadcast_to(np.int32(7), (1 << 32,))
    assert (f(one) == 7).all()
    with pytest.raises(CallError, match=r"m = 4294967296 is too large\n.*counted in 32 bits"):
        m = te.var("m")  # counted in 32 bits
        C = te.placeholder((m,), "int32", name="C", strides="any")
        D = te.compute((1,), lambda i: C[i], name="D")
        tl.build(te.create_schedule(D.op), [C, D])(one)


@pytest.mark.slow
def test_a_sum_over_a_view_of_one_element():
    rows, cols = te.var("rows", "int64"), te.var("cols", "int64")
    A = te.placeholder((rows, cols), "int32", name="A", strides=(None, None))
    k = te.reduce_axis((0, cols), name="k")
    S = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="S")
    s = te.create_schedule(S.op)
    s[S].parallel(S.op.axis[0])
    out = tl.build(s, [A, S])(np.broadcast_to(np.int32(1), (4, (1 << 29) + 5)))
    assert (out == (1 << 29) + 5).all()
    total = tl.build(s, [A, S])(np.broadcast_to(np.int32(1), (1, (1 << 31) + 5)))
    assert total[0] == np.int64((1 << 31) + 5).astype(np.int32)


@pytest.mark.skipif(os.name != "posix", reason="needs memory that is only reserved")
def test_sparse_reads_of_a_large_array():
    """Gathers, strided vectors and fixed indices beyond 2**31; untouched pages cost nothing."""
    a = np.zeros(M * N, np.int8)
    at = np.array([0, (1 << 31) - 1, 1 << 31, (1 << 31) + 77, M * N - 1], np.int64)
    a[at] = [1, 2, 3, 4, 5]
    step = M * N // 32
    a[3::step][:32] += 9
    A, I = te.placeholder((M * N,), "int8", name="A"), te.placeholder((5,), "int64", name="I")
    G = te.compute((5,), lambda i: A[I[i]], name="G")
    H = te.compute((32,), lambda i: A[i.astype("int64") * step + 3], name="H")
    s = te.create_schedule([G.op, H.op])
    s[H].vectorize(s[H].split(H.op.axis[0], 8)[1])
    g, h = tl.build(s, [A, I, G, H])(a, at)
    np.testing.assert_array_equal(g, a[at])
    np.testing.assert_array_equal(h, a[3::step][:32])
    # two-dimensional, sizes known at the call only, the flat offset beyond 2**31
    m, n = te.var("m"), te.var("n")
    B = te.placeholder((m, n), "int8", name="B")
    C = te.compute((n,), lambda j: B[m - 1, j], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[0], 16)[1])
    np.testing.assert_array_equal(tl.build(s, [B, C])(a.reshape(M, N)), a.reshape(M, N)[-1])
    # an output that is spread over it
    D = te.placeholder((8, 8), "int8", name="D")
    E = te.compute((8, 8), lambda i, j: D[i, j] + 1, name="E")
    s = te.create_schedule(E.op)
    s[E].vectorize(E.op.axis[1])
    f = tl.build(s, [D, E], binds={E: te.decl_buffer((8, 8), "int8", strides="any")})
    d = np.arange(64, dtype=np.int8).reshape(8, 8)
    f(d, a.reshape(M, N)[::-6250, ::5500])
    np.testing.assert_array_equal(a.reshape(M, N)[::-6250, ::5500], d + 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "rows",
        "fused",
        "default",
        pytest.param(
            "fused sizes",
            marks=pytest.mark.skipif(
                "TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="2.2e9 divisions: with `make fuzz`"
            ),
        ),
    ],
)
def test_a_whole_array(how, whole):
    """C[i, j] = W[i] + V[j] on 2.2e9 bytes; loops fused into one of more than 2**31 iterations."""
    m, n = (te.var("m"), te.var("n")) if how == "fused sizes" else (M, N)
    W, V = te.placeholder((m, 1), "int8", "W"), te.placeholder((n,), "int8", "V")
    C = te.compute((m, n), lambda i, j: W[i, 0] + V[j], "C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    if how == "rows":
        s[C].vectorize(s[C].split(j, 32)[1])
    elif how == "fused":
        s[C].vectorize(s[C].split(s[C].fuse(i, j), 32)[1])
    elif how == "fused sizes":
        s[C].parallel(s[C].split(s[C].fuse(i, j), N)[0])
    f = tl.compile([W, V, C]) if how == "default" else tl.build(s, [W, V, C])
    w, v = (np.arange(M) % 5).astype(np.int8).reshape(M, 1), (np.arange(N) % 7).astype(np.int8)
    out = whole
    out[::4000] = 99
    f(w, v, out)
    for row in (0, 1, M // 2, 48806, 48807, 48808, M - 2, M - 1):  # 2**31 is in row 48806
        np.testing.assert_array_equal(out[row], w[row] + v)
    assert int(out[::97].sum(dtype=np.int64)) == int((w[::97].astype(np.int64) + v).sum())
