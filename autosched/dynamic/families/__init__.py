"""Families of kernels for open sizes, one kind of operator a file: which kernels there are, what they cost,
what the dispatcher runs.

A family answers ``make(declaration, box, settings)`` with ``Options``, or with None when the computation is
not of its kind.
"""

from __future__ import annotations

from .base import Maker, Options, Settings
from .dense import dense
from .generic import generic
from .variants import variants

FAMILIES: tuple[Maker, ...] = (dense, variants, generic)

__all__ = ["FAMILIES", "Maker", "Options", "Settings"]
