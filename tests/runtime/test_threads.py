"""The thread pool: every element once, under limits, nesting and forks; the caller's affinity and
floating-point mode. No times are asserted."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tensorlang.errors import TensorLangError
from tensorlang.runtime import num_threads, set_num_threads, threads
from tests.fresh import python

from . import kernels

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the pool is for Linux")


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No more threads run than there are processors: here the pool believes in eight, so that all it can do
    happens anywhere."""
    monkeypatch.setattr(threads, "processors", lambda: 8)
    yield
    monkeypatch.undo()
    set_num_threads(None)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 40])
def test_every_element_once(count: int, short: bool) -> None:
    set_num_threads(count)
    f = kernels.counter(short=short)
    for n in (0, 1, 2, 3, 7, 64, 1001):
        x = np.zeros(n, np.int64)
        for _ in range(20):
            f(x)
        assert (x == 20).all()


@pytest.mark.parametrize("short", [False, True])
def test_nested_regions_run_inline(short: bool) -> None:
    set_num_threads(4)
    f = kernels.counter("nested", short)
    x = np.zeros(1000, np.int64)
    for _ in range(500):
        f(x)
    assert (x == 500).all()


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("count", "times"), [(2, 100_000), (3, 20_000), (8, 3_000)])
def test_many_tiny_regions(count: int, times: int, short: bool) -> None:
    set_num_threads(count)
    x = np.zeros(16, np.int64)
    kernels.counter("repeated", short)(x, times)
    assert (x == times).all()


def test_regions_of_some_length() -> None:
    """Parts long enough that the workers really take them, with sleeping workers and a sleeping caller on the
    way."""
    set_num_threads(3)
    x = np.zeros(300_000, np.int64)
    kernels.counter("repeated")(x, 200)
    assert (x == 200).all()


@linux
@pytest.mark.parametrize("n", [9, 12, 20, 28, 31, 1001])
def test_threads_have_as_many_iterations(n: int) -> None:
    """Parts that are longer by one stood in front, and were one thread's: of 28 iterations it had 16."""
    set_num_threads(2)
    x = np.zeros(n, np.int64)
    kernels.counter("lengths")(x)
    lengths = x[x > 0]
    assert len(lengths) == 8 and lengths.sum() == n
    assert abs(lengths[:4].sum() - n / 2) < 1


def test_limits_change_between_regions() -> None:
    f = kernels.counter()
    x = np.zeros(999, np.int64)
    for k in range(200):
        set_num_threads(1 + k % 7)
        f(x)
    assert (x == 200).all()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "from 1 to 1024"),
        (10_000, "from 1 to 1024"),
        (-1, "from 1 to"),
        (2.5, "not a float"),
        ("two", "not a str"),
        (True, "not a bool"),
    ],
)
def test_bad_limits(count: object, text: str) -> None:
    before = num_threads()
    with pytest.raises(TensorLangError, match=text):
        set_num_threads(count)  # type: ignore[arg-type]
    assert num_threads() == before


@pytest.mark.parametrize("value", ["0", "10000", "two", "-1", "2.5", "²"])
def test_bad_limit_in_the_environment(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NUM_THREADS", value)
    with pytest.raises(TensorLangError, match="TENSORLANG_NUM_THREADS"):
        num_threads()


def test_limit_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NUM_THREADS", "3")
    assert num_threads() == 3
    set_num_threads(2)
    assert num_threads() == 2


def test_scratch_memory() -> None:
    f = kernels.scratch()
    c = np.ones(1, np.int64)
    for n in (0, 1, 63, 64, 65, 10**6):
        f(n, c)
        assert c[0] == 0  # on a cache line
    for n in (-1, 2**62):
        with pytest.raises(MemoryError, match="scratch"):
            f(n, c)


def run(script: str, processors: str = "lambda: 8") -> str:
    """The output of a script in a process of its own that must end by itself."""
    head = f"""
import os, sys, threading, time
import numpy as np
from tests.runtime import kernels
from tensorlang.runtime import *
from tensorlang.runtime import threads as pool
pool.processors = {processors}
"""
    done = python(head + script)
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux
def test_the_default_honours_affinity() -> None:
    assert (
        run(
            "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint(num_threads())", "pool.processors"
        )
        == "1\n"
    )


@linux
def test_no_more_threads_run_than_there_are_processors() -> None:
    """Asked for eight on two: eight parts or more, one worker beside the caller."""
    script = """
set_num_threads(8); f = kernels.counter("repeated"); x = np.zeros(1000, np.int64)
before = len(os.listdir("/proc/self/task")); f(x, 100)
print(len(os.listdir("/proc/self/task")) - before, x.sum())
"""
    assert run(script, "lambda: 2") == "1 100000\n"


@linux
def test_affinity_reaches_workers_that_slept() -> None:
    """A woken worker goes where its caller may go: here where only one processor is left to both."""
    script = """
set_num_threads(2); f = kernels.counter("repeated"); x = np.zeros(100_000, np.int64)
before = set(os.listdir("/proc/self/task")); f(x, 100)
(worker,) = set(os.listdir("/proc/self/task")) - before
all = os.sched_getaffinity(0)
for _ in range(20):
    time.sleep(0.01); f(x, 50)
for _ in range(1000):
    if os.sched_getaffinity(int(worker)) == all: break
    time.sleep(0.001)
print(os.sched_getaffinity(int(worker)) == all, x[0])
os.sched_setaffinity(0, {min(all)}); time.sleep(0.01); f(x, 50); print((x == 1150).all(), os.sched_getaffinity(int(worker)) == {min(all)})
"""
    assert run(script) == "True 1100\nTrue True\n"


@linux
@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="the kernel sets the control word of x86"
)
def test_the_callers_floating_point_mode() -> None:
    """Two threads that surely both run: subnormals kept or flushed and sums rounded as the caller has it, one
    region after the other."""
    set_num_threads(2)
    f, out = kernels.float_mode(), np.zeros(4, np.float32)
    tiny, above = np.float32(2.0) ** -127, np.nextafter(np.float32(1), np.float32(2))
    for mode, expected in (
        (0x1F80, (tiny, 1)),
        (0x1F80 | 0x8040, (0, 1)),
        (0x1F80 | 0x4000, (tiny, above)),
        (0x1F80, (tiny, 1)),
    ):
        f(mode, out)
        assert out.tolist() == [expected[0], expected[1]] * 2


