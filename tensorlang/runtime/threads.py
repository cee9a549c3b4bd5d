"""The thread pool from Python's side: makes it once, sets its limits, hands out the symbols kernels call.

The pool itself is machine code (``native.pool`` says how it works) and its threads are no Python threads:
they start at the first parallel region, hold no lock, block all signals, and are simply gone when the process
ends or forks.

Kernels see ``void tensorlang_parallel(fn, ctx, i64 begin, i64 end)``, which returns when ``void fn(ctx, i64
b, i64 e)`` has run on pieces b … e that cover begin … end, ``tensorlang_parallel_awake``, which does the same
with threads that are awake, ``ptr tensorlang_alloc(i64)`` (64-byte aligned or null) and ``void
tensorlang_free(ptr)``, which are those of ``workspace``.

The processors this process may use are looked up when the pool starts and when a limit is set.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .. import options
from ..core.text import type_of
from ..errors import TensorLangError
from ..native import pool as native_pool
from ..native import regions
from . import workspace
from .loader import Code, load_functions
from .processors import processors, whole_processors

# Nanoseconds a thread spins at most before it sleeps: longer than torch takes from one call of a compiled
# module to the next (80 µs), or from the way there to the way back of a small training step (200 µs), for
# waking takes a virtual machine 100 µs. A transformer block of 0.30 ms took 0.53 ms with 50 µs and 0.38 with
# 150, two steps of 0.53 and 0.45 ms took 0.43 and 0.36 with 300; who waits in vain is half as patient the
# next time.
SPIN = 300_000
_WIPE_ON_FORK = 18  # MADV_WIPEONFORK of Linux

_REGIONS = {
    "tensorlang_parallel": native_pool.parallel,
    "tensorlang_parallel_awake": native_pool.parallel_awake,
}

_lock = threading.Lock()
_memory: workspace.Workspace | None = None
_pool: Code | None = None
_helpers: dict[str, int] = {}
_repeat: Callable[..., int] | None = None
_wanted: int | None = None  # what the user asked for, else None


def num_threads() -> int:
    """How many threads a parallel kernel uses: the set limit, else TENSORLANG_NUM_THREADS, else the
    processors of this process."""
    if _wanted is not None:
        return _wanted
    return options.thread_limit() or min(processors(), options.MAX_THREADS)


def set_num_threads(count: int | None) -> None:
    """Limit parallel kernels to ``count`` threads from their next region on; None returns to the default.

    No more threads run at once than there are processors for this process (affinity, control groups),
    whatever the count. Raises TensorLangError for a count that is not a whole number from 1 to 1024.

    >>> before = tl.num_threads()
    >>> tl.set_num_threads(1)
    >>> tl.num_threads()
    1
    >>> tl.set_num_threads(before)
    """
    global _wanted
    if count is not None:
        try:
            if isinstance(count, bool):
                raise TypeError
            count = operator.index(count)
        except TypeError:
            raise TensorLangError(
                f"set_num_threads({count!r})", because=f"a whole number is needed, not {type_of(count)}"
            ) from None
        if not 1 <= count <= options.MAX_THREADS:
            raise TensorLangError(
                f"set_num_threads({count})",
                because=f"a thread limit is from 1 to {options.MAX_THREADS}",
                try_="set_num_threads(None) uses every processor this process may run on",
            )
    with _lock:
        _wanted = count
        if _pool is not None:
            _apply(_pool)


def helpers(parallel: bool = True) -> dict[str, int]:
    """Addresses of the symbols kernels import; the pool's only when it is asked for, because compiling it
    takes longer."""
    if not _helpers:
        with _lock:
            if not _helpers:
                _start_common()
    if parallel and "tensorlang_parallel" not in _helpers:
        with _lock:
            if "tensorlang_parallel" not in _helpers:
                _start_pool()
    return dict(_helpers)


def repeater() -> Callable[..., int]:
    """``loop(entry address, buffers, scalars, times)``: runs a kernel in a native loop; the first nonzero
    status ends it."""
    helpers(parallel=False)
    assert _repeat is not None
    return _repeat


def regions_of(times: int) -> Callable[[], float]:
    """A function that runs this many parallel regions of no work, each handed over to a second thread, and
    gives the seconds that one took."""
    code = load_functions({"regions": regions.run, "meet": regions.meet}).keep()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    run, parallel = kind(code.address["regions"]), helpers()["tensorlang_parallel"]

    def seconds() -> float:
        arrived = ctypes.c_int64(0)
        start = time.perf_counter()
        run(parallel, code.address["meet"], ctypes.addressof(arrived), times)
        return (time.perf_counter() - start) / times

    return seconds


def release_workspace() -> int:
    """Give the temporary memory that is kept between calls of kernels back to the system; the bytes given
    back.

    At most TENSORLANG_WORKSPACE_BYTES (128 MiB unless set) are kept. Safe at any time: what running kernels
    use is not touched.
    """
    return 0 if _memory is None else _memory.release()


def plan_workspace(run: Callable[[], object]) -> None:
    """Plan temporary memory by a call at the largest sizes: ``run()`` makes it, and its blocks are kept and
    serve smaller sizes too, so that calls of kernels of open sizes allocate nothing from then on. Without a
    plan a block serves what is at least half as large.

    Blocks that nobody asks for during seconds in which others are asked for are returned to the system, as
    without a plan.
    """
    if _memory is None:
        helpers(parallel=False)
    assert _memory is not None
    _memory.settings.reach = workspace.FAR_REACH
    run()


def _start_common() -> None:
    global _memory, _repeat
    memory = workspace.start({"repeat": native_pool.repeat})
    kinds = ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    _repeat = ctypes.CFUNCTYPE(*kinds)(memory.code.address["repeat"])
    _memory = memory
    _helpers.update(memory.address)


def _start_pool() -> None:
    global _pool
    state = _block() if sys.platform == "linux" and native_pool.FUTEX else None
    if state is None:
        code = load_functions(dict.fromkeys(_REGIONS, native_pool.serial), once=True).keep()
    else:
        code = load_functions({**_REGIONS, "settings": native_pool.settings}, once=True).keep()
        _settings(code).pool = state
        _apply(code)
        _pool = code
    _helpers.update({name: code.address[name] for name in _REGIONS})


def _settings(pool: Code) -> Any:
    return native_pool.Settings.view(pool.address["settings"])


def _apply(pool: Code) -> None:
    """Write the limits where the pool reads them. Spinning is for those who have a processor each."""
    count, settings = num_threads(), _settings(pool)
    # one thread has a processor, whatever is granted: to look takes longer than many a kernel
    width = min(count, processors()) if count > 1 else 1
    spin = SPIN if width == 1 or width <= whole_processors() else 0
    settings.spin, settings.wanted, settings.width = spin, count, width


def _block() -> int | None:
    """Zeroed memory for the pool's state that a forked child gets as zeroes again; None where the system
    cannot."""
    block = mmap.mmap(-1, native_pool.Pool.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        block.madvise(_WIPE_ON_FORK)
    except OSError:  # before Linux 4.14
        block.close()
        return None
    # Workers use it until the process is gone, longer than any Python object lives.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(block))
    return ctypes.addressof(ctypes.c_char.from_buffer(block))
