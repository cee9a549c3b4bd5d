"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1). Knows the checks of arguments; no other
operator.

Stages, all of one block of query rows at a time if a schedule likes: ``.dots`` (rows × keys), ``.scores``
(scaled and masked), ``.max``, ``.exp``, ``.sum`` (a number for each row), ``.values`` (rows × head),
``attention`` (divided). The division comes last, as in FlashAttention (Dao et al. 2022), so the exps are used
as they are made and a row is normalised in head_dim divisions instead of one for each key. Where a block of
rows is the tile of the last stage and all others are computed at it, its scores are a buffer of rows × keys
floats that never leaves the cache; that is what the default schedule does. A causal mask is also a condition
of both products and of the exponentials, in whole blocks of ``tags.CAUSAL_BLOCK`` tokens: a schedule whose
tiles keep to the blocks tests it once for a tile, and half of the work is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import te
from ..arith.facts import Facts
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor, whole
from . import inputs, tags
from .softmax import weight

__all__ = ["scaled_dot_product_attention"]

# scores times this are powers of two: exp2 has no remainder to take of them
IN_BITS = 1 / math.log(2)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(q kᵀ scale + mask) v``: q [..., L, E], k [..., S, E] and v [..., S, D] of floats give [...,
    L, D], as torch's function.

    Dimensions before the last two broadcast. ``scale`` is 1 / sqrt(E) when left out (then E must be a
    number). ``mask`` broadcasts to [..., L, S]: of floats, it is added to the scores; of bools, keys where it
    is false count nothing. ``is_causal`` lets query i see keys 0..i only and excludes a mask. A row that sees
    no key gives zeros. L, S and the batch may be symbolic. 16-bit floats are computed in float32, rounded
    once. With ``enable_gqa`` q [..., H, L, E] may have a multiple of the heads of k and v [..., G, S, E],
    which H / G neighbours share (Ainslie et al. 2023, "GQA"). Raises DeclareError for shapes that do not fit
    together.

    >>> q, kv = te.placeholder((1, 32, 1, 128), name="q"), te.placeholder((1, 8, 2048, 128), name="kv")
    >>> ops.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
    Tensor(attention: float32[1, 32, 1, 128])
    """
    return stages_of(q, k, v, mask, is_causal, scale, enable_gqa).result


def stages_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Stages:
    """The stages of ``scaled_dot_product_attention``. Raises DeclareError."""
    op = "scaled_dot_product_attention"
    q, k, v = inputs.floating(op, q, "q"), inputs.floating(op, k, "k"), inputs.floating(op, v, "v")
    _check(op, q, k, v)
    if mask is not None and is_causal:
        raise DeclareError(
            f"ops.{op}: a mask and is_causal=True",
            because="is_causal is a mask of its own",
            try_="one of them",
        )
    factor = scale_of(op, q, scale)
    group = _group(op, q, k, v) if enable_gqa else 1
    # heads that are shared do not broadcast: the result has those of q
    batch = inputs.broadcast_shape(op, [q, k, v], but_last=2 if group == 1 else 3)
    if group > 1:
        batch = (*batch, q.shape[-3])
    if mask is not None:
        mask = _mask(op, mask, (*batch, q.shape[-2], k.shape[-2]))
    # sums of products of halves overflow at 65504
    inside = inputs.wide(inputs.result_type(q.dtype, k.dtype, v.dtype))

    def score(s: Expr, i: Sequence[Any]) -> Expr:
        if is_causal:
            # counted from the first key, as torch does, also where there are more keys than queries
            return te.select(make.le(make.as_expr(i[-1]), make.as_expr(i[-2])), s, -te.infinity(inside))
        if mask is None:
            return s
        seen = whole.read(mask, i)
        return te.select(seen, s, -te.infinity(inside)) if mask.dtype.is_bool else s + te.cast(inside, seen)

    in_bits = mask is None or mask.dtype.is_bool
    return attend(q, k, v, batch, factor, score, is_causal, mask is not None, group, in_bits=in_bits)


def _group(op: str, q: Tensor, k: Tensor, v: Tensor) -> int:
    """How many heads of q share one of k and v. Raises DeclareError."""
    heads = [const_int(t.shape[-3]) if t.ndim > 2 else None for t in (q, k, v)]
    own, shared, values = heads
    if own is None or shared is None or values is None:
        raise DeclareError(
            f"ops.{op}: enable_gqa with {inputs.named(q)}, {inputs.named(k)}, {inputs.named(v)}",
            because="the heads, the third dimension from the end, must be numbers",
            try_="q [..., heads, tokens, size], k and v alike, with numbers of heads",
        )
    if shared != values or not shared or own % shared:
        raise DeclareError(
            f"ops.{op}: {own} heads of q, {shared} of k and {values} of v",
            because="with enable_gqa as many heads of q share each head of k and v",
            try_="a multiple of the heads of k, which are as many as those of v",
        )
    return own // shared


def _check(op: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    for t in (q, k, v):
        if t.ndim < 2:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), 2 at least are needed",
                because="the last two are tokens and head",
            )
    inputs.same_size(
        op,
        f"the head size of k {k.name}",
        k.shape[-1],
        q.shape[-1],
        f"q is {inputs.named(q)}, k is {inputs.named(k)}",
    )
    inputs.same_size(
        op,
        f"the number of tokens of v {v.name}",
        v.shape[-2],
        k.shape[-2],
        f"k is {inputs.named(k)}, v is {inputs.named(v)}",
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    """The dimensions that all stages of an attention share, and the type they compute in."""

    sizes: Sequence[Expr]
    dtype: Any

    def read(self, t: Tensor, i: Sequence[Any], row: Any, column: Any, group: int = 1) -> Expr:
        """An element of q, k or v, for place ``i`` of a stage; ``group`` neighbouring heads read the same."""
        lead = len(self.sizes)
        own = [0 if inputs.is_one(n) else j for n, j in zip(t.shape, i[lead - (t.ndim - 2) : lead])]
        # keys are read where they lie, and not repeated in memory
        if group > 1 and not inputs.is_one(t.shape[-3]):
            own[-1] = make.floordiv(make.as_expr(own[-1]), group)
        return te.cast(self.dtype, t(*own, row, column))

    def stage(self, name: str, tag: str, rest: Sequence[tuple[str, Expr]], f: Callable[..., Expr]) -> Tensor:
        """A stage over the batch and the dimensions ``rest``, by name."""
        names = [*(f"b{d}" for d in range(len(self.sizes))), *(a for a, _ in rest)]
        shape = (*self.sizes, *(n for _, n in rest))
        return te.compute(shape, f, name=name, tag=tag, varargs_names=names)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Stages:
    """What an attention computes on the way: scaled and masked scores, the largest of each row, their
    exponentials, the sums of these by rows, and the result. Exponents of e are scores times ``unit``."""

    dots: Tensor
    scores: Tensor
    most: Tensor
    exps: Tensor
    sums: Tensor
    result: Tensor
    unit: float


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    batch: Sequence[Expr],
    factor: float,
    score: Callable[[Expr, Sequence[Any]], Expr],
    is_causal: bool,
    masked: bool,
    group: int = 1,
    nan_is_zero: bool = False,
    in_bits: bool = False,
) -> Stages:
    """The stages. ``score`` makes a score of a product times ``factor`` and its place; ``masked`` says that
    rows may see no key, ``is_causal`` that a query sees none behind its block. ``group`` heads of q, the last
    dimension of the batch, share one of k and v. With ``nan_is_zero`` rows whose weights are not numbers give
    zeros. With ``in_bits`` weights are powers of two, and scores are scaled where weights are made of them,
    by the instruction that takes the largest away: not where a mask is added, which may hold the least of all
    floats."""
    queries, keys, head = q.shape[-2], k.shape[-2], v.shape[-1]
    out = inputs.result_type(q.dtype, k.dtype, v.dtype)
    inside = inputs.wide(out)
    of = _Batch(batch, inside)
    row, column = ("i", queries), ("j", keys)
    e = te.reduce_axis((0, q.shape[-1]), "e")

    def dot(*i: Any) -> Expr:
        # by blocks, not by tokens: a loop over blocks leaves whole ones out without a test in the innermost
        # one; what is too much within a block is masked by the score
        seen = make.le(_block(i[-1]), _block(i[-2])) if is_causal else None
        return te.sum(of.read(q, i, i[-2], e) * of.read(k, i, i[-1], e, group), axis=e, where=seen)

    dots = of.stage("attention.dots", tags.ATTENTION_DOTS, (row, column), dot)

    # a positive factor leaves the largest the largest, and minus infinity what it is. Measured (Zen 5, one
    # thread), where each tile of scores was multiplied: 12 heads of 1024 tokens, 64 wide, 0.993 of the time
    late = in_bits and 0 < factor < math.inf
    bits = IN_BITS if in_bits else 1.0
    scale, unit = te.const(factor * bits, inside), factor if late else 1 / bits
    scores = of.stage(
        "attention.scores",
        tags.ATTENTION_SCORES,
        (row, column),
        lambda *i: score(dots(*i) if late else dots(*i) * scale, i),
    )
    j1 = te.reduce_axis((0, keys), "j")

    def largest(*i: Any) -> Expr:
        # of numbers: a score that is none makes its weight and the sum NaN by itself, and to look for it here
        # takes as long as the comparison. Measured (Zen 5, one thread): 12 heads of 256 tokens 0.98
        one, nothing = scores(*i, j1), -te.infinity(inside)
        return te.max(te.select(one > nothing, one, nothing), axis=j1)

    top = of.stage("attention.max", tags.ATTENTION_MAX, (row,), largest)

    def grown(*i: Any) -> Expr:
        one, most = scores(*i), least(top(*i[:-1]), inside, masked)
        away = one * scale - most * scale if late else one - most
        grown = weight(away, "exp2" if in_bits else "exp")
        return (
            te.if_then_else(make.le(_block(i[-1]), _block(i[-2])), grown, te.const(0, inside))
            if is_causal
            else grown
        )

    exps = of.stage("attention.exp", tags.ATTENTION_EXP, (row, column), grown)
    j2, j3 = te.reduce_axis((0, keys), "j"), te.reduce_axis((0, keys), "j")
    total = of.stage("attention.sum", tags.ATTENTION_SUM, (row,), lambda *i: te.sum(exps(*i, j2), axis=j2))

    def value(*i: Any) -> Expr:
        seen = (
            make.lt(make.as_expr(j3), make.mul(make.add(_block(i[-2]), 1), tags.CAUSAL_BLOCK))
            if is_causal
            else None
        )
        return te.sum(exps(*i[:-1], j3) * of.read(v, i, j3, i[-1], group), axis=j3, where=seen)

    values = of.stage("attention.values", tags.ATTENTION_VALUES, (row, ("d", head)), value)

    fewest = Facts().interval(keys)[0]
    may_see_none = masked or fewest is None or fewest < 1

    def divided(*i: Any) -> Expr:
        t = total(*i[:-1])
        # divided last: a row of the result has as many elements as a head, a row of scores one for each key
        quotient = values(*i) / t
        zero = te.const(0, inside)
        if nan_is_zero:
            quotient = te.select(te.isnan(t), zero, quotient)
        return te.cast(out, te.select(make.eq(t, zero), zero, quotient) if may_see_none else quotient)

    result = of.stage("attention", tags.ATTENTION, (row, ("d", head)), divided)
    return Stages(dots, scores, top, exps, total, result, unit)


def least(most: Expr, inside: Any, masked: bool) -> Expr:
    """What is taken off a row of scores whose largest is ``most``. Of a row without keys it is 0: then
    exp(-inf - 0) is the zero it should be."""
    return te.select(most > te.min_value(inside), most, te.const(0, inside)) if masked else most


def _block(place: Any) -> Expr:
    """The block of a token."""
    return make.floordiv(make.as_expr(place), tags.CAUSAL_BLOCK)


def scale_of(op: str, q: Tensor, scale: float | None) -> float:
    """What scores are multiplied by: 1 / sqrt of the head size when left out. Raises DeclareError."""
    if scale is not None:
        return float(inputs.number(op, "scale", scale))
    head = const_int(q.shape[-1])
    if head is None:
        raise DeclareError(
            f"ops.{op}: the head size of q {inputs.named(q)} is a symbol, and scale is left out",
            because="it is 1 / sqrt of the head size",
            try_="scale=0.125, or a number for the head size",
        )
    if head == 0:
        raise DeclareError(f"ops.{op}: q {inputs.named(q)} has heads of size 0")
    return 1.0 / math.sqrt(head)


def mask_of(op: str, mask: Any) -> Tensor:
    """A mask of bools or floats. Raises DeclareError."""
    mask = inputs.tensor(op, mask, "mask")
    if not (mask.dtype.is_bool or mask.dtype.is_float):
        raise DeclareError(
            f"ops.{op}: mask {mask.name} is {mask.dtype}",
            because="bools say which keys count, floats are added to the scores",
            try_=f"ops.cast({mask.name}, 'bool')",
        )
    return mask


def _mask(op: str, mask: Any, scores: tuple[Expr, ...]) -> Tensor:
    mask = mask_of(op, mask)
    fits = mask.ndim <= len(scores) and all(
        inputs.is_one(n) or inputs.equal(n, m) for n, m in zip(mask.shape[::-1], scores[::-1])
    )
    if not fits:
        raise DeclareError(
            f"ops.{op}: mask {inputs.named(mask)} does not broadcast to the scores {inputs.text(scores)}",
            because="its sizes, counted from the end, are those of the scores or 1",
        )
    return mask
