"""Text for readers: trees with branches and columns. Knows nothing of what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .recursion import Steps, run


@dataclass
class TreeNode:
    """A line of a drawn tree: its text, an optional note in a right-hand column, and the nodes below."""

    text: str
    note: str = ""
    children: list[TreeNode] = field(default_factory=list)


def draw_tree(root: TreeNode, *, note_gap: int = 3) -> str:
    """The tree with box-drawing branches; notes are aligned in one column."""
    rows: list[tuple[str, str]] = []

    def walk(node: TreeNode, prefix: str, branch: str, below: str) -> Steps[None]:
        rows.append((prefix + branch + node.text, node.note))
        for i, child in enumerate(node.children):
            last = i == len(node.children) - 1
            yield walk(child, prefix + below, "└─ " if last else "├─ ", "   " if last else "│  ")

    run(walk(root, "", "", ""))
    # only lines that have a note: a long line without one does not push the column away
    width = max((len(text) for text, note in rows if note), default=0)
    return "\n".join(f"{text:<{width + note_gap}}{note}".rstrip() if note else text for text, note in rows)


def columns(
    rows: Sequence[Sequence[str]], *, header: Sequence[str] | None = None, right: tuple[int, ...] = ()
) -> str:
    """Rows as aligned columns; the columns numbered in ``right`` are flush right."""
    table = ([list(header)] if header else []) + [list(r) for r in rows]
    if not table:
        return ""
    widths = [max(len(r[c]) for r in table) for c in range(len(table[0]))]
    lines = [
        "  ".join(
            cell.rjust(w) if c in right else cell.ljust(w)
            for c, (cell, w) in enumerate(zip(r, widths, strict=True))
        ).rstrip()
        for r in table
    ]
    if header:
        lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def type_of(x: object) -> str:
    """The type of a thing with its article: ``an int``, ``a list``."""
    name = type(x).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def bytes_text(n: int) -> str:
    """``4096`` as ``4 KiB``."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if size == int(size) or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
