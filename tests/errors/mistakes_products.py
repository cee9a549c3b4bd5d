"""Mistakes of calling products, convolutions, pools, attention and resize. Each function makes one; its last
statement is refused with a DeclareError."""

from __future__ import annotations

from tensorlang import ops, te

from .scene import Scene


def _t(t: Scene, name, *shape, dtype="float32"):
    return t.watch(te.placeholder(shape, dtype, name=name))


def matmul_whose_k_differs(t: Scene):
    a, b = _t(t, "A", 4, 7), _t(t, "B", 8, 5)
    ops.matmul(a, b)


def matmul_forgets_to_transpose(t: Scene):
    a, b = _t(t, "A", 4, 7), _t(t, "B", 5, 7)
    ops.matmul(a, b, transpose_a=True)


def matmul_of_batches_that_differ(t: Scene):
    a, b = _t(t, "A", 2, 4, 7), _t(t, "B", 3, 7, 5)
    ops.matmul(a, b)


def matmul_of_symbols_that_never_met(t: Scene):
    a, b = _t(t, "A", 4, te.var("k")), _t(t, "B", te.var("l"), 5)
    ops.matmul(a, b)


def matmul_of_a_number(t: Scene):
    a, b = _t(t, "A"), _t(t, "B", 7, 5)
    ops.matmul(a, b)


def matmul_transposes_a_vector(t: Scene):
    a, b = _t(t, "A", 7), _t(t, "B", 7, 5)
    ops.matmul(a, b, transpose_a=True)


def matmul_of_bools(t: Scene):
    a = _t(t, "A", 4, 4, dtype="bool")
    ops.matmul(a, a)


def matmul_into_no_dtype(t: Scene):
    a = _t(t, "A", 4, 4)
    ops.matmul(a, a, out_dtype="f32")


def batch_matmul_of_matrices(t: Scene):
    a, b = _t(t, "A", 4, 7), _t(t, "B", 7, 5)
    ops.batch_matmul(a, b)


def dense_with_the_other_weight_layout(t: Scene):
    x, w = _t(t, "x", 4, 7), _t(t, "w", 7, 5)
    ops.dense(x, w)


def dense_with_a_bias_of_the_wrong_size(t: Scene):
    x, w, b = _t(t, "x", 4, 7), _t(t, "w", 5, 7), _t(t, "b", 7)
    ops.dense(x, w, b)


def dense_with_the_name_of_an_activation(t: Scene):
    x, w = _t(t, "x", 4, 7), _t(t, "w", 5, 7)
    ops.dense(x, w, activation="relu")


def a_bias_of_floats_for_integers(t: Scene):
    x, w, b = _t(t, "x", 4, 7, dtype="int8"), _t(t, "w", 5, 7, dtype="int8"), _t(t, "b", 5)
    ops.dense(x, w, b, out_dtype="int32")


def channels_that_differ(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 12, 3, 3)
    ops.conv2d(x, w)


def channels_of_a_group_that_differ(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, groups=4)


def groups_that_do_not_divide(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 5, 3, 3)
    ops.conv2d(x, w, groups=3)


def negative_padding(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, padding=-1)


def padding_for_three_dimensions(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, padding=(1, 1, 1))


def padding_by_an_unknown_word(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, padding="full")


def stride_zero(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, stride=0)


def an_unknown_layout(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, layout="CHWN")


def an_image_without_a_batch(t: Scene):
    x, w = _t(t, "x", 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w)


def a_plain_image_in_a_packed_layout(t: Scene):
    x, w = _t(t, "x", 1, 16, 32, 32), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, layout="NCHW8c")


def a_packed_image_in_a_plain_layout(t: Scene):
    x, w = _t(t, "x", 1, 2, 32, 32, 8), _t(t, "w", 1, 2, 3, 3, 8, 8)
    ops.conv2d(x, w)


def a_kernel_larger_than_the_image(t: Scene):
    x, w = _t(t, "x", 1, 16, 4, 4), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d(x, w, dilation=3, padding=1)


def a_packed_image_of_another_block(t: Scene):
    x, w = _t(t, "x", 1, 2, 32, 32, 8), _t(t, "w", 1, 1, 3, 3, 16, 8)
    ops.conv2d(x, w, layout="NCHW16c")


