"""f32 matrix products on one thread beside numpy's BLAS, in turns within one run: scheduled by hand, and by
``tl.compile`` alone.

``python -m benchmarks.matmul`` prints GFLOP/s (useful flops only, packing inside the call) and the ratio to
numpy. Results are verified first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

import tensorlang as tl
from tensorlang import te

SIZES = ((512, 512, 512), (500, 500, 500), (1024, 1024, 1024), (128, 768, 768), (64, 64, 64))
TURNS = 9


def declare(m: int, n: int, k: int) -> list[te.Tensor]:
    """[A, B, A @ B]."""
    A = te.placeholder((m, k), name="A")
    B = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return [A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")]


def by_hand(tensors: list[te.Tensor], rows: int = 6, lanes: int = 16) -> tl.Module:
    """A register tile of rows × lanes, k inside, each column panel of B packed once."""
    A, B, C = tensors
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    panel = s.cache_read(B, "global", [acc])
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=rows, y_factor=lanes)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], io)
    i, j = s[acc].op.axis
    s[acc].reorder(*s[acc].op.reduce_axis, i, j)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[panel].compute_at(s[C], jo)
    s[panel].vectorize(s[panel].op.axis[1])
    return tl.build(s, [A, B, C], name="by_hand")


def main() -> None:
    """Print the table."""
    threads = tl.num_threads()
    tl.set_num_threads(1)
    print(
        f"{'M x N x K':>18}  {'by hand':>8} {'/ numpy':>8}  {'compile':>8} {'/ numpy':>8}  {'numpy':>8}   "
        f"GFLOP/s, median of {TURNS} turns"
    )
    try:
        with threadpool_limits(1):
            for m, n, k in SIZES:
                _row(m, n, k)
    finally:
        tl.set_num_threads(threads)


def _row(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), "float32"), rng.random((k, n), "float32")
    c = np.empty((m, n), "float32")
    tensors = declare(m, n, k)
    kernels: dict[str, Callable[[], object]] = {}
    for name, f in (("hand", by_hand(tensors)), ("compile", tl.compile(tensors))):
        c[...] = np.nan
        f(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)
        kernels[name] = lambda f=f: f(a, b, c)  # type: ignore[misc]
    kernels["numpy"] = lambda: np.matmul(a, b, out=c)
    times: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(TURNS):
        for name, run in kernels.items():
            times[name].append(min(_timed(run) for _ in range(5)))
    speed = {name: 2 * m * n * k / statistics.median(t) / 1e9 for name, t in times.items()}
    ratio = {
        name: statistics.median(x / y for x, y in zip(times["numpy"], times[name], strict=True))
        for name in times
    }
    hand, auto = (f"{speed[x]:8.1f} {ratio[x]:8.2f}" for x in ("hand", "compile"))
    print(f"{f'{m} x {n} x {k}':>18}  {hand}  {auto}  {speed['numpy']:8.1f}")


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
