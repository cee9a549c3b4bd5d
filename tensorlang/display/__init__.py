"""What objects show in a notebook: the words of HTML (``html``) and what each class shows (``objects``)."""

from __future__ import annotations

from ..entries import share
from .html import MANY, Raw, bars, box, code, coloured, details, escape, folded, page, strip, table, text
from .tree import tree_svg

__all__ = [
    "MANY",
    "Raw",
    "bars",
    "box",
    "code",
    "coloured",
    "details",
    "escape",
    "folded",
    "page",
    "strip",
    "table",
    "text",
    "tree_svg",
]

share(__name__)
