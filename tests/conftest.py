"""Options of the whole suite."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# What is collected stays: no search for cycles in it, which takes a third of the time, until all is there.
gc.disable()

# The tests share the processors, and so do the processes that they start. Threads of a BLAS spin while they
# wait for each other: on a busy machine a search took twenty times as long for it.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
# Modules are compiled once and kept, also where the machine is told to keep nothing: a new interpreter, and tests
# begin more than a hundred, else takes two and a half times as long to its first kernel.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["TENSORLANG_CACHE"] = "0"  # kernels of tests are not those of users, see below
# Schedules that are chosen go by a table of costs, and golden texts hold some: the same on every machine.
os.environ.setdefault("TENSORLANG_COST", "generic")

from tensorlang.codegen.llvm import parallel  # noqa: E402
from tensorlang.runtime import set_num_threads  # noqa: E402
from tensorlang.workers import processes  # noqa: E402
from tests.each_value import leave_the_others  # noqa: E402
from tests.threshold import OF_USERS  # noqa: E402

# Tests are small, and their parallel loops are to run as such: every iteration is worth a part of its own.
# (tests/integration and tests/recipes run with what users have.)
assert OF_USERS > 1
parallel.PIECE = 1
# Every processor has tests of its own: a compiling process would take half a second from them to begin.
assert processes.WORTH > 1
processes.WORTH = 1 << 30


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_left_alone() -> None:
    """Tests that collect garbage, and there are hundreds of times, look through what their own file makes,
    not through six thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def limits_of_threads_end_with_their_file() -> Iterator[None]:
    """Benchmarks that tests call set one for the whole process, and torch's way back off."""
    yield
    set_num_threads(None)
    if "torch" in sys.modules:
        sys.modules["torch"].set_grad_enabled(True)


@pytest.fixture(scope="module")
def _numbers(request: pytest.FixtureRequest) -> list[tuple[np.random.Generator, Any]]:
    """The generators of random numbers that a file shares among its tests, and where each of them begins."""
    shared = vars(request.module).values()
    return [(g, g.bit_generator.state) for g in shared if isinstance(g, np.random.Generator)]


@pytest.fixture(autouse=True)
def numbers_do_not_depend_on_the_order(_numbers: list[tuple[np.random.Generator, Any]]) -> None:
    """A test meets the same numbers after others as alone."""
    for generator, begins in _numbers:
        generator.bit_generator.state = begins


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden",
        action="store_true",
        help="write the golden texts anew instead of comparing with them; read the diff",
    )
    parser.addoption(
        "--random-order",
        metavar="SEED",
        type=int,
        help="the files, and the tests of each, in an order of their own for each number",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("random_order")
    return None if seed is None else f"in random order: --random-order {seed}"


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        gc.enable()  # it hands tests out and collects none


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before those that ``-m`` leaves out are
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file's tests stay together, as what they share is made once a file. Files that take longest begin first:
    no process is left alone with one at the end."""
    leave_the_others(items)
    seed = config.getoption("random_order")
    if seed is None:
        long = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "tutorial")))}
        items.sort(key=lambda item: item.path not in long)
        return
    rng = random.Random(seed)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order = list(files.values())
    rng.shuffle(order)
    for tests in order:
        rng.shuffle(tests)
    items[:] = [item for tests in order for item in tests]
