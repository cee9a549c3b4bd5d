"""Mixtures of experts and other pieces of decoders of com.microsoft, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
import tensorlang as tl  # noqa: E402

from .beside import floats, made  # noqa: E402
from .test_onnx_microsoft import agree  # noqa: E402
from .test_onnx_microsoft_more import whole  # noqa: E402

T, H, I, E = 5, 32, 16, 4


def layers(first=I):
    return [
        floats(E, first, H, seed=1),
        floats(E, first, seed=2),
        floats(E, H, I, seed=3),
        floats(E, H, seed=4),
    ]


@pytest.mark.parametrize(("k", "normalised"), [(1, 0), (2, 0), (3, 1)])
def test_experts_that_tokens_choose(k, normalised):
    how = {"k": k, "normalize_routing_weights": normalised}
    x, scores = floats(T, H), floats(T, E, seed=9)
    for activation in ("relu", "silu", "gelu", "identity"):
        given = [x, scores, *layers()]
        agree("MoE", given, known=[2, 3, 4, 5], activation_type=activation, rtol=1e-3, atol=1e-3, **how)
    batch = np.stack([x, x[::-1]])
    swiglu = {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 1.0, "activation_alpha": 1.7}
    given = [batch, floats(2 * T, E, seed=9), *layers(2 * I)]
    agree("MoE", given, known=[2, 3, 4, 5], activation_beta=1.0, rtol=1e-3, atol=1e-3, **swiglu, **how)


def test_gates_of_experts_that_stand_alone():
    """A third layer, and halves behind each other: onnxruntime has these for other processors only."""
    x, scores, w3, b3 = floats(T, H), floats(T, E, seed=9), floats(E, I, H, seed=5), floats(E, I, seed=6)
    w1, b1, w2, b2 = layers()

    def wanted(gate):
        y = np.zeros((T, H))
        for t in range(T):
            e = scores[t].argmax()
            g, u = w1[e] @ x[t] + b1[e], w3[e] @ x[t] + b3[e]
            y[t] = w2[e] @ gate(g, u) + b2[e]
        return y

    def ours(arrays, **how):
        model = made(
            "MoE", arrays, 1, 17, range(2, len(arrays)), "com.microsoft", normalize_routing_weights=1, **how
        )
        return tl.load_onnx(model).compile()(x, scores)

    silu = lambda g: g / (1 + np.exp(-g))
    apart = ours([x, scores, w1, b1, w2, b2, w3, b3], activation_type="relu")
    np.testing.assert_allclose(apart, wanted(lambda g, u: np.maximum(g, 0) * u), rtol=1e-3, atol=1e-3)
    both = [np.concatenate([w1, w3], 1), np.concatenate([b1, b3], 1), w2, b2]
    halves = ours([x, scores, *both], activation_type="swiglu", swiglu_fusion=2)
    np.testing.assert_allclose(halves, wanted(lambda g, u: silu(g) * u), rtol=1e-3, atol=1e-3)


@pytest.mark.each_value
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("zeros", [False, True])
def test_experts_of_few_bits(bits, block, zeros):
    each = 8 // bits
    x, scores = floats(T, H), floats(T, E, seed=9)
    given: list = [x, scores]
    points = []
    for rows, columns, seed in ((I, H, 1), (H, I, 2)):
        shape = (E, rows, columns // block) if block else (E, rows)
        scale = np.abs(floats(*shape, seed=seed)) * 0.02 + 0.01
        given += [
            whole(E, rows, columns // each, seed=seed),
            scale.astype("float32"),
            floats(E, rows, seed=seed),
        ]
        at = (E, rows, -(-(columns // block) // each)) if block else (E, -(-rows // each))
        points.append(whole(*at, seed=seed + 5))
    given += [None, None, None, *points] if zeros else []
    how = {"block_size": block} if block else {}
    known = [i for i in range(2, len(given)) if given[i] is not None]
    how |= {"expert_weight_bits": bits, "k": 2, "activation_type": "silu", "normalize_routing_weights": 1}
    near = {"rtol": 2e-2, "atol": 2.0 if block and bits == 8 else 0.1}  # whose input it rounds to 8 bits
    agree("QMoE", given, known=known, **near, **how)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_rows_of_tokens_are_not_repeated(size):
    ids = np.array([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4], [0, 1, 2, 3, 4]])
    if size < 7:
        agree("NGramRepeatBlock", [ids, floats(3, 6)], ngram_size=size)
    else:
        model = made("NGramRepeatBlock", [ids, floats(3, 6)], 1, 17, (), "com.microsoft", ngram_size=size)
        assert np.array_equal(tl.load_onnx(model).compile()(ids, floats(3, 6)), floats(3, 6))


def test_tokens_without_a_score_are_left_out():
    """Of a vocabulary that the scores do not hold, and of numbers that are no tokens; batch and length open."""
    ids = np.array([[1, 2, 9, 1, 2, 4, 1, 2], [3, -1, 0, 3, -1, -1, 3, -1]])
    want = floats(2, 6)
    for row, seen in zip(want, ids, strict=True):
        for start in range(len(seen) - 2):
            token = seen[start + 2]
            if (seen[start : start + 2] == seen[-2:]).all() and 0 <= token < 6:
                row[token] = -np.inf
    for opened in (False, True):
        model = made("NGramRepeatBlock", [ids, floats(2, 6)], 1, 17, (), "com.microsoft", ngram_size=3)
        dims = [value.type.tensor_type.shape.dim for value in model.graph.input]
        if opened:
            dims[0][0].dim_param = dims[1][0].dim_param = "B"
            dims[0][1].dim_param = "L"
        assert np.array_equal(tl.load_onnx(model).compile()(ids, floats(2, 6)), want)
    assert np.isinf(want).sum() == 2


def shared(model, named, caches=("x5", "x6")):
    """What onnxruntime makes of inputs, of which it writes the caches."""
    peer = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = {n: runtime.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in named.items()}
    binding = peer.io_binding()
    for n, v in values.items():
        binding.bind_ortvalue_input(n, v)
    binding.bind_output("y0")
    for out, name in zip(("y1", "y2"), caches, strict=True):
        binding.bind_ortvalue_output(out, values[name])
    peer.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()


def test_one_query_in_a_cache_of_a_fixed_size():
    new = [floats(2, 1, 16, seed=s) for s in range(3)]
    past, place = [floats(2, 4, 6, 4, seed=s) for s in (3, 4)], np.array([3], "int32")
    how = {"num_heads": 4, "past_present_share_buffer": 1}
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], "int32")
    for m, bias in ((None, None), (mask, None), (None, floats(48, seed=5))):
        given = [*new, m, None, *past, place, *([None, None, bias] if bias is not None else [])]
        model = made("DecoderMaskedMultiHeadAttention", given, 3, 17, (), "com.microsoft", range(12), **how)
        model.ir_version = 8
        named = {f"x{i}": a for i, a in enumerate(given) if a is not None}
        for x, wanted in zip(
            tl.load_onnx(model).compile().run(named).values(), shared(model, named), strict=True
        ):
            np.testing.assert_allclose(x, wanted, rtol=1e-4, atol=1e-5)
    given = [*new, None, None, *past, place]
    grown = [p[:, :, :3] for p in past]
    model = made(
        "DecoderMaskedMultiHeadAttention", [*new, None, None, *grown], 3, 17, (), "com.microsoft", num_heads=4
    )
    names = dict(zip(("x0", "x1", "x2", "x5", "x6"), (*new, *grown), strict=True))
    y, keys, _ = tl.load_onnx(model).compile().run(names).values()
    fixed = made("DecoderMaskedMultiHeadAttention", given, 3, 17, (), "com.microsoft", **how)
    names |= {"x5": past[0], "x6": past[1], "x7": place}
    z, present, _ = tl.load_onnx(fixed).compile().run(names).values()
    np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6)
    assert np.array_equal(keys, present[:, :, :4]) and np.array_equal(present[:, :, 4:], past[0][:, :, 4:])


B, L, HEADS, K, D, P = 2, 3, 4, 2, 16, 5
GROUPS = {"num_heads": HEADS, "kv_num_heads": K}


def grouped(length, past):
    """Inputs up to the cache's lengths."""
    new = [floats(B, length, n * D, seed=s) for s, n in enumerate((HEADS, K, K))]
    lengths = np.full(B, length - 1 + (0 if past is None else past[0].shape[2]), "int32")
    kept = [np.zeros((B, K, 0, D), "float32")] * 2 if past is None else past
    return [*new, *kept, lengths, np.array(lengths[0] + 1, "int32"), None, None, None, None]


