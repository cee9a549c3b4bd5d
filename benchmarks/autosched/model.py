"""Trains the cost model that the package ships, and says how good it is on tasks it has not seen. Knows
autosched.

The records that it was trained on are kept beside the results. 17,041 are candidates of 102 kinds of tasks on
one and on two threads of a Zen 4, timed in turns by three processes that did nothing else (``again``): what a
search proposed there, a third of it by chance, and what one on a Granite Rapids had proposed of 66 kinds.
4,679 are of that machine, of which today's spaces still hold 1,400. One process puts 91 % of pairs in the
order of the others, and 98 % of those that are 5 % apart: no model can be seen to know more (``ceiling``).

What is known of the gap between that and the 0.71 of held-out kinds: a quarter of the candidates of each kind
orders 0.672, all of them 0.676, half of the kinds 0.671, trees of eight levels for five 0.687, on the
features alone. Half of the candidates of a kind known beside all others, the other half is ordered 0.82 on
the Zen 4, and 0.84 by leaves of 5 candidates in 1,000 rounds (by how far apart: 0.61, 0.79, 0.87, 0.94 and
0.97, see ``GAPS``): the features tell the candidates of a known kind apart. What they do not tell is how a
kind that was never seen ranks its structures. 71 % of pairs are of two variants, and of those 5 to 25 % apart
72 % are in order; whole structures are wrong at once (a product of 1024 × 1024 by 64 that packs or not, 4 %
apart: 31 % in order; rows that are reduced one by one or in blocks). With the median of each variant given
0.78 are in order, 0.87 of those 10 to 25 % apart.

Comparing features with those usual for the task brought 0.002 by itself, places for times as what is learnt
nothing by itself, both together 0.025 (0.032 of those 5 % apart), and fused loops that are seen one by one
0.004. Without gain: ranking pairs as xgboost does it (0.686 to 0.690), weights of the parts of the estimate
fitted to the times (0.643 held out, the plain sum 0.646), lines that share a set of the first cache, rows
that no fetcher foresees, how often statements begin and wait for each other (0.711 with them, 0.714 without).

A tenth of the analysis' sum added to what the trees say brought 0.007 (0.011 of those 5 % apart), 0.002 where
the number of threads is held out, and 0.017 of nineteen operators of Ansor's suite on a Zen 5 (0.721 to
0.738; the best of five 0.939 to 0.962), of which and where nothing was learnt; a fifth and three tenths no
more. There, of pairs that are 10 % apart 84 % are in order, and 93 % when three quarters of a task's
candidates are known. What the trees alone mix up are above all candidates of one structure that they
themselves proposed: in the commonest of CAP, DIL and conv bn relu the ranks of their scores and of the times
correlate by 0.17, 0.05 and 0.22, those of the sum by 0.22, 0.58 and 0.61. Learning of 200 candidates of
each of these tasks as well brings nothing to other kinds (0.713); of the suite's own, a quarter held out in
its turn, 0.752 are in order then, the best of five are no better (0.962) and the first guess worse.

How far apart the wrong pairs are matters more than how many they are (``_weighed``): 82 % of pairs are those
on which three processes agree, of which 73 % are in order where 70 % of all are.

Nor (0.711 without any, 190 tasks on the Zen 4): how long chains of sums wait, with what the window of
instructions hides of it (0.712 to 0.715, the best of five 0.968 to 0.973 instead of 0.976), instructions
issued and loops left (0.709 to 0.714), differences from the median of a task's candidates (0.715 to 0.717,
the best of five 0.967 to 0.970), ranks in them (0.716, 0.970), costs that may only rise (0.711), trees of six
levels in leaves of 60 (0.707), 600 slower rounds (0.711), a third of the features for a split (0.702);
differences alone 0.699, sums of the parts alone 0.677. A network of two layers that ranks pairs: 0.713 of the
pairs of 56 tasks where the trees have 0.737, and both together 0.736; one that corrects the cost of each
statement by itself and adds them up 0.689 where the trees have 0.722, together 0.716.
"""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cost_model import XGBModel, pairwise_accuracy, top_share
from autosched.cost_model.xgb import SHIPPED
from autosched.records import Record
from autosched.records.database import load
from autosched.tuning.warm_start import features_of

