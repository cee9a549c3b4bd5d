"""Families of random computations beyond maps and sums: integers with divisions, scans, steps done by others,
products that intrinsics compute. As in ``graphs``, each is a function from a :class:`Sketch` to nothing.
"""

from __future__ import annotations

from .sketch import Sketch


def integers(g: Sketch) -> None:
    """Floor and truncated division, with signs."""
    n = g.extent()
    rows = g.rows(g.extent(13))
    t = g.rng.choice(("int32", "int64", "int8"))
    a = g.tensor([rows, n], t, -40, 41)
    c = g.rng.choice((2, 3, 4, 7, 8))
    body = g.rng.choice(
        (
            f"{a}[i, j] // {c}",
            f"{a}[i, j] % {c}",
            f"te.truncdiv({a}[i, j], {c})",
            f"te.truncmod({a}[i, j], {c})",
            f"({a}[i, j] + i) // {c} - j % {c}",
            f"te.floordiv({a}[i, j], {-c})",
            f"{a}[i, j] * ((i * {n} + j) // {c}) + (i * {n} + j) % {c + 1}",
        )
    )
    x = g.compute([rows, n], "i, j", body)
    if g.maybe(0.5):
        b = g.tensor([n], t, 1, 6)
        z = g.tensor([n], t, -1, 3)
        bt = g.rng.choice(
            (
                f"te.if_then_else({z}[j] != 0, {x}[i, j] // {z}[j], {x}[i, j])",
                f"{x}[i, j] // {b}[j]",
                f"{x}[i, j] % {b}[j]",
                f"te.truncmod({x}[i, j], {b}[j])",
            )
        )
        x = g.compute([rows, n], "i, j", bt)
    g.outputs.append(x)


def scan(g: Sketch) -> None:
    """A recurrence: a running sum, or cells with a reduction over the row before, with one or two states."""
    steps, n = g.rng.randint(2, 9), g.extent(23)
    rows = g.rows(n)
    t = g.rng.choice(("float32", "int32", "float64"))
    first = g.rng.randint(1, 2)
    x = g.tensor([steps, rows], t)
    cell, two = g.maybe(0.5), g.maybe(0.4)
    h, c = g.name("h"), g.name("c")
    g.lines.append(f'{h} = te.placeholder(({steps}, {rows}), "{t}", "{h}")')
    h0 = g.compute([first, rows], "t, i", f"{x}[t, i]" if g.maybe(0.6) else f'te.const(1, "{t}")', "h0")
    before = f"{h}[t - {g.rng.randint(1, first)}, i]"
    if cell:
        w = g.tensor([rows, rows], t, -1, 2)
        k = g.axis(0, rows)
        before = f"{g.compute([steps, rows], 't, i', f'te.sum({h}[t - 1, {k}] * {w}[{k}, i], axis={k})', 'mm')}[t, i]"
    if two:
        g.lines.append(f'{c} = te.placeholder(({steps}, {rows}), "{t}", "{c}")')
        c0 = g.compute([first, rows], "t, i", f'te.const(2, "{t}")', "c0")
        gate = g.compute([steps, rows], "t, i", f"te.max(te.min({before} - {c}[t - 1, i], 3), -3)", "gate")
        hn = g.compute([steps, rows], "t, i", f"{gate}[t, i] + {x}[t, i]", "hn")
        cn = g.compute([steps, rows], "t, i", f"te.min({gate}[t, i] + {c}[t - 1, i], 5) * -1", "cn")
        y, z = g.name("Y"), g.name("Z")
        g.lines.append(f'{y}, {z} = te.scan([{h0}, {c0}], [{hn}, {cn}], [{h}, {c}], name="{y}")')
        g.outputs += (
            [y, z]
            if g.maybe(0.5)
            else [
                g.compute(
                    [rows], "i", f"{y}[{steps - 1}, i] + {z}[{max(0, steps - g.rng.randint(1, 4))}, i] * 2"
                )
                if g.maybe(0.5)
                else g.compute([steps, rows], "t, i", f"{y}[t, i] + {z}[t, i] * 2")
            ]
        )
        return
    hn = g.compute(
        [steps, rows],
        "t, i",
        f"te.max(te.min({before} + {x}[t, i], 9), -9)" if cell else f"{before} + {x}[t, i]",
        "hn",
    )
    y = g.name("Y")
    g.lines.append(f'{y} = te.scan({h0}, {hn}, {h}, name="{y}")')
    g.outputs.append(
        y
        if g.maybe(0.4)
        else g.compute([rows], "i", f"{y}[{steps - 1}, i] * 2")
        if g.maybe(0.5)
        else g.compute([steps, rows], "t, i", f"{y}[t, i] * 2")
    )


