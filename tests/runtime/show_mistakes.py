"""Every mistake of a call, as a table of name and call; ``python -m tests.runtime.show_mistakes`` prints them for a person to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.core.signature import Dim, Param, Signature
from tensorlang.errors import CallError
from tensorlang.runtime import Module

from . import kernels


def sized() -> Module:
    """y[n + 2] = f(x[n], w[4, k] with 2 <= k <= 8 and k even): a kernel that is never entered."""
    params = (Param("x", "buffer", "float32", ("n",)), Param("w", "buffer", "float16", (4, "k")), Param("alpha", "scalar", "float32"),
              Param("steps", "scalar", "int8"), Param("y", "buffer", "float32", (("+", "n", 2),), True))
    return Module(kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("n"), Dim("k", 2, 8, 2))))


def half() -> Module:
    params = (Param("q", "buffer", "bfloat16", (4,)), Param("mask", "buffer", "bool", (4,)), Param("y", "buffer", "float32", ("m",), True))
    return Module(kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("m"),)))


def cases() -> dict[str, Callable[[], Any]]:
    f, g, h = kernels.add(), sized(), half()
    a, b, c = np.arange(8, dtype=np.float32), np.ones(8, np.float32), np.full(8, 7, np.float32)
    x, w, y = np.zeros(8, np.float32), np.zeros((4, 4), np.float16), np.zeros(10, np.float32)
    frozen = c.copy()
    frozen.flags.writeable = False
    raw = np.zeros(33, np.uint8)
    crooked = raw[1:33].view(np.float32)
    q, mask = np.zeros(4, np.uint16), np.zeros(4, np.bool_)
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
