"""Declared strides: what a kernel computes on arrays that lie anyhow is what it computes on compact copies,
in machine code on both paths of a call, in the interpreter, after JSON, under schedules with vectors; and
outputs keep their hands off what lies between."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen import kernel_signature
from tensorlang.errors import CallError, DeclareError, LowerError
from tensorlang.interface.signature import Signature
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify


@pytest.fixture(params=["0", "1"], ids=["portable", "native"])
def path(request, monkeypatch):
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", request.param)
    return request.param


def views(a):
    """Arrays equal to ``a`` (a matrix) that lie differently."""
    m, n = a.shape
    yield "compact", a
    yield "transposed", np.ascontiguousarray(a.T).T
    for s, t in ((1, 1), (2, 1), (1, 3), (-1, 1), (1, -1), (-2, -3)):
        whole = np.full((m * abs(s), n * abs(t) + 5), 99, a.dtype)
        view = whole[:, 2 : 2 + n * abs(t)][::s, ::t]
        view[...] = a
        yield f"steps {s} {t}", view
    whole = np.full((n, 2, m), 99, a.dtype)
    view = whole[::-1, 1, :].T
    view[...] = a
    yield "transposed and reversed", view


def sums(dtype="float32", strides="any", vector=None):
    """C = A + B[j], row sums R of A."""
    m, n = te.var("m"), te.var("n")
    A, B = (
        te.placeholder((m, n), dtype, "A", strides=strides),
        te.placeholder((n,), dtype, "B", strides=(None,)),
    )
    C = te.compute((m, n), lambda i, j: A[i, j] + B[j], "C")
    k = te.reduce_axis((0, n), "k")
    R = te.compute((m,), lambda i: te.sum(A[i, k], axis=k), "R")
    s = te.create_schedule([C.op, R.op])
    if vector:
        s[C].vectorize(s[C].split(C.op.axis[1], vector)[1])
        s[C].parallel(C.op.axis[0])
    return s, [A, B, C, R]


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
@pytest.mark.parametrize("vector", [None, 8])
def test_any_strides(path, dtype, vector):
    s, args = sums(dtype, vector=vector)
    f = tl.build(s, args)
    func = tl.lower(s, args)
    verify(func)
    a = np.arange(7 * 19).reshape(7, 19).astype(dtype) % 5
    b = np.arange(38).astype(dtype)[::-2]
    for name, view in views(a):
        c, r = f(view, b)
        np.testing.assert_array_equal(c, a + b, name)
        np.testing.assert_array_equal(r, a.sum(1, dtype=dtype), name)
        c[:], r[:] = 1, 1
        interpret(func, view, b, c, r)
        np.testing.assert_array_equal(c, a + b, name)
        np.testing.assert_array_equal(r, a.sum(1, dtype=dtype), name)
    broad = np.broadcast_to(a[:1, :1], (7, 19))
    np.testing.assert_array_equal(f(broad, b)[0], broad + b)
    for cut in (a[:1], a[:, :1], a[:0], a[:, :0], a[3:4, 2:3]):
        np.testing.assert_array_equal(f(cut.T.copy().T, b[: cut.shape[1]])[0], cut + b[: cut.shape[1]])


def test_outputs_may_be_strided_and_touch_nothing_else(path):
    s, args = sums()
    C = args[2]
    f = tl.build(s, args, binds={C: te.decl_buffer(C.shape, C.dtype, "C", strides="any")})
    func = tl.lower(s, args, binds={C: te.decl_buffer(C.shape, C.dtype, "C", strides="any")})
    a, b, r = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32), np.zeros(3, np.float32)
    for run in (f, lambda *x: interpret(func, *x)):
        whole = np.full((6, 9), 7, np.float32)
        run(a, b, whole[4::-2, 8:0:-2], r)
        np.testing.assert_array_equal(whole[4::-2, 8:0:-2], a + b)
        assert (whole == 7).sum() == whole.size - 12 + (a + b == 7).sum()
    np.testing.assert_array_equal(f(a, b)[0], a + b)  # left out, it is compact
    for out, words in (
        (np.lib.stride_tricks.as_strided(whole, (3, 4), (0, 4)), "C, has elements that share memory"),
        (np.lib.stride_tricks.as_strided(whole, (3, 4), (8, 4)), "C, has elements that share memory"),
        (np.broadcast_to(whole[0, 0], (3, 4)), "C, is read-only"),
    ):
        before = whole.copy()
        with pytest.raises(CallError, match=words):
            f(a, b, out, r)
        np.testing.assert_array_equal(whole, before)
    # columns of one matrix interleave and share no byte; neighbours that reach over each other do
    both = np.arange(24, dtype=np.float32).reshape(3, 8)
    left, right = both[:, ::2], both[:, 1::2]
    want = left + b
    f(left, b, right, r)
    np.testing.assert_array_equal(right, want)
    with pytest.raises(CallError, match="C, overlaps A"):
        f(both[:, :4], b, both[:, 3:7], r)


def test_fixed_and_shared_strides(path):
    m, n, ld = te.var("m"), te.dim("n", 1), te.dim("ld", 1, multiple_of=4)
    A, B = (
        te.placeholder((m, n), name="A", strides=(ld, 1)),
        te.placeholder((m, n), name="B", strides=(2 * ld, 1)),
    )
    C = te.compute((m, n), lambda i, j: A[i, j] - B[i, j], "C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], 4)[1])
    f = tl.build(s, [A, B, C], name="f")
    a, b = np.arange(24, dtype=np.float32).reshape(3, 8)[:, :5], np.ones((3, 16), np.float32)[:, :5]
    np.testing.assert_array_equal(f(a, b), a - b)
    np.testing.assert_array_equal(
        f(a[:1].copy(), b[:1].copy()), (a - b)[:1]
    )  # one row: its stride is nobody's business
    for x, y, words in (
        (a[::-1], b, "ld = -8 is too small"),
        (np.ones((3, 6), np.float32)[:, :5], b, "ld = 6 is not a multiple of 4"),
        (a, b.copy(), "B, has stride 5 along axis 0"),
        (a, np.ones((3, 32), np.float32)[:, :10:2], "B, has stride"),
        (a, b[:2], "m is 3 by axis 0 of A, and 2"),
    ):
        with pytest.raises(CallError, match=words):
            f(x, y)
    assert "strides [ld, 1]" in repr(f)


def test_the_native_entry_takes_them():
    """No Python runs in such a call."""
    s, args = sums()
    f = tl.build(s, args)
    if type(f.entry).__name__ != "builtin_function_or_method":
        pytest.skip("no native entry here")
    a, b = np.ones((6, 8), np.float32), np.ones(8, np.float32)[::-1]
    c, r = np.zeros((3, 8), np.float32), np.zeros(3, np.float32)
    entry, called = f.entry, []
    sys.setprofile(lambda frame, event, what: called.append(event) if event == "call" else None)
    try:
        entry(a[::-2], b, c, r)
    finally:
        sys.setprofile(None)
    assert called == []
    assert (c == 2).all() and (r == 8).all()


def test_json_and_files(tmp_path):
    s, args = sums(strides=(None, 1))
    back = te.serialize.from_json(te.serialize.to_json(args))
    assert te.serialize.to_json(back) == te.serialize.to_json(args)
    assert te.serialize.key_of(back) != te.serialize.key_of(sums(strides=None)[1])
    f = tl.build(te.create_schedule([t.op for t in back[2:]]), back, name="sums")
    signature = kernel_signature(tl.lower(s, args, "sums"))
    assert Signature.from_json(signature.to_json()) == signature == f.signature
    f.save(tmp_path / "f.tl")
    g = tl.runtime.load(tmp_path / "f.tl")
    a = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, :5]
    np.testing.assert_array_equal(g(a, np.ones(5, np.float32))[0], a + 1)


def test_a_declaration_that_is_compact_changes_nothing():
    assert te.placeholder((3, 4), strides=(4, 1)).op.strides is None
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3, 4), lambda i, j: A[i, j] + 1, "B")
    s = te.create_schedule(B.op)
    assert str(tl.lower(s, [A, B])) == str(
        tl.lower(s, [A, B], binds={A: te.decl_buffer((3, 4), strides=(4, 1))})
    )


def test_reads_of_a_stride_that_is_one_are_vectors():
    """Loads of a whole vector where the last stride is declared to be 1, lane by lane where it may be
    anything."""
    texts = []
    for strides in ((None, 1), "any"):
        s, args = sums(strides=strides, vector=8)
        texts.append(tl.build(s, args, target="llvm -mcpu=haswell").get_source("ll"))
    assert all("load <8 x float>" in t or "masked.load" in t for t in texts[:1])
    assert texts[0].count("load <8 x float>") > texts[1].count("load <8 x float>")


@pytest.mark.parametrize(
    ("strides", "words"),
    [
        ((1,), "1 stride for 2 dimensions"),
        ((1, "x"), "'x' is not a stride"),
        ((1, 2.5), "2.5 is not a stride"),
        (7, "strides=7"),
        ("all", "strides='all'"),
        ((True, 1), "True is not a stride"),
    ],
)
def test_strides_that_are_none(strides, words):
    with pytest.raises(DeclareError, match=words):
        te.placeholder((3, 4), name="A", strides=strides)


def test_binds_that_do_not_fit():
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3, 4), lambda i, j: A[i, j] + 1, "B")
    s = te.create_schedule(B.op)
    other = te.placeholder((3, 4), name="other")
    for binds, words in (
        ({A: 3}, "is not a buffer, but an int"),
        ({other: te.decl_buffer((3, 4))}, "other, which is not an argument"),
        ({A: te.decl_buffer((4, 3))}, r"binds\[A\] is float32\[4, 3\]"),
        ([A], "is not a mapping"),
    ):
        with pytest.raises(LowerError, match=words):
            tl.build(s, [A, B], binds=binds)
    with pytest.raises(DeclareError, match="scope='shared'"):
        te.decl_buffer((3, 4), scope="shared")
    ld = te.var("ld")
    C = te.placeholder((3, 4), name="C", strides=(ld * 2, 1))
    D = te.compute((3, 4), lambda i, j: C[i, j], "D")
    with pytest.raises(LowerError, match="`ld` is determined by no argument"):
        tl.build(te.create_schedule(D.op), [C, D])
    E = te.extern(
        (3, 4),
        [te.placeholder((3, 4), name="X", strides="any")],
        lambda i, o: te.call_packed("f", i[0], o[0]),
        name="E",
    )
    with pytest.raises(LowerError, match="is given X, which may have strides"):
        tl.lower(te.create_schedule(E.op), [*E.op.input_tensors, E])
