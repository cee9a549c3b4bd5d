"""Steps by which a random graph grows: what operators of ``ops`` compute, spelled out in small ones as models
do, and what is nearly that. Knows ``random_graphs.Draw``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorlang import ops

from .random_elements import kind, size_of, with_axes
from .random_graphs import Draw


def _wide(x: Any) -> bool:
    return kind(x) in ("float32", "float64") and with_axes(x) and bool(size_of(x, -1))


def _number(r: Draw, x: Any, number: float) -> Any:
    """A constant; now and then a wrong one."""
    wrong = r.choice((0.5, 1.25, -1.0)) if r.chance(0.08) else 1.0
    return r.g.constant(np.array(number * wrong, kind(x)))


def gelu(r: Draw) -> None:
    x = r.small(r.pick(_wide))
    half, one = _number(r, x, 0.5), _number(r, x, 1.0)
    if r.chance(0.5):
        inner = r.call(ops.erf, r.call(ops.divide, x, _number(r, x, math.sqrt(2))), rounds=True)
    else:
        cube = r.call(ops.multiply, r.call(ops.multiply, x, x), x)
        if r.chance(0.5):
            cube = r.call(ops.power, x, _number(r, x, 3.0))
        inner = r.call(ops.add, x, r.call(ops.multiply, _number(r, x, 0.044715), cube, rounds=True))
        inner = r.call(
            ops.tanh, r.call(ops.multiply, inner, _number(r, x, math.sqrt(2 / math.pi))), rounds=True
        )
    if r.chance(0.5):
        y = r.call(ops.multiply, x, r.call(ops.multiply, half, r.call(ops.add, inner, one)))
    else:
        y = r.call(ops.multiply, r.call(ops.multiply, x, r.call(ops.add, one, inner)), half)
    r.new(y, r.off[y])


def norm(r: Draw) -> None:
    x = r.small(r.pick(lambda v: _wide(v) and v.ndim > 1))
    n, t = size_of(x, -1), kind(x)
    d = x
    if r.chance(0.7):
        d = r.call(ops.subtract, x, r.call(ops.mean, x, axis=-1, keepdims=True, rounds=True))
    square = r.call(ops.multiply, d, d) if r.chance(0.5) else r.call(ops.power, d, _number(r, x, 2.0))
    spread = r.call(ops.mean, square, axis=-1, keepdims=True, rounds=True)
    root = r.call(ops.sqrt, r.call(ops.add, spread, _number(r, x, 0.03125)), rounds=True)
    if r.chance(0.6):
        y = r.call(ops.divide, d, root)
    else:
        y = r.call(ops.multiply, d, r.call(ops.divide, _number(r, x, 1.0), root))
    if r.chance(0.6):
        y = r.call(ops.multiply, y, r.constant([n], t))
    if r.chance(0.6):
        y = r.call(ops.add, r.constant([n], t), y)
    if r.chance(0.1):
        r.new(spread, r.off[spread])  # somebody else reads a part
    r.new(y, r.off[y])


def attention(r: Draw) -> None:
    q = r.small(r.pick(lambda v: _wide(v) and v.ndim >= 3))
    k, v = r.small(r.alike(q)), r.small(r.alike(q))
    turned = [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2]
    scale = _number(r, q, r.choice((0.5, 0.25, 0.3)))
    form = r.number(0, 3)
    if form == 0:
        q = r.call(ops.multiply, q, scale, rounds=True)
    keys = r.call(ops.transpose, k, axes=turned)
    if form == 1:
        keys = r.call(ops.multiply, keys, scale, rounds=True)
    scores = r.call(ops.matmul, q, keys)
    if form == 2:
        scores = r.call(ops.divide, scores, scale, rounds=True)
    if r.chance(0.6) and r.exact(k):
        seen = r.call(ops.greater, r.call(ops.max, k, axis=-1, keepdims=True), _number(r, q, 1.0))
        hidden = _number(r, q, r.choice((-np.inf, -1e30)))
        mask = r.call(ops.where, r.call(ops.transpose, seen, axes=turned), _number(r, q, 0.0), hidden)
        scores = r.call(ops.add, scores, mask)
    weights = r.call(ops.softmax, scores, rounds=True)
    if r.chance(0.5):
        weights = r.call(ops.where, r.call(ops.isnan, weights), _number(r, q, 0.0), weights)
    y = r.call(ops.matmul, weights, v)
    r.new(y, r.off[y])


def rotary(r: Draw) -> None:
    x = r.small(r.pick(lambda v: _wide(v) and v.ndim > 1 and size_of(v, -1) % 2 == 0))
    n, t = size_of(x, -1), kind(x)
    low = r.call(ops.strided_slice, x, begin=[0], end=[n // 2], axes=[x.ndim - 1])
    high = r.call(ops.strided_slice, x, begin=[n // 2], end=[n], axes=[x.ndim - 1])
    if r.chance(0.9):
        high = r.call(ops.negative, high)
    turned = r.call(_joined, high, low, axis=x.ndim - 1)
    cos, sin = r.constant([n], t), r.constant([n], t)
    y = r.call(ops.add, r.call(ops.multiply, x, cos), r.call(ops.multiply, sin, turned))
    r.new(y, r.off[y])


def _joined(*parts: Any, axis: int) -> Any:
    return ops.concatenate(parts, axis)


def products_of_one(r: Draw) -> None:
    """Several products of one value, as queries, keys and values are made."""
    x = r.small(
        r.pick(lambda v: kind(v) in ("float32", "float64", "int32") and with_axes(v) and size_of(v, -1))
    )
    n, t = size_of(x, -1), kind(x)
    for _ in range(r.number(2, 5)):
        out = r.choice((1, 3, 4, 8))
        y = r.call(ops.matmul, x, r.constant([n, out], t))
        if r.chance(0.6):
            y = r.call(ops.add, y, r.constant([out], t))
        if r.chance(0.3):
            y = r.call(ops.relu, y)
        r.new(y, r.off[y])
