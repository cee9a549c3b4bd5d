"""A dispatcher as the tiers see it, and trials on arrays of one shape. Knows what a dispatcher and a module
can do; decides nothing.

A dispatcher counts calls and processor cycles in machine code; here they become shapes and seconds. Trials
run on a twin, a dispatcher with the same routes that nobody else calls, so that they do not count as traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

import tensorlang as tl

from .serves import Recent, Shape, Verdict
from .trial import compare, sample

CALIBRATION = 0.02  # seconds
PLACES = 2
LEAST = 20e-6  # seconds: of a shorter call the way from the loop to the kernel is no small part


class Dispatches(Protocol):
    """What is needed of ``tensorlang``'s Dispatcher."""

    signature: Any

    def since(self, call: int) -> tuple[int, Any]:
        """Calls so far, and those after that number: rows of route, cycles, dims."""

    def publish(self, dims: Sequence[int], module: Any) -> None:
        """Serve these dims with the module."""

    def retire(self, dims: Sequence[int]) -> bool:
        """Serve them as before."""

    def collect(self) -> int:
        """Drop what no call can see any more."""

    def benchmark(self, *args: Any, seconds: float = 0.5) -> tl.Timing:
        """Time calls with these arguments."""


class Dispatched:
    """``Serves`` by a dispatcher. ``base`` tells the tier that serves a shape when nothing is published,
    ``cycle`` is the length of a processor cycle in seconds (see ``cycle_of``)."""

    def __init__(self, dispatcher: Dispatches, base: Callable[[Shape], int], cycle: float) -> None:
        self.dispatcher, self.cycle = dispatcher, cycle
        self.base = base
        self._seen, _ = dispatcher.since(0)

    def recent(self) -> Recent:
        """The calls since this was last asked."""
        before = self._seen
        self._seen, rows = self.dispatcher.since(before)
        self.dispatcher.collect()
        return Recent(rows[:, 2:], rows[:, 1] * self.cycle, self._seen - before)

    def takes(self, shape: Shape) -> bool:
        """Whether the dims allow it."""
        return all(
            n >= max(0, d.lo or 0) and (d.hi is None or n <= d.hi) and n % d.multiple_of == 0
            for n, d in zip(shape, self.dispatcher.signature.dims, strict=True)
        )

    def publish(self, shape: Shape, module: Any) -> None:
        """Serve a shape with the module."""
        self.dispatcher.publish(shape, module)

    def retire(self, shape: Shape) -> None:
        """Serve it as before."""
        self.dispatcher.retire(shape)


class Trials:
    """``Referee`` on arrays made for each trial, in two places, of which the worse counts: where arrays lie
    matters. ``base`` is called when a module is tried against what serves a shape without any: the twin."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def trial(self, shape: Shape, now: Any, new: Any) -> Verdict:
        """Measure the new module against the one in use."""
        rival = self.base if now is None else now
        places = [arrays_of(new) for _ in range(PLACES)]  # all at once, so that they lie apart
        verdicts = [compare(rival, new, *arrays) for arrays in places]
        return min(verdicts, key=lambda v: (v.right, -v.ratio if v.right else 0.0))


def arrays_of(module: Any) -> tuple[list[Any], list[Any]]:
    """Arguments for a module of one shape: inputs of small integers, outputs to be written."""
    rng = np.random.default_rng(0)
    inputs, outputs = [], []
    for p in module.signature.params:
        if p.kind == "scalar":
            inputs.append(1)
        elif p.output:
            outputs.append(np.empty(p.shape, p.dtype))
        else:
            inputs.append(sample(p.shape, p.dtype, rng))
    return inputs, outputs


def cycle_of(twin: Dispatches, arrays: Sequence[Any]) -> float:
    """Seconds of a processor cycle as the dispatcher counts them, by calls of the twin on these arrays, which
    should take ``LEAST`` or longer."""
    before, _ = twin.since(0)
    wall = twin.benchmark(*arrays, seconds=CALIBRATION).min
    _, rows = twin.since(before)
    return wall / max(1.0, float(rows[:, 1].min()))
