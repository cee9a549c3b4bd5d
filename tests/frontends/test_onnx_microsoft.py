"""Operators of com.microsoft, beside onnxruntime, which is where they are defined."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
import tensorlang as tl  # noqa: E402

from .beside import floats, made  # noqa: E402


def agree(op, arrays, outputs=1, rtol=1e-4, atol=1e-5, known=(), **attrs):
    """Ours is what onnxruntime says."""
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    model = made(op, arrays, outputs, 17, known, "com.microsoft", range(len(arrays)), **attrs)
    model.ir_version = 8
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in known}
    peer = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
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
