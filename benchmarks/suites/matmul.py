"""f32 matrix products: 64³ to 2048³, and the few rows × 768 × 768 / 3072 of a transformer's layers; with B
given at the call and as a weight."""

from __future__ import annotations

import numpy as np

from ..harness.case import Argument, Array, Case

CUBES = (64, 128, 256, 512, 1024, 2048)
ROWS = (1, 16, 128)
DEPTH = 768
WIDTHS = (768, 3072)
QUICK = {(64, 64, 64), (512, 512, 512), (1024, 1024, 1024), (1, 768, 768), (128, 768, 768)}


def product(a: Array, b: Array) -> Array:
    """In float64."""
    return a.astype("float64") @ b.astype("float64")


def case(m: int, k: int, n: int, packed: bool, suite: str = "matmul", quick: bool = False) -> Case:
    """A[m, k] @ B[k, n]."""
    return Case(
        suite,
        f"{m}x{k}x{n}",
        "matmul",
        (Argument("A", (m, k)), Argument("B", (k, n), constant=packed)),
        Argument("C", (m, n)),
        product,
        flops=2.0 * m * k * n,
        tolerance=float(np.finfo("float32").eps) * k,
        quick=quick,
    )


def cases() -> list[Case]:
    sizes = [(n, n, n) for n in CUBES] + [(m, DEPTH, n) for m in ROWS for n in WIDTHS]
    return [case(*size, packed, quick=size in QUICK) for packed in (False, True) for size in sizes]
