"""Joining and cutting: concatenate, stack, split, strided_slice and pad. All are ``injective``. Knows the
checks of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from .. import te
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, Min, const_int
from ..te import Tensor
from . import inputs, tags
from .places import kept_within
from .shape import moved

__all__ = ["concat", "concatenate", "pad", "split", "stack", "strided_slice"]

MANY = 8  # tensors that are told apart one after the other
_FAR = 2**47  # no dimension is longer, since addresses have so many bits


def _several(op: str, tensors: Any) -> list[Tensor]:
    # a tensor can be iterated over, by rows, which nobody means here
    if isinstance(tensors, Tensor) or not isinstance(tensors, tuple | list):
        raise DeclareError(f"ops.{op}: the tensors are not a list", try_=f"ops.{op}([a, b])")
    result = [inputs.tensor(op, t, f"tensor {k}") for k, t in enumerate(tensors)]
    if not result:
        raise DeclareError(f"ops.{op}: the list of tensors is empty")
    return result


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along ``axis``; their other sizes are equal. The dtype is their common
    one. Raises DeclareError for tensors that differ elsewhere.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.concatenate([x, x], 1)
    Tensor(concatenate: float32[2, 6])
    """
    xs = _several("concatenate", tensors)
    first = xs[0]
    d = inputs.axis_of("concatenate", axis, first.ndim, of=first.name)
    out = inputs.result_type(*[x.dtype for x in xs])
    for x in xs[1:]:
        if x.ndim != first.ndim:
            raise DeclareError(
                f"ops.concatenate: {inputs.named(first)} and {inputs.named(x)}",
                because="they differ in the number of dimensions",
                try_="ops.expand_dims or ops.reshape to line them up",
            )
        for k in range(first.ndim):
            if k != d:
                inputs.same_size(
                    "concatenate",
                    f"dimension {k} of {inputs.named(x)}",
                    x.shape[k],
                    first.shape[k],
                    f"they are joined along dimension {d}; {first.name} is {inputs.text(first.shape)}",
                )
    # expressions, since sizes may be symbols; the last one is the size of the result
    begins: list[Expr] = [make.as_expr(0)]
    for x in xs:
        begins.append(begins[-1] + x.shape[d])

    def element(*i: Any) -> Expr:
        parts = [
            te.cast(out, x(*i[:d], i[d] - begin, *i[d + 1 :])) for x, begin in zip(xs, begins, strict=False)
        ]
        return _part(parts, begins, i[d])

    return inputs.stage(
        "concatenate",
        tags.INJECTIVE,
        [*first.shape[:d], begins[-1], *first.shape[d + 1 :]],
        element,
        {"axis": d},
    )


concat = concatenate


