"""A small kernel that is built, checked and timed before the first worker is forked: what a process imports
and compiles for its first kernel takes 0.2 s and more, and each comparison at the end of a search has a new
process. Knows jobs; nothing of the stages.
"""

from __future__ import annotations

import functools

import tensorlang as tl
from tensorlang import te

from ..records.record import canonical_trace
from .protocol import Job

SIZE = 8


@functools.cache
def small_job(parallel: bool) -> Job:
    """A product of small matrices as the job of a measurement; ``parallel``: its rows by threads."""
    A, B = (te.placeholder((SIZE, SIZE), name=n) for n in "AB")
    k = te.reduce_axis((0, SIZE), name="k")
    C = te.compute((SIZE, SIZE), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = tl.create_schedule([C])
    rows, columns = s[C].loop("i"), s[C].loop("j")
    s[C].reorder(rows, k, columns)
    s[C].vectorize(columns)
    if parallel:
        s[C].parallel(rows)
    graph = te.serialize.to_json([A, B, C])
    return Job(-1, graph, "small", str(tl.Target.host()), canonical_trace(s.trace))


def quiet(phase: str) -> None:
    """Nobody waits to hear what comes next."""
