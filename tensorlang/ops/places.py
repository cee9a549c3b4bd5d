"""Places that are computed: indices kept within a size, and the elements beside a place between them, with
their weights. Knows expressions; no tensors.
"""

from __future__ import annotations

from .. import te
from ..expr.nodes import Expr


def kept_within(i: Expr, n: Expr) -> Expr:
    """The index nearest to ``i`` of a dimension of ``n`` elements."""
    return te.max(te.min(i, n - 1), 0)
