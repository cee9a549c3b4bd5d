"""Workspaces that a caller gives: right numbers, in the plan of an engine, in its file."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.build import unbound
from tensorlang.graph import Graph

RNG = np.random.default_rng(0)


def kept_apart(x):
    """Sums of rows of what is too large for the stack, read at two places."""
    squares = te.compute(x.shape, lambda i, j: x[i, j] * x[i, j], name="squares")
    total = ops.cumsum(squares, axis=1)
    k = te.reduce_axis((0, x.shape[1]), name="k")
    most = te.compute((x.shape[0],), lambda i: te.max(total[i, k], axis=k), name="most")
    return te.compute(x.shape, lambda i, j: total[i, j] - most[i], name="y")


def made(x):
    total = np.cumsum(x * x, 1)
    return total - total.max(1, keepdims=True)


@pytest.mark.parametrize("rows", ["n", 40])
def test_an_engine_plans_them(rows, tmp_path):
    g = Graph("spaces")
    x = g.input((rows, 1000), name="x")
    g.output(g.call(kept_apart, x, op="kept"))
    engine = g.compile(cache=False, workers=1)
    spaces = [v for v in engine.program.values if v.name.endswith("workspace")]
    assert spaces and not any(b"tensorlang_alloc" in c.object_code for c in engine.codes)
    a = RNG.integers(-2, 3, (40, 1000)).astype("float32")
    assert np.array_equal(engine(a), made(a))
    engine.save(tmp_path / "spaces.engine")
    assert np.array_equal(tl.Engine.load(tmp_path / "spaces.engine")(a), made(a))
    if rows == "n":
        assert engine(a[:0]).shape == (0, 1000)


def test_what_the_stack_holds_is_no_parameter():
    x = te.placeholder((4, 10), name="x")
    code = unbound([x, y := kept_apart(x)], [], [], outputs=[y])
    assert [p.name for p in code.signature.params if p.output] == ["y"]
