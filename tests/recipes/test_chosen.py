"""Reducers of the user's that choose one of two tuples by comparing one part, as argmax in TVM's tutorials: the
same as one element after the other gives, ties, NaN and what the reducer begins with included, and found in
vectors along memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

# what is kept of two, by what is compared
KEEPS = {
    "argmax first": lambda a, b: a >= b,
    "argmax last": lambda a, b: a > b,
    "argmin first": lambda a, b: a <= b,
    "argmin last": lambda a, b: a < b,
}


def chooser(kind, swapped=False):
    keeps, start = KEEPS[kind], te.min_value if "max" in kind else te.max_value
    if swapped:  # the right one where the reverse holds, which a NaN decides otherwise

        def combine(x, y):
            turned = {"argmax first": y[1] > x[1], "argmax last": y[1] >= x[1]}
            turned |= {"argmin first": y[1] < x[1], "argmin last": y[1] <= x[1]}
            return tuple(te.select(turned[kind], b, a) for a, b in zip(x, y, strict=True))

    else:

        def combine(x, y):
            return tuple(te.select(keeps(x[1], y[1]), a, b) for a, b in zip(x, y, strict=True))

    return te.comm_reducer(combine, lambda t, u: (te.const(-1, t), start(u)), name="choose")


def program(kind, shape, dtype="float32", read=True, swapped=False, index="int32"):
    """The inputs and outputs of a choice along the last axis, of indices that are read or counted."""
    val, idx = te.placeholder(shape, dtype, "val"), te.placeholder(shape, index, "idx")
    k = te.reduce_axis((0, shape[-1]), name="k")
    own = lambda at: idx[at] if read else te.cast(index, k)
    outs = te.compute(
        shape[:-1], lambda *i: chooser(kind, swapped)((own((*i, k)), val[(*i, k)]), axis=k), name="T"
    )
    return [*([idx] if read else []), val, *outs]


def chosen(kind, indices, values, swapped=False):
    """What one element after the other gives."""
    keeps = KEEPS[kind]
    turned = {">=": lambda a, b: not b > a, ">": lambda a, b: not b >= a}
    turned |= {"<=": lambda a, b: not b < a, "<": lambda a, b: not b <= a}
    if swapped:
        keeps = turned[(">" if "max" in kind else "<") + ("=" if "first" in kind else "")]
    info = np.iinfo(values.dtype) if values.dtype.kind in "iu" else np.finfo(values.dtype)
    begun = (np.array(-1).astype(indices.dtype)[()], info.min if "max" in kind else info.max)
    rows, shape = [], values.shape[:-1]
    for at in np.ndindex(shape):
        row, places, best = values[at], indices[at], begun
        for here in zip(places, row, strict=True):
            best = best if keeps(best[1], here[1]) else here
        rows.append(best)
    return (
        np.array([r[0] for r in rows], indices.dtype).reshape(shape),
        np.array([r[1] for r in rows], values.dtype).reshape(shape),
    )


def check(kind, values, read=True, swapped=False, index="int32", interpreted=True):
    rng = np.random.default_rng(values.size)
    counted = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    indices = rng.integers(0, 100, values.shape).astype(index) if read else counted.astype(index)
    args = program(kind, values.shape, str(values.dtype), read, swapped, index)
    given = [indices, values] if read else [values]
    want = chosen(kind, indices, values, swapped)
    for got, w in zip(tl.compile(args)(*given), want, strict=True):
        assert np.array_equal(got, w, equal_nan=w.dtype.kind == "f")
    if interpreted:
        out = [np.full_like(w, 7) for w in want]
        interpret(tl.lower(default_schedule(args[-2:]), args), *given, *out)
        assert all(
            np.array_equal(g, w, equal_nan=w.dtype.kind == "f") for g, w in zip(out, want, strict=True)
        )


def ties(*shape, dtype="float32"):
    return np.random.default_rng(sum(shape)).integers(0, 5, shape).astype(dtype)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 33, 100, 257])
@pytest.mark.parametrize("read", [True, False], ids=["read", "counted"])
@pytest.mark.parametrize("kind", KEEPS)
def test_ties(kind, read, n):
    check(kind, ties(5, n), read)


@pytest.mark.parametrize("swapped", [False, True], ids=["keeps", "takes"])
@pytest.mark.parametrize("kind", KEEPS)
def test_nan_infinities_and_the_beginning(kind, swapped):
    a = ties(9, 70)
    a[1, 40] = a[2, 0] = a[3, -1] = a[4, [3, 4, 69]] = np.nan
    a[5] = np.nan
    a[6] = -np.inf if "max" in kind else np.inf
    a[7] = np.finfo("float32").min if "max" in kind else np.finfo("float32").max
    a[8, 10:] = np.inf
    a[0, 5:] *= -0.0
    check(kind, a, swapped=swapped)
    check(kind, a.astype("float64"), swapped=swapped, read=False, interpreted=False)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8", "uint16", "int64", "float16"])
@pytest.mark.parametrize("shape", [(4, 100), (100, 12), (2, 4000), (1, 65), (3, 4, 33), (50,)], ids=str)
def test_types_and_shapes(dtype, shape):
    for kind in ("argmax first", "argmin last"):
        check(kind, ties(*shape, dtype=dtype), index="int64", interpreted=dtype == "int32")
    a = ties(*shape, dtype=dtype)
    low = np.iinfo(dtype).min if a.dtype.kind in "iu" else np.finfo(dtype).min
    a[..., : shape[-1] // 2] = a[:1, ...] = low
    check("argmax last", a, interpreted=False)
    check("argmax first", a, interpreted=False)


@pytest.mark.parametrize("shape", [(300000,), (1, 300000), (2, 200001)], ids=str)
def test_few_long_rows(shape):
    check("argmax first", ties(*shape), interpreted=False, read=False)


def test_open_sizes():
    m, n = te.var("m"), te.var("n")
    args = program("argmax first", (m, n))
    f = tl.compile(args)
    for rows, long in ((1, 1), (3, 0), (5, 17), (4, 300), (0, 9)):
        a = ties(rows, long)
        indices = np.arange(a.size, dtype="int32").reshape(a.shape)
        assert all(
            np.array_equal(g, w)
            for g, w in zip(f(indices, a), chosen("argmax first", indices, a), strict=True)
        )


def test_a_range_that_begins_later_and_a_start_that_is_given():
    a = ties(6, 50)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((3, 47), name="k")
    start = (te.const(-5), te.const(3.0))
    T = te.compute((6,), lambda i: chooser("argmax first")((k.var, A[i, k]), axis=k, init=start), name="T")
    got, value = tl.compile([A, *T])(a)
    part = a[:, 3:47]
    better = part.max(1) > 3
    assert np.array_equal(got, np.where(better, part.argmax(1) + 3, -5))
    assert np.array_equal(value, np.maximum(part.max(1), 3))


def test_three_parts_and_a_condition():
    a, b = ties(6, 90), ties(6, 90, dtype="int32")
    A, B, k = (
        te.placeholder(a.shape, name="A"),
        te.placeholder(b.shape, "int32", "B"),
        te.reduce_axis((0, 90)),
    )
    made = te.comm_reducer(
        lambda x, y: tuple(te.if_then_else(x[0] >= y[0], p, q) for p, q in zip(x, y, strict=True)),
        lambda t, u, v: (te.min_value(t), te.const(-1, u), te.const(-1, v)),
    )
    T = te.compute((6,), lambda i: made((A[i, k], B[i, k] * 2, k.var), axis=k), name="T")
    assert te.create_schedule(T[0].op).can("split_choice", "T")
    at = a.argmax(1)
    want = a.max(1), b[np.arange(6), at] * 2, at
    assert all(np.array_equal(g, w) for g, w in zip(tl.compile([A, B, *T])(a, b), want, strict=True))
    # a condition may leave elements out: as it is declared
    T = te.compute((6,), lambda i: made((A[i, k], B[i, k] * 2, k.var), axis=k, where=B[i, k] > 1), name="T")
    masked = np.where(b > 1, a, -1)
    at = np.where((b > 1).any(1), masked.argmax(1), -1)
    assert np.array_equal(tl.compile([A, B, *T])(a, b)[2], at)


@pytest.mark.parametrize("keeps", [True, False], ids=["keeps", "takes"])
@pytest.mark.parametrize("least", [True, False], ids=["least", "most"])
@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
def test_ties_by_their_places(largest, least, keeps):
    """As topi's argmax: of equal values the least index, or the greatest."""
    a = ties(7, 60)
    a[1, 30] = np.nan
    a[2] = -np.inf if largest else np.inf
    a[3] = np.finfo("float32").min if largest else np.finfo("float32").max

    def combine(x, y):
        (one, two) = (x, y) if keeps else (y, x)
        better = one[1] > two[1] if largest else one[1] < two[1]
        first = one[0] < two[0] if least else one[0] > two[0]
        cond = te.any(better, te.all(one[1] == two[1], first))
        return te.select(cond, one[0], two[0]), (te.max if largest else te.min)(x[1], y[1])

    made = te.comm_reducer(
        combine, lambda t, u: (te.const(1000, t), te.min_value(u) if largest else te.max_value(u))
    )
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 60), name="k")
    T = te.compute((7,), lambda i: made((te.cast("int64", k), A[i, k]), axis=k), name="T")
    assert te.create_schedule(T[0].op).can("split_choice", "T")
    plain = tl.build(te.create_schedule(T[0].op), [A, *T])(a)
    got = tl.compile([A, *T])(a)
    assert all(np.array_equal(g, w, equal_nan=True) for g, w in zip(got, plain, strict=True))
    sure = [0, 4, 5, 6]
    turned = a if least else a[:, ::-1]
    at = turned.argmax(1) if largest else turned.argmin(1)
    assert np.array_equal(got[0][sure], (at if least else 59 - at)[sure])


