"""Running sums and products along one dimension. Knows the checks of arguments, and how tensors are laid out
anew; no other operator.

A program of loops takes a few rows along memory to their end at once, or a few columns of known sizes, whose
sums so far are in registers. Others are recurrences of ``te.scan``, whose steps are lines of memory: it takes
each step for the whole tensor, so that what lies around the dimension is laid behind it and back again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from ..te.loops import LoopBuilder, Memory
from . import inputs, tags
from .shape import flatten, reshape

__all__ = ["cumprod", "cumsum"]

Places = Callable[[Expr, Expr], tuple[Expr, ...]]  # (step, column) → index
Columns = Callable[[Expr | int, Places], None]  # (how many columns, the index of an element)
ROWS = 4  # at once: the sum of one waits for the sum before, those of others do not
CONVERTED = 64  # elements of a row that are converted together
FEW = 16  # of a rest
SINGLE = 4  # of an open row, up to which they are converted one by one
COLUMNS = 256  # bytes of columns, whose sums registers hold
# bytes of columns of longer lines, which are taken one after the other: each reads the sums of the one before
# again. Narrow columns of what no cache holds are lines far apart, and none is there when it is wanted
LINE = 16 << 10
PARTS = 2  # of a tensor, at least, for threads, where they are not shorter than these bytes of a line
PIECE = 2 << 10
FAR = 32 << 20  # bytes of one sum of lines, which no cache holds: a thread waits for memory as two do


def cumsum(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The running sum along ``axis`` (of the flattened tensor for None), in ``dtype``: 64 bits of integers
    and bools, else that of ``x``.

    ``exclusive`` leaves out the element itself, so that the first sum is 0; ``reverse`` adds from the end.
    The terms are added one after the other; 16-bit floats in float32, rounded once. Over nothing there is
    nothing: an empty result. Raises DeclareError for ``dtype="bool"``.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.cumsum(x, 1)
    Tensor(cumsum: float32[2, 3])
    """
    return _running("cumsum", x, axis, dtype, make.add, 0, exclusive, reverse)


