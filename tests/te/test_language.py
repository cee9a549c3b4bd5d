"""What a compute may say, through all oracles: guarded reads, conditions of reductions, gathers, rank 0,
empty sizes, several outputs, reducers of one's own, and notes."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import te
from tensorlang.errors import DeclareError

from .oracles import agree

N = 37
rng = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _same_numbers_in_every_order():
    global rng
    rng = np.random.default_rng(7)


def floats(*shape):
    return rng.integers(-9, 10, shape).astype(np.float32)


# --- guards -------------------------------------------------------------------------------------------------


def test_if_then_else_guards_reads_out_of_range():
    A = te.placeholder((N,), name="A")
    pad = te.compute(
        (N + 6,), lambda i: te.if_then_else(te.all(3 <= i, i < N + 3), A[i - 3], 0.0), name="pad"
    )
    mirror = te.compute((2 * N,), lambda i: te.if_then_else(i < N, A[i], A[2 * N - 1 - i]), name="mirror")
    nested = te.compute(
        (N,),
        lambda i: te.if_then_else(i > 0, te.if_then_else(i < N - 1, A[i - 1] + A[i + 1], A[i - 1]), A[i + 1]),
        name="nested",
    )
    a = floats(N)
    got = agree([pad, mirror, nested], {A: a})
    np.testing.assert_array_equal(got[0], np.pad(a, 3))
    np.testing.assert_array_equal(got[1], np.concatenate([a, a[::-1]]))


def test_a_guard_that_depends_on_data():
    A, I = te.placeholder((N,), name="A"), te.placeholder((N,), "int32", name="I")
    got = te.compute((N,), lambda i: te.if_then_else(te.all(0 <= I[i], I[i] < N), A[I[i]], -1.0), name="got")
    index = rng.integers(-2 * N, 2 * N, N).astype(np.int32)
    a = floats(N)
    (out,) = agree(got, {A: a, I: index})
    inside = (index >= 0) & (index < N)
    np.testing.assert_array_equal(out, np.where(inside, a[np.where(inside, index, 0)], -1))


def test_a_guarded_division():
    A, B = te.placeholder((N,), "int32", name="A"), te.placeholder((N,), "int32", name="B")
    safe = te.compute((N,), lambda i: te.if_then_else(B[i] != 0, A[i] // B[i], 0), name="safe")
    a, b = (rng.integers(-9, 9, N).astype(np.int32) for _ in range(2))
    b[:3] = 0
    agree(safe, {A: a, B: b})


def test_select_takes_both_sides():
    A = te.placeholder((N,), name="A")
    agree(
        te.compute((N,), lambda i: te.select(A[i] > 0, te.sqrt(A[i]), te.exp(A[i])), name="S"),
        {A: floats(N)},
        ulp=1,
    )
    agree(te.compute((N,), lambda i: te.Select(te.any(i < 3, i > 30), A[i], A[N - 1 - i])), {A: floats(N)})


def test_select_on_types():
    A, M = te.placeholder((N,), "int8", name="A"), te.placeholder((N,), "bool", name="M")
    outs = [
        te.compute((N,), lambda i, f=f: f(i), name=n)
        for n, f in {
            "wide": lambda i: te.select(M[i], A[i], 1000),
            "half": lambda i: te.if_then_else(M[i], A[i].astype("float16"), 0.5),
            "double": lambda i: te.select(M[i], A[i].astype("float64"), 0.1),
            "flag": lambda i: te.select(M[i], A[i] > 0, A[i] < -5),
            "not": lambda i: ~M[i],
            "both": lambda i: M[i] & (A[i] > 0),
            "either": lambda i: M[i] | (A[i] > 0),
        }.items()
    ]
    agree(outs, {A: rng.integers(-9, 9, N).astype(np.int8), M: rng.random(N) < 0.5})


def test_where_guards_the_reads_of_a_reduction():
    A = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, 7), "k")
    window = te.compute(
        (N,),
        lambda i: te.sum(A[i + k - 3], axis=k, where=te.all(0 <= i + k - 3, i + k - 3 < N)),
        name="window",
    )
    top = te.compute((N,), lambda i: te.max(A[i + k], axis=k, where=i + k < N), name="top")
    a = floats(N)
    got, best = agree([window, top], {A: a})
    np.testing.assert_array_equal(got, np.convolve(a, np.ones(7), "same"))
    np.testing.assert_array_equal(best, [a[i : i + 7].max() for i in range(N)])


def test_init_and_where_of_every_reduction():
    A = te.placeholder((5, N), "int32", name="A")
    k = te.reduce_axis((2, N), "k")
    outs = [
        te.compute(
            (5,),
            lambda i, f=f, w=w, s=s: f(A[i, k], axis=k, where=(A[i, k] > 0) if w else None, init=s),
            name=f"{f.__name__}{w}{s is None}",
        )
        for f in (te.sum, te.prod, te.min, te.max)
        for w in (0, 1)
        for s in (None, 3)
    ]
    k2 = te.reduce_axis((2, N), "k")
    outs += [
        te.compute(
            (5,),
            lambda i, f=f, w=w: f(A[i, k2] > 0, axis=k2, where=(A[i, k2] != 1) if w else None, init=None),
            name=f"{f.__name__}{w}",
        )
        for f in (te.any, te.all)
        for w in (0, 1)
    ]
    outs.append(te.compute((5,), lambda i: te.sum(A[i, k], axis=k, init=A[i, 0] * 2), name="own"))
    agree(outs, {A: rng.integers(-9, 10, (5, N)).astype(np.int32)})


# --- places -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"])
def test_gather_by_every_index_type(t):
    A, I = te.placeholder((N, 5), name="A"), te.placeholder((11,), t, name="I")
    rows = te.compute((11, 5), lambda i, j: A[I[i], j], name="rows")
    columns = te.compute((5, 11), lambda i, j: A[I[j], i] * 2.0, name="columns")
    index = rng.integers(0, N, 11).astype(t)
    a = floats(N, 5)
    got = agree([rows, columns], {A: a, I: index})
    np.testing.assert_array_equal(got[0], a[index])


@pytest.mark.parametrize("t", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_an_index_computed_in_another_type(t):
    A = te.placeholder((N,), name="A")
    there = te.compute((N,), lambda i: A[i.astype(t)] + A[(i.astype(t) + 1) % N], name="there")
    a = floats(N)
    (got,) = agree(there, {A: a})
    np.testing.assert_array_equal(got, a + np.roll(a, -1))


def test_gather_of_a_gather_and_histogram():
    A, I, J = (
        te.placeholder((N,), name="A"),
        te.placeholder((N,), "int32", name="I"),
        te.placeholder((N,), "int64", name="J"),
    )
    twice = te.compute((N,), lambda i: A[I[J[i]]], name="twice")
    k = te.reduce_axis((0, N), "k")
    counts = te.compute((9,), lambda b: te.sum((I[k] % 9 == b).astype("int32"), axis=k), name="counts")
    i, j = rng.integers(0, N, N).astype(np.int32), rng.integers(0, N, N)
    a = floats(N)
    got, hist = agree([twice, counts], {A: a, I: i, J: j})
    np.testing.assert_array_equal(got, a[i[j]])
    np.testing.assert_array_equal(hist, np.bincount(i % 9, minlength=9))


def test_rank_zero():
    A, S = te.placeholder((N,), name="A"), te.placeholder((), name="S")
    k = te.reduce_axis((0, N), "k")
    total = te.compute((), lambda: te.sum(A[k], axis=k), name="total")
    scaled = te.compute(
        (N,), lambda i: A[i] * S() + total / 2, name="scaled"
    )  # a tensor of rank 0 is used like a number
    constant = te.compute((), lambda: 2.5, name="constant")
    a, s = floats(N), np.array(3, np.float32)
    got, t, c = agree([scaled, total, constant], {A: a, S: s})
    assert t.shape == () and t == a.sum() and c == 2.5
    np.testing.assert_array_equal(got, a * 3 + a.sum() / 2)


def test_sizes_of_zero():
    A = te.placeholder((0, 4), name="A")
    k = te.reduce_axis((0, 0), "k")
    sums = te.compute((4,), lambda j: te.sum(A[k, j], axis=k), name="sums")
    tops = te.compute((4,), lambda j: te.max(A[k, j], axis=k), name="tops")
    copy = te.compute((0, 4), lambda i, j: A[i, j] + 1.0, name="copy")
    s, t, c = agree([sums, tops, copy], {A: np.zeros((0, 4), np.float32)})
    assert (s == 0).all() and (t == -np.inf).all() and c.shape == (0, 4)


@pytest.mark.parametrize("n", [0, 1, 8, 13])
def test_symbolic_sizes_and_numbers(n):
    m, alpha = te.var("m"), te.var("alpha", "float32")
    A = te.placeholder((m,), name="A")
    k = te.reduce_axis((0, m), "k")
    agree(te.compute((m,), lambda i: A[m - 1 - i] * alpha + i, name="C"), {A: floats(n), alpha: 0.5})
    agree(te.compute((2, m), lambda i, j: te.sum(A[k] * A[j] + i, axis=k), name="D"), {A: floats(n)})


def test_a_range_that_does_not_begin_at_zero():
    A = te.placeholder((N,), name="A")
    k = te.reduce_axis((5, 20), "k")
    assert (int(k.dom.min), int(k.dom.extent), int(k.dom.begin), *map(int, k.dom)) == (5, 15, 5, 5, 15)
    (got,) = agree(te.compute((3,), lambda i: te.sum(A[k + i], axis=k)), {A: (a := floats(N))})
    np.testing.assert_array_equal(got, [a[5 + i : 20 + i].sum() for i in range(3)])
    again = te.reduce_axis(k.dom, "again")
    assert (int(again.dom.min), int(again.dom.extent)) == (5, 15)


# --- several outputs and reducers ---------------------------------------------------------------------------


def test_several_outputs():
    A = te.placeholder((3, N), name="A")
    s, d, f = te.compute(
        (3, N), lambda i, j: (A[i, j] + 1.0, A[i, j].astype("int32") * 2, A[i, j] > 0), name="three"
    )
    user = te.compute(
        (3, N), lambda i, j: te.select(f[i, j], s[i, j], d[i, j].astype("float32")), name="user"
    )
    agree([s, d, f, user], {A: floats(3, N)})


argmax = te.comm_reducer(
    lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
    lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    name="argmax",
)
welford = te.comm_reducer(
    lambda x, y: (
        x[0] + y[0],
        te.select(x[0] + y[0] > 0, (x[1] * x[0] + y[1] * y[0]) / te.max(x[0] + y[0], 1.0), 0.0),
        x[2] + y[2] + (y[1] - x[1]) * (y[1] - x[1]) * x[0] * y[0] / te.max(x[0] + y[0], 1.0),
    ),
    lambda t0, t1, t2: (te.const(0, t0), te.const(0, t1), te.const(0, t2)),
    name="welford",
)


def inner(kind):
    def schedule(s):
        for stage in s.stages:
            if stage.op.input_tensors and len(stage.op.axis) == 2:
                i, j = stage.op.axis
                if kind == "parallel":
                    stage.parallel(i)
                    continue
                jo, ji = stage.split(j, factor=8)
                stage.reorder(i, jo, *stage.op.reduce_axis, ji)
                getattr(stage, kind)(ji)

    return schedule


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel"])
@pytest.mark.parametrize("t", ["float32", "int8", "float64"])
def test_argmax(kind, t):
    A = te.placeholder((6, 9, 13), t, name="A")
    k = te.reduce_axis((0, 9), "k")
    where, top = te.compute((6, 13), lambda i, j: argmax((k, A[i, k, j]), axis=k), name="best")
    a = rng.integers(-99, 99, (6, 9, 13)).astype(t)
    index, value = agree([where, top], {A: a}, lanes=(0,), schedule=inner(kind))
    np.testing.assert_array_equal(index, a.argmax(1))
    np.testing.assert_array_equal(value, a.max(1))


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel"])
def test_welford(kind):
    A = te.placeholder((3, 8, 13), "float64", name="A")
    k = te.reduce_axis((0, 8), "k")
    n, mean, spread = te.compute(
        (3, 13),
        lambda i, j: welford((te.const(1.0, "float64"), A[i, k, j], te.const(0.0, "float64")), axis=k),
        name="stats",
    )
    a = rng.standard_normal((3, 8, 13)) + 5  # away from 0, where a fused multiply-add would show
    got = agree([n, mean, spread], {A: a}, lanes=(0,), schedule=inner(kind), ulp=64)
    np.testing.assert_allclose(got[1], a.mean(1), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(got[2] / 8, a.var(1), rtol=1e-12)


def test_a_reducer_of_one_value_and_with_a_condition():
    A = te.placeholder((5, N), "int32", name="A")
    k = te.reduce_axis((0, N), "k")
    xor = te.comm_reducer(lambda x, y: x ^ y, lambda t: te.const(0, t), name="xor")
    two = te.comm_reducer(
        lambda x, y: (te.max(x[0], y[0]), te.max(te.min(x[0], y[0]), te.max(x[1], y[1]))),
        lambda t0, t1: (te.min_value(t0), te.min_value(t1)),
        name="two",
    )
    one = te.compute((5,), lambda i: xor(A[i, k], axis=k), name="one")
    some = te.compute((5,), lambda i: xor(A[i, k], axis=k, where=A[i, k] > 3, init=5), name="some")
    k2 = te.reduce_axis((0, N), "k2")
    first, second = te.compute((5,), lambda i: two((A[i, k2], te.min_value("int32")), axis=k2), name="two")
    a = rng.permutation(5 * N).reshape(5, N).astype(np.int32)
    got = agree([one, some, first, second], {A: a})
    np.testing.assert_array_equal(got[0], np.bitwise_xor.reduce(a, 1))
    np.testing.assert_array_equal(np.stack(got[2:], 1), np.sort(a, 1)[:, :-3:-1])


# --- words --------------------------------------------------------------------------------------------------


def test_two_forms_of_min_max_all_any():
    i, j = te.var("i"), te.var("j")
    k = te.reduce_axis((0, 4), "k")
    A = te.placeholder((4,), name="A")
    assert te.max(i, j, 3) is te.max(te.max(i, j), 3) and te.min(1, i) is te.min(i, 1)
    assert te.all(i < j) is (i < j) and te.all(i < j, j < 4, i > 2) is ((i < j) & (j < 4) & (i > 2))
    assert te.any(i < j, j < 4) is ((i < j) | (j < 4))
    for f in (te.max, te.min):
        assert f(A[k], k) is f(A[k], axis=k) is f(A[k], axis=[k]) is f(A[k], [k])
        assert f(A[k], k, k > 1) is f(A[k], axis=k, where=k > 1)
    assert te.all(A[k] > 0, k) is te.all(A[k] > 0, axis=k)
    assert str(te.any(A[k] > 0, axis=k, where=k > 1)) == "any(0.0 < A[k], axis=[k], where=1 < k)"


def test_tags_and_attrs():
    A = te.placeholder((4,), name="A")
    with te.tag_scope("conv"):
        B = te.compute((4,), lambda i: A[i] * 2, name="B", attrs={"layout": "N"})
    assert (B.op.tag, B.op.attrs, te.compute((4,), lambda i: A[i]).op.tag) == ("conv", {"layout": "N"}, "")

    @te.tag_scope("dense")
    def layer(x):
        return te.compute((4,), lambda i: x[i] + 1.0)

    assert layer(A).op.tag == layer(B).op.tag == "dense"
    with pytest.raises(DeclareError, match="has one tag"), te.tag_scope("a"), te.tag_scope("b"):
        pass
    with pytest.raises(DeclareError, match="has one tag"), te.tag_scope("a"):
        te.compute((4,), lambda i: A[i], tag="b")
    assert te.compute((4,), lambda i: A[i]).op.tag == ""


def test_tvm_reads_of_a_tensor_and_its_operation():
    n = te.size_var("n")
    A, B = te.placeholder((n, 8), name="A"), te.placeholder((n, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((n,), lambda i: te.sum(A[i, k] * B[i, k], axis=k), name="C")
    op = C.op
    assert (
        op.input_tensors == (A, B) and op.num_outputs == 1 and op.output(0) is C and op.name == C.name == "C"
    )
    assert (
        [a.var.name for a in op.axis] == ["i"]
        and op.reduce_axis == (k,)
        and C.axis == op.axis
        and A.axis == ()
    )
    assert (
        int(k.dom.extent) == k.dom.extent.value == 8 and k.var is k.as_expr() and op.axis[0].dom.extent is n
    )
    assert (
        A.shape[0] is n
        and A.shape[1].value == int(A.shape[1]) == 8
        and list(range(A.shape[1])) == list(range(8))
    )
    assert A == A and A != B and len({A, B, A}) == 2 and A in [B, A]
    assert bool(A.shape[1] == 8) and A.shape[1] != 9 and (1.0 if A.shape[1] > 4 else 0.0) == 1.0
    assert (
        A.ndim == 2
        and A.value_index == 0
        and A.dtype == "float32"
        and isinstance(A.op, te.PlaceholderOp)
        and isinstance(op, te.ComputeOp)
    )


def test_names_of_axes():
    A = te.placeholder((4, 5, 6), name="A")
    assert [
        a.name for a in te.compute((4, 5, 6), lambda *i: A(*i), varargs_names=["n", "h", "w"]).op.axis
    ] == ["n", "h", "w"]
    assert [
        a.name for a in te.compute((4, 5, 6), lambda n, *r: A(n, *r), varargs_names=["h", "w"]).op.axis
    ] == ["n", "h", "w"]
    assert [a.name for a in te.compute((4, 5, 6), lambda i1, *r: A(i1, *r)).op.axis] == ["i1", "i1_", "i2"]
    assert [a.name for a in te.compute((4,), lambda i, scale=2.0: A[i, 0, 0] * scale).op.axis] == ["i"]
    assert te.compute(4, lambda i: A[i, 0, 0]).shape == (te.const(4),)
    assert (
        te.reduce_axis((0, 3)).name == "rv"
        and te.placeholder((2,)).name == "placeholder"
        and te.var().name == "tindex"
    )


def test_numbers_of_numpy_and_python_beside_expressions():
    A = te.placeholder((4,), "int8", name="A")
    x = A[0]
    for text, e in {
        "A[0] + int8(3)": np.int64(3) + x,
        "int8(3) - A[0]": np.int8(3) - x,
        "A[0] < int8(3)": x < np.float64(3).astype(int),
        "float32(A[0]) * 0.5": x * np.float64(0.5),
    }.items():
        assert str(e) in (text, text.replace("A[0] + int8(3)", "int8(3) + A[0]"))
    assert divmod(te.var("i"), 8)[1] is not None and (2 ** te.var("f", "float32")).dtype == "float32"


def test_a_reducer_of_ones_own_combines_expressions():
    A, B = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
    mid = te.comm_reducer(lambda x, y: te.max(x, y) - 1, lambda t: te.min_value(t), name="mid")
    C = te.compute((N,), lambda i: mid(A[i], B[i], 0.5, A[i] * 2), name="C")
    a, b = floats(N), floats(N)
    want = np.maximum(np.maximum(np.maximum(a, b) - 1, 0.5) - 1, a * 2) - 1
    assert np.array_equal(agree(C, {A: a, B: b})[0], want.astype(np.float32))
