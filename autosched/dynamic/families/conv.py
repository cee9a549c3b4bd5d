"""Convolutions with open heights and widths, channels first: schedules whose register tiles are pixels of one row × vectors of output channels.

The recipe for fixed sizes counts the pixels of all rows as one axis, so that a tile runs over the end of a row; with an open width no layout can
say so, and a tile ends with its row, the last one beginning earlier so that it is full too: that takes rows of at least one tile, and one schedule
serves narrower ones. Which height of a tile loses the least depends on the width: the tree decides. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, reads_of, reducer_kind
from tensorlang.ops import tags

from .products import Tiled, size_of

# pixels × vectors, and whether the taps of a row are written out: 5 to 10 % faster, but with 6 × 2 sums LLVM keeps what neighbouring taps share in
# registers as well and spills (half as fast, measured on Zen 3)
TILES = ((5, 2, True), (4, 2, True), (7, 1, True), (6, 2, False))
NARROW = ((10, 1, True), (7, 1, True), (12, 1, False))  # where one vector holds all channels
ANY = (4, 2, True), (7, 1, True)  # the schedules of rows that are narrower than a tile, of many channels and of few
FEW = 4  # rows of elements that are turned together


def conv_stage(s: tl.Schedule) -> tl.Stage | None:
    """The one reduction of the schedule, when it is a convolution of one group over two open axes."""
    found = [st for st in s.stages if isinstance(st.op, te.ComputeOp) and st.op.reduce_axis]
    if len(found) != 1:
        return None
    op = found[0].op
    reads = reads_of(op).plain
    if reducer_kind(op) != "add" or len(op.axis) != 4 or len(op.reduce_axis) != 3 or len(reads) != 2 or op.body[0].condition is not None:
        return None
    n, o, *_ = op.axis
    weights = [i for i, (_, at) in enumerate(reads) if len(at) == 4 and at[0] is o.var]
    if len(weights) != 1 or constant(o.extent) is None or any(constant(a.extent) in (None, 0) for a in op.reduce_axis):
        return None
    data = reads[1 - weights[0]][1]
    whole = all(i is a.var or constant(a.extent) == 1 for i, a in zip(reads[weights[0]][1][1:], op.reduce_axis, strict=True))
    return found[0] if whole and len(data) == 4 and data[0] is n.var and data[1] is op.reduce_axis[0].var else None


def schedules_of(stated: Callable[[Mapping[str, int]], list[te.Tensor]], target: tl.Target, constants: Sequence[str],
                 threads: int) -> Iterator[Tiled]:
    """A schedule for each tile that is legal; none when the computation is no such convolution. ``stated`` makes the tensors, with the dims
    of at least the sizes that it is given, or none where there are no such sizes."""
    s = tl.create_schedule([t for t in stated({}) if not isinstance(t.op, te.PlaceholderOp)])
    stage = conv_stage(s)
    if stage is None or sum(st.state.is_output for st in s.stages) != 1:
        return
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    narrow = (constant(stage.op.axis[1].extent) or 0) <= lanes
    width = size_of(stage.op.axis[3])
    for high, vectors, written, full in [*((*t, True) for t in (NARROW if narrow else TILES)), (*ANY[narrow], False)]:
        least = {width: high} if full and isinstance(width, str) else {}
        tensors = stated(least)
        if not tensors or high * vectors + vectors + 1 > target.vector_registers or (full and isinstance(width, int) and width < high):
            continue
        s = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
        stage = conv_stage(s)
        assert stage is not None
        try:
            out = next(st for st in s.stages if st.state.is_output)
            _apply(s, out, stage, (high, vectors, written, full), lanes, [t for t in tensors if t.name in constants], threads)
        except tl.ScheduleError:
            continue
        yield Tiled(f"{high} pixels × {vectors} vectors{'' if full else ', any width'}", s, tensors, least, tuple(least.items()))


def _apply(s: tl.Schedule, out: tl.Stage, stage: tl.Stage, tile: tuple[int, int, bool, bool], lanes: int, constants: Sequence[te.Tensor],
           threads: int) -> None:
    high, vectors, written, full = tile
    width = lanes * vectors
    for st in s.stages:
        if isinstance(st.op, te.ComputeOp) and st.name not in (out.name, stage.name) and st.op.tag != tags.PAD:
            st.compute_inline()
    inside = s[s.cache_write(out.name, "local")] if stage.name == out.name else stage
    reads = reads_of(inside.op).plain
    weight = next(t for t, at in reads if at[0] is inside.op.axis[1].var)
    image = next(t for t, at in reads if t is not weight)
    taps = list(inside.op.reduce_axis)
    packed = s[s.cache_read(weight, "global", [inside.name])]
    packed.transform_layout(lambda o, c, *at: [o // width, c, *at, o % width])
    *_, lane = packed.op.axis
    packed.vectorize(lane)
    inside.transform_layout(lambda n, o, y, x: [n, y, x, o])
    finished = s[s.cache_write(out.name, "local")]
    finished.transform_layout(lambda n, o, y, x: [n, y, x, o])

    n, o, y, x = out.op.axis
    oo, oi = out.split(o, width)
    xo, xi = out.split(x, lanes)
    ob, oi = out.split(oi, FEW)
    out.reorder(n, y, oo, xo, ob, oi, xi)
    out.unroll(oi)
    out.vectorize(xi)
    if threads > 1:
        out.parallel(y)
    finished.compute_at(out, oo)
    *_, fx, fo = finished.op.axis
    fx, fi = finished.split(fx, high, tail="shift" if full else "auto")
    finished.unroll(fi)
    finished.vectorize(fo)
    inside.compute_at(finished, fx)
    if s.can("set_scope", inside.name, "local"):
        inside.set_scope("local")
    *front, ix, io = inside.op.axis
    inside.reorder(*front, *taps, ix, io)
    if written:
        inside.unroll(taps[-1])
    inside.unroll(ix)
    inside.vectorize(io)
    producer = s.state.of(image)
    if isinstance(producer.op, te.ComputeOp):
        padded = s[producer.name]
        padded.compute_at(out, n)
        _, lane = padded.split(padded.op.axis[-1], lanes)
        padded.vectorize(lane)
    if not any(t is weight for t in constants) and threads > 1:
        packed.parallel(packed.op.axis[0])
