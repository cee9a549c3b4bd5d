"""The recipe for attention: keys and values are read once, by as many rows as share them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.ops.attention_sums import log_sums
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX512


def attention(
    heads: int, shared: int, queries: Any, keys: Any, size: int, dtype: str = "float32"
) -> list[te.Tensor]:
    """[q, k, v, result] of ``heads`` heads, of which as many as there are share each of ``shared``."""
    q = te.placeholder((2, heads, queries, size), name="Q", dtype=dtype)
    k, v = (te.placeholder((2, shared, keys, size), name=n, dtype=dtype) for n in "KV")
    return [q, k, v, ops.attention(q, k, v)[0]]


def agree(tensors: list[te.Tensor], heads: int, shared: int, queries: int, keys: int, size: int) -> None:
    rng = np.random.default_rng(heads * keys + queries)
    kind = tensors[0].dtype.to_numpy()
    q = rng.standard_normal((2, heads, queries, size)).astype(kind)
    k, v = (rng.standard_normal((2, shared, keys, size)).astype(kind) for _ in range(2))
    many = [np.repeat(t, heads // shared, axis=1).astype("float64") for t in (k, v)]
    scores = q.astype("float64") @ many[0].swapaxes(-1, -2) / np.sqrt(size)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    wanted = weights / weights.sum(axis=-1, keepdims=True) @ many[1]
    found = tl.compile(tensors)(q, k, v)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 if kind == np.float32 else 4e-3)


@pytest.mark.parametrize(
    ("heads", "shared", "queries", "keys", "size"),
    [
        (4, 4, 1, 40, 64),  # one query: sums along memory
        (6, 2, 1, 33, 40),  # heads that share keys are the rows of a tile; half vectors
        (8, 1, 1, 50, 20),
        (4, 2, 3, 37, 16),
        (4, 2, 21, 50, 24),  # panels of keys that two heads share
        (3, 3, 17, 19, 9),
    ],
)
def test_numbers(heads: int, shared: int, queries: int, keys: int, size: int) -> None:
    agree(attention(heads, shared, queries, keys, size), heads, shared, queries, keys, size)


def test_half_floats_are_converted_once_for_all_heads() -> None:
    agree(attention(4, 2, 18, 35, 16, "float16"), 4, 2, 18, 35, 16)


@pytest.mark.parametrize(("queries", "keys"), [(1, 45), (19, 45)])
def test_open_lengths(queries: int, keys: int) -> None:
    n = te.var("n")
    agree(attention(4, 2, queries, n, 32), 4, 2, queries, keys, 32)
    agree(attention(4, 2, te.var("m"), n, 32), 4, 2, queries, keys, 32)


def test_causal_sums_of_an_open_length_have_no_masks() -> None:
    """Lanes beyond the last key are summed and not read, as where nothing is left out."""
    n = te.var("n")
    q, k, v = (te.placeholder((1, 4, n, 32), name=x) for x in "QKV")
    out = ops.scaled_dot_product_attention(q, k, v, is_causal=True)
    f = tl.compile([q, k, v, out], AVX512)
    sums = [x for x in f.get_source("ir").splitlines() if "attention.dots" in x and "Q[" in x]
    assert sums and not any("mask" in x for x in sums)
    f = tl.compile([q, k, v, out])
    rng = np.random.default_rng(5)
    for size in (1, 5, 16, 17, 47, 131):
        a, b, c = (rng.standard_normal((1, 4, size, 32)).astype(np.float32) for _ in range(3))
        scores = np.where(np.tri(size, dtype=bool), a @ b.swapaxes(-1, -2) / np.sqrt(32), -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        wanted = weights / weights.sum(axis=-1, keepdims=True) @ c
        np.testing.assert_allclose(f(a, b, c), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("heads", "shared"), [(8, 8), (8, 2)])
def test_one_query_reads_keys_and_values_where_they_lie(heads: int, shared: int) -> None:
    """No copies, no gathered vectors, and each head of keys in one iteration of the shared loop."""
    tensors = attention(heads, shared, 1, 500, 64)
    s = default_schedule(tensors[-1], AVX512)
    tree = s.tree()
    assert "K.global" not in tree and "V.global" not in tree
    assert f"0..{2 * shared}  parallel" in tree
    assert "gather" not in tl.build(s, tensors, AVX512).get_source("asm")


def test_heads_that_share_keys_share_their_panels() -> None:
    tree = default_schedule(attention(8, 2, 64, 500, 64)[-1], AVX512).tree()
    assert "0..4  parallel" in tree  # 2 × 2 heads of keys, then the 4 that share each
    assert tree.index("parallel") < tree.index("storage K.global") < tree.index("b1.inner")
    assert "V.global" not in tree  # rows of values are vectors as they are


@pytest.mark.parametrize(("queries", "keys", "size"), [(1024, 77, 40), (192, 77, 64), (197, 197, 64)])
def test_tiles_divide_a_block_of_rows(queries: int, keys: int, size: int) -> None:
    """A block of 63 rows was cut into tiles of 29, 29 and 5, of which the last tested each of its rows."""
    q, k = te.placeholder((1, 4, queries, size), name="q"), te.placeholder((1, 4, keys, size), name="k")
    s = default_schedule(ops.scaled_dot_product_attention(q, k, k), AVX512)
    lines = str(s.tree()).splitlines()
    rows = [int(line.split("0..")[1].split()[0]) for line in lines if re.search(r"\.i( |\.).*unrolled", line)]
    exps = next(line for line in lines if "storage attention.exp" in line)
    block = int(exps.split("[")[1].split("]")[0].split(",")[-2])
    assert len(rows) == 4 and all(block % r == 0 for r in rows), (block, rows)


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(128, 128, False), (70, 1024, False), (128, 128, True)]
)
def test_largest_elements_of_a_block_are_found_before_its_exponentials(
    queries: int, keys: int, causal: bool
) -> None:
    """An exponential waited for the largest element of its row, and scores of many rows left the first
    cache."""
    q, k = te.placeholder((1, 2, queries, 32), name="q"), te.placeholder((1, 2, keys, 32), name="k")
    out = ops.scaled_dot_product_attention(q, k, k, is_causal=causal)
    s = default_schedule(out, AVX512)
    lines = str(s.tree()).splitlines()
    most, exps = (next(x for x in lines if f"storage attention.{name} " in x) for name in ("max", "exp"))
    assert lines.index(most) < lines.index(exps) and most.index("storage") == exps.index("storage")
    (block, most_block) = (
        int(x.split("[")[1].split("]")[0].split(",")[n]) for x, n in ((exps, -2), (most, -1))
    )
    assert block == most_block and (block * keys * 4 <= 1 << 14 or block <= 16)
    func = tl.lower(s, [q, k, out])
    rng = np.random.default_rng(keys)
    arrays = [rng.standard_normal((1, 2, n, 32)).astype("float32") for n in (queries, keys)]
    one, two = (np.zeros((1, 2, queries, 32), "float32") for _ in range(2))
    interpret(func, *arrays, one)
    tl.compile([q, k, out])(*arrays, two)
    np.testing.assert_allclose(one, two, rtol=0, atol=2e-6)


def test_sums_alone_keep_a_block_of_scores_as_well():
    """Of the sums that gradients read: what the loop over blocks does not hold are keys in panels and the
    copy of the result."""
    q, k = (te.placeholder((2, 3, 64, 32), name=n) for n in "QK")
    s = default_schedule(log_sums(q, k, None, False, None))
    at_root = {st.name for st in s.stages if st.state.attach is None and st.op.input_tensors}
    assert at_root <= {"attention.log_sum", "log_sums", "K.global"}


@pytest.mark.parametrize(("heads", "keys", "size"), [(3, 40, 16), (1, 37, 20), (2, 64, 24)])
def test_values_whose_keys_are_neighbours_are_copied_once(heads: int, keys: int, size: int) -> None:
    """Those of images whose pixels come last; each was gathered for every tile of rows."""
    q = te.placeholder((1, heads, 21, size), name="Q")
    k, v = (te.placeholder((1, heads, size, keys), name=n) for n in "KV")
    turned = [ops.transpose(t, (0, 1, 3, 2)) for t in (k, v)]
    out = ops.scaled_dot_product_attention(q, *turned)
    s = default_schedule(out, AVX512)
    (line,) = (x for x in str(s.tree()).splitlines() if "compute attention.values" in x)
    assert line.endswith("reads attention.exp, transpose.global_1")
    func = tl.lower(s, [q, k, v, out])
    rng = np.random.default_rng(keys)
    a, b, c = (rng.standard_normal([int(n) for n in t.shape]).astype("float32") for t in (q, k, v))
    scores = np.exp(a.astype("float64") @ b / np.sqrt(size))
    wanted = scores / scores.sum(axis=-1, keepdims=True) @ c.swapaxes(-1, -2)
    np.testing.assert_allclose(tl.compile([q, k, v, out])(a, b, c), wanted, rtol=0, atol=1e-5)
    found = np.zeros(wanted.shape, "float32")
    interpret(func, a, b, c, found)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


ZEN5 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5"


def test_sums_stay_in_registers_beside_coefficients_of_the_exponential() -> None:
    """LLVM took the loops of the exponential, one deeper, for those that count: coefficients kept their
    registers, and sums of values went to the stack and back."""
    q, k, v = (te.placeholder((4, 1024, 48), name=n) for n in "QKV")
    tensors = [q, k, v, ops.scaled_dot_product_attention(q, k, v)]
    module = tl.compile(tensors, ZEN5)
    assert '!{!"branch_weights", i32 1023, i32 1}' in module.get_source("ll")
    blocks = re.split(r"(?m)^(?=\.LBB\w+:)", module.get_source("asm"))
    loops = [b for b in blocks if b.count("vfmadd") > 15 and re.search(rf"\tj\w+\t{b.split(':')[0]}\b", b)]
    inside = [b[: re.search(rf"\tj\w+\t{b.split(':')[0]}\b", b).start()] for b in loops]
    assert len(inside) >= 3
    assert not [line for b in inside for line in b.splitlines() if re.search(r"vmovap\w.*zmm.*\(%rsp", line)]


@pytest.mark.parametrize(("cpu", "head", "block"), [("znver5", 32, 12), ("znver5", 64, 6), ("znver4", 64, 6)])
def test_scores_of_a_block_stay_in_the_first_cache_of_a_zen_5(
    cpu: str, head: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 13 rows of 1024 keys, which a tile took, a part was read from the second cache. Heads of four
    vectors are one tile, of half the rows. On a Zen 4, as it was."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    q, k, v = (te.placeholder((12, 1024, head), name=n) for n in "QKV")
    s = default_schedule(
        ops.scaled_dot_product_attention(q, k, v), f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}"
    )
    exps = next(line for line in str(s.tree()).splitlines() if "storage attention.exp" in line)
    assert int(exps.split("[")[1].split("]")[0].split(",")[-2]) == block