def _part(parts: Sequence[Expr], begins: Sequence[Expr], i: Expr) -> Expr:
    """The one of ``parts`` in which ``i`` lies: few are asked one after the other; many are searched by
    halves, so that an element asks little, and little has to be known where a part is read."""
    if len(parts) > MANY:
        half = len(parts) // 2
        first, second = _part(parts[:half], begins, i), _part(parts[half:], begins[half:], i)
        return te.if_then_else(i < begins[half], first, second)
    chosen = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        # not a select: a part is read only where it has elements
        chosen = te.if_then_else(i < begins[k + 1], parts[k], chosen)
    return chosen


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension ``axis``. The dtype is their common one. Raises DeclareError
    for tensors of several shapes.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.stack([x, x])
    Tensor(stack: float32[2, 2, 3])
    """
    xs = _several("stack", tensors)
    first = xs[0]
    d = inputs.axis_of("stack", axis, first.ndim + 1, of="the result")
    out = inputs.result_type(*[x.dtype for x in xs])
    for x in xs[1:]:
        if x.ndim != first.ndim or not all(
            inputs.equal(a, b) for a, b in zip(x.shape, first.shape, strict=True)
        ):
            raise DeclareError(
                f"ops.stack: {inputs.named(first)} and {inputs.named(x)}",
                because="stacked tensors have one shape",
                try_=_alike(first, x),
            )

    def element(*i: Any) -> Expr:
        own = list(inputs.without(i, (d,)))
        parts = [te.cast(out, x(*own)) for x in xs]
        if len(parts) > MANY:
            return _part(parts, [make.as_expr(k) for k in range(len(parts))], i[d])
        chosen = parts[-1]
        for k in reversed(range(len(parts) - 1)):
            chosen = te.if_then_else(make.eq(i[d], k), parts[k], chosen)
        return chosen

    return inputs.stage(
        "stack", tags.INJECTIVE, [*first.shape[:d], len(xs), *first.shape[d:]], element, {"axis": d}
    )


def _alike(x: Tensor, y: Tensor) -> str | None:
    """What joins or aligns two tensors that differ in one size, or in the order of two."""
    other = [d for d in range(x.ndim) if not inputs.equal(x.shape[d], y.shape[d])] if x.ndim == y.ndim else []
    if len(other) == 1:
        return f"ops.concatenate([{x.name}, {y.name}], axis={other[0]}), along the dimension that differs"
    if len(other) == 2 and all(inputs.equal(x.shape[a], y.shape[b]) for a, b in (other, other[::-1])):
        return f"ops.swapaxes({y.name}, {other[0]}, {other[1]})"
    return None


def split(x: Tensor, indices_or_sections: int | Sequence[ExprLike], axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of ``x`` along ``axis``, as numpy's split: as many equal ones, or cut at the given places. A
    tuple of tensors.

    Raises DeclareError for equal parts that do not come out, or places that do not rise.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.split(x, 3, 1)
    (Tensor(split: float32[2, 1]), Tensor(split: float32[2, 1]), Tensor(split: float32[2, 1]))
    """
    x = inputs.tensor("split", x)
    d = inputs.axis_of("split", axis, x.ndim)
    n = x.shape[d]
    if isinstance(indices_or_sections, tuple | list):
        # as numpy: a cut behind the end gives empty parts, no error
        places = [make.as_expr(0), *[_bound(n, c, n) for c in indices_or_sections], n]
    else:
        parts = inputs.integer("split", "the number of parts", indices_or_sections)
        if not inputs.divides(parts, n):
            raise DeclareError(
                f"ops.split: dimension {d} of {inputs.named(x)} in {parts} equal parts",
                because=f"{parts} does not divide {n}",
                try_="a list of the places to cut at"
                if const_int(n) is not None
                else f"te.dim with multiple_of={parts}",
            )
        places = [make.floordiv(n, parts) * k for k in range(parts)] + [n]
    for a, b in pairwise(places):
        if inputs.at_most(a, b) is False:
            raise DeclareError(
                f"ops.split: cut from {a} to {b}",
                because=f"the places rise from 0 to {n}, the size of dimension {d}",
            )
    return tuple(_cut("split", x, {d: (a, _length(b - a, 1), 1)}) for a, b in pairwise(places))


