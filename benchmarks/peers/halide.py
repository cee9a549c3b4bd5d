"""Halide: matrix products with the schedule of its own performance test, compiled by its JIT. Threads by the
environment (HL_NUM_THREADS)."""

from __future__ import annotations

import halide as hl

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared

TILE = (24, 32)  # columns, rows
ROWS = 4  # in registers


class Halide(Peer):
    name = "halide"
    package = "halide"

    def start(self, threads: int) -> None:
        """The number of threads is read at the first use: ``harness.peer.environment`` has set it for this
        process."""

    def unsupported(self, case: Case) -> str | None:
        if case.op != "matmul":
            return "scheduled by hand for matmul only"
        return "no packed weights" if case.packed else None

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        left, right = arrays.values()
        out = case.empty()
        a, b, into = (hl.Buffer(x) for x in (left, right, out))
        product = matmul(a, b, *left.shape)
        product.compile_jit()

        def run() -> None:
            product.realize(into)

        return Prepared(run, lambda: (run(), out)[1])


def matmul(a: object, b: object, rows: int, depth: int) -> object:
    """Tiles of 24 columns × 32 rows over threads, 24 × 4 of them in registers (Halide,
    test/performance/matrix_multiplication.cpp)."""
    x, y, xi, yi, yii, xy = (hl.Var(n) for n in ("x", "y", "xi", "yi", "yii", "xy"))
    k = hl.RDom([(0, depth)])
    columns, height = TILE[0], min(TILE[1], rows)
    inner = min(ROWS, height)
    product, out = hl.Func("product"), hl.Func("out")
    product[x, y] = 0.0
    product[x, y] += a[k.x, y] * b[x, k.x]
    out[x, y] = product[x, y]
    out.tile(x, y, xi, yi, columns, height).fuse(x, y, xy).parallel(xy)
    out.split(yi, yi, yii, inner).vectorize(xi, 8).unroll(xi).unroll(yii)
    product.compute_at(out, yi).vectorize(x, 8).unroll(y)
    product.update(0).reorder(x, y, k.x).vectorize(x, 8).unroll(x).unroll(y).unroll(k.x, 2)
    return out
