"""What operators accept: tensors and numbers, dimensions counted as numpy counts them, sizes that must agree,
and the dtypes of results. Every check of an operator's arguments is here, with the words of its error. Knows
tensors and expressions; no operator."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arith.facts import Facts
from ..core.dtype import FLOAT32, FLOAT64, INT32, INT64, DType, dtype
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Const, Expr, const_int
from ..expr.walk import variables
from ..te import Tensor, compute, whole
from ..te.row_major import product as product
from ..te.whole import at_most as at_most
from ..te.whole import equal, text
from ..te.whole import is_one as is_one

Axis = int | Sequence[int] | None


# --- tensors and numbers ------------------------------------------------------------------------------------


def tensor(op: str, x: Any, what: str = "x") -> Tensor:
    """``x``, which must be a tensor. Raises DeclareError for anything else."""
    if isinstance(x, Tensor):
        return x
    shape = getattr(x, "shape", None)
    # only values of a graph have sizes that are expressions and are no tensors
    if isinstance(shape, tuple) and shape and all(isinstance(n, Expr) for n in shape):
        name = getattr(x, "name", what)
        raise DeclareError(
            f"ops.{op}: {what} is `{name}`, a value of a graph, a tensor is needed",
            because="operators are nodes of its graph",
            try_=f"g.call(ops.{op}, {name})",
        )
    if isinstance(shape, tuple) and not isinstance(x, np.generic):
        raise DeclareError(
            f"ops.{op}: {what} is an array of shape {shape}, a tensor is needed",
            because="an operator declares what to compute; arrays are given when the kernel is called",
            try_=f"te.placeholder({shape}, {str(getattr(x, 'dtype', 'float32'))!r}), and the array in the "
            "call",
        )
    raise DeclareError(
        f"ops.{op}: {what} is {_said(x)}, a tensor is needed", try_="te.placeholder(shape, dtype, name)"
    )


def floating(op: str, x: Any, what: str = "x") -> Tensor:
    """``x``, which must be a tensor of floats. Raises DeclareError."""
    t = tensor(op, x, what)
    if not t.dtype.is_float:
        raise DeclareError(
            f"ops.{op}: {t.name} is {t.dtype}, floats are needed", try_=f"ops.cast({t.name}, 'float32')"
        )
    return t


def number(op: str, what: str, value: Any) -> float:
    """A Python number, fixed when the kernel is declared. Raises DeclareError for anything else."""
    # True is an int for Python; as a scale or a slope it is a mistake
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DeclareError(
            f"ops.{op}: {what} is {_said(value)}, a Python number is needed",
            because=f"{what} is fixed when the kernel is declared",
        )
    return value.item() if isinstance(value, np.generic) else value


def integer(op: str, what: str, value: Any) -> int:
    """A Python whole number. Raises DeclareError for anything else."""
    try:
        # operator.index takes True for 1
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except (TypeError, DeclareError):
        raise DeclareError(f"ops.{op}: {what} is {_said(value)}, a Python int is needed") from None


def _said(x: Any) -> str:
    if isinstance(x, str | int | float | tuple | list | None):
        return repr(x)
    name = getattr(x, "name", None)
    return (
        f"`{x}`"
        if isinstance(x, Expr)
        else f"the {type(x).__name__} {name}"
        if isinstance(name, str)
        else f"of type {type(x).__name__}"
    )


# --- shapes -------------------------------------------------------------------------------------------------


def named(x: Tensor) -> str:
    """A tensor with its shape, for messages."""
    return f"{x.name} {text(x.shape)}"


def in_order(op: str, x: Tensor, lo: Any, hi: Any) -> None:
    """Raises DeclareError for bounds that are numbers, the lower one the greater."""
    if isinstance(lo, int | float) and isinstance(hi, int | float) and lo > hi:
        raise DeclareError(
            f"ops.{op}: from {lo} to {hi} there is no number",
            because=f"every element would be {hi}",
            try_=f"ops.{op}({x.name}, {hi}, {lo})",
        )


def divides(divisor: ExprLike, size: ExprLike) -> bool:
    """Whether ``size`` is sure to be a multiple of ``divisor``."""
    size, divisor = make.unify(size, divisor)
    n, d = const_int(size), const_int(divisor)
    # before the remainder, which by zero is an error of Python's
    if d is not None and d < 1:
        return False
    return n % d == 0 if n is not None and d is not None else Facts().divisible(size, divisor)


def same_size(op: str, what: str, size: ExprLike, wanted: ExprLike, because: str) -> None:
    """Raises DeclareError unless the sizes are one, or may be for what is known: a symbol that never met the
    other is refused."""
    if equal(size, wanted):
        return
    sure = equal(size, wanted) is False
    error = DeclareError(
        f"ops.{op}: {what} is {size}, {wanted} is needed",
        because=because,
        try_=None if sure else "the same symbol, or the same number, for sizes that are one",
    )
    # an error that the caller may still avert, by saying elsewhere that the two symbols are equal
    raise error if sure else error.unless_equal(size, wanted)


def axis_of(op: str, axis: Any, rank: int, what: str = "axis", of: str = "x") -> int:
    """A dimension counted from 0, given as numpy takes it (negative counts from the end). Raises
    DeclareError."""
    n = integer(op, what, axis)
    if not -rank <= n < rank:
        have = "no dimensions" if rank == 0 else counted(rank, "dimension")
        raise DeclareError(
            f"ops.{op}: {what}={n}, and {of} has {have}", legal=f"{-rank} to {rank - 1}" if rank else None
        )
    return n % rank


def axes_of(op: str, axis: Axis, rank: int, what: str = "axis", of: str = "x") -> tuple[int, ...]:
    """Dimensions in rising order; all of them for None. Raises DeclareError for one out of range or named
    twice."""
    if axis is None:
        return tuple(range(rank))
    listed = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = [axis_of(op, a, rank, what, of) for a in listed]
    if len(set(found)) != len(found):
        raise DeclareError(
            f"ops.{op}: {what}={tuple(listed)} names a dimension twice",
            because=f"{of} has {counted(rank, 'dimension')}",
        )
    return tuple(sorted(found))


def broadcast_shape(op: str, tensors: Sequence[Tensor], but_last: int = 0) -> tuple[Expr, ...]:
    """See :func:`te.whole.broadcast_shape`; the errors are the operator's."""
    return whole.broadcast_shape(f"ops.{op}", tensors, but_last)


