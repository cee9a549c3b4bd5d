"""What a convolution reads, and which of image and weight comes again: the loop around the other."""

from __future__ import annotations

import importlib
import re

import pytest

from tensorlang import ops, te
from tensorlang.recipes import conv, default_schedule
from tensorlang.target import Target

module = importlib.import_module("tensorlang.recipes.default_schedule")  # a function hides it
ZEN4 = Target.parse("llvm -mcpu=znver4 -num-cores=1")
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
