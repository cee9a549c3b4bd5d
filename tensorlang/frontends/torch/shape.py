"""ATen's operators on shapes and places of elements, and tensors made of nothing but sizes. Knows ops.

What is a view in torch is index arithmetic here: a kernel that reads it reads the tensor it is a view of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import dtype
from ...expr.make import as_expr
from ...expr.nodes import Expr, const_int
from ...ops.inputs import at_most
from ...te import Tensor
from .symbols import MOST_BELOW
from .table import aten, known, needs
from .types import as_type, held, of_number, promoted, result_type

LEAST_ROLLED = 8  # elements of a row, below which all of them are one row


@aten("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy")
def view(x: Tensor, shape: Sequence[Any], *_: Any) -> Tensor:
    return ops.reshape(x, list(shape))


@aten("flatten.using_ints")
def flatten(x: Tensor, start: int = 0, end: int = -1) -> Tensor:
    return ops.reshape(x, (1,)) if x.ndim == 0 else ops.flatten(x, start, end)


@aten("unflatten.int")
def unflatten(x: Tensor, dim: int, sizes: Sequence[Any]) -> Tensor:
    d = dim % x.ndim
    unknown = [k for k, n in enumerate(sizes) if isinstance(n, int) and n == -1]
    known_ones = math.prod(n for k, n in enumerate(sizes) if k not in unknown)
    own = [te.floordiv(x.shape[d], known_ones) if k in unknown else n for k, n in enumerate(sizes)]
    return ops.reshape(x, [*x.shape[:d], *own, *x.shape[d + 1 :]])


@aten("permute", "permute_copy")
def permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    return ops.transpose(x, list(dims)) if x.ndim else x


@aten("transpose.int", "swapaxes")
def transpose(x: Tensor, a: int, b: int) -> Tensor:
    return ops.swapaxes(x, a, b) if x.ndim else x


@aten("t", "numpy_T", "mT")
def t(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -2, -1) if x.ndim > 1 else x


@aten("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims", "squeeze_copy.dim")
def squeeze(x: Tensor, dims: Any = None) -> Tensor:
    """Of the dimensions named, those that are 1."""
    named = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    # an open size counts as another: torch guards that it is not 1
    axes = tuple(d % x.ndim for d in named if x.ndim and const_int(x.shape[d]) == 1)
    return ops.squeeze(x, axes) if axes else x


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    return ops.expand_dims(x, (dim,))


@aten("expand", "expand_copy")
def expand(x: Tensor, shape: Sequence[Any], *_: Any) -> Tensor:
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    # -1 leaves a size as it is
    sizes = [a if isinstance(n, int) and n == -1 else n for n, a in zip(shape, own, strict=True)]
    return ops.broadcast_to(x, sizes)


@aten("expand_as")
def expand_as(x: Tensor, like: Tensor) -> Tensor:
    return ops.broadcast_to(x, like.shape)


@aten("copy")
def copy(x: Tensor, source: Tensor, *_: Any) -> Tensor:
    """The elements of the second in the shape and type of the first."""
    return ops.broadcast_to(as_type(source, x.dtype), x.shape)


@aten("fill.Scalar", "fill.Tensor")
def fill(x: Tensor, value: Any) -> Tensor:
    return ops.broadcast_to(held(value, x.dtype), x.shape)


@aten("zero")
def zero(x: Tensor) -> Tensor:
    return _filled(x.shape, 0, x.dtype)


@aten("as_strided", strided=True)
def as_strided(x: Tensor, size: Any, stride: Any, offset: Any, lies: Sequence[Any]) -> Tensor:
    """Other places of the memory of ``x``, whose own strides are ``lies``."""
    if (
        not offset
        and len(size) == x.ndim
        and all(
            as_expr(n) is as_expr(m) and (const_int(as_expr(n)) == 1 or as_expr(a) is as_expr(b))
            for n, m, a, b in zip(size, x.shape, stride, lies, strict=True)
        )
    ):
        return x
    sizes, steps = ([known(n, "a stride") for n in ns] for ns in (size, stride))
    own, strides = ([known(n, "memory") for n in ns] for ns in (x.shape, lies))
    # a dimension of 1 has any stride
    order = sorted((d for d in range(x.ndim) if own[d] != 1), key=lambda d: -strides[d])
    count = 1
    for d in reversed(order):
        needs(strides[d] == count, "places in memory with gaps")
        count *= own[d]
    first = offset or 0
    last = first + sum((n - 1) * st for n, st in zip(sizes, steps, strict=True))
    # a kernel has the elements of the tensor and nothing around them
    needs(0 in sizes or (min(steps, default=0) >= 0 and last < count), "places outside a tensor's memory")

    def element(*i: Any) -> Any:
        place: Any = te.const(first, "int64")
        for a, st in zip(i, steps, strict=True):
            place = place + a * st
        at: list[Any] = [0] * x.ndim
        for k, d in enumerate(order):
            here = te.floordiv(place, strides[d])
            at[d] = here if k == 0 else te.floormod(here, own[d])
        return x(*at)

    found: Any = te.compute(sizes, element, name="as_strided")
    return found


@aten("cat")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """A tensor of shape (0,) counts nothing, as torch has it of old."""
    kind = result_type(*tensors)
    kept = [x for x in tensors if x.ndim != 1 or const_int(x.shape[0]) != 0] or list(tensors[:1])
    kept = [as_type(x, kind) for x in kept]
    return kept[0] if len(kept) == 1 else ops.concatenate(kept, dim)


@aten("diff")
def diff(
    x: Tensor, times: int = 1, dim: int = -1, before: Tensor | None = None, behind: Tensor | None = None
) -> Tensor:
    """Of truth values: whether two neighbours differ."""
    parts = [t for t in (before, x, behind) if t is not None]
    x = cat(parts, dim) if len(parts) > 1 else x
    needs(at_most(times, x.shape[dim]) is True, "differences of fewer elements than are taken off")
    for _ in range(times):
        n = x.shape[dim]
        left, right = (ops.strided_slice(x, [k], [n - 1 + k], axes=[dim]) for k in (0, 1))
        x = ops.logical_xor(right, left) if x.dtype.is_bool else ops.subtract(right, left)
    return x


@aten("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return ops.stack(promoted(*tensors), dim)


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    # torch writes the largest int64 for "to the end"
    end = None if isinstance(end, int) and end >= 2**62 else end
    n = x.shape[dim]
    first, last = (None if i is None else _within(i, n) for i in (start, end))
    return ops.strided_slice(x, [0 if first is None else first], [last], [step], [dim])


def _within(i: Any, n: Any) -> Any:
    """An end of a slice that is an open number, from the beginning; ``strided_slice`` knows others."""
    return te.max(_from_start(i, n), 0) if isinstance(i, Expr) and at_most(i, -1) else _from_start(i, n)


def _from_start(i: Any, n: Any) -> Any:
    """An open place from the beginning, which counts from the end where it is negative; torch's graphs guard
    which of the two it is. Other numbers stay."""
    if not isinstance(i, Expr) or at_most(0, i):
        return i
    needs(bool(at_most(i, -1)), "a place that counts from the one end or the other")
    return n + i


@aten("narrow", "narrow_copy")
def narrow(x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    first = _within(start, x.shape[dim])
    return ops.strided_slice(x, [first], [first + length], [1], [dim])


@aten("select.int", "select_copy.int")
def select(x: Tensor, dim: int, index: Any) -> Tensor:
    dim = dim % x.ndim
    index = x.shape[dim] + index if isinstance(index, int) and index < 0 else _from_start(index, x.shape[dim])
    shape = [n for d, n in enumerate(x.shape) if d != dim]
    return te.compute(shape, lambda *i: x(*i[:dim], index, *i[dim:]), name="select")


@aten("slice_scatter")
def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    dim, n = dim % x.ndim, x.shape[dim % x.ndim]
    first = _place(0 if start is None else start, n)
    count = src.shape[dim]

    def element(*i: Any) -> Any:
        away = i[dim] - first
        inside = [away >= 0, away < count * step]
        if step != 1:
            inside.append(te.floormod(away, step) == 0)
            away = te.floordiv(away, step)
        return te.if_then_else(te.all(*inside), te.cast(x.dtype, src(*i[:dim], away, *i[dim + 1 :])), x(*i))

    return te.compute(x.shape, element, name="slice_scatter")


def _place(i: Any, n: Expr) -> Any:
    """A start of a slice, from the beginning and within."""
    if isinstance(i, int) and i < 0:
        return te.max(n + i, 0)
    return i if isinstance(i, int) and i == 0 else te.min(as_expr(_within(i, n)), n)


@aten("select_scatter")
def select_scatter(x: Tensor, src: Tensor, dim: int, index: Any) -> Tensor:
    dim = dim % x.ndim
    n = x.shape[dim]
    at = (
        te.select(index < 0, n + index, index)
        if isinstance(index, Expr)
        else n + index
        if index < 0
        else index
    )

    def element(*i: Any) -> Any:
        return te.if_then_else(i[dim] == at, te.cast(x.dtype, src(*i[:dim], *i[dim + 1 :])), x(*i))

    return te.compute(x.shape, element, name="select_scatter")


@aten("split.Tensor")
def split(x: Tensor, size: Any, dim: int = 0) -> Any:
    n, each = known(x.shape[dim], "a tensor that is split"), known(size, "a part")
    return split_with_sizes(x, [min(each, n - at) for at in range(0, n, each)] or [0], dim)


@aten("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(x: Tensor, sizes: Sequence[Any], dim: int = 0) -> Any:
    found, at = [], as_expr(0)
    for n in sizes:
        found.append(ops.strided_slice(x, [at], [at + n], [1], [dim]))
        at = at + n
    return tuple(found)


@aten("view_as", "reshape_as")
def view_as(x: Tensor, like: Tensor) -> Tensor:
    return ops.reshape(x, like.shape)


@aten("unbind.int", "unbind_copy.int")
def unbind(x: Tensor, dim: int = 0) -> Any:
    n = known(x.shape[dim], "a tensor that is split")
    return tuple(select(x, dim, k) for k in range(n))


@aten("chunk")
def chunk(x: Tensor, count: int, dim: int = 0) -> Any:
    n = known(x.shape[dim], "a tensor that is split")
    return split(x, max(1, -(-n // count)), dim)


@aten("repeat")
def repeat(x: Tensor, repeats: Sequence[Any]) -> Tensor:
    return ops.tile(x, list(repeats)) if repeats else x


@aten("repeat_interleave.self_int")
def repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None, *_: Any) -> Tensor:
    return ops.repeat(x, repeats, dim)


@aten("flip")
def flip(x: Tensor, dims: Sequence[int]) -> Tensor:
    return ops.flip(x, tuple(dims)) if dims and x.ndim else x


def _roll_rows(x: Tensor, shift: int | None) -> Tensor | None:
    """All elements moved on by ``shift`` places, row by row: a row of the result is the end of one row and
    the begin of the next, each a stretch of memory, where as one long row elements would be gathered. None
    for open sizes, and for rows that are no vectors. Measured (Zen 4, one thread and two): 30 × 40 × 50 takes
    0.15 and 0.22 of the time, 300 × 1001 0.13 and 0.12."""
    sizes = [const_int(n) for n in x.shape]
    known = [n for n in sizes if n is not None]
    if shift is None or len(known) < max(2, len(sizes)) or known[-1] < LEAST_ROLLED:
        return None
    *outer, wide = known
    high = math.prod(outer)
    over, begin = divmod(shift % (high * wide), wide)

    def element(*i: Any) -> Any:
        row = 0
        for k, n in zip(i[:-1], outer, strict=True):
            row = row * n + k

        def piece(above: int, at: Any) -> Any:
            source = te.floormod(row - above, high)
            places: list[Any] = []
            for n in reversed(outer):
                places.insert(0, te.floormod(source, n))
                source = te.floordiv(source, n)
            return x(*places, at)

        here = piece(over, i[-1] - begin)
        return te.if_then_else(i[-1] < begin, piece(over + 1, i[-1] - begin + wide), here) if begin else here

    return te.compute(x.shape, element, name="roll")


@aten("roll")
def roll(x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> Tensor:
    if any(const_int(n) == 0 for n in x.shape):
        return x
    if not dims:
        rows = _roll_rows(x, const_int(shifts[0]))
        return rows if rows is not None else ops.reshape(roll(ops.flatten(x), shifts, [0]), x.shape)
    by = {d % x.ndim: s for s, d in zip(shifts, dims, strict=True)}
    # along the innermost of these the two parts that change places are joined: each is one stretch of memory,
    # however few elements lie behind the axis
    last = max(by)
    n, shift = const_int(x.shape[last]), const_int(by[last])
    begin = 0 if n is None or shift is None else shift % n

    def element(*i: Any) -> Any:
        at = [te.floormod(k - by[d], x.shape[d]) if d in by else k for d, k in enumerate(i)]
        if n is None or not begin:
            return x(*at)
        parts = [x(*at[:last], i[last] - b, *at[last + 1 :]) for b in (begin - n, begin)]
        return te.if_then_else(i[last] < begin, *parts)

    return te.compute(x.shape, element, name="roll")


def _padded(x: Tensor, margins: Sequence[tuple[Any, Any]], value: Tensor) -> Tensor:
    """With margins of open sizes."""
    needs(all(at_most(0, n) for pair in margins for n in pair), "a margin that may cut off")
    sides = [(as_expr(a), as_expr(b)) for a, b in margins]
    padded = [d for d, pair in enumerate(sides) if any(const_int(n) != 0 for n in pair)]

    def element(*i: Any) -> Any:
        own = [k - a for k, (a, _) in zip(i, sides, strict=True)]
        inside = [te.all(own[d] >= 0, own[d] < x.shape[d]) for d in padded]
        return te.if_then_else(te.all(*inside), x(*own), value())

    shape = [n + a + b for n, (a, b) in zip(x.shape, sides, strict=True)]
    return te.compute(shape, element, name="pad")


@aten("constant_pad_nd", "pad")
def pad(x: Tensor, widths: Sequence[Any], value: Any = 0, filler: Any = None) -> Tensor:
    """From the last dimension on; below 0 they cut off. ``aten.pad`` has the mode before the value."""
    mode = "constant"
    if isinstance(value, str):
        mode, value = value, filler or 0.0
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    # an open margin may turn out to be a number, and nothing
    widths = [n if (known := const_int(n)) is None else known for n in widths]
    pairs = [(widths[k], widths[k + 1]) for k in range(0, len(widths), 2)]
    # torch counts from the last dimension
    margins = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    if mode == "constant" and any(isinstance(n, Expr) for pair in margins for n in pair):
        return _padded(x, margins, held(value, x.dtype))
    if any(isinstance(n, int) and n < 0 for pair in margins for n in pair):
        begin = [max(0, -a) for a, _ in margins]
        end = [n - max(0, -b) for n, (_, b) in zip(x.shape, margins, strict=True)]
        x = ops.strided_slice(x, begin, end)
        margins = [(max(0, a), max(0, b)) for a, b in margins]
    if all(isinstance(n, int) and n == 0 for pair in margins for n in pair):
        return x
    return ops.pad(x, margins, mode, held(value, x.dtype) if mode == "constant" else 0)


@aten("tril")
def tril(x: Tensor, k: int = 0) -> Tensor:
    return ops.tril(x, k)


@aten("triu")
def triu(x: Tensor, k: int = 0) -> Tensor:
    return ops.triu(x, k)


@aten("diagonal", "diagonal_copy")
def diagonal(x: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Tensor:
    a, b = a % x.ndim, b % x.ndim
    rows, columns = x.shape[a], x.shape[b]
    # a diagonal below the main one begins in a later row, one above in a later column
    down, right = max(0, -offset), max(0, offset)
    n = te.max(te.min(rows - down, columns - right), 0)
    rest = [d for d in range(x.ndim) if d not in (a, b)]

    def element(*i: Any) -> Any:
        at = dict(zip(rest, i, strict=False)) | {a: i[-1] + down, b: i[-1] + right}
        return x(*(at[d] for d in range(x.ndim)))

    return te.compute([*(x.shape[d] for d in rest), n], element, name="diagonal")


@aten("diagonal_scatter")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, a: int = 0, b: int = 1) -> Tensor:
    a, b = a % x.ndim, b % x.ndim
    down, right = max(0, -offset), max(0, offset)

    def element(*i: Any) -> Any:
        at = [n for d, n in enumerate(i) if d not in (a, b)]
        own = te.max(te.min(i[a] - down, src.shape[-1] - 1), 0)
        on = te.all(i[b] - i[a] == right - down, i[a] >= down, i[b] >= right)
        return te.if_then_else(on, te.cast(x.dtype, src(*at, own)), x(*i))

    return te.compute(x.shape, element, name="diagonal_scatter")


@aten("unfold")
def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    if not x.ndim:
        return ops.reshape(x, (1,))
    dim = dim % x.ndim
    count = te.floordiv(x.shape[dim] - size, step) + 1
    shape: list[Any] = [*x.shape[:dim], count, *x.shape[dim + 1 :], size]
    return te.compute(shape, lambda *i: x(*i[:dim], i[dim] * step + i[-1], *i[dim + 1 : -1]), name="unfold")


@aten("pixel_shuffle")
def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    *batch, c, h, w = x.shape
    inner = ops.reshape(x, (*batch, te.floordiv(c, factor * factor), factor, factor, h, w))
    k = len(batch)
    # channels are [c, factor, factor], rows first
    order = [*range(k), k, k + 3, k + 1, k + 4, k + 2]
    moved = ops.transpose(inner, order)
    return ops.reshape(moved, (*batch, te.floordiv(c, factor * factor), h * factor, w * factor))


# -- of sizes alone


@aten("full")
def full(shape: Sequence[Any], value: Any, kind: str | None = None) -> Tensor:
    return _filled(shape, value, kind or of_number(value))


def _filled(shape: Sequence[Any], value: Any, kind: Any) -> Tensor:
    t = dtype(kind)
    number = held(value, t)
    return te.compute(list(shape), lambda *i: number(), name="full")


@aten("full_like")
def full_like(x: Tensor, value: Any, kind: str | None = None) -> Tensor:
    return _filled(x.shape, value, kind or x.dtype)


@aten("new_full")
def new_full(x: Tensor, shape: Sequence[Any], value: Any, kind: str | None = None) -> Tensor:
    return _filled(shape, value, kind or x.dtype)


@aten("zeros", "new_zeros")
def zeros(*args: Any) -> Tensor:
    return _new(args, 0)


@aten("ones", "new_ones")
def ones(*args: Any) -> Tensor:
    return _new(args, 1)


def _new(args: Sequence[Any], value: int) -> Tensor:
    """Of a shape and a type; the ``new_`` operators have a tensor before, whose type it is else."""
    like = args[0].dtype if isinstance(args[0], Tensor) else "float32"
    shape, kind = args[-2:]
    return _filled(shape, value, kind or like)


@aten("zeros_like")
def zeros_like(x: Tensor, kind: str | None = None) -> Tensor:
    return _filled(x.shape, 0, kind or x.dtype)


@aten("ones_like")
def ones_like(x: Tensor, kind: str | None = None) -> Tensor:
    return _filled(x.shape, 1, kind or x.dtype)


@aten("empty.memory_format", "new_empty", "empty_permuted")
def empty(*args: Any) -> Tensor:
    """Zeros, which are as good as any."""
    if len(args) == 3 and not isinstance(args[0], Tensor):  # a shape, an order of memory, a type
        args = (args[0], args[2])
    return _new(args, 0)


@aten("new_empty_strided")
def new_empty_strided(
    x: Tensor, shape: Sequence[Any], strides: Sequence[Any], kind: str | None = None
) -> Tensor:
    """The order in memory is of what is returned, which the graph's outputs see to."""
    return _filled(shape, 0, kind or x.dtype)