def a_packed_weight_of_another_block(t: Scene):
    x, w = _t(t, "x", 1, 2, 32, 32, 8), _t(t, "w", 1, 4, 3, 3, 4, 8)
    ops.conv2d(x, w, layout="NCHW8c")


def a_plain_weight_for_a_packed_image(t: Scene):
    x, w = _t(t, "x", 1, 2, 32, 32, 8), _t(t, "w", 16, 16, 3, 3)
    ops.conv2d(x, w, layout="NCHW8c")


def a_depthwise_convolution_of_a_symbol(t: Scene):
    x, w = _t(t, "x", 1, te.var("C"), 8, 8), _t(t, "w", 16, 1, 3, 3)
    ops.depthwise_conv2d(x, w)


def a_transposed_weight_in_the_order_of_a_plain_one(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8), _t(t, "w", 8, 16, 3, 3)
    ops.conv_transpose2d(x, w)


def output_padding_beyond_the_stride(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8), _t(t, "w", 16, 8, 3, 3)
    ops.conv_transpose2d(x, w, stride=2, output_padding=2)


def an_output_that_padding_eats_up(t: Scene):
    x, w = _t(t, "x", 1, 16, 2, 2), _t(t, "w", 16, 8, 3, 3)
    ops.conv_transpose2d(x, w, padding=2)


def winograd_of_a_kernel_of_five(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8), _t(t, "w", 8, 16, 5, 5)
    ops.conv2d_winograd(x, w)


def winograd_by_tiles_of_three(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d_winograd(x, w, tile=3)


def winograd_of_integers(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8, dtype="int8"), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d_winograd(x, w)


def winograd_of_a_weight_that_is_not_transformed(t: Scene):
    x, w = _t(t, "x", 1, 16, 8, 8), _t(t, "w", 8, 16, 3, 3)
    ops.conv2d_winograd(x, w, transformed=True)


def a_window_that_lies_in_the_padding(t: Scene):
    x = _t(t, "x", 1, 16, 8, 8)
    ops.max_pool2d(x, 3, padding=3)


def a_window_larger_than_the_image(t: Scene):
    x = _t(t, "x", 1, 16, 8, 8)
    ops.avg_pool2d(x, (9, 3))


def a_mean_of_integers(t: Scene):
    x = _t(t, "x", 1, 16, 8, 8, dtype="int8")
    ops.avg_pool2d(x, 2)


def heads_of_different_sizes(t: Scene):
    q, k = _t(t, "q", 12, 128, 64), _t(t, "k", 12, 128, 32)
    ops.scaled_dot_product_attention(q, k, k)


def values_for_other_keys(t: Scene):
    q, v = _t(t, "q", 12, 128, 64), _t(t, "v", 12, 100, 64)
    ops.scaled_dot_product_attention(q, q, v)


def a_mask_and_a_causal_one(t: Scene):
    q, m = _t(t, "q", 12, 128, 64), _t(t, "m", 128, 128, dtype="bool")
    ops.scaled_dot_product_attention(q, q, q, mask=m, is_causal=True)


def a_mask_of_another_shape(t: Scene):
    q, m = _t(t, "q", 12, 128, 64), _t(t, "m", 64, 64, dtype="bool")
    ops.scaled_dot_product_attention(q, q, q, mask=m)


def a_mask_of_integers(t: Scene):
    q, m = _t(t, "q", 12, 128, 64), _t(t, "m", 128, 128, dtype="int8")
    ops.scaled_dot_product_attention(q, q, q, mask=m)


def a_scale_of_a_symbolic_head(t: Scene):
    q = _t(t, "q", 128, te.var("E"))
    ops.scaled_dot_product_attention(q, q, q)


def resize_by_an_unknown_mode(t: Scene):
    x = _t(t, "x", 1, 3, 8, 8)
    ops.resize(x, 16, mode="cubic")


def resize_to_nothing(t: Scene):
    x = _t(t, "x", 1, 3, 8, 8)
    ops.resize(x, (16, 0))


def corners_of_the_nearest(t: Scene):
    x = _t(t, "x", 1, 3, 8, 8)
    ops.resize(x, 16, align_corners=True)


def interpolation_of_integers(t: Scene):
    x = _t(t, "x", 1, 3, 8, 8, dtype="uint8")
    ops.resize(x, 16, mode="bilinear")
