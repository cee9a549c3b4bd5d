"""The oracle: a graph of operations evaluated by numpy, slowly and surely. Knows what is computed; nothing of
schedules, loops or code, so that nothing it is compared with can share its mistakes.

An expression is evaluated for the whole iteration space at once: every axis is an array along a dimension of
its own and broadcasting does the rest, in blocks of bounded size. The machine's meaning, type by type:

- integers wrap; ``//`` and ``%`` floor; ``truncdiv`` and ``truncmod`` round to zero; dividing by zero is an
  error here
- every float operation is rounded to its dtype; ``min`` and ``max`` return NaN when either side is NaN
- a cast of a float to an integer truncates and saturates, NaN becomes 0
- float sums and products are accumulated in float64 and rounded once, so small integers are exact in any
  order. A sum of products of float32 may leave the products unrounded (as a fused multiply-add does) unless
  they could overflow
- ``if_then_else`` and the condition of a reduction are lazy: what they exclude may be out of range. Any other
  read out of range raises DeclareError with tensor, index and extent. ``select``, ``and``, ``or`` evaluate
  both sides
- a custom reducer folds in order, the first reduction axis outermost

bfloat16 lives in arrays of ml_dtypes.bfloat16 outside and in float32 holding rounded values inside.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.visit import TypeTable
from ..errors import CallError, DeclareError
from ..expr.intrinsics import TABLE
from ..expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Call,
    Cast,
    CCall,
    Choice,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from ..expr.walk import postorder, variables
from ..interface.externs import c_function, packed
from .extern import ExternBuffer, ExternOp
from .graph import operations
from .loops import LoopsOp, meant
from .reducers import Reduce
from .reference_numbers import (
    Point,
    at,
    blocks,
    filled,
    from_outside,
    held_as,
    rounded,
    saturated,
    summed_as,
    to_outside,
    view_of,
)
from .reference_sizes import extent, size_value, solve_dims
from .scan import ScanOp
from .scatter import ScatterOp, scattered
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead

Array = Any  # np.ndarray of any dtype

_BLOCK = 1 << 21  # elements of the iteration space held at once: a few temporaries of 16 MiB
_CONTRACT_BLOCK = 1 << 24  # the same for sums of products, which never hold their iteration space


def evaluate(
    outputs: Tensor | Sequence[Tensor],
    values: Mapping[Tensor, np.ndarray],
    dims: Mapping[Var, int] | None = None,
) -> tuple[np.ndarray, ...]:
    """The arrays of the ``outputs``, given those of the placeholders (or of any tensor in between).

    Symbolic sizes are solved from the shapes of the arrays; those that cannot be, and variables that are no
    sizes, come in ``dims``. Raises CallError for arrays that do not fit, DeclareError for a read out of range
    or a division by zero.
    """
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    arrays: dict[Tensor, Array] = {t: np.asarray(v) for t, v in values.items()}
    if any(not isinstance(t, Tensor) for t in arrays):
        raise CallError("evaluate: values has a key that is no tensor", try_="{A: a}, not {'A': a}")
    known = solve_dims({t: a.shape for t, a in arrays.items()}, dims)
    for t, a in arrays.items():
        if a.dtype != t.dtype.to_numpy():
            raise CallError(f"{t.name}: an array of {a.dtype}", because=f"{t.name} is declared as {t.dtype}")
        arrays[t] = from_outside(a, t.dtype)
    with np.errstate(all="ignore"):
        for op in _needed(wanted, arrays):
            for t, a in zip(op.outputs, rules(op)(op, arrays, known), strict=True):
                arrays.setdefault(t, a)
    return tuple(to_outside(arrays[t], t.dtype) for t in wanted)


def _needed(wanted: tuple[Tensor, ...], given: Mapping[Tensor, Array]) -> list[Operation]:
    """The operations to run, producers first: what stands only behind a given tensor is left out."""
    missing = {t for t in wanted if t not in given}
    run: list[Operation] = []
    for op in reversed(operations([t.op for t in wanted])):
        if not missing.isdisjoint(op.outputs):
            run.append(op)
            # what an iteration of a scan needs, the scan computes itself
            reads = op.init if isinstance(op, ScanOp) else op.input_tensors
            missing.update(t for t in reads if t not in given)
    return run[::-1]


# --- sizes --------------------------------------------------------------------------------------------------


# --- operations ---------------------------------------------------------------------------------------------

rules = TypeTable("reference")  # of operations: f(op, arrays, dims) -> one array per output


@rules.on(PlaceholderOp)
def _placeholder(
    op: PlaceholderOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]
) -> tuple[Array, ...]:
    raise CallError(
        f"no array for the placeholder {op.name}", try_="values={A: array, …} for every placeholder"
    )


@rules.on(ComputeOp)
def _compute(op: ComputeOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> tuple[Array, ...]:
    shape = tuple(extent(op.name, a.extent, known) for a in op.axis)
    space = _Space(op, arrays, known)
    if 0 < math.prod(shape) <= _BLOCK and len(op.body) == 1 and not isinstance(op.body[0], Reduce):
        value = space.scope(tuple(slice(0, n) for n in shape), ()).value(op.body[0])
        return (filled(shape, held_as(op.outputs[0].dtype), value),)
    out = tuple(np.zeros(shape, held_as(t.dtype)) for t in op.outputs)
    if math.prod(shape) == 0:
        return out
    if isinstance(op.body[0], Reduce):
        inner = tuple(extent(op.name, a.extent, known) for a in op.reduce_axis)
        fits = _contracts(op.body[0])
        budget = max(1, (_CONTRACT_BLOCK if fits else _BLOCK) // max(1, math.prod(inner)))
        for block in blocks(shape, budget, _axes_of_factors(op) if fits else ()):
            for o, part in zip(out, _reduce(op.body[0], space, block, inner), strict=True):
                o[block] = np.broadcast_to(part, o[block].shape)
        return out
    for block in blocks(shape, _BLOCK):
        scope = space.scope(block, ())
        for o, e in zip(out, op.body, strict=True):
            o[block] = scope.value(e)
    return out


class _Loose(dict[Tensor, Array]):
    """Arrays of which only one row is needed: reads of the other rows may be out of range, and what they
    give is dropped."""


@rules.on(ScanOp)
def _scan(op: ScanOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> tuple[Array, ...]:
    total = extent(op.name, op.state[0].shape[0], known)
    first = extent(op.name, op.init[0].shape[0], known)
    states = []
    inside = _Loose(arrays)
    for s, i in zip(op.state, op.init, strict=True):
        shape = tuple(extent(op.name, e, known) for e in s.shape)
        inside[s] = np.zeros(shape, held_as(s.dtype))
        inside[s][:first] = arrays[i][:total]
        states.append(inside[s])
    each, in_part = op.dependent(), op.in_part()
    for other in _needed(op.update, inside):  # a scan before this one keeps its own iterations to itself
        if other not in each:
            for t, a in zip(
                other.outputs,
                rules(other)(other, inside if other in in_part else {**inside}, known),
                strict=True,
            ):
                inside[t] = a
    for row in range(first, total):
        for other in each:
            for t, a in zip(other.outputs, rules(other)(other, inside, known), strict=True):
                inside[t] = a
        for state, u in zip(states, op.update, strict=True):
            state[row] = inside[u][row]
    return tuple(states)


@rules.on(ScatterOp)
def _scatter(op: ScatterOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> tuple[Array, ...]:
    updates = op.updates()
    brought = rules(updates)(updates, arrays, known)
    return (scattered(op, arrays[op.start], brought, lambda x: rounded(op.start.dtype, x)),)


@rules.on(LoopsOp)
def _loops(op: LoopsOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> tuple[Array, ...]:
    return meant(op, arrays, lambda e: extent(op.name, e, known))


@rules.on(ExternOp)
def _extern(op: ExternOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> tuple[Array, ...]:
    if op.call.kind != "packed":
        raise CallError(f"{op.name}: the C symbol {op.call.name!r} can only be called by a kernel")
    outs = [
        np.zeros(tuple(extent(op.name, e, known) for e in t.shape), t.dtype.to_numpy()) for t in op.outputs
    ]
    args: list[Any] = []
    for a in op.call.args:
        if isinstance(a, ExternBuffer):
            args.append(
                outs[a.position]
                if a.output
                else to_outside(arrays[op.inputs[a.position]], op.inputs[a.position].dtype)
            )
        else:
            n = size_value(a, known)
            args.append(float(a.value) if n is None and isinstance(a, Const) else n)
    packed(op.call.name)(*args)
    return tuple(from_outside(o, t.dtype) for o, t in zip(outs, op.outputs, strict=True))


class _Space:
    """What the scopes of one operation share."""

    def __init__(self, op: ComputeOp, arrays: Mapping[Tensor, Array], known: Mapping[Var, int]) -> None:
        self.op = op
        self.arrays = arrays
        self.known = known
        self.outside: dict[Var, Array] = {v: rounded(v.dtype, np.asarray(n)) for v, n in known.items()}

    def scope(self, data: tuple[slice, ...], reduced: tuple[slice, ...]) -> _Scope:
        """Variables bound over a block: the data axes first, then the reduction axes, a dimension each."""
        env = dict(self.outside)
        spans = (
            *zip(self.op.axis, data, strict=True),
            *zip(self.op.reduce_axis if reduced else (), reduced, strict=True),
        )
        for d, (axis, span) in enumerate(spans):
            assert axis.dom is not None
            begin = size_value(axis.dom[0], self.known)
            if begin is None:
                raise CallError(
                    f"{self.op.name}: where axis {axis.name} begins is not known",
                    because=f"it begins at {axis.dom[0]}",
                )
            shape = [1] * len(spans)
            shape[d] = -1
            env[axis.var] = np.arange(
                begin + span.start, begin + span.stop, dtype=axis.dtype.to_numpy()
            ).reshape(shape)
        return _Scope(self.op.name, env, self.arrays)


# --- reductions ---------------------------------------------------------------------------------------------


def _reduce(e: Reduce, space: _Space, data: tuple[slice, ...], inner: tuple[int, ...]) -> tuple[Array, ...]:
    """One array per source, over the block ``data`` of the data axes."""
    start = space.scope(data, ())
    state = tuple(start.value(s) for s in e.start())
    if math.prod(inner) == 0:
        return state
    points = math.prod(s.stop - s.start for s in data)
    budget = (_CONTRACT_BLOCK if _contracts(e) else _BLOCK) // max(1, points)
    axes = tuple(range(len(data), len(data) + len(inner)))
    wide = [summed_as(s.dtype) if e.reducer.kind in ("add", "mul") else held_as(s.dtype) for s in e.sources]
    state = tuple(np.asarray(s).astype(w) for s, w in zip(state, wide, strict=True))
    for block in blocks(inner, budget):
        scope = space.scope(data, block)
        if e.reducer.kind == "custom":
            state = _fold(e, scope, state, len(data))
            continue
        product = _contract(e, scope, len(data)) if _contracts(e) else None
        combine = _COMBINE[e.reducer.kind]
        held: dict[str, Any] = {"dtype": wide[0]} if e.reducer.kind in ("add", "mul") else {}
        if product is None:
            product = combine.reduce(_source(e, scope, axes, block), axis=axes, **held)
        state = (combine(state[0], product),)
    return tuple(rounded(s.dtype, x) for s, x in zip(e.sources, state, strict=True))


def _source(e: Reduce, scope: _Scope, axes: tuple[int, ...], block: tuple[slice, ...]) -> Array:
    """The reduced values with the reduction axes at their full size and the neutral value where the condition
    excludes."""
    x: Array
    if e.condition is not None:
        cond = scope.value(e.condition)
        neutral = scope.value(e.reducer.identity((e.sources[0].dtype,))[0])
        x = np.where(cond, scope.value(e.sources[0], cond), neutral)
    else:
        x = np.asarray(scope.value(e.sources[0]))
    rank = max(axes) + 1
    shape = list(x.shape) if x.ndim else [1] * rank
    for a, span in zip(axes, block, strict=True):
        shape[a] = span.stop - span.start
    return np.broadcast_to(x, shape)


def _axes_of_factors(op: ComputeOp) -> list[set[int]]:
    """Of a sum of products, the data axes that each factor depends on."""
    product = op.body[0].sources[0]  # type: ignore[attr-defined]
    return [{d for d, a in enumerate(op.axis) if a.var in variables(f)} for f in (product.a, product.b)]


_COMBINE = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "or": np.logical_or,
    "and": np.logical_and,
}


def _fold(e: Reduce, scope: _Scope, state: tuple[Array, ...], rank: int) -> tuple[Array, ...]:
    """A reducer of the user's own, one step of the reduction axes after the other."""
    lhs = tuple(Var(f"lhs{i}", s.dtype) for i, s in enumerate(e.sources))
    rhs = tuple(Var(f"rhs{i}", s.dtype) for i, s in enumerate(e.sources))
    combined = e.reducer.combine(lhs, rhs)
    cond = None if e.condition is None else np.asarray(scope.value(e.condition))
    items = [np.asarray(scope.value(s, cond)) for s in e.sources]
    spans = [scope.env[a.var].size for a in e.axes]
    full = rank + len(spans)

    def at(x: Array, step: tuple[int, ...]) -> Array:
        if x.ndim < full:  # does not depend on any axis
            return x
        return x[(..., *[i if n > 1 else 0 for i, n in zip(step, x.shape[rank:], strict=True)])]

    for step in itertools.product(*[range(n) for n in spans]):
        env = {
            **scope.env,
            **dict(zip(lhs, state, strict=True)),
            **{v: at(x, step) for v, x in zip(rhs, items, strict=True)},
        }
        new = tuple(_Scope(scope.where, env, scope.arrays).value(c) for c in combined)
        state = (
            new
            if cond is None
            else tuple(np.where(at(cond, step), n, s) for n, s in zip(new, state, strict=True))
        )
    return state


