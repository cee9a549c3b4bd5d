"""Functions of the loop IR built by hand for the tests. No test lives here."""

from __future__ import annotations

from typing import Any

import tensorlang.expr.operators
from tensorlang.core.dtype import FLOAT32, INT32, dtype
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var
from tensorlang.loopir.stmt import Alloc, Buffer, For, Func, If, Stmt, Store, load, seq


def n(value: int) -> Expr:
    return make.const(value)


def var(name: str, type_: str = "int32", **facts: Any) -> Var:
    return Var(name, dtype(type_), "loop", **facts)


def dim(name: str, lo: int | None = 1, hi: int | None = None, multiple_of: int = 1) -> Var:
    return Var(name, INT32, "dim", lo=lo, hi=hi, multiple_of=multiple_of)


def buffer(name: str, *shape: Any, type_: str = "float32", scope: str = "arg", strides: Any = None) -> Buffer:
    return Buffer(
        name,
        dtype(type_),
        tuple(map(make.as_expr, shape)),
        scope,
        None if strides is None else tuple(map(make.as_expr, strides)),
    )


def loop(v: Var, extent: Any, body: Stmt, kind: str = "serial", begin: Any = 0) -> For:
    return For(v, make.as_expr(begin), make.as_expr(extent), kind, body)


def read(b: Buffer, *indices: Any, mask: Expr | None = None) -> Expr:
    return load(b, tuple(map(make.as_expr, indices)), mask)


def store(b: Buffer, indices: Any, value: Any, mask: Expr | None = None) -> Store:
    at = indices if isinstance(indices, tuple) else (indices,)
    return Store(b, make.as_expr(value, b.dtype), tuple(map(make.as_expr, at)), mask)


def func(name: str, params: Any, body: Stmt, dims: Any = ()) -> Func:
    """A function whose outputs are the parameters it stores to."""
    from tensorlang.loopir.stmt import preorder

    written = {s.buffer for s in preorder(body) if isinstance(s, Store)}
    return Func(
        name,
        tuple(params),
        body,
        tuple(dims),
        tuple(p for p in params if isinstance(p, Buffer) and p in written),
    )


def matmul(size: int = 20, kind: str = "parallel") -> Func:
    """``C = A @ B`` in three plain loops, the outermost of that kind."""
    a, b, c = (buffer(x, size, size) for x in "ABC")
    i, j, k = var("i"), var("j"), var("k")
    update = store(c, (i, j), read(c, i, j) + read(a, i, k) * read(b, k, j))
    body = loop(i, size, loop(j, size, seq(store(c, (i, j), 0.0), loop(k, size, update))), kind)
    return func("matmul", (a, b, c), body)


def blocked_matmul() -> Func:
    """Vector code for dynamic sizes: a local tile, a guard in the parallel rows, masked stores at the right
    edge."""
    m, k_ = dim("M"), dim("K", hi=64)
    a, b, c = buffer("A", m, k_), buffer("B", k_, 12), buffer("C", m, 12)
    tile = Buffer("C.local", FLOAT32, (n(4), n(16)), "local")
    io, ii, k, i2 = var("i.outer"), var("i.inner"), var("k"), var("i.inner")
    r = make.ramp(n(0), 1, 16)
    inside = make.lt(r, make.broadcast(n(12), 16))
    i = io * 4 + ii
    update = Store(
        tile, read(tile, ii, r) + make.broadcast(read(a, i, k), 16) * read(b, k, r, mask=inside), (ii, r)
    )
    body = loop(
        io,
        (m + 3) // 4,
        Alloc(
            tile,
            seq(
                loop(
                    ii,
                    4,
                    seq(
                        Store(tile, make.broadcast(make.const(0.0), 16), (ii, r)),
                        loop(k, k_, If(make.lt(i, m), update)),
                    ),
                ),
                loop(
                    i2, 4, If(make.lt(io * 4 + i2, m), Store(c, read(tile, i2, r), (io * 4 + i2, r), inside))
                ),
            ),
        ),
        "parallel",
    )
    return func("blocked_matmul", (a, b, c), body, (m, k_))