# --- dtypes -------------------------------------------------------------------------------------------------


def result_type(*types: DType) -> DType:
    """numpy's promotion. bfloat16, which numpy lacks, holds bool and 8-bit integers; with float16 and 16-bit
    integers it gives float32, with wider integers float64, as the ml_dtypes package has it."""
    result = types[0]
    for t in types[1:]:
        if t is result:
            continue
        # brain: the bfloat16 of the two, if there is one
        brain, other = (result, t) if result.code == "bfloat" else (t, result)
        if brain.code != "bfloat":
            result = dtype(np.promote_types(result.to_numpy(), t.to_numpy()))
        elif other.is_float:
            result = other if other.bits > 16 else FLOAT32
        else:
            result = brain if other.bits <= 8 else FLOAT32 if other.bits == 16 else FLOAT64
    return result


def float_type(t: DType) -> DType:
    """The float type in which a function such as exp gives the result for ``t``: numpy's, by the width of an
    integer."""
    if t.is_float:
        return t
    return dtype("float16") if t.bits <= 8 else FLOAT32 if t.bits == 16 else FLOAT64


def sum_type(t: DType) -> DType:
    """The type of a sum or product, as in numpy: integers in 64 bits, floats as they are."""
    if t.is_float:
        return t
    return dtype("uint64") if t.code == "uint" else INT64


def product_type(t: DType) -> DType:
    """The type in which products are summed: 8- and 16-bit integers in int32 or wider, of which one product
    alone may fill 16 bits or 32."""
    return t if not t.is_int or t.bits > 16 else INT64 if t.name == "uint16" else INT32


def wide(t: DType) -> DType:
    """The type in which values of ``t`` are computed: float32 for the 16-bit floats, else the type itself."""
    return FLOAT32 if t.is_float and t.bits == 16 else t


