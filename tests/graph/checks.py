"""What is asked of random graphs: ``python -m tests.graph.checks passes|compiled|switches --count N --seed S``
asks it of many, each in a process that others watch.

``passes``: each pass by itself, and all together, keep what a graph computes, and do nothing to their own
result. ``compiled``: engines of every level give what te.reference gives, at several sizes, into arrays of the
caller, from a file, with an output fed back. ``switches``: so they do with each pass left out.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

import tensorlang as tl
from tensorlang.errors import TensorLangError
from tensorlang.graph import storage_types
from tensorlang.graph.passes import PASSES, REGIONS, simplified
from tests.fuzz import crew
from tests.plain import let_pass

from .random_branches import parts
from .random_graphs import Random, Reference, listed, random_graph

WITHOUT = (*(p.name for p in PASSES), REGIONS)
ENOUGH = 12  # rounds after which a pass must have come to rest


def size_of(seed: int) -> int:
    """Most are small, some have sixty operators."""
    return 5 + seed % (56 if seed % 8 == 0 else 16)


def passes(seed: int) -> None:
    """Raises AssertionError for a pass that changes what a graph computes, or its own result."""
    case = random_graph(seed, size_of(seed))
    g, which = case.graph, seed % len(case.sizes)
    reference = Reference(case.arrays(which))
    try:
        expected = reference(g)
    except TensorLangError:  # no program at these sizes
        return
    for p in PASSES:
        after = p.run(g)
        same = after is g and g.rest is None
        wrong = "" if same else case.differs(reference(after, p.run), expected, exact=p.level <= 1)
        assert not wrong, f"{p.name}: {wrong}"
        for part in parts(g):
            settled = p.run(part)
            for _ in range(ENOUGH):
                before, settled = settled, p.run(settled)
                if before is settled:
                    break
            assert before is settled, f"{p.name} does not come to rest"
    wrong = case.differs(reference(simplified(g), simplified), expected)
    assert not wrong, f"all passes: {wrong}"


def compiled(seed: int, levels: Sequence[int] = (0, 2), without: Sequence[str] = ()) -> None:
    """Raises AssertionError for an engine that gives something else than the operators one by one."""
    case = random_graph(seed, size_of(seed))
    few = 4 if seed % 2 else storage_types.FEW  # constants here are small
    for level in levels:
        with patch.object(storage_types, "FEW", few):
            engine = case.graph.compile(cache=False, workers=1, level=level, without=without)
        for which in range(len(case.sizes)):
            _called(case, engine, which, f"level {level}, sizes {case.sizes[which]}")
        if seed % 5 == 0 and level == levels[-1]:
            _saved(case, engine)
        if seed % 3 == 0 and level == levels[-1]:
            _fed_back(case, engine)


def _called(case: Random, engine: Any, which: int, how: str) -> None:
    arrays = case.arrays(which)
    given = [a.copy() for a in arrays]
    try:
        expected = Reference(arrays)(case.graph)
    except TensorLangError:
        expected = None
    try:
        found = listed(engine(*given))
    except TensorLangError:
        assert expected is None, f"{how}: refused, and should not be"
        return
    if expected is None:
        return
    wrong = case.differs(found, expected)
    assert not wrong, f"{how}: {wrong}"
    assert all(np.array_equal(a, b) for a, b in zip(arrays, given, strict=True)), (
        f"{how}: an input is changed"
    )
    for a in found:
        assert not any(np.shares_memory(a, b) for b in given), f"{how}: an output is the memory of an input"
    out = [np.full(a.shape, 1, a.dtype) for a in expected]
    made = listed(engine(*given, out=tuple(out) if len(out) > 1 else out[0]))
    wrong = case.differs(out, expected) or case.differs(made, expected)
    assert not wrong, f"{how}, out=: {wrong}"


def _saved(case: Random, engine: Any) -> None:
    with tempfile.TemporaryDirectory() as place:
        try:
            engine.save(f"{place}/k.engine")
        except TensorLangError:  # a model that calls Python
            assert any(n.kind != "te" for part in parts(case.graph) for n in part.nodes)
            return
        loaded = tl.Engine.load(f"{place}/k.engine", verify=True)
        _called(case, loaded, 0, "from a file")


def _fed_back(case: Random, engine: Any) -> None:
    """An output that may be an input of the next call, twice."""
    g = case.graph
    pairs = [
        (i, j)
        for i, a in enumerate(g.outputs)
        for j, b in enumerate(g.inputs)
        if a.dtype == b.dtype and list(map(id, a.shape)) == list(map(id, b.shape)) and a.data is None
    ]
    if not pairs or g.rest is not None or len(set(g.output_names)) < len(g.output_names):
        return
    i, j = pairs[case.seed % len(pairs)]
    bound = engine.bind({g.output_names[i]: g.inputs[j].name})
    arrays = case.arrays(0)
    try:
        first = Reference(arrays)(g)
        second = Reference([first[i] if k == j else a for k, a in enumerate(arrays)])(g)
    except TensorLangError:
        return
    if case.tolerance[i]:  # what is off goes in again, and may be rounded or compared there
        second = None
    bound.reset(**{g.inputs[j].name: arrays[j]})
    rest = [a for k, a in enumerate(arrays) if k != j]
    for expected in [first] if second is None else [first, second]:
        found = listed(bound(*rest)) if len(g.outputs) > 1 else [bound(*rest)][:0]
        found.insert(i, bound.state[g.inputs[j].name])
        wrong = case.differs(found, expected)
        assert not wrong, f"bound: {wrong}"


def switches(seed: int) -> None:
    """Each switch in turns."""
    name = WITHOUT[seed % len(WITHOUT)]
    try:
        compiled(seed // len(WITHOUT), levels=(2,), without=(name,))
    except Exception as e:
        raise AssertionError(f"without {name}: {type(e).__name__}: {e}") from e


CHECKS = {"passes": passes, "compiled": compiled, "switches": switches}


def one(seed: int, check: str) -> str:
    """What went wrong; empty when nothing did."""
    try:
        CHECKS[check](seed)
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:800]}"
    return ""


def main(argv: list[str] | None = None) -> int:
    let_pass()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(argv)
    ended: Counter[str] = Counter()
    start = time.perf_counter()
    work = functools.partial(one, check=options.check)
    seeds = range(options.seed, options.seed + options.count)
    for seed, result in crew.outcomes(work, seeds, options.jobs):
        wrong = result if isinstance(result, str) else result.why
        ended["wrong" if wrong else "right"] += 1
        if wrong:
            print(f"=== seed {seed}: {wrong}", flush=True)
        if ended.total() % 500 == 0:
            print(f"{time.perf_counter() - start:.0f} s, {ended.total()} graphs, {dict(ended)}", flush=True)
    print(dict(ended), f"{time.perf_counter() - start:.0f} s")
    return 1 if ended["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
