"""ONNX's convolutions, pools, normalisations, other sizes and quantised numbers beside onnx's reference in
numpy. onnx's own backend tests cover more of each; here sizes are open."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

pytest.importorskip("onnx")
from .beside import agree, floats, made, ran


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_margins_by_a_rule_at_open_sizes(auto_pad):
    for size in (7, 8):
        x, w = floats(2, 3, size, 9), floats(4, 3, 3, 2, seed=1)
        agree("Conv", [x, w], known=[1], auto_pad=auto_pad, strides=[2, 2], rtol=1e-4, atol=1e-5)


def test_max_pool_of_the_same_size_at_open_sizes():
    agree("MaxPool", [floats(1, 2, 7, 6)], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")


@pytest.mark.parametrize("include", [0, 1])
def test_means_over_margins_at_open_sizes(include):
    agree(
        "AveragePool",
        [floats(1, 2, 7, 6)],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        count_include_pad=include,
    )


def test_means_of_the_same_size_at_open_sizes():
    """The margins are not elements: a window at the border counts what is inside."""
    x = np.ones((1, 1, 5, 6), "float32")
    _, (y,), *_ = ran("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    assert y.shape == (1, 1, 3, 3) and np.array_equal(y, np.ones_like(y))


def test_a_transposed_convolution_to_a_shape():
    x, w = floats(1, 2, 3, 3), floats(2, 3, 3, 3, seed=1)
    how = {"known": [1], "closed": [0], "rtol": 1e-4, "atol": 1e-5}
    agree("ConvTranspose", [x, w], strides=[3, 2], output_shape=[10, 8], output_padding=[1, 1], **how)
    agree("ConvTranspose", [x, w], strides=[2, 2], auto_pad="SAME_UPPER", **how)


def test_where_the_largest_elements_stood():
    """Down and up again: the largest elements at their places."""
    x = np.arange(32, dtype="float32").reshape(1, 2, 4, 4)
    _, (y, i), *_ = ran("MaxPool", [x], 2, kernel_shape=[2, 2], strides=[2, 2])
    assert np.array_equal(x.reshape(-1)[i], y)
    _, (z,), *_ = ran("MaxUnpool", [y, i], kernel_shape=[2, 2], strides=[2, 2])
    assert np.array_equal(z, np.where(np.isin(x, y), x, 0))


def test_the_largest_of_regions():
    x = np.arange(2 * 1 * 6 * 6, dtype="float32").reshape(2, 1, 6, 6)
    boxes = np.array([[1, 0, 0, 5, 5], [0, 2, 1, 3, 4]], "float32")
    _, (y,), *_ = ran("MaxRoiPool", [x, boxes], pooled_shape=[2, 2])
    assert np.array_equal(y[0, 0], x[1, 0].reshape(2, 3, 2, 3).max((1, 3)))
    assert np.array_equal(y[1, 0], x[0, 0, 1:5, 2:4].reshape(2, 2, 2, 1).max((1, 3)))


def test_a_batch_norm_in_training():
    x, p = floats(3, 2, 5), [floats(2, seed=s) for s in range(3)]
    agree("BatchNormalization", [x, *p, abs(p[2])], 3, training_mode=1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_layer_norms_with_their_statistics(axis):
    x = floats(2, 3, 4)
    scale, bias = floats(*x.shape[axis:], seed=1), floats(*x.shape[axis:], seed=2)
    agree("LayerNormalization", [x, scale, bias], 3, closed=[0, 1, 2], axis=axis, rtol=1e-4, atol=1e-5)


def test_other_norms():
    x = floats(2, 4, 3, 3)
    agree("InstanceNormalization", [x, floats(4), floats(4, seed=1)], rtol=1e-4, atol=1e-5)
    agree("LpNormalization", [x * (x > 0)], axis=1, p=2)
    agree("LRN", [floats(4, 4, 3, 3)], size=3, alpha=0.1)  # the reference walks over N channels, not C
    scale = floats(2, seed=1)
    _, (y,), *_ = ran("GroupNormalization", [x, scale, scale], opset=18, closed=[0, 1, 2], num_groups=2)
    _, (z,), *_ = ran(
        "GroupNormalization", [x, scale.repeat(2), scale.repeat(2)], closed=[0, 1, 2], num_groups=2
    )
    np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_other_sizes(mode):
    x = floats(1, 2, 4, 5)
    scales = np.array([1, 1, 1.5, 0.6], "float32")
    how = {"known": [2], "rtol": 1e-4, "atol": 1e-5}
    agree("Resize", [x, None, scales], mode=mode, coordinate_transformation_mode="asymmetric", **how)
    agree("Upsample", [x, np.array([1, 1, 2, 3], "float32")], opset=9, known=[1], mode="nearest")


def test_quantised_numbers():
    x, scale = floats(2, 3), np.array([0.1, 0.2, 0.05], "float32")
    zero = np.array([3, 128, 5], "uint8")
    agree("QuantizeLinear", [x, scale, zero], axis=1)
    agree("DequantizeLinear", [(x * 50 + 128).astype("uint8"), scale, zero], axis=1)
    agree("DynamicQuantizeLinear", [x], 3)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_at_open_lengths(op):
    """Both orders of dimensions; onnx's reference knows one direction only."""
    gates, h = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 3
    w, r = floats(1, gates * h, 2, seed=1), floats(1, gates * h, h, seed=2)
    x, b = floats(4, 2, 2), floats(1, 2 * gates * h, seed=3)
    states = 3 if op == "LSTM" else 2
    _, straight, *_ = ran(op, [x, w, r, b], states, known=[1, 2, 3], hidden_size=h)
    _, turned, *_ = ran(
        op, [x.swapaxes(0, 1).copy(), w, r, b], states, known=[1, 2, 3], hidden_size=h, layout=1
    )
    np.testing.assert_array_equal(straight[0].transpose(2, 0, 1, 3), turned[0])
    np.testing.assert_array_equal(straight[1].swapaxes(0, 1), turned[1])
    agree(op, [x, w, r, b], 2, known=[1, 2, 3], hidden_size=h, rtol=1e-4, atol=1e-5)


