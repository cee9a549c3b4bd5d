"""Functions and tensor intrinsics that random graphs and schedules call. Pasted in front of a failing case,
like the harness."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te

GEMV = {}  # name -> (rows, columns, dtype, intrinsic)
DOUBLE = {}  # name -> (elements, dtype, intrinsic)


def both(x, total, difference, y):
    np.add(x, y, out=total)
    np.subtract(x, y, out=difference)


def gemv(m, n, t):
    """``c[i] += a[k] * b[i, k]`` with ``b`` of ``m`` x ``n``."""
    name = f"fuzz.gemv{m}x{n}.{t}"
    a, b, k = te.placeholder((n,), t, "a"), te.placeholder((m, n), t, "b"), te.reduce_axis((0, n), "k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def body(a, b, c):
        c[...] = b @ a

    def reset(c):
        c[...] = 0

    def update(a, b, c):
        c += b @ a

    tl.register_func(f"{name}.body", body, override=True)
    tl.register_func(f"{name}.reset", reset, override=True)
    tl.register_func(f"{name}.update", update, override=True)

    def calls(ins, outs):
        a, b, c = ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("w")
        return (
            te.call_packed(f"{name}.body", a, b, c),
            te.call_packed(f"{name}.reset", c),
            te.call_packed(f"{name}.update", a, b, c),
        )

    GEMV[name] = (m, n, t, te.decl_tensor_intrin(c.op, calls, name=name))


def double(n, t):
    """``c[i] = a[i] * 2``."""
    name = f"fuzz.double{n}.{t}"
    a = te.placeholder((n,), t, "a")
    c = te.compute((n,), lambda i: a[i] * 2, name="c")
    tl.register_func(f"{name}.body", lambda a, c: np.multiply(a, 2, out=c), override=True)
    DOUBLE[name] = (
        n,
        t,
        te.decl_tensor_intrin(
            c.op, lambda ins, outs: te.call_packed(f"{name}.body", ins[0], outs[0]), name=name
        ),
    )


tl.register_func("fuzz.affine", lambda x, out, by: np.add(np.multiply(x, int(by)), 1, out=out), override=True)
tl.register_func("fuzz.add", lambda x, y, out: np.add(x, y, out=out), override=True)
tl.register_func("fuzz.rows", lambda x, out: np.sum(x, axis=1, dtype=x.dtype, out=out), override=True)
tl.register_func("fuzz.both", lambda x, y, total, difference: both(x, total, difference, y), override=True)
for t in ("float32", "int32"):
    for m in (2, 4, 8):
        for n in (2, 3, 4):
            gemv(m, n, t)
    for n in (2, 4, 8):
        double(n, t)
