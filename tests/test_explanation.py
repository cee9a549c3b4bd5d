"""``f.explain()``: what a kernel was taken for, and whether its loops are vectors or scalar."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import costs_text

SKYLAKE = "llvm -mcpu=skylake-avx512"


def column() -> tuple[te.Tensor, te.Tensor]:
    """Sums of which neither the elements nor the results are neighbours in memory."""
    x = te.placeholder((40, 30, 20), name="x")
    k = te.reduce_axis((0, 30), name="k")
    return x, te.compute((40,), lambda i: te.sum(x[i, k, 3], axis=k), name="y")


def test_a_default_schedule_that_is_scalar_says_so() -> None:
    told = tl.compile([*column()]).explain()
    assert told.is_scalar and "in scalar loops" in told.summary
    assert "one element at a time, in scalar loops" in told.stages["y"]
    assert all(x.is_scalar for x in told.loops)


def test_a_product_is_told_as_one_with_its_lanes_and_iterations() -> None:
    a, b = te.placeholder((28, 100), name="a"), te.placeholder((100, 64), name="b")
    told = tl.compile([a, b, ops.matmul(a, b)], target=SKYLAKE).explain()
    assert "matrix products" in told.stages["matmul"] and "(recipes.gemm)" in told.stages["matmul"]
    sums = max(told.loops, key=lambda x: x.cycles)
    assert not told.is_scalar and not sums.is_scalar and not sums.divides
    # each iteration reads one row of the right operand, once for each tile of rows and columns
    assert sums.lanes * sums.iterations % (100 * 64) == 0
    # 28 * 64 * 100 multiply-adds of 16 lanes, two in a cycle, and the loads beside them
    least = 28 * 64 * 100 / 16 / 2
    assert least <= told.cycles < 4 * least


def test_threads_are_told_or_why_there_are_none() -> None:
    small, large = (te.placeholder((n, 64), name="x") for n in (8, 1 << 14))
    assert "serial: `relu` has 512 iterations" in tl.compile([small, ops.relu(small)]).explain().threads
    told = tl.compile([large, ops.relu(large)]).explain()
    assert "shared out" in told.threads and any(x.parallel for x in told.loops)
    some = te.placeholder((te.dim("n"), 64), name="x")
    assert tl.compile([some, ops.relu(some)]).explain().threads.endswith("the sizes of a call are worth")
    few = te.placeholder((te.dim("n", 1, 8), 64), name="x")
    assert "serial: `relu` has 512 iterations" in tl.compile([few, ops.relu(few)]).explain().threads
    s = te.create_schedule(ops.relu(large))
    assert "no step of the schedule" in tl.build(s, [large, s.outputs[0].output(0)]).explain().threads


def test_schedules_by_hand_count_their_steps() -> None:
    x, y = column()
    s = te.create_schedule(y)
    assert tl.build(s, [x, y]).explain().stages == {"the schedule": "plain loops, no step"}
    s[y].unroll(y.op.axis[0])
    assert tl.build(s, [x, y]).explain().stages == {"the schedule": "1 step by hand or of a search"}
    assert "loop IR" in str(tl.build(tl.lower(s, [x, y])).explain())


def test_divisions_of_indices_by_open_sizes_are_told() -> None:
    n = te.dim("n", 1, 64)
    x = te.placeholder((n, n), name="x")
    y = te.compute((n * n,), lambda i: x[i // n, i % n] + 1, name="y")
    s = te.create_schedule(y)
    assert "divides an index" in str(tl.build(s, [x, y]).explain())


def test_the_table_of_costs_is_named() -> None:
    x = te.placeholder((8, 4), name="x")
    f = tl.compile([x, ops.softmax(x)], target=SKYLAKE)
    told = f.explain()
    assert told.costs == costs_text(tl.Target.parse(SKYLAKE)) and told.costs in str(told)
    assert "row" in told.stages["softmax"] and 0 < told.cycles < 1e6
    page = told._repr_html_()
    assert "softmax" in page and "lanes" in page and told.costs.partition(",")[0] in page


def test_what_is_written_into_others_is_told() -> None:
    x = te.placeholder((8, 64), name="x")
    told = tl.compile([x, ops.relu(ops.exp(x))]).explain()
    assert told.stages["exp"] == "written into what reads it" and "in vectors of" in told.stages["relu"]


def test_a_loaded_kernel_has_no_reasons(tmp_path) -> None:
    x = te.placeholder((8, 4), name="x")
    f = tl.compile([x, ops.relu(x)], name="relu")
    f.save(tmp_path / "relu.tl")
    g = tl.load(tmp_path / "relu.tl")
    assert np.array_equal(g(np.ones((8, 4), "float32")), np.ones((8, 4), "float32"))
    with pytest.raises(tl.TensorLangError, match="explain: relu was loaded, not built here"):
        g.explain()