@linux
def test_who_comes_too_late_is_patient_the_next_time() -> None:
    """A sleeping worker whose work the caller has done meanwhile spins for the next region as long as is
    allowed: with the patience that an idle time left it, it would sleep through one region after another."""
    script = """
from tensorlang.native.pool import Pool
pool.whole_processors = pool.processors; set_num_threads(2); f = kernels.counter(); f(np.zeros(100_000, np.int64))
crew = Pool.view(pool._settings(pool._pool).pool)
worker = Pool.fields["members"][0].of.view(crew.address_of("members", 1))
def misses():
    for _ in range(100):
        time.sleep(0.01); worker.patience = 1000
        f(np.zeros(2, np.int64)); time.sleep(0.01)
        if worker.patience == pool.SPIN // 2: return True  # it spun in vain since
print(misses())
"""
    assert run(script) == "True\n"


@linux
def test_a_waiting_worker_leaves_its_processor_to_others() -> None:
    """One that may wait for two seconds sleeps long before, where other processes want the processors."""
    script = """
import subprocess, sys
from tensorlang.native.pool import ASLEEP, Pool
pool.whole_processors = pool.processors; set_num_threads(2); f, x = kernels.counter(), np.zeros(100_000, np.int64)
f(x)
crew = Pool.view(pool._settings(pool._pool).pool)
worker = Pool.fields["members"][0].of.view(crew.address_of("members", 1))
def sleeps():
    while worker.state != ASLEEP: time.sleep(0.001)
    pool._settings(pool._pool).spin = worker.patience = 2_000_000_000
    f(x); start = time.monotonic()
    while worker.state != ASLEEP: time.sleep(0.001)
    return time.monotonic() - start
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
time.sleep(0.5)
try: print(any(sleeps() < 1.5 for _ in range(5)), len(set(x)))
finally: [b.kill() for b in busy]
"""
    assert run(script) == "True 1\n"


@linux
def test_a_short_region_wakes_nobody_unless_others_came_just_before() -> None:
    script = """
from tensorlang.native.pool import ALONE, ASLEEP, Pool
pool.whole_processors = pool.processors; set_num_threads(2); f = kernels.counter("repeated", short=True)
x, y = np.zeros(100_000, np.int64), np.zeros(4, np.int64)
kernels.counter()(x)
crew = Pool.view(pool._settings(pool._pool).pool)
worker = Pool.fields["members"][0].of.view(crew.address_of("members", 1))
def asleep():
    for _ in range(1000):
        time.sleep(0.001)  # what comes later than this is no succession
        if worker.state == ASLEEP: return
def after(times):  # a busy machine may let it sleep again before we look
    for _ in range(100):
        asleep(); f(y, times); state = worker.state
        if times <= ALONE or state != ASLEEP: break
    return state == ASLEEP
print(after(1), after(ALONE), after(50), after(1), len(set(y)))
"""
    assert run(script) == "True True False True 1\n"


@linux
def test_fork_in_the_middle_of_a_region_and_of_a_compilation() -> None:
    script = """
import warnings; warnings.simplefilter("ignore")
set_num_threads(4)
f, g = kernels.counter("repeated"), kernels.counter()
stop = False
def busy():
    x = np.zeros(50_000, np.int64)
    while not stop: f(x, 20)
def compiling():
    while not stop: kernels.object_code.__wrapped__(kernels.ADD); kernels.add()
threads = [threading.Thread(target=t) for t in (busy, compiling)]
for t in threads: t.start()
for _ in range(30):
    pid = os.fork()
    if pid == 0:
        y = np.zeros(100_000, np.int64)
        g(y); kernels.counter()(y); kernels.object_code.__wrapped__(kernels.SCALE)
        os._exit(0 if (y == 2).all() else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
print("done")
"""
    assert run(script) == "done\n"


@linux
def test_workers_block_signals() -> None:
    """An interrupt goes to the program's threads, so that it wakes a sleeping main thread."""
    script = """
import signal
set_num_threads(4); f = kernels.counter(); f(np.zeros(100, np.int64))
masks = []
for task in os.listdir("/proc/self/task"):
    if int(task) != os.getpid():
        masks += [l.split()[1] for l in open(f"/proc/self/task/{task}/status") if l.startswith("SigBlk")]
bit = 1 << (signal.SIGINT - 1)
print(sum(bool(int(m, 16) & bit) for m in masks) >= 3)
"""
    assert run(script) == "True\n"
