"""Families that widen what random graphs are made of: places clamped or wrapped into tensors that may be
empty, conditions and intrinsics inside of reductions, every intrinsic, ranges of reductions that are data,
short random programs. Knows sketches and programs; no schedules."""

from __future__ import annotations

from .calls import FLOAT_CALLS, INT_CALLS
from .program import Program
from .sketch import FLOATS, TYPES, Sketch, shape_text


def small(g: Sketch, x: str, t: str) -> str:
    """A random intrinsic of a small whole number, as a small whole number. No result lies near a border
    between two of them."""
    if t in FLOATS:
        return f"te.max(te.min(te.floor({g.rng.choice(FLOAT_CALLS).format(x=x)} * 4 + 0.3), 9), -9)"
    return f"te.max(te.min({g.rng.choice(INT_CALLS).format(x=x)}, 9), -9)"


def functions(g: Sketch) -> None:
    """A chain of intrinsics, the last of them perhaps in a reduction."""
    m, n = g.shape(2, 1500)
    rows = g.rows(m)
    t = g.rng.choice((*FLOATS, "int8", "int32", "int64"))
    a = g.tensor([rows, n], t)
    x = a
    for _ in range(g.rng.randint(1, 2)):
        x = g.compute([rows, n], "i, j", small(g, f"{x}[i, j]", t))
    k = g.axis(0, n)
    g.outputs.append(
        x if g.maybe(0.5) else g.compute([rows], "i", f"te.sum({small(g, f'{x}[i, {k}]', t)}, axis={k})")
    )


def inside(g: Sketch) -> None:
    """Reductions of sums whose terms hang on where they stand: conditions on axes, conditions on data,
    intrinsics; read as columns or rows."""
    m, n, w = g.rng.choice((4, 8, 16, 16, 24)), g.rng.choice((2, 3, 4, 6, 8)), g.extent(13)
    t = g.rng.choice((*FLOATS, "float32", "int32", "int8"))
    turned, c, b = g.maybe(0.4), g.rng.randint(2, 4), g.tensor([n, w], t)
    a = g.tensor([n, m] if turned else [m, n], t)
    conds = (
        f"(i + j) % {c} == 0",
        f"i * {n} + j < {g.rng.randint(1, m * n)}",
        "i < j",
        f"{{x}} > {g.rng.randint(-2, 2)}",
        f"(i // {c} + j) % 2 == 0",
    )
    x = f"{a}[j, i]" if turned else f"{a}[i, j]"

    def term(x: str) -> str:
        cond = g.rng.choice(conds).format(x=x)
        y = small(g, x, t) if g.maybe(0.3) else g.op(x)
        return g.rng.choice(
            (
                f"{x} + te.if_then_else({cond}, 1, 0)",
                f"te.if_then_else({cond}, {x}, {y})",
                f"te.select({cond}, {y}, {x})",
                y,
            )
        )

    p = g.compute([m, n], "i, j", term(x), "P")
    if g.maybe(0.4):
        p = g.compute([m, n], "i, j", term(f"{p}[i, j]"), "P")
    k = g.axis(0, n)
    value = f"{p}[i, {k}]" if g.maybe(0.5) else f"{p}[i, {k}] * {b}[{k}, j]"
    if g.maybe(0.3):
        value = f"te.if_then_else((i + {k}) % {c} != 1, {value}, {p}[i, 0])"
    where = f", where=({k} + j) % {c} != 0" if g.maybe(0.2) else ""
    if t == "int8":
        value = f'({value}).astype("int32")'
    g.outputs.append(
        g.compute(
            [m, w], "i, j", f"te.{g.rng.choice(('sum', 'sum', 'max', 'min'))}({value}, axis={k}{where})"
        )
    )


