"""Operators of com.microsoft that fuse small steps: beside onnxruntime where it has them for this processor,
else beside what their description says, in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import tensorlang as tl

from .beside import floats, made
from .test_onnx_microsoft import agree
from .test_onnx_microsoft_more import whole


def ours(op, arrays, outputs=1, known=(), **attrs):
    """What ours makes of a node, sizes open."""
    model = made(op, arrays, outputs, 17, known, "com.microsoft", **attrs)
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None and i not in known}
    results = list(tl.load_onnx(model).compile().run(given).values())
    return results[0] if outputs == 1 else results


def near(a, b, tolerance=1e-5):
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return (0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))).astype(x.dtype)


def softmax(x, axes):
    e = np.exp(x - x.max(axes, keepdims=True))
    return e / e.sum(axes, keepdims=True)


def grouped(x, gamma, beta, groups, silu, eps=1e-5):
    """Channels at the end."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h * w, groups, c // groups).astype("float64")
    mean, var = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    y = ((parts - mean) / np.sqrt(var + eps)).reshape(x.shape) * gamma + beta
    return (y * sigmoid(y) if silu else y).astype(x.dtype)


# --- beside onnxruntime


def test_gates():
    x, y = floats(2, 3, 8), floats(2, 3, 8, seed=1)
    agree("GatedAdd", [x, y, floats(2, 3, 1, seed=2)])
    agree("ScaledSiLU", [x], alpha=0.7)
    agree("ScaledSiLU", [x, np.array(1.5, "float32")])
    gates = [floats(2, 3, 4), floats(4, seed=1), floats(4, seed=2), floats(2, 3, 4, seed=3)]
    agree("LinearAttentionGate", gates, 2)
    agree("LinearAttentionGate", gates[:3])


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_gated_norms_of_parts_of_rows(activation):
    agree("GatedRMSNorm", [floats(2, 3, 8), floats(4), floats(2, 3, 8, seed=1)], activation=activation)


@pytest.mark.parametrize("scale", [(8,), (2, 4), (4,), None])
def test_norms_of_branches(scale):
    given = [] if scale is None else [floats(*scale, seed=3)]
    agree("BranchwiseRMSNorm", [floats(3, 8), *given], num_branches=2)
    if scale != (8,):
        agree("BranchwiseRMSNorm", [floats(3, 2, 4), *given])


def test_streams_are_mixed():
    x, block, mix = floats(2, 3, 4, 8), floats(2, 3, 8, seed=1), floats(2, 3, 4, 4, seed=2)
    for gate in (floats(2, 3, 4, seed=3), floats(2, 3, 4, 8, seed=4)):
        agree("HyperConnectionPreMix", [x, gate], reduction_scale=0.5)
        agree("HyperConnectionPostMix", [x, block, gate, mix])
        agree("HyperConnectionPostMix", [x.reshape(2, 3, 32), block, gate], num_branches=4)


def test_engram_gates():
    given = [floats(2, 3, 4, 8, seed=s) for s in (0, 1)] + [floats(2, 3, 8, seed=2)]
    scales = [floats(4, 8, seed=s) for s in (3, 4, 5)]
    agree("EngramGate", [*given, *scales[:2]])
    agree("EngramGate", [*given, *scales], 2, epsilon=1e-3)


def test_sixteen_bit_products_and_padding_that_is_given():
    agree("MatMulInteger16", [whole(3, 4, kind="int16"), whole(4, 5, kind="int16", seed=1)])
    x, w, pads = floats(1, 2, 5, 5), floats(2, 3, 3, 3, seed=1), np.array([1, 0, 0, 1])
    agree("ConvTransposeWithDynamicPads", [x, w, pads, floats(3)], known=[2], strides=[2, 2])
    agree("SampleOp", [x])


# --- beside numpy


def test_biases():
    x, b, s = floats(2, 3, 8), floats(8, seed=1), floats(2, 3, 8, seed=2)
    near(ours("BiasAdd", [x, b, s]), x + b + s)
    y, mask = ours("BiasDropout", [x, b, s], 2)
    near(y, x + b + s)
    assert mask.all() and mask.shape == x.shape
    left, right = np.split(x + b, 2, -1)
    near(ours("BiasSplitGelu", [x, b]), left * gelu(right))


def test_softmax_with_a_bias():
    x = floats(2, 3, 4, 5)
    inner, outer = floats(2, 5, seed=1), floats(4, 5, seed=2)
    near(ours("BiasSoftmax", [x, inner], axis=3, is_inner_broadcast=1), softmax(x + inner[:, None, None], 3))
    near(
        ours("BiasSoftmax", [x, inner[:, None, None]], axis=3, is_inner_broadcast=1),
        softmax(x + inner[:, None, None], 3),
    )
    near(ours("BiasSoftmax", [x, outer], axis=2, is_inner_broadcast=0), softmax(x + outer, (2, 3)))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("silu", [0, 1])
def test_group_norms(last, silu):
    x, gamma, beta = floats(2, 3, 5, 8), floats(8, seed=1), floats(8, seed=2)
    turned = lambda a: a if last else np.ascontiguousarray(a.transpose(0, 3, 1, 2))
    how = {"groups": 4, "activation": silu, "channels_last": last}
    near(ours("GroupNorm", [turned(x), gamma, beta], **how), turned(grouped(x, gamma, beta, 4, silu)), 1e-4)
    bias, each = floats(8, seed=3), floats(2, 8, seed=4)
    for skip in (turned(floats(2, 3, 5, 8, seed=5)), each):
        total = x + bias + (each[:, None, None] if skip is each else floats(2, 3, 5, 8, seed=5))
        y, s = ours("SkipGroupNorm", [turned(x), gamma, beta, skip, bias], 2, **how)
        near(s, turned(total))
        near(y, turned(grouped(total, gamma, beta, 4, silu)), 1e-4)


