"""Fused loops over open sizes count row and column from iteration to iteration: no division in the loop, and
the same values as by division."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te


def permuted(axes: tuple[int, ...]) -> tl.Module:
    x = te.placeholder([te.var(f"n{d}") for d in range(len(axes))], name="x")
    return tl.compile([x, ops.transpose(x, axes)], target="llvm -num-cores=1")


@pytest.mark.parametrize("axes", [(1, 0, 2), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_the_rows_of_a_fused_loop(axes):
    f = permuted(axes)
    for n in (1, 2, 3, 17):
        a = np.arange(float(np.prod(range(n, n + len(axes)))), dtype="f").reshape(range(n, n + len(axes)))
        assert np.array_equal(f(a), a.transpose(axes))
    assert f(np.zeros([0] * len(axes), "f")).size == 0


def test_no_division_in_the_loop():
    """Each function divides ahead of its loop only: behind the first label of the loop there is none."""
    llvm = permuted((0, 2, 1, 3)).get_source("ll")
    body = llvm[llvm.index("@main.parallel.body") :]
    body = body[: body.index("\n}")]
    loop = body[body.index("= phi i64") :]
    assert len(re.findall("= phi i64", loop)) >= 5  # the counter, two quotients, two remainders
    assert not re.search(r"[us](div|rem) ", loop)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_schedule_of_its_own(threads):
    """Counted from any beginning, in parts, in a loop inside of another one."""
    a, b, c = te.var("a"), te.var("b"), te.var("c")
    x = te.placeholder((a, b, c), "int32", name="x")
    y = te.compute((a, b, c), lambda i, j, k: x[i, j, k] + i * 100 + j * 10 + k, name="y")
    s = te.create_schedule(y.op)
    fused = s[y].fuse(*y.op.axis)
    if threads > 1:
        s[y].parallel(fused)
    f = tl.build(s, [x, y], target=f"llvm -num-cores={threads}")
    for shape in ((3, 5, 7), (1, 1, 1), (40, 1, 300), (2, 600, 1)):
        given = np.zeros(shape, "int32")
        i, j, k = np.indices(shape)
        assert np.array_equal(f(given), i * 100 + j * 10 + k)
