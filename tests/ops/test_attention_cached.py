"""Attention with a past, shared heads, caps, windows and lengths, and rotations, against their formulas in
float64."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, exact, near, real, sample

ops = tl.ops
B, H, L, S, E, D = 2, 2, 5, 7, 4, 3


def formula(q, k, v, mask=None, past=0, lengths=None, causal=False, scale=None, cap=0.0, window=(-1, -1)):
    """Row by row: the result, and the scores raw, capped, masked and as shares."""
    q, k, v = (x.astype("float64") for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    raw = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    capped = cap * np.tanh(raw / cap) if cap else raw
    scores = capped.copy()
    rows, keys = scores.shape[-2:]
    for b, i, j in np.ndindex(q.shape[0], rows, keys):
        place = i + (past if lengths is None else lengths[b] - rows)
        seen = lengths is None or j < lengths[b]
        seen = seen and (not causal or j <= place)
        seen = (
            seen and (window[0] < 0 or place - window[0] <= j) and (window[1] < 0 or j <= place + window[1])
        )
        if not seen:
            scores[b, :, i, j] = -np.inf
    if mask is not None:
        missing = keys - mask.shape[-1]
        pads = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
        kind = mask.dtype == bool
        wide = np.pad(mask, pads, constant_values=False if kind else -np.inf)
        scores = np.where(wide, scores, -np.inf) if kind else scores + wide
    most = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = e.sum(-1, keepdims=True)
    shares = e / np.where(total == 0, 1, total)
    return shares @ v, raw, capped, scores, shares


def run(arrays, options, scores=None):
    tensors = {n: te.placeholder(a.shape, str(a.dtype), name=n) for n, a in arrays.items()}
    outs = ops.attention(**tensors, scores=scores, **options)
    made = [t for t in outs if t not in tensors.values()]
    got = compiled(made, dict(zip(tensors.values(), arrays.values(), strict=True)))
    return (got if len(made) == 1 else got[0]) if scores is None else (got[0], got[-1])


def qkv(heads=H):
    return {
        "q": sample((B, heads, L, E), "float32", 1),
        "k": sample((B, H, S, E), "float32", 2),
        "v": sample((B, H, S, D), "float32", 3),
    }


CASES = {
    "plain": ({}, {}),
    "causal": ({"is_causal": True}, {"causal": True}),
    "cap": ({"softcap": 1.5, "scale": 0.3}, {"cap": 1.5, "scale": 0.3}),
    "window": ({"window": (1, 2)}, {"window": (1, 2)}),
    "causal window": ({"window": (2, -1), "is_causal": True}, {"window": (2, -1), "causal": True}),
}


@pytest.mark.parametrize("heads", [H, 3 * H])
@pytest.mark.parametrize("case", list(CASES))
def test_variants(case, heads):
    given, same = CASES[case]
    a = qkv(heads)
    want = formula(**a, **same)
    y, shares = run(a, given, "softmax")
    near(y, want[0], "float32", 64, 1e-5)
    near(shares, want[4], "float32", 64, 1e-6)


@pytest.mark.parametrize(("word", "nth"), [("raw", 1), ("capped", 2), ("masked", 3)])
def test_scores_on_the_way(word, nth):
    a = {**qkv(), "mask": sample((L, S), "bool", 4)}
    want = formula(**a, cap=2.0)
    near(run(a, {"softcap": 2.0}, word)[1], want[nth], "float32", 64, 1e-5)


@pytest.mark.parametrize(
    ("shape", "t"),
    [((L, S), "bool"), ((B, 1, L, S), "float32"), ((H, L, S - 3), "bool"), ((1, S - 3), "float32")],
)
def test_masks(shape, t):
    a = {**qkv(), "mask": sample(shape, t, 4)}
    near(run(a, {"is_causal": True}), formula(**a, causal=True)[0], "float32", 64, 1e-5)


def test_a_past_stands_before():
    a = qkv()
    past = {"past_key": sample((B, H, 3, E), "float32", 5), "past_value": sample((B, H, 3, D), "float32", 6)}
    tensors = {n: te.placeholder(x.shape, name=n) for n, x in {**a, **past}.items()}
    y, keys, values = compiled(
        list(ops.attention(**tensors, is_causal=True)),
        dict(zip(tensors.values(), [*a.values(), *past.values()], strict=True)),
    )
    k, v = np.concatenate([past["past_key"], a["k"]], 2), np.concatenate([past["past_value"], a["v"]], 2)
    exact(keys, k, "float32")
    exact(values, v, "float32")
    near(y, formula(a["q"], k, v, past=3, causal=True)[0], "float32", 64, 1e-5)


def test_lengths_of_keys_and_rows_that_see_nothing():
    a = {**qkv(), "kv_lengths": np.array([7, 0])}
    got = run(a, {"is_causal": True})
    want = formula(a["q"], a["k"], a["v"], lengths=[7, 0], causal=True)[0]
    near(got, want, "float32", 64, 1e-5)
    assert not got[1].any()


def test_heads_beside_each_other_and_symbolic_tokens():
    n, m = te.dim("n", 1, 64), te.dim("m", 1, 64)
    a = qkv(2 * H)
    joined = {
        k: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(B, x.shape[2], -1) for k, x in a.items()
    }
    q, k, v = (te.placeholder((B, s, joined[w].shape[2]), name=w) for s, w in ((n, "q"), (m, "k"), (m, "v")))
    y, *_ = ops.attention(q, k, v, is_causal=True, q_heads=2 * H, kv_heads=H)
    kernel = tl.compile([q, k, v, y])
    want = formula(**a, causal=True)[0].transpose(0, 2, 1, 3).reshape(B, L, -1)
    near(kernel(*joined.values()), want, "float32", 64, 1e-5)
    one = kernel(*[np.ascontiguousarray(x[:, :1]) for x in joined.values()])
    near(one.reshape(B, 2 * H, D), np.repeat(a["v"][:, :, 0], 2, 1).astype("float64"), "float32", 2)


def rotated(x, cos, sin, interleaved, turned):
    out = x.astype("float64")
    half = turned // 2
    first, second = (
        (slice(0, turned, 2), slice(1, turned, 2)) if interleaved else (slice(0, half), slice(half, turned))
    )
    a, b, c, s = out[..., first].copy(), out[..., second].copy(), cos[:, None], sin[:, None]
    out[..., first], out[..., second] = a * c - b * s, a * s + b * c
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("turned", [0, 4])
@pytest.mark.parametrize("t", ["float32", "float16"])
def test_rotary_embedding(t, turned, interleaved):
    n, h = te.dim("n", 1, 9), (turned or 8) // 2
    x = sample((2, 3, 5, 8), t)
    at = np.random.default_rng(0).integers(0, 9, (2, 5))
    cos, sin = sample((9, h), t, 1), sample((9, h), t, 2)
    tensors = [
        te.placeholder((2, 3, n, 8), t, name="x"),
        te.placeholder((9, h), t, name="cos"),
        te.placeholder((9, h), t, name="sin"),
        te.placeholder((2, n), "int64", name="at"),
    ]
    y = ops.rotary_embedding(*tensors, interleaved=interleaved, rotary_dim=turned)
    want = rotated(real(x, t), real(cos, t)[at], real(sin, t)[at], interleaved, turned or 8)
    near(tl.compile([*tensors, y])(x, cos, sin, at), want, t, 4, 4e-6 if t == "float32" else 0)
    joined = np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(2, 5, 24)
    rows = [np.ascontiguousarray(m[at]) for m in (cos, sin)]
    flat = [te.placeholder(m.shape, t) for m in (joined, *rows)]
    y = ops.rotary_embedding(*flat, interleaved=interleaved, rotary_dim=turned, heads=3)
    got = compiled(y, dict(zip(flat, (joined, *rows), strict=True)))
    near(got, want.transpose(0, 2, 1, 3).reshape(2, 5, 24), t, 4, 4e-6 if t == "float32" else 0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda q, k: ops.attention(k, k, k), "q_heads=8"),
        (lambda q, k: ops.attention(q, q, q, past_key=q), "try +both"),
        (
            lambda q, k: ops.attention(q, te.placeholder((2, 3, 5, 8)), te.placeholder((2, 3, 5, 8))),
            "4 heads of q, 3",
        ),
        (lambda q, k: ops.attention(q, q, q, scores="all"), "'raw', 'capped'"),
        (lambda q, k: ops.attention(q, q, q, te.placeholder((4, 5), "int32")), "bools say which keys count"),
        (lambda q, k: ops.attention(q, q, q, te.placeholder((4, 5))), "does not broadcast"),
        (lambda q, k: ops.rotary_embedding(k, k, k), "heads given"),
        (lambda q, k: ops.rotary_embedding(q, k, k, rotary_dim=3), "turned in pairs"),
        (lambda q, k: ops.rotary_embedding(q, k, k), "is 8, 4 is needed"),
        (
            lambda q, k: ops.rotary_embedding(
                q, te.placeholder((9, 4)), te.placeholder((9, 4)), te.placeholder((5,), "int64")
            ),
            r"position_ids .*has 1 dimension\(s\)",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((2, 4, 5, 8)), te.placeholder((2, 5, 8)))
