"""What this machine can do, measured by kernels of our own: multiply-adds a second, and bytes a second read
and written at each level.

The roofline of a case is the longer of its operations at the peak and of its compulsory bytes at the
bandwidth of the level its arrays fit in (Williams, Waterman, Patterson: Roofline, CACM 2009). Reading and
writing are told apart, because a plain store reads its line first: a sum gives the one, a triad (McCalpin's
STREAM) the other; a copy by the C library, which may store past the caches, is counted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.roofline import CHAINS, multiply_adds

from .case import Case, aligned
from .measure import take_turns

STEPS = 1 << 16
LEVELS = ("L2", "L3", "memory")
BUDGET = 1.0


@dataclass(frozen=True)
class Peaks:
    """Operations a second in f32, bytes a second by level; ``capacity``: bytes that count as fitting into a
    level."""

    flops: float
    read: dict[str, float]
    write: dict[str, float]
    triad: dict[str, float]
    capacity: dict[str, float]

    def level(self, size: float) -> str:
        """The level that arrays of so many bytes together stay in."""
        return next((level for level in LEVELS[:-1] if size <= self.capacity[level]), "memory")

    def bound(self, case: Case) -> dict[str, object]:
        """``bound``: seconds no call can beat, as far as we know; ``limit``: ``operations`` or ``bytes``;
        ``level``: where the bytes are.

        Operations of every type are held against the peak of float32.
        """
        level = self.level(case.read + case.written)
        operations, moving = (
            case.flops / self.flops,
            case.read / self.read[level] + case.written / self.write[level],
        )
        return {
            "bound": max(operations, moving),
            "limit": "operations" if operations > moving else "bytes",
            "level": level,
        }

    def best(self, other: Peaks) -> Peaks:
        """The better of two measurements, figure by figure: what disturbs one makes it lower."""

        def higher(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
            return {level: max(a[level], b[level]) for level in a}

        return Peaks(
            max(self.flops, other.flops),
            higher(self.read, other.read),
            higher(self.write, other.write),
            higher(self.triad, other.triad),
            self.capacity,
        )

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def measure(threads: int, caches: dict[str, int], rounds: int) -> Peaks:
    """The peaks with so many threads (the limit is set here); ``caches``: bytes of ``L2`` (a core's) and
    ``L3``."""
    tl.set_num_threads(threads)
    second, third = caches.get("L2", 1 << 19), caches.get("L3", 1 << 24)
    capacity = {"L2": 0.9 * second * threads, "L3": 0.7 * third}
    sizes = {"L2": 0.5 * second * threads, "L3": min(0.5 * third, 8.0 * second), "memory": 4.0 * third}
    loop, operations, lanes = multiply_adds(threads, STEPS)
    out = aligned((threads, CHAINS, lanes), "float32")
    values = np.full(lanes, 0.25, "float32")
    flops = operations / _least({"fma": lambda: loop(values, out)}, rounds)["fma"]
    read, write, triad = {}, {}, {}
    for level, size in sizes.items():
        read[level], write[level], triad[level] = _bandwidth(
            int(size) // 12 // (lanes * 64) * lanes * 64, lanes, threads, rounds
        )
    return Peaks(flops, read, write, triad, capacity)


def _least(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time each: a peak is what the machine did at its best moment."""
    return {
        name: min(s.seconds.values()) for name, s in take_turns(runs, budget=BUDGET, rounds=rounds).items()
    }


def _bandwidth(n: int, lanes: int, threads: int, rounds: int) -> tuple[float, float, float]:
    """(read, written, triad) in bytes a second with three float32 arrays of n elements, each thread on its
    own part."""
    a, b, c = (aligned((n,), "float32") for _ in range(3))
    for array in (a, b, c):
        array.fill(1)
    total, triad = _sum(n, lanes, threads), _triad(n, lanes, threads)
    sums = aligned((threads, 8, lanes), "float32")
    flat = a.reshape(threads, -1, 8, lanes)
    seconds = _least(
        {"sum": lambda: total(flat, sums), "triad": lambda: triad(a, b, c), "copy": lambda: np.copyto(c, a)},
        rounds,
    )
    size = 4.0 * n
    read = size / seconds["sum"]
    writes = [size / max(seconds["triad"] - 2 * size / read, 1e-2 * seconds["triad"])]
    if threads == 1:  # the C library copies on one thread
        writes.append(size / max(seconds["copy"] - size / read, 1e-2 * seconds["copy"]))
    return read, max(writes), 3 * size / seconds["triad"]


def _sum(n: int, lanes: int, threads: int) -> tl.Module:
    """Eight vectors of sums a thread."""
    x = te.placeholder((threads, n // (threads * 8 * lanes), 8, lanes), name="x")
    k = te.reduce_axis((0, x.shape[1]), name="k")
    out = te.compute((threads, 8, lanes), lambda t, i, j: te.sum(x[t, k, i, j], axis=k), name="sums")
    s = te.create_schedule(out.op)
    registers = s[s.cache_write(out, "local")]
    thread, i, j = s[out].op.axis
    s[out].parallel(thread)
    registers.compute_at(s[out], thread)
    for stage, row, column in ((s[out], i, j), (registers, *registers.op.axis[1:])):
        stage.unroll(row)
        stage.vectorize(column)
    registers.reorder(*registers.op.reduce_axis, *registers.op.axis)
    return tl.build(s, [x, out], name="read")


def _triad(n: int, lanes: int, threads: int) -> tl.Module:
    """c = a + ¼ b."""
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i] * 0.25, name="c")
    s = te.create_schedule(c.op)
    thread, rest = s[c].split(c.op.axis[0], nparts=threads)
    rest, inner = s[c].split(rest, 4 * lanes)
    inner, lane = s[c].split(inner, lanes)
    s[c].unroll(inner)
    s[c].vectorize(lane)
    s[c].parallel(thread)
    return tl.build(s, [a, b, c], name="triad")