def test_the_best_in_order_and_the_best_boxes():
    """What is chosen by the elements has as many rows as they say."""
    agree("TopK", [floats(3, 7), np.array([4])], 2, known=[1], axis=1)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], "float32")
    scores = np.array([[[0.9, 0.75, 0.6]]], "float32")
    for threshold, rows in ((0.5, 2), (0.95, 3)):
        arrays = [boxes, scores, np.array([3]), np.array([threshold], "float32")]
        _, (y,), *_ = ran("NonMaxSuppression", arrays, known=[2])
        assert y.shape == (rows, 3) and y.dtype == np.int64


def test_an_operator_that_the_standard_defines_by_others():
    """CausalConvWithState is not an entry of the table: its function is taken from the standard."""
    x, w = floats(2, 3, 5), floats(3, 1, 4, seed=1)
    agree("CausalConvWithState", [x, w], 2, opset=27, closed=[0, 1], whole=True, rtol=1e-4, atol=1e-5)


def test_cubic_samples_beyond_the_border_blend_it():
    """As torch and onnxruntime have it: each neighbour is kept within the border, not the place."""
    image = np.array([[[[0, 4, 8]]]], "float32")
    grid = np.array([[[[-1.25, 0], [-2, 0], [-9e9, 0], [1.25, 0]]]], "float32")
    m = made("GridSample", [image, grid], mode="cubic", padding_mode="border", align_corners=1)
    found = tl.load_onnx(m).compile(level=0)(image, grid)
    weight = -0.75 * (1.25**3 - 5 * 1.25**2 + 8 * 1.25 - 4)  # of the second element at a place of -1/4
    np.testing.assert_allclose(found.ravel(), [4 * weight, 0, 0, 8 - 4 * weight], atol=1e-5)


def test_the_middle_of_one_element_that_is_left():
    """pytorch_half_pixel takes the first element where the size becomes 1, also by a scale of a bit more."""
    x = np.arange(3, dtype="float32").reshape(1, 1, 1, 3)
    how = {"mode": "nearest", "coordinate_transformation_mode": "pytorch_half_pixel", "nearest_mode": "ceil"}
    m = made("Resize", [x, None, np.array([1, 1, 1, 0.5], "float32")], known=[2], **how)
    assert tl.load_onnx(m).compile(level=0)(x).tolist() == [[[[0]]]]


def test_nearest_elements_as_they_were_in_opset_10():
    """A size that shrinks takes the element after the place; ties of decimals such as 0.7 stay ties."""
    x = np.arange(6, dtype="float32").reshape(1, 1, 1, 6)
    m = made("Resize", [x, np.array([1, 1, 2, 0.6], "float32")], opset=10, known=[1], mode="nearest")
    assert tl.load_onnx(m).compile(level=0)(x).tolist() == [[[[0, 2, 4]] * 2]]
    m = made("Resize", [x, None, np.array([1, 1, 1, 0.7], "float32")], known=[2], mode="nearest")
    assert tl.load_onnx(m).compile(level=0)(x).tolist() == [[[[0, 2, 3, 4]]]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_samples_at_places_of_a_grid(mode):
    grid = np.random.default_rng(1).uniform(-1.2, 1.2, (2, 3, 4, 2)).astype("float32")
    agree("GridSample", [floats(2, 3, 5, 6), grid], closed=[1], mode=mode, rtol=1e-3, atol=1e-4)


def test_windows_laid_back():
    """Each element of an image is in as many windows as cover it."""
    columns = np.ones((1, 4, 6), "float32")
    _, (y,), *_ = ran("Col2Im", [columns, np.array([3, 4]), np.array([2, 2])], known=[1, 2], closed=[0])
    rows, across = np.array([1, 2, 1]), np.array([1, 2, 2, 1])
    assert np.array_equal(y[0, 0], np.outer(rows, across))
