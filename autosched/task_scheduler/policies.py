"""The policies by name. Knows policies only."""

from __future__ import annotations

from collections.abc import Callable

from .gradient import Gradient
from .progress import Policy
from .round_robin import RoundRobin

POLICIES: dict[str, Callable[[int], Policy]] = {"gradient": Gradient, "round_robin": RoundRobin}
