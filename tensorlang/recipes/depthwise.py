"""Depthwise convolutions, channels first: a few rows of vectors of pixels in registers, the taps written out, one padded plane at a time.

Each row that is loaded serves all taps of its column, so a tile of several rows loads little more than its taps; and the margin is
put around one channel at a time, which stays in the first caches. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..analysis import reads_of, reducer_kind, step
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor
from .common import MIN_PARALLEL_WORK, size, work

MOST_TAPS = 25  # that are written out
TILE = 4  # vectors of sums


def applies(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``inside`` sums taps of one channel: channels first, no channel reduced, pixels side by side."""
    op = inside.op
    if reducer_kind(op) != "add" or len(op.body) != 1 or len(op.axis) < 3 or len(op.reduce_axis) != len(op.axis) - 2:
        return False
    if any(size(a) is None for a in (*op.axis[1:], *op.reduce_axis)) or any(size(a) == 0 for a in (*op.axis, *op.reduce_axis)):
        return False
    if math.prod(size(a) or 1 for a in op.reduce_axis) > MOST_TAPS or size(op.axis[-1]) == 1:
        return False
    return _image(inside) is not None


def _image(inside: Stage) -> Tensor | None:
    """What the window slides over: the tensor whose last indices each move with a place and a tap."""
    places, taps = inside.op.axis[2:], inside.op.reduce_axis
    reads = [(t, at) for t, at in reads_of(inside.op).plain if len(at) == len(inside.op.axis)]
    found = [t for t, at in reads if all(step(i, p) and step(i, r) for i, p, r in zip(at[2:], places, taps, strict=True))]
    return found[0] if len(found) == 1 else None


def apply(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Compute ``inside`` in tiles of rows × a vector of ``out``, which has its shape and reads it at its own place."""
    lanes = target.vector_lanes(inside.op.body[0].dtype)
    image, turns = _image(inside), work(inside)
    n, c, *around, x = out.op.axis
    own = inside.op.axis
    wide = size(x) or 1
    # the last vector and the last rows overlap those before: masked loads with a stride would go one by one
    xo, xi = out.split(x, min(lanes, wide), tail="shift" if wide > lanes else "auto")
    tile: list[IterVar] = []
    if around:
        y = around.pop()
        high = size(y) or 1
        y, yi = out.split(y, -(-high // -(-high // TILE)), tail="shift")
        around.append(y)
        tile = [yi]
    out.reorder(n, c, *around, xo, *tile, xi)
    for a in tile:
        out.unroll(a)
    out.vectorize(xi)
    channel = out.fuse(n, c)
    if turns >= MIN_PARALLEL_WORK:
        out.parallel(channel)
    inside.compute_at(out, xo)
    if s.can("set_scope", inside.name, "local"):
        inside.set_scope("local")
    inside.reorder(*own[:-2], *inside.op.reduce_axis, *own[-2:]) if tile else inside.reorder(*own[:-1], *inside.op.reduce_axis, own[-1])
    inside.vectorize(own[-1])
    for a in (*inside.op.reduce_axis, *([own[-2]] if tile else [])):
        inside.unroll(a)
    _pad(s, image, out, inside, channel, target)


def _pad(s: Schedule, image: Tensor | None, out: Stage, inside: Stage, channel: IterVar, target: Target) -> None:
    """Put the margin around one channel at a time, when nothing else reads the padded image."""
    if image is None:
        return
    producer = s.state.of(image)
    if not isinstance(producer.op, ComputeOp) or producer.op.tag != tags.PAD or not s.can("compute_at", producer.name, out.name, channel.name):
        return
    padded = s[producer.name]
    padded.compute_at(out, channel)
    n = size(padded.op.axis[-1])
    lanes = target.vector_lanes(padded.op.body[0].dtype)
    padded.vectorize(padded.split(padded.op.axis[-1], lanes if n is None else min(lanes, n))[1])
