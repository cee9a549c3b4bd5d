"""A kernel, a workshop, a referee and a clock of pure arithmetic: the rules run on them in no time and the
same way each time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.tiers import (
    GENERIC,
    TUNED,
    CodeCache,
    Made,
    Manager,
    Order,
    Recent,
    Shape,
    Thresholds,
    Verdict,
)
from autosched.tiers.window import Window


@dataclass(frozen=True)
class Code:
    """A module: it computes one shape."""

    shape: Shape
    tier: int


@dataclass
class World:
    """Time, and the true costs. ``seconds(shape, tier)`` of a call, ``making(order)`` of code,
    ``size(order)`` in bytes."""

    seconds: Callable[[Shape, int], float]
    making: Callable[[Order], float] = lambda order: 10.0 if order.tier == TUNED else 0.1
    size: Callable[[Order], int] = lambda order: 10_000
    now: float = 0.0
    published: dict[Shape, Code] = field(default_factory=dict)
    changes: list[tuple[float, Shape, int]] = field(default_factory=list)
    log: list[tuple[Shape, float]] = field(default_factory=list)
    orders: deque[tuple[float, Order]] = field(default_factory=deque)
    ordered: list[Order] = field(default_factory=list)
    misses: Counter[str] = field(default_factory=Counter)
    broken: Callable[[Order], str] = lambda order: ""
    wrong: Callable[[Order], bool] = lambda order: False
    stored: set[Order] = field(default_factory=set)
    promised: Callable[[Shape, int], float] | None = None  # what trials say, where that is not the truth

    # a kernel

    def call(self, shape: Shape) -> float:
        """One call: seconds. What is published must be for this shape."""
        code = self.published.get(shape)
        assert code is None or code.shape == shape
        took = self.seconds(shape, GENERIC if code is None else code.tier)
        self.log.append((shape, took))
        self.now += took
        return took

    def recent(self) -> Recent:
        log, self.log = self.log, []
        return Recent(
            np.array([s for s, _ in log], np.int64).reshape(len(log), len(log[0][0]) if log else 0),
            np.array([t for _, t in log]),
            len(log),
        )

    def publish(self, shape: Shape, module: Any) -> None:
        self.published[shape] = module
        self.changes.append((self.now, shape, module.tier))

    def retire(self, shape: Shape) -> None:
        del self.published[shape]
        self.changes.append((self.now, shape, GENERIC))

    def takes(self, shape: Shape) -> bool:
        return all(n >= 0 for n in shape)

    def base(self, shape: Shape) -> int:
        return GENERIC

    # a workshop: one order after the other, beside the calls

    def order(self, order: Order) -> None:
        ready = max([self.now, *(t for t, _ in self.orders)]) + (
            0.001 if order in self.stored else self.making(order)
        )
        self.orders.append((ready, order))
        self.ordered.append(order)

    def finished(self) -> Sequence[Made]:
        out = []
        while self.orders and self.orders[0][0] <= self.now:
            order = self.orders.popleft()[1]
            why = self.broken(order)
            was = order in self.stored
            self.stored.add(order)
            out.append(
                Made(
                    order,
                    None if why else Code(order.shape, order.tier),
                    self.making(order),
                    self.size(order),
                    why,
                    was,
                )
            )
        return out

    def has(self, order: Order) -> bool:
        return order in self.stored

    def discard(self, order: Order) -> None:
        self.stored.discard(order)

    def busy(self) -> int:
        return len(self.orders)

    def close(self) -> None:
        self.orders.clear()

    # a referee

    def trial(self, shape: Shape, now: Any, new: Any) -> Verdict:
        order = Order(new.shape, new.tier)
        if self.wrong(order):
            return Verdict(0.0, 0.0, False, "output 0 differs")
        seconds = self.promised or self.seconds
        return Verdict(seconds(shape, GENERIC if now is None else now.tier), seconds(shape, new.tier))


def manager(
    world: World, *, dwell: float = 1.0, budget: int = 1 << 20, highest: int = 2, window: int = 4096
) -> Manager:
    """The rules over that world."""
    return Manager(
        world,
        world,
        world,
        thresholds=Thresholds(dwell=dwell),
        cache=CodeCache(budget),
        window=Window(window, 2),
        highest=highest,
        clock=lambda: world.now,
        pause=lambda: None,
    )


def serve(world: World, m: Manager, trace: Sequence[Shape], every: int = 50) -> float:
    """Call the trace with a step of the rules after so many calls; seconds of all calls."""
    total = 0.0
    for i, shape in enumerate(trace):
        total += world.call(shape)
        if i % every == every - 1:
            m.step()
    return total


def half(shape: Shape, tier: int) -> float:
    """Each tier above the table's takes half of the one below: 1 ms, 0.5 ms, 0.25 ms."""
    return 1e-3 / 2 ** max(0, tier - 1)
