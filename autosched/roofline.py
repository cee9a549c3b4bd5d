"""How fast this machine could be, measured by two kernels of our own, and where a result stands below that (Williams, Waterman, Patterson:
"Roofline", CACM 2009). Knows tensorlang's public names.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Sizes

CHAINS = 12  # independent sums: latency (4) times throughput (2) of a multiply-add, and some
STEPS = 1 << 14
TRIAD = 1 << 23  # elements of float32: beyond most caches
SECONDS = 0.05


@dataclass(frozen=True)
class Peaks:
    """Operations a second in float32 and bytes a second from memory, with ``threads`` threads."""

    flops: float
    bandwidth: float
    threads: int


@dataclass(frozen=True)
class Position:
    """A kernel below the roof: ``roof`` is what its operations for each byte of its arguments allow, in operations a second; ``share`` of
    it was reached. Arguments that stay in a cache may go beyond the roof of memory."""

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
        return (f"{self.attained / 1e9:.1f} GFLOP/s, {self.share:.0%} of the {self.roof / 1e9:.1f} that {self.limit} allows at {self.intensity:.3g} "
                f"operations a byte (peaks with {self.peaks.threads} threads: {self.peaks.flops / 1e9:.0f} GFLOP/s, "
                f"{self.peaks.bandwidth / 1e9:.0f} GB/s)")


def peaks() -> Peaks:
    """The peaks of this process, measured once for each number of threads."""
    return _measured(tl.num_threads())


def peak_flops() -> float:
    """Operations a second in float32."""
    return _flops(tl.num_threads())


def position(tensors: Sequence[te.Tensor], flops: float, seconds: float) -> Position:
    """Where a kernel with these arguments stands that does ``flops`` operations in ``seconds``."""
    p, sizes = peaks(), Sizes()
    size = sum(t.dtype.bytes * float(np.prod([int(str(sizes(n))) for n in t.shape])) for t in tensors)
    intensity = flops / max(size, 1.0)
    bound = intensity * p.bandwidth
    roof, limit = (p.flops, "the arithmetic") if p.flops <= bound else (bound, "memory")
    return Position(intensity, flops / seconds, max(roof, 1.0), limit, p)


@functools.cache
def _flops(threads: int) -> float:
    """A Horner chain in each of ``CHAINS`` vector registers of each thread, x ← x · ½ + v, with no memory in sight."""
    lanes = tl.Target.host().vector_lanes("float32")
    values = te.placeholder((lanes,), name="v")
    chain = te.comm_reducer(lambda x, v: x * 0.5 + v, lambda dtype: te.const(0.0, dtype), name="chain")
    k = te.reduce_axis((0, STEPS), name="k")
    out = te.compute((threads, CHAINS, lanes), lambda t, i, j: chain(values[j], axis=k), name="x")
    s: tl.Schedule = te.create_schedule(out.op)
    registers = s[s.cache_write(out, "local")]
    thread, i, j = s[out].op.axis
    s[out].parallel(thread)
    registers.compute_at(s[out], thread)
    for stage, row, column in ((s[out], i, j), (registers, *registers.op.axis[1:])):
        stage.unroll(row)
        stage.vectorize(column)
    registers.reorder(*registers.op.reduce_axis, *registers.op.axis)
    f = tl.build(s, [values, out], name="multiply_adds")
    v = np.full(lanes, 0.25, np.float32)
    return 2.0 * threads * CHAINS * lanes * STEPS / f.benchmark(v, seconds=SECONDS).min


@functools.cache
def _measured(threads: int) -> Peaks:
    a, b = te.placeholder((TRIAD,), name="a"), te.placeholder((TRIAD,), name="b")
    f = tl.compile([a, b, te.compute((TRIAD,), lambda i: a[i] + b[i] * 0.25, name="c")])
    arrays = [np.ones(TRIAD, np.float32) for _ in range(3)]
    return Peaks(_flops(threads), 3 * 4 * TRIAD / f.benchmark(*arrays, seconds=SECONDS).min, threads)
