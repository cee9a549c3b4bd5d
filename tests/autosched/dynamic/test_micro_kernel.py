"""Which register tiles there are, and the blocks of columns they are grouped in."""

from __future__ import annotations

import itertools
import math

import pytest

from autosched.dynamic.micro_kernel import tiles
from tensorlang.analysis import ROOFLINE


@pytest.mark.parametrize(
    ("registers", "lanes", "columns"), [(16, 8, 768), (32, 16, 768), (16, 8, 68), (32, 4, 3072), (16, 8, 1)]
)
def test_tiles_fit_the_registers(registers, lanes, columns):
    found = list(tiles(registers, lanes, columns))
    assert len(found) == len(set(found))
    heights = [t.rows for t in found]
    assert sorted(set(heights)) == list(
        range(1, max(heights) + 1)
    )  # rows are cut into blocks of every height
    for t in found:
        assert (
            t.rows * t.vectors + t.vectors * (t.rows > 1) + 1 <= registers
            and (t.vectors - 1) * lanes < columns
        )
        assert t.block % (t.vectors * lanes) == 0
    if columns >= lanes * 8:
        assert all(t.rows * t.vectors >= ROOFLINE.chains for t in found if t.rows > 1)


def test_each_thread_gets_as_many_blocks_of_columns():
    """Three blocks of 768 columns for two threads: one of them had twice the work of the other."""
    for threads, columns in itertools.product((1, 2, 3, 4, 8), (68, 768, 2304, 3072)):
        for t in tiles(16, 8, columns, threads):
            if columns >= 8 * threads * t.vectors * 8:
                # columns of the thread that has most
                most = math.ceil(math.ceil(columns / t.block) / threads) * t.block
                assert most * threads <= 1.35 * columns, (threads, columns, t)
