"""ATen's operators on complex numbers, which are pairs of floats in a dimension more. Knows the operators on
floats: most of those on complex numbers are one of them on each part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops, te
from ...te import Tensor
from . import elementwise, index, reduce, shape
from .elementwise import add, mul, sub
from .products import linear
from .table import OPERATORS, Complex, needs, of_complex, part_of
from .types import PARTS, as_type, floats, is_just


def part(x: Any, p: int) -> Any:
    """The real part, or with ``p`` 1 the imaginary one; 0 for that of a real tensor or number."""
    if isinstance(x, Complex):
        return part_of(x.pairs, p) if x.parts is None else x.parts[p]
    if isinstance(x, complex):
        return x.imag if p else x.real
    if p == 0:
        return floats(x) if isinstance(x, Tensor) else float(x)
    return ops.full(x.shape, 0.0, floats(x).dtype) if isinstance(x, Tensor) else 0.0


def of_parts(re: Tensor, im: Tensor) -> Complex:
    """Complex numbers of two tensors of one shape and type."""
    return Complex(
        te.compute(
            [*re.shape, 2],
            lambda *i: te.if_then_else(i[-1].var < 1, re(*i[:-1]), im(*i[:-1])),
            name="complex",
        )
    )


def is_real(x: Any) -> bool:
    return not isinstance(x, Complex | complex)


# --- on each part -------------------------------------------------------------------------------------------


def _each(fn: Callable[..., Any], both: bool) -> Callable[..., Any]:
    """A function on each part of its tensors. With ``both`` tensors of other kinds, as those of places, are
    the same for both parts; else they are real numbers."""

    def taken(x: Any, p: int) -> Any:
        if isinstance(x, list | tuple):
            return [taken(y, p) for y in x]
        return part(x, p) if isinstance(x, Complex | complex) or (isinstance(x, Tensor) and not both) else x

    def g(*args: Any) -> Any:
        re, im = (fn(*(taken(x, p) for x in args)) for p in (0, 1))
        if isinstance(re, tuple | list):
            return tuple(of_parts(a, b) for a, b in zip(re, im, strict=True))
        return of_parts(re, im)

    g.__name__ = fn.__name__
    return g


# what only tells places of elements, and is the same for both parts
_PLACES = (
    elementwise.same,
    index.gather,
    index.index,
    index.index_select,
    shape.chunk,
    shape.diagonal,
    shape.expand,
    shape.flatten,
    shape.flip,
    shape.narrow,
    shape.pad,
    shape.permute,
    shape.repeat,
    shape.roll,
    shape.select,
    shape.slice_,
    shape.split,
    shape.split_with_sizes,
    shape.squeeze,
    shape.t,
    shape.transpose,
    shape.tril,
    shape.triu,
    shape.unbind,
    shape.unsqueeze,
    shape.view,
)
# of which all tensors are elements, that may be real
_ELEMENTS = (
    ops.negative,
    reduce.cumsum,
    shape.cat,
    shape.copy,
    shape.select_scatter,
    shape.slice_scatter,
    shape.stack,
)
for _row in list(OPERATORS.values()):
    if _row.fn in _PLACES or _row.fn in _ELEMENTS:
        of_complex(_row.name.removeprefix("aten."))(_each(_row.fn, _row.fn in _PLACES))


def _summed(name: str) -> None:
    fn = OPERATORS[f"aten.{name}"].fn

    def g(x: Complex, *args: Any) -> Complex:
        *how, kind = args if args else (None,)
        args = (*how, PARTS.get(kind, kind))
        return of_parts(*(fn(part(x, p), *args) for p in (0, 1)))

    g.__name__ = fn.__name__
    of_complex(name)(g)


for _name in ("sum.default", "sum.dim_IntList", "mean.default", "mean.dim"):
    _summed(_name)


@of_complex("where.self")
def where(condition: Tensor, x: Any, y: Any) -> Complex:
    return of_parts(*(OPERATORS["aten.where.self"].fn(condition, part(x, p), part(y, p)) for p in (0, 1)))


def _fills(name: str) -> None:
    fn = OPERATORS[f"aten.{name}"].fn

    def g(*args: Any) -> Complex:
        given = [PARTS.get(x, x) if isinstance(x, str) else x for x in args]
        re = fn(*(part(x, 0) if isinstance(x, Complex | complex) else x for x in given))
        number = next((x.imag for x in args if isinstance(x, complex)), 0.0)
        return of_parts(re, ops.full(re.shape, number, re.dtype))

    g.__name__ = fn.__name__
    of_complex(name)(g)


for _row in list(OPERATORS.values()):
    if _row.fn in (shape.zeros, shape.ones, shape.empty, shape.full, shape.new_full) or _row.fn in (
        shape.zeros_like,
        shape.ones_like,
        shape.full_like,
    ):
        _fills(_row.name.removeprefix("aten."))


# --- made of two parts, and taken apart ---------------------------------------------------------------------


@of_complex("view_as_real", "view_as_real_copy")
def view_as_real(x: Complex) -> Tensor:
    pairs: Tensor = x.pairs
    return pairs


@of_complex("view_as_complex", "view_as_complex_copy")
def view_as_complex(x: Tensor) -> Complex:
    return Complex(x)


@of_complex("complex")
def complex_(re: Tensor, im: Tensor) -> Complex:
    both = te.whole.broadcast_shape("complex", [re, im])
    return of_parts(ops.broadcast_to(re, both), ops.broadcast_to(im, both))


@of_complex("polar")
def polar(size: Tensor, angle: Tensor) -> Complex:
    return of_parts(mul(size, ops.cos(angle)), mul(size, ops.sin(angle)))


@of_complex("real")
def real(x: Complex) -> Tensor:
    return part(x, 0)  # type: ignore[no-any-return]


@of_complex("imag")
def imag(x: Complex) -> Tensor:
    return part(x, 1)  # type: ignore[no-any-return]


@of_complex("_to_copy", "to.dtype", "to.device", "to.dtype_layout")
def to_copy(x: Any, kind: str | None = None) -> Any:
    if kind is None:
        return x
    needs(kind in PARTS or kind == "bool", f"a cast of complex numbers to {kind}")
    if kind == "bool":
        return ops.logical_or(*(as_type(part(x, p), "bool") for p in (0, 1)))
    return of_parts(*(as_type(part(x, p), PARTS[kind]) for p in (0, 1)))


# --- arithmetic ---------------------------------------------------------------------------------------------


@of_complex("_conj", "_conj_physical", "conj_physical", "conj")
def conj(x: Complex) -> Complex:
    return of_parts(part(x, 0), ops.negative(part(x, 1)))


@of_complex("resolve_conj", "resolve_neg")
def same(x: Complex) -> Complex:
    return x


def _by_terms(f: Callable[[Any, Any], Tensor], x: Any, y: Any, alpha: Any) -> Complex:
    y = y if is_just(alpha, 1) else mul_(y, alpha)
    return complex_(*(f(part(x, p), part(y, p)) for p in (0, 1)))


@of_complex("add.Tensor", "add.Scalar")
def add_(x: Any, y: Any, alpha: Any = 1) -> Complex:
    return _by_terms(add, x, y, alpha)


@of_complex("sub.Tensor", "sub.Scalar")
def sub_(x: Any, y: Any, alpha: Any = 1) -> Complex:
    return _by_terms(sub, x, y, alpha)


def product(f: Callable[[Any, Any], Tensor], x: Any, y: Any) -> Any:
    """A function that is linear in both of its arguments."""
    if is_real(x) and is_real(y):
        return f(x, y)
    if is_real(x) or is_real(y):
        return of_parts(*(f(*(a if is_real(a) else part(a, p) for a in (x, y))) for p in (0, 1)))
    (a, b), (c, d) = ([part(z, p) for p in (0, 1)] for z in (x, y))
    return of_parts(sub(f(a, c), f(b, d)), add(f(a, d), f(b, c)))


def _floats(x: Any) -> Any:
    return floats(x) if isinstance(x, Tensor) else x


@of_complex("mul.Tensor", "mul.Scalar")
def mul_(x: Any, y: Any) -> Any:
    return product(mul, _floats(x), _floats(y))


for _name in ("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default"):
    _f = OPERATORS[f"aten.{_name}"].fn
    of_complex(_name)(lambda x, y, f=_f: product(f, x, y))


@of_complex("linear")
def linear_(x: Any, weight: Any, bias: Any = None) -> Any:
    y = product(linear, x, weight)
    return y if bias is None else add_(y, bias)


# vectors may run along any dimension, and each element is read again and again: parts side by side, which are
# known of a parameter. Products of matrices lay out what they read by themselves
@of_complex("einsum", apart=True)
def einsum(equation: str, tensors: Sequence[Any], path: Any = None) -> Any:
    needs(len(tensors) <= 2, "einsum of more than two tensors of complex numbers")
    if len(tensors) == 2:
        return product(lambda a, b: ops.einsum(equation, a, b), *tensors)
    return of_parts(*(ops.einsum(equation, part(tensors[0], p)) for p in (0, 1)))


def squares(x: Any) -> Tensor:
    """The square of the absolute value."""
    re, im = (part(x, p) for p in (0, 1))
    return add(mul(re, re), mul(im, im))


@of_complex("reciprocal")
def reciprocal(x: Complex) -> Complex:
    over = ops.reciprocal(squares(x))
    return of_parts(mul(part(x, 0), over), mul(ops.negative(part(x, 1)), over))


@of_complex("div.Tensor", "div.Scalar")
def div(x: Any, y: Any) -> Any:
    if not is_real(y):
        y = Complex(_constant(y)) if isinstance(y, complex) else y
        return mul_(x, reciprocal(y))
    by = OPERATORS["aten.div.Tensor"].fn
    return of_parts(*(by(part(x, p), y) for p in (0, 1)))


def _constant(z: complex) -> Tensor:
    made: Any = te.compute((2,), lambda i: te.if_then_else(i.var < 1, z.real, z.imag), name="c")
    return made


@of_complex("square")
def square(x: Complex) -> Any:
    return mul_(x, x)


@of_complex("pow.Tensor_Scalar")
def power(x: Complex, n: Any) -> Any:
    """Whole powers by squaring, others by the logarithm."""
    if isinstance(n, complex) or n != int(n) or abs(n) > 64:
        return exp(mul_(log(x), n))
    if n < 0:
        return reciprocal(power(x, -n))
    found, by = None, x
    for bit in reversed(f"{int(n):b}"):
        if bit == "1":
            found = by if found is None else mul_(found, by)
        by = mul_(by, by)
    return (
        of_parts(*(ops.full(part(x, 0).shape, v, part(x, 0).dtype) for v in (1.0, 0.0)))
        if found is None
        else found
    )


@of_complex("abs")
def abs_(x: Complex) -> Tensor:
    return ops.hypot(part(x, 0), part(x, 1))


@of_complex("angle")
def angle(x: Complex) -> Tensor:
    return ops.atan2(part(x, 1), part(x, 0))


@of_complex("exp")
def exp(x: Complex) -> Complex:
    return polar(ops.exp(part(x, 0)), part(x, 1))


@of_complex("log")
def log(x: Complex) -> Complex:
    return of_parts(ops.log(abs_(x)), angle(x))


@of_complex("sgn")
def sgn(x: Complex) -> Complex:
    """The number of the same angle on the unit circle, 0 for 0."""
    size = abs_(x)
    none = ops.equal(size, ops.full((), 0.0, size.dtype))
    over = ops.where(none, size, ops.reciprocal(size))
    return of_parts(mul(part(x, 0), over), mul(part(x, 1), over))


@of_complex("eq.Tensor", "eq.Scalar")
def eq(x: Any, y: Any) -> Tensor:
    alike = OPERATORS["aten.eq.Tensor"].fn
    return ops.logical_and(*(alike(part(x, p), part(y, p)) for p in (0, 1)))


@of_complex("ne.Tensor", "ne.Scalar")
def ne(x: Any, y: Any) -> Tensor:
    return ops.logical_not(eq(x, y))
