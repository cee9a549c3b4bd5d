"""THE list of sketch rules, in the order they are tried. Adding one: a file, a line here, a test; or
``SearchTask(rules=[…])``.

Know schedules and targets; nothing of tasks, search, models or measurement.
"""

from __future__ import annotations

from tensorlang.entries import share

from .choices import Choices
from .chosen import chosen
from .inline import Inline
from .integers import Integers
from .maps import Map
from .rows import Rows
from .rule import Answer, FunctionRule, Rule, Where, rule
from .terms import Terms
from .tiling import CacheWrite, Tiling
from .windows import Windows
from .winograd import Winograd

RULES: tuple[Rule, ...] = (
    Windows(),
    Integers(),
    Choices(),
    Terms(),
    Inline(),
    CacheWrite(),
    Winograd(),
    Tiling(),
    Rows(),
    Map(),
)

__all__ = ["RULES", "Answer", "FunctionRule", "Rule", "Where", "chosen", "rule"]

share(__name__)
