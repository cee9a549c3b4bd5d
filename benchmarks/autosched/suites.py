"""The suites of tasks that are tuned and timed again, each task by its name. Knows the suites."""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import te

from .ansor_suite import TASKS
from .images import PIPELINES
from .primes import PRIMES
from .programs import PROGRAMS, Inputs

SUITES: dict[str, dict[str, Callable[[Inputs], te.Tensor]]] = {
    "chains": PROGRAMS,
    "ansor": TASKS,
    "images": PIPELINES,
    "primes": PRIMES,
}


def declared(name: str) -> list[te.Tensor]:
    """The tensors of a task's signature: inputs, then the result."""
    make = next(suite[name] for suite in SUITES.values() if name in suite)
    inputs = Inputs()
    result = make(inputs)
    return [*inputs.made, result]
