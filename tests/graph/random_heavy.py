"""Steps by which a random graph grows: reductions, norms, products, windows, recurrences, and what follows
them in real models. Knows ``random_graphs.Draw``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlang import ops

from .random_elements import is_bool, is_float, is_number, kind, size_of, some_axis, with_axes
from .random_graphs import HALVES, Draw


def half(x: Any) -> bool:
    return kind(x) in HALVES


# -- reductions


def reduction(r: Draw) -> None:
    x = r.pick(with_axes)
    axes = tuple(sorted({r.number(0, x.ndim) for _ in range(2)}))
    keep = r.chance(0.5)
    if is_bool(x):
        r.add(r.choice((ops.any, ops.all)), x, axis=axes, keepdims=keep)
    elif r.chance(0.6):
        r.add(r.choice((ops.max, ops.min)), x, axis=axes, keepdims=keep)
    else:
        r.add(ops.sum, r.small(x), axis=axes, keepdims=keep, rounds=half(x))


def statistic(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_float(v) and with_axes(v)))
    fn = r.choice((ops.mean, ops.mean, ops.var, ops.logsumexp, ops.norm))
    r.add(fn, x, axis=r.number(0, x.ndim), keepdims=r.chance(0.6), rounds=True)


def place(r: Draw) -> None:
    x = r.pick(lambda v: is_number(v) and with_axes(v) and r.exact(v))
    fn = r.choice((ops.argmax, ops.argmin))
    r.add(fn, x, axis=some_axis(r, x, 1), keepdims=r.chance(0.5))


def running(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_number(v) and with_axes(v)))
    how = {"exclusive": r.chance(0.3), "reverse": r.chance(0.3)}
    r.add(ops.cumsum, x, axis=r.number(0, x.ndim), rounds=half(x), **how)


def centred(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_float(v) and with_axes(v)))
    r.add(ops.subtract, x, r.call(ops.mean, x, axis=-1, keepdims=True, rounds=True))


def softmax(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_float(v) and with_axes(v)))
    r.add(r.choice((ops.softmax, ops.log_softmax)), x, axis=r.number(0, x.ndim), rounds=True)


def norm(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_float(v) and v.ndim > 1))
    k, form = kind(x), r.number(0, 4)
    if form == 0 and size_of(x, -1):
        n = size_of(x, -1)
        r.add(ops.layer_norm, x, normalized_shape=n, eps=0.5, rounds=True)
        r.add(_scaled_norm, x, r.constant([n], k), r.constant([n], k), rounds=True)
    elif form == 1 and size_of(x, -1):
        r.add(ops.rms_norm, x, normalized_shape=size_of(x, -1), eps=0.5, rounds=True)
    elif form == 2 and size_of(x, 1):
        n = size_of(x, 1)
        stats = r.constant([n], k), r.constant([n], k, 1, 4), r.constant([n], k), r.constant([n], k)
        r.add(ops.batch_norm, x, *stats, rounds=True)
    elif x.ndim > 2:
        groups = r.choice([g for g in (1, 2, 4) if size_of(x, 1) and size_of(x, 1) % g == 0] or [1])
        r.add(ops.group_norm, x, num_groups=groups, eps=0.5, rounds=True)
    else:
        r.add(ops.instance_norm, x, eps=0.5, rounds=True)


def _scaled_norm(x: Any, weight: Any, bias: Any) -> Any:
    return ops.layer_norm(x, None, weight, bias, 0.5, axis=-1)


def ordered(r: Draw) -> None:
    x = r.pick(lambda v: is_number(v) and with_axes(v) and r.exact(v))
    d, down = some_axis(r, x, 1), r.chance(0.5)
    if r.chance(0.6):
        r.add(r.choice((ops.sort, ops.argsort)), x, axis=d, descending=down)
    else:
        r.add(ops.top_k, x, k=r.number(1, max(1, size_of(x, d)) + 1), axis=d, largest=down)


# -- products


def product(r: Draw) -> None:
    x = r.small(
        r.pick(
            lambda v: (
                kind(v) in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8")
                and with_axes(v)
            )
        )
    )
    n, out, k = size_of(x, -1), r.size() or 1, kind(x)
    if not n:
        return
    if r.chance(0.6):
        y = r.call(ops.matmul, x, r.constant([n, out], k), rounds=half(x))
    else:
        y = r.call(ops.dense, x, r.constant([out, n], k), r.constant([out], k), rounds=half(x))
    _affine(r, y, (out,))


def _affine(r: Draw, y: Any, shape: Any) -> None:
    """Perhaps scaled and moved, channel by channel, as passes fold it into weights."""
    k = kind(y)
    if r.chance(0.4):
        y = r.call(ops.multiply, y, r.constant(shape, k), rounds=half(y))
    if r.chance(0.5):
        y = r.call(ops.add, y, r.constant(shape, k), rounds=half(y))
    if r.chance(0.3):
        y = r.call(ops.relu, y)
    r.new(y, r.off.get(y, 0.0))


def product_of_two(r: Draw) -> None:
    x = r.small(r.pick(lambda v: kind(v) in ("float32", "float64", "float16", "int32") and v.ndim > 1))
    y = r.small(r.alike(x))
    if r.chance(0.6):
        r.add(ops.matmul, x, y, transpose_b=True, rounds=half(x))
    elif r.chance(0.5):
        r.add(ops.matmul, x, y, transpose_a=True, rounds=half(x))
    else:
        a = "abcd"[: x.ndim]
        r.add(_einsum, x, y, rounds=half(x), text=f"{a},{a}->{a[0]}")


def _einsum(x: Any, y: Any, text: str) -> Any:
    return ops.einsum(text, [x, y])


def attention(r: Draw) -> None:
    x = r.small(
        r.pick(lambda v: kind(v) in ("float32", "float64", "float16") and v.ndim == 4 and size_of(v, -1))
    )
    y = r.small(r.alike(x))
    r.add(ops.scaled_dot_product_attention, x, y, r.small(r.alike(x)), is_causal=r.chance(0.3), rounds=True)


def convolution(r: Draw) -> None:
    x = r.small(
        r.pick(
            lambda v: (
                kind(v) in ("float32", "float32", "float64", "float16", "int32")
                and v.ndim in (3, 4)
                and size_of(v, 1)
            )
        )
    )
    c, out, n = size_of(x, 1), r.choice((1, 2, 4, 5, 8, 16)), x.ndim - 2
    k, t = r.choice((1, 1, 3, 3, 2)), kind(x)
    how: dict[str, Any] = {
        "padding": k // 2,
        "stride": r.choice((1, 1, 2)),
        "dilation": r.choice((1, 1, 1, 2)),
    }
    bias = r.constant([out], t) if r.chance(0.5) else None
    form = r.number(0, 6)
    if form == 0 and n == 2:
        multiple = r.choice((1, 1, 2))
        w = r.constant([c, multiple, k, k], t)
        y, out = r.call(ops.depthwise_conv2d, x, w, rounds=half(x), **how), c * multiple
    elif form == 1:
        fn = ops.conv_transpose2d if n == 2 else ops.conv_transpose1d
        del how["dilation"]
        y = r.call(fn, x, r.constant([c, out, *[k] * n], t), bias, rounds=half(x), **how)
    elif form == 2 and n == 2 and t == "float32":
        y = r.call(ops.conv2d_winograd, x, r.constant([out, c, 3, 3], t), padding=1, rounds=True)
    else:
        groups = r.choice([g for g in (1, 1, 2, 4) if c % g == 0 and out % g == 0])
        fn = ops.conv2d if n == 2 else ops.conv1d
        w = r.constant([out, c // groups, *[k] * n], t)
        y = r.call(fn, x, w, bias, groups=groups, rounds=half(x), **how)
    _affine(r, y, (out, *[1] * n))


def pool(r: Draw) -> None:
    x = r.small(r.pick(lambda v: is_number(v) and v.ndim in (3, 4)))
    n, k = x.ndim - 2, r.choice((2, 3))
    how = {"kernel_size": k, "stride": r.choice((1, 2)), "padding": k // 2, "ceil_mode": r.chance(0.2)}
    form = r.number(0, 4)
    if form == 0:
        r.add(ops.max_pool2d if n == 2 else ops.max_pool1d, x, **how)
    elif form == 1:
        r.add(
            ops.avg_pool2d if n == 2 else ops.avg_pool1d,
            x,
            rounds=True,
            count_include_pad=r.chance(0.5),
            **how,
        )
    elif form == 2:
        r.add(r.choice((ops.global_avg_pool, ops.global_max_pool)), x, rounds=True)
    elif r.exact(x):
        r.add(ops.max_pool_with_indices, x, **how)


def resized(r: Draw) -> None:
    x = r.pick(lambda v: kind(v) in ("float32", "float64") and v.ndim == 4)
    mode = r.choice(("nearest", "bilinear"))
    size = [r.choice((3, 6, x.shape[2])), r.choice((4, 5, x.shape[3]))]
    r.add(ops.resize, r.small(x), size=size, mode=mode, rounds=mode != "nearest")


def recurrent(r: Draw) -> None:
    x = r.small(r.pick(lambda v: kind(v) == "float32" and v.ndim == 3 and size_of(v, -1)))
    n, hidden = size_of(x, -1), r.choice((2, 3, 8))
    fn, gates = r.choice(((ops.lstm, 4), (ops.gru, 3), (ops.rnn, 1)))
    way = r.choice(("forward", "reverse", "bidirectional"))
    d = 2 if way == "bidirectional" else 1
    w, u = r.constant([d, gates * hidden, n], "float32"), r.constant([d, gates * hidden, hidden], "float32")
    b = r.constant([d, 2 * gates * hidden], "float32") if r.chance(0.5) else None
    r.add(fn, x, w, u, b, direction=way, rounds=True)


def quantised(r: Draw) -> None:
    x = r.pick(lambda v: kind(v) == "float32" and r.exact(v))
    scale, zero = r.g.constant(np.float32(0.5)), r.constant((), r.choice(("int8", "uint8")), 0, 3)
    q = r.call(ops.quantize_linear, x, scale, zero)
    r.new(q, 0.0)
    r.add(ops.dequantize_linear, q, scale, zero)


def integer_product(r: Draw) -> None:
    x = r.pick(lambda v: kind(v) in ("int8", "uint8") and v.ndim > 1 and size_of(v, -1))
    r.add(ops.matmul_integer, x, r.constant([size_of(x, -1), r.size() or 1], "int8"), r.constant((), kind(x)))


def sparse(r: Draw) -> None:
    """How many elements are not zero, and where the first stand."""
    x = r.pick(lambda v: r.exact(v) and with_axes(v) and all(size_of(v, d) for d in range(v.ndim)))
    _, count = r.call(ops.nonzero, x)
    r.new(count, 0.0)
