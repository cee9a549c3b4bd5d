"""Attention as models of language have it: keys and values of earlier tokens, heads that share them, caps,
windows, lengths; and the rotation of queries and keys by their places. Knows the stages of attention, and
operators that move elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor, whole
from . import inputs, tags
from .attention import Stages, attend, mask_of, scale_of
from .attention_rules import Sight, masked, rotate_pairs
from .join import concatenate
from .shape import reshape, swapaxes
from .take import index_rule, indices_of

__all__ = ["attention", "rotary_embedding"]

SCORES = ("raw", "capped", "masked", "softmax")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    kv_lengths: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
    window: tuple[int, int] = (-1, -1),
    q_heads: int | None = None,
    kv_heads: int | None = None,
    scores: str | None = None,
) -> tuple[Tensor, ...]:
    """``softmax(cap(q kᵀ scale) + mask) v`` of q [B, Hq, L, E], k [B, H, S, E] and v [B, H, S, D]: the result
    [B, Hq, L, D], and the keys and values that were seen, those of the past first.

    With ``q_heads`` and ``kv_heads`` the three are [B, tokens, heads × size], and so is the result. Hq is a
    multiple of H: neighbouring heads share keys. ``past_key`` and ``past_value`` [B, H, P, …] stand before k
    and v. ``mask`` broadcasts to [B, Hq, L, P + S] (bools: whether a key counts; floats are added); keys
    behind its end do not count. ``is_causal`` lets query i see keys up to i + P, or with ``kv_lengths`` [B],
    how many keys of each sequence count, up to i + length - L. ``window`` lets it see so many keys before and
    behind itself, any number for -1. ``softcap`` c bounds scores by ``c tanh(s / c)``. A row that sees
    nothing gives zeros. ``scores`` asks for one result more, [B, Hq, L, P + S]: ``"raw"`` (scaled),
    ``"capped"``, ``"masked"`` or ``"softmax"``. Raises DeclareError for shapes that do not fit. ``y, keys,
    values = ops.attention(q, k, v, is_causal=True)``.

    >>> q, k, v = (te.placeholder((1, 2, 4, 8), name=n) for n in "qkv")
    >>> ops.attention(q, k, v)
    (Tensor(attention: float32[1, 2, 4, 8]), Tensor(k: float32[1, 2, 4, 8]), Tensor(v: float32[1, 2, 4, 8]))
    """
    op = "attention"
    q, k, v = inputs.floating(op, q, "q"), inputs.floating(op, k, "k"), inputs.floating(op, v, "v")
    joined = q.ndim == 3
    if joined:
        q, k, v = (
            _by_heads(op, t, n, w)
            for t, n, w in ((q, q_heads, "q_heads"), (k, kv_heads, "kv_heads"), (v, kv_heads, "kv_heads"))
        )
    _check(op, (q, k, v), past_key, past_value, kv_lengths, scores)
    before: ExprLike = 0
    if past_key is not None and past_value is not None:
        # query i is token i + before of the whole sequence
        before = inputs.tensor(op, past_key, "past_key").shape[-2]
        k, v = concatenate([past_key, k], 2), concatenate([past_value, v], 2)
    group = _group(op, q, k, v)
    inputs.same_size(op, f"the head size of k {k.name}", k.shape[-1], q.shape[-1], f"q is {inputs.named(q)}")
    inputs.same_size(op, f"the tokens of v {v.name}", v.shape[-2], k.shape[-2], f"k is {inputs.named(k)}")
    # of the scores, with the keys of the past, which masks count too
    shape = (*q.shape[:3], k.shape[2])
    factor, cap = scale_of(op, q, scale), float(inputs.number(op, "softcap", softcap))
    if mask is not None:
        mask = _mask(op, mask, shape)
    if kv_lengths is not None:
        kv_lengths = indices_of(op, kv_lengths, "kv_lengths")
    inside = inputs.wide(inputs.result_type(q.dtype, k.dtype, v.dtype))
    left, right = (inputs.integer(op, "a side of window", n) for n in window)
    sight = Sight(q.shape[2], before, kv_lengths, is_causal, left, right)
    in_bits = scores is None and cap <= 0 and (mask is None or mask.dtype.is_bool)
    rule = _Score(inside, factor, cap, sight, mask, k.shape[2])
    # not causal for ``attend``, whose blocks begin at the first key: here a query may begin anywhere
    stages = attend(q, k, v, q.shape[:2], factor, rule.of, False, rule.hides, group, in_bits=in_bits)
    result = stages.result
    if joined:
        result = reshape(swapaxes(result, 1, 2), (q.shape[0], q.shape[2], make.mul(q.shape[1], v.shape[3])))
    if scores is None:
        return result, k, v
    out = stages.result.dtype
    also = inputs.stage(
        f"{op}.{scores}", tags.BROADCAST, shape, lambda *i: te.cast(out, _asked(scores, stages, rule, i))
    )
    return result, k, v, also


def _check(
    op: str, operands: Sequence[Tensor], past_key: Any, past_value: Any, kv_lengths: Any, scores: str | None
) -> None:
    """What may be asked for together."""
    for t in operands:
        if t.ndim != 4:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), 4 are needed",
                because="they are [B, heads, tokens, size]",
                try_="q_heads and kv_heads for [B, tokens, heads × size]",
            )
    if (past_key is None) != (past_value is None):
        raise DeclareError(f"ops.{op}: one of past_key and past_value is given", try_="both")
    if past_key is not None and kv_lengths is not None:
        raise DeclareError(
            f"ops.{op}: kv_lengths beside past_key", because="both say where the keys of a query end"
        )
    if scores is not None and scores not in SCORES:
        raise DeclareError(f"ops.{op}: scores={scores!r}", legal=", ".join(map(repr, SCORES)))


class _Score(NamedTuple):
    """What becomes of the scaled product of a query and a key: capped, masked."""

    inside: DType
    factor: float
    cap: float
    sight: Sight
    mask: Tensor | None
    keys: Expr

    @property
    def hides(self) -> bool:
        """Whether a query may see no key at all."""
        # asked at any index: only whether there are conditions counts
        return self.mask is not None or bool(self.sight.of([make.as_expr(0)] * 4))

    def raw(self, dot: Expr) -> Expr:
        return dot * te.const(self.factor, self.inside)

    def capped(self, s: Expr) -> Expr:
        cap = te.const(self.cap, self.inside)
        # 0 means no cap, as ONNX has it
        return s if self.cap <= 0 else te.tanh(s / cap) * cap

    def of(self, s: Expr, i: Sequence[Any]) -> Expr:
        """The score at an index [batch, head, query, key]."""
        s, conditions = self.capped(s), self.sight.of(i)
        if self.mask is not None:
            s = masked(s, self.mask, i, self.keys, conditions)
        # last, so that it does not count what a mask of floats holds at a hidden key
        return te.select(te.all(*conditions), s, -te.infinity(self.inside)) if conditions else s


def _asked(scores: str, stages: Stages, rule: _Score, i: Sequence[Any]) -> Expr:
    """The scores as they were asked for."""
    if scores == "raw":
        return rule.raw(stages.dots(*i))
    if scores == "capped":
        return rule.capped(rule.raw(stages.dots(*i)))
    if scores == "masked":
        return stages.scores(*i)
    # a row that sees nothing has a sum of zero, and shares of zero
    total = stages.sums(*i[:-1])
    return te.select(make.eq(total, 0.0), te.const(0, rule.inside), stages.exps(*i) / total)


def _by_heads(op: str, x: Tensor, heads: int | None, what: str) -> Tensor:
    """[B, tokens, heads × size] as [B, heads, tokens, size]."""
    if heads is None:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has 3 dimensions and {what} is left out",
            because="the heads stand beside each other in the last one",
            try_=f"{what}=8",
        )
    n = inputs.integer(op, what, heads)
    if x.ndim != 3 or n < 1 or not inputs.divides(n, x.shape[-1]):
        raise DeclareError(
            f"ops.{op}: {what}={n} of {inputs.named(x)}", because="it divides the last dimension"
        )
    return swapaxes(reshape(x, (x.shape[0], x.shape[1], n, make.floordiv(x.shape[2], n))), 1, 2)


def _group(op: str, q: Tensor, k: Tensor, v: Tensor) -> int:
    """How many heads of q share one of k and v."""
    for d, what in ((0, "batch"), (1, "number of heads")):
        inputs.same_size(op, f"the {what} of v {v.name}", v.shape[d], k.shape[d], f"k is {inputs.named(k)}")
    inputs.same_size(op, f"the batch of k {k.name}", k.shape[0], q.shape[0], f"q is {inputs.named(q)}")
    many, few = const_int(q.shape[1]), const_int(k.shape[1])
    # symbols cannot be divided here: they have to be the same one
    if many is None or few is None:
        inputs.same_size(
            op, f"the number of heads of k {k.name}", k.shape[1], q.shape[1], f"q is {inputs.named(q)}"
        )
        return 1
    if few < 1 or many % few:
        raise DeclareError(
            f"ops.{op}: {many} heads of q, {few} of k", because="as many heads of q share each of k"
        )
    return many // few


def _mask(op: str, mask: Any, scores: Sequence[Expr]) -> Tensor:
    mask = mask_of(op, mask)
    fits = 1 <= mask.ndim <= 4 and all(
        # all but the keys, of which a mask may have fewer
        inputs.is_one(n) or inputs.equal(n, m)
        for n, m in zip(mask.shape[-2::-1], scores[-2::-1])
    )
    if not fits or inputs.at_most(mask.shape[-1], scores[-1]) is False:
        raise DeclareError(
            f"ops.{op}: mask {inputs.named(mask)} does not broadcast to the scores {inputs.text(scores)}",
            because="its sizes, counted from the end, are those of the scores or 1; keys may be fewer",
        )
    return mask


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: bool = False,
    rotary_dim: int = 0,
    heads: int | None = None,
) -> Tensor:
    """x [B, heads, L, E] with pairs of elements turned by the angles of their token (Su et al. 2021): ``(a
    cos - b sin, a sin + b cos)``.

    Pairs are element j and j + R / 2, or with ``interleaved`` 2 j and 2 j + 1, of the first R elements
    (``rotary_dim``, all for 0); the others stay. ``cos`` and ``sin`` are [B, L, R / 2], or with
    ``position_ids`` [B, L] rows [places, R / 2]. With ``heads`` x is [B, L, heads × E]. Raises DeclareError
    for shapes that do not fit, and an odd R.
    """
    op = "rotary_embedding"
    x, cos, sin = inputs.floating(op, x), inputs.floating(op, cos, "cos"), inputs.floating(op, sin, "sin")
    joined = x.ndim == 3
    size = make.floordiv(x.shape[-1], inputs.integer(op, "heads", heads)) if joined and heads else x.shape[-1]
    if x.ndim not in (3, 4) or (joined and not heads):
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}",
            because="x is [B, heads, L, E], or [B, L, heads × E] with heads given",
        )
    given = inputs.integer(op, "rotary_dim", rotary_dim)
    turned = make.as_expr(given) if given else size
    if not inputs.divides(2, turned) or inputs.at_most(turned, size) is False:
        raise DeclareError(
            f"ops.{op}: {turned} elements are turned of {size}", because="they are turned in pairs"
        )
    position_ids = _angles_of_tokens(op, (cos, sin), position_ids, turned)
    # a position beyond the tables reads their last row, never memory behind them
    rule = index_rule(op, "clip")

    def angle(t: Tensor, b: Any, token: Any, j: Expr) -> Expr:
        if position_ids is None:
            return whole.read(t, (b, token, j))
        return t(rule(whole.read(position_ids, (b, token)), t.shape[0]), j)

    return rotate_pairs(
        x, size, turned, interleaved, lambda b, token, j: (angle(cos, b, token, j), angle(sin, b, token, j))
    )


def _angles_of_tokens(
    op: str, angles: Sequence[Tensor], position_ids: Tensor | None, turned: Expr
) -> Tensor | None:
    """The rows of ``angles`` that tokens have, None where each token has a row of its own. Raises
    DeclareError for shapes that do not fit."""
    rank = 3 if position_ids is None else 2
    for t in angles:
        if t.ndim != rank:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), {rank} are needed",
                because="it is [B, L, R / 2]"
                if rank == 3
                else "it is [places, R / 2], chosen by position_ids",
            )
        half = make.floordiv(turned, 2)
        inputs.same_size(op, f"the last size of {t.name}", t.shape[-1], half, f"{turned} elements are turned")
    if position_ids is None:
        return None
    position_ids = indices_of(op, position_ids, "position_ids")
    if position_ids.ndim != 2:
        raise DeclareError(
            f"ops.{op}: position_ids {inputs.named(position_ids)} has {position_ids.ndim} dimension(s), "
            "2 are needed",
            because="it is [B, L]",
        )
    return position_ids
