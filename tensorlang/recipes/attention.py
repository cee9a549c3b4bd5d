"""Attention: for a block of query rows at a time, all scores, their softmax and the weighted values, so that
the scores of a block stay in the cache and the matrix of all scores never exists (the aim of FlashAttention,
Dao et al. 2022, section 3.1; its running maximum is not needed as long as a block of rows fits the second
cache with all its keys). With a causal mask, keys behind the block of tokens of a row are left out, by one
test or one bound for a whole block of rows. Both products run in register tiles: scores over panels of keys,
which are copied once for all heads that share them, or along memory where rows are too few to pay for a copy;
results over values as they lie. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis import Cost, constant, cost_of, phases_of, transposed, typical
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, Expr, IterVar, Tensor
from .choices import at_most, bound
from .common import in_registers, share_out, work
from .lanes import (
    in_lanes,
    lanes_of,
    reduce_in_lanes,
    rows_in_lanes,
    sums_in_lanes,
    tile_in_lanes,
    vector_width,
)
from .nests import fill, lines_at_once
from .register_tile import tile_for

SUMS = (
    tags.ATTENTION_DOTS,
    tags.ATTENTION_SCORES,
    tags.ATTENTION_MAX,
    tags.ATTENTION_EXP,
    tags.ATTENTION_SUM,
)
# what is computed of them, and the stages that it takes
PARTS = {tags.ATTENTION: (*SUMS, tags.ATTENTION_VALUES), tags.ATTENTION_LOG_SUM: SUMS}
DIVISORS = [d for d in range(1, tags.CAUSAL_BLOCK + 1) if tags.CAUSAL_BLOCK % d == 0]
FEW_HIGH = 4  # rows of a tile of few rows that a call counts
MOST_ROWS = 64  # of a block: more bring nothing, the panels are already read from the second cache
FEW_ROWS = 16  # of a block are enough where no more have their scores in the first cache


def attention(s: Schedule, out: Stage, target: Target) -> set[str]:
    """Schedule the stages of ``ops.scaled_dot_product_attention``, of which ``out`` is the last, or those up
    to its sums. The names of all that belong to it; none, and nothing done, when a part of it is read by
    something else or has no elements."""
    parts = _parts(s, out)
    if parts is None or any(
        constant(a.extent) == 0 for st in (out, *parts.values()) for a in (*st.op.axis, *st.op.reduce_axis)
    ):
        return set()
    plan = _plan(out, parts, target)
    dots, scores, most, exps, total = (parts[tag] for tag in SUMS)
    values = parts.get(tags.ATTENTION_VALUES)
    place, block, tile = _result(out, plan, target)
    if values is not None:
        values.compute_at(out, tile)
        _register_tile(s, values, plan)
    for stage in (total, exps):
        stage.compute_at(out, block)
    if values is None or constant(scores.op.axis[-1].extent) is not None:
        # rows of their own loop, each of which waits for nothing: a largest element that is made just before
        # the exponentials of its row keeps them all waiting (12 heads of 128 tokens, 64 wide: 0.95 of the
        # time, 512 tokens 0.98)
        most.compute_at(out, block)
    else:  # loops that a call counts have rests, and few rows would not pay for more (5 tokens 1.2)
        most.compute_at(exps, exps.op.axis[-2])
    scores.compute_at(out, block)
    for stage in (total, most):
        reduce_in_lanes(s, stage, target)
    width = vector_width(exps, constant(scores.op.axis[-1].extent), target)
    width = math.gcd(width, tags.CAUSAL_BLOCK) if plan.causal else width
    keys = scores.op.axis[-1]
    # one body where masks are free: a rest of so many keys as a call tells would be as much code again
    tail = "mask" if target.has_masks and constant(keys.extent) is None else "auto"
    exps.vectorize(exps.split(exps.op.axis[-1], width, tail=tail)[1])
    _scores(s, scores, dots, plan, "auto" if plan.in_lanes else tail)
    panels = _panels(s, dots, values, plan)
    for panel in panels:
        if plan.by_head(target):
            panel.compute_at(out, place)
        else:
            share_out(panel, list(panel.op.axis[:-2]), work(panel), target)
    return {
        out.name,
        *(st.name for st in parts.values()),
        *(p.name for p in panels),
        *(st.name for st in s.stages if st.state.attach is not None),
    }


@dataclass(frozen=True)
class _Plan:
    """Numbers of a schedule. There are ``heads`` of keys, and ``group`` heads of queries share each of them,
    which are the rows of a tile if ``of_heads``. Scores have tiles of ``high`` rows and ``wide`` keys, values
    of ``high_out`` rows and ``wide_out`` elements, and both are computed for blocks of ``rows``. Scores are
    summed along memory, ``lanes`` elements at a time, if ``in_lanes``."""

    heads: int
    group: int
    of_heads: bool
    causal: bool
    in_lanes: bool
    lanes: int
    high: int
    wide: int
    high_out: int
    wide_out: int
    rows: int

    def by_head(self, target: Target) -> bool:
        """Whether threads share heads of keys out, and not blocks of rows."""
        return self.heads >= target.num_cores

    def axes(self, stage: Stage) -> tuple[list[IterVar], IterVar, IterVar]:
        """Of scores, or their products with values: the axes around a tile, its rows and its columns."""
        *outer, row, column = stage.op.axis
        if self.of_heads:
            outer[-1], row = row, outer[-1]
        return outer, row, column


def _plan(out: Stage, parts: dict[str, Stage], target: Target) -> _Plan:
    dots, scores = parts[tags.ATTENTION_DOTS], parts[tags.ATTENTION_SCORES]
    *batch, i, d = out.op.axis
    queries, keys, head = constant(i.extent), scores.op.axis[-1].extent, constant(d.extent)
    element, registers = dots.op.body[0].dtype, target.vector_registers
    lanes = target.vector_lanes(element)
    group = next(iter(phases_of(dots.op).values()), 1)
    causal = dots.op.body[0].condition is not None
    of_heads = group > 1 and queries == 1
    rows = group if of_heads else _few(i.extent, lanes)
    depth, n = constant(dots.op.reduce_axis[-1].extent), _few(keys, lanes)
    along = not causal and (
        in_lanes(rows, n, depth, element.bytes, lanes, target)
        if constant(i.extent) is not None
        else at_most(i.extent, rows_in_lanes(n, depth, element.bytes, lanes, target))
    )
    # of few keys, one vector of them: where queries are counted apart, they decide
    alone = constant(i.extent) is not None or i.extent is keys
    if not along and n is None and alone and at_most(keys, lanes):
        n = lanes
    if along:
        # a row at a time where a call tells how many: a tile of several has code for each number of them
        at_once = rows if constant(i.extent) else 1
        high, wide = tile_in_lanes(at_once, n, depth, lanes_of(depth, lanes), target)
    else:
        high, wide = tile_for(rows, n, lanes, registers, cost_of(target).of_panels, whole=True)
        wide *= lanes
    high_out, wide_out = tile_for(rows, head, lanes, registers, cost_of(target).of_panels, whole=True)
    vectors = cost_of(target).head_vectors
    whole_head = vectors * lanes if vectors > 1 and not along and rows is not None else 0
    if whole_head and head == whole_head <= (n or 0):
        # weights are read once for all of a head, which lies in one piece
        wide, wide_out = whole_head, vectors
    keys_here = n or typical(keys, 512)
    # rows of scores in a quarter of the second cache
    most_rows = min(target.l2_bytes // 4 // (keys_here * element.bytes), MOST_ROWS)
    if keys_here * ((depth or 64) + (head or 64)) * element.bytes <= target.l2_bytes * 5 // 8:
        # panels and values stay in the second cache: as many rows as have their scores in half of the first.
        # Measured (Zen 4): 4 heads of 1024 tokens 0.98 of the time, 12 of 256 causal ones 0.96, and 2 of
        # 1315, 80 wide, whose keys and values come from the third for each block, 1.15
        fit = target.l1_bytes // (keys_here * element.bytes)
        few = fit if cost_of(target).few_rows <= fit < FEW_ROWS else FEW_ROWS
        most_rows = min(most_rows, max(few, fit // 2))
    # tiles and blocks of rows stay in one block of tokens, so that one test, or the bound of a loop, leaves
    # out keys for all
    if causal:
        high = high_out = max(d for d in DIVISORS if d <= min(high, high_out))
        block = max(d for d in DIVISORS if d % high == 0 and d <= max(high, most_rows))
    elif of_heads:
        block = 1
    elif along or rows is None:
        # tiles whose height does not divide the block leave a rest in each, which is as much code again
        both = high_out if along else math.lcm(high, high_out)
        both = both if both <= most_rows else high_out
        block = both * max(1, most_rows // both)
    else:
        sides = [(wide // lanes, (depth or 64) * -(-keys_here // wide))]
        vectors = wide_out if (head or 0) >= wide_out * lanes else _held(head or lanes, lanes)
        sides.append((vectors, keys_here * -(-(head or 64) // (wide_out * lanes))))
        least = 0 if constant(i.extent) is not None else FEW_HIGH
        block, (high, high_out) = _blocks(rows, most_rows, sides, registers, cost_of(target), least)
    heads = math.prod(typical(a.extent, 8) for a in batch) // group if batch else 0
    tiles = high, wide, high_out, wide_out * lanes, block
    return _Plan(heads, group, of_heads, causal, along, lanes_of(depth, lanes), *tiles)


def _few(extent: Expr, most: int) -> int | None:
    """A size; of one that only a call knows what it is at most, where that is few."""
    n = bound(extent)
    return n if constant(extent) is not None or (n is not None and n <= most) else None


def _held(columns: int, lanes: int) -> int:
    """Registers of so many sums: 40 are two of 16 and one of 8."""
    return columns // lanes + (columns % lanes).bit_count()


def _blocks(
    rows: int, most: int, sides: Sequence[tuple[int, int]], registers: int, table: Cost, least: int = 0
) -> tuple[int, list[int]]:
    """Rows of a block, and of the tile of each of both products, with the least time for so many rows. Tiles
    divide the block: what is left of one is code of its own that tests each row. ``sides`` are the vectors of
    a tile and how often its body is executed. Where a call tells how many rows there are, tiles are no higher
    than keeps the units busy, if at least ``least``: they have code for each number of rows."""
    best: tuple[float, int, list[int]] | None = None
    for block in range(1, min(rows, max(most, 1)) + 1):
        time, tiles = 0.0, []
        for vectors, times in sides:
            fit = max(1, (registers - 1 - vectors) // vectors)
            fit = min(fit, max(least, table.chains // vectors)) if least else fit
            choices = [h for h in range(1, min(fit, block) + 1) if block % h == 0]
            high = min(choices, key=lambda h: block // h * table.tile(h, vectors))
            # the rest of all rows is as good as a block
            time += times * -(-rows // block) * (block // high) * table.tile(high, vectors)
            tiles.append(high)
        if best is None or (time, -block) < best[:2]:
            best = time, -block, tiles
    assert best is not None
    return -best[1], best[2]


def _result(out: Stage, plan: _Plan, target: Target) -> tuple[IterVar, IterVar, IterVar]:
    """The loops of the result: those in which panels, a block's scores and a tile are computed."""
    *batch, i, d = out.op.axis
    together: list[IterVar] = []
    if plan.group > 1:
        batch[-1], inner = out.split(batch[-1], plan.group)
        together = [inner]
    io, ii = out.split(i, plan.rows)
    do, di = out.split(d, plan.wide_out)
    tile, ii = out.split(ii, plan.high_out)
    rows = [tile, ii]
    if plan.of_heads:
        tile, inner = out.split(together.pop(), plan.high_out)
        rows += [tile, inner]
    out.reorder(*batch, *together, io, do, *rows[::2], *rows[1::2], di)
    for row in rows[1::2]:
        out.unroll(row)
    out.vectorize(di)
    by_head = plan.by_head(target)
    shared = batch if by_head else [*batch, *together, io]
    place = shared[0] if len(shared) == 1 else out.fuse(*shared)
    out.parallel(place)
    return place, io if by_head else place, tile