@pytest.mark.parametrize("read", [True, False], ids=["read", "counted"])
def test_vectors(read):
    args = program("argmax first", (64, 1000), read=read)
    lowered = str(tl.lower(default_schedule(args[-2:], "llvm -mcpu=skylake-avx512"), args))
    assert re.search(r"max\(T\.extreme\.rf\[0 : \d+, 0\], val\[i0, k\.outer\*\d+ : ", lowered)
    assert re.search(r"select\(val\[i0, [^]]* : [^]]*\] == x\d+\(T\.extreme\[0\]\), ramp\(", lowered)
    text = tl.build(default_schedule(args[-2:]), args).get_source("ll")
    assert re.search(r"fcmp [a-z ]*oeq <\d+ x float>", text)


def test_what_is_no_choice():
    A, B, k = te.placeholder((4, 50), name="A"), te.placeholder((4, 50), name="B"), te.reduce_axis((0, 50))

    def takes(combine, sources=lambda i: (B[i, k], A[i, k])):
        made = te.comm_reducer(combine, lambda t, u: (te.const(0, t), te.min_value(u)), name="mine")
        T = te.compute((4,), lambda i: made(sources(i), axis=k), name="T")
        return te.create_schedule(T[0].op).can("split_choice", "T").ok

    pick = lambda c, x, y: (te.select(c, x[0], y[0]), te.select(c, x[1], y[1]))
    assert takes(lambda x, y: pick(x[1] >= y[1], x, y))
    assert not takes(lambda x, y: pick(x[1] >= y[0], x, y))
    assert not takes(lambda x, y: pick(te.any(x[1] > y[1], x[0] < y[0]), x, y))
    assert not takes(lambda x, y: pick(te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0])), x, y))
    assert not takes(lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.min(x[1], y[1])))
    assert not takes(lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] > y[1], x[1], y[1])))
    assert not takes(lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], y[1], x[1])))
    assert not takes(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])))
    # computed elements could be rounded otherwise when they are looked for
    assert not takes(lambda x, y: pick(x[1] >= y[1], x, y), lambda i: (B[i, k], A[i, k] * B[i, k]))


