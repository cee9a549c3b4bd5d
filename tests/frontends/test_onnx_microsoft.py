"""Operators of com.microsoft, beside onnxruntime, which is where they are defined."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import helper  # noqa: E402

import tensorlang as tl  # noqa: E402

from .beside import floats, made  # noqa: E402


def agree(op, arrays, outputs=1, rtol=1e-4, atol=1e-5, known=(), opset=None, **attrs):
    """Ours is what onnxruntime says; ``opset`` is an attribute."""
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    model = made(op, arrays, outputs, 17, known, "com.microsoft", range(len(arrays)), **attrs)
    model.ir_version = 8
    if opset is not None:
        model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in known}
    options = runtime.SessionOptions()
    # processors without VNNI saturate sums of two products of bytes otherwise
    options.add_session_config_entry("session.x64quantprecision", "1")
    peer = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = tl.load_onnx(model).compile().run(given)
    for name, b in zip(got, peer.run(None, given), strict=True):
        a = got[name]
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind in "iu":
            assert np.abs(a.astype(int) - b.astype(int)).max() <= 1, "a tie may be rounded either way"
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def test_products():
    agree("FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4, seed=1)], transA=1, transB=1, alpha=0.5)
    x, w, b = floats(1, 3, 5, 5), floats(4, 3, 3, 3, seed=1), floats(4, seed=2)
    agree("FusedConv", [x, w, b], activation="Relu", kernel_shape=[3, 3], pads=[1] * 4)
    agree("FusedGemm", [floats(3, 4), floats(4, 2), floats(2)], activation="Relu")


def test_quantised_products():
    b, scale = np.arange(-10, 10, dtype="int8").reshape(4, 5), np.array([0.03], "float32")
    agree("DynamicQuantizeMatMul", [floats(3, 4), b, scale, None, floats(5, seed=2)])
    a, zero = np.arange(12, dtype="uint8").reshape(3, 4), np.array([3], "uint8")
    agree("MatMulIntegerToFloat", [a, b, scale, scale * 2, zero, None, floats(5, seed=2)])


@pytest.mark.parametrize("zeros", [False, True])
def test_weights_of_four_bits(zeros):
    rng = np.random.default_rng(0)
    n, k, block = 5, 40, 16
    b = rng.integers(0, 256, (n, 3, block // 2)).astype("uint8")
    scales = floats(n, 3)
    z = rng.integers(0, 256, (n, 2)).astype("uint8") if zeros else None
    known = [1, 2, 3] if zeros else [1, 2]
    agree(
        "MatMulNBits",
        [floats(2, k), b, scales, z],
        K=k,
        N=n,
        bits=4,
        block_size=block,
        known=known,
        atol=1e-4,
    )


def test_normalisations_and_activations():
    x, skip, g, b = floats(2, 3, 8), floats(2, 3, 8, seed=1), floats(8, seed=2), floats(8, seed=3)
    agree("SkipLayerNormalization", [x, skip, g, b, g], epsilon=1e-5)
    agree("SkipSimplifiedLayerNormalization", [x, skip, g], epsilon=1e-5)
    agree("BiasGelu", [x, g])
    agree("FastGelu", [x, g])
    agree("Gelu", [x])
    agree("QuickGelu", [x], alpha=1.5)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_a_packed_weight(causal):
    x, w, b = floats(2, 4, 8), floats(8, 24, seed=1), floats(24, seed=2)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
    agree("Attention", [x, w, b, mask], num_heads=2, unidirectional=causal)
    agree("Attention", [x, w, b], num_heads=2, unidirectional=causal)


def test_attention_of_many_heads():
    q, k, v = floats(2, 3, 8), floats(2, 5, 8, seed=1), floats(2, 5, 8, seed=2)
    agree("MultiHeadAttention", [q, k, v, floats(24, seed=3)], num_heads=2)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")
    agree("MultiHeadAttention", [q, k, v, None, mask, floats(2, 2, 3, 5, seed=5)], num_heads=2)


def test_lengths_of_keys_beside_numbers_that_are_added():
    x, w, b = floats(2, 4, 8), floats(8, 24, seed=1), floats(24, seed=2)
    lengths, added = np.array([3, 4], "int32"), floats(2, 2, 4, 4, seed=3)
    agree("Attention", [x, w, b, lengths], num_heads=2)
    agree("Attention", [x, w, b, lengths, None, added], num_heads=2)
    agree("MultiHeadAttention", [x, x, x, None, lengths, added], num_heads=2)


def test_rotary_embedding():
    x, angles = floats(2, 3, 16), floats(7, 4, seed=1)
    for positions in (np.array([[0, 3, 2], [6, 5, 1]]), np.array([2])):
        agree("RotaryEmbedding", [x, positions, np.cos(angles), np.sin(angles)])


def test_embeddings():
    ids = np.array([[1, 2, 0], [3, 3, 1]], "int32")
    tables = [floats(4, 8), floats(6, 8, seed=1), floats(2, 8, seed=2)]
    agree("EmbedLayerNormalization", [ids, ids % 2, *tables, floats(8, seed=3), floats(8, seed=4)], 2)


def test_quantised_elements():
    scale, zero = np.array(0.1, "float32"), np.array(120, "uint8")
    a, b = (np.random.default_rng(s).integers(0, 256, (2, 3, 4, 4)).astype("uint8") for s in range(2))
    for op in ("QLinearAdd", "QLinearMul"):
        agree(op, [a, scale, zero, b, scale * 2, zero, scale * 3, zero])
    agree(
        "QLinearSigmoid",
        [a, scale, zero, np.array(1 / 256, "float32"), np.array(0, "uint8")],
        known=[1, 2, 3, 4],
    )
    agree("QLinearLeakyRelu", [a, scale, zero, scale, zero], known=[1, 2, 3, 4])
    agree("QLinearGlobalAveragePool", [a, scale, zero, scale, zero])
    agree("QLinearConcat", [scale, zero, a, scale, zero, b, scale * 2, zero], axis=1)


def test_quantised_pools_and_softmax():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1, 3, 6, 7)).astype("uint8")
    scale, zero, out, at = np.float32(0.05), np.uint8(90), np.float32(0.04), np.uint8(100)
    given = [x, scale, zero, out, at]
    for more in ({}, {"count_include_pad": 1}, {"ceil_mode": 1}):
        agree("QLinearAveragePool", given, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], **more)
    agree("QLinearAveragePool", given, kernel_shape=[2, 2], channels_last=1)
    small = [np.float32(1 / 256), np.uint8(0)]
    for axis, opset in ((-1, 13), (1, 13), (1, 11), (2, 12)):
        agree("QLinearSoftmax", [x, scale, zero, *small], axis=axis, opset=opset, known=[1, 2, 3, 4])


@pytest.mark.parametrize(("direction", "each"), [("forward", False), ("bidirectional", True)])
def test_a_recurrent_layer_of_whole_numbers(direction, each):
    """One sequence: onnxruntime rounds states of a batch in as many parts as it has threads."""
    rng, d, n, h = np.random.default_rng(0), 1 + (direction == "bidirectional"), 5, 6
    w, r = (rng.integers(-100, 100, (d, k, 4 * h)).astype("int8") for k in (n, h))
    form = (d, 4 * h) if each else (d,)
    scales = [rng.uniform(0.001, 0.01, form).astype("float32") for _ in range(2)]
    zeros = [np.zeros(form, "int8") for _ in range(2)]
    first = [floats(d, 1, h, seed=s) for s in (5, 6)]
    given = [
        floats(7, 1, n),
        w,
        r,
        floats(d, 8 * h),
        None,
        *first,
        None,
        scales[0],
        zeros[0],
        scales[1],
        zeros[1],
    ]
    agree("DynamicQuantizeLSTM", given, 3, known=[1, 2, 8, 9, 10, 11], hidden_size=h, direction=direction)


@pytest.mark.each_value
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize(("past", "new", "window"), [(0, 5, -1), (4, 1, -1), (6, 1, 3), (0, 6, 2)])
def test_grouped_queries(rotary, past, new, window):
    b, d, heads, groups = 2, 16, 4, 2
    q, k, v = (floats(b, new, n * d, seed=i) for i, n in enumerate((heads, groups, groups)))
    cache = [floats(b, groups, past, d, seed=7 + i) for i in range(2)]
    last, total = np.full(b, past + new - 1, "int32"), np.array(past + new, "int32")
    angles = floats(32, d // 2, seed=9)
    tables = [np.cos(angles), np.sin(angles)] if rotary else [None, None]
    given = [q, k, v, *cache, last, total, *tables]
    how = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": rotary, "local_window_size": window}
    agree("GroupQueryAttention", given, 3, **how)
    if past == 0 and window < 0:
        packed = np.concatenate([q, k, v], 2)
        agree("GroupQueryAttention", [packed, None, None, *given[3:]], 3, **how)