def _contracts(e: Reduce) -> bool:
    t = e.sources[0].dtype
    return (
        e.reducer.kind == "add"
        and e.condition is None
        and type(e.sources[0]) is Mul
        and (t.is_int or (t.code == "float" and t.bits >= 32))
    )


def _contract(e: Reduce, scope: _Scope, rank: int) -> Array | None:
    """A sum of products as a matrix product in float64, or None where that could mean something else:
    integers too large to be exact, floats whose products overflow, axes on which only one factor depends."""
    source = e.sources[0]
    assert isinstance(source, Mul)
    full = rank + len(e.axes)
    extents = [scope.env[a.var].size for a in e.axes]
    factors = []
    for f in (source.a, source.b):
        x = np.asarray(scope.value(f))
        factors.append(x.reshape((1,) * (full - x.ndim) + x.shape))
    a, b = factors
    if (
        any(a.shape[rank + i] != n or b.shape[rank + i] != n for i, n in enumerate(extents))
        or not a.size
        or not b.size
    ):
        return None
    peak = _peak(a) * _peak(b)
    t = source.dtype
    limit = 2.0**53 / math.prod(extents) if t.is_int else float(np.finfo(t.to_numpy()).max)
    if not peak < limit:  # also when there is a NaN
        return None
    both = [d for d in range(rank) if a.shape[d] > 1 and b.shape[d] > 1]
    rows = [d for d in range(rank) if a.shape[d] > 1 and b.shape[d] == 1]
    cols = [d for d in range(rank) if b.shape[d] > 1 and a.shape[d] == 1]
    ones = [d for d in range(rank) if a.shape[d] == 1 and b.shape[d] == 1]
    summed = list(range(rank, full))
    count = [math.prod(x.shape[d] for d in ds) for x, ds in ((a, both), (a, rows), (b, cols), (a, summed))]
    left = (
        a.astype(np.float64)
        .transpose(*both, *rows, *summed, *cols, *ones)
        .reshape(count[0], count[1], count[3])
    )
    right = (
        b.astype(np.float64)
        .transpose(*both, *summed, *cols, *rows, *ones)
        .reshape(count[0], count[3], count[2])
    )
    shape = [a.shape[d] for d in (*both, *rows)] + [b.shape[d] for d in cols] + [1] * len(ones)
    product: Array = np.matmul(left, right).reshape(shape)
    product = product.transpose(np.argsort([*both, *rows, *cols, *ones])) if rank else product
    return product.astype(np.int64).astype(held_as(t)) if t.is_int else product


