"""Taps of windows of bytes, four neighbours along a row by one instruction: those of a pixel begin one to
three bytes behind those of the pixel before, and are put side by side in a register as they are read. Uses
public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import Windows, windows_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar, Tensor
from .common import LINE, is_known, size, together_of
from .conv import rows_in_vectors

FOUR = 4  # bytes that one instruction multiplies for each sum
STRIDES = (1, 2, 3)  # from a pixel's taps to those of the next, which ``codegen`` puts side by side


def fours_of(inside: Stage, target: Target, constants: Sequence[Tensor]) -> Windows | None:
    """The windows of ``inside`` where the taps of a row are multiplied in fours: of uint8 and int8, known
    sizes, and a constant weight, which is laid out with zeros behind its rows."""
    w = windows_of(inside.op)
    if w is None or together_of(w.data, w.weight, target) != FOUR or not is_known(w.weight, constants):
        return None
    x, tap, last = inside.op.axis[-1], inside.op.reduce_axis[-1], w.moved[-1]
    along = last.axis is x and last.tap is tap and last.dilation == 1 and last.stride in STRIDES
    in_line = w.weight_axes.get(tap) == len(w.weight.shape) - 1
    return w if along and in_line and size(x) is not None else None


def weight_in_fours(s: Schedule, inside: Stage, windows: Windows) -> None:
    """Let ``inside`` read a copy of the weight in which a row of taps is whole fours."""
    copy = s[s.cache_read(windows.weight, "global", [inside.name])]
    copy.transform_layout(lambda *at: [*at[:-1], at[-1] // FOUR, at[-1] % FOUR])


def taps_in_fours(inside: Stage, tile: bool, most: int, high: int) -> list[IterVar]:
    """The loops of the sum of a row, or a ``tile`` of rows, in the order in which four taps of each are one
    instruction. Those that are written out: of windows of more than ``most`` taps the taps of a column, if
    they are no more than ``high``."""
    *columns, last = inside.op.reduce_axis
    own = inside.op.axis
    fours, taps = inside.split(last, FOUR, tail="zeros")
    front, row = (own[:-2], own[-2:-1]) if tile else (own[:-1], ())
    inside.reorder(*front, fours, *columns, *row, taps, own[-1])
    if math.prod(size(a) or 1 for a in inside.op.reduce_axis) <= most:
        return [fours, *columns, taps]
    column = columns[-1:] if tile and columns and (size(columns[-1]) or 1) <= high else []
    return [*column, taps]


def rows_of_bytes(padded: Stage, target: Target) -> None:
    """The loops of the image with its margin: rows in the widest vectors there are, each on a line of memory.
    Measured (Zen 4, one thread): 3 × 3 of 28 × 28 and 56 × 56 at stride 2 0.92 and 0.97 of the time, on lines
    0.96 and 1.0."""
    lanes = target.vector_lanes(padded.op.body[0].dtype)
    rows_in_vectors(padded, lanes)
    padded.pragma(padded.leaf_iter_vars[-1], "whole_vectors", lanes)
    padded.storage_align(padded.op.axis[-3], LINE, 0)
