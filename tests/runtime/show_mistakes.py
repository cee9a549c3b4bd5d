"""Every mistake of a call, as a table of name and call; ``python -m tests.runtime.show_mistakes`` prints them
for a person to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tensorlang.errors import CallError
from tensorlang.interface.signature import Dim, Param, Signature
from tensorlang.runtime import Module

from . import kernels


def sized() -> Module:
    """y[n + 2] = f(x[n], w[4, k] with 2 <= k <= 8 and k even): a kernel that is never entered."""
    params = (
        Param("x", "buffer", "float32", ("n",)),
        Param("w", "buffer", "float16", (4, "k")),
        Param("alpha", "scalar", "float32"),
        Param("steps", "scalar", "int8"),
        Param("y", "buffer", "float32", (("+", "n", 2),), True),
    )
    return Module(
        kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("n"), Dim("k", 2, 8, 2)))
    )


def half() -> Module:
    params = (
        Param("q", "buffer", "bfloat16", (4,)),
        Param("mask", "buffer", "bool", (4,)),
        Param("y", "buffer", "float32", ("m",), True),
    )
    return Module(kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("m"),)))


def lying() -> Module:
    """y[m, n] lying anyhow = f(x[m, n] lying anyhow, z[m, n] in rows ld apart, ld even): a kernel that is
    never entered."""
    params = (
        Param("x", "buffer", "float32", ("m", "n"), strides=("s", "t")),
        Param("z", "buffer", "float32", ("m", "n"), strides=("ld", 1)),
        Param("w", "buffer", "float32", ("m",), strides=(("*", "ld", 2),)),
        Param("y", "buffer", "float32", ("m", "n"), True, ("u", "v")),
    )
    dims = (Dim("m"), Dim("n"), Dim("s"), Dim("t"), Dim("ld", 0, None, 2), Dim("u"), Dim("v"))
    return Module(kernels.object_code(kernels.STATUS), Signature("status", params, dims))


class Elsewhere:
    """An array of another library on another device."""

    def __init__(self, device: int = 2) -> None:
        self.device = device

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("the tensor requires grad")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class Owned:
    """An array of another library whose memory is not to be written."""

    def __init__(self, a: Any) -> None:
        self.a = a
        self.a.flags.writeable = False

    def __dlpack__(self, **kw: Any) -> Any:
        return self.a.__dlpack__(**kw)

    def __dlpack_device__(self) -> Any:
        return self.a.__dlpack_device__()


def cases() -> dict[str, Callable[[], Any]]:
    f, g, h, e = kernels.add(), sized(), half(), lying()
    a, b, c = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.full(8, 7, np.float32)
    x, w, y = np.zeros(8, np.float32), np.zeros((4, 4), np.float16), np.zeros(10, np.float32)
    frozen = c.copy()
    frozen.flags.writeable = False
    raw = np.zeros(33, np.uint8)
    crooked = raw[1:33].view(np.float32)
    rows, lines = np.zeros((4, 6), np.float32), np.zeros(24, np.float32)[::4][:4]
    record = np.zeros(8, [("u", "f4"), ("v", "u1")])
    q, mask = np.zeros(4, ml_dtypes.bfloat16), np.zeros(4, np.bool_)
    return {
        "too few": lambda: f(a),
        "too many": lambda: f(a, b, c, c),
        "list": lambda: f([1.0, 2.0], b, c),
        "none": lambda: f(a, None, c),
        "foreign object": lambda: f(a, object(), c),
        "scalar for array": lambda: f(a, np.float32(3), c),
        "list for output": lambda: f(a, b, [0.0] * 8),
        "masked": lambda: f(np.ma.masked_array(a, a > 3), b, c),
        "dtype": lambda: f(a.astype(np.float64), b, c),
        "dtype of output": lambda: f(a, b, c.astype(np.int32)),
        "object dtype": lambda: f(a.astype(object), b, c),
        "byte order": lambda: f(a.astype(">f4"), b, c),
        "bfloat16": lambda: h(q.astype(np.float32), mask, c),
        "bits of bfloat16": lambda: h(q.view(np.uint16), mask, c),
        "bfloat16 where float32 is declared": lambda: f(q, q, c),
        "bool": lambda: h(q, mask.astype(np.uint8), c),
        "rank": lambda: f(a.reshape(2, 4), b, c),
        "shape": lambda: g(x, np.zeros((3, 4), np.float16), 1.0, 1, y),
        "dims disagree": lambda: f(a, b[:4], c),
        "computed size": lambda: g(x, w, 1.0, 1, y[:9]),
        "dim too small": lambda: g(x, np.zeros((4, 0), np.float16), 1.0, 1, y),
        "dim too large": lambda: g(x, np.zeros((4, 10), np.float16), 1.0, 1, y),
        "dim not a multiple": lambda: g(x, np.zeros((4, 3), np.float16), 1.0, 1, y),
        "strides": lambda: f(np.zeros(16, np.float32)[::2], b, c),
        "transposed": lambda: g(x, np.zeros((6, 4), np.float16).T, 1.0, 1, y),
        "strided output": lambda: f(a, b, np.zeros(16, np.float32)[::2]),
        "broadcast": lambda: f(np.broadcast_to(np.float32(1), 8), b, c),
        "alignment": lambda: f(crooked, b, c),
        "read-only output": lambda: f(a, b, frozen),
        "output is input": lambda: f(a, b, a),
        "output overlaps input": lambda: f(c[:6], b[:6], c[2:]),
        "unknown output size": lambda: h(q, mask),
        "text for number": lambda: g(x, w, "1", 1, y),
        "complex for number": lambda: g(x, w, 1j, 1, y),
        "float for whole number": lambda: g(x, w, 1.0, 1.5, y),
        "number out of range": lambda: g(x, w, 1.0, 128, y),
        "number too large": lambda: g(x, w, 10**400, 1, y),
        "array for number": lambda: g(x, w, x, 1, y),
        "complex dtype": lambda: f(a.astype(np.complex64), b, c),
        "records": lambda: f(record, b, c),
        "text dtype": lambda: f(a.astype("U3"), b, c),
        "on another device": lambda: f(a, Elsewhere(), c),
        "on an unknown device": lambda: f(a, Elsewhere(99), c),
        "not to be exported": lambda: f(a, Elsewhere(1), c),
        "read-only output of another library": lambda: f(a, b, Owned(c.copy())),
        "wrong dtype of another library": lambda: f(a, Owned(b.astype(np.float64)), c),
        "stride that is not one": lambda: e(rows, np.zeros((4, 12), np.float32)[:, ::2], lines, rows.copy()),
        "stride of no multiple": lambda: e(rows, np.zeros((4, 7), np.float32)[:, :6], lines, rows.copy()),
        "stride that is negative": lambda: e(rows, rows[::-1], lines, rows.copy()),
        "computed stride": lambda: e(rows, rows, lines, rows.copy()),
        "parts of elements": lambda: e(
            np.zeros(24, record.dtype)["u"].reshape(4, 6), rows, lines, rows.copy()
        ),
        "output on itself": lambda: e(
            rows,
            rows,
            np.zeros(48, np.float32)[::12],
            np.lib.stride_tricks.as_strided(rows.copy(), (4, 6), (8, 4)),
        ),
        "strided output overlaps": lambda: e(rows, rows, np.zeros(48, np.float32)[::12], rows[::-1]),
    }


def message(call: Callable[[], Any]) -> str:
    try:
        call()
    except CallError as error:
        return "\n".join(line for line in str(error).splitlines() if not line.startswith("  at "))
    return "NO ERROR"


def table() -> str:
    return "\n\n".join(f"# {name}\n{message(call)}" for name, call in cases().items()) + "\n"


if __name__ == "__main__":
    print(table(), end="")
