"""Copies of a nest for the tiles that are whole in some directions."""

from __future__ import annotations

import re

import numpy as np

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule


def test_products_of_four_in_the_last_tile_of_rows_do_not_ask_for_the_end_of_the_sum() -> None:
    """257 terms are 64 fours and one; in the last 16 of 33 rows each product had asked, and none was a four."""
    a, b = te.placeholder((33, 257), "int8", name="a"), te.placeholder((257, 80), "int8", name="b")
    c = ops.matmul_integer(a, b)
    text = tl.compile([a, b, c], target="llvm -mcpu=znver4 -num-cores=1").get_source("ir")
    assert len(re.findall(r"for k\.outer_1 ", text)) == len(re.findall(r"if k\.outer_1 <= 63:", text)) == 2
    assert "if k.outer_1 < 64" not in text
    rng = np.random.default_rng(0)
    x, y = rng.integers(-128, 128, (33, 257), "int8"), rng.integers(-128, 128, (257, 80), "int8")
    assert np.array_equal(tl.compile([a, b, c])(x, y), x.astype("int32") @ y)


def test_whole_tiles_of_a_last_panel_ask_nothing_within_their_sums(monkeypatch) -> None:
    """61 outputs are a panel of 32 and one of 29. The tiles of pixels of the second one had no copy without tests:
    each product had asked whether its pixel is one of the image."""
    monkeypatch.delenv("TENSORLANG_COST")  # with the table that Zen 4 has
    x, w = te.placeholder((1, 74, 62, 62), name="x"), te.placeholder((61, 74, 5, 5), name="w")
    b = te.placeholder((61,), name="b")
    y = ops.conv2d(x, w, b, stride=2, padding=2)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2"
    s = default_schedule(y, target, constants=[w])
    sums = bodies(tl.build(s, [x, w, b, y], target=target).get_source("ir"), "rc")
    assert max(body.count(" + ") for body in sums) >= 100
    assert not [body for body in sums if " if " in body]


def bodies(text: str, loop: str) -> list[str]:
    """What stands in each loop of that name."""
    found, lines = [], text.splitlines()
    for n, line in enumerate(lines):
        if f"for {loop} in" in line:
            depth = len(line) - len(line.lstrip())
            end = next(m for m in range(n + 1, len(lines)) if len(lines[m]) - len(lines[m].lstrip()) <= depth)
            found.append("\n".join(lines[n + 1 : end]))
    return found
