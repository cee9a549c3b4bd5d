"""Attention: for a block of query rows at a time, all scores, their softmax and the weighted values, so that
the scores of a block stay in the cache and the matrix of all scores never exists (the aim of FlashAttention,
Dao et al. 2022, section 3.1; its running maximum is not needed as long as a block of rows fits the second
cache with all its keys). With a causal mask, keys behind the block of tokens of a row are left out, by one
test or one bound for a whole block of rows. Both products run in register tiles over panels of keys and
values that are copied once for each head. Uses public primitives only.
"""

from __future__ import annotations

import math

from ..analysis import constant, typical
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp
from .common import share_out, work
from .gemm import tile_for
from .lanes import reduce_in_lanes, vector_width

PARTS = (
    tags.ATTENTION_DOTS,
    tags.ATTENTION_SCORES,
    tags.ATTENTION_MAX,
    tags.ATTENTION_EXP,
    tags.ATTENTION_SUM,
    tags.ATTENTION_VALUES,
)
DIVISORS = [d for d in range(1, tags.CAUSAL_BLOCK + 1) if tags.CAUSAL_BLOCK % d == 0]
MOST_ROWS = 64  # of a block: more bring nothing, the panels are already read from the second cache


def attention(s: Schedule, out: Stage, target: Target) -> set[str]:
    """Schedule the stages of ``ops.scaled_dot_product_attention``, of which ``out`` is the last. The names of
    all that belong to it; none, and nothing done, when a part of it is read by something else or has no
    elements."""
    parts = _parts(s, out)
    if parts is None or any(
        constant(a.extent) == 0 for st in (out, *parts.values()) for a in (*st.op.axis, *st.op.reduce_axis)
    ):
        return set()
    dots, scores, most, exps, total, values = (parts[tag] for tag in PARTS)
    *batch, i, d = out.op.axis
    keys, element = scores.op.axis[-1].extent, dots.op.body[0].dtype
    lanes = target.vector_lanes(element)
    high, wide = tile_for(constant(i.extent), constant(keys), lanes, target.vector_registers)
    high_out, wide_out = tile_for(constant(i.extent), constant(d.extent), lanes, target.vector_registers)
    # rows of scores in a quarter of the second cache
    fit = target.l2_bytes // 4 // (typical(keys, 512) * element.bytes)
    most_rows = min(fit, MOST_ROWS)
    causal = dots.op.body[0].condition is not None
    # tiles and blocks of rows stay in one block of tokens, so that one test, or the bound of a loop, leaves
    # out keys for all
    if causal:
        high = high_out = max(d for d in DIVISORS if d <= min(high, high_out))
        rows = max(d for d in DIVISORS if d % high == 0 and d <= max(high, most_rows))
    else:
        rows = high_out * max(1, most_rows // high_out)
    panels = [_panels(s, dots, wide * lanes, by_row=True), _panels(s, values, wide_out * lanes, by_row=False)]

    io, ii = out.split(i, rows)
    do, di = out.split(d, wide_out * lanes)
    im, ii = out.split(ii, high_out)
    out.reorder(*batch, io, do, im, ii, di)
    out.unroll(ii)
    out.vectorize(di)
    heads = 1
    for a in batch:
        heads *= typical(a.extent, 8)
    per_head = bool(batch) and heads >= target.num_cores
    shared = batch if per_head else [*batch, io]
    place = shared[0] if len(shared) == 1 else out.fuse(*shared)
    out.parallel(place)
    block = io if per_head else place

    values.compute_at(out, im)
    _register_tile(s, values)
    for stage in (total, exps):
        stage.compute_at(out, block)
    most.compute_at(
        exps, exps.op.axis[-2]
    )  # a row at a time, which is still in the first cache when its exponentials are taken
    scores.compute_at(out, block)
    for stage in (total, most):
        reduce_in_lanes(s, stage, target)
    width = vector_width(exps, constant(keys), target)
    exps.vectorize(exps.split(exps.op.axis[-1], math.gcd(width, tags.CAUSAL_BLOCK) if causal else width)[1])
    *outer, si, sj = scores.op.axis
    jo, ji = scores.split(sj, wide * lanes)
    sm, si = scores.split(si, high)
    scores.reorder(*outer, jo, sm, si, ji)
    scores.unroll(si)
    scores.vectorize(ji)
    dots.compute_at(scores, sm)
    _register_tile(s, dots)
    for panel in panels:
        panel.vectorize(panel.op.axis[-1])
        if per_head:
            panel.compute_at(out, place)
        else:
            share_out(panel, list(panel.op.axis[:-2]), work(panel), target)
    return {
        out.name,
        *(st.name for st in parts.values()),
        *(p.name for p in panels),
        *(st.name for st in s.stages if st.state.attach is not None),
    }


def _parts(s: Schedule, out: Stage) -> dict[str, Stage] | None:
    """The stages by their tags; None when one is missing, scheduled already, or seen by something outside."""
    found: dict[str, Stage] = {}
    todo = [out]
    while todo:
        for t in todo.pop().op.input_tensors:
            producer = s.state.of(t)
            if (
                isinstance(producer.op, ComputeOp)
                and producer.op.tag in PARTS
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
    return found if len(found) == len(PARTS) and alone else None


def _panels(s: Schedule, product: Stage, width: int, by_row: bool) -> Stage:
    """A copy of the right operand of a product, [..., keys, size], in panels of ``width`` rows, or columns,
    that stand together for each iteration of the reduction."""
    copy = s[s.cache_read(product.op.input_tensors[-1], "global", [product.name])]
    if by_row:
        copy.transform_layout(lambda *at: [*at[:-2], at[-2] // width, at[-1], at[-2] % width])
    else:
        copy.transform_layout(lambda *at: [*at[:-2], at[-1] // width, at[-2], at[-1] % width])
    return copy


def _register_tile(s: Schedule, product: Stage) -> None:
    """The product in registers: its reduction around rows, unrolled, and a vector of columns."""
    *outer, row, column = product.op.axis
    product.reorder(*outer, *product.op.reduce_axis, row, column)
    product.unroll(row)
    product.vectorize(column)
    if s.can("set_scope", product.name, "local"):
        product.set_scope("local")
