"""Mistakes of calling ready-made operators. Each function makes one; its last statement is refused with a
DeclareError."""

from __future__ import annotations

import numpy as np

from tensorlang import ops, te

from .scene import Scene


def _x(t: Scene, *shape, dtype="float32", name="x"):
    return t.watch(te.placeholder(shape or (3, 17), dtype, name=name))


def an_array_for_a_tensor(t: Scene):
    a = t.watch(np.ones((3, 17), np.float32))
    ops.relu(a)


def a_number_for_a_tensor(t: Scene):
    ops.softmax(3.0)


def operands_without_a_tensor(t: Scene):
    ops.add(1, 2.0)


def shapes_that_do_not_broadcast(t: Scene):
    x, y = _x(t), _x(t, 3, name="y")
    ops.add(x, y)


def symbols_that_may_differ(t: Scene):
    x, y = _x(t, te.var("n"), 4), _x(t, te.var("m"), 4, name="y")
    ops.multiply(x, y)


def arithmetic_on_bools(t: Scene):
    mask = _x(t, dtype="bool", name="mask")
    ops.add(mask, mask)


def a_number_that_does_not_fit(t: Scene):
    x = _x(t, dtype="int8")
    ops.add(x, 300)


def an_integer_to_the_power_of_a_tensor(t: Scene):
    x = _x(t, dtype="int32")
    ops.power(x, x)


def an_integer_to_a_negative_power(t: Scene):
    x = _x(t, dtype="int32")
    ops.power(x, -1)


def division_by_the_literal_zero(t: Scene):
    x = _x(t, dtype="int32")
    ops.floor_divide(x, 0)


def clip_without_bounds(t: Scene):
    x = _x(t)
    ops.clip(x)


def an_activation_of_integers(t: Scene):
    x = _x(t, dtype="int32")
    ops.gelu(x)


def an_unknown_approximation(t: Scene):
    x = _x(t)
    ops.gelu(x, approximate="fast")


def a_slope_that_is_a_tensor(t: Scene):
    x, slope = _x(t), _x(t, 1, name="slope")
    ops.leaky_relu(x, slope)


def a_dimension_that_is_not_there(t: Scene):
    x = _x(t)
    ops.softmax(x, axis=2)


def a_dimension_named_twice(t: Scene):
    x = _x(t)
    ops.sum(x, axis=(1, -1))


def a_dimension_that_is_an_axis(t: Scene):
    x = _x(t)
    ops.sum(x, axis=te.reduce_axis((0, 17), name="k"))


def argmax_of_nothing(t: Scene):
    x = _x(t, 3, 0)
    ops.argmax(x, axis=1)


def softmax_of_integers(t: Scene):
    x = _x(t, dtype="int8")
    ops.softmax(x)


def normalized_shape_that_is_an_axis(t: Scene):
    x = _x(t)
    ops.layer_norm(x, -1)


def normalized_shape_of_another_size(t: Scene):
    x = _x(t)
    ops.layer_norm(x, (16,))


def a_weight_of_another_size(t: Scene):
    x, w = _x(t), _x(t, 16, name="w")
    ops.layer_norm(x, 17, w)


def a_weight_of_another_rank(t: Scene):
    x, mean, var = _x(t, 2, 5, 7, 7), _x(t, 1, 5, 1, 1, name="mean"), _x(t, 5, name="var")
    ops.batch_norm(x, mean, var)


def groups_that_do_not_divide_the_channels(t: Scene):
    x = _x(t, 2, 10, 7)
    ops.group_norm(x, 4)


def groups_of_symbolic_channels(t: Scene):
    x = _x(t, 2, te.var("c"), 7)
    ops.group_norm(x, 4)


def reshape_to_another_number_of_elements(t: Scene):
    x = _x(t)
    ops.reshape(x, (3, 16))


def reshape_of_symbols_that_may_not_come_out(t: Scene):
    x = _x(t, te.var("n"), 4)
    ops.reshape(x, (te.var("m"), 8))


def reshape_with_an_open_size_that_does_not_come_out(t: Scene):
    x = _x(t)
    ops.reshape(x, (-1, 4))


def reshape_with_two_open_sizes(t: Scene):
    x = _x(t)
    ops.reshape(x, (-1, -1))


def transpose_that_leaves_a_dimension_out(t: Scene):
    x = _x(t, 2, 3, 4)
    ops.transpose(x, (0, 2, 2))


def squeeze_of_a_size_that_is_not_one(t: Scene):
    x = _x(t)
    ops.squeeze(x, 0)


def concatenate_of_other_sizes(t: Scene):
    x, y = _x(t), _x(t, 4, 17, name="y")
    ops.concatenate([x, y], axis=1)


def concatenate_of_one_tensor_without_a_list(t: Scene):
    x = _x(t)
    ops.concatenate(x)


def stack_of_other_shapes(t: Scene):
    x, y = _x(t), _x(t, 17, 3, name="y")
    ops.stack([x, y])


def stack_of_another_length(t: Scene):
    x, y = _x(t), _x(t, 3, 4, name="y")
    ops.stack([x, y])


def concatenate_of_another_rank(t: Scene):
    x, y = _x(t), _x(t, 17, name="y")
    ops.concatenate([x, y])


def split_into_parts_that_do_not_come_out(t: Scene):
    x = _x(t)
    ops.split(x, 4, axis=1)


def split_at_places_that_do_not_rise(t: Scene):
    x = _x(t)
    ops.split(x, [9, 4], axis=1)


def a_slice_with_stride_zero(t: Scene):
    x = _x(t)
    ops.strided_slice(x, [0], [3], [0])


def padding_of_another_rank(t: Scene):
    x = _x(t)
    ops.pad(x, ((1, 1), (1, 1), (1, 1)))


def a_reflection_wider_than_the_tensor(t: Scene):
    x = _x(t)
    ops.pad(x, 3, mode="reflect")


def an_unknown_way_to_pad(t: Scene):
    x = _x(t)
    ops.pad(x, 1, mode="symmetric")


def indices_that_are_floats(t: Scene):
    x, i = _x(t), _x(t, 4, name="i")
    ops.take(x, i, axis=0)


def take_that_should_raise(t: Scene):
    x, i = _x(t), _x(t, 4, dtype="int32", name="i")
    ops.take(x, i, axis=0, mode="raise")


def gather_with_an_index_of_another_rank(t: Scene):
    x, i = _x(t), _x(t, 4, dtype="int32", name="i")
    ops.gather(x, 0, i)
