"""Stored traces replay to the same loop IR: a refactor that changes a kernel shows here as a diff to be read.

Refresh with ``python -m tests.integration.test_stored_traces``; it rewrites ``stored/*.txt`` and the diff is
the review.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import te

STORED = Path(__file__).parent / "stored"
Case = tuple[tl.Schedule, list[te.Tensor]]


def matmul(n: int = 100) -> Case:
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C)
    CC = s.cache_write(C, "local")
    BP = s.cache_read(B, "global", [CC])
    _, _, ji = s[BP].transform_layout(lambda k, j: (j // 16, k, j % 16))
    s[BP].vectorize(ji)
    tile = s.sample_tile(s[C].op.axis[0], max_factor=16, values=6, name="rows")
    io, ii = s[C].split(s[C].op.axis[0], tile)
    jo, ji = s[C].split(s[C].op.axis[1], 16)
    s[C].reorder(io, jo, ii, ji)
    s[CC].compute_at(s[C], jo)
    i, j = s[CC].op.axis
    s[CC].reorder(s[CC].op.reduce_axis[0], i, j)
    s[CC].unroll(i)
    s[CC].vectorize(j)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s, [A, B, C]


def blur() -> Case:
    n = te.dim("n", 3, 4096)
    A = te.placeholder((n, 64), name="A")
    X = te.compute((n, 62), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="X")
    Y = te.compute((n - 2, 62), lambda y, x: X[y, x] + X[y + 1, x] + X[y + 2, x], name="Y")
    s = te.create_schedule(Y)
    yo, yi = s[Y].split(s[Y].op.axis[0], 8)
    xo, xi = s[Y].split(s[Y].op.axis[1], 8)
    s[Y].vectorize(xi)
    s[X].compute_at(s[Y], yo)
    s[X].vectorize(s[X].split(s[X].op.axis[1], 8)[1])
    s[Y].parallel(yo)
    return s, [A, Y]


def norm() -> Case:
    A = te.placeholder((33, 130), name="A")
    k = te.reduce_axis((0, 130), name="k")
    S = te.compute((33,), lambda i: te.sum(A[i, k] * A[i, k], axis=k), name="S")
    Q = te.compute((33, 130), lambda i, j: A[i, j] / (S[i] + 1.0), name="Q")
    s = te.create_schedule(Q)
    _, ki = s[S].split(s[S].op.reduce_axis[0], 8)
    R = s.rfactor(S, ki)
    s[R].reorder(s[R].op.axis[1], s[R].op.reduce_axis[0], s[R].op.axis[0])
    s[R].vectorize(s[R].op.axis[0])
    s[S].compute_at(s[Q], s[Q].op.axis[0])
    s[R].compute_at(s[Q], s[Q].op.axis[0])
    s[Q].vectorize(s[Q].split(s[Q].op.axis[1], 16)[1])
    return s, [A, Q]


CASES: dict[str, Callable[[], Case]] = {"matmul": matmul, "blur": blur, "norm": norm}


def shown(case: Case) -> str:
    s, args = case
    return f"{s.tree()}\n\n{tl.lower(s, args, simple=True)}\n\n{tl.lower(s, args)}\n"


@pytest.mark.parametrize("name", CASES)
def test_a_stored_trace_gives_the_same_tree_and_loop_ir(name: str) -> None:
    s, args = CASES[name]()
    stored = tl.Trace.from_json((STORED / f"{name}.json").read_text())
    replayed = stored.apply(s.fresh())
    assert replayed.trace == s.trace
    assert shown((replayed, args)) == (STORED / f"{name}.txt").read_text()


if __name__ == "__main__":
    for _name, _case in CASES.items():
        (STORED / f"{_name}.json").write_text(_case()[0].trace.to_json() + "\n")
        (STORED / f"{_name}.txt").write_text(shown(_case()))
