"""The oracle against numpy written by hand, one computation after another. Small integers: every comparison
is exact."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tensorlang import te
from tensorlang.core.dtype import KNOWN, dtype
from tensorlang.errors import CallError, DeclareError
from tensorlang.expr import make
from tensorlang.expr.nodes import Mul
from tensorlang.te import reference
from tensorlang.te.reference import evaluate
from tensorlang.te.reference_numbers import blocks


def small(
    rng: np.random.Generator, shape: tuple[int, ...], t: str = "float32", lo: int = -4, hi: int = 5
) -> np.ndarray:
    return rng.integers(lo, hi, shape).astype(t)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def matmul(m, n, k, t="float32"):
    A, B = te.placeholder((m, k), t, "A"), te.placeholder((k, n), t, "B")
    r = te.reduce_axis((0, k), "k")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), "C")


def reads(body, t="int32", n=8):
    """A compute over one placeholder ``A`` of ``n`` elements: ``(A, C)`` with ``C[i] = body(A, i)``."""
    A = te.placeholder((n,), t, "A")
    return A, te.compute((n,), lambda i: body(A, i), "C")


# --- plain computations -------------------------------------------------------------------------------------


def test_elementwise(rng):
    A, B = te.placeholder((5, 7), name="A"), te.placeholder((7,), name="B")
    C = te.compute((5, 7), lambda i, j: A[i, j] * B[j] + 2.0)
    a, b = small(rng, (5, 7)), small(rng, (7,))
    same(evaluate(C, {A: a, B: b})[0], a * b + np.float32(2))


@pytest.mark.parametrize("t", ["float32", "float64", "int32", "int64", "int8", "uint8", "float16"])
def test_matmul(rng, t):
    A, B, C = matmul(13, 17, 31, t)
    a, b = small(rng, (13, 31), t, 0, 4), small(rng, (31, 17), t, 0, 4)
    wide = np.float64 if t.startswith("float") else np.int64
    same(evaluate(C, {A: a, B: b})[0], (a.astype(wide) @ b.astype(wide)).astype(t))


def test_int8_products_summed_in_int32(rng):
    A, B = te.placeholder((6, 40), "int8", "A"), te.placeholder((40, 5), "int8", "B")
    k = te.reduce_axis((0, 40), "k")
    C = te.compute((6, 5), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k))
    a, b = small(rng, (6, 40), "int8", -128, 128), small(rng, (40, 5), "int8", -128, 128)
    same(evaluate(C, {A: a, B: b})[0], a.astype("int32") @ b.astype("int32"))


def test_batched_matmul_with_transposed_right_side(rng):
    A, B = te.placeholder((3, 4, 5), name="A"), te.placeholder((3, 6, 5), name="B")
    k = te.reduce_axis((0, 5), "k")
    C = te.compute((3, 4, 6), lambda b, i, j: te.sum(A[b, i, k] * B[b, j, k], axis=k))
    a, b = small(rng, (3, 4, 5)), small(rng, (3, 6, 5))
    same(evaluate(C, {A: a, B: b})[0], np.einsum("bik,bjk->bij", a, b))


def test_convolution_with_padding_and_stride(rng):
    X, W = te.placeholder((2, 3, 9, 8), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    P = te.compute(
        (2, 3, 11, 10),
        lambda n, c, y, x: te.if_then_else(
            make.and_(make.and_(y >= 1, y < 10), make.and_(x >= 1, x < 9)), X[n, c, y - 1, x - 1], 0.0
        ),
        "P",
    )
    c, dy, dx = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    C = te.compute(
        (2, 4, 5, 4),
        lambda n, o, y, x: te.sum(P[n, c, y * 2 + dy, x * 2 + dx] * W[o, c, dy, dx], axis=[c, dy, dx]),
    )
    x, w = small(rng, (2, 3, 9, 8)), small(rng, (4, 3, 3, 3))
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), (2, 3))[:, :, ::2, ::2]
    got_p, got = evaluate([P, C], {X: x, W: w})
    same(got_p, p)
    same(got, np.einsum("ncyxij,ocij->noyx", windows, w))


def test_softmax(rng):
    X = te.placeholder((4, 9), "float64", "X")
    k, q = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 9), "q")
    top = te.compute((4,), lambda i: te.max(X[i, k], axis=k), "top")
    e = te.compute((4, 9), lambda i, j: make.call("exp", X[i, j] - top[i]), "e")
    total = te.compute((4,), lambda i: te.sum(e[i, q], axis=q), "total")
    S = te.compute((4, 9), lambda i, j: e[i, j] / total[i], "S")
    x = rng.normal(size=(4, 9))
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(evaluate(S, {X: x})[0], want / want.sum(1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize(
    ("reducer", "numpy"), [(te.sum, np.sum), (te.min, np.min), (te.max, np.max), (te.prod, np.prod)]
)
def test_reductions_over_two_axes(rng, reducer, numpy):
    A = te.placeholder((3, 4, 5), name="A")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 5), "q")
    C = te.compute((4,), lambda i: reducer(A[p, i, q], axis=[p, q]))
    a = rng.choice(np.array([-2, -1, 1, 2], "float32"), (3, 4, 5))
    same(evaluate(C, {A: a})[0], numpy(a, axis=(0, 2)))


def test_gather_and_transpose(rng):
    A, I = te.placeholder((6, 3), name="A"), te.placeholder((4,), "int64", "I")
    G = te.compute((3, 4), lambda j, i: A[I[i], j])
    a, ids = small(rng, (6, 3)), np.array([5, 0, 0, 3])
    same(evaluate(G, {A: a, I: ids})[0], a[ids].T)


# --- shapes -------------------------------------------------------------------------------------------------


def test_rank_zero_and_full_reduction(rng):
    A = te.placeholder((), name="A")
    X = te.placeholder((300, 10000), name="X")
    i, j = te.reduce_axis((0, 300), "i"), te.reduce_axis((0, 10000), "j")
    T = te.compute((), lambda: te.sum(X[i, j], axis=[i, j]))
    C = te.compute((), lambda: T() * 2.0 + A())
    x = small(rng, (300, 10000))  # more than one block of the reduction
    same(evaluate(C, {A: np.array(3, "float32"), X: x})[0], np.array(x.sum(dtype="f8") * 2 + 3, "float32"))


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0), (1, 1, 1)])
def test_zero_extents(rng, shape):
    m, n, k = shape
    A, B, C = matmul(*shape)
    a, b = small(rng, (m, k)), small(rng, (k, n))
    same(evaluate(C, {A: a, B: b})[0], a @ b)


def test_empty_max_is_minus_infinity():
    A = te.placeholder((2, 0), name="A")
    k = te.reduce_axis((0, 0), "k")
    C = te.compute((2,), lambda i: te.max(A[i, k], axis=k))
    same(evaluate(C, {A: np.zeros((2, 0), "f4")})[0], np.full(2, -np.inf, "f4"))


def test_reduction_over_a_range_that_begins_later(rng):
    A = te.placeholder((10,), name="A")
    k = te.reduce_axis((3, 8), "k")
    C = te.compute((2,), lambda i: te.sum(A[k + i] * A[k - 1], axis=k))
    a = small(rng, (10,))
    same(evaluate(C, {A: a})[0], np.array([(a[3:8] * a[2:7]).sum(), (a[4:9] * a[2:7]).sum()], "f4"))


def test_reduction_axis_the_terms_do_not_use(rng):
    A = te.placeholder((4,), "int32", "A")
    k, q = te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 5), "q")
    C = te.compute((4,), lambda i: te.sum(A[i] * A[k], axis=[k, q]))
    D = te.compute((4,), lambda i: te.sum(make.const(2, "int32"), axis=[k, q]))
    a = small(rng, (4,), "int32")
    c, d = evaluate([C, D], {A: a})
    same(c, a * a[:3].sum(dtype="int32") * np.int32(5))
    same(d, np.full(4, 30, "int32"))


def test_symbolic_sizes_are_solved(rng):
    n, m = te.var("n"), te.dim("m", 1, 100)
    A, B = te.placeholder((n * 2, m + 3), name="A"), te.placeholder((m,), name="B")
    k = te.reduce_axis((0, m), "k")
    C = te.compute((n,), lambda i: te.sum(A[i * 2, k + 3] * B[k], axis=k))
    a, b = small(rng, (10, 7)), small(rng, (4,))
    same(evaluate(C, {A: a, B: b})[0], a[::2, 3:] @ b)


def test_symbols_that_no_array_gives(rng):
    n, alpha = te.var("n"), te.var("alpha", "float32")
    C = te.compute((n,), lambda i: i.astype("float32") * alpha)
    with pytest.raises(CallError, match="the size n is not known"):
        evaluate(C, {})
    with pytest.raises(CallError, match="nothing gives a value to `alpha`"):
        evaluate(C, {}, {n: 3})
    same(evaluate(C, {}, {n: 3, alpha: 0.5})[0], np.array([0, 0.5, 1], "f4"))


def test_arrays_that_do_not_fit():
    m = te.dim("m", 1, 8, multiple_of=2)
    A = te.placeholder((m, 5), name="A")
    C = te.compute((m, 5), lambda i, j: A[i, j] * 2.0)
    ok = np.zeros((2, 5), "f4")
    for a, message in (
        (ok.astype("f8"), "an array of float64"),
        (ok[0], r"1 dimension\(s\) for a tensor of 2"),
        (np.zeros((2, 6), "f4"), "dimension 1 is 6, should be 5"),
        (np.zeros((3, 5), "f4"), "m is 3"),
        (np.zeros((10, 5), "f4"), "m is 10"),
    ):
        with pytest.raises(CallError, match=message):
            evaluate(C, {A: a})
    with pytest.raises(CallError, match="no array for the placeholder A"):
        evaluate(C, {}, {m: 2})
    same(evaluate(C, {A: ok})[0], ok)


def test_a_tensor_in_between_may_be_given(rng):
    A, B, C = matmul(3, 4, 5)
    D = te.compute((3, 4), lambda i, j: C[i, j] + 1.0)
    c = small(rng, (3, 4))
    same(evaluate(D, {C: c})[0], c + 1)


def test_several_outputs(rng):
    A = te.placeholder((4, 5), "int32", "A")
    S, D = te.compute((4, 5), lambda i, j: (A[i, j] + i, A[i, j] - j))
    E = te.compute((4,), lambda i: S[i, 0] * D[i, 4])
    a = small(rng, (4, 5), "int32")
    s, d, e = evaluate([S, D, E], {A: a})
    i, j = np.indices((4, 5), "int32")
    same(s, a + i)
    same(d, a - j)
    same(e, (a + i)[:, 0] * (a - j)[:, 4])


def test_blocks_cover_the_space_once_and_in_order():
    for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (5, 1, 3)):
        for budget in (1, 2, 3, 7, 1000):
            seen = [
                p
                for b in blocks(shape, budget)
                for p in np.ndindex(*[s.stop - s.start for s in b])
                for p in [tuple(x + s.start for x, s in zip(p, b, strict=True))]
            ]
            assert seen == list(np.ndindex(*shape))
            assert all(np.prod([s.stop - s.start for s in b]) <= budget for b in blocks(shape, budget))


def test_blocks_of_a_product_read_each_factor_as_seldom_as_they_can():
    """A block for each channel of a convolution of volumes gathered all its windows 64 times."""
    images, windows, weight = (1, 64, 8, 28, 28), {0, 2, 3, 4}, {1}
    found = list(blocks(images, 9709, [windows, weight]))
    assert len(found) == 8 * 6 and all(b[1] == slice(0, 64) for b in found)
    seen = np.zeros(images, int)
    for b in found:
        seen[b] += 1
        assert np.prod([s.stop - s.start for s in b]) <= 9709
    assert (seen == 1).all()
    # a factor of all axes is read once anyhow, and then the other as seldom as can be
    both = list(blocks((64, 100), 800, [{0, 1}, {1}]))
    assert all(b[0] == slice(0, 64) for b in both)


def test_small_blocks_change_nothing(rng, monkeypatch):
    A, B, C = matmul(5, 6, 7)
    k, q = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 6), "q")
    D = te.compute((5,), lambda i: te.max(C[i, q] + C[k, q], axis=[k, q]))
    E = te.compute((5, 6), lambda i, j: C[i, j] - D[i])
    given = {A: small(rng, (5, 7)), B: small(rng, (7, 6))}
    want = evaluate([C, D, E], given)
    monkeypatch.setattr(reference, "_BLOCK", 4)
    monkeypatch.setattr(reference, "_CONTRACT_BLOCK", 11)
    for w, g in zip(want, evaluate([C, D, E], given), strict=True):
        same(g, w)


# --- reductions ---------------------------------------------------------------------------------------------


def test_condition_and_start(rng):
    A = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    total = te.compute((6,), lambda i: te.sum(A[i, k], axis=k, where=k < i))
    # the condition guards the read
    shifted = te.compute((6,), lambda i: te.sum(A[i, k + 3], axis=k, where=k < 5))
    smallest = te.compute((6,), lambda i: te.min(A[i, k], axis=k, where=A[i, k] > 0.0, init=3.0))
    a = small(rng, (6, 8))
    t, s, m = evaluate([total, shifted, smallest], {A: a})
    same(t, np.array([a[i, :i].sum() for i in range(6)], "f4"))
    same(s, a[:, 3:].sum(1))
    same(m, np.array([min([3, *a[i][a[i] > 0]]) for i in range(6)], "f4"))


def argmax(k_extent, t="float32"):
    return te.comm_reducer(
        lambda x, y: (make.select(x[1] >= y[1], x[0], y[0]), make.select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (make.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )


def test_argmax_takes_the_first_of_equals(rng):
    A = te.placeholder((5, 40), name="A")
    k = te.reduce_axis((0, 40), "k")
    index, value = te.compute((5,), lambda i: argmax(40)((k.var, A[i, k]), axis=k))
    a = small(rng, (5, 40))
    got_index, got_value = evaluate([index, value], {A: a})
    same(got_index, a.argmax(1).astype("int32"))
    same(got_value, a.max(1))


def test_argmax_with_condition_and_start(rng):
    A = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((0, 7), "k")
    index, _ = te.compute((5,), lambda i: argmax(7)((k.var, A[i, k]), axis=k, where=k > i, init=(99, 1.0)))
    a = small(rng, (5, 7))
    want = [i + 1 + a[i, i + 1 :].argmax() if a[i, i + 1 :].max() > 1 else 99 for i in range(5)]
    same(evaluate(index, {A: a})[0], np.array(want, "int32"))


def test_custom_reducer_folds_in_order():
    # Horner's rule: the order of the steps is seen in the digits
    A = te.placeholder((2, 3), "int32", "A")
    p, q = te.reduce_axis((0, 2), "p"), te.reduce_axis((0, 3), "q")
    horner = te.comm_reducer(lambda x, y: x * 10 + y, lambda t: make.const(0, t), name="horner")
    C = te.compute((), lambda: horner(A[p, q], axis=[p, q]))
    a = np.array([[1, 2, 3], [4, 5, 6]], "int32")
    same(evaluate(C, {A: a})[0], np.array(123456, "int32"))


def test_float_sums_are_exact_on_integers():
    # one float32 accumulator would lose every one beyond 2**24
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((), lambda: te.sum(A[k], axis=k))
    same(evaluate(C, {A: np.array([2.0**24, 1, 1], "f4")})[0], np.array(2.0**24 + 2, "f4"))


def test_sum_of_products_leaves_the_matrix_product_when_it_is_not_exact():
    A, B, C = matmul(1, 1, 2, "int64")
    a, b = np.array([[2**40, 3]]), np.array([[2**40], [5]])
    same(evaluate(C, {A: a, B: b})[0], a @ b)
    A, B, C = matmul(1, 1, 2, "float32")
    a, b = np.array([[1e30, 1]], "f4"), np.array([[1e30], [5]], "f4")
    same(evaluate(C, {A: a, B: b})[0], np.array([[np.inf]], "f4"))
    a = np.array([[np.nan, 1]], "f4")
    assert np.isnan(evaluate(C, {A: a, B: b})[0]).all()
    A, B, C = matmul(1, 1, 2, "int8")
    same(
        evaluate(C, {A: np.array([[-128, 1]], "i1"), B: np.array([[-128], [1]], "i1")})[0],
        np.array([[1]], "i1"),
    )


# --- the machine's arithmetic -------------------------------------------------------------------------------


def test_integers_wrap():
    A, C = reads(lambda A, i: A[i] * A[i] + make.const(100, "int8"), "int8")
    a = np.array([127, -128, 5, 11, 12, 100, -100, 0], "int8")
    same(evaluate(C, {A: a})[0], (a.astype(int) * a + 100).astype("int8"))
    A, C = reads(lambda A, i: A[i] + A[i])
    a = np.array([2**31 - 1] * 8, "int32")
    same(evaluate(C, {A: a})[0], np.full(8, -2, "int32"))


@pytest.mark.parametrize("t", ["int8", "int32", "int64"])
def test_divisions(t):
    a = np.array([7, -7, 7, -7, np.iinfo(t).min, 0, 1, np.iinfo(t).max], t)
    b = np.array([2, 2, -2, -2, -1, 5, -3, 1], t)
    A, B = te.placeholder((8,), t, "A"), te.placeholder((8,), t, "B")
    C = te.compute(
        (8,), lambda i: (A[i] // B[i], A[i] % B[i], te.truncdiv(A[i], B[i]), te.truncmod(A[i], B[i]))
    )
    fd, fm, td, tm = evaluate(C, {A: a, B: b})
    x, y = [int(v) for v in a], [int(v) for v in b]
    trunc = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y, strict=True)]

    def wrapped(xs):
        return np.array([dtype(t).wrap(v) for v in xs], t)

    same(fd, wrapped([p // q for p, q in zip(x, y, strict=True)]))
    same(fm, wrapped([p % q for p, q in zip(x, y, strict=True)]))
    same(td, wrapped(trunc))
    same(tm, wrapped([p - q * r for p, q, r in zip(x, y, trunc, strict=True)]))


def test_division_by_zero_is_an_error_unless_excluded():
    A, C = reads(lambda A, i: te.if_then_else(A[i] != 0, 12 // A[i], 0))
    a = np.array([0, 1, 2, 3, 0, 4, 5, 6], "int32")
    same(evaluate(C, {A: a})[0], np.array([0, 12, 6, 4, 0, 3, 2, 2], "int32"))
    A, C = reads(lambda A, i: 12 % A[i])
    with pytest.raises(DeclareError, match=r"C: division by zero in 12 % A\[i\]"):
        evaluate(C, {A: a})


def test_casts_of_floats_saturate():
    A, C = reads(
        lambda A, i: tuple(A[i].astype(t) for t in ("int8", "uint8", "int32", "int64", "uint64")), "float32"
    )
    a = np.array([1.9, -1.9, 300, -300, np.nan, np.inf, -np.inf, 1e19], "f4")
    i8, u8, i32, i64, u64 = evaluate(C, {A: a})
    same(i8, np.array([1, -1, 127, -128, 0, 127, -128, 127], "i1"))
    same(u8, np.array([1, 0, 255, 0, 0, 255, 0, 255], "u1"))
    same(i32, np.array([1, -1, 300, -300, 0, 2**31 - 1, -(2**31), 2**31 - 1], "i4"))
    same(i64, np.array([1, -1, 300, -300, 0, 2**63 - 1, -(2**63), 2**63 - 1], "i8"))
    same(u64, np.array([1, 0, 300, 0, 0, 2**64 - 1, 0, int(np.float32(1e19))], "u8"))


def test_other_casts():
    A, C = reads(
        lambda A, i: (
            A[i].astype("int8"),
            A[i].astype("bool"),
            A[i].astype("float16"),
            A[i].astype("uint32"),
        ),
        "int32",
    )
    a = np.array([0, 1, -1, 127, 128, 256, 70000, -300], "i4")
    i8, flag, half, u32 = evaluate(C, {A: a})
    same(i8, a.astype("i1"))
    same(flag, a != 0)
    with np.errstate(over="ignore"):
        same(half, a.astype("f2"))
    same(u32, a.astype("u4"))


def test_float32_is_rounded_after_each_operation():
    A, C = reads(lambda A, i: (A[i] + 1.0) - A[i], "float32")
    a = np.array([2**24, 0.1, 1e8, 3, 1 / 3, 1e-9, 2**25, 7], "f4")
    same(evaluate(C, {A: a})[0], (a + np.float32(1)) - a)


def test_min_and_max_pass_nan_on():
    A, C = reads(lambda A, i: (te.min(A[i], 1.0), te.max(1.0, A[i])), "float32")
    a = np.array([np.nan, 0, 2, -np.inf, np.inf, 1, -0.0, 5], "f4")
    lo, hi = evaluate(C, {A: a})
    same(lo, np.minimum(a, np.float32(1)))
    same(hi, np.maximum(a, np.float32(1)))
    assert np.isnan(lo[0]) and np.isnan(hi[0])


def test_bool_algebra_and_select():
    A, C = reads(
        lambda A, i: te.select(make.or_(A[i] < 0, make.and_(A[i] > 2, make.not_(A[i] == 4))), A[i], -A[i])
    )
    a = np.arange(-3, 5, dtype="int32")
    same(evaluate(C, {A: a})[0], np.where((a < 0) | ((a > 2) & ~(a == 4)), a, -a))


def test_intrinsics(rng):
    A, C = reads(
        lambda A, i: make.call("tanh", A[i]) + make.call("pow", make.call("abs", A[i]), 0.5), "float32"
    )
    a = rng.normal(size=8).astype("f4")
    wide = a.astype("f8")
    same(evaluate(C, {A: a})[0], np.tanh(wide).astype("f4") + np.power(np.abs(wide), 0.5).astype("f4"))
    A, C = reads(lambda A, i: (make.call("isnan", A[i]), make.call("round", A[i])), "float64")
    flag, rounded = evaluate(C, {A: np.array([0.5, -0.5, 1.5, 2.5, np.nan, -1.4, 3, -2.5])})
    same(flag, np.arange(8) == 4)
    same(rounded, np.array([1, -1, 2, 3, np.nan, -1, 3, -3]))
    A, C = reads(lambda A, i: (A[i] & 6) | (A[i] << 1) ^ ~A[i])
    a = np.arange(-4, 4, dtype="int32")
    same(evaluate(C, {A: a})[0], (a & 6) | (a << 1) ^ ~a)


def to_bfloat(x):
    """Round to nearest even by hand, through every candidate's neighbourhood in float64."""
    bits = np.asarray(x, "f4").view("u4")
    lower = (bits & np.uint32(0xFFFF0000)).view("f4").astype("f8")
    upper = ((bits & np.uint32(0xFFFF0000)) + np.uint32(0x10000)).view("f4").astype("f8")
    x = np.asarray(x, "f8")
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    up = (np.abs(upper - x) < np.abs(x - lower)) | ((np.abs(upper - x) == np.abs(x - lower)) & (odd == 1))
    return (
        (np.where(up, upper, lower).astype("f4").view("u4") >> np.uint32(16))
        .astype("u2")
        .view(ml_dtypes.bfloat16)
    )


