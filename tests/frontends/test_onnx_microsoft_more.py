"""Operators of com.microsoft that quantisers, older exporters and builders of language models write, beside
onnxruntime, which is where they are defined."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import tensorlang as tl

from .beside import floats, made
from .test_onnx_microsoft import agree


def whole(*shape, kind="uint8", seed=0, low=0, high=256):
    """Some whole numbers."""
    low, high = (-100, 100) if kind == "int8" else (low, high)
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


S, Z = np.array(0.02, "float32"), np.array(120, "uint8")


@pytest.mark.parametrize("each", [False, True])
def test_attention_of_whole_numbers(each):
    x, w, b = whole(2, 4, 8), whole(8, 24, kind="int8", seed=1), floats(24, seed=2)
    ws = np.linspace(0.005, 0.02, 24, dtype="float32") if each else np.array(0.01, "float32")
    wz = np.zeros(24, "int8") if each else np.array(3, "int8")
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "int32")
    agree("QAttention", [x, w, b, S, ws, mask, Z, wz], num_heads=2, known=[1, 2, 4, 7])


def test_products_of_whole_numbers_with_a_sum():
    a, b, c = (
        whole(3, 4),
        whole(5, 4, kind="int8", seed=1),
        whole(5, kind="int32", seed=2, low=-900, high=900),
    )
    bs, bz = np.linspace(0.01, 0.03, 5, dtype="float32"), np.zeros(5, "int8")
    given = [a, S, Z, b, bs, bz, c]
    agree("QGemm", [*given, np.array(0.5, "float32"), Z], transB=1, alpha=1.5, known=[3, 4, 5, 6])
    agree("QGemm", given, transB=1, known=[3, 4, 5, 6])


def test_embeddings_of_whole_numbers():
    ids = np.array([[1, 2, 0], [3, 3, 1]], "int32")
    tables = [whole(n, 8, seed=n) for n in (4, 6, 2)]
    vectors = [whole(8, seed=s) for s in (7, 8)]
    scales = [np.array(0.01 * k, "float32") for k in range(1, 6)]
    zeros = [np.array(100 + k, "uint8") for k in range(5)]
    agree("QEmbedLayerNormalization", [ids, ids % 2, *tables, *vectors, None, *scales, *zeros], 2)


def test_a_choice_of_whole_numbers():
    x, y = whole(2, 3), whole(2, 3, seed=1)
    condition = np.array([[True, False, True], [False, True, False]])
    other = np.array(0.05, "float32")
    agree("QLinearWhere", [condition, x, S, Z, y, other, Z, other, Z], known=[2, 3, 5, 6, 7, 8])


@pytest.mark.parametrize("kind", ["int8", "uint16", "int16"])
def test_sixteen_bits(kind):
    x, zero = floats(2, 6), np.array(5, kind)
    agree("QuantizeLinear", [x, S, zero])
    agree("DequantizeLinear", [whole(2, 6, kind=kind), S, zero])


def test_channels_at_the_end():
    x, w = whole(1, 6, 7, 4), whole(5, 4, 3, 3, kind="int8", seed=1)
    ws, wz = np.linspace(0.01, 0.03, 5, dtype="float32"), np.zeros(5, "int8")
    b = whole(5, kind="int32", seed=2, low=-900, high=900)
    given = [x, S, Z, w, ws, wz, S * 20, Z, b]
    how = {"channels_last": 1, "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    agree("QLinearConv", given, known=[1, 2, 3, 4, 5, 6, 7, 8], **how)
    agree("NhwcMaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 1, 1, 0])


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_pools_with_channels_at_the_end(kind):
    x, zero = whole(2, 9, 7, 5, kind=kind), np.array(3, kind)
    for how in ({"auto_pad": "SAME_LOWER"}, {"pads": [1, 0, 2, 1], "ceil_mode": 1}):
        agree("NhwcMaxPool", [x], kernel_shape=[3, 2], strides=[2, 3], **how)
    given = [x, S, zero, S * 2, zero]
    for how in ({"pads": [1, 0, 1, 1]}, {"pads": [1, 0, 1, 1], "count_include_pad": 1}, {"ceil_mode": 1}):
        agree("QLinearAveragePool", given, kernel_shape=[3, 2], strides=[2, 3], channels_last=1, **how)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_a_table_of_few_bits(bits, zeros):
    rows, width, block, each = 6, 32, 16, 8 // bits
    data, scales = whole(rows, width // each), floats(rows, width // block)
    z = whole(rows, width // block // each, seed=3) if zeros else None
    indices = np.array([[0, 5, 2], [1, 1, 4]])
    how = {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
    agree("GatherBlockQuantized", [data, indices, scales, z], known=[0, 2, 3] if zeros else [0, 2], **how)


@pytest.mark.parametrize("kind", [0, 1])
def test_weights_of_four_bit_floats(kind):
    n, k, block = 6, 32, 16
    b, largest = whole(n * k // 2), np.abs(floats(n * k // block)) + 0.1
    how = {"N": n, "K": k, "block_size": block, "quant_type": kind}
    agree("MatMulBnb4", [floats(3, k), b, largest], known=[1, 2], atol=1e-4, **how)


def test_names_of_their_own():
    agree("Trilu", [floats(2, 4, 5), np.array(1)], known=[1], upper=0)
    agree("GatherND", [floats(3, 4), np.array([[0, 1], [2, 3]])])
    agree("GridSample", [floats(1, 2, 4, 4), floats(1, 3, 3, 2, seed=1)], mode="bilinear", align_corners=1)
    agree("Pad", [floats(2, 3), np.array([1, 0, 0, 2]), np.array(7, "float32")], known=[1], mode="constant")
    agree("ExpandDims", [floats(2, 3), np.array(1, "int32")], known=[1])
    agree("Unique", [np.array([2, 1, 1, 3, 4, 3], "float32")], 3)
    agree("Range", [np.array(v, "float32") for v in (1, 9, 3)], known=[0, 1, 2])
    agree("Inverse", [floats(2, 3, 3)], rtol=1e-3, atol=1e-4)
    agree("UnfoldTensor", [floats(2, 9)], dim=1, size=3, step=2)


@pytest.mark.parametrize("n", [1, 8, 32, 33])
def test_inverses_by_a_kernel_and_by_a_function(n):
    """Up to 32 rows a kernel inverts all matrices at once, larger ones go to LAPACK."""
    x = floats(3, n, n) + 2 * n**0.5 * np.eye(n, dtype="float32")[::-1]
    agree("Inverse", [x], rtol=1e-3, atol=1e-4)
    det = tl.load_onnx(made("Det", [x], 1, 17, closed=(0,))).compile()
    np.testing.assert_allclose(det(x), np.linalg.det(x.astype("float64")), rtol=1e-4)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_between_rows(metric):
    agree("CDist", [floats(4, 3), floats(5, 3, seed=1)], metric=metric)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1)])
def test_parts_of_images_in_one_size(mode, size):
    boxes = np.array([[0, 0, 1, 1], [0.12, 0.2, 0.71, 0.9], [-0.2, 0.3, 1.3, 0.5]], "float32")
    given = [floats(2, 3, 6, 7), boxes, np.array([0, 1, 1], "int32"), np.array(size, "int32")]
    agree("CropAndResize", given, known=[3], mode=mode, extrapolation_value=0.5)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule):
    b, t, heads, d = 2, 3, 2, 4
    q, k, v = (floats(b, t, heads * d, seed=s) for s in range(3))
    k = k / 4
    decay = -np.abs(floats(b, t, heads * d, seed=4)) if "gated" in rule else None
    beta = np.abs(floats(b, t, heads, seed=5)) / 4 if "delta" in rule else None
    given = [q, k, v, floats(b, heads, d, d, seed=6), decay, beta]
    agree("LinearAttention", given, 2, q_num_heads=heads, kv_num_heads=heads, update_rule=rule)


def test_a_causal_convolution_with_a_state():
    x, w, b, past = floats(2, 3, 5), floats(3, 1, 4, seed=1), floats(3, seed=2), floats(2, 3, 3, seed=3)
    agree("CausalConvWithState", [x, w, b, past], 2, activation="silu")


def test_what_a_recurrence_leaves_out_is_told():
    m = made(
        "CausalConvWithState",
        [floats(2, 3, 5), floats(3, 1, 4)],
        2,
        21,
        (),
        "com.microsoft",
        (0, 1),
        dilation=2,
    )
    with pytest.raises(tl.TensorLangError, match="dilation=2 is not supported"):
        tl.load_onnx(m)
