"""Schedules with knobs for the law of columns: matmul, convolution, elementwise, reductions, fused and
reordered, attached and inlined.

Each function returns a schedule that is symbolic in its knobs.
"""

from __future__ import annotations

import tensorlang as tl
from tensorlang import ops, te


def matmul(m: int = 37, n: int = 50, k: int = 23) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def tiled_matmul(**sizes: int) -> tl.Schedule:
    """Two levels of tiles, C cached in the inner tile, packed B attached at an outer loop."""
    _, b, c = matmul(**sizes)
    s = tl.create_schedule(c)
    local = s.cache_write(c, "local")
    i, j = s[c].op.axis
    mr, mo = s.sample_tile(i, 2, max_factor=40, name="i")
    nr, no = s.sample_tile(j, 2, max_factor=64, name="j")
    io, ii = s[c].split(i, mr)
    ioo, io = s[c].split(io, mo)
    jo, ji = s[c].split(j, nr)
    joo, jo = s[c].split(jo, no)
    s[c].reorder(joo, ioo, jo, io, ii, ji)
    s[local].compute_at(s[c], io)
    i, j = s[local].op.axis
    (k,) = s[local].op.reduce_axis
    ko, ki = s[local].split(k, s.sample_tile(k, max_factor=32, name="k"))
    s[local].reorder(ko, ki, i, j)
    s[local].unroll(i)
    s[local].vectorize(j)
    packed = s.cache_read(b, "global", [local])
    s[packed].compute_at(s[c], jo)
    s[c].parallel(joo)
    return s


def fused_matmul() -> tl.Schedule:
    """Tiles fused and split again, by parts."""
    _, _, c = matmul()
    s = tl.create_schedule(c)
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    io, jo, ii, ji = s[c].tile(
        i, j, s.sample_tile(i, max_factor=16, name="i"), s.sample_tile(j, max_factor=16, name="j")
    )
    both = s[c].fuse(io, jo)
    outer, inner = s[c].split(both, nparts=s.sample_tile(both, max_factor=12, name="parts"))
    ko, ki = s[c].split(k, s.sample_tile(k, max_factor=8, name="k"))
    s[c].reorder(outer, inner, ko, ii, ki, ji)
    s[c].parallel(outer)
    s[c].vectorize(ji)
    return s


def fused_tiles(at: str = "tile") -> tl.Schedule:
    """Outer tiles fused and dealt out in chunks; the cache of C lives in a chunk, or in one tile."""
    _, _, c = matmul()
    s = tl.create_schedule(c)
    local = s.cache_write(c, "local")
    i, j = s[c].op.axis
    io, jo, ii, ji = s[c].tile(
        i, j, s.sample_tile(i, max_factor=16, name="i"), s.sample_tile(j, max_factor=16, name="j")
    )
    both = s[c].fuse(io, jo)
    outer, inner = s[c].split(both, s.sample_tile(both, max_factor=12, name="chunk"))
    s[local].compute_at(s[c], inner if at == "tile" else outer)
    s[c].parallel(outer)
    s[c].vectorize(ji)
    return s


