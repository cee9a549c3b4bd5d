"""Which primitives meet in one schedule: the table of pairs a run should make, which seed wishes for which,
and what was seen.

Pure tables: a seed alone decides its wish, so that any case can be run again without the others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import combinations_with_replacement, pairwise

from tensorlang.schedule.primitives import TABLE

Pair = tuple[str, str]
NAMES = tuple(p.name for p in TABLE)
PAIRS: tuple[Pair, ...] = tuple(
    combinations_with_replacement(NAMES, 2)
)  # a primitive with itself: twice in one schedule
LEAST = 50

#: Pairs that no legal schedule has, and why.
IMPOSSIBLE: dict[Pair, str] = {
    ("winograd", "winograd"): "no program has two convolutions",
    ("separate", "separate"): "no program has two reductions over windows",
    ("separate", "winograd"): "no program has windows with weights and windows without",
    ("separate", "tensorize"): "blocks that an intrinsic computes are no windows",
    ("separate", "precompute"): "no program has windows and terms",
    ("precompute", "winograd"): "no program has a convolution and terms",
    ("separate", "cache_windows"): "no program has windows with edges and windows without",
    ("precompute", "cache_windows"): "no program has windows and terms",
    ("cache_windows", "tensorize"): "blocks that an intrinsic computes are no windows",
    ("turn_sign", "winograd"): "no program has products of bytes and of floats",
    ("turn_sign", "separate"): "no program has products and windows without weights",
    ("turn_sign", "precompute"): "no program has products of bytes and terms",
    ("turn_sign", "cache_windows"): "no program has products of bytes and windows with edges",
    ("turn_sign", "tensorize"): "the blocks of an intrinsic are no products of bytes of one sign",
    ("turn_sign", "turn_sign"): "no program has two products of bytes",
    ("split_sum", "split_sum"): "no program has two products of bytes",
    ("split_sum", "winograd"): "no program has products of bytes and of floats",
    ("split_sum", "separate"): "no program has products and windows without weights",
    ("split_sum", "precompute"): "no program has products of bytes and terms",
    ("split_sum", "cache_windows"): "no program has products of bytes and windows with edges",
    ("split_sum", "tensorize"): "the blocks of an intrinsic have no zero points",
    ("split_choice", "split_choice"): "no program has two reducers that choose",
    ("split_sum", "split_choice"): "no program has products of bytes and a reducer that chooses",
    ("precompute", "tensorize"): "blocks that an intrinsic computes have no terms",
}

#: Families in which a primitive applies often; the first that a pair of primitives names is used for it.
HOMES: dict[str, tuple[str, ...]] = {
    "tensorize": ("blocks",),
    "rfactor": ("matmul", "reduction", "normalise", "argmax", "conv1d", "blocks"),
    "decompose_reduction": ("matmul", "reduction", "normalise", "pooling", "batch_matmul", "blocks"),
    "compute_inline": ("elementwise", "diamond", "stencil", "strided", "normalise"),
    "reverse_compute_at": ("elementwise", "matmul", "normalise", "stencil", "several"),
    "reverse_compute_inline": ("elementwise", "normalise", "several"),
    "double_buffer": ("stencil", "diamond", "normalise", "strided", "matmul"),
    "store_at": ("stencil", "diamond", "normalise", "strided", "matmul"),
    "compute_root": ("stencil", "diamond", "normalise", "elementwise"),
    "storage_align": ("stencil", "diamond", "elementwise", "strided", "extern"),
    "set_scope": ("stencil", "diamond", "normalise", "elementwise", "extern"),
    "separate": ("pooling",),
    "precompute": ("terms",),
    "cache_windows": ("windows",),
    "turn_sign": ("narrow",),
    "split_sum": ("narrow",),
    "split_choice": ("argmax",),
    "winograd": ("conv2d",),
    "transform_layout": ("stencil", "diamond", "elementwise", "conv2d", "matmul"),
}
#: Primitives that come about seldom: pairs that have one are pending_verdict for so many times as often; so are the
#: pairs of RARE.
HARD: dict[str, int] = {
    "tensorize": 4,
    "reverse_compute_at": 4,
    "reverse_compute_inline": 4,
    "storage_align": 2,
    "transform_layout": 2,
    "prefetch": 2,
    "set_scope": 2,
    "compute_inline": 2,
}
RARE: dict[Pair, int] = {
    ("tensorize", "tensorize"): 16,
    ("storage_align", "storage_align"): 6,
    ("storage_align", "prefetch"): 6,
    ("prefetch", "prefetch"): 6,
}


def wishes() -> tuple[Pair, ...]:
    """All pairs, hard ones several times, in an order that spreads them over the seeds."""
    out = [
        pair
        for pair in PAIRS
        if pair not in IMPOSSIBLE
        for _ in range(RARE.get(pair, max(HARD.get(name, 1) for name in pair)))
    ]
    random.Random(20).shuffle(out)
    return tuple(out)


WISHES = wishes()


def wish_of(seed: int) -> Pair:
    """The two primitives the case of that seed should have."""
    return WISHES[seed % len(WISHES)]


def home_of(wish: Pair, rng: random.Random) -> str | None:
    """A family where both primitives of a wish apply, or None: any."""
    for name in HOMES:
        if name in wish and (name == "tensorize" or rng.random() < 0.8):
            return rng.choice(HOMES[name])
    return None


def pairs_of(steps: Iterable[str]) -> set[Pair]:
    """The pairs of one schedule, each once, in the order of the table."""
    times = Counter(steps)
    return {(a, b) for a, b in PAIRS if times[a] and times[b] and (a != b or times[a] > 1)}


def report(cases: Iterable[Iterable[str]]) -> str:
    """The table of pairs (cases in which both were made), and those below LEAST with what is known about
    them."""
    single: Counter[str] = Counter()
    pairs: Counter[Pair] = Counter()
    follow: Counter[Pair] = Counter()
    for case in cases:
        steps = list(case)
        single.update(set(steps))
        pairs.update(pairs_of(steps))
        follow.update(pairwise(steps))
    few = [p for p in PAIRS if pairs[p] < LEAST]
    lines = [
        "primitives (cases that have it): " + "  ".join(f"{n} {single[n]}" for n in NAMES),
        f"unordered pairs: {len(PAIRS)}; {len(PAIRS) - len(few)} of them in {LEAST} cases or more, "
        f"{sum(p in IMPOSSIBLE for p in few)} impossible, {sum(p not in IMPOSSIBLE for p in few)} possible but seen less",
        f"direct successions: {len(follow)} of {len(NAMES) ** 2} seen",
        " " * 20 + " ".join(f"{n[:5]:>5}" for n in NAMES),
    ]
    lines += [
        f"{a:<20}" + " ".join(f"{pairs[a, b] if (a, b) in pairs else pairs[b, a]:>5}" for b in NAMES)
        for a in NAMES
    ]
    lines += [
        f"below {LEAST}: {a} + {b}: {pairs[a, b]}"
        + (f" (impossible: {IMPOSSIBLE[a, b]})" if (a, b) in IMPOSSIBLE else "")
        for a, b in few
    ]
    return "\n".join(lines)
