"""Which code to give up when the cache is full: rules compared on traces by the seconds of compiling they
lead to.

``python -m benchmarks.dynamic.eviction`` replays 4000 calls of 300 shapes whose code differs in size (8 to
200 KB) and in what it costs to make (0.05 to 0.3 s, every tenth was tuned for 15 s). Each miss makes the code
again. Printed are the seconds over those of the best rule, for caches of a tenth and of three tenths of all
code. ``CodeCache`` is the one the tiers use; the others stand here to be compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autosched.tiers import SPECIALISED, CodeCache, Entry

SHAPES, CALLS, SEEDS = 300, 4000, 2
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, float], float]


def traces(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Shapes by number."""
    zipf = 1 / np.arange(1, SHAPES + 1) ** 1.1
    zipf /= zipf.sum()
    hot = rng.permutation(SHAPES)[rng.choice(SHAPES, CALLS, p=zipf)]
    scans = hot.copy()
    for at in range(0, CALLS, CALLS // 6):
        part = scans[at : at + SHAPES]
        part[:] = np.arange(len(part))
    return {
        "uniform": rng.integers(SHAPES, size=CALLS),
        "Zipf": hot,
        "log-normal": np.exp(rng.normal(math.log(SHAPES / 8), 0.6, CALLS)).astype(int).clip(0, SHAPES - 1),
        "phase change": np.concatenate(
            [rng.permutation(SHAPES)[rng.choice(SHAPES, CALLS // 4, p=zipf)] for _ in range(4)]
        ),
        "Zipf and scans": scans,
        "a loop": np.arange(CALLS) % (SHAPES // 3),
    }


def ours(trace: np.ndarray, size: np.ndarray, cost: np.ndarray, budget: float) -> float:
    """The cache of the tiers."""
    cache, spent = CodeCache(int(budget)), 0.0
    for now, i in enumerate(trace.tolist()):
        held = cache.find((i,))
        if held is not None:
            cache.used(held, float(now))
        else:
            spent += cost[i]
            cache.put(Entry((i,), SPECIALISED, None, int(size[i]), float(cost[i])), float(now))
    return spent


def by(worth: Callable[[dict[str, float], float, float, float], float], remembers: bool) -> Rule:
    """A rule that gives up what is worth least, by its uses (count, the last, the one before), size, cost and
    the time; ``remembers`` the uses of what is gone."""

    def run(trace: np.ndarray, size: np.ndarray, cost: np.ndarray, budget: float) -> float:
        used: dict[int, dict[str, float]] = {}
        held: set[int] = set()
        spent = total = 0.0
        for now, i in enumerate(trace.tolist()):
            seen = used.setdefault(i, {"count": 0.0, "last": -math.inf, "before": -math.inf})
            if i not in held and not remembers:
                seen.update(count=0.0, before=-math.inf, last=-math.inf)
            seen.update(count=seen["count"] + 1, before=seen["last"], last=float(now))
            if i in held:
                continue
            spent += cost[i]
            while held and total + size[i] > budget:
                worst = min(held, key=lambda x: worth({**used[x], "now": now}, size[x], cost[x], x))
                held.remove(worst)
                total -= size[worst]
            held.add(i)
            total += size[i]
        return spent

    return run


RULES: dict[str, Rule] = {
    "CodeCache": ours,
    "age·size/(uses·cost)": by(lambda u, s, c, x: -(u["now"] - u["last"]) * s / (u["count"] * c), False),
    "… uses remembered": by(lambda u, s, c, x: -(u["now"] - u["last"]) * s / (u["count"] * c), True),
    "LRU-2": by(lambda u, s, c, x: u["before"] if u["before"] > -math.inf else u["last"] - 1e9, True),
    "LRU": by(lambda u, s, c, x: u["last"], False),
}


def main() -> None:
    """Print the table."""
    logs: dict[str, list[float]] = {name: [] for name in RULES}
    print(f"{'seconds over the best rule':28}" + "".join(f"{name:>22}" for name in RULES))
    for share in (0.1, 0.3):
        sums: dict[str, dict[str, float]] = {}
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            size = np.exp(rng.uniform(math.log(8e3), math.log(200e3), SHAPES))
            cost = rng.uniform(0.05, 0.3, SHAPES)
            cost[rng.random(SHAPES) < 0.1] = 15.0
            for trace_name, trace in traces(rng).items():
                for name, rule in RULES.items():
                    row = sums.setdefault(trace_name, dict.fromkeys(RULES, 0.0))
                    row[name] += rule(trace, size, cost, share * size.sum())
        for trace_name, row in sums.items():
            best = min(row.values())
            print(
                f"{trace_name + f', {share:.0%} fit':28}"
                + "".join(f"{row[name] / best:22.2f}" for name in RULES)
            )
            for name in RULES:
                logs[name].append(math.log(row[name] / best))
    print(f"{'geometric mean':28}" + "".join(f"{math.exp(np.mean(v)):22.2f}" for v in logs.values()))


if __name__ == "__main__":
    main()
