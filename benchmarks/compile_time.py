"""How long compilation takes: matmul + bias + relu with two-level tiling, a packed operand and compute_at,
stage by stage.

``python -m benchmarks.compile_time`` prints the median over builds of each stage in milliseconds. Uses the
public interface only.
"""

from __future__ import annotations

import statistics
import time

import tensorlang as tl
from tensorlang import te


def declare(n: int = 512) -> list[te.Tensor]:
    """[A, B, bias, relu(A @ B + bias)] and the stages between."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    bias = te.placeholder((n,), name="bias")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: C[i, j] + bias[j], name="D")
    E = te.compute((n, n), lambda i, j: te.max(D[i, j], 0.0), name="E")
    return [A, B, bias, C, D, E]


def schedule(tensors: list[te.Tensor]) -> tl.Schedule:
    """Two levels of tiles, a register tile under an unrolled and split k, the right matrix packed per panel,
    columns shared out."""
    _, B, _, C, D, E = tensors
    s = te.create_schedule(E.op)
    s[D].compute_inline()
    cached = s.cache_write(E, "local")
    packed = s.cache_read(B, "global", [C])
    i, j = s[E].op.axis
    io, im = s[E].split(i, 96)
    im, ii = s[E].split(im, 6)
    jo, jm = s[E].split(j, 128)
    jm, ji = s[E].split(jm, 16)
    s[E].reorder(jo, io, jm, im, ii, ji)
    s[E].vectorize(ji)
    s[E].unroll(ii)
    for stage in (cached, C):
        s[stage].compute_at(s[E], im)
    s[C].set_scope("local")
    ei, ej = s[cached].op.axis
    s[cached].unroll(ei)
    s[cached].vectorize(ej)
    ci, cj = s[C].op.axis
    ko, kt = s[C].split(s[C].op.reduce_axis[0], 128)
    km, ku = s[C].split(kt, 4)
    s[C].reorder(ko, km, ku, ci, cj)
    s[C].unroll(ci)
    s[C].vectorize(cj)
    s[C].unroll(ku)
    s[packed].compute_at(s[E], jo)
    _, bi = s[packed].split(s[packed].op.axis[1], 16)
    s[packed].vectorize(bi)
    s[E].parallel(jo)
    return s


def main(builds: int = 15) -> None:
    """Print the table."""
    tensors = declare()
    args = [*tensors[:3], tensors[-1]]
    rows: dict[str, list[float]] = {}
    for _ in range(builds):
        start = time.perf_counter()
        s = schedule(tensors)
        rows.setdefault("schedule", []).append(time.perf_counter() - start)
        times = tl.TimeTable()
        tl.build(s, args, times=times)
        for stage, seconds in times.seconds.items():
            rows.setdefault(stage, []).append(seconds)
    steps = len(schedule(tensors).trace)
    medians = {stage: statistics.median(v) for stage, v in rows.items()}
    print(f"matmul + bias + relu, 512³, {steps} primitives; median of {builds} builds")
    for stage, seconds in medians.items():
        print(f"  {stage:<24} {seconds * 1e3:8.2f} ms")
    names = list(medians)
    first = names.index("lower")
    end = names.index("emit LLVM text")
    print(f"  {'lower with all passes':<24} {sum(medians[n] for n in names[first:end]) * 1e3:8.2f} ms")
    print(f"  {'build':<24} {sum(medians[n] for n in names[first:]) * 1e3:8.2f} ms")


if __name__ == "__main__":
    main()
