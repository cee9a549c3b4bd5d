"""What the classes of tensorlang show: a ``repr`` that a person wants, and a small picture in a notebook.
Knows what they offer to everybody; takes from them only what their users can."""

from __future__ import annotations

from typing import Any

from ..core.text import bytes_text
from ..errors import counted
from ..interface.signature import show
from ..runtime.timing import seconds_text
from .html import bars, box, code, coloured, details, folded, strip, table
from .tree import tree_svg


def declaration(t: Any) -> str:
    """``C[i, j] = sum(A[i, k] * B[k, j], axis=[k])``, or what an argument is."""
    op, body = t.op, t.op.body
    shape = f"{t.dtype}[{', '.join(map(str, t.shape))}]"
    if not body:
        return f"{t.name}: {shape}"
    axes = ", ".join(a.name for a in op.axis)
    value = str(body[min(t.value_index, len(body) - 1)])
    ranges = [f"{a.name} in 0..{a.extent}" for a in op.axis]
    ranges += [f"{a.name} in {a.dom.min}..{a.dom.min + a.dom.extent}" for a in op.reduce_axis]
    return f"{t.name}: {shape}\n{t.name}[{axes}] = {value}\n{', '.join(ranges)}"


def tensor(t: Any) -> str:
    """The declaration."""
    return box("", f"<pre>{coloured(declaration(t))}</pre>")


def schedule(s: Any) -> str:
    """The tree, and the calls that made it."""
    steps = s.trace.to_python() if s.trace.steps else ""
    return box(
        "", tree_svg(s.tree()), details(counted(len(s.trace.steps), "step"), code(steps)) if steps else ""
    )


def trace(t: Any) -> str:
    """The calls."""
    return box(counted(len(t.steps), "step"), code(str(t)))


def func(f: Any) -> str:
    """The loop IR."""
    return box("", folded(str(f)))


def kernel(f: Any) -> str:
    """Arguments, target, size, and the code on request."""
    rows = [
        (p.name, f"{p.dtype}{_shape(p)}", "output" if p.output else "updated" if p.updated else "input")
        for p in f.signature.params
    ]
    facts = [("target", str(f.target or "this processor")), ("object code", bytes_text(len(f.object_code)))]
    texts = "".join(
        details(f"show the {word}", (folded if kind == "ir" else code)(f.get_source(kind)))
        for kind, word in (("ir", "loop IR"), ("asm", "assembly"))
        # a kernel that was loaded may have been saved without its texts
        if kind in f._sources
    )
    return box(f"kernel {f.name}", table(rows), table(facts), texts)


def explanation(x: Any) -> str:
    """Stages and loops as tables."""
    rows = [
        (
            n.loops[-1] if n.loops else "once",
            ", ".join(n.writes),
            n.lanes,
            f"{n.iterations:,}",
            f"{n.cycles:,.0f}",
        )
        for n in x.loops
    ]
    heads = ("loop", "writes", "lanes", "iterations", "cycles")
    facts = [*x.stages.items(), ("threads", x.threads), ("table", x.costs)]
    return box(x.summary, table(facts), table(rows, heads))


def _shape(p: Any) -> str:
    return f"[{', '.join(show(n) for n in p.shape)}]" if p.kind == "buffer" else ""


def timing(t: Any) -> str:
    """The numbers and every sample."""
    line = strip(t.results, t.median, f"{len(t.results)} samples, the long tick is the median")
    ends = f"{seconds_text(t.min)} … {seconds_text(t.max)}"
    return box(str(t), line if t.results else "", f"<div>{ends}</div>")


def profile(p: Any) -> str:
    """A bar for each loop nest."""
    rows = []
    for r in p.rows:
        writes = f", writes {', '.join(r.writes)}" if r.writes else ""
        rows.append(("\u2003" * r.depth + r.loop, r.share, f"{seconds_text(r.seconds)}{writes}"))
    return box(f"one run {seconds_text(p.seconds)}, of {p.runs} runs", bars(rows))


def engine_profile(p: Any) -> str:
    """A bar for each kernel, the slowest first."""
    whole = p.seconds or 1.0
    rows = [
        (
            r.operators,
            r.seconds / whole,
            f"{seconds_text(r.seconds)}, makes {r.makes}, {r.bandwidth:.1f} GB/s",
        )
        for r in sorted(p.rows, key=lambda r: -r.seconds)
    ]
    return box(f"one run {seconds_text(p.seconds)}, medians of {p.runs} runs", bars(rows))


def times(t: Any) -> str:
    """A bar for each stage of compilation."""
    total = sum(t.seconds.values()) or 1.0
    return box(
        f"compiled in {seconds_text(total)}",
        bars([(name, s / total, seconds_text(s)) for name, s in t.seconds.items()]),
    )


def target(t: Any) -> str:
    """What is known of a processor."""
    rows = [
        ("vectors", f"{t.vector_bits} bits, {t.vector_registers} registers{', fma' if t.has_fma else ''}"),
        ("cores", str(t.num_cores)),
        ("caches", ", ".join(bytes_text(n) for n in (t.l1_bytes, t.l2_bytes, t.l3_bytes))),
    ]
    return box(str(t), table(rows))


def plain(x: Any) -> str:
    """The text that it prints."""
    return str(x)
