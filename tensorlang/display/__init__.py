"""What objects show in a notebook: the words of HTML (``html``) and what is said of each class (``objects``).
``attach`` gives a class its ``repr`` and its ``_repr_html_``."""

from __future__ import annotations

from .html import MANY, bars, box, code, coloured, details, escape, folded, strip, table, text
from .objects import attach, plain
from .tree import tree_svg

__all__ = [
    "MANY",
    "attach",
    "bars",
    "box",
    "code",
    "coloured",
    "details",
    "escape",
    "folded",
    "plain",
    "strip",
    "table",
    "text",
    "tree_svg",
]