@aten("empty_strided")
def empty_strided(shape: Sequence[Any], strides: Sequence[Any], kind: str | None = None) -> Tensor:
    return _filled(shape, 0, kind or "float32")


@aten("empty_like")
def empty_like(x: Tensor, kind: str | None = None) -> Tensor:
    return zeros_like(x, kind)


@aten("scalar_tensor")
def scalar_tensor(value: Any, kind: str | None = None) -> Tensor:
    return held(value, kind or "float32")


@aten("arange", "arange.start", "arange.start_step")
def arange(*args: Any) -> Tensor:
    *range_, kind = args
    start, stop, step = (0, *range_, 1) if len(range_) == 1 else (*range_, 1)[:3]
    needs(
        not any(isinstance(a, Expr) and a.dtype.is_float for a in range_), "a range of floats made of sizes"
    )
    if kind is None:
        kind = "float32" if any(isinstance(a, float) for a in range_) else "int64"
    if dtype(kind).is_int:
        # torch cuts the ends first when integers are wanted
        start, stop, step = (int(a) if isinstance(a, float) else a for a in (start, stop, step))
    count = _steps(start, stop, step)
    t, inner = dtype(kind), "float64" if any(isinstance(a, float) for a in (start, step)) else "int64"
    first, by = (te.cast(inner, a) if isinstance(a, Expr) else te.const(a, inner) for a in (start, step))
    return te.compute((count,), lambda i: te.cast(t, first + te.cast(inner, i) * by), name="arange")


