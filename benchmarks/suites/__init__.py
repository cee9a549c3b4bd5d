"""What is computed: one file a suite, each with ``cases()``. They are data; no suite knows who computes them.

A new suite is one file and one line here. The cases of ``drawn`` follow from a seed; those of the others are
the same for all.
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.case import Case
from . import attention, conv, depthwise, drawn, floor, images, int8, matmul, memory

DRAWN = "drawn"
SUITES: dict[str, Callable[[], list[Case]]] = {
    "matmul": matmul.cases,
    "conv": conv.cases,
    "depthwise": depthwise.cases,
    "memory": memory.cases,
    "attention": attention.cases,
    "int8": int8.cases,
    "floor": floor.cases,
    "images": images.cases,
    DRAWN: drawn.cases,
}


def of(suite: str, seed: int) -> list[Case]:
    """The cases of a suite; ``seed`` says which are drawn."""
    return drawn.cases(seed) if suite == DRAWN else SUITES[suite]()
