"""The task of which the weighted sum of times is expected to fall fastest: equation 7 of Zheng et al.,
"Ansor: Generating High-Performance Tensor Programs for Deep Learning", OSDI 2020, section 6 and appendix A.
Knows progress only.

With g the best time of a task, t the batches spent on it, C its operations and V the speed other tasks of its
kind have reached,

    ∂f/∂t ≈ w · (α · (g(t) - g(t - Δt)) / Δt + (1 - α) · min(-g(t) / t, β · C / max V - g(t)))

The first part is how it went lately; the second is the hope that so much again brings as much again, or that
it gets as fast as similar tasks, whichever promises more. A share ε of the choices is random.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .progress import Progress


@dataclass
class Gradient:
    """α, β, Δt and ε as the paper's implementation has them."""

    seed: int = 0
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    epsilon: float = 0.05
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def choose(self, tasks: list[Progress], open_: list[int]) -> int:
        """Each task once, then the steepest."""
        draw = self.rng.random()  # drawn always, so that a choice does not move those after it
        untried = [i for i in open_ if not tasks[i].begun]
        if untried:
            return untried[0]
        if draw < self.epsilon:
            return open_[int(draw / self.epsilon * len(open_))]
        return min(open_, key=lambda i: (self.gradient(tasks, i), tasks[i].begun, i))

    def gradient(self, tasks: list[Progress], i: int) -> float:
        """∂f/∂t of one task: seconds per batch, negative when it is expected to get faster."""
        task = tasks[i]
        now, spent = task.best, max(1, task.begun)
        speeds = [
            t.flops / t.best
            for j, t in enumerate(tasks)
            if j != i and t.kind == task.kind and t.best < float("inf")
        ]
        fastest = max(speeds, default=0.0)
        if now == float("inf"):
            # nothing works yet: what similar tasks make likely, less the more was tried in vain
            typical = max((t.weight * t.best for t in tasks if t.best < float("inf")), default=1.0)
            return -typical / spent**2
        before = task.bests[max(0, len(task.bests) - 1 - self.window)]
        steps = min(self.window, len(task.bests) - 1)
        lately = (now - before) / steps if steps and before < float("inf") else -now / spent
        hope = -now / spent
        if fastest:
            hope = min(hope, self.beta * task.flops / fastest - now)
        return task.weight * (self.alpha * lately + (1 - self.alpha) * hope)
