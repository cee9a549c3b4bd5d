"""Inverses and determinants of matrices: kernels of small ones, a function of arrays of others. Knows ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import ops
from ...expr.nodes import const_int
from ...runtime import choices
from ...te import Tensor
from .proto import Call
from .table import MICROSOFT, graph_op

if TYPE_CHECKING:
    from .importer import Importer

# rows up to which elimination over all matrices at once is faster than LAPACK's blocks. Measured
# (Emerald Rapids, float32, one thread): inverses of 20 matrices of 8 rows 0.2 of the time, 64 of 32 rows 0.5,
# one of 64 rows 1.8
MOST_ROWS = 32


@graph_op("Det")
def det(c: Importer, call: Call) -> Any:
    return _of_matrices(c, call, ops.determinant, choices.determinant, 2)


@graph_op("Inverse", domain=MICROSOFT)
def inverse(c: Importer, call: Call) -> Any:
    return _of_matrices(c, call, ops.inverse, choices.inverse, 0)


def _of_matrices(
    c: Importer, call: Call, kernel: Callable[[Tensor], Tensor], function: Callable[..., Any], fewer: int
) -> Any:
    """The result of each matrix, which has so many dimensions fewer."""
    x = c.tensor(call.inputs[0])
    n, m = map(const_int, x.shape[-2:])
    if n == m and n is not None and 1 <= n <= MOST_ROWS:
        return c.g.call(kernel, x, op=call.op, name=call.name, outputs=call.outputs)
    shape: Sequence[Any] = x.shape[: x.ndim - fewer]
    return c.g.host(function, [x], [(shape, x.dtype)], call.op, call.name, call.outputs)
