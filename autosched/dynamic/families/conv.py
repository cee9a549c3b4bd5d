"""Convolutions with open heights and widths, channels first: schedules whose register tiles are pixels ×
vectors of output channels.

As the recipe for fixed sizes does, most count the pixels of all rows as one axis, so that a tile runs over
the end of a row and only the last of an image is not full: where a pixel lies takes a division by the width,
once a tile. The image is copied with its channels innermost, for which the steps of the inner loop are
numbers; with its own layout they are products of open sizes, which LLVM computes anew in each iteration (a
tenth slower).

Where the sizes of the result are not dims but sums of them, no layout can count so. Then a tile ends with its
row, the last one beginning earlier so that it is full too: that takes rows of at least one tile, and one
schedule serves narrower ones. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Conv, conv_of
from tensorlang.ops import tags
from tensorlang.recipes import FEW, convolve, fill_weight, pack_weight, strips, transpose_pixels

from .products import Tiled, size_of

COUNTED, ROW, ANY = "", " of a row", " of a row, any width"
SHARED_IMAGES, SHARED_CHANNELS = "", ", channels shared out"


@dataclass(frozen=True)
class Tile:
    """``high`` pixels × ``vectors``; ``written``: the taps of a row are written out, which is 5 to 10 %
    faster, but 6 × 2 sums of a row then spill, for LLVM keeps what neighbouring taps share in registers as
    well (half as fast, measured on Zen 3)."""

    high: int
    vectors: int
    written: bool
    kind: str
    shared: str = SHARED_IMAGES

    def __str__(self) -> str:
        return f"{self.high} pixels × {self.vectors} vectors{self.kind}{self.shared}"


TILES = (
    Tile(5, 2, True, COUNTED),
    Tile(6, 2, True, COUNTED),
    Tile(5, 2, True, ROW),
    Tile(4, 2, True, ROW),
    Tile(7, 1, True, ROW),
    Tile(6, 2, False, ROW),
    Tile(4, 2, True, ANY),
)
# where one vector holds all channels
NARROW = (
    Tile(10, 1, True, COUNTED),
    Tile(12, 1, True, COUNTED),
    Tile(10, 1, True, ROW),
    Tile(7, 1, True, ROW),
    Tile(12, 1, False, ROW),
    Tile(7, 1, True, ANY),
)


def conv_stage(s: tl.Schedule) -> tuple[tl.Stage, Conv] | None:
    """The one reduction of the schedule, when it is a convolution of one group over two open axes."""
    found = [st for st in s.stages if isinstance(st.op, te.ComputeOp) and st.op.reduce_axis]
    conv = conv_of(found[0].op) if len(found) == 1 else None
    if conv is None or conv.groups > 1 or (len(conv.batch), len(conv.spatial), len(conv.taps)) != (1, 2, 2):
        return None
    return found[0], conv


def schedules_of(
    stated: Callable[[Mapping[str, int]], list[te.Tensor]],
    target: tl.Target,
    constants: Sequence[str],
    threads: int,
) -> Iterator[Tiled]:
    """A schedule for each tile that is legal; none when the computation is no such convolution. ``stated``
    makes the tensors, with the dims of at least the sizes that it is given, or none where there are no such
    sizes."""
    s = tl.create_schedule([t for t in stated({}) if not isinstance(t.op, te.PlaceholderOp)])
    found = conv_stage(s)
    if found is None or sum(st.state.is_output for st in s.stages) != 1:
        return
    stage, conv = found
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    narrow = conv.each <= lanes
    width = size_of(conv.spatial[-1])
    for tile in _tiles(narrow, threads):
        full = tile.kind == ROW
        least = {width: tile.high} if full and isinstance(width, str) else {}
        if tile.kind == COUNTED:  # a division by the width, even where there is nothing to compute
            least = {n: 1 for n in map(size_of, conv.spatial) if isinstance(n, str)}
        tensors = stated(least)
        fits = tile.high * tile.vectors + tile.vectors + 1 <= target.vector_registers and not (
            full and isinstance(width, int) and width < tile.high
        )
        if not tensors or not fits:
            continue
        s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
        found = conv_stage(s)
        assert found is not None
        try:
            out = next(st for st in s.stages if st.state.is_output)
            _apply(s, out, found[0], tile, lanes, [t for t in tensors if t.name in constants], threads)
        except tl.ScheduleError:
            continue
        yield Tiled(
            str(tile), s, tensors, least, ((width, tile.high),) if full and isinstance(width, str) else ()
        )


def _tiles(narrow: bool, threads: int) -> Iterator[Tile]:
    for tile in NARROW if narrow else TILES:
        yield tile
        if tile.kind == COUNTED and threads > 1:
            yield replace(tile, shared=SHARED_CHANNELS)


def _apply(
    s: tl.Schedule,
    out: tl.Stage,
    stage: tl.Stage,
    tile: Tile,
    lanes: int,
    constants: Sequence[te.Tensor],
    threads: int,
) -> None:
    width = lanes * tile.vectors
    for st in s.stages:
        if (
            isinstance(st.op, te.ComputeOp)
            and st.name not in (out.name, stage.name)
            and st.op.tag != tags.PAD
        ):
            st.compute_inline()
    inside = s[s.cache_write(out.name, "local")] if stage.name == out.name else stage
    conv = conv_of(inside.op)
    assert conv is not None
    image, weight, channel, (down, across) = conv.data, conv.weight, conv.channels, conv.taps
    # the loop inside is long, or has no end to guess
    order = [down, channel, across] if tile.written else [down, across, channel]
    comes = not any(t is weight for t in constants)
    packed = pack_weight(s, conv, inside, width, order, filled=comes)
    padded = s[s.state.of(image).name] if isinstance(s.state.of(image).op, te.ComputeOp) else None
    if tile.kind == COUNTED:
        padded = s[s.cache_read(image, "global", [inside.name])] if padded is None else padded
        padded.transform_layout(lambda n, c, y, x: [n, y, x, c])
    wide = inside.op.axis[3].extent

    def laid_out(n: Any, o: Any, y: Any, x: Any) -> list[Any]:
        return [n, y * wide + x, o] if tile.kind == COUNTED else [n, y, x, o]

    finished = strips(s, out, inside, laid_out)
    n, o, y, x = out.op.axis
    if tile.kind == COUNTED:
        around = "n (oo) y" if tile.shared == SHARED_CHANNELS else "(n) oo y"
    else:
        around = "n (y) oo"
    convolve(
        s,
        out,
        finished,
        inside,
        {"n": n, "o": o, "y": y, "x": x},
        f"{around} xo oio | oii xi",
        {"o": width, "x": lanes, "oi": FEW},
        (tile.high, "shift") if tile.kind == ROW else tile.high,
        order,
        strip=-4 if tile.kind == COUNTED else -3,
        parallel=threads > 1,
    )
    if tile.written:
        inside.unroll(across)
    if comes:
        panel = packed.op.axis[0]
        fill_weight(packed, conv, order, lanes)
        if threads > 1:
            packed.parallel(panel)
    if padded is not None:
        padded.compute_at(out, n)
        if tile.kind == COUNTED:
            transpose_pixels(padded, lanes)
        else:
            padded.vectorize(padded.split(padded.op.axis[-1], lanes)[1])
        if tile.shared == SHARED_CHANNELS:
            padded.parallel(padded.op.axis[1])
