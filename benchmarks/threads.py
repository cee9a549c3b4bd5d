"""The thread pool: what a parallel region costs, hot and after idle; more threads than processors; memory
kept between calls.

``python -m benchmarks.threads`` prints medians of interleaved turns. A region with *hand-over* is one whose
first part waits until another thread has begun the second: the time includes the way to that thread and back.
Without it the caller may take back what nobody began.
"""

from __future__ import annotations

import ctypes
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.runtime import threads
from tensorlang.runtime.loader import compile_text

TURNS = 15

_REGIONS = """
declare void @tensorlang_parallel(ptr, ptr, i64, i64)
@met = global i64 0
@missed = global i64 0
define internal void @nothing(ptr %ctx, i64 %b, i64 %e) {
  ret void
}
; Each of two parts waits until the other has begun, at most for some milliseconds.
define internal void @meet(ptr %ctx, i64 %b, i64 %e) {
entry:
  %before = atomicrmw add ptr @met, i64 1 acq_rel
  %pair = or i64 %before, 1
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %v = load atomic i64, ptr @met acquire, align 8
  %came = icmp sgt i64 %v, %pair
  %i1 = add i64 %i, 1
  %late = icmp sgt i64 %i1, 10000000
  %out = or i1 %came, %late
  br i1 %out, label %done, label %loop
done:
  br i1 %came, label %well, label %alone
alone:
  %r = atomicrmw add ptr @missed, i64 1 monotonic
  ret void
well:
  ret void
}
declare i32 @usleep(i32)
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {
  %t = alloca [2 x i64], align 16
  %r = call i32 @clock_gettime(i32 1, ptr %t)
  %p = getelementptr i64, ptr %t, i64 1
  %s = load i64, ptr %t
  %n = load i64, ptr %p
  %m = mul i64 %s, 1000000000
  %a = add i64 %m, %n
  ret i64 %a
}
; Sleep, then the nanoseconds of one region.
define i64 @cold(i64 %handed, i32 %pause) {
  %h = icmp ne i64 %handed, 0
  %fn = select i1 %h, ptr @meet, ptr @nothing
  %z = call i32 @usleep(i32 %pause)
  %a = call i64 @now()
  call void @tensorlang_parallel(ptr %fn, ptr null, i64 0, i64 2)
  %b = call i64 @now()
  %d = sub i64 %b, %a
  ret i64 %d
}
define void @regions(i64 %handed, i64 %times) {
entry:
  %h = icmp ne i64 %handed, 0
  %fn = select i1 %h, ptr @meet, ptr @nothing
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  call void @tensorlang_parallel(ptr %fn, ptr null, i64 0, i64 2)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def main() -> None:
    """Print the tables."""
    before = tl.num_threads()
    try:
        _region()
        _oversubscribed()
        _compute_bound()
    finally:
        tl.set_num_threads(before)
    _workspace()


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _turns(runs: dict[object, Callable[[], object]], turns: int = TURNS) -> dict[object, list[float]]:
    times: dict[object, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            times[name].append(_timed(run))
    return times


def _region() -> None:
    tl.set_num_threads(2)
    code = compile_text(_REGIONS, ["regions", "cold", "missed"], threads.helpers()).keep()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(code.address["regions"])
    cold = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)(code.address["cold"])
    print("empty region, 2 threads, microseconds: median (quartiles)")
    times = 2000
    kinds = ((0, "may be taken back"), (1, "handed over"))
    run(1, times)
    hot = _turns({kind: (lambda kind=kind: run(kind, times)) for kind, _ in kinds}, 40)  # type: ignore[misc]
    for kind, name in kinds:
        _line(f"hot, {name}", [t / times for t in hot[kind]])
    for pause in (10, 100):
        for kind, name in kinds:
            _line(
                f"after {pause} ms idle, {name}",
                [1e-9 * cold(kind, 1000 * pause) for _ in range(300 // pause)],
            )
    missed = ctypes.c_int64.from_address(code.address["missed"]).value
    print(f"  hand-overs waited for in vain: {missed}\n")


def _line(name: str, seconds: list[float]) -> None:
    low, middle, high = (1e6 * q for q in statistics.quantiles(seconds, n=4))
    print(f"  {name:40} {middle:8.2f}  ({low:.2f} … {high:.2f})")


def _elementwise(n: int, parallel: bool, heavy: bool) -> tl.Module:
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: te.exp(A[i]) if heavy else A[i] * 2 + 1, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner)
    if parallel:
        s[C].parallel(outer)
    return tl.build(s, [A, C])


def _oversubscribed() -> None:
    counts = (2, 3, 4, 8)
    print(
        f"threads asked for on {threads.processors()} processors: time beside the serial kernel, median of "
        f"{TURNS} turns"
    )
    print(f"  {'':>10} {'elements':>9} {'serial us':>10}  " + " ".join(f"{c:>7}" for c in counts))
    for heavy in (False, True):
        for n in (5_000, 20_000, 200_000, 2_000_000):
            x = np.random.default_rng(0).random(n, "float32")
            y = np.empty_like(x)
            plain, parallel = (_elementwise(n, p, heavy).entry for p in (False, True))
            repeat = max(1, 1_000_000 // n)

            def run(
                count: int,
                plain: Callable[..., object] = plain,
                parallel: Callable[..., object] = parallel,
                x: np.ndarray = x,
                y: np.ndarray = y,
                repeat: int = repeat,
            ) -> float:
                tl.set_num_threads(max(1, count))
                f = parallel if count else plain
                f(x, y)
                start = time.perf_counter()
                for _ in range(repeat):
                    f(x, y)
                return (time.perf_counter() - start) / repeat

            times: dict[int, list[float]] = {c: [] for c in (0, *counts)}
            for _ in range(TURNS):
                for c in times:
                    times[c].append(run(c))
            ratio = {
                c: statistics.median(a / b for a, b in zip(times[c], times[0], strict=True)) for c in counts
            }
            print(
                f"  {'exp' if heavy else '2x + 1':>10} {n:>9} {statistics.median(times[0]) * 1e6:>10.1f}  "
                + " ".join(f"{ratio[c]:>7.2f}" for c in counts)
            )
    print()


def _compute_bound() -> None:
    n = 200_000
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: te.tanh(te.exp(A[i]) * te.sin(A[i])), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner)
    s[C].parallel(outer)
    f = tl.build(s, [A, C])
    x = np.random.default_rng(0).random(n, "float32")
    y = np.empty_like(x)
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(TURNS):
        for c in times:
            tl.set_num_threads(c)
            f(x, y)
            times[c].append(_timed(lambda: [f(x, y) for _ in range(5)]))
    ratio = statistics.median(a / b for a, b in zip(times[1], times[2], strict=True))
    print(f"compute-bound, {n} elements: two threads are {ratio:.2f} times as fast as one\n")


def _packed(n: int) -> tl.Module:
    """C = A @ B with all of B in packed panels first: a temporary as large as B."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    P = te.compute((n // 16, n, 16), lambda jo, k, ji: B[k, jo * 16 + ji], name="P")
    r = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, r] * P[j // 16, r, j % 16], axis=r), name="C")
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=4, y_factor=16)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], io)
    i, j = s[acc].op.axis
    s[acc].reorder(*s[acc].op.reduce_axis, i, j)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[P].vectorize(s[P].op.axis[2])
    return tl.build(s, [A, B, C])


