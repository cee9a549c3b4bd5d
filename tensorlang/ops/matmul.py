"""Matrix products: matmul with numpy's rules, batch_matmul, dense. Knows the checks of arguments; no other
operator.

A product is one reduction over ``k``. It is computed in ``out_dtype``: when left out, numpy's promotion of
the operands, and int32 where that is an 8- or 16-bit integer, which a sum of products would wrap (uint16:
int64). ``out_dtype="int8"`` asks for the wrapped one. 16-bit floats are summed in float32 and rounded once,
in a stage ``.cast`` after the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from ..te.axis import known_dtype
from . import inputs, tags

__all__ = ["batch_matmul", "dense", "matmul"]


def matmul(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """The matrix product ``a @ b`` by numpy's rules: [..., M, K] and [..., K, N] give [..., M, N].

    Dimensions before the last two broadcast. A vector counts as one row on the left and one column on the
    right and loses that dimension again. ``transpose_a`` takes [..., K, M], ``transpose_b`` [..., N, K];
    neither is for vectors. int8 by int8 is faster as :func:`matmul_integer`, on processors that multiply
    uint8 and int8 in fours. bfloat16 is summed in float32; processors that multiply it in pairs (AVX512_BF16)
    take numbers below the normal ones for zero. Raises DeclareError when the sizes of K differ, the other
    dimensions do not broadcast, or an operand has no dimension.

    >>> A, B = te.placeholder((4, 8), name="A"), te.placeholder((8, 5), name="B")
    >>> ops.matmul(A, B)
    Tensor(matmul: float32[4, 5])
    """
    return product("matmul", a, b, transpose_a, transpose_b, out_dtype)


def batch_matmul(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """The product of each pair of matrices: [B, M, K] and [B, K, N] give [B, M, N]; a B of 1 is repeated. As
    :func:`matmul` otherwise.

    Raises DeclareError for operands that are not of rank 3.
    """
    for t, what in ((a, "a"), (b, "b")):
        if inputs.tensor("batch_matmul", t, what).ndim != 3:
            raise DeclareError(
                f"ops.batch_matmul: {inputs.named(t)} has {t.ndim} dimension(s), 3 are needed",
                because="it multiplies batches of matrices",
                try_="ops.matmul, which takes any number",
            )
    return product("batch_matmul", a, b, transpose_a, transpose_b, out_dtype)


def product(
    op: str, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, out_dtype: str | DType | None
) -> Tensor:
    """The reduction behind matmul and batch_matmul."""
    a, b = inputs.tensor(op, a, "a"), inputs.tensor(op, b, "b")
    _check_transposed(op, a, transpose_a, "transpose_a")
    _check_transposed(op, b, transpose_b, "transpose_b")
    # a vector has no batch: numpy gives it a dimension of 1, which the result does not have
    batch = inputs.broadcast_shape(op, [a, b], but_last=2)
    ka = a.shape[-2 if transpose_a else -1]
    kb = b.shape[-1 if transpose_b or b.ndim == 1 else -2]
    left, right = (
        inputs.named(t) + (" transposed" if transposed else "")
        for t, transposed in ((a, transpose_a), (b, transpose_b))
    )
    inputs.same_size(op, f"K of {b.name}", kb, ka, f"{left} is multiplied by {right}")
    inside, out = accumulator(op, a.dtype, b.dtype, out_dtype)
    rows = [] if a.ndim == 1 else [a.shape[-1 if transpose_a else -2]]
    columns = [] if b.ndim == 1 else [b.shape[-2 if transpose_b else -1]]
    k = te.reduce_axis((0, ka), "k")

    def matrix(
        t: Tensor,
        lead: Sequence[ExprLike],
        row: Sequence[ExprLike],
        column: Sequence[ExprLike],
        transposed: bool,
    ) -> Expr:
        # batches align at their last dimension; an operand may have fewer
        own = lead[len(lead) - (t.ndim - 2) :] if t.ndim > 2 else ()
        outer = [0 if inputs.is_one(n) else i for n, i in zip(t.shape, own)]
        return te.cast(inside, t(*outer, *((*column, *row) if transposed else (*row, *column))))

    def element(*i: Any) -> Expr:
        lead, row, column = (
            i[: len(batch)],
            i[len(batch) : len(batch) + len(rows)],
            i[len(i) - len(columns) :] if columns else (),
        )
        return te.sum(
            matrix(a, lead, row, (k,), transpose_a) * matrix(b, lead, (k,), column, transpose_b), axis=k
        )

    names = [*[f"b{d}" for d in range(len(batch))], *["i"] * len(rows), *["j"] * len(columns)]
    total = te.compute(
        (*batch, *rows, *columns),
        element,
        name=op,
        tag=tags.BATCH_MATMUL if batch else tags.MATMUL,
        varargs_names=names,
    )
    return rounded(op, total, out)


def _check_transposed(op: str, t: Tensor, transposed: bool, word: str) -> None:
    if t.ndim == 0:
        raise DeclareError(
            f"ops.{op}: {t.name} has no dimensions, one at least is needed", try_="ops.multiply"
        )
    if transposed and t.ndim == 1:
        raise DeclareError(
            f"ops.{op}: {word}=True, and {inputs.named(t)} is a vector",
            because="a vector has nothing to transpose",
            try_=f"{word}=False",
        )


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Callable[[Tensor], Tensor] | None = None,
    out_dtype: str | DType | None = None,
    weight_layout: str = "OI",
) -> Tensor:
    """A linear layer: [..., in] and ``weight`` [out, in] give [..., out], as torch's linear; ``bias`` [out]
    is added.

    ``weight_layout="IO"`` takes the weight as [in, out]. ``activation`` is a function of a tensor, such as
    ``ops.relu``. Raises DeclareError when the sizes do not fit.
    """
    op = "dense"
    x, weight = inputs.tensor(op, x), inputs.tensor(op, weight, "weight")
    if weight_layout not in ("OI", "IO"):
        raise DeclareError(
            f"ops.{op}: weight_layout={weight_layout!r}", legal="'OI' ([out, in]), 'IO' ([in, out])"
        )
    if weight.ndim != 2 or x.ndim < 1:
        bad, need = (weight, "2 are") if weight.ndim != 2 else (x, "one at least is")
        raise DeclareError(f"ops.{op}: {inputs.named(bad)} has {bad.ndim} dimension(s), {need} needed")
    if activation is not None and not callable(activation):
        raise DeclareError(
            f"ops.{op}: activation={activation!r} is not a function", try_="activation=ops.relu"
        )
    o, i = (0, 1) if weight_layout == "OI" else (1, 0)
    inputs.same_size(
        op,
        f"the number of inputs of weight {weight.name}",
        weight.shape[i],
        x.shape[-1],
        f"x is {inputs.named(x)}, and weight {inputs.text(weight.shape)} is "
        f"[{'out, in' if o == 0 else 'in, out'}], "
        f"as weight_layout={weight_layout!r} says",
    )
    inside, out = accumulator(op, x.dtype, weight.dtype, out_dtype)
    k = te.reduce_axis((0, x.shape[-1]), "k")
    names = [*([f"i{d}" for d in range(x.ndim - 1)] if x.ndim > 2 else ["i"] * (x.ndim - 1)), "j"]
    total = te.compute(
        (*x.shape[:-1], weight.shape[o]),
        lambda *i: te.sum(
            te.cast(inside, x(*i[:-1], k))
            * te.cast(inside, weight(i[-1], k) if o == 0 else weight(k, i[-1])),
            axis=k,
        ),
        name=op,
        tag=tags.DENSE,
        varargs_names=names,
    )
    result = rounded(op, biased(op, total, bias, lambda i: i[-1], weight.shape[o]), out)
    return result if activation is None else activation(result)


# --- what products and convolutions share -------------------------------------------------------------------


def accumulator(op: str, a: DType, b: DType, out_dtype: str | DType | None) -> tuple[DType, DType]:
    """The type a sum of products is computed in, and that of the result: ``out_dtype``, or the common one of
    both, of 8- and 16-bit integers int32 or wider."""
    common = inputs.result_type(a, b)
    if common.is_bool:
        raise DeclareError(
            f"ops.{op}: both operands are bool, numbers are needed", try_="ops.cast(x, 'int32')"
        )
    out = inputs.product_type(common) if out_dtype is None else known_dtype(f"ops.{op}: out_dtype", out_dtype)
    # an out_dtype that is narrower than the operands does not narrow the sum, only its result
    return inputs.wide(inputs.result_type(common, out)), out


def biased(
    op: str,
    total: Tensor,
    bias: Tensor | None,
    channel: Callable[[Sequence[ExprLike]], ExprLike],
    channels: ExprLike,
) -> Tensor:
    """``total`` with ``bias`` [channels] added, as a stage ``.bias`` of its own. Raises DeclareError for a
    bias that does not fit."""
    if bias is None:
        return total
    bias = inputs.tensor(op, bias, "bias")
    if bias.ndim != 1:
        raise DeclareError(
            f"ops.{op}: bias {inputs.named(bias)} has {bias.ndim} dimension(s), 1 is needed",
            because="it holds one number for each channel",
            try_=f"te.placeholder(({channels},), name={bias.name!r})",
        )
    inputs.same_size(
        op,
        f"the size of bias {bias.name}",
        bias.shape[0],
        channels,
        f"there are {channels} output channels, one number for each",
    )
    # it would be cut to whole numbers in silence
    if bias.dtype.is_float and not total.dtype.is_float:
        raise DeclareError(
            f"ops.{op}: bias {bias.name} is {bias.dtype}, the product {total.dtype}",
            because="the sum would be cut to whole numbers",
            try_="out_dtype='float32', or a bias of integers",
        )
    return te.compute(
        total.shape,
        lambda *i: total(*i) + te.cast(total.dtype, bias(channel(i))),
        name=f"{op}.bias",  # type: ignore[no-any-return]
        tag=tags.BROADCAST,
        varargs_names=[a.name for a in total.op.axis],
    )  # type: ignore[attr-defined]


def rounded(op: str, total: Tensor, out: DType) -> Tensor:
    """``total`` in the type of the result."""
    if total.dtype is out:
        return total
    return te.compute(
        total.shape,
        lambda *i: te.cast(out, total(*i)),
        name=f"{op}.cast",
        tag=tags.ELEMENTWISE,  # type: ignore[no-any-return]
        varargs_names=[a.name for a in total.op.axis],
    )  # type: ignore[attr-defined]
