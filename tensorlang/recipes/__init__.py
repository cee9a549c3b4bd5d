"""Schedules made of public primitives only: what a careful hand would write without knowing more than the
shapes."""

from __future__ import annotations

from ..entries import share
from .chosen import chooses_along
from .common import read_again, together_of
from .default_schedule import default_schedule, scheduled
from .exchanges import another_way
from .integers import operand_to_turn, splits
from .minimal_filtering import all_by_block
from .nests import Axes, Cut, Loops, fill, fuse, nest, pack, sums
from .pixels import FEW, convolve, fill_weight, pack_weight, strips, transpose_pixels
from .terms import dear_term, hold_terms, same_in_rows

__all__ = [
    "FEW",
    "Axes",
    "Cut",
    "Loops",
    "all_by_block",
    "another_way",
    "chooses_along",
    "convolve",
    "dear_term",
    "default_schedule",
    "fill",
    "fill_weight",
    "fuse",
    "hold_terms",
    "nest",
    "operand_to_turn",
    "pack",
    "pack_weight",
    "read_again",
    "same_in_rows",
    "scheduled",
    "splits",
    "strips",
    "sums",
    "together_of",
    "transpose_pixels",
]

share(__name__)