def _workspace() -> None:
    print(
        "a temporary as large as B: kept between calls, or given back after each; median ratio, page faults "
        "a call"
    )
    for n in (256, 512, 1024, 2048):
        f = _packed(n)
        a, b = (np.random.default_rng(0).random((n, n), "float32") for _ in range(2))
        c = np.empty_like(a)

        def fresh(f: tl.Module = f, args: tuple[np.ndarray, ...] = (a, b, c)) -> None:
            f(*args)
            tl.release_workspace()

        def kept(f: tl.Module = f, args: tuple[np.ndarray, ...] = (a, b, c)) -> None:
            f(*args)

        ratios, faults = [], {"kept": [], "fresh": []}
        for _ in range(TURNS if n < 2048 else 5):
            kept()
            times = {}
            for name, run in (("kept", kept), ("fresh", fresh)):
                if name == "fresh":
                    tl.release_workspace()
                first = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                times[name] = _timed(run)
                faults[name].append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - first)
            ratios.append(times["fresh"] / times["kept"])
        print(
            f"  {n:>5}  fresh takes {statistics.median(ratios):.2f} of kept; faults "
            f"{statistics.median(faults['kept']):.0f} kept, "
            f"{statistics.median(faults['fresh']):.0f} fresh"
        )


if __name__ == "__main__":
    main()
