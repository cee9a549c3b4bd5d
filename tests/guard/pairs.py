"""The (graph, schedule) pair that a seed of the fuzzer gives, for those who ask other questions about it than
the fuzzer does."""

from __future__ import annotations

import random
from typing import Any

import tensorlang as tl
from tests.fuzz import check
from tests.fuzz.coverage import home_of, wish_of
from tests.fuzz.graphs import Graph, random_graph
from tests.fuzz.schedules import random_steps


def pair(
    seed: int, family: str | None = None, most: int = 15
) -> tuple[Graph, list[Any], list[Any], dict[str, tuple[int, int]], tl.Schedule]:
    """The graph, its arguments and outputs, the ranges of its inputs, and the schedule."""
    rng = random.Random(seed)
    wish = wish_of(seed)
    graph = random_graph(rng, family or home_of(wish, rng))
    args, outputs, ranges = check.declared(graph)
    s = check.schedule_of(outputs)
    random_steps(s, rng, most, wish)
    return graph, args, outputs, ranges, s
