"""What a convolution reads, and which of image and weight comes again: the loop around the other."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import conv_of
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.recipes import conv, default_schedule, pixel_tiles, reach
from tensorlang.target import Target

module = importlib.import_module("tensorlang.recipes.default_schedule")  # a function hides it
ZEN4 = Target.parse("llvm -mcpu=znver4 -num-cores=1")
IN_PLACE = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=2"
PIXELS_FIRST = r"loop conv1d\.(n\.)?x\.outer\.o\.outer\.fused"


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("channels", "outputs", "taps", "length", "once"),
    [
        (512, 512, 3, 6399, True),
        (1024, 512, 3, 3000, True),
        (512, 512, 3, 799, False),  # the image stays in the third cache
        (512, 512, 33, 2400, False),  # the weight is more than the image
        (512, 512, 31, 8000, False),  # the weight would come too often
    ],
)
def test_an_image_that_comes_from_memory_comes_once(
    channels, outputs, taps, length, once, given, padding, monkeypatch
):
    """Each panel of outputs brought all of it: the second convolution of wav2vec 2.0 was twice as slow as
    one of open length."""
    monkeypatch.setattr(module, "FAMILIES", (conv,))  # whatever the table of costs prefers
    x = te.placeholder((1, channels, length), name="x")
    w = te.placeholder((outputs, channels, taps), name="w")
    y = ops.conv1d(x, w, stride=2 if taps == 3 else 1, padding=padding)
    tree = str(default_schedule(y, ZEN4, [w] if given else []).tree())
    assert bool(re.search(PIXELS_FIRST, tree)) is once


@pytest.mark.parametrize(
    ("channels", "size", "stride", "target", "copied"),
    [
        (1024, 14, 1, IN_PLACE, False),
        (512, 28, 1, IN_PLACE, False),
        (512, 28, 2, IN_PLACE, True),  # the pixels between would be read, too
        (1024, 16, 1, IN_PLACE, True),  # channels 1 KiB apart have few places in a cache
        (1024, 14, 1, IN_PLACE.replace("5", "4"), True),
    ],
)
def test_single_pixels_are_read_where_they_lie(channels, size, stride, target, copied, monkeypatch):
    """A copy with the channels of a pixel side by side is made by all threads, and each waits for the
    others."""
    monkeypatch.setattr(module, "FAMILIES", (conv,))
    monkeypatch.setattr(reach, "cost_of", lambda target: KNOWN[target.mcpu])
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((256, channels, 1, 1), name="w")
    tree = str(default_schedule(ops.conv2d(x, w, stride=stride), target, [w]).tree())
    assert ("compute x.global" in tree) is copied


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    ("images", "channels", "outputs", "size", "groups"),
    [
        (1, 40, 96, (14, 14), 1),
        (1, 37, 200, (7, 7), 1),  # a tile of 13 pixels, and 10 behind it
        (3, 16, 33, (28, 9), 1),
        (1, 24, 17, (15, 16), 1),
        (2, 32, 64, (12, 11), 2),
    ],
)
def test_what_is_read_where_it_lies_is_right(images, channels, outputs, size, groups, given, monkeypatch):
    monkeypatch.setattr(module, "FAMILIES", (conv,))
    for m in (conv, pixel_tiles):
        monkeypatch.setattr(m, "read_in_place", lambda conv, target: conv.pointwise)
    draw = np.random.default_rng(5)
    image = draw.integers(-4, 5, (images, channels, *size)).astype("float32")
    weight = draw.integers(-4, 5, (outputs, channels // groups, 1, 1)).astype("float32")
    x, w = te.placeholder(image.shape, name="x"), te.placeholder(weight.shape, name="w")
    y = ops.relu(ops.conv2d(x, w, groups=groups))
    f = tl.compile([x, y], constants={w: weight}) if given else tl.compile([x, w, y])
    got = f(image) if given else f(image, weight)
    parts = zip(np.split(image, groups, 1), np.split(weight[:, :, 0, 0], groups), strict=True)
    want = np.concatenate([np.einsum("oc,nchw->nohw", v, p) for p, v in parts], 1)
    np.testing.assert_array_equal(got, np.maximum(want, 0))


@pytest.mark.parametrize(("pixels", "high", "outputs", "blocks"), [
    (196, 14, 64, (1, None)),  # two panels, one for each thread
    (196, 14, 96, (2, 112)),  # of three, threads share blocks of pixels out
    (784, 14, 64, (7, 112)),
    (400, 12, 64, (9, 48)),
    (49, 13, 32, (1, None)),
])  # fmt: skip
def test_blocks_of_pixels_that_are_read_where_they_lie(pixels, high, outputs, blocks, monkeypatch):
    """They end with a tile and a vector: in blocks of 42 or 48 pixels, tiles of 14 would compute an eighth
    more."""
    monkeypatch.setattr(reach, "cost_of", lambda target: KNOWN[target.mcpu])
    x, w = te.placeholder((1, 64, 1, pixels), name="x"), te.placeholder((outputs, 64, 1, 1), name="w")
    found = conv_of(ops.conv2d(x, w).op)
    assert found is not None
    assert pixel_tiles.blocks_of(found, pixels, high, 2, 16, Target.parse(IN_PLACE)) == blocks