def clamped(g: Sketch) -> None:
    """Places clamped or wrapped into a tensor that may be empty, from data and from axes; the first and the
    last row."""
    m, n, w = g.extent(13), g.extent(17), g.rng.randint(1, 3)
    t, i_type = g.rng.choice(TYPES), g.rng.choice(("int32", "int64"))
    rows = g.rows(m, 0.7)
    x = g.tensor([rows, n], t)
    if g.maybe(0.3):
        x = g.compute([rows, n], "i, j", g.op(f"{x}[i, j]"))
    count = 0 if g.maybe(0.1) else g.extent(19)
    kind = g.rng.choice(("clip", "wrap", "edge", "ends", "take", "gather", "pad", "resize"))
    if kind in ("clip", "wrap", "take"):
        index = g.tensor([count], i_type, -5, m + 5)
        if kind == "take":
            y = g.name("T")
            g.lines.append(f'{y} = ops.take({x}, {index}, 0, "{g.rng.choice(("clip", "wrap"))}")')
        else:
            at = (
                f"te.max(te.min({index}[i], {rows} - 1), 0)"
                if kind == "clip"
                else f"te.floormod({index}[i], {rows})"
            )
            y = g.compute([count, n], "i, j", f"{x}[{at}, j]")
    elif kind == "gather":
        index, y = g.tensor([count, n], i_type, -5, m + 5), g.name("T")
        g.lines.append(f'{y} = ops.gather({x}, 0, {index}, "{g.rng.choice(("clip", "wrap"))}")')
    elif kind == "edge":
        y = g.compute([count, n], "i, j", f"{x}[te.max(te.min(i - {w}, {rows} - 1), 0), j]")
    elif kind == "ends":
        y = g.compute([count, n], "i, j", f"{x}[0, j] - {x}[{rows} - 1, j] * i")
    elif kind == "pad":
        mode, y = g.rng.choice(("edge", "reflect")), g.name("T")
        most = w if rows == "n" or mode == "edge" else min(w, m - 1)
        g.lines.append(f'{y} = ops.pad({x}, (({most}, {g.rng.randint(0, most)}), (0, 0)), "{mode}")')
        g.outputs.append(y)
        return
    else:
        y = g.name("T")
        g.lines.append(f"{y} = ops.resize(ops.reshape({x}, (1, 1, {rows}, {n})), ({max(1, count)}, {n}))")
        g.outputs.append(y)
        return
    g.outputs.append(y if g.maybe(0.5) else g.compute([count, n], "i, j", g.op(f"{y}[i, j]")))


