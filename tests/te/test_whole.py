"""Arithmetic of whole tensors: numpy on whole arrays says what it means; interpreter and compiled code agree
with it."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.te import whole
from tests.te.oracles import agree

SHAPES = [((3, 5), (3, 5)), ((3, 5), (5,)), ((3, 1), (4,)), ((2, 1, 3), (4, 1)), ((3,), ()), ((), (3,))]
NUMBERS = ("add", "sub", "mul", "truediv", "lt", "le", "gt", "ge")
INTEGERS = ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "ge")


def pair(shapes, dtype):
    rng = np.random.default_rng(3)
    return [
        (te.placeholder(s, dtype, name=n), rng.integers(1, 6, s).astype(dtype))
        for s, n in zip(shapes, "AB", strict=True)
    ]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes_broadcast_as_numpy_broadcasts(shapes):
    (A, a), (B, b) = pair(shapes, "float32")
    (got,) = agree((A - B) * 2.0 + A, {A: a, B: b}, lanes=(4,))
    assert np.array_equal(got, (a - b) * 2 + a)


@pytest.mark.parametrize(("dtype", "words"), [("float32", NUMBERS), ("int32", INTEGERS)])
def test_every_operator_of_two_tensors(dtype, words):
    (A, a), (B, b) = pair(((2, 3), (3,)), dtype)
    results = [getattr(operator, w)(A, B) for w in words]
    for w, got in zip(words, agree(results, {A: a, B: b}, lanes=(0,)), strict=True):
        assert np.array_equal(got, getattr(operator, w)(a, b)), w


def test_every_operator_with_a_number_on_either_side():
    (A, a), _ = pair(((2, 3), ()), "float32")
    words = {
        "T_add": lambda x: 2 + x,
        "T_subtract": lambda x: 2 - x,
        "T_multiply": lambda x: x * np.float32(0.5),
        "T_divide": lambda x: 1.0 / x,
        "T_power": lambda x: x**2,
        "T_negative": lambda x: -x,
        "T_abs": lambda x: abs(x),
        "T_cast": lambda x: x.astype("int32"),
        "T_less": lambda x: x < 3,
    }
    tensors = [f(A) for f in words.values()]
    assert [t.op.name for t in tensors] == list(words)
    for f, got in zip(words.values(), agree(tensors, {A: a}, lanes=(0,)), strict=True):
        assert np.array_equal(got, f(a)) and got.dtype == f(a).dtype


def test_bools_and_integers_are_complemented():
    A, a = pair(((4,), ()), "int32")[0]
    small, flipped = agree([~(A < 3), ~A], {A: a}, lanes=(0,))
    assert np.array_equal(small, ~(a < 3)) and np.array_equal(flipped, ~a)


def test_symbolic_sizes_and_scalars():
    n, alpha = te.size_var("n"), te.var("alpha", "float32")
    A, B = te.placeholder((n, 3), name="A"), te.placeholder((n, 1), name="B")
    C = alpha * (A - B) + n.astype("float32")
    a, b = np.arange(12, dtype="float32").reshape(4, 3), np.ones((4, 1), "float32")
    assert np.array_equal(tl.build(te.create_schedule(C.op), [A, B, alpha, C])(a, b, 2.0), 2 * (a - b) + 4)


def test_a_tensor_of_rank_0_is_a_number():
    S, A = te.placeholder((), name="S"), te.placeholder((3,), name="A")
    assert not isinstance(S + 1, te.Tensor)
    (got,) = agree(S * A + S, {S: np.array(2, "float32"), A: np.ones(3, "float32")}, lanes=(0,))
    assert got.tolist() == [4, 4, 4]


def test_the_mean_is_taken_away_and_the_rest_scaled():
    X = te.placeholder((4, 6), name="X")
    k = te.reduce_axis((0, 6), "k")
    mean = te.compute((4, 1), lambda i, _: te.sum(X[i, k], axis=k), name="total") / 6.0
    x = np.arange(24, dtype="float32").reshape(4, 6)
    (got,) = agree((X - mean) * 2.0, {X: x})
    assert np.array_equal(got, (x - x.mean(1, keepdims=True)) * 2)


def test_builtin_sum_adds_tensors():
    (A, a), (B, b) = pair(((3,), (3,)), "float32")
    (got,) = agree(sum([A, B, A]), {A: a, B: b}, lanes=(0,))
    assert np.array_equal(got, a + b + a)


def test_tags_say_what_recipes_look_for():
    (A, _), (B, _) = pair(((2, 3), (3,)), "float32")
    assert (A + A).op.tag == "elementwise" and (A + B).op.tag == "broadcast"
    with te.tag_scope("mine"):
        assert (A + B).op.tag == "mine"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda A: te.compute((4, 5), lambda i, j: A + i),
        lambda A: te.compute((4, 5), lambda i, j: i + A),
        lambda A: te.compute((4, 5), lambda i, j: A[i, j] * A),
    ],
    ids=["axis", "axis_first", "element"],
)
def test_axes_do_not_mix_with_whole_tensors(wrong):
    with pytest.raises(tl.DeclareError, match="the whole tensor A stands where one element is meant"):
        wrong(te.placeholder((4, 5), name="A"))


def test_equality_still_asks_whether_two_are_one_tensor():
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    assert (A == A) is True and (A == B) is False and len({A, B}) == 2


def test_sizes_in_blocks_and_windows_are_compared():
    n, m = te.dim("n"), te.dim("m", 1)
    whole_blocks = m + (16 - m % 16) % 16
    blocks, cut = whole_blocks // 16, te.min(te.max(n - 5, 0) * 2 - te.max(5 - n, 0) + 10, n * 2)
    assert whole.at_most(0, blocks) and whole.at_most(1, blocks) and whole.at_most(2, blocks) is None
    assert whole.equal(te.max(blocks, 0), blocks)
    assert whole.equal(cut, 2 * n) and whole.equal(m * cut * n * 2, n * n * m * 4)
    assert whole.equal(te.max(n - 5, 0) - te.max(6 - n, 0), n - 5) is None
    k = te.dim("k", 16, multiple_of=16)
    assert [int(whole.shortest(e)) for e in (whole_blocks // blocks, 2 * k // (k // 16))] == [16, 32]
    open_one = 2 * m // (m // 16)
    assert whole.shortest(open_one) is open_one