def folded_elementwise() -> tl.Schedule:
    """As ``fused_elementwise`` with tiles that may be multiples of the folds, and an offset."""
    a = te.placeholder((40, 8), name="A")
    b = te.compute((40, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((60, 8), lambda i, j: b[(i + 3) // 2, j // 2], name="C")
    s = tl.create_schedule(c)
    f = s[c].fuse(*s[c].op.axis)
    o, _ = s[c].split(f, s.sample_tile(f, max_factor=96, name="a"))
    s[b].compute_at(s[c], o)
    return s


def conv(pad: str = "inline") -> tl.Schedule:
    """3 x 3 convolution of stride 2 with padding: inlined, or attached to a tile of the output."""
    data, weight = te.placeholder((1, 5, 17, 19), name="data"), te.placeholder((7, 5, 3, 3), name="weight")
    padded = te.compute(
        (1, 5, 19, 21),
        lambda n, c, y, x: te.if_then_else(
            (y >= 1) & (y < 18) & (x >= 1) & (x < 20), data[n, c, y - 1, x - 1], te.const(0.0)
        ),
        name="padded",
    )  # type: ignore[operator]
    rc, ry, rx = te.reduce_axis((0, 5), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    out = te.compute(
        (1, 7, 9, 10),
        lambda n, f, y, x: te.sum(
            padded[n, rc, y * 2 + ry, x * 2 + rx] * weight[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="out",
    )
    s = tl.create_schedule(out)
    local = s.cache_write(out, "local")
    n, f, y, x = s[out].op.axis
    fo, fi = s[out].split(f, s.sample_tile(f, max_factor=7, name="f"))
    yo, yi = s[out].split(y, s.sample_tile(y, max_factor=9, name="y"))
    xo, xi = s[out].split(x, s.sample_tile(x, candidates=[1, 2, 4, 8, 16], name="x"))
    s[out].reorder(n, fo, yo, xo, fi, yi, xi)
    s[local].compute_at(s[out], xo)
    n, f, y, x = s[local].op.axis
    rc, ry, rx = s[local].op.reduce_axis
    rco, rci = s[local].split(rc, s.sample_tile(rc, max_factor=5, name="rc"))
    s[local].reorder(rco, rci, ry, rx, n, f, y, x)
    s[local].vectorize(x)
    if pad == "inline":
        s[padded].compute_inline()
    else:
        s[padded].compute_at(s[out] if pad == "out" else s[local], yo if pad == "out" else rco)
    return s


def elementwise() -> tl.Schedule:
    """A chain of maps and a stencil, computed in tiles of the last one."""
    a = te.placeholder((61, 35), name="A")
    b = te.compute((61, 35), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    c = te.compute((57, 35), lambda i, j: b[i, j] + b[i + 2, j] + b[i + 4, j], name="C")
    s = tl.create_schedule(c)
    i, j = s[c].op.axis
    io, jo, ii, ji = s[c].tile(
        i, j, s.sample_tile(i, max_factor=64, name="i"), s.sample_tile(j, max_factor=64, name="j")
    )
    s[b].compute_at(s[c], jo)
    p, q = s[b].op.axis
    po, pi = s[b].split(p, s.sample_tile(p, max_factor=8, name="p"))
    s[b].reorder(po, q, pi)
    s[c].vectorize(ji)
    s[c].parallel(io)
    return s


def fused_elementwise() -> tl.Schedule:
    """Everything in one loop, then split twice; a halved and a folded index."""
    a = te.placeholder((24, 18), name="A")
    b = te.compute((24, 18), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((48, 36), lambda i, j: b[i // 2, j % 18], name="C")
    s = tl.create_schedule(c)
    i, j = s[c].op.axis
    f = s[c].fuse(i, j)
    o, r = s[c].split(f, s.sample_tile(f, max_factor=50, name="a"))
    m, v = s[c].split(r, s.sample_tile(r, max_factor=50, name="b"))
    s[b].compute_at(s[c], o)
    s[c].unroll(v)
    return s


def row_sums() -> tl.Schedule:
    """A reduction whose loops are fused; the consumer's tile decides how much is summed."""
    a = te.placeholder((29, 12, 10), name="A")
    p, q = te.reduce_axis((0, 12), "p"), te.reduce_axis((2, 10), "q")
    b = te.compute((29,), lambda i: te.sum(a[i, p, q], axis=[p, q]), name="B")
    c = te.compute((29,), lambda i: b[i] * b[28 - i], name="C")
    s = tl.create_schedule(c)
    (i,) = s[c].op.axis
    io, ii = s[c].split(i, s.sample_tile(i, max_factor=32, name="i"))
    s[b].compute_at(s[c], io)
    p, q = s[b].op.reduce_axis
    f = s[b].fuse(p, q)
    s[b].split(f, s.sample_tile(f, max_factor=32, name="f"))
    return s


SPACES = {
    "matmul": tiled_matmul,
    "matmul 64": lambda: tiled_matmul(m=64, n=64, k=64),
    "matmul 1": lambda: tiled_matmul(m=1, n=97, k=1),
    "fused matmul": fused_matmul,
    "conv inlined": conv,
    "conv at out": lambda: conv("out"),
    "conv at local": lambda: conv("local"),
    "fused tiles": fused_tiles,
    "fused chunks": lambda: fused_tiles("chunk"),
    "folded elementwise": folded_elementwise,
    "elementwise": elementwise,
    "fused elementwise": fused_elementwise,
    "row sums": row_sums,
}


def _input(*shape: int, name: str = "X") -> te.Tensor:
    return te.placeholder(shape, name=name)


def _conv() -> list[te.Tensor]:
    data, weight = _input(1, 5, 13, 11), _input(16, 5, 3, 3, name="W")
    return [data, weight, ops.conv2d(data, weight, padding=1)]


def _batch() -> list[te.Tensor]:
    a, b = _input(2, 33, 20, name="A"), _input(2, 41, 20, name="B")
    return [a, b, ops.batch_matmul(a, b, transpose_b=True)]


def _running_sum() -> list[te.Tensor]:
    x, state = _input(16, 20), te.placeholder((16, 20), name="state")
    first = te.compute((1, 20), lambda t, j: x[t, j], name="first")
    step = te.compute((16, 20), lambda t, j: state[t - 1, j] + x[t, j], name="step")
    return [x, te.scan(first, step, state)]


# computations whose spaces the rules derive
SKETCHED = {
    "matmul": lambda: list(matmul(65, 47, 33)),
    "conv": _conv,
    "transposed batch": _batch,
    "softmax": lambda: [x := _input(40, 70), ops.softmax(x)],
    "whole sum": lambda: [x := _input(40_001), ops.sum(x)],
    "running sum": _running_sum,
}
