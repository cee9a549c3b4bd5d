"""How a person follows the advice given to mistakes_call: one entry for each ``try``; the kernel is called
again as it says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import tensorlang as tl
from tensorlang import te

from .mistakes_call import _half, _kernel

NAMES: dict[str, Any] = {"ml_dtypes": ml_dtypes, "np": np, "shape": (4, 8), "value": 0.0}
HALF, BITS, MASK = np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, np.uint16), np.zeros(4, np.bool_)


def _A(code, made=None):
    """Calls axpy with what the code says in place of A; ``made`` makes the array that the mistake gave."""
    return lambda a: a.f(a(code, **({} if made is None else {"A": made()})), a.x, 1.0, a.C)


def _x(code, made):
    return lambda a: a.f(a.A, a(code, x=made()), 1.0, a.C)


def _masked(a):
    a.says("pass")
    return a.f(a("A.filled(value)", A=np.ma.masked_array(a.A, a.A > 0)), a.x, 1.0, a.C)


def _bits(a):
    a.says("if it holds the bits of bfloat16")
    _half()(a("h.view(ml_dtypes.bfloat16)", h=BITS), MASK)
    a.says("h.astype(…) if it holds numbers")
    _half()(BITS.astype(ml_dtypes.bfloat16), MASK)


def _strided(make):
    def follow(a):
        array = make()
        a.f(a("np.ascontiguousarray(A)", A=array), a.x, 1.0, a.C)
        a.says("te.placeholder(..., strides='any') for a kernel that takes strided arrays")
        A = te.placeholder((4, 8), name="A", strides="any")
        tl.compile([A, te.compute((4, 8), lambda i, j: A[i, j] * 2, name="C")], name="twice")(array)

    return follow


def _strided_output(a):
    a.says("write to a compact array and copy from it")
    target = np.zeros((4, 16), np.float32)[:, ::2]
    a.f(a.A, a.x, 1.0, a.C)
    target[:] = a.C
    A = te.placeholder((4, 8), name="A")
    C = te.compute((4, 8), lambda i, j: A[i, j] * 2, name="C")
    strided = a.kw("binds={C: te.decl_buffer(C.shape, C.dtype, strides='any')}", C=C)
    a.says("or build with")
    tl.build(te.create_schedule(C.op), [A, C], name="twice", **strided)(a.A, target)


def _writable(a):
    a.says("pass a writable array")
    a.f(a.A, a.x, 1.0, np.zeros((4, 8), np.float32))
    a.says("leave the outputs out to have them allocated")
    a.f(a.A, a.x, 1.0)


def _separate(a):
    a.says("pass a separate array for C")
    _kernel()(np.ones((4, 8), np.float32), a.x, 1.0, np.empty((4, 8), np.float32))


FOLLOW = {
    "arguments_in_the_wrong_order": lambda a: a.f(a("A.astype(np.float32)"), a.x, 1.0, a.C),
    "a_list_for_an_array": _x("np.asarray(x, np.int32)", lambda: [1, 2, 3, 4, 5, 6, 7, 8]),
    "a_masked_array": _masked,
    "wrong_dtype": _A("A.astype(np.float32)", lambda: np.ones((4, 8))),
    "wrong_dtype_of_the_output": lambda a: (
        a.says("allocate it as"),
        a.f(a.A, a.x, 1.0, a("np.empty(shape, np.float32)")),
    ),
    "wrong_byte_order": _x("x.astype(np.int32)", lambda: np.arange(8, dtype=">i4")),
    "bfloat16_as_float32": lambda a: _half()(
        a("h.astype(ml_dtypes.bfloat16)", h=np.zeros(4, np.float32)), MASK
    ),
    "bits_as_bfloat16": _bits,
    "bool_as_bytes": lambda a: _half()(HALF, a("b.astype(np.bool)", b=np.zeros(4, np.uint8))),
    "strided_input": _strided(lambda: np.ones((4, 16), np.float32)[:, ::2]),
    "transposed_input": _strided(lambda: np.ones((8, 4), np.float32).T),
    "broadcast_input": _strided(lambda: np.broadcast_to(np.float32(1), (4, 8))),
    "strided_output": _strided_output,
    "misaligned_input": _A("A.copy()", lambda: np.zeros(129, np.uint8)[1:].view(np.float32).reshape(4, 8)),
    "read_only_output": _writable,
    "output_is_an_input": _separate,
    "output_overlaps_an_input": _separate,
}
