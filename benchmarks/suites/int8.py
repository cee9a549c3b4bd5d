"""int8 × int8 → int32 matrix products, exact, over the whole range of int8."""

from __future__ import annotations

import numpy as np

from ..harness.case import Argument, Array, Case

SIZES = (
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (16, 768, 768),
    (128, 768, 3072),
)
QUICK = {(256, 256, 256), (512, 512, 512), (16, 768, 768)}


def product(a: Array, b: Array) -> Array:
    """Through float64, where every sum here is exact."""
    return (a.astype("float64") @ b.astype("float64")).astype(np.int32)


def cases() -> list[Case]:
    return [
        Case(
            "int8",
            f"{m}x{k}x{n}",
            "matmul_int8",
            (Argument("A", (m, k), "int8"), Argument("B", (k, n), "int8", constant=packed)),
            Argument("C", (m, n), "int32"),
            product,
            flops=2.0 * m * k * n,
            quick=(m, k, n) in QUICK,
        )
        for packed in (False, True)
        for m, k, n in SIZES
    ]
