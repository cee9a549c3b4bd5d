"""The sums of an attention by themselves, which its gradients read. Knows the stages of attention."""

from __future__ import annotations

from typing import Any

from .. import te
from ..expr.nodes import Expr
from ..te import Tensor
from . import tags
from .attention import least, stages_of


def log_sums(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    """The logarithms of the sums of exponentials of each row of scores, [..., L] in float32 or wider: the way
    of ``scaled_dot_product_attention`` without values. A row that sees no key gives minus infinity. Raises
    DeclareError."""
    made = stages_of(q, k, k, mask, is_causal, scale, False)
    kind, masked = made.sums.dtype, mask is not None

    def of_row(*i: Any) -> Expr:
        most = least(made.most(*i[:-1]), kind, masked)
        return te.log(made.sums(*i[:-1])) + most * te.const(made.unit, kind)

    found = te.compute((*made.sums.shape, 1), of_row, name="attention.log_sum", tag=tags.ATTENTION_LOG_SUM)
    return te.compute(made.sums.shape, lambda *i: found(*i, 0), name="log_sums")  # type: ignore[no-any-return]
