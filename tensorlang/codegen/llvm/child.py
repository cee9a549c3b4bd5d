"""LLVM in a child process, so that its aborts are errors (``TENSORLANG_ISOLATE=1``). Knows neither programs
nor targets.

The child is a fork: a copy of this process takes a few milliseconds, and all that was prepared is there. It
sends its answer through a pipe and ends without any clean-up of Python's, which belongs to the parent.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import resource
import signal
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from llvmlite.binding import ffi

T = TypeVar("T")


class Died(Exception):
    """The child ended without an answer. The text says of what."""


def run(work: Callable[[], T]) -> T:
    """What ``work()`` returns or raises, computed in a child. Raises Died when the child ends before that."""
    said = os.memfd_create("stderr")
    answer, sent = os.pipe()
    with (
        warnings.catch_warnings(),
        ffi.lib._lock,
    ):  # no other thread is inside LLVM while the process is copied
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child does not need
        pid = os.fork()
        if pid == 0:
            os.close(answer)
            _child(work, said, sent)
    ended = False
    try:
        os.close(sent)
        with os.fdopen(answer, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(pid, 0)
        ended = True
        if status:
            raise Died(_last_words(status, said))
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(said)
    ok, value = pickle.loads(data)  # written by our own code, a moment ago
    if not ok:
        raise value
    return value  # type: ignore[no-any-return]


def _child(work: Callable[[], Any], said: int, sent: int) -> None:
    """Work, send the outcome, and end."""
    try:
        faulthandler.disable()
        gc.disable()  # it would write to, and so copy, all of the parent's memory
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(said, 2)
        try:
            result: tuple[bool, Any] = True, work()
        except Exception as error:  # raised again in the parent
            result = False, error
        with os.fdopen(sent, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    finally:
        os._exit(1)


def _last_words(status: int, said: int) -> str:
    """How a process ended, and the reason LLVM gave on its error output."""
    code = os.waitstatus_to_exitcode(status)
    how = f"LLVM ended its process with {signal.Signals(-code).name if code < 0 else f'code {code}'}"
    os.lseek(said, 0, os.SEEK_SET)
    lines = os.read(said, 1 << 20).decode(errors="replace").splitlines()
    reasons = [line.partition("LLVM ERROR:")[2].strip() for line in lines if "LLVM ERROR:" in line]
    return f"{how}: {reasons[0]}" if reasons else how
