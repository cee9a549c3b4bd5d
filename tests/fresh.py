"""Scripts in processes of their own: each a fork of one server a test process, which has loaded the package
and compiled one kernel and started no thread. A fork costs milliseconds where a new interpreter, its imports
and its first kernel take two thirds of a second of a processor. A script ends as any program does, through
the interpreter's own finalisation.

The environment is that of the caller. Not for what happens at import or once a process: variables that are read
then, what a new process loads or compiles. Knows no test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest

ROOT = Path(__file__).parents[1]
PATIENCE = 600.0  # seconds


def python(script: str, *arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run a script as ``python -c script arguments`` at the root of the tree; its code, output and errors.
    One that does not end in time fails the test."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("out", "err")]
        code = _run([script, list(arguments), dict(os.environ), *paths], timeout)
        out, err = [Path(p).read_text(errors="replace") for p in paths]
    if code is None:
        pytest.fail(f"hangs; said {out!r} {err!r}")
    return subprocess.CompletedProcess([script, *arguments], code, out, err)


def _run(order: list[Any], timeout: float) -> int | None:
    """The code with which it ended; None: it was killed because it did not."""
    orders, answers = _server()
    orders.write(json.dumps(order) + "\n")
    orders.flush()
    pid = int(answers.readline())
    late = threading.Event()

    def kill() -> None:
        late.set()
        os.kill(pid, signal.SIGKILL)

    clock = threading.Timer(timeout, kill)
    clock.start()
    try:
        code = int(answers.readline())
    finally:
        clock.cancel()
    return None if late.is_set() else code


@cache
def _server() -> tuple[IO[str], IO[str]]:
    """It ends when its orders do: with the process that began it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fresh"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert process.stdin is not None and process.stdout is not None
    return process.stdin, process.stdout


def _warm() -> None:
    """Load what every kernel needs."""
    import tensorlang as tl
    from tensorlang import te

    a = te.placeholder((8,), name="A")
    tl.compile([a, te.compute((8,), lambda i: a[i] + 1, name="B")])


def _serve() -> tuple[str, list[str]]:
    """Fork for each order; returns in the child, with its script and arguments."""
    for line in sys.stdin:
        script, arguments, environment, *paths = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.environ.clear()
            os.environ.update(environment)
            for number, path in enumerate(("/dev/null", *paths)):
                flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
                os.dup2(os.open(path, flags, 0o600), number)
            return script, arguments
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    _warm()
    text, sys.argv[1:] = _serve()
    sys.argv[0] = "-c"
    for name in [n for n in globals() if not n.startswith("__") and n != "text"]:
        del globals()[name]
    exec(compile(text, "<fresh>", "exec"))
