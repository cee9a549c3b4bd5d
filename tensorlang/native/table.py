"""The loop that runs an engine's kernels: a table of code addresses and places of buffers. A native function;
knows no graphs.

The table is words: the number of steps, then for each step the kernel's entry, how many buffers it takes, the
address of its sizes, and for each buffer the number of its base and the bytes behind it.
"""

from __future__ import annotations

from collections.abc import Callable

from .types import Array, i32, i64, ptr
from .words import address, cast, local

MAX_BUFFERS = 256
Kernel = Callable[[ptr, ptr], i32]
HEAD = 3  # words of a step before its buffers


def run(table: Array[i64], bases: Array[i64]) -> i64:
    """Run the steps; 0, or the number of the step that failed and its status: 256 * (step + 1) + status."""
    buffers = local(i64, MAX_BUFFERS)
    at = 1
    for step in range(table[0]):
        count = table[at + 1]
        for b in range(count):
            place = at + HEAD + 2 * b
            buffers[b] = bases[table[place]] + table[place + 1]
        status = cast(Kernel, table[at])(cast(ptr, address(buffers[0])), cast(ptr, table[at + 2]))
        if status != 0:
            return 256 * (step + 1) + i64(status)
        at += HEAD + 2 * count
    return 0
