"""Questions that one element may answer, asked block by block of memory until the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.errors import ScheduleError
from tensorlang.recipes import default_schedule

SHAPES = [((40_000,), None), ((3, 20_011), 1), ((130, 257), None), ((16_384,), None), ((2, 3, 9001), (1, 2))]


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("op", ["any", "all"])
def test_the_answer_is_that_of_numpy(op: str, shape: tuple[int, ...], axis: int | None, cores: int) -> None:
    x = te.placeholder(shape, "bool", name="x")
    out = getattr(ops, op)(x, axis=axis)
    s = default_schedule(out, f"llvm -mcpu=znver5 -num-cores={cores}")
    f = tl.build(default_schedule(out, tl.Target.host().for_threads(cores)), [x, out])
    assert "until_known" in str(tl.lower(s, [x, out]))
    n, common = int(np.prod(shape)), op == "all"
    for at in (None, 0, 1, n // 3, 8191, 8192, 16_383, n - 1):
        a = np.full(n, common)
        if at is not None:
            a[at] = not common
        a = a.reshape(shape)
        np.testing.assert_array_equal(f(a), getattr(np, op)(a, axis=axis))


def test_blocks_but_the_last_ask_for_no_end() -> None:
    x = te.placeholder((1_000_000,), "bool", name="x")
    s = default_schedule(ops.any(x), "llvm -mcpu=znver5 -num-cores=1")
    (out,) = (t for st in s.stages if st.name == "any" for t in st.op.outputs)
    blocks, _, last = str(tl.lower(s, [x, out])).partition("    if not any[]:\n        any.rf")
    assert "range(0, 122)" in blocks and "mask" not in blocks
    assert "mask" in last


def test_few_elements_are_asked_at_once() -> None:
    x = te.placeholder((16_000,), "bool", name="x")
    out = ops.any(x)
    s = default_schedule(out, "llvm -mcpu=znver5 -num-cores=1")
    assert "until_known" not in str(tl.lower(s, [x, out]))


def found(shape: tuple[int, ...] = (5, 300)) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder(shape, "int32", name="x")
    k = te.reduce_axis((0, shape[-1]), "k")
    return x, te.compute(shape[:-1], lambda i: te.any(x[i, k] > 7, axis=k), name="found")


def test_a_loop_of_the_users_ends_when_the_answer_is_known() -> None:
    x, y = found()
    s = te.create_schedule(y.op)
    ko, _ = s[y].split(s[y].op.reduce_axis[0], 32)
    s[y].pragma(ko, "until_known")
    text = str(tl.lower(s, [x, y]))
    assert "if not found[i]:" in text
    a = np.zeros((5, 300), np.int32)
    a[0, 299], a[2, 0], a[3, 31], a[4, 32] = 8, 9, 10, 11
    np.testing.assert_array_equal(tl.build(s, [x, y])(a), [True, False, True, True, True])


def test_a_loop_around_other_answers_may_not_ask() -> None:
    _, y = found()
    s = te.create_schedule(y.op)
    s[y].reorder(s[y].op.reduce_axis[0], s[y].op.axis[0])
    with pytest.raises(ScheduleError, match="other answers"):
        s[y].pragma("k", "until_known")


def test_loops_reordered_behind_the_note_do_not_ask() -> None:
    x, y = found()
    s = te.create_schedule(y.op)
    s[y].pragma("k", "until_known")
    s[y].reorder(s[y].op.reduce_axis[0], s[y].op.axis[0])
    assert "if not" not in str(tl.lower(s, [x, y]))
    a = np.zeros((5, 300), np.int32)
    a[3, 17] = 8
    np.testing.assert_array_equal(tl.build(s, [x, y])(a), [False, False, False, True, False])


def test_sums_have_no_such_answer() -> None:
    x = te.placeholder((9,), name="x")
    k = te.reduce_axis((0, 9), "k")
    y = te.compute((), lambda: te.sum(x[k], axis=k), name="y")
    s = te.create_schedule(y.op)
    with pytest.raises(ScheduleError, match=r"no te\.any"):
        s[y].pragma("k", "until_known")
