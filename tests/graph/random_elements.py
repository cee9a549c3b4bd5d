"""Steps by which a random graph grows, operators of elements and of places: each adds one operator, or a few
that belong together. Knows ``random_graphs.Draw``; a step that finds no value it can take raises an error of
ours, like an operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlang import ops
from tensorlang.expr.nodes import const_int

from .random_graphs import FLOATS, INTEGERS, KINDS, Draw, listed

NUMBERS = (*FLOATS, *INTEGERS)


def kind(v: Any) -> str:
    return str(v.dtype)


def is_float(v: Any) -> bool:
    return kind(v) in FLOATS


def is_number(v: Any) -> bool:
    return kind(v) != "bool"


def is_integer(v: Any) -> bool:
    return kind(v) in INTEGERS


def is_bool(v: Any) -> bool:
    return kind(v) == "bool"


def size_of(v: Any, axis: int) -> int:
    """The size as a number, 0 for an open one."""
    return const_int(v.shape[axis]) or 0


def some_axis(r: Draw, v: Any, least: int = 0) -> int:
    """An axis; one of at least so many elements, always, when ``least`` is given."""
    axes = [d for d in range(v.ndim) if not least or size_of(v, d) >= least]
    return r.choice(axes) if axes else r.choice((0, -1))


def with_axes(v: Any) -> bool:
    return v.ndim > 0


# -- elements


def unary(r: Draw) -> None:
    x = r.pick(is_number)
    r.add(r.choice((ops.relu, ops.negative, ops.abs, ops.sign)), r.small(x))


def curve(r: Draw) -> None:
    x = r.small(r.pick(is_float))
    names = "sigmoid tanh exp erf gelu silu softplus hard_swish hard_sigmoid mish elu selu leaky_relu sin cos"
    names += " softsign celu expm1 atan sinh exp2"
    r.add(getattr(ops, r.choice(names.split())), x, rounds=True)


def curve_of_positive(r: Draw) -> None:
    x = r.call(ops.abs, r.small(r.pick(is_float)))
    r.add(r.choice((ops.log1p, ops.asinh)), x, rounds=True)
    one = r.call(ops.add, x, r.constant((), kind(x), 1, 2))
    r.add(r.choice((ops.log, ops.rsqrt, ops.reciprocal, ops.log2, ops.sqrt, ops.cbrt)), one, rounds=True)


def rounding(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_float(v) and r.exact(v)))
    half = r.call(ops.multiply, x, r.g.constant(np.asarray(0.5).astype(x.dtype.to_numpy())))
    r.add(r.choice((ops.floor, ops.ceil, ops.round, ops.trunc)), half)


def bits(r: Draw) -> None:
    x = r.pick(is_integer)
    form = r.number(0, 4)
    if form == 0:
        r.add(r.choice((ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor)), x, r.alike(x))
    elif form == 1:
        r.add(r.choice((ops.left_shift, ops.right_shift)), x, r.constant((), kind(x), 0, 4))
    elif form == 2:
        r.add(ops.bitwise_not, x)
    else:
        by = r.constant((), kind(x), 1, 5)
        r.add(r.choice((ops.floor_divide, ops.mod, ops.fmod)), x, by)


def truth(r: Draw) -> None:
    x = r.pick(is_bool)
    if r.chance(0.3):
        r.add(ops.logical_not, x)
    else:
        r.add(r.choice((ops.logical_and, ops.logical_or, ops.logical_xor)), x, r.alike(x))


def compared(r: Draw) -> None:
    x = r.pick(lambda v: is_number(v) and r.exact(v))
    y = r.alike(x) if r.chance(0.5) else r.constant((), kind(x))
    if not r.exact(y):
        y = x
    names = (ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal)
    r.add(r.choice(names), x, y)


def chosen(r: Draw) -> None:
    x = r.pick()
    ids = list(map(id, x.shape))
    conditions = [v for v in r.values if is_bool(v) and list(map(id, v.shape)) in (ids, [])]
    if conditions:
        c = r.choice(conditions)
    elif is_number(x) and r.exact(x):
        c = r.call(ops.greater, x, r.constant((), kind(x)))
    else:
        c = r.constant((), "bool")
    y = r.alike(x) if r.chance(0.6) else r.constant((), kind(x))
    r.add(ops.where, c, *((x, y) if r.chance(0.5) else (y, x)))


def binary(r: Draw) -> None:
    x = r.small(r.pick(is_number))
    fn = r.choice((ops.add, ops.multiply, ops.subtract, ops.maximum, ops.minimum))
    if r.chance(0.5):
        y = r.small(r.alike(x))
    else:
        last = x.shape[r.number(0, x.ndim + 1) :]
        sizes = [const_int(n) if const_int(n) and r.chance(0.6) else 1 for n in last]
        y = r.constant(sizes, kind(x) if r.chance(0.9) else r.choice(NUMBERS))
    r.add(fn, *((x, y) if r.chance(0.7) else (y, x)))


def broadcast(r: Draw) -> None:
    """Two values of which one lacks axes, or has others."""
    x, y = r.pick(is_number), r.pick(is_number)
    r.add(r.choice((ops.add, ops.multiply, ops.maximum)), r.small(x), r.small(y))


def divided(r: Draw) -> None:
    x = r.small(r.pick(is_float))
    y = r.call(ops.add, r.call(ops.abs, r.small(r.alike(x))), r.constant((), kind(x), 1, 2))
    r.add(ops.divide, x, y, rounds=True)


def cast(r: Draw) -> None:
    to = r.choice(KINDS)
    x = r.pick(lambda v: r.exact(v) or to in FLOATS)
    if not is_float(x) and not to.startswith("float"):
        r.add(ops.cast, x, dtype=to)
        return
    x = r.small(x)
    if to.startswith("u"):
        x = r.call(ops.abs, x)
    r.add(ops.cast, x, dtype=to)


def constants(r: Draw) -> None:
    x = r.small(r.pick(is_number))
    c = r.call(ops.add, r.constant([const_int(n) or 1 for n in x.shape], kind(x)), r.constant([1], kind(x)))
    r.add(ops.multiply, x, r.call(ops.relu, c))


def again(r: Draw) -> None:
    """An operator that is there already, once more."""
    n = r.choice(r.g.nodes) if r.g.nodes else None
    if n is not None and n.kind == "te":
        off = max(r.off.get(v, 0.0) for v in n.outputs)
        for v in listed(r.g.call(n.fn, *n.inputs, op=n.op, **n.attrs)):
            r.new(v, max(off, r.off.get(v, 0.0)))


def by_arrays(r: Draw) -> None:
    """A function of arrays between kernels."""
    x = r.pick()
    (v,) = r.g.host(_reversed, [x], [(x.shape, x.dtype)], op="Reversed")
    r.new(v, r.off[x])


def _reversed(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a[::-1]) if a.ndim else a.copy()


# -- places


def transposed(r: Draw) -> None:
    x = r.pick()
    r.add(ops.transpose, x, axes=[int(i) for i in r.rng.permutation(x.ndim)])


def reshaped(r: Draw) -> None:
    x = r.pick(with_axes)
    form = r.number(0, 5)
    if form == 0:
        r.add(ops.reshape, x, shape=list(x.shape))
    elif form == 1:
        r.add(ops.reshape, x, shape=[x.shape[0], -1])
    elif form == 2:
        r.add(ops.reshape, x, shape=[-1])
    elif form == 3:
        d = some_axis(r, x, 2)
        n = size_of(x, d)
        by = r.choice([k for k in (2, 3, 4, 8) if n and n % k == 0] or [1])
        r.add(ops.reshape, x, shape=[*x.shape[:d], by, n // by or x.shape[d], *x.shape[d:][1:]])
    else:
        d = r.number(0, x.ndim)
        r.add(ops.flatten, x, start_dim=min(d, x.ndim - 1), end_dim=-1)


def units(r: Draw) -> None:
    x = r.pick(lambda v: v.ndim < 5)
    ones = [d for d, n in enumerate(x.shape) if const_int(n) == 1]
    if ones and r.chance(0.5):
        r.add(ops.squeeze, x, axis=r.choice(ones))
    else:
        r.add(ops.expand_dims, x, axis=r.number(0, x.ndim + 1))


def sliced(r: Draw) -> None:
    x = r.pick(with_axes)
    d = some_axis(r, x, 3) if r.chance(0.7) else r.number(0, x.ndim)
    form = r.number(0, 4)
    if form == 0:
        begin, end, step = 1, size_of(x, d) or x.shape[d], 1
    elif form == 1:
        begin, end, step = 0, None, r.choice((2, 3))
    elif form == 2:
        begin, end, step = None, None, -1
    else:
        begin, end, step = -2, None, 1
    r.add(ops.strided_slice, x, begin=[begin], end=[end], strides=[step], axes=[d])


def repeated(r: Draw) -> None:
    x = r.pick(with_axes)
    form = r.number(0, 3)
    if form == 0:
        r.add(ops.flip, x, axis=r.number(0, x.ndim))
    elif form == 1:
        r.add(ops.tile, x, reps=[r.choice((1, 1, 2)) for _ in x.shape])
    else:
        r.add(ops.repeat, x, repeats=r.choice((1, 2, 3)), axis=r.number(0, x.ndim))


def broadcast_to(r: Draw) -> None:
    x = r.pick(lambda v: v.ndim < 4)
    sizes = [r.size() if const_int(n) == 1 and r.chance(0.6) else n for n in x.shape]
    r.add(ops.broadcast_to, x, shape=[*([r.choice((1, 2, 3))] * r.chance(0.4)), *sizes])


def joined(r: Draw) -> None:
    x = r.pick(with_axes)
    axis = r.number(0, x.ndim)
    parts = [x, r.alike(x)]
    if all(const_int(n) is not None for d, n in enumerate(x.shape) if d != axis):
        parts.append(
            r.constant([r.choice((1, 2, 3)) if d == axis else size_of(x, d) for d in range(x.ndim)], kind(x))
        )
    if r.chance(0.3):
        parts.append(x)
    r.rng.shuffle(parts)
    r.add(_concat, *parts, axis=axis, op="concat")


def _concat(*parts: Any, axis: int) -> Any:
    return ops.concatenate(parts, axis)


def stacked(r: Draw) -> None:
    x = r.pick(lambda v: v.ndim < 4)
    r.add(_stack, x, r.alike(x), axis=r.number(0, x.ndim + 1), op="stack")


def _stack(*parts: Any, axis: int) -> Any:
    return ops.stack(parts, axis)


def split(r: Draw) -> None:
    x = r.pick(with_axes)
    d = some_axis(r, x, 2)
    n = size_of(x, d)
    into = r.choice([k for k in (2, 3, 4) if n and n % k == 0] or [1])
    if n > 2 and r.chance(0.4):
        into = sorted({r.number(1, n) for _ in range(2)})
    r.add(ops.split, x, indices_or_sections=into, axis=d)


def padded(r: Draw) -> None:
    x = r.pick(with_axes)
    widths = [(r.number(0, 3), r.number(0, 2)) if r.chance(0.5) else (0, 0) for _ in x.shape]
    mode = r.choice(("constant", "edge", "reflect"))
    r.add(ops.pad, x, pad_width=widths, mode=mode)


def taken(r: Draw) -> None:
    x = r.pick(with_axes)
    d = some_axis(r, x, 1)
    high = max(1, size_of(x, d))
    if r.chance(0.6):
        at = r.constant([r.choice((1, 2, 3))] * r.number(0, 3), r.choice(("int32", "int64")), 0, high)
        r.add(ops.take, x, at, axis=d, mode=r.choice(("clip", "wrap")))
    elif all(size_of(x, e) for e in range(x.ndim)):
        shape = [size_of(x, e) if e != d else 2 for e in range(x.ndim)]
        at = r.constant(shape, "int64", 0, high)
        if r.chance(0.5):
            r.add(ops.gather_elements, x, at, axis=d)
        else:
            first = r.g.constant(np.argsort(np.random.default_rng(high).random((2, high)), 0)[:1, :1])
            at = r.call(
                ops.broadcast_to, first, shape=[1 if e == d else size_of(x, e) for e in range(x.ndim)]
            )
            new = r.constant([1 if e == d else size_of(x, e) for e in range(x.ndim)], kind(x))
            r.add(ops.scatter_elements, x, at, new, axis=d)


def triangle(r: Draw) -> None:
    x = r.pick(lambda v: v.ndim > 1)
    r.add(r.choice((ops.tril, ops.triu)), x, k=r.number(-2, 3))


def numbered(r: Draw) -> None:
    x = r.pick(lambda v: kind(v) in ("int32", "int64") and v.ndim < 3)
    r.add(ops.one_hot, x, num_classes=r.choice((2, 3, 5)), axis=-1, dtype=r.choice(("float32", "int32")))
