"""The process that runs a model in one runtime: ``python -m tensorlang.peers.worker RUNTIME MODEL INPUTS
[THREADS]``. Says when it is ready, then reads seconds, a line each (``0.1``, or ``0.1 cold``: each call with
empty caches), and writes the times of the calls made in that time: lines of JSON. Ends with its input.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from ..target.host import caches, num_cores
from .inputs import read
from .runtimes import RUNTIMES

Said = dict[str, Any]


def served(name: str, model: str, inputs: str, threads: int | None, turns: Iterable[str]) -> Iterator[Said]:
    """What it says: ready after so many seconds, then the seconds of each call of a turn; or an error."""
    try:
        arrays, begin = read(inputs), time.perf_counter()
        run = RUNTIMES[name](model, threads)
        run(arrays)
        yield {"ready": time.perf_counter() - begin, "version": version(name)}
        for line in turns:
            seconds, *cold = line.split()
            emptied = _emptier() if cold else _nothing
            run(arrays)  # wakes threads, and gives those of others the time to fall asleep
            end, times = time.perf_counter() + float(seconds), list[float]()
            while not times or time.perf_counter() < end:
                emptied()
                begin = time.perf_counter()
                run(arrays)
                times.append(time.perf_counter() - begin)
            yield {"times": times}
    except Exception as e:  # of any runtime: the table has a row for it
        yield {"error": f"{type(e).__name__}: {e}"}


def _nothing() -> None:
    """Caches stay as they are."""


@functools.cache
def _emptier() -> Callable[[], None]:
    """What fills the caches with something else: a core each writes twice the bytes of the last one."""
    of_machine, cores = caches(), num_cores()
    size = 2 * of_machine.get("l3_bytes", of_machine.get("l2_bytes", 32 << 20))
    buffers = [ctypes.create_string_buffer(size) for _ in range(cores)]
    pool = ThreadPoolExecutor(cores)
    return lambda: list(pool.map(lambda b: ctypes.memset(b, 0, size), buffers)).clear()


def main() -> None:
    """Serve on stdin and stdout; what runtimes print goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business, which closes the pipe
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, model, inputs, *threads = sys.argv[1:]
    for said in served(name, model, inputs, int(threads[0]) if threads else None, sys.stdin):
        print(json.dumps(said), file=results, flush=True)


if __name__ == "__main__":
    main()
