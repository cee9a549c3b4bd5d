"""Prefetches: one request for a line, and those in shares: what comes after loops that read the same elements
again and again, as a block of a product's right operand is read by each tile of rows, is asked for a little
in each of their iterations. Asked for at once it would hold up what runs; not asked for, the first of those
iterations waits for all of it.

Knows the ends of what is read and the loops around a stage; writes no other statements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..expr import make
from ..expr.nodes import Expr, FloorDiv, Var, const_int
from ..expr.walk import preorder, rewrite, substitute, variables
from ..loopir.stmt import Evaluate, Stmt
from ..schedule.bounds import Bounds
from ..schedule.state import At, StageState
from ..te.axis import IterVar
from ..te.tensor import Tensor, TensorRead

CACHE_LINE = 64  # bytes
KEEP = 4  # the hint of locality of a line for cache 1 is one less


def ask(element: Expr, write: bool, level: int) -> Stmt:
    """Ask for the line of ``element`` to come to the cache ``level``, to be written to if ``write``."""
    how = (int(write), KEEP - level) if write or level != 1 else ()
    return Evaluate(make.call("prefetch", element, *how))


def requests(v: Var, extent: Expr, step: int, row: Expr | None) -> tuple[Expr, Expr]:
    """How many requests there are for ``extent`` neighbours, ``step`` to a line, and which of these the one
    of number ``v`` names. A part of a row of ``row`` elements, of a line or more, begins anywhere in one
    where rows are no whole lines, so that its last element may be in one more. None: that is not asked for,
    as where lines come to the second cache, which are asked for long before.

    Measured (Zen 5, caches emptied), tiles of two vectors of rows that begin anywhere: 7 × 971 × 1873 0.82 of
    the time of one request less, 14 × 937 × 943 0.65, 20 × 841 × 1441 0.78; where they are near 0.91 to 1.03.
    """
    n, of = const_int(extent), None if row is None else const_int(row)
    if step == 1 or n is None or of is None or not step <= n < of or of % step == 0:
        return make.ceildiv(extent, step), make.mul(v, step)
    return make.const((n - 2) // step + 2, v.dtype), make.min_(make.mul(v, step), make.const(n - 1, v.dtype))


def next_share(
    bounds: Bounds, stage: StageState, loop: IterVar, tensor: Tensor, ahead: int, line: int
) -> list[tuple[Expr, ...]]:
    """The elements of ``tensor``, one of each ``line``, that an iteration of ``loop``, within all that read
    the same box of it, asks for: its share of the box that is read ``ahead`` iterations later of the loop
    around those. Nothing where no loop reads a box again and then another one, or where a box is not a known
    number of neighbours."""
    here = _boxes(bounds, stage, At(stage.name, loop.name), tensor)
    if here is None:
        return []
    # per loop, from the innermost outwards: does what is read change with it? Those of one iteration vanish
    path = [at for at in _around(bounds, stage, loop) if const_int(bounds.extent(*at)) != 1]
    moves = [any(iv.var in variables(low) for low, _ in here) for _, iv in path]
    own = next((n for n, (st, _) in enumerate(path) if st != stage.name), len(path))
    if path and path[0][0] == stage.name and not moves[0]:
        own = 0  # a loop of the stage itself reads the same again
    for turn in range(own, len(path)):
        place, outer = path[turn]
        whole = _boxes(bounds, stage, At(place, outer.name), tensor) if moves[turn] else None
        if whole is None:
            continue
        # loops that are fused with it: a block is read in some of its iterations, one after the other
        times = _repeated(bounds, outer, [low for low, _ in whole])
        if times > 1 or not all(moves[own:turn]):
            break
    else:
        return []
    number: Expr | None = make.floormod(outer.var, times) if times > 1 else None
    ahead *= times
    for name, iv in reversed(path[:turn]):
        extent = const_int(bounds.extent(name, iv))
        if not extent:
            return []
        at = make.sub(iv.var, bounds.facts.ranges[iv.var][0])
        number = at if number is None else make.add(make.mul(number, extent), at)
        times *= extent
    if number is None:
        return []
    sizes = [const_int(extent) for _, extent in whole]
    if None in sizes or not _neighbours(sizes, [const_int(n) for n in tensor.shape]):
        return []
    step = -(-math.prod(n or 0 for n in sizes) // times)
    later = {outer.var: make.add(outer.var, ahead)}
    *front, last = [substitute(low, later) for low, _ in whole]
    begin = make.add(last, make.mul(number, step))
    return [(*front, make.add(begin, n)) for n in range(0, step, line)]


def next_stretch(
    bounds: Bounds,
    stage: StageState,
    loop: IterVar,
    tensor: Tensor,
    later: Mapping[Var, Expr],
    boxes: Sequence[tuple[Expr, Expr]],
) -> list[tuple[Expr, ...]] | None:
    """What an iteration of ``loop`` asks for, ``later``, where its ``boxes`` are far more than it reads: one
    element of each line of a stretch of rows that are one loop, which whole rows are the box of. Nothing
    where there are more lines in the boxes than elements that it reads, as around places that are looked up;
    None elsewhere, where the boxes tell.

    Measured (Zen 4): the sum of 3001 × 3001, whose vectors of 64 asked for two rows each, takes 0.05 of the
    time; that of 7 images asked for two images each time, and took minutes."""
    names = [iv.name for iv in stage.leaves]
    extents = {iv: bounds.extent(stage.name, iv) for iv in stage.leaves[names.index(loop.name) + 1 :]}
    inner = [iv for iv, extent in extents.items() if const_int(extent) != 1]
    found = dict.fromkeys(r.indices for r in stage.compute.reads if r.tensor is tensor)
    count = math.prod(const_int(extents[iv]) or 0 for iv in inner)
    box = math.prod(const_int(n) or 0 for _, n in boxes)
    if not count or box <= count * len(found):
        return None
    line = max(1, CACHE_LINE // tensor.dtype.bytes)
    if len(inner) == len(found) == 1:
        (indices,) = found
        places = [substitute(substitute(i, bounds[stage.name].value), later) for i in indices]
        kinds = {type(e) for i in places for e in preorder(i)}
        if FloorDiv in kinds and TensorRead not in kinds:
            first = bounds.facts.ranges[inner[0].var][0]
            lanes = [{inner[0].var: make.add(first, n)} for n in range(0, count, line)]
            return [tuple(substitute(i, lane) for i in places) for lane in lanes]
    return [] if box // line > count * len(found) else None


def _repeated(bounds: Bounds, loop: IterVar, lows: list[Expr]) -> int:
    """In how many iterations of ``loop``, from its first on, each box begins at the same place: ``c`` where
    its variable is met as ``loop // c`` alone, else one."""
    start = bounds.facts.ranges[loop.var][0]
    parts = {e for low in lows for e in preorder(low) if type(e) is FloorDiv and e.a is loop.var}
    counts = {const_int(e.b) for e in parts}
    count = counts.pop() if len(counts) == 1 else None
    if not count or count < 1 or const_int(start) != 0:
        return 1

    def without(e: Expr) -> Expr | None:
        return make.const(0, e.dtype) if e in parts else None

    elsewhere = any(loop.var in variables(rewrite(low, without)) for low in lows)
    return 1 if elsewhere else count


def _boxes(bounds: Bounds, stage: StageState, place: At, tensor: Tensor) -> list[tuple[Expr, Expr]] | None:
    ends = bounds.touched(tensor.op, [stage], place)
    if ends is None:
        return None
    return [bounds.box(end, whole) for end, whole in zip(ends, tensor.shape, strict=True)]


def _around(bounds: Bounds, stage: StageState, loop: IterVar) -> Iterator[tuple[str, IterVar]]:
    """The loops around an iteration of ``loop``, itself the first, by the names of their stages."""
    last = loop.name
    while True:
        names = [iv.name for iv in stage.leaves]
        for iv in reversed(stage.leaves[: names.index(last) + 1]):
            yield stage.name, iv
        if not isinstance(stage.attach, At):
            return
        last = stage.attach.loop
        stage = bounds.state.stage(stage.attach.stage)


def _neighbours(sizes: list[int | None], whole: list[int | None]) -> bool:
    """Whether a box is one run of memory: whole in all dimensions behind the first longer than one."""
    first = next((d for d, n in enumerate(sizes) if n != 1), len(sizes))
    return sizes[first + 1 :] == whole[first + 1 :]
