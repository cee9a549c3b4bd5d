"""The vector math library against the C library and numpy: nanoseconds an element on arrays that stay in the
first-level cache.

``python -m benchmarks.vector_math [name …]`` prints, for each function and float type: our vector code (a
vectorised kernel in the default mode), a scalar loop over the C library (the same kernel in the ``precise``
mode, not vectorised, no call but libm's), numpy's function into a given array, and the ratios. All three are
timed in turn, several rounds; the best of each counts. Uses the public interface only.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import tensorlang as tl
from tensorlang import te

N = 2048
ROUNDS = 7
FUNCTIONS = (
    "exp",
    "log",
    "tanh",
    "erf",
    "sigmoid",
    "sin",
    "cos",
    "pow",
    "exp2",
    "exp10",
    "expm1",
    "log2",
    "log10",
    "log1p",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "hypot",
)
BINARY = ("pow", "atan2", "hypot")
NUMPY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "pow": "power",
}


def kernel(name: str, dtype: str, vector: bool) -> tl.Module:
    """``C[i] = name(A[i])`` (or of ``A[i], B[i]``) over N elements, vectorised in the widest registers or a
    plain loop over libm."""
    inputs = [te.placeholder((N,), dtype, name=x) for x in ("A", "B")[: 2 if name in BINARY else 1]]
    call = getattr(te, name)
    C = te.compute((N,), lambda i: call(*(x[i] for x in inputs)), name="C")
    s = te.create_schedule(C.op)
    if vector:
        _, inner = s[C].split(C.op.axis[0], tl.Target.host().vector_bits // np.dtype(dtype).itemsize // 8)
        s[C].vectorize(inner)
    return tl.build(s, [*inputs, C], math="default" if vector else "precise")


def operands(name: str, dtype: str) -> list[np.ndarray]:
    """Arguments in the domain of the function, the usual sizes of each."""
    rng = np.random.default_rng(0)
    low, high = {
        "log": (1e-3, 20),
        "log2": (1e-3, 20),
        "log10": (1e-3, 20),
        "log1p": (-0.9, 20),
        "asin": (-1, 1),
        "acos": (-1, 1),
        "atanh": (-0.99, 0.99),
        "acosh": (1, 20),
        "pow": (1e-3, 20),
    }.get(name, (-8, 8))
    first = rng.uniform(low, high, N).astype(dtype)
    return [first, rng.uniform(-8, 8, N).astype(dtype)] if name in BINARY else [first]


def with_numpy(name: str, arrays: list[np.ndarray], out: np.ndarray) -> float | None:
    """Seconds of a call of numpy's function, None where it has none."""
    function = getattr(np, NUMPY.get(name, name), None)
    if function is None:
        return None
    start = time.perf_counter()
    for _ in range(50):
        function(*arrays, out=out)
    return (time.perf_counter() - start) / 50


def row(name: str, dtype: str) -> tuple[float, float, float | None]:
    """Nanoseconds an element: own vector code, scalar loop over libm, numpy."""
    arrays = operands(name, dtype)
    out = np.empty(N, dtype)
    own, scalar = kernel(name, dtype, True), kernel(name, dtype, False)
    times: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        times[0].append(own.benchmark(*arrays, out, seconds=0.01).min)
        times[1].append(scalar.benchmark(*arrays, out, seconds=0.01).min)
        seconds = with_numpy(name, arrays, out)
        if seconds is not None:
            times[2].append(seconds)
    best = [min(t) * 1e9 / N if t else None for t in times]
    return best[0] or 0.0, best[1] or 0.0, best[2]


def main(names: list[str] | None = None) -> None:
    """Print the table."""
    for dtype in ("float32", "float64"):
        print(f"{dtype}, {N} elements: ns an element")
        print(
            f"  {'':<10} {'vector':>8} {'scalar libm':>12} {'numpy':>8} {'libm/vector':>12} "
            f"{'numpy/vector':>13}"
        )
        for name in names or FUNCTIONS:
            own, scalar, numpy = row(name, dtype)
            beside = (
                (f"{numpy:8.2f}", f"{numpy / own:12.1f}×")
                if numpy is not None
                else (f"{'–':>8}", f"{'–':>13}")
            )
            print(f"  {name:<10} {own:8.2f} {scalar:12.2f} {beside[0]} {scalar / own:11.1f}× {beside[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