def _peak(x: Array) -> float:
    return max(abs(float(x.max())), abs(float(x.min())))


# --- expressions --------------------------------------------------------------------------------------------


class _Scope:
    """Variables with their arrays, and the values computed: every expression once, at all points. Where one
    has no value, as a read outside its tensor, is kept beside it, and an error only if that point asks for
    it: ``if_then_else`` does not ask for the side that is not taken."""

    def __init__(self, where: str, env: Mapping[Var, Array], arrays: Mapping[Tensor, Array]) -> None:
        self.where = where
        self.env = env
        self.arrays = arrays
        self.done: dict[Expr, Array] = {}
        self.faults: dict[Expr, Array] = {}  # the points without a value
        # those where the operation itself is at fault, and how
        self.own: dict[Expr, tuple[Array, Callable[[Point], DeclareError]]] = {}

    def value(self, e: Expr, needed: Array | None = None) -> Array:
        """The array of ``e``: a dimension for each axis, of extent 1 along those it does not depend on; or a
        scalar. Raises DeclareError for a fault at a point where it is ``needed`` (None: everywhere)."""
        for node in postorder(e, self.done):
            self.done[node] = expressions(node)(node, self)
            faults = [self.own[node][0]] if node in self.own else []
            if self.faults:
                faults += [taken & self.faults[k] for k, taken in self.below(node) if k in self.faults]
            if any(map(np.any, faults)):
                self.faults[node] = functools.reduce(np.logical_or, faults)
        points = np.asarray(
            self.faults.get(e, False) if needed is None else self.faults.get(e, False) & needed
        )
        if points.any():
            raise self.blamed(e, tuple(int(i) for i in np.argwhere(points)[0]))
        return self.done[e]

    def below(self, e: Expr) -> list[tuple[Expr, Array]]:
        """The operands, and the points at which each is needed."""
        if not isinstance(e, IfThenElse):
            return [(k, np.True_) for k in e.children()]
        cond = np.asarray(self.done[e.cond])
        return [(e.cond, np.True_), (e.a, cond), (e.b, ~cond)]

    def blamed(self, e: Expr, point: Point) -> DeclareError:
        """What is at fault at a point where ``e`` has no value."""
        while e not in self.own or not at(self.own[e][0], point):
            sides = [(k, taken & self.faults[k]) for k, taken in self.below(e) if k in self.faults]
            e = next(k for k, points in sides if at(points, point))
        return self.own[e][1](point)


