"""Tiles of pixels × vectors of outputs: what the last outputs are summed in, and who packs a weight that
comes with the call."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.recipes import conv, default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, NEON
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import declared

RNG = np.random.default_rng(14)
module = importlib.import_module("tensorlang.recipes.default_schedule")  # a function hides it


@pytest.fixture(autouse=True)
def _tiles_of_outputs(monkeypatch):
    """Whatever the table of costs prefers."""
    monkeypatch.setattr(module, "FAMILIES", (conv,))


@pytest.mark.each_value
@pytest.mark.parametrize(("target", "lanes"), [(AVX2, 8), (AVX512, 16), (NEON, 4)])
@pytest.mark.parametrize(
    ("channels", "outputs", "size", "kernel", "stride"),
    [(12, 26, (9, 12), 3, 1), (9, 51, (11, 7), 3, 2), (6, 35, (8, 13), 5, 1), (20, 23, (10, 10), 1, 1)],
)
def test_the_last_outputs_are_summed_in_a_whole_vector(
    channels, outputs, size, kernel, stride, target, lanes
):
    """Of 26 outputs ten were summed in vectors of eight and two, each in registers of its own: 32 took less
    time."""
    x, w = small(RNG, (1, channels, *size)), small(RNG, (outputs, channels, kernel, kernel))
    b = small(RNG, (outputs,))
    options = {"padding": kernel // 2, "stride": stride}
    X, W, B, out = declared(x, w, b, **options)
    one = f"{target} -num-cores=1"
    f = tl.build(default_schedule(out, one, [W]), [X, W, B, out], target=one)
    sums = [s for s in f.get_source("ir").splitlines() if re.search(r"(\S+\[[^=]*\]) = \1 \+ ", s)]
    assert sums and not [s for s in sums if "mask" in s or "if_then_else" in s]
    # a rest that is one shorter vector is one
    assert all(re.search(rf"0 : ({lanes}|8)\] = ", s) for s in sums) or (outputs % lanes).bit_count() == 1
    want = np.maximum(images.conv(x, w, b, **options), 0)
    exact(tl.compile([X, B, out], constants={W: w})(x, b), want, "float32")
    exact(tl.compile([X, W, B, out])(x, w, b), want, "float32")


@pytest.mark.parametrize("cores", [2, 4])
def test_threads_wait_for_no_weight_that_another_has_packed(cores):
    """Two threads packed it together, and each read what the other had just written: 192 to 43 channels of
    9 × 9 took three times as long as on one."""
    X, W, B, out = declared(*(np.zeros(n, "f4") for n in ((1, 24, 9, 9), (128, 24, 3, 3), 128)), padding=1)
    tree = str(default_schedule(out, f"{AVX512} -num-cores={cores}").tree())
    assert re.search(r"parallel\n +├─ storage W", tree), tree


@pytest.mark.parametrize("outputs", [112, 128])
def test_a_weight_of_the_call_is_transposed_a_vector_of_outputs_at_a_time(outputs):
    """Panels of four vectors took LLVM four times as long; the last panel of 112 outputs, which has only
    three, was read lane by lane."""
    X, W, B, out = declared(
        *(np.zeros(n, "f4") for n in ((1, 64, 28, 28), (outputs, 64, 3, 3), outputs)), padding=1, stride=2
    )
    one = f"{AVX512} -num-cores=1"
    f = tl.build(default_schedule(out, one), [X, W, B, out], target=one)
    packed = [s for s in f.get_source("ir").splitlines() if re.match(r" *W\.\S+\[.*\] = ", s)]
    assert len(packed) == 36 and all(re.search(r"16 : [^:]*16\] = ", s) for s in packed), packed
