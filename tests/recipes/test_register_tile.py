"""The one chooser of register tiles."""

from __future__ import annotations

import pytest

from tensorlang.analysis import cost_of
from tensorlang.recipes import register_tile
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX512


def test_all_rows_are_one_tile_where_columns_are_read_in_place() -> None:
    table = cost_of(as_target(AVX512))
    assert register_tile.tile_for(14, 600, 16, 32, table, once=True) == (14, 2)
    assert register_tile.tile_for(40, 600, 16, 32, table, once=True)[0] < 40


def test_all_columns_are_one_tile_where_two_would_compute_some_twice() -> None:
    """70 columns were two tiles of three vectors each, 96 for 70; of 16 registers two rows would be left."""
    assert register_tile.tile_for(90, 70, 16, 32, masks=True, whole=True) == (5, 5)
    assert register_tile.tile_for(90, 300, 16, 32, masks=True, whole=True)[1] <= 4
    assert register_tile.tile_for(50, 33, 8, 16, masks=True, whole=True)[1] <= 4


@pytest.mark.parametrize(
    ("columns", "width", "masks", "much"),
    [(100, 64, True, True), (100, 64, False, False), (120, 64, True, False), (90, 48, True, False)],
)
def test_a_tile_that_would_compute_much_twice_has_a_mask(columns, width, masks, much):
    """100 columns in tiles of 64: eight vectors where seven are enough."""
    assert register_tile.computes_much_twice(columns, width, 16, masks) == much