def test_bfloat16_is_that_of_ml_dtypes_outside(rng):
    A, B = te.placeholder((64,), "bfloat16", "A"), te.placeholder((64,), "float32", "B")
    C = te.compute((64,), lambda i: (A[i] * A[i], B[i].astype("bfloat16"), A[i].astype("float32")))
    bits = rng.integers(0x3F00, 0x4200, 64).astype("u2")
    a = bits.view(ml_dtypes.bfloat16)
    b = rng.normal(size=64).astype("f4")
    b[:2] = [1 + 2**-8, 1 + 3 * 2**-8]  # ties
    product, rounded, wide = evaluate(C, {A: a, B: b})
    value = (bits.astype("u4") << 16).view("f4")
    same(wide, value)
    same(product, to_bfloat(value * value))
    same(rounded, to_bfloat(b))
    assert rounded[0] == 1 and rounded[1] == 1 + 2**-6
    with pytest.raises(CallError, match="an array of uint16"):
        evaluate(C, {A: bits, B: b})


def test_float64_to_bfloat16_is_rounded_once():
    A, C = reads(lambda A, i: A[i].astype("bfloat16"), "float64")
    a = np.array(
        [1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, -(1 + 2**-8 + 2**-40), 1e300, -1e300, np.inf, np.nan, 0.0]
    )
    same(
        evaluate(C, {A: a})[0].view("u2"),
        np.array([0x3F81, 0x3F80, 0xBF81, 0x7F80, 0xFF80, 0x7F80, 0x7FC0, 0], "u2"),
    )


