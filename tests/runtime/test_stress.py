"""Ends, forks, signals and crowds, over and over: a few times by default, 100 times by ``make fuzz``. A
deadlock is a failure.

Each repetition is a fork of a process that has loaded the kernels and started no pool, so that it costs
milliseconds; it ends as any program does, through the interpreter's own finalisation.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.fresh import python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks; the pool is for Linux")
FUZZ = pytest.mark.skipif(
    "TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="TENSORLANG_FUZZ_ROUNDS is not set"
)

HEAD = """
import atexit, gc, os, signal, sys, threading, time, warnings
import numpy as np
import tensorlang as tl
from tensorlang import te
from tensorlang.codegen.llvm import parallel
from tests.runtime import kernels
from tensorlang.runtime import threads as pool
warnings.simplefilter("ignore")  # forks of a process with threads are what is tested
pool.processors = lambda: 8
parallel.PIECE = 1
tl.set_num_threads(4)
f, g, long, scratch = kernels.counter(), kernels.counter("nested"), kernels.counter("repeated"), kernels.scratch()

def ended(pid, seconds=60):
    # the status of a child; one that does not end is killed. Turns are counted, not time: a machine may stand still for all of us.
    for _ in range(1000 * seconds):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: return status
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"

def compute():
    x = np.zeros(20_000, np.int64)
    f(x); g(x); long(x, 3)
    assert (x == 5).all()