expressions = TypeTable("reference")  # of expressions: f(e, scope) -> array in the held dtype


@expressions.on(Const)
def _const(e: Const, s: _Scope) -> Array:
    if e.dtype.is_int:
        return held_as(e.dtype).type(e.dtype.wrap(int(e.value)))
    return rounded(e.dtype, np.asarray(e.value))


@expressions.on(Var)
def _var(e: Var, s: _Scope) -> Array:
    result = s.env.get(e)
    if result is None:
        raise CallError(f"{s.where}: nothing gives a value to `{e.name}`", try_="evaluate(…, dims={n: 128})")
    return result


_NUMPY = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: np.divide,
    Min: np.minimum,
    Max: np.maximum,
    EQ: np.equal,
    NE: np.not_equal,
    LT: np.less,
    LE: np.less_equal,
    And: np.logical_and,
    Or: np.logical_or,
}


@expressions.on(*_NUMPY)
def _binary(e: Binary, s: _Scope) -> Array:
    return rounded(e.dtype, _NUMPY[type(e)](s.done[e.a], s.done[e.b]))


@expressions.on(FloorDiv, FloorMod, TruncDiv, TruncMod)
def _divide(e: Binary, s: _Scope) -> Array:
    a, b = s.done[e.a], s.done[e.b]
    # of nothing, nothing is divided
    zero = np.broadcast_to(b == 0, np.broadcast_shapes(np.shape(a), np.shape(b)))
    if np.any(zero):
        s.own[e] = (
            zero,
            lambda point: DeclareError(
                f"{s.where}: division by zero in {e}", try_="te.if_then_else(divisor != 0, …, …)"
            ),
        )
    b = np.where(zero, b.dtype.type(1), b)
    if type(e) is FloorDiv:
        return np.floor_divide(a, b)
    if type(e) is FloorMod:
        return np.where(b == -1, 0, np.mod(a, b)).astype(a.dtype) if e.dtype.code == "int" else np.mod(a, b)
    rest = np.where(b == -1, 0, np.fmod(a, b)).astype(a.dtype) if e.dtype.code == "int" else np.fmod(a, b)
    return rest if type(e) is TruncMod else np.floor_divide(a - rest, b)


