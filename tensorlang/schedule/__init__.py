"""How to compute it: an immutable state, changed only by primitives, recorded as a trace. Knows te and below;
no loop IR.

Region inference lives here (``bounds``) and not in lowering: the tree is printed with true extents, legality
asks for constant extents, and the tuner reads extents as expressions of its knobs. Lowering asks the same
object, so there is one answer.
"""

from __future__ import annotations

from .schedule import Schedule, Stage, create_schedule
from .trace import Trace

__all__ = ["Schedule", "Stage", "Trace", "create_schedule"]