@pytest.mark.parametrize("t", KNOWN)
def test_every_dtype_passes_through(t):
    A, C = reads(lambda A, i: te.select(A[i] == A[i], A[i], A[i]), t)
    a = np.arange(8).astype(dtype(t).to_numpy())
    same(evaluate(C, {A: a})[0], a)


# --- reads out of range -------------------------------------------------------------------------------------


def test_a_guarded_read_may_be_out_of_range():
    A, C = reads(lambda A, i: te.if_then_else(i >= 3, A[i - 3], te.if_then_else(i < 1, A[i + 7], A[i * 3])))
    a = np.arange(8, dtype="int32") * 10
    same(evaluate(C, {A: a})[0], np.array([70, 30, 60, 0, 10, 20, 30, 40], "int32"))


def test_a_guarded_read_of_an_empty_tensor():
    E = te.placeholder((0,), "int32", "E")
    C = te.compute((3,), lambda i: te.if_then_else(i < 0, E[i], 5))
    same(evaluate(C, {E: np.zeros(0, "int32")})[0], np.full(3, 5, "int32"))


@pytest.mark.parametrize(
    ("body", "index"),
    [
        (lambda A, i: A[i + 1], 8),
        (lambda A, i: A[i - 2], -2),
        (lambda A, i: te.select(i > 0, A[i - 1], 0), -1),
        (lambda A, i: te.if_then_else(i > 1, A[i - 3], 0), -1),
        (lambda A, i: te.if_then_else(A[i + 1] > 0, 1, 0), 8),
    ],
)
def test_an_unguarded_read_out_of_range_names_tensor_index_and_extent(body, index):
    A, C = reads(body)
    with pytest.raises(DeclareError, match=rf"C: A\[.*\]: index 0 is {index}, out of range 0\.\.8"):
        evaluate(C, {A: np.arange(8, dtype="int32")})