from . import cases, samples

MEASURED = (0, 16, 32)  # candidates of the held-out task that are known
APART = 0.05  # measurements repeat to within a few percent: pairs that are nearer are also left out
PARTS = 7
# by how much the slower of two takes longer: a pair that is hardly apart is not worth what a wide one is
GAPS = (0.0, 0.02, 0.05, 0.10, 0.25, float("inf"))

Groups = dict[str, tuple[Any, Any]]


def groups(records: Path, held_out: Path | None) -> tuple[Groups, Groups]:
    """Features and costs of the tasks to learn from, and of the cases that the tuner is judged by."""
    known, seen = (
        records_of(records),
        records_of(held_out) if held_out is not None and held_out.exists() else [],
    )
    mine: dict[tuple[str, str], list[Record]] = {}
    for r in known:
        if r.name in samples.TASKS:
            mine.setdefault((r.name, r.target), []).append(r)
    with ProcessPoolExecutor() as processes:
        made = processes.map(_group, mine.items(), chunksize=2)
        train = {f"{name} on {target}": g for (name, target), g in zip(mine, made, strict=True)}
    test = {name: features_of(cases.task_of(name), seen) for name in cases.CASES} if seen else {}
    enough = lambda found: {n: g for n, g in found.items() if np.isfinite(g[1]).sum() > MEASURED[-1]}
    return enough(train), enough(test)


def _group(mine: tuple[tuple[str, str], list[Record]]) -> tuple[Any, Any]:
    (name, target), records = mine
    return features_of(samples.task_of(name, target), records)


def records_of(file: Path) -> list[Record]:
    """The records of a file, which may be packed by xz."""
    if file.suffix != ".xz":
        return load(file)[0]
    with tempfile.TemporaryDirectory() as place:
        unpacked = Path(place) / "records.jsonl"
        unpacked.write_bytes(lzma.decompress(file.read_bytes()))
        return load(unpacked)[0]


def train(learnt: Groups) -> None:
    """Write the file in the package."""
    model = XGBModel(0, start=None)
    model.learn(list(learnt.values()))
    model.save(SHIPPED)


def ceiling(records: Path) -> list[dict[str, Any]]:
    """How well the times of one process order candidates by those of all others: what is left for a model to
    know. A task each, with the mean of the processes."""
    times: dict[str, list[tuple[float, ...]]] = {}
    for r in records_of(records):
        if r.ok:
            times.setdefault(f"{r.name} on {r.target}", []).append(r.times)
    found = []
    for name, mine in times.items():
        processes = min(map(len, mine))
        if len(mine) < MEASURED[-1] or processes < 2:
            continue
        table = np.array([t[:processes] for t in mine])
        each = [
            _ranked(-table[:, k], np.median(np.delete(table, k, axis=1), axis=1), 0) for k in range(processes)
        ]
        found.append({"task": name, "held out": "a process"} | _means(each))
    return found


def judge(learnt: Groups, test: Groups) -> list[dict[str, Any]]:
    """Accuracy on each task: by the analysis alone; when its kind was held out on every target, a seventh of
    the kinds in each turn; when all of its target's number of threads were; and of the cases in ``test``
    after all of ``learnt``."""
    kind, target = (lambda n: n.split(" on ")[0]), (lambda n: n.split(" on ")[1])
    kinds, targets = (list(dict.fromkeys(map(of, learnt))) for of in (kind, target))
    found = _judged("nothing learnt", {}, learnt)
    for part in range(PARTS):
        mine = kinds[part::PARTS]
        found += _split("kinds", learnt, lambda n, mine=mine: kind(n) in mine)  # type: ignore[misc]
    for mine in targets if len(targets) > 1 else []:
        found += _split("threads", learnt, lambda n, mine=mine: target(n) == mine)  # type: ignore[misc]
    return found + (_judged("case", learnt, test) if test else [])


