"""How fast the search is, without and with measurement: candidates sampled, checked, featurised and scored
per second, and trials per second of the whole loop. Run: ``python benchmarks/search_speed.py [--trials 32]
[--size 512]``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched import SearchTask, tune
from autosched.cost_model import XGBModel
from autosched.search import Evolutionary, Seen, allocate
from autosched.space import variants_of
from autosched.templates import conv2d, matmul
from tensorlang import te

ROWS = 8192


def matmul_of(n: int) -> list[te.Tensor]:
    """C = A B, square."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def conv_of(c: int, f: int, h: int, w: int) -> list[te.Tensor]:
    """3 x 3, same padding."""
    data, weight = te.placeholder((1, c, h, w), name="data"), te.placeholder((f, c, 3, 3), name="weight")
    padded = te.compute(
        (1, c, h + 2, w + 2),
        lambda n, q, y, x: te.if_then_else(
            (y >= 1) & (y <= h) & (x >= 1) & (x <= w), data[n, q, y - 1, x - 1], te.const(0.0)
        ),
        name="padded",
    )  # type: ignore[operator]
    rc, ry, rx = te.reduce_axis((0, c), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    return [
        data,
        weight,
        te.compute(
            (1, f, h, w),
            lambda n, q, y, x: te.sum(
                padded[n, rc, y + ry, x + rx] * weight[q, rc, ry, rx], axis=[rc, ry, rx]
            ),
            name="out",
        ),
    ]


def seconds(f: Callable[[], Any], repeat: int = 7) -> float:
    """The shortest of several runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


class Counting:
    """Score functions that count their rows."""

    def __init__(self, scores: list[Callable[[Any], Any]]) -> None:
        self.rows = 0
        self.scores = [lambda rows, s=s: self._count(s, rows) for s in scores]

    def _count(self, score: Callable[[Any], Any], rows: Any) -> Any:
        self.rows += len(rows)
        return score(rows)


def speed(task: SearchTask) -> None:
    """The table of one task: its largest variant by itself, then a round over all of them."""
    start = time.perf_counter()
    variants = variants_of(task)
    v = max(variants, key=lambda v: v.size)
    print(
        f"{task.name}: {len(variants)} variants made in {time.perf_counter() - start:.3f} s, "
        f"the largest of {v.size:.3g} rows, {len(v.feature_names)} features"
    )
    rng = np.random.default_rng(0)
    rows = v.sample_valid(rng, ROWS)
    model = XGBModel()
    costs = np.exp2(rng.random(128))
    model.fit(v.features(rows[:128]), costs)
    table = v.features(rows)
    seen = Seen(len(v.domains))
    seen.add(rows[:128], costs)
    score = lambda r: model.predict(v.features(r))
    how = Evolutionary()
    evolved = how.population * (how.generations + 1)
    parts = [
        ("sample", ROWS, lambda: v.sample(rng, ROWS)),
        ("check limits", ROWS, lambda: v.valid(rows)),
        ("featurise", ROWS, lambda: v.features(rows)),
        ("predict (xgboost)", ROWS, lambda: model.predict(table)),
        ("featurise and score", ROWS, lambda: score(rows)),
        ("evolve, end to end", evolved, lambda: how.propose(v, 16, rng, score, seen)),
    ]
    if len(variants) > 1:
        every = [Seen(len(x.domains)) for x in variants]
        scores = [lambda rows, x=x: model.predict(x.features(rows)) for x in variants]
        counted = Counting(scores)
        allocate(variants, every, how, 16, rng, counted.scores)
        parts.append(
            (
                "a round over all variants",
                counted.rows,
                lambda: allocate(variants, every, how, 16, rng, scores),
            )
        )
    for what, n, f in parts:
        print(f"  {what:<22}{n / seconds(f):>12,.0f} candidates/s")


def main() -> None:
    """Both templates and the sketches of the same computations, then whole tunes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--size", type=int, default=512)
    given = parser.parse_args()
    task = SearchTask(matmul_of, (given.size,), template=matmul)
    speed(task)
    speed(SearchTask(conv_of, (64, 64, 56, 56), template=conv2d))
    speed(SearchTask(matmul_of, (given.size,)))
    speed(SearchTask(conv_of, (64, 64, 56, 56)))
    small = SearchTask(matmul_of, (256,), template=matmul)
    for t in (small, task, SearchTask(matmul_of, (given.size,))):
        result = tune(t, trials=given.trials, seed=1, progress=False)
        rate = result.measured / result.seconds
        print(
            f"{t.name}: {rate:.1f} trials/s, best {result.gflops:.1f} GFLOP/s, "
            f"{result.failures or 'no failures'}"
        )


if __name__ == "__main__":
    main()