def test_a_value_known_under_a_guard_is_not_known_outside():
    A, C = reads(lambda A, i: te.if_then_else(i < 7, A[i + 1], 0) * A[i + 1])
    with pytest.raises(DeclareError, match="index 0 is 8"):
        evaluate(C, {A: np.arange(8, dtype="int32")})


def test_the_contraction_is_recognised():
    assert reference._contracts(matmul(2, 2, 2)[2].op.body[0])
    A, C = reads(lambda A, i: A[i] * A[i])
    assert type(C.op.body[0]) is Mul


def test_reads_of_boxes_are_views_and_give_what_reads_of_places_do():
    """Turned, cut, of one place, beside what is no box; and what is given back shares no memory."""
    a = np.arange(60.0, dtype="float32").reshape(3, 4, 5)
    A = te.placeholder(a.shape, name="A")
    cases = [
        (te.compute((5, 3), lambda j, i: A[i, 2, j]), a[:, 2].T),
        (te.compute((2, 4, 3), lambda i, j, k: A[i + 1, j, k + 2]), a[1:, :, 2:]),
        (te.compute((3, 4, 5), lambda i, j, k: A[i, j, k]), a),
        (te.compute((4, 5), lambda j, k: A[1, 3 - j, k]), a[1, ::-1]),
        (te.compute((3,), lambda i: A[i, i, i]), a[[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        (te.compute((2, 2), lambda i, j: A[0, i * 2, j * 3]), a[0, ::2, ::3]),
        (te.compute((4, 2), lambda i, j: A[2, i, 1]), np.repeat(a[2, :, 1:2], 2, 1)),
    ]
    for out, want in cases:
        (found,) = evaluate(out, {A: a})
        assert np.array_equal(found, want) and not np.shares_memory(found, a)
