"""Tiers of code for one kernel of many shapes: which shapes get code of their own, when it is made, tried,
published, kept and given up.

Knows shapes, counts, seconds and bytes, and a kernel by the protocol ``Serves``; nothing of micro-kernels,
plans or decision trees.
"""

from __future__ import annotations

from tensorlang.entries import share

from .background import Tiers
from .benefit import Thresholds
from .cache import CodeCache, Entry, Range
from .dispatched import Dispatched, Trials, cycle_of
from .histogram import Histogram
from .manager import Manager
from .serves import (
    GENERIC,
    SPECIALISED,
    TABLE,
    TIERS,
    TUNED,
    Made,
    Makes,
    Order,
    Recent,
    Referee,
    Serves,
    Shape,
    Verdict,
)
from .stats import TierStats
from .workshop import Workshop

__all__ = [
    "GENERIC",
    "SPECIALISED",
    "TABLE",
    "TIERS",
    "TUNED",
    "CodeCache",
    "Dispatched",
    "Entry",
    "Histogram",
    "Made",
    "Makes",
    "Manager",
    "Order",
    "Range",
    "Recent",
    "Referee",
    "Serves",
    "Shape",
    "Thresholds",
    "TierStats",
    "Tiers",
    "Trials",
    "Verdict",
    "Workshop",
    "cycle_of",
]

share(__name__)