def _scores(s: Schedule, scores: Stage, dots: Stage, plan: _Plan, tail: str) -> None:
    """Tiles of scores, and in each the products of queries and keys."""
    outer, row, column = plan.axes(scores)
    jo, ji = scores.split(column, plan.wide, tail=tail)
    tile, si = scores.split(row, plan.high)
    scores.reorder(*outer, jo, tile, si, ji)
    scores.unroll(si)
    scores.vectorize(ji)
    if plan.in_lanes:
        outer, row, column = plan.axes(dots)
        sums_in_lanes(s, dots, scores, tile, {"b": outer, "i": row, "j": column}, plan.lanes)
    else:
        dots.compute_at(scores, tile)
        _register_tile(s, dots, plan)


def _parts(s: Schedule, out: Stage) -> dict[str, Stage] | None:
    """The stages by their tags; None when one is missing, scheduled already, or seen by something outside."""
    wanted = PARTS[out.op.tag]
    found: dict[str, Stage] = {}
    todo = [out]
    while todo:
        for t in todo.pop().op.input_tensors:
            producer = s.state.of(t)
            if (
                isinstance(producer.op, ComputeOp)
                and producer.op.tag in wanted
                and producer.op.tag not in found
            ):
                found[producer.op.tag] = s[producer.name]
                todo.append(s[producer.name])
    inner = {out.name, *(st.name for st in found.values())}
    alone = all(
        not st.state.is_output
        and st.state.attach is None
        and all(r.name in inner for r in s.state.readers(st.name))
        for st in found.values()
    )
    return found if len(found) == len(wanted) and alone else None


