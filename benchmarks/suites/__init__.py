"""What is computed: one file a suite, each with ``cases()``. They are data; no suite knows who computes them.

A new suite is one file and one line here.
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.case import Case
from . import attention, conv, depthwise, int8, matmul, memory

SUITES: dict[str, Callable[[], list[Case]]] = {
    "matmul": matmul.cases,
    "conv": conv.cases,
    "depthwise": depthwise.cases,
    "memory": memory.cases,
    "attention": attention.cases,
    "int8": int8.cases,
}
