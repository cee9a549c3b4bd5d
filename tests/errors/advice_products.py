"""How a person follows the advice given to mistakes_products: one entry for each ``try``; the operator is
called again as it says."""

from __future__ import annotations

from typing import Any

from tensorlang import ops, te

NAMES: dict[str, Any] = {}


def _line_up(a):
    a.says("ops.expand_dims")
    ops.matmul(ops.expand_dims(a.a, 1), a.b)
    a.says("ops.reshape")
    ops.matmul(ops.reshape(a.a, (2, 1, 4, 7)), a.b)


def _one_symbol(a):
    a.says("the same symbol, or the same number, for sizes that are one")
    for k in (te.var("k"), 7):
        ops.matmul(te.placeholder((4, k), name="A"), te.placeholder((k, 5), name="B"))


def _bias(a):
    ops.dense(a.x, a.w, a.b, **a.kw("out_dtype='float32'"))
    a.says("a bias of integers")
    ops.dense(a.x, a.w, te.placeholder((5,), "int32", name="b"), out_dtype="int32")


def _two_numbers(a):
    a.says("one number, or 2")
    ops.conv2d(a.x, a.w, padding=1)
    ops.conv2d(a.x, a.w, padding=(1, 1))


def _channels(a):
    a.says("a number of channels")
    ops.depthwise_conv2d(te.placeholder((1, 16, 8, 8), name="x"), a.w)


def _less(a):
    a.says("less padding")
    ops.conv_transpose2d(a.x, a.w, padding=1)


def _one_mask(a):
    a.says("one of them")
    ops.scaled_dot_product_attention(a.q, a.q, a.q, mask=a.m)
    ops.scaled_dot_product_attention(a.q, a.q, a.q, is_causal=True)


def _scale(a):
    ops.scaled_dot_product_attention(a.q, a.q, a.q, **a.kw("scale=0.125"))
    a.says("a number for the head size")
    q = te.placeholder((128, 64), name="q")
    ops.scaled_dot_product_attention(q, q, q)


def _sizes(a):
    a.says("a whole number from 1 on, or a symbol")
    for size in (1, te.var("n")):
        ops.resize(a.x, (16, size))


def _floats(a, operator, *rest):
    return operator(a("ops.cast(x, 'float32')"), *rest)


FOLLOW = {
    "matmul_of_batches_that_differ": _line_up,
    "matmul_of_symbols_that_never_met": _one_symbol,
    "matmul_of_a_number": lambda a: (a.says("ops.multiply"), ops.multiply(a.a, a.b)),
    "matmul_transposes_a_vector": lambda a: ops.matmul(a.a, a.b, **a.kw("transpose_a=False")),
    "matmul_of_bools": lambda a: ops.matmul(*[a("ops.cast(x, 'int32')", x=a.a)] * 2),
    "matmul_into_no_dtype": lambda a: ops.matmul(a.a, a.a, out_dtype=a("'float32'")),
    "batch_matmul_of_matrices": lambda a: (a.says("ops.matmul"), ops.matmul(a.a, a.b)),
    "dense_with_the_name_of_an_activation": lambda a: ops.dense(a.x, a.w, **a.kw("activation=ops.relu")),
    "a_bias_of_floats_for_integers": _bias,
    "padding_for_three_dimensions": _two_numbers,
    "an_image_without_a_batch": lambda a: ops.conv2d(a("ops.expand_dims(x, 0)"), a.w),
    "a_plain_image_in_a_packed_layout": lambda a: ops.conv2d(a.x, a.w, **a.kw("layout='NCHW'")),
    "a_packed_image_in_a_plain_layout": lambda a: ops.conv2d(a.x, a.w, **a.kw("layout='NCHW8c'")),
    "a_kernel_larger_than_the_image": lambda a: ops.conv2d(a.x, a.w, dilation=3, **a.kw("padding=2")),
    "a_depthwise_convolution_of_a_symbol": _channels,
    "an_output_that_padding_eats_up": _less,
    "winograd_of_a_kernel_of_five": lambda a: (a.says("ops.conv2d"), ops.conv2d(a.x, a.w)),
    "winograd_of_integers": lambda a: _floats(a, ops.conv2d_winograd, a.w),
    "winograd_of_a_weight_that_is_not_transformed": lambda a: ops.conv2d_winograd(
        a.x, a("ops.winograd_weight(weight, 4)", weight=a.w), transformed=True
    ),
    "a_window_that_lies_in_the_padding": lambda a: ops.max_pool2d(a.x, 3, **a.kw("padding=2")),
    "a_window_larger_than_the_image": lambda a: ops.avg_pool2d(a.x, (9, 3), **a.kw("padding=1")),
    "a_mean_of_integers": lambda a: _floats(a, ops.avg_pool2d, 2),
    "a_mask_and_a_causal_one": _one_mask,
    "a_mask_of_integers": lambda a: ops.scaled_dot_product_attention(
        a.q, a.q, a.q, mask=a("ops.cast(m, 'bool')")
    ),
    "a_scale_of_a_symbolic_head": _scale,
    "resize_to_nothing": _sizes,
    "corners_of_the_nearest": lambda a: ops.resize(a.x, 16, align_corners=True, **a.kw("mode='bilinear'")),
    "interpolation_of_integers": lambda a: ops.resize(a("ops.cast(x, 'float32')"), 16, mode="bilinear"),
}
