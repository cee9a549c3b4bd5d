"""Numpy's word on sliding windows: slow and plain, and independent of how the operators are written."""

from __future__ import annotations

import itertools

import numpy as np

import tensorlang as tl
from tensorlang import te


def pairs(padding, n):
    if isinstance(padding, int):
        return [(padding, padding)] * n
    return [(p, p) if isinstance(p, int) else tuple(p) for p in padding]


def each(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


def conv(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Channels first: x [N, C, …], w [O, C / groups, …]; in the type of x."""
    n = x.ndim - 2
    stride, dilation = each(stride, n), each(dilation, n)
    x = np.pad(x, [(0, 0), (0, 0), *pairs(padding, n)])
    size = [(x.shape[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1) // stride[d] + 1 for d in range(n)]
    out = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    per_in, per_out = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        part = x[:, g * per_in : (g + 1) * per_in]
        for tap in itertools.product(*map(range, w.shape[2:])):
            seen = part[
                (
                    slice(None),
                    slice(None),
                    *[
                        slice(t * dil, t * dil + (s - 1) * st + 1, st)
                        for t, dil, s, st in zip(tap, dilation, size, stride)
                    ],
                )
            ]
            out[:, g * per_out : (g + 1) * per_out] += np.einsum(
                "nc...,oc->no...", seen, w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)]
            )
    return out if bias is None else out + bias.reshape(1, -1, *[1] * n)


def conv_transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """As torch has it: w [C, O / groups, …]; each element of x adds its multiple of the kernel."""
    n = x.ndim - 2
    stride, dilation, extra, cut = (
        each(stride, n),
        each(dilation, n),
        each(output_padding, n),
        pairs(padding, n),
    )
    full = [
        (x.shape[2 + d] - 1) * stride[d] + dilation[d] * (w.shape[2 + d] - 1) + 1 + extra[d] for d in range(n)
    ]
    per_in, per_out = x.shape[1] // groups, w.shape[1]
    out = np.zeros((x.shape[0], per_out * groups, *full), x.dtype)
    for g in range(groups):
        for tap in itertools.product(*map(range, w.shape[2:])):
            place = tuple(
                slice(t * dil, t * dil + (m - 1) * st + 1, st)
                for t, dil, m, st in zip(tap, dilation, x.shape[2:], stride)
            )
            part = np.einsum(
                "nc...,co->no...",
                x[:, g * per_in : (g + 1) * per_in],
                w[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)],
            )
            out[(slice(None), slice(g * per_out, (g + 1) * per_out), *place)] += part
    out = out[(slice(None), slice(None), *[slice(b, m - a) for (b, a), m in zip(cut, full)])]
    return out if bias is None else out + bias.reshape(1, -1, *[1] * n)


def windows(x, kernel, stride, padding=0, dilation=1, ceil_mode=False):
    """Each window over the last dimensions of x: its place, where it begins, and its indices inside x."""
    n = x.ndim - 2
    kernel, stride, dilation = each(kernel, n), each(stride, n), each(dilation, n)
    size = []
    for d, (before, after) in enumerate(pairs(padding, n)):
        room = x.shape[2 + d] + before + after - dilation[d] * (kernel[d] - 1) - 1
        count = (-(-room // stride[d]) if ceil_mode else room // stride[d]) + 1
        if ceil_mode and (count - 1) * stride[d] >= x.shape[2 + d] + before:
            count -= 1
        size.append(count)
    for place in itertools.product(*map(range, size)):
        starts = [p * s - b for p, s, (b, _) in zip(place, stride, pairs(padding, n))]
        inside = [
            [i for i in range(s, s + k * dil, dil) if 0 <= i < m]
            for s, k, dil, m in zip(starts, kernel, dilation, x.shape[2:])
        ]
        yield place, starts, inside


def pool(x, kind, kernel, stride, padding=0, dilation=1, ceil_mode=False, count_include_pad=True):
    """Channels first, window by window, by torch's words."""
    n = x.ndim - 2
    all_windows = list(windows(x, kernel, stride, padding, dilation, ceil_mode))
    out = np.zeros((*x.shape[:2], *[i + 1 for i in all_windows[-1][0]]), x.dtype)
    for place, starts, inside in all_windows:
        seen = x[(slice(None), slice(None), *np.ix_(*inside))]
        axes = tuple(range(2, x.ndim))
        if kind == "max":
            value = seen.max(axis=axes)
        else:
            whole = [
                min(s + k, m + a) - s
                for s, k, m, (_, a) in zip(starts, each(kernel, n), x.shape[2:], pairs(padding, n))
            ]
            value = seen.astype("float64").sum(axis=axes) / (
                np.prod(whole) if count_include_pad else np.prod([len(i) for i in inside])
            )
        out[(slice(None), slice(None), *place)] = value
    return out


def packed(x, block):
    """[N, C, …] as [N, C / block, …, block]."""
    return np.ascontiguousarray(np.moveaxis(x.reshape(x.shape[0], -1, block, *x.shape[2:]), 2, -1))


def unpacked(x):
    """The way back of ``packed``."""
    y = np.moveaxis(x, -1, 2)
    return y.reshape(y.shape[0], -1, *y.shape[3:])


def packed_weight(w, inner, outer):
    """[O, I, …] as [O / outer, I / inner, …, inner, outer]."""
    v = w.reshape(w.shape[0] // outer, outer, w.shape[1] // inner, inner, *w.shape[2:])
    return np.ascontiguousarray(np.moveaxis(v, (1, 3), (-1, -2)))


def small(rng, shape, dtype="float32", lo=-4, hi=5):
    """Small integers in any type: sums of their products are the same bits in every order."""
    return rng.integers(lo, hi, shape).astype(dtype)


def run(f, *arrays, shapes=None, **options):
    """The operator ``f`` compiled with the default schedule and called; ``shapes`` declares symbolic ones."""
    tensors = [
        te.placeholder(
            a.shape if shapes is None or shapes[n] is None else shapes[n], str(a.dtype), name=f"x{n}"
        )
        for n, a in enumerate(arrays)
    ]
    return tl.compile([*tensors, f(*tensors, **options)])(*arrays)


def symbolic(f, shapes, dtypes=None):
    """One kernel of the operator for placeholders of these shapes."""
    tensors = [
        te.placeholder(s, "float32" if dtypes is None else dtypes[n], name=f"x{n}")
        for n, s in enumerate(shapes)
    ]
    return tl.compile([*tensors, f(*tensors)])
