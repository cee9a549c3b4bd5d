"""Copies of a nest for the tiles that are whole in some directions."""

from __future__ import annotations

import re

import numpy as np

import tensorlang as tl
from tensorlang import ops, te


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
