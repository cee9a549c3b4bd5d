"""A part of a computation as one by itself."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.errors import DeclareError


def test_a_part_reads_what_is_given():
    a, b = te.placeholder((3, 4), name="A"), te.placeholder((3, 4), name="B")
    c = te.compute((3, 4), lambda i, j: a[i, j] + b[i, j], name="C")
    k = te.reduce_axis((0, 4), name="k")
    d = te.compute((3,), lambda i: te.sum(c[i, k] * a[i, k], axis=k), name="D")
    e = te.compute((3,), lambda i: d[i] + c[i, 0], name="E")
    given = te.placeholder((3, 4), name="C")
    made = te.graph.part([e], {c: given})
    assert set(made) == {d, e} and [t.name for t in te.graph.inputs([made[e]])] == ["C", "A"]
    rng = np.random.default_rng(0)
    x, y = [rng.integers(-4, 5, (3, 4)).astype(np.float32) for _ in range(2)]
    whole = te.reference.evaluate([e], {a: x, b: y})
    assert (te.reference.evaluate([made[e]], {a: x, given: x + y})[0] == whole[0]).all()
    assert e.op.body[0] is not made[e].op.body[0] and set(e.op.input_tensors) == {
        d,
        c,
    }  # the whole is as it was


def test_a_part_of_several_outputs_shares_what_they_share():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="B")
    c, d = te.compute((4,), lambda i: b[i] + 1.0, name="C"), te.compute((4,), lambda i: b[i] - 1.0, name="D")
    made = te.graph.part([c, d], {})
    assert made[c].op.input_tensors == made[d].op.input_tensors == (made[b],)


def test_a_scan_is_not_taken_apart():
    x = te.placeholder((5, te.dim("n")), name="X")
    with pytest.raises(DeclareError, match="a scan"):
        te.graph.part([ops.cumsum(x, axis=0)], {})
