"""Tiles and blocks of convolutions: they end with the share of rows, with the outputs, and with a group."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small
from tests.recipes.test_conv import both, declared

RNG = np.random.default_rng(8)


@pytest.mark.parametrize(
    ("channels", "each", "groups", "kernel", "stride", "size"),
    [(10, 19, 4, 5, 2, 36), (4, 17, 2, 5, 1, 17), (22, 47, 2, 3, 2, 13)],
)
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=["AVX2", "AVX-512"])
def test_outputs_that_are_written_together_are_of_one_group(
    channels, each, groups, kernel, stride, size, target
):
    """Of 19 outputs, five times four were written; so the next group was summed with each: 1.5 to 1.8 times as
    long as it takes."""
    x, w = (
        small(RNG, (1, channels * groups, size, size)),
        small(RNG, (each * groups, channels, kernel, kernel)),
    )
    b = small(RNG, (each * groups,))
    options = {"padding": kernel // 2, "stride": stride, "groups": groups}
    exact(both(x, w, b, **options), np.maximum(images.conv(x, w, b, **options), 0), "float32")
    X, W, _, out = declared(x, w, b, **options)
    tree = str(default_schedule(out, f"{target} -num-cores=1", constants=[W]).tree())
    (held,) = re.findall(r"storage relu\.local +float32\[1, (\d+), \d+, (\d+)\]", tree)
    assert held == ("1", str(each)), tree


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("outputs", [101, 112])
def test_blocks_end_with_a_share_of_rows_and_vectors_with_the_outputs(outputs, cores, monkeypatch):
    """Shares of 196 pixels were five blocks of 48, and 112 outputs two panels of 64: 1.2 and 1.12 times as
    long as it takes."""
    x, w = small(RNG, (1, 61, 28, 28)), small(RNG, (outputs, 61, 7, 7))
    b = small(RNG, (outputs,))
    exact(both(x, w, b, padding=3), np.maximum(images.conv(x, w, b, padding=3), 0), "float32")
    monkeypatch.delenv("TENSORLANG_COST")  # with the table that Zen 4 has
    target = f"llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores={cores}"
    X, W, B, out = declared(x, w, b, padding=3)
    s = default_schedule(out, target, constants=[W])
    tree = str(s.tree())
    (block,) = re.findall(r"storage relu\.local +float32\[1, (\d+), 64\]", tree)
    assert -(-196 // int(block)) * int(block) <= 198, tree
    text = str(tl.lower(s, [X, W, B, out]))
    assert re.search(r"conv2d: float32\[1, (4|min\(.*4\)), 6, 16\]", text), text[:3000]


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "size"), [(3, 91, 5, 7), (2, 91, 7, 7), (4, 96, 5, 9)]
)
def test_threads_have_as_many_panels_each(channels, outputs, kernel, size, monkeypatch):
    """Of three panels of two vectors, which are packed by the thread that reads them, one had two."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x, w = small(RNG, (1, channels, size, size)), small(RNG, (outputs, channels, kernel, kernel))
    X, W, _, out = declared(x, w, None, relu=False, padding=kernel // 2)
    s = default_schedule(out, "llvm -mcpu=znver4 -num-cores=2")
    panels = re.search(r"loop conv2d\.o\.outer +0\.\.(\d+)  parallel", str(s.tree()))
    assert panels and int(panels[1]) == -(-outputs // 16), s.tree()
    want, got = images.conv(x, w, padding=kernel // 2), np.zeros((1, outputs, size, size), "float32")
    interpret(tl.lower(s, [X, W, out]), x, w, got)
    exact(got, want, "float32")
    exact(both(x, w, None, relu=False, padding=kernel // 2), want, "float32")