def product(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    h = tl.compile([A, B, te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")], name=f"product{n}")
    a = (np.arange(n * n).reshape(n, n) % 7).astype("float32")
    return h, a, a @ a

def forked(times):
    # true in children; their parent ends when all have ended well
    for i in range(times):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0: return True
        status = ended(pid)
        if status != 0:
            print("repetition", i, "ends with", status, flush=True)
            os._exit(1)
    print("all well", flush=True)
    os._exit(0)
"""

SCENARIOS = {
    "exit with parked workers": """
forked(TIMES)
compute(); time.sleep(0.005)
""",
    "exit right after a region": """
forked(TIMES)
compute()
""",
    "exit while another thread is inside a kernel": """
forked(TIMES)
threading.Thread(target=long, args=(np.zeros(100_000, np.int64), 10**9), daemon=True).start()
compute(); time.sleep(0.002)
""",
    "daemon threads that go on calling": """
forked(TIMES)
def forever():
    while True: compute()
for _ in range(4): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.005); compute()
""",
    "os._exit in the middle": """
forked(TIMES)
def forever():
    while True: compute()
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.005); compute(); os._exit(0)
""",
    "a kernel called at exit": """
forked(TIMES)
compute()
def last():
    try: compute()
    except BaseException: os._exit(7)
atexit.register(last)
""",
    "fork after a parallel call, both go on": """
forked(TIMES)
compute()
pid = os.fork()
compute()
h, a, expected = product(6)
assert (h(a, a) == expected).all()
if pid:
    assert ended(pid) == 0
    compute()
""",
    "fork in the middle of regions of other threads": """
forked(TIMES)
stop = threading.Event()
def busy():
    while not stop.is_set(): compute()
workers = [threading.Thread(target=busy) for _ in range(3)]
for t in workers: t.start()
pid = os.fork()
if pid == 0:
    compute(); os._exit(0)
assert ended(pid) == 0
stop.set()
for t in workers: t.join()
compute()
""",
    "signals": """
forked(TIMES)
count = 0
def on_alarm(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
x = np.zeros(50_000, np.int64)
for i in range(60): long(x, 3)
signal.setitimer(signal.ITIMER_REAL, 0)
assert (x == 180).all() and count
""",
    "KeyboardInterrupt": """
forked(TIMES)
signal.signal(signal.SIGALRM, signal.default_int_handler)
x, interrupts = np.zeros(50_000, np.int64), 0
while interrupts < 10:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True:
            before = x[0]
            long(x, 3)
    except KeyboardInterrupt:
        interrupts += 1
assert (x == x[0]).all() and x[0] % 3 == 0 and x[0] >= before  # a kernel that began has ended
compute()
""",
    "temporary memory in a crowd": """
forked(TIMES)
sizes = [1000, 65_400, 65_473, 100_000, 300_000, 3_000_000]
def work(seed):
    low = np.ones(1, np.int64)
    for i in range(60):
        scratch(sizes[(seed + i) % 6], low); assert low[0] == 0
        if i % 20 == 19: tl.release_workspace()
    done.append(seed)
done = []
crowd = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in crowd: t.start()
pid = os.fork()
if pid == 0:
    work(0); os._exit(0)
assert ended(pid) == 0
for t in crowd: t.join()
assert len(done) == 8
""",
}

HEAVY = {
    "eight threads, a thousand calls each": """
def work():
    x = np.zeros(9000, np.int64)  # large enough that the interpreter lock is given up
    for _ in range(1000): f(x)
    if (x == 1000).all(): right.append(1)
for i in range(TIMES):
    right = []
    crowd = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for t in crowd: t.start()
    for t in crowd: t.join(300)
    assert len(right) == 8, f"repetition {i}"
print("all well")
""",
    "four threads compile": """
def work(n):
    h, a, expected = product(n)
    if (h(a, a) == expected).all(): right.append(n)
for i in range(TIMES):
    right = []
    crowd = [threading.Thread(target=work, args=(5 + n + i % 9,), daemon=True) for n in range(4)]
    for t in crowd: t.start()
    for t in crowd: t.join(300)
    assert len(right) == 4, f"repetition {i}"
print("all well")
""",
}


def run(script: str, times: int) -> None:
    done = python(HEAD + script.replace("TIMES", str(times)), timeout=300 + 6 * times)
    assert done.returncode == 0 and "all well" in done.stdout, done.stdout + done.stderr


def test_all_well_a_few_times() -> None:
    """Each scenario in a process forked from one that never started a pool."""
    script = f"""
for name, script in {SCENARIOS!r}.items():
    print(name, flush=True)
    pid = os.fork()
    if pid == 0: break
    assert ended(pid, 120) == 0, name
else:
    print("all well", flush=True)
    os._exit(0)
exec(script)
"""
    run(script, 4)


def test_all_well_in_a_crowd() -> None:
    run("".join(HEAVY.values()), 2)


@FUZZ
@pytest.mark.fuzz
@pytest.mark.parametrize("name", [*SCENARIOS, *HEAVY])
def test_well_a_hundred_times(name: str) -> None:
    run((SCENARIOS | HEAVY)[name], 100)


CYCLES = """
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def cycle(i):
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda j: A[j] * float(i % 97) + 1, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner); s[C].parallel(outer)
    h = tl.build(s, [A, C])
    assert (h(x) == x * (i % 97) + 1).all()
x = np.arange(64, dtype="float32")
for i in range(20): cycle(i)
gc.collect(); before = resident()
for i in range(TIMES): cycle(i)
gc.collect(); grown = resident() - before
assert grown <= LIMIT, f"TIMES cycles of compiling, calling and dropping took {grown} bytes"
print("all well")
"""


CANARY = """
from tensorlang.codegen import compile_ll
from tensorlang.target import Target
text, host = "define i32 @f(i32 %x) {\\n ret i32 %x\\n}\\n", Target.host()
for i in range(60): compile_ll(text, host)
gc.collect(); before = resident()
for i in range(150): compile_ll(text, host)
gc.collect(); grown = resident() - before
assert grown <= 150 * 3_400, f"150 compilations took {grown} bytes"
"""


def test_compiling_calling_dropping_does_not_leak() -> None:
    """A canary for llvmlite, whose pass managers free nothing unless their disposal is called by hand. A
    compilation of next to nothing takes 1.5 kB of the heap, and 5.3 kB when that is forgotten."""
    run(
        CYCLES.replace("LIMIT", str(40 * 25_000)).replace('print("all well")', "")
        + CANARY
        + 'print("all well")',
        40,
    )


@FUZZ
@pytest.mark.fuzz
def test_ten_thousand_cycles() -> None:
    run(CYCLES.replace("LIMIT", str(50 << 20)), 10_000)
