"""Random graphs under random schedules, in chunks so that workers share them; and calls that are mostly
wrong.

``TENSORLANG_FUZZ_ROUNDS`` says how many more cases the test marked ``fuzz`` runs; ``python -m
tests.fuzz.run`` prints what they cover.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from tensorlang.errors import TensorLangError
from tests.fuzz.check import check, declared, schedule_of
from tests.fuzz.graphs import FAMILIES, random_graph
from tests.fuzz.schedules import Sampler, random_steps
from tests.fuzz.wrong import sequence

CHUNK = 52
CHUNKS, BY_DEFAULT = 40, 4
ROUNDS = int(os.environ.get("TENSORLANG_FUZZ_ROUNDS", "0"))


def some(all_, default):
    """The numbers of all chunks; those beyond the default run under ``make fuzz``."""
    return [pytest.param(n, marks=[pytest.mark.fuzz] * (n >= default)) for n in range(all_)]


@pytest.mark.parametrize("chunk", some(CHUNKS, BY_DEFAULT))
def test_random_schedules_of_random_graphs(chunk):
    """208 pairs, 2,000 by ``make fuzz``: each is compiled and compared with the reference, two of three
    interpreted, one of four verified after every pass."""
    compiled = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        compiled += check(seed, most=10, interpret=seed % 3 != 1, thorough=seed % 4 == 0).compiled > 0
    assert compiled >= 50, "nearly every case is small enough to be compiled"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    for n in range(6):
        check(100_000 + n, family=family, most=8)


@pytest.mark.fuzz
@pytest.mark.skipif(not ROUNDS, reason="TENSORLANG_FUZZ_ROUNDS is not set")
@pytest.mark.parametrize("chunk", range(max(1, ROUNDS // 50)))
def test_more(chunk, monkeypatch):
    monkeypatch.setenv("TENSORLANG_ISOLATE", "1")  # an abort of LLVM is a failure like others
    for n in range(50):
        check(1_000_000 + chunk * 50 + n)


@pytest.mark.parametrize("chunk", some(10, 4))
def test_wrong_calls_and_changed_traces_are_right_or_refused(chunk):
    """1,200 sequences, 3,000 by ``make fuzz``; a refused call or trace changes nothing."""
    ended = Counter()
    for seed in range(300 * chunk, 300 * chunk + 300):
        ended += sequence(seed)
    assert ended["calls refused"] > 200 and ended["traces refused"] > 30 and ended["right"] > 30


def test_can_answers_as_the_call_does():
    """``s.can`` and the call itself agree, and ``can`` changes nothing."""
    rng = random.Random(5)
    agreed = {True: 0, False: 0}
    for _ in range(40):
        _, outputs, _ = declared(random_graph(rng))
        s = schedule_of(outputs)
        random_steps(s, rng, 5)
        sampler = Sampler(s, rng)
        if not any(st.leaves for st in sampler.stages()):
            continue  # scalars alone
        for _ in range(6):
            st = sampler.stage_with_loops()
            loop = rng.choice(st.all_loops())
            name = rng.choice(("vectorize", "unroll", "parallel"))
            before = s.state
            verdict = s.can(name, st.name, loop)
            assert s.state is before
            try:
                getattr(s[st.name], name)(loop)
                done = True
            except TensorLangError:
                done = False
            assert bool(verdict) == done
            agreed[done] += 1
    assert min(agreed.values()) > 20
