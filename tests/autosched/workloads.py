"""Small computations and templates, and fake measurement, for the tests of the tuner."""

from __future__ import annotations

import json
import os
import signal
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import psutil

import tensorlang as tl
from autosched.measure import Job, Outcome, builder, runner
from tensorlang import te


def matmul(m: int, n: int, k: int) -> list[te.Tensor]:
    """C = A B."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")]


def conv(c: int, f: int, h: int, w: int) -> list[te.Tensor]:
    """3 x 3, same padding."""
    data, weight = te.placeholder((1, c, h, w), name="data"), te.placeholder((f, c, 3, 3), name="weight")
    padded = te.compute(
        (1, c, h + 2, w + 2),
        lambda n, q, y, x: te.if_then_else(
            (y >= 1) & (y <= h) & (x >= 1) & (x <= w), data[n, q, y - 1, x - 1], te.const(0.0)
        ),
        name="padded",
    )  # type: ignore[operator]
    rc, ry, rx = te.reduce_axis((0, c), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    return [
        data,
        weight,
        te.compute(
            (1, f, h, w),
            lambda n, q, y, x: te.sum(
                padded[n, rc, y + ry, x + rx] * weight[q, rc, ry, rx], axis=[rc, ry, rx]
            ),
            name="out",
        ),
    ]


def scale(n: int) -> list[te.Tensor]:
    """The smallest task: one loop."""
    a = te.placeholder((n,), name="A")
    return [a, te.compute((n,), lambda i: a[i] * 2.0, name="B")]


def scale_template(s: tl.Schedule, tensors: Sequence[te.Tensor]) -> None:
    """One knob."""
    b = tensors[-1]
    _, inner = s[b].split(s[b].op.axis[0], s.sample_tile(s[b].op.axis[0], max_factor=32, name="v"))
    s[b].vectorize(inner)


class Pretend:
    """Measures nothing: the cost is a fixed function of the sampled values. Every third candidate fails in
    some way."""

    def __init__(self, fail: bool = False) -> None:
        self.fail = fail
        self.traces: list[str] = []

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self.traces.append(job.trace)
            values = [v for vs in json.loads(job.trace)["decisions"].values() for v in vs]
            cost = 1e-3 * (1 + sum((v - 7) ** 2 / (i + 3) for i, v in enumerate(values)))
            if self.fail and len(self.traces) % 3 == 0:
                yield Outcome(job.id, "crash", "the worker died of SIGSEGV")
            else:
                yield Outcome(job.id, "ok", times=(cost,))


Say = Callable[[str], None]


def faulty(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that misbehaves by the number of the job: each kind of disaster, between good ones."""
    disaster(job.id % 8)
    return runner.run(job, directory, say)


def faulty_build(job: Job, directory: str, say: Say) -> Outcome:
    """A builder that misbehaves in the same way."""
    disaster(job.id % 8)
    return builder.build(job, directory, say)


def disaster(kind: int) -> None:
    """1 segmentation fault, 2 hang, 3 memory, 4 exit, 5 abort, 6 killed from outside; nothing else does
    harm."""
    if kind == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == 2:
        time.sleep(60)
    if kind == 3:
        bytearray(8 << 30)
    if kind == 4:
        os._exit(7)
    if kind == 5:
        os.abort()
    if kind == 6:
        os.kill(os.getpid(), signal.SIGKILL)


def kills_the_nursery(job: Job, directory: str, say: Say) -> Outcome:
    """A builder whose third job takes everybody down."""
    if job.id == 3:
        os.kill(os.getppid(), signal.SIGKILL)
    return builder.build(job, directory, say)


def scripted(job: Job, directory: str, say: Say) -> Outcome:
    """A runner with one candidate in ten each a crash, a hang, a memory hog, a wrong answer and a killed
    worker, by its trace."""
    fate = scripted_fate(job.trace)
    if fate == WRONG:
        return wrong(job, directory, say)
    disaster(fate)
    return runner.run(job, directory, say)


WRONG = 9


def scripted_fate(trace: str) -> int:
    """The number of the disaster of a candidate, 0 for none."""
    return {1: 1, 2: 2, 3: 3, 4: 6, 9: WRONG}.get(zlib.crc32(trace.encode()) % 10, 0)


