"""Kernels of open sizes with loops of their own for few of what only a call can count: which sizes are asked
for, and that every size has numpy's answer."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import scheduled
from tensorlang.recipes.choices import asking, at_most, bound
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

M, N, K = te.var("m"), te.var("n"), te.var("k")


def test_a_size_is_asked_for_once_and_taken_for_granted_in_the_other_schedule() -> None:
    with asking() as first:
        assert not at_most(M, 4) and not at_most(M, 4) and not at_most(N, 16)
        assert at_most(te.dim("few", 1, 3), 4) and not at_most(te.dim("many", 5, 9), 4)
    assert first.choices() == [(M, 4), (N, 16)]
    with asking({M: 4}) as few:
        assert at_most(M, 4) and at_most(M, 7) and not at_most(M, 3)
        assert bound(M) == 4 and bound(N) is None
    assert few.choices() == [(M, 3)]
    assert not at_most(M, 4)  # nobody asks here


PRODUCTS: dict[str, tuple[tuple[te.Expr | int, ...], tuple[te.Expr | int, ...], bool]] = {
    "rows times a matrix": ((M, 40), (40, 64), False),
    "all open": ((M, K), (K, N), False),
    "columns of rows": ((M, 64), (N, 64), True),
    "a batch": ((3, M, 20), (3, 20, 33), False),
    "a batch of columns": ((3, M, 64), (3, N, 64), True),
}


@pytest.mark.parametrize("target", [None, pytest.param(AVX2, marks=LONG)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_few_rows_of_a_product_have_loops_of_their_own(name: str, target: str | None) -> None:
    """On both sides of the number that decides, and for none."""
    left, right, across = PRODUCTS[name]
    A, B = te.placeholder(left, name="A"), te.placeholder(right, name="B")
    C = ops.matmul(A, B, transpose_b=across)
    f = tl.compile([A, B, C], target)
    assert "if m <= " in f.get_source("ir") and " where m <= " in str(f.explain())
    rng = np.random.default_rng(len(name))
    for m in (0, 1, 2, 4, 5, 13, 27, 28, 41):
        for n in (0, 1, 17, 50):
            for k in (0, 1, 9):
                sizes = {M: m, N: n, K: k}
                a, b = (
                    rng.integers(-4, 5, [sizes[x] if isinstance(x, te.Var) else x for x in shape])
                    for shape in (left, right)
                )
                a, b = a.astype("float32"), b.astype("float32")
                assert np.array_equal(f(a, b), a @ (b.swapaxes(-1, -2) if across else b)), sizes


def test_rows_that_are_known_to_be_few_or_many_have_one_kind_of_loops() -> None:
    for low, high in ((1, 3), (100, 200)):
        A = te.placeholder((te.dim("rows", low, high), 40), name="A")
        B = te.placeholder((40, 64), name="B")
        f = tl.compile([A, B, ops.matmul(A, B)])
        assert "by size" not in str(f.explain())
        assert ("B.global" in f.get_source("ir")) is (low == 100)


def test_weights_that_are_packed_ahead_serve_every_number_of_rows() -> None:
    A, B = te.placeholder((M, 40), name="A"), te.placeholder((40, 64), name="B")
    b = np.random.default_rng(0).integers(-4, 5, (40, 64)).astype("float32")
    f = tl.compile([A, ops.matmul(A, B)], constants={B: b})
    assert "if m <= " not in f.get_source("ir")
    for m in (0, 1, 5, 40):
        a = np.ones((m, 40), "float32")
        assert np.array_equal(f(a), a @ b)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    s = (q.astype("float64") @ k.swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tri(*s.shape[-2:]) > 0, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("queries", "causal"), [(M, False), (N, False), pytest.param(N, True, marks=LONG)], ids=str
)
def test_few_tokens_of_attention_have_loops_of_their_own(queries: te.Var, causal: bool) -> None:
    """Queries and keys of sizes apart, or one size."""
    q, k, v = (te.placeholder((1, 2, n, 64), name=name) for n, name in ((queries, "q"), (N, "k"), (N, "v")))
    f = tl.compile([q, k, v, ops.scaled_dot_product_attention(q, k, v, is_causal=causal)])
    # of few queries a sum at a time; up to how many is the table's, which knows how lanes are added up. Of few
    # keys no more than a vector has lanes
    lanes = tl.Target.host().vector_lanes("float32")
    assert re.search(r"if m <= [4-8]:" if queries is M else rf"if n <= {lanes}:", f.get_source("ir"))
    rng = np.random.default_rng(3)
    for n in (1, 2, 4, 5, 16, 17, 49):
        for m in (1, 3, 5) if queries is M else (n,):
            a, b, c = (rng.standard_normal((1, 2, x, 64)).astype("float32") for x in (m, n, n))
            np.testing.assert_allclose(f(a, b, c), _attention(a, b, c, causal), rtol=1e-4, atol=1e-5)


def test_the_schedule_that_others_ask_for_is_that_of_many() -> None:
    """``default_schedule`` and a search see one schedule."""
    A, B = te.placeholder((M, 40), name="A"), te.placeholder((40, 64), name="B")
    C = ops.matmul(A, B)
    trees = []
    few: dict[te.Expr, int] = {M: 4}
    for known in ({}, few):
        with asking(known):
            trees.append(scheduled(C, as_target(AVX512))[0].tree())
    assert "B.global" in trees[0] and "B.global" not in trees[1]
    assert scheduled(C, as_target(AVX512))[0].tree() == trees[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_ragged_tiles_of_a_transpose_are_turned_in_registers(dtype: str) -> None:
    """Lanes behind the last row read zeros from beside the tensor, and nothing is gathered."""
    x = te.placeholder((M, N), dtype, name="x")
    keys = te.placeholder((N, 64), name="keys")
    f = tl.compile([x, ops.transpose(x)])
    rng = np.random.default_rng(5)
    for m in (0, 1, 3, 8, 15, 17):
        for n in (0, 1, 4, 7, 16, 33):
            a = rng.integers(-9, 9, (m, n)).astype(dtype)
            assert np.array_equal(f(a), a.T), (m, n)
    A = te.placeholder((100, 64), name="A")
    text = tl.compile([A, keys, ops.matmul(A, keys, transpose_b=True)], AVX512).get_source("ll")
    assert "@.zeros" in text and "masked.gather" not in text


def test_few_rows_that_are_added_up_are_one_group() -> None:
    """No partial results of groups, of which there would be one."""
    x = te.placeholder((M, N), name="x")
    f = tl.compile([x, ops.sum(x, 0)], AVX512)
    text = f.get_source("ir")
    few, narrow, many = re.split(r"\n    el(?:if|se)", text[text.index("if m <= 64") :])
    assert ".rf" not in few and narrow.startswith(" n <= 16") and ".rf" in narrow and ".rf" in many
    here = tl.compile([x, ops.sum(x, 0)])
    for m in (0, 1, 8, 64, 65, 200):
        for n in (1, 16, 67):
            a = np.random.default_rng(m + n).integers(-9, 9, (m, n)).astype("float32")
            assert np.array_equal(here(a), a.sum(0))
