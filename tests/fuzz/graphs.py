"""Random computations as text: a ``graph()`` function in TE's words, so that a failing one can be pasted into
a file.

Each family is a function from a :class:`Sketch` (a random source and the lines written so far) to nothing.
Values are kept so small that every sum and product is exact in every order. Knows nothing of schedules.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import steps, wide
from .sketch import FLOATS, TYPES, VOLUME, Graph, Size, Sketch, letters, shape_text

# --- the families -------------------------------------------------------------------------------------------


def elementwise(g: Sketch) -> None:
    """A chain of elementwise stages."""
    rank = g.rng.randint(1, 3)
    shape: list[Size] = list(g.shape(rank, empty=True))
    shape[0] = g.rows(int(shape[0]))
    t = g.rng.choice(TYPES)
    idx = ", ".join(letters(rank))
    x = g.tensor(shape, t)
    other = g.tensor(shape, t) if g.maybe(0.6) else None
    for _ in range(g.rng.randint(1, 4)):
        y = f"{other}[{idx}]" if other and g.maybe(0.5) else None
        x = g.compute(shape, idx, g.op(f"{x}[{idx}]", y))
    g.outputs.append(x)


def broadcast(g: Sketch) -> None:
    """Vectors spread over a matrix."""
    m, n = g.shape(2, empty=True)
    rows = g.rows(m)
    t = g.rng.choice(TYPES)
    a, b, c = g.tensor([rows, n], t), g.tensor([n], t), g.tensor([rows], t)
    x = g.compute([rows, n], "i, j", f"{a}[i, j] * {b}[j] + {c}[i]")
    if g.maybe(0.5):
        d = g.compute([n], "j", g.op(f"{b}[j]"))
        x = g.compute([rows, n], "i, j", g.op(f"{x}[i, j]", f"{d}[j]"))
    if g.maybe(0.3):
        e = g.tensor([1], t)
        x = g.compute([rows, n], "i, j", g.op(f"{x}[i, j]", f"{e}[0]"))
    g.outputs.append(x)


def matmul(g: Sketch) -> None:
    """A product of matrices, either of them transposed, with bias and relu."""
    m, n, k = g.shape(3, empty=True)
    rows = g.rows(m)
    t = g.rng.choice(("float32", "float32", "float64", "int32", "int8"))
    ta, tb = g.maybe(0.3), g.maybe(0.3)
    a = g.tensor([k, rows] if ta else [rows, k], t)
    b = g.tensor([n, k] if tb else [k, n], t)
    r = g.axis(0, k)
    left = f"{a}[{r}, i]" if ta else f"{a}[i, {r}]"
    right = f"{b}[j, {r}]" if tb else f"{b}[{r}, j]"
    if t == "int8":
        left, right, t = f'{left}.astype("int32")', f'{right}.astype("int32")', "int32"
    x = g.compute([rows, n], "i, j", f"te.sum({left} * {right}, axis={r})")
    if g.maybe(0.5):
        bias = g.tensor([n], t)
        x = g.compute([rows, n], "i, j", f"{x}[i, j] + {bias}[j]")
    if g.maybe(0.5):
        x = g.compute([rows, n], "i, j", f"te.max({x}[i, j], 0)")
    g.outputs.append(x)


def batch_matmul(g: Sketch) -> None:
    """A batch of products."""
    b, m, n, k = g.shape(4, empty=True)
    batch = g.rows(b)
    t = g.rng.choice(("float32", "float64", "int32"))
    x, y = g.tensor([batch, m, k], t), g.tensor([batch, k, n], t)
    r = g.axis(0, k)
    z = g.compute([batch, m, n], "b, i, j", f"te.sum({x}[b, i, {r}] * {y}[b, {r}, j], axis={r})")
    if g.maybe(0.4):
        z = g.compute([batch, m, n], "b, i, j", g.op(f"{z}[b, i, j]"))
    g.outputs.append(z)


def conv1d(g: Sketch) -> None:
    """A one-dimensional convolution with stride, dilation and padding."""
    n, ci, co = g.extent(5), g.extent(5), g.extent(7)
    k, stride, dilation, pad = (
        g.rng.randint(1, 5),
        g.rng.randint(1, 3),
        g.rng.randint(1, 2),
        g.rng.randint(0, 3),
    )
    w = max(g.extent(47), (k - 1) * dilation + 1)
    t = g.rng.choice(("float32", "float64", "int32"))
    batch = g.rows(n)
    x, f = g.tensor([batch, ci, w], t), g.tensor([co, ci, k], t)
    if pad:
        x = g.compute(
            [batch, ci, w + 2 * pad],
            "b, c, x",
            f'te.if_then_else((x >= {pad}) & (x < {w + pad}), {x}[b, c, x - {pad}], te.const(0, "{t}"))',
            "pad",
        )
    out = (w + 2 * pad - (k - 1) * dilation - 1) // stride + 1
    c, r = g.axis(0, ci), g.axis(0, k)
    y = g.compute(
        [batch, co, out],
        "b, o, x",
        f"te.sum({x}[b, {c}, x * {stride} + {r} * {dilation}] * {f}[o, {c}, {r}], axis=[{c}, {r}])",
    )
    if g.maybe(0.4):
        y = g.compute([batch, co, out], "b, o, x", f"te.max({y}[b, o, x], 0)")
    g.outputs.append(y)


def conv2d(g: Sketch) -> None:
    """A two-dimensional convolution, channels first or last."""
    ci, co = g.extent(4), g.extent(5)
    k, stride, pad = g.rng.randint(1, 3), g.rng.randint(1, 2), g.rng.randint(0, 2)
    h, w = max(k, g.extent(9)), max(k, g.extent(11))
    t = g.rng.choice(("float32", "float32", "int32"))
    batch = g.rows(g.extent(2), 0.15)
    last = g.maybe(0.5)

    def at(b: str, c: str, y: str, x: str) -> str:
        return f"[{b}, {y}, {x}, {c}]" if last else f"[{b}, {c}, {y}, {x}]"

    def shape(c: int, y: int, x: int) -> list[Size]:
        return [batch, y, x, c] if last else [batch, c, y, x]

    idx = "b, y, x, c" if last else "b, c, y, x"
    a, f = g.tensor(shape(ci, h, w), t), g.tensor([co, ci, k, k], t)
    if pad:
        a = g.compute(
            shape(ci, h + 2 * pad, w + 2 * pad),
            idx,
            f"te.if_then_else((y >= {pad}) & (y < {h + pad}) & (x >= {pad}) & (x < {w + pad}), "
            f'{a}{at("b", "c", f"y - {pad}", f"x - {pad}")}, te.const(0, "{t}"))',
            "pad",
        )
    oh, ow = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
    c, ry, rx = g.axis(0, ci), g.axis(0, k), g.axis(0, k)
    y = g.compute(
        shape(co, oh, ow),
        idx.replace("c", "o"),
        f"te.sum({a}{at('b', c, f'y * {stride} + {ry}', f'x * {stride} + {rx}')} * {f}[o, {c}, {ry}, {rx}], axis=[{c}, {ry}, {rx}])",
    )
    if g.maybe(0.4):
        bias = g.tensor([co], t)
        y = g.compute(shape(co, oh, ow), idx, f"te.max({y}[{idx}] + {bias}[c], 0)")
    g.outputs.append(y)


def depthwise(g: Sketch) -> None:
    """A convolution of each channel by itself."""
    c, k, pad = g.extent(9), g.rng.randint(1, 3), g.rng.randint(0, 1)
    h, w = max(k, g.extent(11)), max(k, g.extent(11))
    t = g.rng.choice(FLOATS)
    channels = g.rows(c)
    a, f = g.tensor([channels, h, w], t), g.tensor([channels, k, k], t)
    if pad:
        a = g.compute(
            [channels, h + 2, w + 2],
            "c, y, x",
            f"te.if_then_else((1 <= y) & (y <= {h}) & (1 <= x) & (x <= {w}), "
            f'{a}[c, y - 1, x - 1], te.const(0, "{t}"))',
            "pad",
        )
    ry, rx = g.axis(0, k), g.axis(0, k)
    g.outputs.append(
        g.compute(
            [channels, h + 2 * pad - k + 1, w + 2 * pad - k + 1],
            "c, y, x",
            f"te.sum({a}[c, y + {ry}, x + {rx}] * {f}[c, {ry}, {rx}], axis=[{ry}, {rx}])",
        )
    )


def reduction(g: Sketch) -> None:
    """A reduction over one or two axes in any position, with where=, init= and a begin that is not zero."""
    rank = g.rng.randint(1, 3)
    how = g.rng.choice(("sum", "sum", "max", "min", "prod"))
    shape: list[Size] = list(g.shape(rank, VOLUME if how != "prod" else 40))
    t = g.rng.choice(TYPES)
    reduced = sorted(g.rng.sample(range(rank), g.rng.randint(1, min(2, rank))))
    if 0 not in reduced:
        shape[0] = g.rows(int(shape[0]))
    elif g.maybe(0.15):
        shape[0] = g.rows(int(shape[0]), 1.0)
    x = g.tensor(shape, t, *((1, 3) if how == "prod" else (-4, 5)))
    names = letters(rank)
    axes: list[str] = []
    for d in reduced:
        size = shape[d]
        begin = g.rng.randint(0, int(size) - 1) if isinstance(size, int) and g.maybe(0.3) else 0
        names[d] = g.axis(begin, size)
        axes.append(names[d])
    kept = [d for d in range(rank) if d not in reduced]
    out: list[Size] = [shape[d] for d in kept] or [1]
    params = ", ".join(names[d] for d in kept) or "z"
    rest = ""
    if g.maybe(0.3):
        rest += (
            f", where={x}[{', '.join(names)}] > {g.rng.randint(-2, 1)}"
            if g.maybe(0.5)
            else f", where={axes[0]} % 3 != 1"
        )
    if g.maybe(0.3):
        rest += f", init={g.rng.randint(-2, 2)}"
    value = f"{x}[{', '.join(names)}]"
    if how != "prod" and g.maybe(0.4):
        value = g.op(value)
    y = g.compute(out, params, f"te.{how}({value}, axis=[{', '.join(axes)}]{rest})")
    if g.maybe(0.4):
        y = g.compute(out, params, g.op(f"{y}[{params if kept else '0'}]"))
    g.outputs.append(y)


def normalise(g: Sketch) -> None:
    """Reductions whose results are read in rows, as in a softmax."""
    m, n = g.shape(2)
    rows = g.rows(m)
    t = g.rng.choice(("float32", "float64", "int32"))
    a = g.tensor([rows, n], t)
    k, r = g.axis(0, n), g.axis(0, n)
    top = g.compute([rows], "i", f"te.max({a}[i, {k}], axis={k})", "top")
    e = g.compute([rows, n], "i, j", f"{a}[i, j] - {top}[i]", "e")
    total = g.compute([rows], "i", f"te.sum({e}[i, {r}], axis={r})", "total")
    g.outputs.append(g.compute([rows, n], "i, j", f"{e}[i, j] * 2 + {total}[i]"))


def terms(g: Sketch) -> None:
    """Formulas with terms of some of their axes, written out, of a matrix or of the sums of a product."""
    m, n, k = g.shape(3)
    rows, t = g.rows(m), g.rng.choice(FLOATS)
    b, c = g.tensor([n], t), g.tensor([rows], t)
    column, row = f"({g.op(g.op(f'{b}[j]'))})", f"({g.op(f'{c}[i]')})"
    if g.maybe(0.5):
        column = f"({column} * te.cast('{t}', j % 3))"
    if g.maybe(0.4):
        a, w, r = g.tensor([rows, k], t), g.tensor([k], t), g.axis(0, k)
        factor = g.op(g.op(f"{w}[{r}]"))
        body = f"te.sum({a}[i, {r}] * ({factor}) * {column}, axis={r})"
    else:
        a = g.tensor([rows, n], t)
        body = f"{a}[i, j] * {column} + {row}" if g.maybe(0.5) else f"te.max({a}[i, j] - {column}, {row})"
    x = g.compute([rows, n], "i, j", body)
    g.outputs.append(g.compute([rows, n], "i, j", g.op(f"{x}[i, j]", column)) if g.maybe(0.4) else x)


def pooling(g: Sketch) -> None:
    """Maxima or sums of windows."""
    h, w = g.extent(23), g.extent(23)
    ky, kx = g.rng.randint(1, min(4, h)), g.rng.randint(1, min(4, w))
    sy, sx = g.rng.randint(1, 3), g.rng.randint(1, 3)
    c = g.rows(g.extent(5))
    t = g.rng.choice(TYPES)
    a = g.tensor([c, h, w], t)
    if g.maybe(0.4):
        a = g.compute([c, h, w], "c, y, x", g.op(f"{a}[c, y, x]"))
    ry, rx = g.axis(0, ky), g.axis(0, kx)
    g.outputs.append(
        g.compute(
            [c, (h - ky) // sy + 1, (w - kx) // sx + 1],
            "c, y, x",
            f"te.{g.rng.choice(('max', 'sum', 'min'))}({a}[c, y * {sy} + {ry}, x * {sx} + {rx}], axis=[{ry}, {rx}])",
        )
    )


def gather(g: Sketch) -> None:
    """Reads at positions that are data."""
    m, n, rows = g.extent(31), g.extent(17), g.extent(23)
    t = g.rng.choice(TYPES)
    i_type = g.rng.choice(("int32", "int32", "int64"))
    r = g.rows(rows)
    table, index = g.tensor([m, n], t), g.tensor([r], i_type, 0, m)
    where = f"{index}[i]"
    if g.maybe(0.3):
        where = f"te.max({m - 1} - {index}[i], 0)"
    if g.maybe(0.3):
        table = g.compute([m, n], "i, j", g.op(f"{table}[i, j]"))
    x = g.compute([r, n], "i, j", f"{table}[{where}, j]")
    if g.maybe(0.5):
        x = g.compute([r, n], "i, j", g.op(f"{x}[i, j]"))
    elif g.maybe(0.5):
        k = g.axis(0, n)
        x = g.compute([r], "i", f"te.sum({x}[i, {k}], axis={k})")
    g.outputs.append(x)


def strided(g: Sketch) -> None:
    """Transposed, reversed and strided reads."""
    m, n = g.shape(2, 2000)
    t = g.rng.choice(TYPES)
    kind = g.rng.choice(("transpose", "reverse", "stride", "flatten", "unflatten"))
    x = g.tensor([m, n], t)
    x = g.compute([m, n], "i, j", g.op(f"{x}[i, j]")) if g.maybe(0.7) else x
    if kind == "transpose":
        y = g.compute([n, m], "i, j", f"{x}[j, i]")
        shape: list[Size] = [n, m]
    elif kind == "reverse":
        y = g.compute(
            [m, n], "i, j", f"{x}[{m - 1} - i, {n - 1} - j]" if g.maybe(0.5) else f"{x}[i, {n - 1} - j]"
        )
        shape = [m, n]
    elif kind == "stride":
        s, o = g.rng.randint(1, 3), g.rng.randint(0, 1)
        shape = [max(1, (m - o) // s) if m > o else 1, n]
        y = g.compute(
            shape,
            "i, j",
            f"{x}[te.min(i * {s} + {o}, {m - 1}), j]"
            if g.maybe(0.5) or m <= o
            else f"{x}[i * {s} + {o if (m - o) // s else 0}, j]",
        )
    elif kind == "flatten":
        y = g.compute([m * n], "i", f"{x}[i // {n}, i % {n}]")
        shape = [m * n]
    else:
        z = g.compute([m * n], "i", f"{x}[i // {n}, i % {n}]")
        y = g.compute([n, m], "i, j", f"{z}[i * {m} + j]")
        shape = [n, m]
    if g.maybe(0.5):
        idx = ", ".join(letters(len(shape)))
        y = g.compute(shape, idx, g.op(f"{y}[{idx}]"))
    g.outputs.append(y)


def stencil(g: Sketch) -> None:
    """Two or three stages, each reading a window of the one before."""
    stages, rank = g.rng.randint(2, 3), g.rng.randint(1, 2)
    t = g.rng.choice(TYPES)
    shape: list[Size] = [max(n, 2 * stages + 1) for n in g.shape(rank, 900)]
    symbolic = rank == 2 and g.maybe(0.25)
    if symbolic:
        shape[0] = g.rows(int(shape[0]), 1.0)
    x = g.tensor(shape, t)
    for _ in range(stages):
        d = rank - 1 if symbolic or rank == 1 else g.rng.randrange(rank)
        idx = letters(rank)
        reach = g.rng.randint(1, 2)

        def at(offset: str, d: int = d, idx: list[str] = idx, x: str = x) -> str:
            return f"{x}[{', '.join(f'{v} + {offset}' if p == d else v for p, v in enumerate(idx))}]"

        shape = [int(n) - reach if p == d else n for p, n in enumerate(shape)]
        if g.maybe(0.3):
            k = g.axis(0, reach + 1)
            x = g.compute(shape, ", ".join(idx), f"te.sum({at(k)}, axis={k})")
        else:
            x = g.compute(
                shape,
                ", ".join(idx),
                g.rng.choice(
                    (f"{at('0')} + {at(str(reach))}", f"te.max({at('0')}, {at(str(reach))}) - {at('1')}")
                ),
            )
    g.outputs.append(x)


def diamond(g: Sketch) -> None:
    """One producer, two readers with windows of their own, and a stage that joins them."""
    n = max(9, g.extent())
    rows = g.rows(g.extent(13))
    t = g.rng.choice(TYPES)
    a = g.tensor([rows, n], t)
    p = g.compute([rows, n], "i, j", g.op(f"{a}[i, j]"), "P")
    w1, w2 = g.rng.randint(0, 3), g.rng.randint(0, 3)
    m = n - max(w1, w2)
    q = g.compute([rows, m], "i, j", f"{p}[i, j] + {p}[i, j + {w1}]", "Q")
    if g.maybe(0.4):
        r = g.compute([rows, m], "i, j", f"{p}[i, {n - 1} - j] * 2", "R")
    elif g.maybe(0.5):
        k = g.axis(0, w2 + 1)
        r = g.compute([rows, m], "i, j", f"te.sum({p}[i, j + {k}], axis={k})", "R")
    else:
        r = g.compute([rows, m], "i, j", f"{p}[i, j + {w2}] - 1", "R")
    if g.maybe(0.2):
        g.outputs += [q, r]
        return
    shift = g.rng.randint(0, min(2, m - 1))
    x = g.compute([rows, m - shift], "i, j", f"{q}[i, j + {shift}] + {r}[i, j]")
    if g.maybe(0.3):
        x = g.compute([rows, m - shift], "i, j", f"{x}[i, j] - {p}[i, j]")
    g.outputs.append(x)


def several(g: Sketch) -> None:
    """One compute with two outputs."""
    m, n = g.shape(2, empty=True)
    rows = g.rows(m)
    t = g.rng.choice(TYPES)
    a, b = g.tensor([rows, n], t), g.tensor([rows, n], t)
    u, v = g.name("U"), g.name("V")
    g.lines.append(
        f'{u}, {v} = te.compute({shape_text([rows, n])}, lambda i, j: ({a}[i, j] + {b}[i, j], {a}[i, j] - {b}[i, j]), "{u}")'
    )
    if g.maybe(0.6):
        g.outputs.append(g.compute([rows, n], "i, j", f"{u}[i, j] * 2 + {v}[i, j]"))
    else:
        g.outputs += [u, v]


def argmax(g: Sketch) -> None:
    """A tuple reduction of the user's own: position and value of the largest element."""
    m, n = g.shape(2)
    rows = g.rows(m)
    t = g.rng.choice(("float32", "int32", "float64"))
    a = g.tensor([rows, n], t, -40, 41)
    low = "-1e9" if t.startswith("float") else "-100000"
    g.lines.append(
        "def join(x, y): return (te.select((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1]))"
    )
    g.lines.append(
        f'argmax = te.comm_reducer(join, lambda t0, t1: (te.const(1000, t0), te.const({low}, t1)), name="argmax")'
    )
    k = g.axis(0, n)
    u, v = g.name("U"), g.name("V")
    g.lines.append(
        f'{u}, {v} = te.compute(({rows},), lambda i: argmax(({k}.var, {a}[i, {k}]), axis={k}), "{u}")'
    )
    if g.maybe(0.5):
        g.outputs.append(g.compute([rows], "i", f"{u}[i] * 2"))
    else:
        g.outputs += [u, v]


