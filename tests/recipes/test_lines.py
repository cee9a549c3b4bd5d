"""The recipe for convolutions along a line of open length: right bit for bit on every rest, a tile of outputs
in registers, and kept to where it pays."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512, inner_loop
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small

from .test_direct import declared

RNG = np.random.default_rng(29)
LINES = "recipes.lines"
# (channels, outputs, taps, options): whole panels, rests of vectors and of outputs, one long tap
CASES = [
    (16, 48, 3, {"padding": 1}),
    (5, 60, 4, {"padding": (2,), "stride": 2}),
    (1, 66, 32, {"stride": 16}),
    (40, 16, 1, {}),
    (9, 26, 3, {"padding": 3, "dilation": 2, "stride": 3}),
]


@pytest.mark.each_value
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("channels", "outputs", "taps", "options"), CASES, ids=str)
def test_every_length(channels, outputs, taps, options, threads):
    X, W, B, out = declared(channels, outputs, (taps,), op=ops.conv1d, **options)
    w, b = small(RNG, (outputs, channels, taps)), small(RNG, (outputs,))
    f = tl.compile([X, B, out], f"llvm -mcpu=native -num-cores={threads}", constants={W: w})
    assert LINES in str(f.explain())
    for n, length in [(1, taps * 2), (3, taps * 2 + 1), (1, 33), (2, 40), (1, 47), (1, 200), (0, 50)]:
        x = small(RNG, (n, channels, max(length, taps * 2)))
        exact(f(x, b), np.maximum(images.conv(x, w, b, **options), 0), "float32")


@pytest.mark.parametrize(("target", "register"), [(AVX2, "ymm"), (AVX512, "zmm")])
def test_sums_are_whole_vectors_in_registers(target, register):
    X, W, B, out = declared(32, 192, (3,), op=ops.conv1d, padding=1)
    s = default_schedule(out, target, constants=[W])
    w = small(RNG, (192, 32, 3))
    asm = tl.build(s, [X, B, out], target=target, constants={W: w}).get_source("asm")
    body = inner_loop(asm, "vfmadd")
    assert len([x for x in body if re.search(rf"vfmadd\w+ps\s.*%{register}", x)]) >= 12
    assert not [x for x in body if re.search(rf"vmov\w+\s+%{register}\d+, .*\(%rsp\)", x) or "div" in x]


@pytest.mark.parametrize(
    ("outputs", "options", "given"), [(9, {}, True), (64, {"groups": 4}, True), (64, {}, False)]
)
def test_others_keep_vectors_along_the_line(outputs, options, given):
    """Mostly empty vectors of outputs, groups, and a weight that no one packs ahead."""
    X, W, B, out = declared(16, outputs, (3,), op=ops.conv1d, **options)
    w = small(RNG, tuple(map(int, W.shape)))
    f = tl.compile([X, B, out], constants={W: w}) if given else tl.compile([X, W, B, out])
    assert LINES not in str(f.explain())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("taps", [1, 3])
def test_a_call_chooses_by_the_length(taps, threads):
    """Sums of 1024 places and more were written a line apart, to one set of the first cache. Both ways read
    one packed weight: with two a kernel had one way only."""
    n = tl.te.dim("n")
    X, W = tl.te.placeholder((2, 20, n), name="X"), tl.te.placeholder((66, 20, taps), name="W")
    out = ops.conv1d(X, W, padding=taps // 2)
    w = small(RNG, (66, 20, taps))
    f = tl.compile([X, out], f"llvm -mcpu=native -num-cores={threads}", constants={W: w})
    assert "n <= 64" in f.get_source("ir")
    for length in (1, 33, 64, 65, 130, 1024):
        x = small(RNG, (2, 20, length))
        exact(f(x), images.conv(x, w, None, padding=taps // 2), "float32")
