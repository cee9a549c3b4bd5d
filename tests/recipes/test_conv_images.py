"""Convolutions of several images on several threads: an image is one thread's, with its copy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import conv_of
from tensorlang.recipes import conv, default_schedule
from tensorlang.target import Target
from tests.ops import images

ZEN5 = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores={}"
# (images, channels, outputs, rows, kernel, options, whether the weight is known)
SHARED = {
    "small images": (4, 96, 128, 3, 3, {"padding": 1, "stride": 2}, True),
    "at the call": (2, 128, 192, 7, 3, {"padding": 2, "dilation": 2}, False),
    "groups": (2, 64, 48, 5, 3, {"padding": 1, "groups": 2}, True),
    "single pixels that are transposed": (2, 64, 64, 7, 1, {"stride": 2}, True),
}


def declared(case):
    n, ci, co, rows, k, options, known = SHARED[case]
    x = te.placeholder((n, ci, rows, rows), name="x")
    w = te.placeholder((co, ci // options.get("groups", 1), k, k), name="w")
    return x, w, ops.conv2d(x, w, **options), options, known


@pytest.mark.parametrize("case", SHARED)
def test_images_are_shared_out_and_nothing_in_them(case):
    """Their copies were made by all threads, and handed over: small ones took as long as on one thread."""
    x, w, y, options, known = declared(case)
    s = default_schedule(y, Target.parse(ZEN5.format(2)), [w] if known else [])
    tree = str(s.tree())
    assert re.search(r"loop conv2d\.n +0..\d +parallel", tree), tree
    assert tree.count("parallel") == (1 if known else 2), tree  # and the weight, before
    inputs = [np.random.default_rng(1).integers(-3, 4, t.shape).astype("float32") for t in (x, w)]
    f = tl.compile([x, w, y], "llvm -num-cores=2", constants={w: inputs[1]} if known else {})
    got = f(inputs[0]) if known else f(*inputs)
    np.testing.assert_array_equal(got, images.conv(*inputs, None, **options))


def test_images_that_threads_cannot_share_evenly_are_shared_out_themselves():
    x, w = te.placeholder((3, 96, 7, 7), name="x"), te.placeholder((128, 96, 3, 3), name="w")
    tree = str(default_schedule(ops.conv2d(x, w, padding=1), Target.parse(ZEN5.format(2)), [w]).tree())
    assert not re.search(r"loop conv2d\.n +\S+ +parallel", tree), tree


def test_one_thread_knows_no_difference():
    x, w = te.placeholder((4, 96, 7, 7), name="x"), te.placeholder((128, 96, 3, 3), name="w")
    found = conv_of(ops.conv2d(x, w, padding=1).op)
    assert found is not None
    one, two = (Target.parse(ZEN5.format(n)) for n in (1, 2))
    assert conv.by_image(found, two) and not conv.by_image(found, one)
