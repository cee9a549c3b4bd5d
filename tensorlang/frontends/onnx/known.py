"""Operators on small whole values worked out while the graph is made: shapes and what is computed from them.
Elements are numbers or size expressions. Knows values; no te of operators.

``KNOWN`` has for an operator a function of (importer, node) that returns the result or None where it does not
apply. Anything symbolic goes through numpy's arrays of objects, whose arithmetic is that of the elements.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arith.facts import Facts
from ...arith.simplify import simplify_expr
from ...core.dtype import dtype
from ...expr import make
from ...expr.nodes import Const, Expr, const_int
from ...graph import Value
from ...graph.passes.constants import evaluated
from ...te import compute, const, if_then_else
from .proto import Call, dtype_name
from .ratios import whole_of_ratio
from .shape import to_the_end

if TYPE_CHECKING:
    from .importer import Importer

KNOWN: dict[str, Callable[[Importer, Call], Any]] = {}
# elements that Python computes one by one: shapes and indices are few, anything larger is data
MAX_KNOWN = 4096


def as_known(v: Any, most: int | None = MAX_KNOWN) -> np.ndarray | None:
    """The elements as numbers and expressions, None where they are not known or too many."""
    if not isinstance(v, Value):
        return None
    if v.known is not None:
        return v.known
    if v.data is None and v.node is not None and (most is None or not v.dtype.is_float):
        # made of constants by operators that have no function here
        made = evaluated(v, MAX_KNOWN)
        return None if made is None else made.astype(object)
    if v.data is None or (most is not None and v.data.size > most):
        return None
    return v.data.astype(object)


def result(c: Importer, call: Call, array: Any, kind: Any) -> Value:
    """A value of these elements: a constant when all are numbers."""
    array = np.asarray(array, object)
    return _value(c.g.fresh(call.outputs[0]), array.shape, kind, array.reshape(-1))


def renewed_numbers(v: Value, flat: Sequence[Any]) -> Value:
    """The value with other elements."""
    assert v.known is not None
    return _value(v.name, v.known.shape, v.dtype, flat)


def written(*, numbers: Any, kind: str) -> Any:
    """Numbers that follow from sizes, as a tensor."""
    array = np.asarray(numbers, object)
    flat = array.reshape(-1)

    def element(*at: Any) -> Any:
        place: Any = 0
        for i, n in zip(at, array.shape, strict=True):
            place = place * n + i
        found = const(0, kind)
        for k, x in enumerate(flat):
            number = x.astype(kind) if isinstance(x, Expr) else const(x, kind)
            found = number if len(flat) == 1 else if_then_else(place == k, number, found)
        return found

    return compute(array.shape, element, name="sizes")


def _value(name: str, shape: Sequence[int], kind: Any, elements: Sequence[Any]) -> Value:
    flat = [_plain(x) for x in elements]
    known = np.empty(len(flat), object)
    known[:] = flat
    if not any(isinstance(x, Expr) for x in flat):
        return Value(name, shape, kind, data=known.reshape(shape).astype(dtype(str(kind)).to_numpy()))
    return Value(name, shape, kind, known=known.reshape(shape))


def _plain(x: Any) -> Any:
    if isinstance(x, Expr):
        # sizes of deep models grow by every node that touches them; simplified at each, they stay short
        x = simplify_expr(x, Facts())
        n = const_int(x)
        return x if n is None else n
    return x.item() if isinstance(x, np.generic) else x


def _inputs(c: Importer, call: Call) -> list[Any] | None:
    """Known elements of all inputs (None for one left out); None when one is not known, or none of them is
    whole."""
    values = [c.value(n) if n else None for n in call.inputs]
    found = [None if v is None else as_known(v) for v in values]
    if any(v is not None and k is None for v, k in zip(values, found, strict=True)):
        return None
    # floats are data, rounded by the type they have: kernels compute them
    if not any(isinstance(v, Value) and not v.dtype.is_float for v in values):
        return None
    return found


def known(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``f(call, *arrays)``, which returns the array of the result, or (array, dtype)."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(c: Importer, call: Call) -> Any:
            arrays = _inputs(c, call)
            if arrays is None:
                return None
            # the type of the result, where the function does not name another
            first = next(c.value(n) for n in call.inputs if n)
            made = f(call, *arrays)
            if made is None:
                return None
            array, kind = made if isinstance(made, tuple) else (made, first.dtype)
            return result(c, call, array, kind)

        for name in names:
            KNOWN[name] = evaluate
        return f

    return add


def direct(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``f(importer, call)``."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            KNOWN[name] = f
        return f

    return add


@direct("Shape")
def shape(c: Importer, call: Call) -> Any:
    v = c.value(call.inputs[0])
    sizes = list(v.shape)[slice(call.attrs.get("start", 0), call.attrs.get("end"))]
    array = np.empty(len(sizes), object)
    array[:] = [_number(n) for n in sizes]
    return result(c, call, array, "int64")


@direct("Size")
def size(c: Importer, call: Call) -> Any:
    total: Any = 1
    for n in c.value(call.inputs[0]).shape:
        total = _number(n) * total if not isinstance(n, Const) else total * int(n.value)
    return result(c, call, np.array(total, object), "int64")


def _number(e: Expr) -> Any:
    return int(e.value) if isinstance(e, Const) else e


def _elementwise(f: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda call, a, b: _each(f, a, b)


def _each(f: Callable[..., Any], *arrays: Any) -> np.ndarray:
    whole = np.broadcast_arrays(*arrays)
    out = np.empty(whole[0].shape, object)
    flat = out.reshape(-1)
    for i, xs in enumerate(zip(*(a.reshape(-1) for a in whole), strict=True)):
        flat[i] = f(*xs)
    return flat.reshape(whole[0].shape)


def _divided(a: Any, b: Any) -> Any:
    """ONNX's quotient of whole numbers: towards zero. Sizes are never negative."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return (
            make.floordiv(*map(make.as_expr, (a, b)))
            if not isinstance(a, float) and not isinstance(b, float)
            else None
        )
    if isinstance(a, int) and isinstance(b, int):
        # ONNX divides integers as C does, towards zero
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b if b else None