def _steps(start: Any, stop: Any, step: Any) -> Any:
    """How many there are from one number to before another."""
    given = (start, stop, step)
    if all(isinstance(a, int) for a in given):
        return max(0, -(-(stop - start) // step))
    if not any(isinstance(a, Expr) for a in given):
        return max(0, math.ceil((stop - start) / step))
    # floats by open sizes: whole numbers of the largest part that all of them are multiples of
    below = max((a.as_integer_ratio()[1] for a in given if not isinstance(a, Expr)), default=1)
    needs(below <= MOST_BELOW, "a float that is no short binary fraction beside an open size")
    start, stop, step = (as_expr(a * below if isinstance(a, Expr) else int(a * below)) for a in given)
    if at_most(step, -1):
        return te.max(te.ceildiv(start - stop, 0 - step), 0)
    needs(bool(at_most(1, step)), "an open step that goes the one way or the other")
    return te.max(te.ceildiv(stop - start, step), 0)


@aten("linspace")
def linspace(start: float, end: float, count: Any, kind: str | None = None) -> Tensor:
    needs(isinstance(count, int), "an open number of points")
    t = dtype(kind or "float32")
    if t.is_int:  # torch takes whole ends
        start, end = int(start), int(end)
    # 16-bit floats are rounded at each step, as torch does; whole numbers are counted in float64
    inner = t if t.is_float and t.bits == 16 else dtype("float64")
    first, last = te.const(start, inner), te.const(end, inner)
    step = (last - first) / te.const(max(count - 1, 1), inner)
    half = count // 2

    def element(i: Any) -> Any:
        low = first + te.cast(inner, i) * step
        # from the end: the last element is then ``end`` to the bit
        high = last - te.cast(inner, count - 1 - i) * step
        return te.cast(t, te.select(i < half, low, high) if count > 1 else low)

    return te.compute((count,), element, name="linspace")


@aten("eye", "eye.m")
def eye(n: Any, *args: Any) -> Tensor:
    m, kind = args if len(args) == 2 else (n, args[0])
    return ops.eye(n, m, 0, kind or "float32")