def guarded(g: Sketch) -> None:
    """Reads that are in range only under a condition, some of them the same for all lanes."""
    m, n = g.shape(2)
    t = g.rng.choice(("float32", "int32", "float64"))
    a, b = g.tensor([m, n], t), g.tensor([m], t)
    if g.maybe(0.5):
        g.outputs.append(
            g.compute(
                [m + 2, n],
                "i, j",
                g.rng.choice(
                    (
                        f"te.if_then_else((i >= 2) & (j < {max(1, n - 1)}), {b}[i - 2], {a}[te.min(i, {m - 1}), j])",
                        f'te.if_then_else((i >= 1) & (i <= {m}), {a}[i - 1, j] + {b}[i - 1], te.const(1, "{t}"))',
                    )
                ),
            )
        )
        return
    k = g.axis(0, m + 1)
    g.outputs.append(
        g.compute(
            [n],
            "j",
            g.rng.choice(
                (
                    f"te.sum({b}[{k} - 1] * 2, axis={k}, where=({k} >= 1) & (j < {max(1, n - 2)}))",
                    f"te.sum({a}[{k} - 1, j] + {b}[{k} - 1], axis={k}, where={k} >= 1)",
                    f"te.max({b}[0], axis={k}, where={k} + j < {n})",
                    f"te.sum({b}[0] + {b}[{m - 1}], axis={k})",
                )
            ),
        )
    )


FAMILIES: dict[str, Callable[[Sketch], None]] = {
    f.__name__: f
    for f in (
        elementwise,
        broadcast,
        matmul,
        batch_matmul,
        conv1d,
        conv2d,
        depthwise,
        reduction,
        normalise,
        terms,
        pooling,
        gather,
        strided,
        stencil,
        diamond,
        several,
        argmax,
        guarded,
        steps.integers,
        steps.scan,
        steps.extern,
        steps.blocks,
        wide.clamped,
        wide.windows,
        wide.narrow,
        wide.inside,
        wide.functions,
        wide.sparse,
        wide.program,
    )
}


def random_graph(rng: random.Random, family: str | None = None) -> Graph:
    """One graph of a random family, or of that one."""
    chosen = family or rng.choice(list(FAMILIES))
    sketch = Sketch(rng)
    FAMILIES[chosen](sketch)
    return sketch.finish(chosen)