def cumprod(
    x: Tensor,
    axis: int | None = None,
    dtype: str | DType | None = None,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The running product along ``axis`` (of the flattened tensor for None), arguments as for :func:`cumsum`.
    Raises DeclareError for ``dtype="bool"``."""
    return _running("cumprod", x, axis, dtype, make.mul, 1, exclusive, reverse)


def _running(
    op: str,
    x: Any,
    axis: int | None,
    dtype: str | DType | None,
    combine: Callable[[Expr, Expr], Expr],
    identity: int,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    x = inputs.tensor(op, x)
    if axis is None and x.ndim != 1:
        x, axis = flatten(x), 0
    d = inputs.axis_of(op, 0 if axis is None else axis, x.ndim)
    out = inputs.sum_type(x.dtype) if dtype is None else as_dtype(dtype)
    if out.is_bool:
        raise DeclareError(f"ops.{op}: dtype=bool", because="sums and products are numbers")
    inside, rows = inputs.wide(out), x.shape[d]
    # a recurrence has a first row
    if const_int(rows) == 0:
        return inputs.stage(op, tags.ELEMENTWISE, x.shape, lambda *i: te.cast(out, x(*i)))
    # of short rows of 16-bit floats conversions of several at once are fuller vectors. Measured (Zen 5, one
    # thread), 1000 rows of 33: 0.85 of the time, of 100 1.2
    halves = inside is not out
    short = halves and x.ndim > 1 and (const_int(rows) or CONVERTED) < CONVERTED
    if d == x.ndim - 1 and not short:
        return _of_rows(op, x, out, exclusive, reverse)
    if not halves and (d > 0 or _columns_known(x.shape, d)):
        return te.loops(
            _running_columns,
            [x],
            [x.shape],
            [out],
            name=op,
            tag=tags.LOOPS,
            attrs={**_attrs(op, out, exclusive, reverse), "axis": d},
        )[0]
    begin = make.const(1, rows.dtype) if inputs.at_most(1, rows) else make.min_(rows, 1)
    rest = list(inputs.without(x.shape, (d,)))

    def element(t: Any, *i: Any) -> Expr:  # the recurrence runs over the first dimension of its state
        return te.cast(inside, x(*i[:d], rows - 1 - t if reverse else t, *i[d:]))

    state = te.placeholder((rows, *rest), inside, name=f"{op}.state")
    first = inputs.stage(f"{op}.first", tags.ELEMENTWISE, [begin, *rest], element)
    step = inputs.stage(
        f"{op}.step", tags.ELEMENTWISE, [rows, *rest], lambda t, *i: combine(state(t - 1, *i), element(t, *i))
    )
    # the scan itself is the result: no copy of it
    straight = d == 0 and inside is out and not exclusive and not reverse
    total = te.scan(first, step, state, name=op if straight else f"{op}.scan", tag=tags.SCAN)
    if straight:
        return total  # type: ignore[no-any-return]
    nothing = make.const(identity, inside)

    def placed(*i: Any) -> Expr:
        t, others = (rows - 1 - i[d] if reverse else i[d]), list(inputs.without(i, (d,)))
        if not exclusive:
            return te.cast(out, total(t, *others))
        # not a select, which would read the row before the first
        return te.cast(out, te.if_then_else(make.gt(t, 0), total(t - 1, *others), nothing))

    return inputs.stage(op, tags.INJECTIVE, x.shape, placed)


def _attrs(op: str, out: DType, exclusive: bool, reverse: bool) -> dict[str, Any]:
    """What a program is told."""
    return {
        "product": op == "cumprod",
        "dtype": str(out),
        "exclusive": bool(exclusive),
        "reverse": bool(reverse),
    }


def _of_rows(op: str, x: Tensor, out: DType, exclusive: bool, reverse: bool) -> Tensor:
    """Along the last dimension."""
    flat = matrix(x)
    (total,) = te.loops(
        _running_rows,
        [flat],
        [flat.shape],
        [out],
        name=op,
        tag=tags.LOOPS,
        attrs=_attrs(op, out, exclusive, reverse),
    )
    return total if flat is x else reshape(total, x.shape)


def matrix(x: Tensor) -> Tensor:
    """As a program of rows takes it: rows of several dimensions are counted where those are known, else they
    are copied to a matrix."""
    # of none there is no remainder
    if x.ndim == 2 or all(const_int(n) for n in x.shape[:-1]):
        return x
    return reshape(x, (make.as_expr(inputs.product(x.shape[:-1])), x.shape[-1]))


@contextlib.contextmanager
def blocks_of_rows(b: LoopBuilder, shape: Sequence[Expr], most: int = ROWS) -> Iterator[list[list[Expr]]]:
    """A loop over rows [..., n], at ``most`` so many at once: their places in all dimensions but the last."""
    front = shape[:-1]
    rows = make.as_expr(inputs.product(front))
    once = min(most, max(1, const_int(rows) or most))

    def place(row: Expr) -> list[Expr]:
        at: list[Expr] = []
        for size in reversed(front[1:]):
            at, row = [row % size, *at], row // size
        return [row, *at] if front else []

    with b.loop("block", make.ceildiv(rows, once), parallel=True) as block:
        # behind the last row it is taken again: the same numbers to the same places
        yield [place(b.let(f"row{q}", te.min(block * once + q, rows - 1))) for q in range(once)]


def _columns_known(shape: Sequence[Expr], d: int) -> bool:
    """Whether so many elements lie behind dimension ``d`` as a number says, and some in front of it."""
    known = [const_int(n) for n in shape[d + 1 :]]
    return bool(known) and all(known) and all(const_int(n) != 0 for n in shape)


def _by_columns(b: LoopBuilder, shape: Sequence[Expr], d: int, width: int, run: Columns) -> None:
    """``run(columns, at)`` for up to ``width`` of the columns behind dimension ``d``: the index of an element
    is ``at(step, column)``."""
    front, behind = shape[:d], [int(const_int(n) or 1) for n in shape[d + 1 :]]
    columns = math.prod(behind)
    blocks = -(-columns // width)
    whole = min(columns, width)
    rest = columns - (blocks - 1) * whole

    with b.loop("part", make.as_expr(inputs.product(front)) * blocks, parallel=True) as part:
        row, block = part // blocks, part % blocks
        before: list[Expr] = []
        for n in reversed(front[1:]):
            before, row = [row % n, *before], row // n
        before = [b.let(f"at{q}", i) for q, i in enumerate([row, *before] if front else [])]
        begin = b.let("begin", block * whole)

        def at(step: Expr, column: Expr) -> tuple[Expr, ...]:
            place, after = begin + column, list[Expr]()
            for n in reversed(behind[1:]):
                after, place = [place % n, *after], place // n
            return (*before, step, place, *after)

        if rest == whole:
            run(whole, at)
            return
        with b.when(block < blocks - 1):
            run(whole, at)
        with b.otherwise():
            run(rest, at)


def _wide_block(shape: Sequence[Expr], d: int, bytes_each: int) -> int:
    """How many columns are a block where registers do not hold the sums of a line."""
    line = math.prod(const_int(n) or 1 for n in shape[d + 1 :]) * bytes_each
    # an open number of lines is many
    lines, rows = math.prod(const_int(n) or PARTS for n in shape[:d]), const_int(shape[d]) or PARTS
    if lines == 1 and rows * line >= FAR:
        return line // bytes_each
    return min(line, LINE, max(PIECE, -(-line * lines // PARTS))) // bytes_each


@contextlib.contextmanager
def some_lanes(b: LoopBuilder, name: str, count: Expr | int, most: int) -> Iterator[Expr]:
    """A vector loop of ``count`` iterations, of which there are no more than ``most``: an open number of them
    is a mask."""
    known = const_int(count)
    with b.loop(name, most if known is None else known, vector=True) as lane:
        if known is not None:
            yield lane
            return
        with b.when(lane < count):
            yield lane


def _by_open_columns(
    b: LoopBuilder, shape: Sequence[Expr], d: int, bytes_each: int, narrow: Callable[..., None], wide: Columns
) -> None:
    """``narrow`` or ``wide`` of the last dimension, as a call tells how long it is, for each place in those
    around."""
    around = [*shape[:d], *shape[d + 1 : -1]]
    with b.loop("part", make.as_expr(inputs.product(around)), parallel=True) as part:
        row, rest = part, list[Expr]()
        for n in reversed(around[1:]):
            rest, row = [row % n, *rest], row // n
        before = [b.let(f"at{q}", i) for q, i in enumerate([row, *rest])]

        def at(step: Expr, column: Expr) -> tuple[Expr, ...]:
            return (*before[:d], step, *before[d:], column)

        few, some = (most // bytes_each for most in (b.vector_bits // 8, COLUMNS))
        with b.when(shape[-1] <= few):
            narrow(shape[-1], at, few)
        with b.otherwise(), b.when(shape[-1] <= some):
            narrow(shape[-1], at, some)
        with b.when(shape[-1] > some):
            wide(shape[-1], at)


def _in_vectors(b: LoopBuilder, count: Expr | int, bytes_each: int, body: Callable[[Expr], None]) -> None:
    """``body(column)`` for all columns of a block, some in the lanes of vectors."""
    lanes, known = COLUMNS // bytes_each, const_int(count)
    done: Expr | int = 0
    if known is None or known >= 2 * lanes:
        with b.loop("piece", count // lanes) as piece, b.loop("lane", lanes, vector=True) as lane:
            body(piece * lanes + lane)
        done = count // lanes * lanes
    if known is None:
        first = b.let("rest", done)
        with some_lanes(b, "lane", count - first, lanes) as lane:
            body(first + lane)
    elif known > done:
        with b.loop("lane", known - done, done, vector=True) as lane:
            body(lane)


def _columns_in_numpy(
    x: np.ndarray, product: bool, dtype: str, exclusive: bool, reverse: bool, axis: int
) -> list[np.ndarray]:
    (made,) = _in_numpy(np.moveaxis(x, axis, -1), product, dtype, exclusive, reverse)
    return [np.moveaxis(made, -1, axis)]


@te.loop_program("running_columns", _columns_in_numpy)
def _running_columns(
    b: LoopBuilder,
    given: Sequence[Memory],
    made: Sequence[Memory],
    product: bool,
    dtype: str,
    exclusive: bool,
    reverse: bool,
    axis: int,
) -> None:
    """The running sums or products along any dimension but the last, some columns at once."""
    (x,), (sums,) = given, made
    n, kind = x.shape[axis], as_dtype(dtype)
    combine = make.mul if product else make.add
    known = _columns_known(x.shape, axis)
    line = math.prod(const_int(m) or 1 for m in x.shape[axis + 1 :]) * kind.bytes

    def place(step: Expr) -> Expr:
        return n - 1 - step if reverse else step

    def in_registers(count: Expr | int, at: Places, width: int = 0) -> None:
        some, width = width > 0, width or const_int(count) or 0
        total = b.memory("total", (width,), kind)
        with b.loop("column", width, vector=True) as column:
            total[column] = make.const(int(product), kind)
        with b.loop("step", n) as step:
            here = b.let("here", place(step))
            with b.loop("column", width, vector=True) as column:
                # of an open number of columns all sums are there, and some are read and written
                there = column < count
                term = te.cast(kind, x[at(here, column)])
                if some:
                    term = te.if_then_else(there, term, make.const(int(product), kind))
                before = b.let("before", total[column])
                now = b.let("now", combine(before, term))
                total[column] = now
                with b.when(there) if some else contextlib.nullcontext():
                    sums[at(here, column)] = before if exclusive else now

    def line_by_line(count: Expr | int, at: Places) -> None:
        first = b.let("first", place(make.const(0, n.dtype)))

        def begin(column: Expr) -> None:
            one = make.const(int(product), kind)
            sums[at(first, column)] = one if exclusive else te.cast(kind, x[at(first, column)])

        with b.when(n > 0):
            _in_vectors(b, count, kind.bytes, begin)
        with b.loop("step", n - 1, 1) as step:
            before, here = b.let("before", place(step - 1)), b.let("here", place(step))

            def following(column: Expr) -> None:
                term = x[at(before if exclusive else here, column)]
                sums[at(here, column)] = combine(sums[at(before, column)], te.cast(kind, term))

            _in_vectors(b, count, kind.bytes, following)

    if not known:
        _by_open_columns(b, x.shape, axis, kind.bytes, in_registers, line_by_line)
    elif line <= COLUMNS:
        _by_columns(b, x.shape, axis, COLUMNS, in_registers)
    else:
        _by_columns(b, x.shape, axis, _wide_block(x.shape, axis, kind.bytes), line_by_line)


def _in_numpy(x: np.ndarray, product: bool, dtype: str, exclusive: bool, reverse: bool) -> list[np.ndarray]:
    f = np.cumprod if product else np.cumsum
    out = as_dtype(dtype)
    # in the type of the kernel's cells, so that both round alike
    inside = x.astype(inputs.wide(out).to_numpy())
    if reverse:
        inside = inside[..., ::-1]
    total = f(inside, -1, dtype=inside.dtype)
    if exclusive:
        total = np.concatenate([np.full_like(total[..., :1], product), total[..., :-1]], -1)
    return [(total[..., ::-1] if reverse else total).astype(out.to_numpy())]


@te.loop_program("running_rows", _in_numpy)
def _running_rows(
    b: LoopBuilder,
    given: Sequence[Memory],
    made: Sequence[Memory],
    product: bool,
    dtype: str,
    exclusive: bool,
    reverse: bool,
) -> None:
    """The running sums or products of rows [..., n], some rows at once."""
    (x,), (sums,) = given, made
    n = x.shape[-1]
    inside = inputs.wide(as_dtype(dtype))
    combine = make.mul if product else make.add

    def one_by_one() -> None:
        with blocks_of_rows(b, x.shape) as here:
            totals = [b.cell(f"total{q}", inside, int(product)) for q in range(len(here))]
            with b.loop("step", n) as step:
                at = b.let("at", n - 1 - step) if reverse else step
                for row, total in zip(here, totals, strict=True):
                    before = b.let("before", total.value)
                    total.set(combine(before, te.cast(inside, x[(*row, at)])))
                    sums[(*row, at)] = te.cast(sums.dtype, before if exclusive else total.value)

    if inside is sums.dtype:
        one_by_one()
    elif const_int(n) is None and len(x.shape) > 1:
        # a vector with a mask is mostly empty. Measured (Zen 5, one thread): 4000 rows of 2 10.4 → 3.3 µs,
        # of 4 11.6 → 7.4
        with b.when(n <= SINGLE):
            one_by_one()
        with b.otherwise():
            _rounded_rows(b, x, sums, combine, int(product), exclusive, reverse)
    else:
        _rounded_rows(b, x, sums, combine, int(product), exclusive, reverse)


def _rounded_rows(
    b: LoopBuilder,
    x: Memory,
    sums: Memory,
    combine: Callable[[Expr, Expr], Expr],
    identity: int,
    exclusive: bool,
    reverse: bool,
) -> None:
    """Rows of 16-bit floats, whose conversions are vectors of a piece: one by one they take longer than the
    sums. Measured (Zen 5, one thread), 300,000 float16: 862 → 200 µs."""
    n, inside = x.shape[-1], inputs.wide(sums.dtype)
    with blocks_of_rows(b, x.shape) as here:
        totals = [b.cell(f"total{q}", inside, identity) for q in range(len(here))]
        terms = [b.memory(f"terms{q}", (CONVERTED,), inside) for q in range(len(here))]

        def piece(begin: Expr, count: Expr, most: int) -> None:
            def place(step: Expr) -> Expr:
                return n - 1 - (begin + step) if reverse else begin + step

            for row, term in zip(here, terms, strict=True):
                with some_lanes(b, "lane", count, most) as lane:
                    term[lane] = te.cast(inside, x[(*row, place(lane))])
            with b.loop("step", count) as step:
                for term, total in zip(terms, totals, strict=True):
                    before = b.let("before", total.value)
                    total.set(combine(before, term[step]))
                    term[step] = before if exclusive else total.value
            for row, term in zip(here, terms, strict=True):
                with some_lanes(b, "lane", count, most) as lane:
                    sums[(*row, place(lane))] = te.cast(sums.dtype, term[lane])

        with b.loop("piece", n // CONVERTED) as number:
            piece(b.let("begin", number * CONVERTED), make.const(CONVERTED, n.dtype), CONVERTED)
        rest = n % CONVERTED
        if const_int(rest) is None:
            # masked: of a few elements one vector is
            with b.when(rest <= FEW):
                piece(n - rest, rest, FEW)
            with b.otherwise():
                piece(n - rest, rest, CONVERTED)
        elif const_int(rest) != 0:
            piece(n - rest, rest, CONVERTED)
