"""The process that compiles: ``python -m tensorlang.workers.worker``. Reads jobs, a line each, and writes
what became of them: a line of JSON with the number of bytes that follow. Ends with its input.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from typing import BinaryIO

from .. import ops  # noqa: F401  its programs of loops: a job has them by name
from ..errors import TensorLangError
from ..runtime.codes import to_bytes
from .job import Job, compiled

MANY = 500_000  # objects that were made and are still there: some 100 MB


def answer(line: str) -> bytes:
    """What becomes of one job, in the form that goes back."""
    number, _, text = line.partition(" ")
    data, said = b"", None
    try:
        data = to_bytes(compiled(Job.from_json(text)))
    except TensorLangError as e:
        said = [t() if callable(t) else t for t in (e.what, e.because, e.try_)]
    except Exception as e:
        said = [f"{type(e).__name__}: {e}", "a bug of the compiler", None]
    return json.dumps({"job": int(number), "bytes": len(data), "error": said}).encode() + b"\n" + data


def serve(jobs: BinaryIO, results: BinaryIO) -> None:
    """Answer until there is no more job."""
    # a search for cycles after each kernel takes a thirtieth of the time, and most workers end before it pays
    gc.disable()
    for line in jobs:
        results.write(answer(line.decode()))
        results.flush()
        if gc.get_count()[0] > MANY:
            gc.collect()


def main() -> None:
    """Serve on stdin and stdout; what anything else prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business, which closes the pipe
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, results)


if __name__ == "__main__":
    main()