def windows(g: Sketch) -> None:
    """Sums over windows that are mirrored, held or go around at the ends of rows; convolutions that ask about
    the edges of an image for each tap."""
    t = g.rng.choice(("float32", "float32", "float64", "int32"))
    taps = g.rng.randint(2, 7)
    if g.maybe(0.4):
        ci, co, h = g.extent(5), g.extent(17), g.rng.randint(taps, 13)
        a, f = g.tensor([1, ci, h, h], t), g.tensor([co, ci, taps, taps], t)
        c, y, x = g.axis(0, ci), g.axis(0, taps), g.axis(0, taps)
        m = g.rng.randint(1, taps // 2)
        n = h + 2 * m - taps + 1
        inside = f"te.all(i + {y} >= {m}, i + {y} < {h + m}, j + {x} >= {m}, j + {x} < {h + m})"
        read = f"te.if_then_else({inside}, {a}[0, {c}, i + {y} - {m}, j + {x} - {m}], te.const(0, '{t}'))"
        body = f"te.sum({read} * {f}[o, {c}, {y}, {x}], axis=[{c}, {y}, {x}])"
        z = g.compute([1, co, n, n], "b, o, i, j", body)
        g.outputs.append(
            g.compute([1, co, n, n], "b, o, i, j", g.op(f"{z}[b, o, i, j]")) if g.maybe(0.4) else z
        )
        return
    n, rows = g.rng.randint(taps, 90), g.rows(g.extent(7))
    a, w, k = g.tensor([rows, n], t), g.tensor([taps], t), g.axis(0, taps)
    at = g.rng.choice(
        (
            f"(j + {k} + {g.rng.randint(0, n)}) % {n}",
            f"(j - {k} + {n}) % {n}",
            f"te.max(te.min(j + {k} - {taps // 2}, {n - 1}), 0)",
            f"te.min(te.abs(j + {k} - {taps // 2}), {n - 1})",
        )
    )
    value = f"{a}[i, {at}]"
    if g.maybe(0.3):
        value = g.op(value, f"{a}[i, te.min(j + {k}, {n - 1})]")
    z = g.compute([rows, n], "i, j", f"te.sum({value} * {w}[{k}], axis={k})")
    g.outputs.append(g.compute([rows, n], "i, j", g.op(f"{z}[i, j]")) if g.maybe(0.4) else z)


def narrow(g: Sketch) -> None:
    """Products and convolutions of bytes, signed and unsigned, in int32, some less zero points."""
    ta, tb = g.rng.choice(("int8", "uint8")), g.rng.choice(("int8", "uint8"))
    lo, hi = ((0, 256) if t == "uint8" else (-128, 128) for t in (ta, tb)) if g.maybe(0.5) else ((-4, 5),) * 2
    lo, hi = (max(lo[0], 0), lo[1]) if ta == "uint8" else lo, (max(hi[0], 0), hi[1]) if tb == "uint8" else hi
    k, n = g.extent(67), g.extent(67)
    less = [f" - {g.rng.randint(-200, 255)}" if g.maybe(0.3) else "" for _ in "ab"]
    if g.maybe(0.6):
        m = g.rows(g.extent(31))
        turned, batch = g.maybe(0.3), g.maybe(0.2)
        front, at = ([3], "b, ") if batch else ([], "")
        a, r = g.tensor([*front, m, k], ta, *lo), g.axis(0, k)
        b = g.tensor([*front, n, k] if turned else [*front, k, n], tb, *hi)
        right = f"{at}j, {r}" if turned else f"{at}{r}, j"
        shape, place = [*front, m, n], f"{at}i, j"
        body = f"(te.cast('int32', {a}[{at}i, {r}]){less[0]}) * (te.cast('int32', {b}[{right}]){less[1]})"
        x = g.compute(shape, place, f"te.sum({body}, axis={r})")
    else:
        c, h, taps = g.extent(19), g.rng.randint(3, 11), g.rng.randint(1, 3)
        last, out = g.maybe(0.5), h - taps + 1
        a = g.tensor([1, h, h, c] if last else [1, c, h, h], ta, *lo)
        f = g.tensor([taps, taps, c, n] if last else [n, c, taps, taps], tb, *hi)
        z, y, x = g.axis(0, c), g.axis(0, taps), g.axis(0, taps)
        data = f"{a}[b, i + {y}, j + {x}, {z}]" if last else f"{a}[b, {z}, i + {y}, j + {x}]"
        weight = f"{f}[{y}, {x}, {z}, o]" if last else f"{f}[o, {z}, {y}, {x}]"
        shape, place = ([1, out, out, n], "b, i, j, o") if last else ([1, n, out, out], "b, o, i, j")
        body = f"(te.cast('int32', {data}){less[0]}) * (te.cast('int32', {weight}){less[1]})"
        x = g.compute(shape, place, f"te.sum({body}, axis=[{z}, {y}, {x}])")
    g.outputs.append(g.compute(shape, place, f"te.max({x}[{place}] + 3, 0)") if g.maybe(0.4) else x)


def sparse(g: Sketch) -> None:
    """Reductions over ranges of data that say anything: rows of a sparse matrix, prefixes of rows, rows of
    pieces."""
    m, z, n = g.extent(13), g.extent(31), g.rng.choice((1, 3, 4, 8))
    t, i_type = g.rng.choice(("float32", "int32", "float64")), g.rng.choice(("int32", "int32", "int64"))
    rows = g.rows(m)
    ends = g.tensor([f"{rows} + 1"], i_type, -3, z + 4)
    if g.maybe(0.3):
        ends = g.compute([f"{rows} + 1"], "i", f"{ends}[i] + {g.rng.randint(-1, 1)}")
    f, what = g.name("f"), g.rng.choice(("absolute", "offset", "prefix", "bounded"))
    begin, end = {
        "absolute": (f"{ends}[i]", f"{ends}[i + 1]"),
        "offset": ("0", f"{ends}[i + 1] - {ends}[i]"),
        "prefix": ("0", f"{ends}[i]"),
        "bounded": (f"te.max({ends}[i], 0)", f"te.min({ends}[i + 1], {z})"),
    }[what]
    at = f"k + {ends}[i]" if what == "offset" else "k"
    data, wide = g.tensor([rows, z] if what == "prefix" else [z], t), g.maybe(0.5)
    value = f"{data}[i, k]" if what == "prefix" else f"{data}[{at}]"
    if wide:
        value += f" * {g.tensor([z, n], t)}[{at}, j]"
    if g.maybe(0.3):
        value = g.op(value)
    where = g.rng.choice(
        ("", "", ", where=k % 3 != 1", f", where={data}[{'i, k' if what == 'prefix' else at}] > 0")
    )
    g.lines.append(
        f"def {f}({'i, j' if wide else 'i'}):\n        k = te.reduce_axis(({begin}, {end}), 'k')\n"
        f"        return te.{g.rng.choice(('sum', 'sum', 'max'))}({value}, axis=k{where})"
    )
    y, shape, at = g.name("T"), [rows, n] if wide else [rows], "i, j" if wide else "i"
    g.lines.append(f"{y} = te.compute({shape_text(shape)}, {f}, {y!r})")
    g.outputs.append(y if g.maybe(0.5) else g.compute(shape, at, g.op(f"{y}[{at}]")))


def program(g: Sketch) -> None:
    """A random program of several stages."""
    p = Program(g.rng.randrange(1 << 40), short=True)
    g.lines += p.lines
    g.inputs += p.inputs
    g.outputs += p.outputs
    g.ranges.update({name: p.bounds(name) for name in p.inputs})
    g.sizes = tuple(p.sizes)