def test_a_group_norm_of_halves_with_wide_parameters():
    x, gamma, beta = floats(1, 2, 2, 4).astype("float16"), floats(4, seed=1), floats(4, seed=2)
    y = ours("GroupNorm", [x, gamma, beta], groups=2, activation=0)
    near(y, grouped(x.astype("float32"), gamma, beta, 2, 0).astype("float16"), 2e-3)


def test_convolutions_with_channels_at_the_end():
    x, w, b = floats(1, 5, 6, 4), floats(8, 2, 3, 3, seed=1), floats(8, seed=2)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    how = {"group": 2, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    model = made("Conv", [first, w, b], 1, 17, (), "", range(3), **how)
    wanted = tl.load_onnx(model).compile()(first, w, b).transpose(0, 2, 3, 1)
    near(ours("NhwcConv", [x, w, b], known=[1], **how), wanted)
    z = floats(*wanted.shape, seed=3)
    near(ours("NhwcFusedConv", [x, w, b, z], known=[1], activation="Relu", **how), np.maximum(wanted + z, 0))


def test_whole_numbers():
    x, s, z = whole(2, 3, 4), np.array(0.02, "float32"), np.array(120, "uint8")
    out = np.array(0.015, "float32")
    mean = ((x.astype(int) - 120) * np.float32(0.02)).mean((0, 2), dtype="float32", keepdims=True)
    wanted = np.clip(np.rint(mean / out) + 120, 0, 255).astype("uint8")
    got = ours("QLinearReduceMean", [x, s, z, out, z], axes=[0, -1], keepdims=1)
    assert got.shape == (1, 3, 1) and np.abs(got.astype(int) - wanted).max() <= 1
    signed = whole(2, 3, kind="int8", seed=1)
    for a, kind in ((x, "uint32"), (signed, "int32")):
        near(ours("ReduceSumInteger", [a], axes=[1], keepdims=0), a.sum(1).astype(kind))
    near(ours("MulInteger", [x, z, x[0], None]), ((x.astype("int32") - 120) * x[0].astype("int32")))


def test_what_is_finite():
    good, bad, none = floats(3), np.array([1, np.inf], "float32"), np.array([np.nan], "float32")
    for given, how, wanted in [
        ([good], {}, True),
        ([good, bad], {}, False),
        ([none], {}, False),
        ([bad], {"isnan_only": 1}, True),
        ([none], {"isinf_only": 1}, True),
    ]:
        assert ours("IsAllFinite", given, **how) == wanted


def test_products_with_what_follows():
    x, w, b = floats(3, 4), floats(4, 5, seed=1), floats(5, seed=2)
    y = x @ w + b
    tanh = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    near(ours("GemmFastGelu", [x, w, b]), tanh.astype("float32"))
    got = ours("FusedMatMulActivation", [x, w], activation="LeakyRelu", activation_alpha=0.1, alpha=2.0)
    y = 2 * (x @ w)
    near(got, np.where(y < 0, np.float32(0.1) * y, y))
    with pytest.raises(tl.TensorLangError, match=r"legal .*HardSigmoid"):
        ours("FusedMatMulActivation", [x, w], activation="Sinus")
    rows = np.array([[1, 0], [3, 1]])
    near(ours("TorchEmbedding", [x.T, rows]), x.T[rows])


def test_complex_products_and_transforms():
    a, b = floats(2, 6), floats(2, 6, seed=1)
    ca, cb = (np.ascontiguousarray(t).view("complex64") for t in (a, b))
    near(ours("ComplexMul", [a, b]), (ca * cb).view("float32"))
    near(ours("ComplexMulConj", [a, b]), (ca * cb.conj()).view("float32"))
    x = floats(2, 10)
    bins = np.fft.rfft(x)
    pairs = np.stack([bins.real, bins.imag], -1).astype("float32")
    near(ours("Rfft", [x]), pairs)
    near(ours("Irfft", [pairs], signal_ndim=1), x)


def test_turned_by_angles_that_are_given():
    emb, parts = floats(1, 3, 4), [floats(1, 2, 3, 4, seed=s).astype("float16") for s in range(1, 5)]
    got = ours("GemmaRotaryEmbedding", [emb, *parts], 2)
    s, c = (f(emb)[:, None].astype("float16") for f in (np.sin, np.cos))
    for y, (x, rot) in zip(got, (parts[:2], parts[2:]), strict=True):
        near(y, x * c + rot * s, 2e-3)


@pytest.mark.parametrize("both", [0, 1])
def test_biases_of_relative_positions(both):
    """T5's buckets, of which the table has the numbers head by head."""
    heads, buckets, most = 3, 8, 20
    columns = floats(heads, buckets)
    length = 30
    i, j = np.mgrid[:length, :length]
    half = buckets // 2 if both else buckets
    away = np.abs(i - j) if both else np.maximum(i - j, 0)
    exact = half // 2
    far = exact + np.log(np.maximum(away, 1) / exact) / np.log(most / exact) * (half - exact)
    found = np.where(away < exact, away, np.minimum(far.astype(int), half - 1))
    found = found + (half * (j > i) if both else 0)
    n = np.array([length])
    got = ours(
        "RelativePositionBias", [columns.reshape(buckets, heads), n, n],
        known=[1, 2], max_distance=most, is_bidirectional=both,
    )  # fmt: skip
    near(got, columns[:, found][None])
