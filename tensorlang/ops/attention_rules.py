"""What attention of language models is made of, for ``ops.attention`` and for frontends whose operators
differ around it: which keys a query sees, masks that end before the keys do, and pairs turned by an angle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import te
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor, whole
from . import inputs, tags
from .take import signed


class Sight(NamedTuple):
    """Which keys a query sees: those of its sequence, ``before`` it and, if ``causal``, not behind it, and
    so many to its ``left`` and ``right``, any number for -1."""

    queries: ExprLike
    before: ExprLike
    lengths: Tensor | None
    causal: bool
    left: int
    right: int

    def of(self, i: Sequence[Any]) -> list[Expr]:
        """Conditions on an index [batch, head, query, key] of the scores."""
        row, key = make.as_expr(i[2]), make.as_expr(i[3])
        conditions = []
        place = row + self.before
        if self.lengths is not None:
            length = signed(self.lengths(i[0]))
            # the last query is the last token of its own sequence, and sequences of a batch differ in length
            place = row + (length - self.queries)
            conditions.append(make.lt(key, length))
        if self.causal:
            conditions.append(make.le(key, place))
        if self.left >= 0:
            conditions.append(make.le(place - self.left, key))
        if self.right >= 0:
            conditions.append(make.le(key, place + self.right))
        return conditions


def masked(score: Expr, mask: Tensor, i: Sequence[Any], keys: Expr, conditions: list[Expr]) -> Expr:
    """A score at an index [batch, head, query, key] with the mask's floats added; bools, and that a key is
    not behind the mask's end, join the ``conditions`` under which it counts."""
    own, place = mask.shape[-1], list(i)
    if not inputs.is_one(own) and inputs.equal(own, keys) is not True:
        conditions.append(make.lt(i[3], own))
        # clipped, since a select reads both sides
        place[3] = make.min_(make.as_expr(i[3]), make.sub(own, 1))
    value = whole.read(mask, place)
    if mask.dtype.is_bool:
        conditions.append(value)
        return score
    return score + te.cast(score.dtype, value)


def rotate_pairs(
    x: Tensor,
    size: Expr,
    turned: Expr,
    interleaved: bool,
    angle: Callable[[Any, Any, Expr], tuple[Expr, Expr]],
) -> Tensor:
    """The first ``turned`` elements of heads of that ``size`` with their pairs turned by ``angle(batch,
    token, pair)``, the cosine and the sine of it; x is [B, heads, L, E] or [B, L, heads × E]."""
    inside, joined, half = inputs.wide(x.dtype), x.ndim == 3, make.floordiv(turned, 2)

    def element(*i: Any) -> Expr:
        # the element's place in its own head
        at = make.floormod(make.as_expr(i[-1]), size) if joined else make.as_expr(i[-1])
        b, token = i[0], i[1] if joined else i[2]
        own = te.cast(inside, x(*i))

        def pair(j: Expr, away: ExprLike) -> tuple[Expr, Expr]:
            other = te.cast(inside, x(*i[:-1], make.add(i[-1], away)))
            cos, sin = (te.cast(inside, e) for e in angle(b, token, j))
            return own * cos, other * sin

        if interleaved:
            odd = make.floormod(at, 2)
            mine, other = pair(make.floordiv(at, 2), 1 - odd * 2)
            value = te.select(make.eq(odd, 0), mine - other, mine + other)
        else:
            (a, d), (c, e) = pair(at, half), pair(at - half, 0 - half)
            # not a select, which reads both sides: the partner of the other half lies outside of the row
            value = te.if_then_else(make.lt(at, half), a - d, c + e)
        if not inputs.equal(turned, size):
            value = te.if_then_else(make.lt(at, turned), value, own)
        return te.cast(x.dtype, value)

    return inputs.stage("rotary_embedding", tags.BROADCAST, x.shape, element)
