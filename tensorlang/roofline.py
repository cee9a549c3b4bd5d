"""How fast this machine could be, measured by two kernels of our own, and where a result stands below that
(Williams, Waterman, Patterson: "Roofline", CACM 2009). Knows how to build kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import te
from .analysis import Sizes
from .build import build, compile
from .core.text import bytes_text
from .runtime import Module, num_threads
from .schedule.schedule import Schedule, create_schedule
from .target import Target

CHAINS = 12  # independent sums: latency (4) times throughput (2) of a multiply-add, and some
# long enough that waking the threads does not count
STEPS = 1 << 14
SMALLEST, LARGEST = 1 << 14, 96 << 20  # bytes of the arrays that bandwidth is measured with
SECONDS, TRIES = 0.04, 3  # of one try; others may be at work during some of them


@dataclass(frozen=True)
class Peaks:
    """Operations a second in float32, and bytes a second to and from arrays of ``size`` bytes together, with
    ``threads`` threads."""

    flops: float
    bandwidth: float
    threads: int
    size: int


@dataclass(frozen=True)
class Position:
    """A kernel below the roof: ``roof`` is what its operations for each byte of its arguments allow, in
    operations a second; ``share`` of it was reached. Bandwidth is that of arguments of this size used again
    and again, from whichever cache holds them."""

    intensity: float
    attained: float
    roof: float
    limit: str
    peaks: Peaks

    @property
    def share(self) -> float:
        """Attained over roof."""
        return self.attained / self.roof

    def __str__(self) -> str:
        return (
            f"{self.attained / 1e9:.1f} GFLOP/s, {self.share:.0%} of the {self.roof / 1e9:.1f} that "
            f"{self.limit} allows at {self.intensity:.3g} "
            f"operations a byte (peaks with {self.peaks.threads} threads: {self.peaks.flops / 1e9:.0f} "
            "GFLOP/s; "
            f"{self.peaks.bandwidth / 1e9:.0f} GB/s with {bytes_text(self.peaks.size)} of arrays)"
        )


def peaks(size: int = LARGEST) -> Peaks:
    """The peaks of this process for arrays of ``size`` bytes together, by default too many for any cache;
    measured once for each size and number of threads."""
    size = min(max(size, SMALLEST), LARGEST)
    return Peaks(peak_flops(), _bandwidth(num_threads(), size), num_threads(), size)


def peak_flops() -> float:
    """Operations a second in float32."""
    return _flops(num_threads())


def position(tensors: Sequence[te.Tensor], flops: float, seconds: float) -> Position:
    """Where a kernel with these arguments stands that does ``flops`` operations in ``seconds``."""
    sizes = Sizes()
    size = sum(t.dtype.bytes * int(np.prod([int(str(sizes(n))) for n in t.shape])) for t in tensors)
    p = peaks(size)
    intensity = flops / max(size, 1)
    bound = intensity * p.bandwidth
    p = replace(p, flops=max(p.flops, flops / seconds))  # others were at work when it was measured
    roof, limit = (p.flops, "arithmetic") if p.flops <= bound else (bound, "bandwidth")
    return Position(intensity, flops / seconds, max(roof, 1.0), limit, p)


def multiply_adds(threads: int, steps: int) -> tuple[Module, int, int]:
    """``loop(v, x)``, its operations, and the lanes of a register: a Horner chain in each of ``CHAINS``
    vector registers of each thread, x ← x · ½ + v, ``steps`` times with no memory in sight. ``v:
    float32[lanes]``, ``x: float32[threads, CHAINS, lanes]``."""
    lanes = Target.host().vector_lanes("float32")
    values = te.placeholder((lanes,), name="v")
    chain = te.comm_reducer(lambda x, v: x * 0.5 + v, lambda dtype: te.const(0.0, dtype), name="chain")
    k = te.reduce_axis((0, steps), name="k")
    out = te.compute((threads, CHAINS, lanes), lambda t, i, j: chain(values[j], axis=k), name="x")
    s: Schedule = create_schedule(out.op)
    registers = s[s.cache_write(out, "local")]
    thread, i, j = s[out].op.axis
    s[out].parallel(thread)
    registers.compute_at(s[out], thread)
    _, row_axis, column_axis = registers.op.axis
    for stage, row, column in ((s[out], i, j), (registers, row_axis, column_axis)):
        stage.unroll(row)
        stage.vectorize(column)
    registers.reorder(*registers.op.reduce_axis, *registers.op.axis)
    return build(s, [values, out], name="multiply_adds"), 2 * threads * CHAINS * lanes * steps, lanes


@functools.cache
def _flops(threads: int) -> float:
    loop, operations, lanes = multiply_adds(threads, STEPS)
    v = np.full(lanes, 0.25, np.float32)
    return operations / min(loop.benchmark(v, seconds=SECONDS).min for _ in range(TRIES))


@functools.cache
def _bandwidth(threads: int, size: int) -> float:
    """c ← a + b · ¼, by the default schedule, over three arrays of ``size`` bytes together."""
    n = size // 12
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    f = compile([a, b, te.compute((n,), lambda i: a[i] + b[i] * 0.25, name="c")], name="triad")
    arrays = [np.ones(n, np.float32) for _ in range(3)]
    return 12 * n / min(f.benchmark(*arrays, seconds=SECONDS).min for _ in range(TRIES))