def extern(g: Sketch) -> None:
    """A step done by a Python function, with stages before and after it."""
    m, n = g.shape(2, 900)
    rows = g.rows(m)
    t = g.rng.choice(("float32", "float64", "int32", "int64"))
    a, b = g.tensor([rows, n], t), g.tensor([rows, n], t)
    x = g.compute([rows, n], "i, j", g.op(f"{a}[i, j]", f"{b}[i, j]")) if g.maybe(0.7) else a
    kind, y = g.rng.choice(("affine", "add", "rows", "both")), g.name("E")
    if kind == "affine":
        g.lines.append(
            f'{y} = te.extern(({rows}, {n}), [{x}], lambda i, o: te.call_packed("fuzz.affine", i[0], o[0], 3), name="{y}")'
        )
    elif kind == "add":
        g.lines.append(
            f'{y} = te.extern(({rows}, {n}), [{x}, {b}], lambda i, o: te.call_packed("fuzz.add", i[0], i[1], o[0]), name="{y}")'
        )
    elif kind == "rows":
        g.lines.append(
            f'{y} = te.extern(({rows},), [{x}], lambda i, o: te.call_packed("fuzz.rows", i[0], o[0]), name="{y}")'
        )
    else:
        g.lines.append(
            f"{y}, {y}d = te.extern([({rows}, {n}), ({rows}, {n})], [{x}, {b}], "
            f'lambda i, o: te.call_packed("fuzz.both", i[0], i[1], o[0], o[1]), name="{y}", dtype=["{t}", "{t}"])'
        )
    if g.maybe(0.25):
        g.outputs += [y, f"{y}d"] if kind == "both" else [y]
        if kind != "both" and x != a and g.maybe(0.3):
            g.outputs.append(x)
        return
    at = f"{y}[i]" if kind == "rows" else f"{y}[i, j]"
    z = g.compute([rows, n], "i, j", f"{at} - {x}[i, j]" if kind != "both" else f"{at} * 2 - {y}d[i, j]")
    if g.maybe(0.4):
        z = g.compute([rows, n], "i, j", g.op(f"{z}[i, j]"))
    g.outputs.append(z)


def blocks(g: Sketch) -> None:
    """Products and doublings that small intrinsics compute: stages before and after a matrix times a
    transposed one."""
    m, n, k = g.rng.randint(1, 9), g.rng.choice((4, 8, 16, 24)), g.rng.choice((2, 3, 4, 8, 12))
    rows = g.rows(m)
    t = g.rng.choice(("float32", "int32"))
    a, b = g.tensor([rows, k], t), g.tensor([n, k], t)
    if g.maybe(0.6):
        a = g.compute([rows, k], "i, j", g.op(f"{a}[i, j]"))
    if g.maybe(0.3):
        b = g.compute([n, k], "i, j", f"{b}[i, j] * 2")
    r = g.axis(0, k)
    x = g.compute([rows, n], "i, j", f"te.sum({a}[i, {r}] * {b}[j, {r}], axis={r})")
    if g.maybe(0.7):
        x = g.compute([rows, n], "i, j", f"{x}[i, j] * 2" if g.maybe(0.6) else g.op(f"{x}[i, j]"))
    g.outputs.append(x)