def test_by_hand_and_again():
    args = program("argmax last", (6, 70))
    s = te.create_schedule(args[-1].op)
    place = s.split_choice(args[-1])
    assert place.op.name == "T.place"
    assert not s.can("split_choice", "T")
    values, indices = ties(6, 70), ties(6, 70, dtype="int32")
    want = chosen("argmax last", indices, values)
    assert all(np.array_equal(g, w) for g, w in zip(tl.build(s, args)(indices, values), want, strict=True))
    again = te.create_schedule(args[-1].op)
    tl.Trace.from_json(s.trace.to_json()).apply(again)
    assert str(again.tree()) == str(s.tree())
    with pytest.raises(tl.ScheduleError, match="split_choice"):
        s.split_choice(args[-1])


def test_an_index_that_is_read_by_one():
    a = ties(6, 80)
    A, k = te.placeholder(a.shape, name="A"), te.reduce_axis((0, 80), name="k")
    I, V = te.compute((6,), lambda i: chooser("argmax first")((k.var, A[i, k]), axis=k), name="I")
    O = te.compute((6,), lambda i: I[i].astype("float32") * 2 + V[i], name="O")
    s = default_schedule(O)
    assert "split_choice(I)" in str(s.trace)
    want = a.argmax(1) * np.float32(2) + a.max(1)
    assert np.array_equal(tl.compile([A, O])(a), want)
    out = np.full(6, 7, "float32")
    interpret(tl.lower(s, [A, O]), a, out)
    assert np.array_equal(out, want)
    both = te.compute((6,), lambda i: I[i] + 1, name="both")
    got, _, more = tl.compile([A, I, V, both])(a)
    assert np.array_equal(got, a.argmax(1)) and np.array_equal(more, got + 1)
    three = te.placeholder((2, 3, 80), name="three")
    J, _ = te.compute((2, 3), lambda i, j: chooser("argmax first")((k.var, three[i, j, k]), axis=k), name="J")
    P = te.compute((2, 3), lambda i, j: J[i, j] + 1, name="P")
    assert np.array_equal(tl.compile([three, P])(a.reshape(2, 3, 80)), a.reshape(2, 3, 80).argmax(2) + 1)