def _extreme(f: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    def one(a: Any, b: Any) -> Any:
        return (
            symbolic(make.as_expr(a), make.as_expr(b))
            if isinstance(a, Expr) or isinstance(b, Expr)
            else f(a, b)
        )

    return lambda call, *arrays: _each(lambda *xs: functools.reduce(one, xs), *arrays)


for _name, _f in {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul}.items():
    known(_name)(_elementwise(_f))
known("Neg")(lambda call, a: _each(operator.neg, a))
known("Max")(_extreme(max, make.max_))
known("Min")(_extreme(min, make.min_))


@known("Div")
def div(call: Call, a: Any, b: Any) -> Any:
    found = _each(_divided, a, b)
    return None if any(x is None for x in found.reshape(-1)) else found


@known("Mod")
def mod(call: Call, a: Any, b: Any) -> Any:
    found = _each(_remainder, a, b)
    # the other remainder, with the sign of the dividend, is a kernel
    return None if call.attrs.get("fmod", 0) or any(x is None for x in found.reshape(-1)) else found


def _remainder(a: Any, b: Any) -> Any:
    """ONNX's remainder of whole numbers: with the sign of the divisor."""
    if isinstance(a, float) or isinstance(b, float) or (not isinstance(b, Expr) and b == 0):
        return None
    return make.floormod(*map(make.as_expr, (a, b))) if isinstance(a, Expr) or isinstance(b, Expr) else a % b


@known("Pow")
def power(call: Call, a: Any, exponent: Any) -> Any:
    # the area of a square picture; a size in the exponent is data
    n = exponent.item() if exponent.size == 1 else None
    if not isinstance(n, int | float) or n not in (1, 2, 3):
        return None
    return _each(lambda x: functools.reduce(operator.mul, [x] * int(n)), a)


@known("Identity")
def identity(call: Call, a: Any) -> Any:
    return a


@direct("Cast")
def cast(c: Importer, call: Call) -> Any:
    v = c.value(call.inputs[0])
    kind = dtype_name(call.attrs["to"])
    a = as_known(v)
    if a is None and v.dtype.is_float and kind in ("int32", "int64"):
        found = whole_of_ratio(v)
        return None if found is None else result(c, call, np.full(v.sizes, found, object), kind)
    if a is None or v.dtype.is_float or kind not in ("int32", "int64", "bool"):
        return None
    if any(isinstance(x, Expr) for x in a.reshape(-1)):
        return result(c, call, _each(lambda x: _cast(x, kind == "bool"), a), kind)
    # by way of the type it has: numbers beyond it wrap first
    return c.new(a.astype(v.dtype.to_numpy()).astype(kind), call.outputs[0])


def _cast(x: Any, to_bool: bool) -> Any:
    if not isinstance(x, Expr):
        return bool(x) if to_bool else int(x)
    if x.dtype.is_bool:
        return x if to_bool else make.if_then_else(x, make.as_expr(1), make.as_expr(0))
    return make.ne(x, make.as_expr(0)) if to_bool else x


@known("Gather")
def gather(call: Call, a: Any, i: Any) -> Any:
    return np.take(a, i.astype(np.int64), call.attrs.get("axis", 0))


@known("Concat")
def concat(call: Call, *arrays: Any) -> Any:
    return np.concatenate(arrays, call.attrs["axis"])


def _axes(call: Call, axes: Any) -> Any:
    """An attribute in old opsets, an input since."""
    return call.attrs.get("axes") if axes is None else axes.reshape(-1).tolist()


@known("Unsqueeze")
def unsqueeze(call: Call, a: Any, axes: Any = None) -> Any:
    return np.expand_dims(a, tuple(_axes(call, axes)))


@known("Squeeze")
def squeeze(call: Call, a: Any, axes: Any = None) -> Any:
    where = _axes(call, axes)
    return np.squeeze(a, None if where is None else tuple(where))


@known("Transpose")
def transpose(call: Call, a: Any) -> Any:
    return np.transpose(a, call.attrs.get("perm"))


@known("Slice")
def slice_(
    call: Call, a: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Any:
    begin: Any = call.attrs.get("starts") if starts is None else starts.tolist()
    end: Any = call.attrs.get("ends") if ends is None else ends.tolist()
    where: Any = (call.attrs.get("axes") if axes is None else axes.tolist()) or range(len(begin))
    step = [1] * len(begin) if steps is None else steps.tolist()
    if any(isinstance(x, Expr) for x in (*begin, *end, *step)):
        return None
    cut: list[slice] = [slice(None)] * a.ndim
    for d, b, e, s in zip(where, begin, end, step, strict=True):
        # below -size, for a negative step, ONNX's end is before the first element, as Python's None, and its
        # begin is the first element
        before = -a.shape[d] if s < 0 else -math.inf
        cut[d] = slice(0 if b < before else b, None if e < before or to_the_end(e, s) else e, s)
    return a[tuple(cut)]


@known("Reshape")
def reshape(call: Call, a: Any, shape: Any = None) -> Any:
    sizes: Any = call.attrs.get("shape") if shape is None else shape.tolist()
    if any(isinstance(n, Expr) for n in sizes):
        return None
    if not call.attrs.get("allowzero", 0):
        # 0 copies the size that was there, unless ``allowzero`` says that it means none
        sizes = [a.shape[d] if n == 0 else n for d, n in enumerate(sizes)]
    return a.reshape(sizes)


@known("ReduceProd")
def reduce_prod(call: Call, a: Any, axes: Any = None) -> Any:
    # what exporters write for a number of elements; any other product is a kernel
    if axes is not None or call.attrs.get("axes") not in (None, [0]) or a.ndim != 1:
        return None
    total = functools.reduce(operator.mul, a, 1)
    return np.array([total] if call.attrs.get("keepdims", 1) else total, object)


@known("Range")
def range_(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    numbers = [x.item() for x in (start, limit, delta)]
    if not all(isinstance(x, int) for x in numbers) or abs(numbers[1] - numbers[0]) > MAX_KNOWN * abs(
        numbers[2]
    ):
        return None
    return np.array(range(*numbers), object)


@direct("ConstantOfShape")
def constant_of_shape(c: Importer, call: Call) -> Any:
    sizes = as_known(c.value(call.inputs[0]))
    value = call.attrs.get("value", np.zeros(1, np.float32))
    # large ones are made by a kernel when they are wanted
    if sizes is None or any(isinstance(n, Expr) for n in sizes) or math.prod(sizes.tolist()) > MAX_KNOWN:
        return None
    return c.new(np.full(tuple(sizes.tolist()), value.reshape(-1)[0], value.dtype), call.outputs[0])


def _compared(symbolic: Callable[..., Expr], plain: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def one(x: Any, y: Any) -> Any:
        if not isinstance(x, Expr) and not isinstance(y, Expr):
            return bool(plain(x, y))
        return symbolic(make.as_expr(x), make.as_expr(y))

    return lambda call, a, b: (_each(one, a, b), "bool")


for _name, _symbolic, _plain_f in (
    ("Equal", make.eq, operator.eq),
    ("Less", make.lt, operator.lt),
    ("LessOrEqual", make.le, operator.le),
    ("Greater", make.gt, operator.gt),
    ("GreaterOrEqual", make.ge, operator.ge),
    ("And", make.and_, lambda x, y: x and y),
    ("Or", make.or_, lambda x, y: x or y),
):
    known(_name)(_compared(_symbolic, _plain_f))


@known("Not")
def not_(call: Call, a: Any) -> Any:
    return _each(lambda x: make.not_(x) if isinstance(x, Expr) else not x, a)


@direct("Where")
def where(c: Importer, call: Call) -> Any:
    arrays = _inputs(c, call)
    kind = c.value(call.inputs[1]).dtype if arrays else None
    if arrays is None or kind is None or kind.is_float:
        return None
    return result(c, call, _each(_chosen, *arrays), kind)


def _chosen(cond: Any, x: Any, y: Any) -> Any:
    # no expression is made for a decision that is known
    if not isinstance(cond, Expr):
        return x if cond else y
    return make.if_then_else(cond, make.as_expr(x), make.as_expr(y))