def for_numpy(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """An array as numpy puts it in order: of bfloat16, whose NaN it leaves where they are, as float32."""
    return x if x.dtype.kind in "biuf" else x.astype(np.float32)


def operands(op: str, values: Sequence[Any]) -> tuple[list[Tensor | Expr], DType]:
    """Tensors and numbers of an elementwise operator as tensors and expressions, and their common type. A
    Python number has no type of its own but lifts integers to float64 when it is a float, as in numpy; where
    there are only Python numbers they are float32 or int32. Raises DeclareError for what is neither tensor
    nor number."""
    types = [v.dtype for v in values if isinstance(v, Tensor | Expr)]
    for v in values:
        if isinstance(v, np.generic):
            types.append(dtype(v.dtype))
        elif not isinstance(v, Tensor | Expr | int | float):
            tensor(op, v, "an operand")
    if not types:
        types = [make.as_expr(v).dtype for v in values]
    common = result_type(*types)
    for v in values:
        # numpy's rule for Python numbers (NEP 50): they take part by their kind and not by their size. A
        # np.float64 is a float too, and was counted above
        if isinstance(v, float) and not isinstance(v, np.generic) and not common.is_float:
            common = FLOAT64
        elif isinstance(v, int) and not isinstance(v, bool) and common.is_bool:
            common = INT64
    return [_literal(op, v, common) if isinstance(v, int | float | np.generic) else v for v in values], common


def _literal(op: str, v: Any, t: DType) -> Expr:
    v = v.item() if isinstance(v, np.generic) else v
    if t.is_int and not t.limits()[0] <= v <= t.limits()[1]:
        raise DeclareError(
            f"ops.{op}: {v} does not fit {t}",
            because="a Python number takes the type of the tensor beside it",
            try_="ops.cast of the tensor to a wider type first",
        )
    return make.const(v, t)


def some_tensor(op: str, values: Sequence[Any]) -> None:
    """Raises DeclareError when there is no tensor among the values."""
    if not any(isinstance(v, Tensor) for v in values):
        raise DeclareError(
            f"ops.{op}: no operand is a tensor",
            because="operators work on tensors, and on numbers beside them",
            try_="te.placeholder(shape, dtype, name); the functions of te work on single elements",
        )


# --- stages -------------------------------------------------------------------------------------------------


def stage(
    name: str,
    tag: str,
    shape: Sequence[ExprLike],
    f: Callable[..., ExprLike],
    attrs: dict[str, Any] | None = None,
) -> Tensor:
    """A compute of one output, its axes called ``i0, i1, …``."""
    return compute(tuple(shape), f, name=name, tag=tag, attrs=attrs)  # type: ignore[no-any-return]


def needing(op: str, out: Tensor, x: Tensor, d: int, least: ExprLike, unless_empty: bool = False) -> Tensor:
    """``out``, for which ``x`` must have that many elements along dimension ``d`` (``unless_empty``: unless
    ``out`` has none). Raises DeclareError when it never has; where symbols decide, kernels refuse calls with
    fewer."""
    cond, n = make.ge(x.shape[d], least), x.shape[d]
    for size in out.shape if unless_empty else ():
        cond = make.or_(cond, make.lt(size, 1))
    known = Facts(sizes=variables(cond))
    # proved without the exception first: it is the shorter proof, and nearly always enough
    sure = (
        bool(cond.value)
        if isinstance(cond, Const)
        else True
        if known.prove(make.ge(n, least))
        else known.prove(cond)
    )
    if sure is False:
        raise DeclareError(
            f"ops.{op}: dimension {d} of {named(x)} is {n}",
            because=f"it needs {least} element{'' if const_int(make.as_expr(least)) == 1 else 's'} or more",
        )
    if sure is None:
        why = f"ops.{op} needs {n} >= {least}, the size of {named(x)} along dimension {d}" + (
            ", unless its result is empty" if unless_empty else ""
        )
        out.op.needs = (*out.op.needs, (cond, why))  # type: ignore[attr-defined]
    return out


def without(items: Sequence[Any], axes: Sequence[int]) -> Iterator[Any]:
    """The items whose positions are not in ``axes``."""
    return (x for d, x in enumerate(items) if d not in axes)
