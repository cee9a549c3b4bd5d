"""Code made by worker processes, and a real dispatcher whose tiers change under its callers."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from autosched.tiers import (
    GENERIC,
    SPECIALISED,
    TUNED,
    CodeCache,
    Dispatched,
    Made,
    Manager,
    Order,
    Shape,
    Thresholds,
    Tiers,
    Trials,
    Verdict,
    Workshop,
    cycle_of,
)
from autosched.tiers import manager as rules
from autosched.tiers.dispatched import arrays_of
from autosched.tiers.trial import compare
from autosched.tiers.window import Window
from tensorlang import te


def rows(m: Any, n: int = 24) -> list[te.Tensor]:
    """B = 2 A + the row's number, so that a kernel of another shape or a row left out shows."""
    a = te.placeholder((m, n), name="A")
    return [a, te.compute((m, n), lambda i, j: a[i, j] * 2.0 + te.cast("float32", i), name="B")]


def right(a: Any) -> Any:
    return a * 2 + np.arange(len(a), dtype=np.float32)[:, None]


def waited(workshop: Workshop, n: int = 1) -> list[Made]:
    made: list[Made] = []
    for _ in range(6000):
        made += workshop.finished()
        if len(made) >= n:
            return made
        time.sleep(0.01)
    raise AssertionError("nothing was made for a minute")


@pytest.fixture(scope="module")
def dynamic() -> list[te.Tensor]:
    return rows(te.dim("m", 0, 64))


@pytest.fixture(scope="module")
def generic(dynamic: list[te.Tensor]) -> tl.Module:
    return tl.compile(dynamic)


