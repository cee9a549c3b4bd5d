"""Mistakes of calling a kernel. Each function makes one; its last statement is refused with a CallError and
writes nothing."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np

import tensorlang as tl
from tensorlang import te

from .scene import Scene


@functools.cache
def _kernel():
    """axpy(A: float32[m, 8], x: int32[8], alpha: float32, C: float32[m, 8] out) with 2 <= m <= 64, a multiple
    of 2."""
    m = te.dim("m", 2, 64, multiple_of=2)
    A, x, alpha = (
        te.placeholder((m, 8), name="A"),
        te.placeholder((8,), "int32", name="x"),
        te.var("alpha", "float32"),
    )
    C = te.compute((m, 8), lambda i, j: A[i, j] * alpha + x[j].astype("float32"), name="C")
    return tl.build(te.create_schedule(C.op), [A, x, alpha, C], name="axpy")


@functools.cache
def _half():
    """narrow(h: bfloat16[4], b: bool[4], Y: bfloat16[4] out)."""
    h, b = te.placeholder((4,), "bfloat16", name="h"), te.placeholder((4,), "bool", name="b")
    Y = te.compute((4,), lambda i: te.select(b[i], h[i], h[3 - i]), name="Y")
    return tl.build(te.create_schedule(Y.op), [h, b, Y], name="narrow")


def _arrays(t: Scene, m=4):
    A, x, C = np.ones((m, 8), np.float32), np.arange(8, dtype=np.int32), np.full((m, 8), 7, np.float32)
    return _kernel(), t.watch(A), t.watch(x), t.watch(C)


def too_few_arguments(t: Scene):
    f, A, *_ = _arrays(t)
    f(A)


def too_many_arguments(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, 1.0, C, C)


def arguments_in_the_wrong_order(t: Scene):
    f, A, x, C = _arrays(t)
    f(x, A, 1.0, C)


def a_list_for_an_array(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, [1, 2, 3, 4, 5, 6, 7, 8], 1.0, C)


def none_for_an_array(t: Scene):
    f, A, x, C = _arrays(t)
    f(None, x, 1.0, C)


def a_tensor_for_an_array(t: Scene):
    f, A, x, C = _arrays(t)
    f(te.placeholder((4, 8), name="A"), x, 1.0, C)


def a_masked_array(t: Scene):
    f, A, x, C = _arrays(t)
    f(np.ma.masked_array(A, A > 0), x, 1.0, C)


def wrong_dtype(t: Scene):
    f, A, x, C = _arrays(t)
    f(A.astype(np.float64), x, 1.0, C)


def wrong_dtype_of_the_output(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, 1.0, t.watch(np.zeros((4, 8))))


def wrong_byte_order(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x.astype(">i4"), 1.0, C)


def bfloat16_as_float32(t: Scene):
    _half()(np.zeros(4, np.float32), np.zeros(4, np.bool_), t.watch(np.zeros(4, ml_dtypes.bfloat16)))


def bits_as_bfloat16(t: Scene):
    _half()(np.zeros(4, np.uint16), np.zeros(4, np.bool_), t.watch(np.zeros(4, ml_dtypes.bfloat16)))


def bool_as_bytes(t: Scene):
    _half()(np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, np.uint8), t.watch(np.zeros(4, ml_dtypes.bfloat16)))


def wrong_rank(t: Scene):
    f, A, x, C = _arrays(t)
    f(A.reshape(-1), x, 1.0, C)


def wrong_shape(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x[:7], 1.0, C)


def sizes_that_disagree(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, 1.0, C[:2])


def size_too_small(t: Scene):
    f, A, x, C = _arrays(t, 0)
    f(A, x, 1.0, C)


def size_too_large(t: Scene):
    f, A, x, C = _arrays(t, 66)
    f(A, x, 1.0, C)


def size_of_no_multiple(t: Scene):
    f, A, x, C = _arrays(t, 5)
    f(A, x, 1.0, C)


def strided_input(t: Scene):
    f, A, x, C = _arrays(t)
    f(np.ones((4, 16), np.float32)[:, ::2], x, 1.0, C)


def transposed_input(t: Scene):
    f, A, x, C = _arrays(t)
    f(np.ones((8, 4), np.float32).T, x, 1.0, C)


def broadcast_input(t: Scene):
    f, A, x, C = _arrays(t)
    f(np.broadcast_to(np.float32(1), (4, 8)), x, 1.0, C)


def strided_output(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, 1.0, t.watch(np.zeros((4, 16), np.float32))[:, ::2])


def misaligned_input(t: Scene):
    f, A, x, C = _arrays(t)
    f(np.zeros(129, np.uint8)[1:].view(np.float32).reshape(4, 8), x, 1.0, C)


def read_only_output(t: Scene):
    f, A, x, _ = _arrays(t)
    frozen = np.zeros((4, 8), np.float32)
    frozen.flags.writeable = False
    f(A, x, 1.0, t.watch(frozen))


def output_is_an_input(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, 1.0, A)


def output_overlaps_an_input(t: Scene):
    f, _, x, _ = _arrays(t)
    memory = t.watch(np.ones((6, 8), np.float32))
    f(memory[:4], x, 1.0, memory[2:])


def text_for_a_number(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, "1.0", C)


def array_for_a_number(t: Scene):
    f, A, x, C = _arrays(t)
    f(A, x, np.ones(3, np.float32), C)