def strided_slice(
    x: Tensor,
    begin: Sequence[ExprLike | None],
    end: Sequence[ExprLike | None],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """``x[begin:end:stride, …]`` with Python's rules: None is the end in that direction, a negative int
    counts from the end, what lies beyond is cut. Of the dimensions ``axes``, or the first ones. A symbolic
    bound counts from the beginning.

    Raises DeclareError for lists of different lengths and a stride of 0.
    """
    x = inputs.tensor("strided_slice", x)
    which = (
        list(range(len(begin)))
        if axes is None
        else [inputs.axis_of("strided_slice", a, x.ndim, "axes") for a in axes]
    )
    steps = (
        [1] * len(begin)
        if strides is None
        else [inputs.integer("strided_slice", "a stride", s) for s in strides]
    )
    if not len(begin) == len(end) == len(steps) == len(which):
        raise DeclareError(
            f"ops.strided_slice: {counted(len(begin), 'begin')}, {counted(len(end), 'end')}, "
            f"{counted(len(steps), 'stride')} and {counted(len(which), 'axis', 'axes')}"
        )
    if len(which) > x.ndim or len(set(which)) != len(which):
        raise DeclareError(
            f"ops.strided_slice: {counted(len(which), 'range')} for {inputs.named(x)}",
            because="each dimension has one at most",
        )
    if 0 in steps:
        raise DeclareError(
            "ops.strided_slice: a stride is 0",
            because="it would give one element for ever",
            try_="1, or -1 to go backwards",
        )
    return _cut(
        "strided_slice",
        x,
        {d: _range(x.shape[d], b, e, s) for d, b, e, s in zip(which, begin, end, steps, strict=True)},
    )


def _cut(op: str, x: Tensor, ranges: dict[int, tuple[Expr, Expr, int]]) -> Tensor:
    """``x`` in ranges (first index, how many, stride) of some dimensions."""
    sizes = [ranges[d][1] if d in ranges else n for d, n in enumerate(x.shape)]
    return moved(
        op,
        x,
        sizes,
        lambda *i: [ranges[d][0] + v * ranges[d][2] if d in ranges else v for d, v in enumerate(i)],
    )


def _range(n: Expr, begin: ExprLike | None, end: ExprLike | None, step: int) -> tuple[Expr, Expr, int]:
    """First index, how many, and stride of ``begin:end:step`` over ``n`` elements, by Python's rules
    (slice.indices)."""
    step = _near(n, step)
    # Python's slice.indices: backwards, -1 is the place before the first element
    least, most = (make.as_expr(0), n) if step > 0 else (make.as_expr(-1), n - 1)
    lo = _bound(n, begin, least if step > 0 else most, least, most)
    hi = _bound(n, end, most if step > 0 else least, least, most)
    if step == 1 and type(lo) is Min and (lo.a is hi or lo.b is hi):
        # x[1:] is as long as x[:-1], of any length
        return lo, te.max(hi - (lo.b if lo.a is hi else lo.a), 0), step
    return lo, _length(hi - lo, step), step


def _near(n: Expr, k: int) -> int:
    """A number cut to where it is beyond every place: as good, and sums of it and a size do not wrap."""
    size = const_int(n)
    far = min(_FAR, 2 ** (n.dtype.bits - 1) - 1) if size is None else size + 1
    return max(min(k, far), -far)


def _bound(
    n: Expr, given: ExprLike | None, default: Expr, least: ExprLike = 0, most: Expr | None = None
) -> Expr:
    """A place to cut at, between ``least`` and ``most``; an int below 0 counts from the end."""
    if given is None:
        return default
    e, top = make.as_expr(given), n if most is None else most
    k = const_int(e)
    e = e if k is None else make.as_expr(_near(n, k))
    # only a number: of a symbol nobody knows whether it is negative, and so it never counts from the end
    e = n + e if k is not None and k < 0 else e
    # the bound is written out only where it is not known to hold: shapes stay as short as they can
    e = e if inputs.at_most(e, top) else top if inputs.at_most(top, e) else te.min(e, top)
    return e if inputs.at_most(least, e) else te.max(e, least)


def _length(span: Expr, step: int) -> Expr:
    n = make.ceildiv(span if step > 0 else 0 - span, abs(step))
    # end before begin is an empty slice
    return n if inputs.at_most(0, n) else te.max(n, 0)


def pad(
    x: Tensor, pad_width: int | Sequence[Any], mode: str = "constant", constant_values: float | Tensor = 0
) -> Tensor:
    """``x`` with margins, as numpy's pad: ``pad_width`` is ``((before, after), …)`` for each dimension,
    ``(before, after)`` or one number for all. ``mode`` is ``constant`` (with ``constant_values``, a number or
    a tensor of one), ``edge`` (the outermost element), ``reflect`` (without the outermost) or ``wrap`` (what
    stands at the other end). Margins may be expressions of sizes, ``te.max(256 - n, 0)``; one that comes to
    less than 0 cuts off.

    Raises DeclareError for another mode, margins that do not fit the dimensions, a reflection wider than the
    tensor; kernels refuse calls in which symbolic sizes are too small for it.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.pad(x, ((0, 0), (1, 1)))
    Tensor(pad: float32[2, 5])
    """
    x = inputs.tensor("pad", x)
    if mode != "constant" and mode not in _INSIDE:
        raise DeclareError(f"ops.pad: mode={mode!r}", legal="'constant', 'edge', 'reflect', 'wrap'")
    margins = _margins(x, pad_width)
    padded = {d for d, pair in enumerate(margins) if not all(map(_none, pair))}
    shape = [n + a + b for n, (a, b) in zip(x.shape, margins, strict=True)]
    if mode != "constant":
        for d in padded:
            n, widest = const_int(x.shape[d]), max(const_int(make.as_expr(w)) or 0 for w in margins[d])
            # numpy reflects again and again; one reflection reaches n - 1 elements, and more is refused as
            # torch does
            if n is not None and (n == 0 or (mode == "reflect" and widest >= n)):
                raise DeclareError(
                    f"ops.pad: {mode} by {widest} of dimension {d} of {inputs.named(x)}",
                    because="a margin of a reflection is narrower than the tensor" if n else "it is empty",
                )
        inside = _INSIDE[mode]
        out = moved(
            "pad",
            x,
            shape,
            lambda *i: [inside(v - margins[d][0], x.shape[d]) if d in padded else v for d, v in enumerate(i)],
        )
        for d in sorted(padded):
            reach = make.max_(*map(make.as_expr, margins[d]))
            inputs.needing("pad", out, x, d, reach + 1 if mode == "reflect" else 1)
        return out
    if isinstance(constant_values, Tensor):
        # a tensor of one element, as ONNX's Pad has it: known only when the kernel runs
        value = te.cast(x.dtype, constant_values(*[0] * constant_values.ndim))
    else:
        value = make.const(inputs.number("pad", "constant_values", constant_values), x.dtype)

    def element(*i: Any) -> Expr:
        own = [v - margins[d][0] for d, v in enumerate(i)]
        within = [
            c
            for d in sorted(padded)
            # a side without a margin needs no test
            for c, w in ((own[d] >= 0, margins[d][0]), (own[d] < x.shape[d], margins[d][1]))
            if not _none(w)
        ]
        return te.if_then_else(te.all(*within), x(*own), value) if within else x(*own)

    return inputs.stage("pad", tags.INJECTIVE, shape, element)


def _none(margin: Any) -> bool:
    return const_int(make.as_expr(margin)) == 0


def _margins(x: Tensor, width: Any) -> list[tuple[Any, Any]]:
    """Pairs of numbers and expressions."""

    def one(v: Any) -> Any:
        if isinstance(v, Expr) and const_int(v) is None:
            return v
        n = inputs.integer("pad", "a margin", v)
        if n < 0:
            raise DeclareError(
                f"ops.pad: a margin of {n}",
                because="margins are not negative",
                try_="ops.strided_slice to cut off",
            )
        return n

    if not isinstance(width, tuple | list):
        return [(one(width), one(width))] * x.ndim
    # numpy's short forms: one pair for all dimensions, in brackets or not
    if len(width) == 2 and not any(isinstance(w, tuple | list) for w in width):
        return [(one(width[0]), one(width[1]))] * x.ndim
    if len(width) == 1 and isinstance(width[0], tuple | list):
        width = [width[0]] * x.ndim
    if len(width) != x.ndim or any(not isinstance(w, tuple | list) or len(w) != 2 for w in width):
        raise DeclareError(
            f"ops.pad: pad_width={width!r} for {inputs.named(x)}",
            because="there is one pair (before, after) for each dimension",
        )
    return [(one(a), one(b)) for a, b in width]


def _reflect(i: Expr, n: Expr) -> Expr:
    back = te.max(i, 0 - i)
    # from the end ``i`` itself: the side before the first element is never beyond the other
    return te.max(
        te.min(back, (n - 1) * 2 - i), 0
    )  # never below 0, for calls with fewer elements are refused; proofs know it by this


# which element stands at a place that may lie outside
_INSIDE = {"edge": kept_within, "reflect": _reflect, "wrap": make.floormod}