@pytest.fixture(scope="module")
def workshop(dynamic: list[te.Tensor], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    made = Workshop(dynamic, ["m"], directory=tmp_path_factory.mktemp("kernels"), trials=3)
    yield made
    made.close()


def test_code_of_a_shape_and_its_file(workshop: Workshop, dynamic: list[te.Tensor]) -> None:
    order = Order((5,), SPECIALISED)
    assert not workshop.has(order)
    workshop.order(order)
    assert workshop.busy() == 1
    (made,) = waited(workshop)
    assert (
        made.order == order
        and not made.why
        and not made.stored
        and made.size > len(made.module.object_code)
        and made.seconds > 0
    )
    a = np.random.default_rng(0).integers(-9, 9, (5, 24)).astype(np.float32)
    assert (made.module(a) == right(a)).all()
    with pytest.raises(tl.CallError):
        made.module(a[:4])
    other = Workshop(dynamic, ["m"], directory=workshop.shelf.directory)  # as in a later run
    assert other.has(order) and not other.has(Order((6,), SPECIALISED)) and not other.has(Order((5,), TUNED))
    other.order(order)
    (again,) = waited(other)
    assert again.stored and (again.module(a) == right(a)).all() and not other.misses
    other.discard(order)
    assert not workshop.has(order)
    other.close()


def test_searched_code_begins_at_the_specialised_and_keeps_its_records(workshop: Workshop) -> None:
    workshop.order(Order((40,), TUNED))
    (made,) = waited(workshop)
    assert not made.why
    a = np.random.default_rng(0).integers(-9, 9, (40, 24)).astype(np.float32)
    assert (made.module(a) == right(a)).all()
    lines = [line for f in workshop.shelf.directory.glob("*.jsonl") for line in f.read_text().splitlines()]
    assert len(lines) >= 3


def test_what_cannot_be_made_says_why(dynamic: list[te.Tensor]) -> None:
    shop = Workshop(dynamic, ["m"], constants={"A": np.zeros((5, 24), np.float32)})
    shop.order(Order((4,), SPECIALISED))
    shop.order(Order((5,), SPECIALISED))
    first, second = waited(shop, 2)
    assert first.module is None and first.why == "build_error: constant `A` is float32[5, 24]"
    assert second.module is not None, "the next one is made all the same"
    shop.close()


def test_shapes_beyond_the_range_are_not_taken(generic: tl.Module) -> None:
    served = Dispatched(tl.Dispatcher(generic, [generic]), lambda shape: GENERIC, 1e-9)
    assert served.takes((0,)) and served.takes((64,)) and not served.takes((65,)) and not served.takes((-1,))


def test_a_torn_file_is_made_anew_and_counted(workshop: Workshop) -> None:
    order = Order((7,), SPECIALISED)
    workshop.order(order)
    waited(workshop)
    (file,) = [
        f
        for f in workshop.shelf.directory.glob("*.kernel")
        if f.stat().st_mtime == max(g.stat().st_mtime for g in workshop.shelf.directory.glob("*.kernel"))
    ]
    file.write_bytes(file.read_bytes()[:1000])
    workshop.order(order)
    (made,) = waited(workshop)
    assert made.module is not None and not made.stored
    assert workshop.misses == {"its contents do not match its hash: the file is torn or was changed": 1}


def test_constants_are_baked_in_and_their_memory_is_counted_once(tmp_path: Path) -> None:
    m = te.dim("m", 0, 64)
    x, w = te.placeholder((m, 16), name="X"), te.placeholder((16, 8), name="W")
    k = te.reduce_axis((0, 16), "k")
    y = te.compute((m, 8), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="Y")
    weights = np.random.default_rng(1).integers(-4, 5, (16, 8)).astype(np.float32)
    shop = Workshop([x, w, y], ["m"], constants={"W": weights}, directory=tmp_path)
    shop.order(Order((4,), SPECIALISED))
    shop.order(Order((9,), SPECIALISED))
    a, b = waited(shop, 2)
    data = np.random.default_rng(2).integers(-4, 5, (9, 16)).astype(np.float32)
    assert (a.module(data[:4]) == data[:4] @ weights).all() and (b.module(data) == data @ weights).all()
    assert a.shared and sum(a.shared.values()) == sum(c.nbytes for c in a.module.constants.values())
    other = Workshop([x, w, y], ["m"], constants={"W": weights + 1}, directory=tmp_path)
    assert shop.has(Order((4,), SPECIALISED)) and not other.has(Order((4,), SPECIALISED)), (
        "other weights, other code"
    )
    shop.close()
    other.close()


def test_closing_gives_up_what_is_being_made(dynamic: list[te.Tensor]) -> None:
    shop = Workshop(dynamic, ["m"], trials=10_000)
    directory = shop.shelf.directory
    shop.order(Order((33,), TUNED))
    time.sleep(0.3)
    shop.close()
    assert not directory.exists()
    with pytest.raises(tl.TensorLangError, match="closed"):
        shop.order(Order((33,), TUNED))


class Pleased:
    """A referee to whom everything new that is right is twice as fast."""

    def trial(self, shape: Shape, now: Any, new: Any) -> Verdict:
        inputs, outputs = arrays_of(new)
        new(*inputs, *outputs)
        ok = bool((outputs[0] == right(inputs[0])).all())
        return Verdict(2e-3, 1e-3, ok, "" if ok else "output 0 differs")


def test_a_hot_shape_of_a_real_kernel_climbs(generic: tl.Module, workshop: Workshop) -> None:
    kernel = tl.Dispatcher(generic, [generic])
    served = Dispatched(
        kernel, lambda shape: GENERIC, cycle=1e-3
    )  # as if a cycle were that long: every call is worth a promotion
    a = np.random.default_rng(0).integers(-9, 9, (11, 24)).astype(np.float32)
    with Tiers(Manager(served, workshop, Pleased(), thresholds=Thresholds(dwell=0.0))) as tiers:
        for _ in range(6000):
            assert (kernel(a) == right(a)).all()
            if tiers.manager.published:
                break
            time.sleep(0.01)
        assert kernel.published.keys() == {(11,)}
        before = tiers.stats().hits[SPECIALISED]
        for _ in range(20):
            assert (kernel(a) == right(a)).all()
        tiers.step()
        stats = tiers.stats()
        assert (
            stats.hits[SPECIALISED] >= before + 20
            and stats.promotions == {SPECIALISED: 1}
            and stats.bytes > 0
        )
        text = str(stats)
        assert "promotions to specialised" in text and "latency p50 / p90 / p99" in text
    # the workshop is closed with its tiers; what is published stays
    assert (kernel(a) == right(a)).all()
    workshop._closed = False  # this one is shared by the tests of this file
    workshop._pid = 0


class Library:
    """Makes code at once: loaded anew each time, so that code comes and goes. Now and then it has none."""

    def __init__(self, files: dict[Shape, Path], seed: int = 0) -> None:
        self.files, self.random, self.misses = files, random.Random(seed), Counter[str]()
        self.orders: list[Order] = []

    def order(self, order: Order) -> None:
        self.orders.append(order)

    def finished(self) -> Sequence[Made]:
        orders, self.orders = self.orders, []
        lucky = [o for o in orders if o.shape in self.files and self.random.random() < 0.9]
        return [
            Made(
                o,
                tl.load(self.files[o.shape]) if o in lucky else None,
                1e-6,
                self.random.randrange(1000, 3000),
                "no luck",
            )
            for o in orders
        ]

    def has(self, order: Order) -> bool:
        return False

    def discard(self, order: Order) -> None:
        raise AssertionError("what it makes is right")

    def busy(self) -> int:
        return len(self.orders)

    def close(self) -> None:
        self.orders = []


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
@pytest.mark.parametrize("seconds", [1.5, pytest.param(60.0, marks=pytest.mark.fuzz)])
def test_eight_threads_while_tiers_swap(
    seconds: float, generic: tl.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random shapes from eight threads, each answer checked to the bit, while code is published, replaced,
    evicted and demoted as fast as it goes."""
    files = {}
    for m in range(1, 9):
        files[m,] = tmp_path / f"{m}.kernel"
        tl.compile(rows(m)).save(files[m,])
    kernel = tl.Dispatcher(generic, [generic])
    manager = Manager(
        Dispatched(kernel, lambda shape: GENERIC, cycle=1e-3),
        Library(files),
        Pleased(),
        thresholds=Thresholds(dwell=0.0, low=0.0),
        cache=CodeCache(6000),
        window=Window(64, 2),
        parallel=4,
        pause=lambda: None,
    )
    monkeypatch.setattr(rules, "ENOUGH", 1 << 30)  # how fast it really is does not matter here
    stop = threading.Event()
    wrong: list[Any] = []
    calls = [0] * 8

    def call(i: int) -> None:
        rng = random.Random(i)
        arrays = {
            m: np.random.default_rng(m + 100 * i).integers(-9, 9, (m, 24)).astype(np.float32)
            for m in range(13)
        }
        answers = {m: right(a) for m, a in arrays.items()}
        out = {m: np.empty_like(a) for m, a in arrays.items()}
        while not stop.is_set():
            favourite = rng.randrange(13)
            for _ in range(200):
                m = favourite if rng.random() < 0.5 else rng.randrange(13)
                out[m].fill(-1)
                kernel(arrays[m], out[m])
                if not np.array_equal(out[m], answers[m]):
                    wrong.append((i, m))
                    return
                calls[i] += 1

    threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(8)]
    for t in threads:
        t.start()
    begin, early = time.monotonic(), 0
    try:
        while (
            (time.monotonic() < begin + seconds or manager.stats().promotions[SPECIALISED] < 12)
            and not wrong
            and time.monotonic() < begin + 2 * seconds + 30
        ):
            manager.step()
            assert manager.cache.bytes <= 6000
            for shape in random.sample(sorted(manager.published), min(1, len(manager.published))):
                if random.random() < 0.2:
                    manager._retire(shape, manager.clock())
            if not early and time.monotonic() > begin + seconds / 4:
                gc.collect()
                early = resident()
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong and min(calls) > 0
    stats = manager.stats()
    assert stats.promotions[SPECIALISED] >= 12
    for shape in list(manager.published):
        manager._retire(shape, 0.0)
    assert kernel.collect() == 0, "nobody is inside, so everything that was replaced is gone"
    gc.collect()
    if seconds > 30:  # long enough that a leak is more than the noise
        assert resident() - early < 32 << 20, "code that was replaced is freed"


def test_trials_tell_right_from_wrong_and_fast_from_slow(generic: tl.Module) -> None:
    exact = tl.compile(rows(16))
    inputs, outputs = arrays_of(exact)
    assert compare(generic, exact, inputs, outputs).right
    bad = tl.compile(
        [a := te.placeholder((16, 24), name="A"), te.compute((16, 24), lambda i, j: a[i, j] * 2.0, name="B")]
    )
    assert compare(generic, bad, inputs, outputs).why == "output 0 differs from that of the kernel in use"
    verdict = compare(generic, exact, inputs, outputs, lambda kernel, arrays: 1.0 if kernel is exact else 4.0)
    assert verdict.ratio == 0.25 and verdict.now == 4.0
    turns = iter(range(100))
    lucky = compare(
        generic,
        exact,
        inputs,
        outputs,
        lambda kernel, arrays: 4.0 if kernel is generic else (1.0 if next(turns) < 4 else 5.0),
    )
    assert lucky.ratio >= 1.0, "it won four turns of seven: not enough"


def test_a_cycle_has_a_length(generic: tl.Module) -> None:
    twin = tl.Dispatcher(generic, [generic])
    a = np.zeros((64, 24), np.float32)
    assert 1e-11 < cycle_of(twin, (a, np.empty_like(a))) < 1e-7
    trials = Trials(twin)
    assert trials.trial((16,), None, tl.compile(rows(16))).right