def _split(why: str, groups: Groups, held: Callable[[str], bool]) -> list[dict[str, Any]]:
    return _judged(
        why, {n: g for n, g in groups.items() if not held(n)}, {n: g for n, g in groups.items() if held(n)}
    )


def _judged(why: str, learnt: Groups, test: Groups) -> list[dict[str, Any]]:
    model = XGBModel(0, start=None)
    if learnt:
        model.learn(list(learnt.values()))
    return [{"task": n, "held out": why} | _score(model, *g) for n, g in test.items()]


def _score(model: XGBModel, features: Any, costs: Any) -> dict[str, float]:
    order = np.random.default_rng(0).permutation(len(costs))
    found: dict[str, float] = {}
    base = model.base
    for n in MEASURED:
        model.base, model.own = base, None
        if n:
            model.fit(features[order[:n]], costs[order[:n]])
        rest = [i for i in order[n:] if np.isfinite(costs[i])]
        found |= _ranked(model.predict(features[rest]), costs[rest], n)
    return found


def _ranked(scores: Any, seconds: Any, n: int) -> dict[str, float]:
    """What scores are worth after ``n`` measurements; before any, also by how far the pairs are apart, where
    there are such pairs."""
    found = {
        f"pairs after {n}": pairwise_accuracy(scores, seconds),
        f"apart after {n}": pairwise_accuracy(scores, seconds, APART),
        f"weighed after {n}": _weighed(scores, seconds),
        f"best of 5 after {n}": top_share(scores, seconds, 5),
        f"first after {n}": top_share(scores, seconds, 1),
    }
    if n:
        return found
    a, b = np.triu_indices(len(seconds), 1)
    longer = np.maximum(seconds[a], seconds[b]) / np.minimum(seconds[a], seconds[b]) - 1.0
    return found | {
        _gap(low, high): pairwise_accuracy(scores, seconds, low, high)
        for low, high in pairwise(GAPS)
        if ((longer > low) & (longer <= high)).any()
    }


def _weighed(scores: Any, seconds: Any) -> float:
    """The share of pairs in order, each as much as it matters: by the logarithm of how many times longer the
    slower one takes. Pairs that noise decides hardly count, and no line is drawn between them and others."""
    a, b = np.triu_indices(len(seconds), 1)
    apart = np.log(seconds[a] / seconds[b])
    right = (np.sign(scores[b] - scores[a]) * np.sign(apart) + 1) / 2
    whole = np.abs(apart).sum()
    return float((right * np.abs(apart)).sum() / whole) if whole else 1.0


def _gap(low: float, high: float) -> str:
    return f"over {100 * low:g} %" if high == GAPS[-1] else f"{100 * low:g} to {100 * high:g} %"


def _means(found: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of each figure over all that have it."""
    keys = dict.fromkeys(k for f in found for k in f if k not in ("task", "held out"))
    return {k: float(np.mean([f[k] for f in found if k in f])) for k in keys}


def table(found: list[dict[str, Any]]) -> str:
    """Means over the tasks, for each way of holding out."""
    means = {
        kind: (len(mine), _means(mine))
        for kind in dict.fromkeys(f["held out"] for f in found)
        for mine in [[f for f in found if f["held out"] == kind]]
    }
    keys = dict.fromkeys(k for _, m in means.values() for k in m)
    lines = [f"{'held out':<16}{'tasks':>6}" + "".join(f"{k:>20}" for k in keys)]
    for kind, (n, m) in means.items():
        cells = [f"{m[k]:>20.3f}" if k in m else f"{'–':>20}" for k in keys]
        lines.append(f"{kind:<16}{n:>6}" + "".join(cells))
    return "\n".join(lines)
