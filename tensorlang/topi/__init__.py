"""``topi``: TVM's operator inventory, as far as its signatures fit what is here. Nearly every name is one of ``ops`` in other words.

Where numpy's rules and TVM's differ, TVM's hold: sums of integers keep their dtype, indices are int32, integers are divided towards zero,
and tensors of two dtypes meet by te's rule. ``topi.nn`` has what networks are made of, ``topi.generic`` schedules: all are the default
schedule, which looks at the computation itself. Names that are not here have a reason in ``_NOT_HERE`` or a name in ``ops``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from . import generic, nn
from .broadcast import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    broadcast_to,
    divide,
    elemwise_sum,
    equal,
    floor_divide,
    floor_mod,
    greater,
    greater_equal,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    not_equal,
    power,
    right_shift,
    subtract,
)
from .math import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cast,
    ceil,
    clip,
    cos,
    cosh,
    erf,
    exp,
    fast_erf,
    fast_exp,
    fast_tanh,
    floor,
    identity,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    log10,
    negative,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from .reduction import all, any, argmax, argmin, cumprod, cumsum, max, min, prod, sum
from .transform import (
    arange,
    concatenate,
    expand_dims,
    flip,
    full,
    full_like,
    gather,
    matmul,
    one_hot,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    strided_slice,
    take,
    tile,
    transpose,
    where,
)

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "broadcast_to", "cast", "ceil", "clip", "concatenate", "cos", "cosh", "cumprod", "cumsum", "divide",
    "elemwise_sum", "equal", "erf", "exp", "expand_dims", "fast_erf", "fast_exp", "fast_tanh", "flip", "floor", "floor_divide", "floor_mod",
    "full", "full_like", "gather", "generic", "greater", "greater_equal", "identity", "isfinite", "isinf", "isnan", "left_shift", "less",
    "less_equal", "log", "log2", "log10", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "max", "maximum", "min", "minimum",
    "mod", "multiply", "negative", "nn", "not_equal", "one_hot", "power", "prod", "repeat", "reshape", "right_shift", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "split", "sqrt", "squeeze", "stack", "strided_slice", "subtract", "sum", "take", "tan", "tanh", "tile", "transpose",
    "trunc", "where",
]

_NOT_HERE = {
    "cuda": "operators of GPUs; topi.generic has the schedules of CPUs",
    "x86": "schedules by hand; topi.generic takes the default schedule, autosched searches for one",
    "testing": "TVM's numpy references; te.reference.evaluate computes any tensor with numpy",
    "tag": "TVM's tags; those here are in ops.tags",
    "sparse": "sparse operators; te.compute declares sums over rows of a CSR matrix",
    "vision": "operators of detection; te.compute and te.extern declare them",
}


if not TYPE_CHECKING:  # a checker knows the names that are there
    def __getattr__(name: str) -> NoReturn:
        reason = _NOT_HERE.get(name)
        raise AttributeError(f"tensorlang's topi has no {name!r}" + (f": {reason}" if reason else "; look for it in tl.ops"))