@expressions.on(Not)
def _not(e: Not, s: _Scope) -> Array:
    return np.logical_not(s.done[e.a])


@expressions.on(Choice)
def _choice(e: Choice, s: _Scope) -> Array:
    return np.where(s.done[e.cond], s.done[e.a], s.done[e.b])


@expressions.on(Cast)
def _cast(e: Cast, s: _Scope) -> Array:
    x = np.asarray(s.done[e.a])
    return saturated(e.dtype, x) if e.a.dtype.is_float and e.dtype.is_int else rounded(e.dtype, x)


@expressions.on(Call)
def _call(e: Call, s: _Scope) -> Array:
    args = [np.asarray(s.done[a]) for a in e.args]
    if e.args[0].dtype.code == "bfloat":  # held in float32: keep the table from rounding to that first
        args = [a.astype(np.float64) for a in args]
    return rounded(e.dtype, np.asarray(TABLE[e.name].evaluate(*args)))


@expressions.on(CCall)
def _c_call(e: CCall, s: _Scope) -> Array:
    f = c_function(e.name, e.dtype.to_numpy(), tuple(a.dtype.to_numpy() for a in e.args))
    return np.asarray(f(*[np.asarray(s.done[a]) for a in e.args]))


@expressions.on(TensorRead)
def _read(e: TensorRead, s: _Scope) -> Array:
    array = s.arrays[e.tensor]
    safe = []
    for i, n in zip(e.indices, array.shape, strict=True):
        index = np.asarray(s.done[i])
        outside = (index < 0) | (index >= n)
        if outside.any():
            if not isinstance(s.arrays, _Loose):
                before = s.own.get(e)
                s.own[e] = (
                    (outside, partial(_outside, s, e)) if before is None else (before[0] | outside, before[1])
                )
            index = np.where(outside, index.dtype.type(0), index)
        safe.append(index)
    if 0 in array.shape:  # nothing to read, and nobody asks: every point is excluded or there is none
        return np.zeros(np.broadcast_shapes(*[i.shape for i in safe]), array.dtype)
    box = view_of(array, safe)
    return array[tuple(safe)] if box is None else box


def _outside(s: _Scope, e: TensorRead, point: Point) -> DeclareError:
    shape = s.arrays[e.tensor].shape
    d, value = next(
        (d, v)
        for d, (i, n) in enumerate(zip(e.indices, shape, strict=True))
        if not 0 <= (v := int(at(s.done[i], point))) < n
    )
    return DeclareError(
        f"{s.where}: {e}: index {d} is {value}, out of range 0..{shape[d]}",
        because=f"{e.tensor.name} has the shape {shape}, and no te.if_then_else guards the read",
        try_="te.if_then_else(te.all(0 <= i, i < n), A[i], 0)",
    )
