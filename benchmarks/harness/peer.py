"""What a peer is: something that computes cases. Its file is the only one that knows its package.

A peer says what it supports, takes its thread limit by its own API, and prepares a case: whatever it does
before the first call (compiling, packing constants) is there; what ``run`` does is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .case import Array, Case


@dataclass
class Prepared:
    """``run()`` computes once, ``result()`` once more and gives what came of it as a numpy array. Together
    they keep alive what is read and written.

    Whoever makes a new array a call lets it go before the next, so that no more memory is touched than the
    work needs. ``seconds`` is how long compiling took, when ``prepare`` does more than that; ``code`` is how
    many bytes of machine code came of it, where that is known.
    """

    run: Callable[[], object]
    result: Callable[[], Array]
    seconds: float | None = None
    code: int | None = None


class Peer:
    """``counted`` peers are candidates for the best one; a yardstick of our own (``counted = False``) is only
    shown."""

    name = ""
    counted = True
    package = ""  # whose version is recorded

    def start(self, threads: int) -> None:
        """Import the package and limit its threads. Raises ImportError when it is not installed."""
        raise NotImplementedError

    def unsupported(self, case: Case) -> str | None:
        """Why this case is skipped, or None."""
        raise NotImplementedError

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        raise NotImplementedError


def environment(threads: int) -> dict[str, str]:
    """Environment of a process in which peers run: limits that are read once, at import, and a malloc that
    keeps its memory.

    Peers that allocate their result on each call would otherwise pay for page faults in what is larger than
    malloc's threshold; a user who calls them in a loop over layers does not.
    """
    n = str(threads)
    return {
        "OMP_NUM_THREADS": n,
        "OPENBLAS_NUM_THREADS": n,
        "MKL_NUM_THREADS": n,
        "NUMBA_NUM_THREADS": n,
        "HL_NUM_THREADS": n,
        "NPROC": n,
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}",
        "JAX_PLATFORMS": "cpu",
        "GLIBC_TUNABLES": f"glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={1 << 40}:glibc.malloc.top_pad={64 << 20}",  # noqa: E501
    }