def wrong(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that finds a kernel of another computation than the one whose answers it holds: the compiler
    is wrong."""
    other = Job(job.id, job.graph.replace("2.0", "3.0"), job.key + "x", job.target, job.trace)
    if other.graph == job.graph:  # no constant to change: another order of the operands' elements
        runner.run(job, directory, say)
        bench = runner._workbenches[job.key]
        kept, bench.right = bench.right, [a + 1 for a in bench.right]
        o = runner.run(job, directory, say)
        bench.right = kept
        return o
    assert builder.build(other, directory, say).status == "built"
    os.replace(builder.kernel_file(other, directory), builder.kernel_file(job, directory))
    return runner.run(job, directory, say)


def marking_build(job: Job, directory: str, say: Say) -> Outcome:
    """A builder that leaves a mark when it begins."""
    (Path(directory) / f"{job.id}.begun").touch()
    return Outcome(job.id, "built")


LAST = 7  # the job that has none behind it


def awaiting_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that ends when the building of the next job has begun, and tells whether it came to that."""
    begun = job.id == LAST or there(Path(directory) / f"{job.id + 1}.begun")
    return Outcome(job.id, "ok", json.dumps(begun), (0.1,))


def there(file: Path) -> bool:
    """Whether the file comes to be. Turns are counted, not time."""
    for _ in range(3000):
        if file.exists():
            return True
        time.sleep(0.01)
    return False


def slow_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that takes its time and tells when that was."""
    begin = time.monotonic()
    time.sleep(0.03)
    return Outcome(job.id, "ok", json.dumps([begin, time.monotonic()]), (0.1,))


def short_steps(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that takes half a second in which it is awake, and tells when it began."""
    (Path(directory) / "runs").touch()
    for _ in range(50):
        time.sleep(0.01)
    return Outcome(job.id, "ok", times=(0.1,))


def quick_build(job: Job, directory: str, say: Say) -> Outcome:
    """A builder with nothing to do."""
    return Outcome(job.id, "built", parts={"lower": 2.0})


def telling_build(job: Job, directory: str, say: Say) -> Outcome:
    """A builder that tells how far it stands behind others, and whether objects say what is near a name."""
    said = hasattr(type(te.var("n") + 1), "__getattr__")
    return Outcome(job.id, "built", parts={"builder": os.nice(0), "hints": said})


def telling_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that tells the first of these of itself."""
    return Outcome(job.id, "ok", times=(0.1,), parts={"runner": os.nice(0)})


def busy_build(job: Job, directory: str, say: Say) -> Outcome:
    """A builder that makes a mark at every turn of its work."""
    (Path(directory) / f"{os.getpid()}.builder").touch()
    with open(Path(directory) / "beats", "ab", buffering=0) as f:
        for _ in range(10):
            time.sleep(0.01)
            f.write(b".")
    return Outcome(job.id, "built")


def timing_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that needs all processors, waits until no builder works, and counts the marks that builders
    make from then on."""
    say("timing")
    builders = [psutil.Process(int(file.stem)) for file in Path(directory).glob("*.builder")]
    for _ in range(3000):
        if all(b.status() == psutil.STATUS_STOPPED for b in builders):
            break
        time.sleep(0.01)
    else:
        return Outcome(job.id, "ok", json.dumps("the builders were not stopped"), (0.1,))
    beats = Path(directory) / "beats"
    before = beats.stat().st_size
    time.sleep(0.05)
    return Outcome(job.id, "ok", json.dumps(beats.stat().st_size - before), (0.1,))


def who_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that says who it is."""
    return Outcome(job.id, "ok", str(os.getpid()), (0.1,), parts={"run": 1.0})


def listing_run(job: Job, directory: str, say: Say) -> Outcome:
    """A runner that tells the numbers of the jobs so far; after job 0 all but job 9 hang."""
    ran = Path(directory) / "ran"
    before = ran.read_text() if ran.exists() else ""
    ran.write_text(f"{before}{job.id} ")
    if "0" in before and job.id != 9:
        time.sleep(60)
    return Outcome(job.id, "ok", ran.read_text(), (0.1,))
