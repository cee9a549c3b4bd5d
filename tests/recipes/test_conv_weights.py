"""Weights of convolutions that come with the call: who packs them, and how."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.target import as_target
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import SHARED, declared

RNG = np.random.default_rng(8)


@pytest.mark.each_value
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("size", "stride"), [((5, 6), 1), ((11, 7), 2), ((17, 13), 1)])
def test_a_large_weight_of_a_call_is_packed_by_the_thread_that_uses_it(groups, size, stride):
    """It was read, written and read again behind the second cache: 512 to 512 channels of 7 × 7 took 1.4
    times as long."""
    x, w = small(RNG, (1, 160 * groups, *size)), small(RNG, (400, 160, 3, 3))
    b = small(RNG, (400,))
    X, W, B, out = declared(x, w, b, padding=1, stride=stride, groups=groups)
    want = np.maximum(images.conv(x, w, b, padding=1, stride=stride, groups=groups), 0)
    for cores in (1, 2):
        target = as_target(f"llvm -num-cores={cores}")
        exact(tl.compile([X, W, B, out], target)(x, w, b), want, "float32")
    if groups == 1:
        tree = str(default_schedule(out, as_target(SHARED.format(2))).tree())
        panel = re.search(r"storage W\S* +float32\[1, 160, 3, 3, \d+\]", tree)
        panel = panel or re.search(r"storage W\S* +float32\[1, 3, 160, 3, \d+\]", tree)
        # few pixels may be summed in vectors of pixels, which read it as it is
        assert panel or "storage W" not in tree, tree


@pytest.mark.each_value
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("channels", "outputs", "kernel"), [(7, 28, 5), (9, 27, 3), (6, 44, 3), (3, 37, 7)])
def test_the_last_outputs_of_a_weight_of_a_call_are_tested_alone(channels, outputs, kernel, groups):
    """All outputs were read lane by lane, each behind a test, where the last ones fill no vector: 281 to 28
    channels of 6 × 6, 5×5, took 1.33 times as long."""
    x, w = small(RNG, (1, channels * groups, 11, 9)), small(RNG, (outputs * groups, channels, kernel, kernel))
    X, W, _, out = declared(x, w, None, relu=False, padding=kernel // 2, stride=2, groups=groups)
    want = images.conv(x, w, None, padding=kernel // 2, stride=2, groups=groups)
    for cores in (1, 2):
        exact(tl.compile([X, W, out], as_target(f"llvm -num-cores={cores}"))(x, w), want, "float32")


def test_one_panel_of_a_weight_is_packed_and_summed_by_all_threads():
    """One thread packed it and did all sums, as if two had done half of them each: twice the time."""
    for channels, size in ((52, 8), (281, 6)):
        x = te.placeholder((1, channels, size, size), name="x")
        w = te.placeholder((28, channels, 5, 5), name="w")
        tree = str(default_schedule(ops.conv2d(x, w, padding=2), as_target(SHARED.format(2))).tree())
        parts = [int(n) for n in re.findall(r"0\.\.(\d+) +parallel", tree)]
        assert parts and min(parts) > 1, tree
