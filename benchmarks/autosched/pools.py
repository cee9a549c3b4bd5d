"""Pools of measured candidates: what a search of many trials has measured of a task, in order. Strategies and
parts of the search are compared on them (see ``worlds``), and they say after how many trials a search was as
good as it would get. Knows autosched's parts.

Nothing is measured again at the end, as ``tune`` would: every candidate was looked at once. The pools that
are kept beside the results are of a Zen 5, two threads: 2,000 trials of each task of Ansor's suite. What a
search begins with was timed again by fresh processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autosched import RecordLog, SearchTask
from autosched.cost_model import XGBModel
from autosched.measure import Measurer, Stages
from autosched.records.database import load
from autosched.tuning.budget import Budget
from autosched.tuning.session import Session, measured

from .sprinkled import Sprinkled
from .suites import declared
from .worlds import Pool

SMALL, LARGE = 16, 64  # candidates of a round, and of one when there are hundreds to learn from
HUNDREDS = 256
TIMEOUT = 20.0  # seconds of a candidate


def gather(name: str, trials: int, seed: int, directory: Path, random: float) -> None:
    """Measure candidates of a task until its file has so many: as a search proposes them, of which a share is
    ``random``. What is in the file already counts."""
    directory.mkdir(parents=True, exist_ok=True)
    task, log = SearchTask.of(declared(name), name=name), RecordLog(directory / f"{name}.jsonl")
    log.open()
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        session = Session(task, log, Sprinkled(random), XGBModel(seed), seed, TIMEOUT)
        for most, batch in ((min(trials, HUNDREDS), SMALL), (trials, LARGE)):
            for _ in measured(measurer, Budget(most, batch, None, None).batches(session)):
                pass


def gathered(directory: Path) -> Iterator[Pool]:
    """The pools of a directory."""
    for file in sorted(directory.glob("*.jsonl")):
        yield Pool.of(file.stem, load(file)[0])
