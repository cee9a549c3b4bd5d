"""Schedules made of public primitives only: what a careful hand would write without knowing more than the
shapes."""

from __future__ import annotations

from ..entries import share
from .common import read_again
from .default_schedule import default_schedule, scheduled
from .minimal_filtering import all_by_block, fewer_multiplications
from .nests import Axes, Cut, Loops, fill, fuse, nest, pack, sums
from .pixels import FEW, convolve, fill_weight, pack_weight, strips, transpose_pixels

__all__ = [
    "FEW",
    "Axes",
    "Cut",
    "Loops",
    "all_by_block",
    "convolve",
    "default_schedule",
    "fewer_multiplications",
    "fill",
    "fill_weight",
    "fuse",
    "nest",
    "pack",
    "pack_weight",
    "read_again",
    "scheduled",
    "strips",
    "sums",
    "transpose_pixels",
]

share(__name__)