def _panels(s: Schedule, dots: Stage, values: Stage | None, plan: _Plan) -> list[Stage]:
    """Copies of keys, transposed in panels of a tile's width, and of values that are converted as they are
    read, or lie across, as those of images do whose pixels come last. Keys that are summed along memory are
    read where they lie, and so are values whose elements are neighbours.

    Measured (Zen 4, one thread), values that lie across: 8 heads of 256 keys 0.29 of the time.
    """
    panels = []
    if not plan.in_lanes:
        read, width = dots.op.input_tensors[-1], plan.wide
        keys = s[s.cache_read(read, "global", [dots.name])]
        keys.transform_layout(lambda *at: [*at[:-2], at[-2] // width, at[-1], at[-2] % width])
        loops = fill(keys, 1, lines_at_once(constant(dots.op.reduce_axis[-1].extent)))
        lines, along = loops.around[-2:]
        keys.prefetch(read, along, outer=lines)
        panels.append(keys)
    if values is None:
        return panels
    read = values.op.input_tensors[-1]
    turned = _turned(s, read, values)
    if turned is not None or read.dtype != values.op.body[0].dtype:
        copy = s[s.cache_read(read, "global", [values.name])]
        width_out = plan.wide_out
        if turned is not None:
            turned.compute_inline()
        copy.transform_layout(lambda *at: [*at[:-2], at[-1] // width_out, at[-2], at[-1] % width_out])
        if turned is None:
            copy.vectorize(copy.op.axis[-1])
        else:
            fill(copy, 1, lines_at_once(constant(read.shape[-2])))
        panels.append(copy)
    return panels


def _turned(s: Schedule, read: Tensor, values: Stage) -> Stage | None:
    """The stage that makes these values of others, whose neighbours in memory are keys and not elements, and
    makes them for nobody else."""
    made = s.state.of(read)
    if not isinstance(made.op, ComputeOp) or transposed(made.op) is None:
        return None
    stage = s[made.name]
    alone = stage.state.attach is None and not stage.state.is_output
    return stage if alone and [r.name for r in s.state.readers(made.name)] == [values.name] else None


def _register_tile(s: Schedule, product: Stage, plan: _Plan) -> None:
    """The product in registers: its reduction around rows, unrolled, and a vector of columns."""
    outer, row, column = plan.axes(product)
    product.reorder(*outer, *product.op.reduce_axis, row, column)
    product.unroll(row)
    product.vectorize(column)
    in_registers(s, product)