def test_grouped_queries_with_a_score_of_nothing():
    sink = floats(HEADS, seed=7)
    agree("GroupQueryAttention", grouped(L, None), 3, smooth_softmax=1, **GROUPS)
    agree("GroupQueryAttention", [*grouped(L, None), sink], 3, **GROUPS)
    past = [floats(B, K, P, D, seed=s) for s in (3, 4)]
    agree("GroupQueryAttention", [*grouped(1, past), sink], 3, local_window_size=3, **GROUPS)
    agree("GroupQueryAttention", grouped(L, None), 3, causal=0, **GROUPS)
    agree("GroupQueryAttention", grouped(L, None), 4, qk_output=2, **GROUPS)


def test_norms_of_the_heads_of_grouped_queries():
    given, w = grouped(L, None), [floats(D, seed=s) for s in (5, 6)]
    model = lambda a: made("GroupQueryAttention", a, 1, 17, (), "com.microsoft", range(len(a)), **GROUPS)
    run = lambda a: (
        tl.load_onnx(model(a)).compile().run({f"x{i}": x for i, x in enumerate(a) if x is not None})
    )
    got = run([*given, None, None, None, *w])["y0"]

    def normed(x, scale):
        heads = x.reshape(B, L, -1, D)
        return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * scale).reshape(x.shape)

    np.testing.assert_allclose(
        got, run([normed(given[0], w[0]), normed(given[1], w[1]), *given[2:]])["y0"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("each", [False, True])
def test_grouped_queries_with_a_cache_of_whole_numbers(each):
    scale = np.abs(floats(1, K, 1, D)) * 0.02 + 0.01 if each else np.array([0.02], "float32")
    scale = scale.astype("float32")
    kind = "PER_CHANNEL" if each else "PER_TENSOR"
    how = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8, **GROUPS}
    past = [whole(B, K, P, D, kind="int8", seed=s) for s in (3, 4)]
    agree("GroupQueryAttention", [*grouped(1, past), None, scale, scale * 2], 3, **how)
    empty = [p[:, :, :0] for p in past]
    agree("GroupQueryAttention", [*grouped(L, empty), None, scale, scale * 2], 3, **how)


@pytest.mark.parametrize("layout", [0, 1])
def test_places_in_time_height_and_width(layout):
    rng = np.random.default_rng(0)
    x, places = floats(2, 5, 32), rng.integers(0, 9, (3, 2, 5))
    tables = [floats(9, 8, seed=s) for s in (1, 2)]
    how = {"mrope_section": [3, 3, 2], "mrope_layout": layout}
    agree("MRotaryEmbedding", [x, places, *tables], num_heads=2, **how)
    heads = floats(2, 4, 5, 16, seed=3)
    agree("MRotaryEmbedding", [heads, places, *tables], **how)


@pytest.mark.parametrize(("past", "new"), [(0, 50), (40, 1)])
@pytest.mark.parametrize("turned", [0, 1])
def test_attention_to_some_blocks_of_a_cache(past, new, turned):
    size, most = 16, 64
    rows = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], "int32")
    columns = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], "int32")
    fresh = [floats(B, new, n * D, seed=s) for s, n in enumerate((HEADS, K, K))]
    caches = [floats(B, K, most, D, seed=s) for s in (3, 4)]
    total = np.array([past + new], "int32")
    tables = [floats(most, D // 2, seed=s) for s in (5, 6)] if turned else []
    given = [*fresh, *caches, rows, columns, total, np.full(B, past + new, "int32"), *tables]
    how = {"sparse_block_size": size, "do_rotary": turned, **GROUPS}
    model = made("SparseAttention", given, 3, 17, (), "com.microsoft", range(12), **how)
    model.ir_version = 8
    named = {f"x{i}": a for i, a in enumerate(given)}
    wanted = shared(model, named, ("x3", "x4"))
    for a, b in zip(tl.load_onnx(model).compile().run(named).values(), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
