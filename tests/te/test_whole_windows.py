"""Convolutions of few pixels with a weight of the call are products over all channels and taps; others stay
what they are."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.build import _lowered
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te.reshaped import as_computed
from tensorlang.te.whole_windows import windows_as_rows


def tensor(*shape, name="x", kind="float32"):
    return te.placeholder(shape, kind, name=name)


def weight(*shape, kind="float32"):
    return tensor(*shape, name="w", kind=kind)


def whole(tensor):
    """Small whole numbers, of which every order of summation gives the same."""
    shape = [int(str(n)) for n in tensor.shape]
    return (np.arange(np.prod(shape)) * 7 % 11 - 5).reshape(shape).astype(str(tensor.dtype))


TAKEN = {
    "a whole image": ops.conv2d(tensor(1, 8, 3, 3), weight(24, 8, 3, 3)),
    "whole images": ops.conv2d(tensor(5, 8, 3, 2), weight(20, 8, 3, 2)),
    "a part of an image": ops.conv2d(tensor(2, 8, 4, 5), weight(24, 8, 3, 3), stride=2),
    "a dilated window": ops.conv2d(tensor(2, 8, 7, 7), weight(24, 8, 3, 3), dilation=3),
    "with a margin": ops.conv2d(tensor(1, 8, 2, 2), weight(24, 8, 3, 3), padding=1),
    "a window of one row": ops.conv2d(tensor(1, 8, 1, 3), weight(24, 8, 1, 3)),
    "a strided row": ops.conv1d(tensor(1, 6, 21), weight(16, 6, 3), stride=3, padding=1),
    "three dimensions": ops.conv3d(tensor(1, 3, 2, 2, 2), weight(40, 3, 3, 2, 2), padding=(1, 0, 0)),
    "doubles": ops.conv1d(tensor(2, 6, 5, kind="float64"), weight(24, 6, 3, kind="float64"), padding=1),
}


def inputs_of(y):
    found, waiting = [], [y.op]
    while waiting:
        op = waiting.pop(0)
        for t in op.input_tensors:
            if isinstance(t.op, te.ComputeOp):
                waiting.append(t.op)
            elif t not in found:
                found.append(t)
    return sorted(found, key=lambda t: t.name, reverse=True)


@pytest.mark.parametrize("case", TAKEN)
def test_a_sum_over_one_axis_is_right(case):
    y = TAKEN[case]
    x, w = inputs_of(y)
    z = ops.relu(y)
    a, b = whole(x), whole(w)
    (want,) = te.reference.evaluate([z], {x: a, w: b})
    here = as_computed([z])
    # the weight is what it is in memory, in rows of a product
    assert [int(str(n)) for n in here.of([w])[0].shape] == [len(b), b[0].size]
    got = tl.compile([x, w, z])(a, b)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    s = default_schedule(here.of([z]), "llvm -mcpu=znver4 -num-cores=1")
    func, _ = _lowered(s, here.of([x, w, z]), "main", declared=[x, w, z])
    out = np.zeros_like(want)
    interpret(func, a, b, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(("rows", "gathers"), [(3, False), (4, True)])
def test_a_weight_is_read_along_memory_and_never_packed(rows, gathers):
    """What is gathered is a copy of windows that are no rows of memory."""
    x, w = tensor(2, 64, rows, rows), weight(96, 64, 3, 3)
    f = tl.compile([x, w, ops.conv2d(x, w)], "llvm -mcpu=znver4 -num-cores=1")
    assert "w.global" not in f.explain().stages
    assert ("conv2d.window" in f.explain().stages) is gathers
    assert ("gather" in f.get_source("asm")) is gathers


SHARED = weight(64, 8, 3, 3)
ONES = tensor(1, 8, 3, 3)


@pytest.mark.parametrize(
    "y",
    [
        ops.conv2d(tensor(1, 8, 4, 4), weight(64, 8, 3, 3), padding=1),
        ops.conv2d(tensor(1, 8, 2, 2), weight(12, 8, 3, 3), padding=1),
        ops.conv2d(tensor(1, 8, 2, 2), weight(64, 8, 1, 1)),
        ops.conv2d(tensor(1, 8, 3, 3), weight(12, 2, 3, 3), groups=4),
        ops.conv2d(tensor(1, 64, 3, 3), weight(64, 1, 3, 3), groups=64),
        ops.conv2d(tensor(te.dim("n"), 8, 3, 3), weight(64, 8, 3, 3)),
        ops.conv2d(tensor(1, 8, 3, 3, kind="int8"), weight(64, 8, 3, 3, kind="int8")),
        ops.add(ops.conv2d(ONES, SHARED), ops.sum(SHARED)),
        ops.matmul(tensor(3, 40), weight(40, 64)),
    ],
    ids=[
        "16 pixels",
        "few outputs",
        "no window",
        "groups of few outputs",
        "groups of one channel",
        "open images",
        "integers",
        "a weight that is read otherwise too",
        "a product",
    ],
)
def test_left_alone(y):
    assert windows_as_rows([y]).tensors == {}


def test_so_is_one_of_a_known_weight():
    x, w = tensor(1, 8, 3, 3), weight(64, 8, 3, 3)
    assert windows_as_rows([ops.conv2d(x, w)], [w]).tensors == {}


IN_GROUPS = {
    "a whole image": (ops.conv2d(tensor(1, 8, 3, 3), weight(24, 4, 3, 3), groups=2), [2, 12, 36]),
    "whole images": (ops.conv2d(tensor(3, 6, 3, 2), weight(36, 2, 3, 2), groups=3), [3, 12, 12]),
    "a part of an image": (
        ops.conv2d(tensor(1, 8, 4, 5), weight(16, 4, 3, 3), groups=2, stride=2),
        [2, 8, 36],
    ),
    "with a margin": (ops.conv2d(tensor(1, 8, 2, 2), weight(64, 2, 3, 3), groups=4, padding=1), [4, 16, 18]),
    "a strided row": (ops.conv1d(tensor(1, 6, 9), weight(48, 3, 3), groups=2, stride=3), [2, 24, 9]),
    "one row of taps": (ops.conv1d(tensor(2, 8, 5), weight(32, 4, 5), groups=2), [2, 16, 20]),
}


@pytest.mark.parametrize("fixed", [False, True], ids=["at the call", "known"])
@pytest.mark.parametrize("case", IN_GROUPS)
def test_groups_are_products_with_matrices_of_their_own(case, fixed):
    y, matrices = IN_GROUPS[case]
    x, w = inputs_of(y)
    z = ops.relu(y)
    a, b = whole(x), whole(w)
    (want,) = te.reference.evaluate([z], {x: a, w: b})
    here = as_computed([z])
    assert [int(str(n)) for n in here.of([w])[0].shape] == matrices
    got = tl.compile([x, w, z], constants={w: b} if fixed else {})
    np.testing.assert_array_equal(got(a) if fixed else got(a, b), want)
    s = default_schedule(here.of([z]), "llvm -mcpu=znver4 -num-cores=1")
    func, _ = _lowered(s, here.of([x, w, z]), "main", declared=[x, w, z])
    out = np.zeros_like(want)
    interpret(func, a, b, out)
    np.testing.assert_array_equal(out, want)


def test_single_places_of_groups_are_products_with_a_known_weight_too():
    """They were sums along the few taps of a row, one output after the other."""
    x, w = tensor(1, 32, 5, 5), weight(64, 16, 5, 5)
    made = windows_as_rows([ops.conv2d(x, w, groups=2)], [w])
    assert [op.name for op in made.tensors] == ["conv2d"]
    f = tl.compile([x, w, ops.conv2d(x, w, groups=2)], "llvm -mcpu=znver5", constants={w: whole(w)})
    assert "recipes.gemm" in f.explain().stages["conv2d.groups"]


def test_several_places_of_groups_keep_their_recipe_with_a_known_weight():
    x, w = tensor(1, 32, 4, 4), weight(64, 16, 3, 3)
    assert windows_as_rows([ops.conv2d(x, w, groups=2)], [w]).tensors == {}
