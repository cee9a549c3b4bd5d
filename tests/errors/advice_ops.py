"""How a person follows the advice given to mistakes_ops: one entry for each ``try``; the operator is called
again as it says."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tensorlang import ops, te

NAMES: dict[str, Any] = {"shape": (3, 17), "dtype": "float32", "name": "x"}


def _an_array(a):
    x = a("te.placeholder((3, 17), 'float32')")
    a.says("and the array in the call")
    tl.compile([x, ops.relu(x)], name="relu")(a.a)


def _elements(a):
    x = a("te.placeholder(shape, dtype, name)")
    ops.add(1, x)
    a.says("the functions of te work on single elements")
    te.max(te.const(1, "float32"), 2.0)


def _line_up(a):
    a.says("ops.expand_dims")
    ops.add(a.x, ops.expand_dims(a.y, 1))
    a.says("ops.reshape")
    ops.add(a.x, ops.reshape(a.y, (3, 1)))


def _one_symbol(a):
    a.says("one symbol for sizes that are equal")
    n = te.var("n")
    ops.multiply(te.placeholder((n, 4), name="x"), te.placeholder((n, 4), name="y"))


def _no_bools(a):
    number = a("ops.cast(x, 'int32')", x=a.mask)
    ops.add(number, number)
    a.says("ops.logical_and, logical_or, logical_xor")
    for f in (ops.logical_and, ops.logical_or, ops.logical_xor):
        f(a.mask, a.mask)


def _wider(a):
    a.says("ops.cast of the tensor to a wider type first")
    ops.add(ops.cast(a.x, "int16"), 300)


def _power(a):
    a.says("ops.cast of one of them to a float")
    ops.power(ops.cast(a.x, "float32"), a.x)
    ops.power(a.x, ops.cast(a.x, "float32"))
    a.says("a Python int as the exponent")
    ops.power(a.x, 3)


def _channels(a):
    c = a("te.dim('c', multiple_of=4)")
    ops.group_norm(te.placeholder((2, c, 7), name="x"), 4)


def _places(a):
    a.says("a list of the places to cut at")
    assert [p.shape[1].value for p in ops.split(a.x, [4, 8, 12], axis=1)] == [4, 4, 4, 5]


def _divided(a):
    a.says(
        "-1 for the size that follows from the others, and te.dim with multiple_of= for the size to be divided"
    )
    ops.reshape(te.placeholder((te.dim("n", multiple_of=2), 4), name="x"), (-1, 8))


def _joined(a):
    a.says("ops.expand_dims")
    ops.concatenate([a.x, ops.expand_dims(a.y, 0)])
    a.says("ops.reshape")
    ops.concatenate([a.x, ops.reshape(a.y, (1, 17))])


def _strides(a):
    a.says("1, or -1 to go backwards")
    ops.strided_slice(a.x, [0], [3], [1])
    ops.strided_slice(a.x, [2], [0], [-1])


FOLLOW = {
    "an_array_for_a_tensor": _an_array,
    "a_number_for_a_tensor": lambda a: ops.softmax(a("te.placeholder(shape, dtype, name)")),
    "operands_without_a_tensor": _elements,
    "shapes_that_do_not_broadcast": _line_up,
    "symbols_that_may_differ": _one_symbol,
    "arithmetic_on_bools": _no_bools,
    "a_number_that_does_not_fit": _wider,
    "an_integer_to_the_power_of_a_tensor": _power,
    "an_integer_to_a_negative_power": lambda a: ops.power(a("ops.cast(x, 'float32')"), -1),
    "clip_without_bounds": lambda a: a("ops.clip(x, 0, 6)"),
    "an_activation_of_integers": lambda a: ops.gelu(a("ops.cast(x, 'float32')")),
    "softmax_of_integers": lambda a: ops.softmax(a("ops.cast(x, 'float32')")),
    "normalized_shape_that_is_an_axis": lambda a: ops.layer_norm(a.x, **a.kw("axis=-1")),
    "normalized_shape_of_another_size": lambda a: ops.layer_norm(a.x, **a.kw("normalized_shape=(17,)")),
    "groups_of_symbolic_channels": _channels,
    "reshape_of_symbols_that_may_not_come_out": _divided,
    "stack_of_other_shapes": lambda a: ops.stack([a.x, a("ops.swapaxes(y, 0, 1)")]),
    "stack_of_another_length": lambda a: (
        a("ops.concatenate([x, y], axis=1)"),
        a.says("along the dimension that differs"),
    ),
    "concatenate_of_another_rank": _joined,
    "concatenate_of_one_tensor_without_a_list": lambda a: a("ops.concatenate([a, b])", a=a.x, b=a.x),
    "split_into_parts_that_do_not_come_out": _places,
    "a_slice_with_stride_zero": _strides,
    "indices_that_are_floats": lambda a: ops.take(a.x, a("ops.cast(i, 'int32')"), axis=0),
    "gather_with_an_index_of_another_rank": lambda a: (a.says("ops.take"), ops.take(a.x, a.i, axis=0)),
}