def computed(shape, scores):
    """The place and the value of the best of each row of what ``scores`` makes of x and of a row of biases."""
    x, bias = te.placeholder(shape, name="x"), te.placeholder(shape[-1:], name="bias")
    k = te.reduce_axis((0, shape[-1]), name="k")
    made = te.compute(shape, lambda *i: scores(x(*i), bias[i[-1]]), name="scores")
    outs = te.compute(
        shape[:-1], lambda *i: chooser("argmax first")((te.cast("int32", k), made[(*i, k)]), axis=k), name="T"
    )
    return [x, bias, *outs]


@pytest.mark.parametrize("shape", [(5, 100), (1, 40), (50,), (3, 4, 33), (2, 5000), (40, 9)], ids=str)
def test_what_is_compared_may_be_computed(shape):
    """It was written into the choice, which then went through its rows one element after the other."""
    args = computed(shape, lambda a, b: te.max(a * 2.0 + b, 0.0))
    s = default_schedule(args[-2:])
    assert ("split_choice(T)" in str(s.trace)) is (shape[-1] > 9)
    x, bias = ties(*shape), ties(shape[-1])
    x.reshape(-1)[3] = np.nan
    want = te.reference.evaluate(args[-2:], {args[0]: x, args[1]: bias})
    out = [np.full_like(w, 7) for w in want]
    interpret(tl.lower(s, args), x, bias, *out)
    for got in (tl.compile(args)(x, bias), out):
        assert all(
            np.array_equal(g, w, equal_nan=w.dtype.kind == "f") for g, w in zip(got, want, strict=True)
        )


def test_a_row_is_computed_where_it_is_compared():
    s = default_schedule(computed((64, 1000), lambda a, b: a * 2.0 + b)[-2:])
    assert re.search(r"storage scores +float32\[1, 1000\]", str(s.tree()))


def test_only_what_is_compared_is_kept():
    """An index that is computed is read in one place: nothing is gained by a whole row of them."""
    x, k = te.placeholder((8, 100), name="x"), te.reduce_axis((0, 100), name="k")
    own = te.compute((8, 100), lambda i, j: j * 2 + i, name="own")
    outs = te.compute((8,), lambda i: chooser("argmax first")((own[i, k], x[i, k]), axis=k), name="T")
    s = default_schedule(list(outs))
    assert "split_choice(T)" in str(s.trace) and "compute own" not in str(s.tree())
    a = ties(8, 100)
    assert np.array_equal(tl.compile([x, *outs])(a)[0], a.argmax(1) * 2 + np.arange(8))


def test_what_all_rows_compare_is_computed_once():
    bias, k = te.placeholder((100,), name="bias"), te.reduce_axis((0, 100), name="k")
    scores = te.compute((100,), lambda j: bias[j] * 3.0, name="scores")
    outs = te.compute(
        (8,), lambda i: chooser("argmax first")((te.cast("int32", k), scores[k]), axis=k), name="T"
    )
    s = default_schedule(list(outs))
    assert not any(p.name == "compute_at" and p.arguments()["stage"] == "scores" for p in s.trace.steps)
    a = ties(100)
    assert np.array_equal(tl.compile([bias, *outs])(a)[0], np.full(8, a.argmax()))


def test_open_sizes_of_what_is_compared():
    m, n = te.dim("m", 1, 64, hint=8), te.dim("n", 1, 300, hint=100)
    args = computed((m, n), lambda a, b: a - b)
    f = tl.compile(args)
    for rows, row in ((1, 1), (3, 64), (7, 257), (64, 300)):
        x, bias = ties(rows, row), ties(row)
        got = f(x, bias)
        assert np.array_equal(got[0], (x - bias).argmax(1)) and np.array_equal(got[1], (x - bias).max(1))
