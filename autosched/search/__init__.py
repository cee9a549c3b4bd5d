"""Which candidates to measure next. Knows variants (matrices, limits) and scores; nothing of what models,
measurement or files are.

A strategy proposes rows; populations are integer matrices and every step is an array operation. The same seed
and the same measurements give the same proposals in every process: all randomness comes from one numpy
Generator, and nothing iterates over a set. Adding one: a file, a line in ``STRATEGIES``, a test.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang.core.renamed import deprecated, renamed
from tensorlang.entries import share

from .allocation import allocate
from .evolutionary import Evolutionary
from .exhaustive import Exhaustive
from .random import Random
from .strategy import Seen, Strategy

STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "evolutionary": Evolutionary,
    "random": Random,
    "exhaustive": Exhaustive,
}


def current(name: str) -> str:
    """The name that a strategy has now."""
    if name == "annealing":
        deprecated("autosched.tune(strategy='annealing')", "strategy='evolutionary'")
        return "evolutionary"
    return name


__all__ = ["STRATEGIES", "Evolutionary", "Exhaustive", "Random", "Seen", "Strategy", "allocate"]

share(__name__)
__getattr__ = renamed(__name__, allot="allocate", Annealing="Evolutionary")
