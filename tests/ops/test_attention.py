"""Attention against numpy in double precision, and against torch when it is there; its default schedule keeps
scores in the cache."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.ops.attention_sums import log_sums
from tensorlang.ops.tags import CAUSAL_BLOCK
from tensorlang.recipes import default_schedule
from tests.ops.arrays import near, real, sample
from tests.ops.images import run, symbolic

attend = ops.scaled_dot_product_attention


def oracle(q, k, v, mask=None, is_causal=False, scale=None):
    q, k, v = (np.asarray(t, "float64") for t in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = np.tril(np.ones(scores.shape[-2:], bool))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e @ v / np.where(total == 0, 1, total)


def three(q, k, v, t="float32"):
    return tuple(sample(s, t, seed) for seed, s in enumerate((q, k, v)))


SHAPES = [
    ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    ((65, 16), (33, 16), (33, 5)),
    ((2, 1, 9, 8), (3, 7, 8), (1, 7, 8)),
    ((1, 1, 4), (1, 1, 4), (1, 1, 4)),
]
CLOSE = {
    "t": "float32",
    "ulps": 40,
    "floor": 40 * 2.0**-23 * 10,
}  # scores up to 40 lose that many units in exp; values are up to 10


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes(shapes, is_causal):
    q, k, v = three(*shapes)
    near(run(attend, q, k, v, is_causal=is_causal), oracle(q, k, v, is_causal=is_causal), **CLOSE)


SHARED = [
    ((2, 6, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)),
    ((1, 8, 1, 16), (1, 2, 70, 16), (1, 2, 70, 16)),
    ((4, 9, 8), (1, 9, 8), (1, 9, 8)),
    ((3, 2, 5, 8), (1, 2, 7, 8), (3, 2, 7, 8)),
]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("shapes", SHARED, ids=str)
def test_heads_of_queries_share_those_of_keys(shapes, is_causal):
    q, k, v = three(*shapes)
    each = q.shape[-3] // k.shape[-3]
    want = oracle(q, *[t.repeat(each, -3) for t in (k, v)], is_causal=is_causal)
    near(run(attend, q, k, v, is_causal=is_causal, enable_gqa=True), want, **CLOSE)


def test_a_mask_of_shared_heads_is_by_head():
    q, k, v = three((6, 5, 8), (2, 7, 8), (2, 7, 8))
    mask = np.random.default_rng(0).random((6, 5, 7)) < 0.6
    want = oracle(q, k.repeat(3, 0), v.repeat(3, 0), mask)
    near(run(lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), q, k, v, mask), want, **CLOSE)


@pytest.mark.parametrize(
    ("heads", "text"),
    [((5, 2, 2), "5 heads of q, 2 of k and 2 of v"), ((4, 2, 4), "4 heads of q, 2 of k and 4 of v")],
    ids=["multiple", "values"],
)
def test_heads_that_cannot_be_shared(heads, text):
    q, k, v = (te.placeholder((n, 3, 4), name="qkv"[i]) for i, n in enumerate(heads))
    with pytest.raises(tl.DeclareError, match=text):
        attend(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks(kind):
    q, k, v = three((2, 9, 8), (2, 70, 8), (2, 70, 20))
    mask = sample((2, 9, 70) if kind == "bool" else (1, 70), kind, 3)
    if kind == "bool":
        mask[1, 3] = False  # a row that sees no key
    got = run(lambda q, k, v, m: attend(q, k, v, m), q, k, v, mask)
    near(got, oracle(q, k, v, mask), **CLOSE)
    assert kind != "bool" or (got[1, 3] == 0).all()


def test_rows_masked_by_a_huge_number_see_all_keys_alike():
    """Added to every score of a row, as models mask what is padded, it leaves them all the same."""
    q, k, v = three((2, 9, 8), (2, 70, 8), (2, 70, 20))
    mask = np.zeros((2, 9, 70), "float32")
    mask[1, 3], mask[0, :, 60:] = -3.3e38, -3.3e38
    got = run(lambda q, k, v, m: attend(q, k, v, m), q, k, v, mask)
    near(got, oracle(q, k, v, mask), **CLOSE)
    near(got[1, 3], v[1].mean(0, dtype="float64"), **CLOSE)


@pytest.mark.parametrize("t", ["float16", "bfloat16", "float64"])
def test_dtypes(t):
    q, k, v = three((2, 9, 16), (2, 17, 16), (2, 17, 16), t)
    tensors = [te.placeholder(a.shape, t) for a in (q, k, v)]
    got = tl.compile([*tensors, attend(*tensors)])(q, k, v)
    near(
        got,
        oracle(*(real(a, t) for a in (q, k, v))),
        t,
        1 if t != "float64" else 100,
        floor=1e-12 if t == "float64" else 1e-4,
    )


def test_scale_and_one_tensor_for_all():
    x = sample((2, 20, 8), "float32")
    X = te.placeholder(x.shape)
    near(tl.compile([X, attend(X, X, X, scale=0.25)])(x), oracle(x, x, x, scale=0.25), **CLOSE)


@pytest.mark.parametrize("is_causal", [False, True])
def test_one_kernel_for_any_tokens(is_causal):
    n, rows, keys = te.var("n"), te.var("rows"), te.var("keys")
    f = symbolic(
        lambda q, k, v: attend(q, k, v, is_causal=is_causal), [(n, rows, 16), (n, keys, 16), (n, keys, 16)]
    )
    for batch, m, s in ((1, 5, 7), (3, 33, 64), (2, 130, 1)):
        q, k, v = three((batch, m, 16), (batch, s, 16), (batch, s, 16))
        near(f(q, k, v), oracle(q, k, v, is_causal=is_causal), **CLOSE)


@pytest.mark.parametrize("keys", [0, te.dim("t")], ids=["known", "open"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_no_keys_give_zeros(keys, is_causal):
    q, k, v = (te.placeholder((2, n, 16), name=name) for n, name in ((5, "q"), (keys, "k"), (keys, "v")))
    f = tl.compile([q, k, v, attend(q, k, v, is_causal=is_causal)])
    none = np.zeros((2, 0, 16), "float32")
    assert not f(sample((2, 5, 16), "float32", 0), none, none).any()


def test_scores_never_go_to_memory():
    """The buffer of scores is one for a block of query rows, not one for all of them."""
    q, k, v = (te.placeholder((1, 4, 512, 64), name=n) for n in "qkv")
    tree = default_schedule(attend(q, k, v)).tree()
    buffers = [
        line
        for line in tree.splitlines()
        if "storage attention.scores" in line
        or "storage attention.exp" in line
        or "storage attention.dots" in line
    ]
    assert len(buffers) == 3
    assert not any("[1, 4, 512, 512]" in line for line in buffers), tree
    assert all("[1, 1, " in line for line in buffers), tree


@pytest.mark.parametrize(("rows", "keys"), [(200, 200), (97, 300), (300, 97), (96, 192)])
def test_what_is_behind_the_block_of_a_token_is_never_read(rows, keys):
    """Exact zeros would turn NaN in its products. Blocks of rows that end within a block of tokens, and on
    its edge."""
    q, k, v = three((2, rows, 16), (2, keys, 16), (2, keys, 16))
    seen = -(-rows // CAUSAL_BLOCK) * CAUSAL_BLOCK
    k[:, seen:], v[:, seen:] = np.nan, np.nan
    near(run(attend, q, k, v, is_causal=True), oracle(q, k[:, :rows], v[:, :rows], is_causal=True), **CLOSE)


def test_a_causal_mask_is_the_bound_of_the_loop_over_keys():
    q, k, v = (te.placeholder((1, 4, 512, 64), name=n) for n in "qkv")
    text = tl.compile([q, k, v, attend(q, k, v, is_causal=True)]).get_source("ir")
    values = text.split("attention.values: ")[1]
    assert re.search(r"for j\w* in range\(0, min\(", values), values
    loop = values[values.index("for j") :].split("attention[")[0]
    assert "if" not in loop, loop


def test_scores_that_are_asked_for_are_computed():
    """An output among the stages: the recipe for attention leaves them alone, and the result is right."""
    q, k, v = three((2, 6, 8), (2, 7, 8), (2, 7, 8))
    tensors = [te.placeholder(a.shape) for a in (q, k, v)]
    out = attend(*tensors)
    exps = next(t for t in out.op.input_tensors[0].op.input_tensors if t.op.name == "attention.exp")
    _, got = tl.compile([*tensors, exps, out])(q, k, v)
    near(got, oracle(q, k, v), **CLOSE)


def test_projections_around():
    """Heads cut out of a matrix product, and joined again behind."""
    x, w = sample((10, 12), "float32", 4) / 8, sample((12, 12), "float32", 5) / 4
    X, W = te.placeholder(x.shape), te.placeholder(w.shape)
    heads = ops.transpose(ops.reshape(ops.matmul(X, W), (10, 3, 4)), (1, 0, 2))
    out = ops.reshape(ops.transpose(attend(heads, heads, heads), (1, 0, 2)), (10, 12))
    h = (x.astype("float64") @ w).reshape(10, 3, 4).transpose(1, 0, 2)
    near(
        tl.compile([X, W, out])(x, w),
        oracle(h, h, h).transpose(1, 0, 2).reshape(10, 12),
        "float32",
        40,
        floor=40 * 2.0**-23 * 10,
    )


@pytest.mark.parametrize("is_causal", [False, True])
def test_as_torch(is_causal):
    torch = pytest.importorskip("torch")
    q, k, v = three((2, 3, 40, 32), (2, 3, 70, 32), (2, 3, 70, 32))
    want = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), is_causal=is_causal
    ).numpy()
    near(run(attend, q, k, v, is_causal=is_causal), want.astype("float64"), "float32", 80, floor=1e-3)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("kind", ["none", "causal", "bools", "floats"])
def test_logarithms_of_the_sums_of_rows(kind, dtype):
    q, k, _ = three((2, 3, 21, 8), (2, 3, 35, 8), (2, 3, 35, 8), dtype)
    mask = {
        "bools": np.random.default_rng(3).random((21, 35)) < 0.5,
        "floats": sample((21, 35), dtype, 4),
    }.get(kind)
    if kind == "bools":
        mask[4] = False  # a row that sees no key
    scores = np.asarray(q, "float64") @ np.asarray(k, "float64").swapaxes(-1, -2) / np.sqrt(8)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if kind == "bools" else scores + mask
    if kind == "causal":
        scores = np.where(np.tril(np.ones((21, 35), bool)), scores, -np.inf)
    with np.errstate(divide="ignore"):
        want = np.log(np.exp(scores).sum(-1))
    tensors = [te.placeholder(a.shape, str(a.dtype)) for a in (q, k, *([] if mask is None else [mask]))]
    out = log_sums(tensors[0], tensors[1], None if mask is None else tensors[2], kind == "causal", None)
    got = tl.compile([*tensors, out])(q, k, *([] if mask is None else [mask]))
    assert got.dtype == ("float64" if dtype == "float64" else "float32")
    assert (np.isneginf(got) == np.isneginf(want)).all() and np.isneginf(want).any() == (kind == "bools")
    seen = np.isfinite(want)
    assert np.abs(got[seen] - want[seen]).max() <= {"float64": 1e-13}.get(dtype, 1e-5)
