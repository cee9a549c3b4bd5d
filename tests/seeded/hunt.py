"""Runs a mutant in a child process of its own, check after check, until one finds it. A hang or a crash is an
answer too."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tensorlang.errors import TensorLangError

from .checks import CHECKS, fuzz
from .inject import Mutant

SECONDS = 60  # of the processor, for one mutant; what takes more hangs
STUCK = 600.0  # seconds by the clock; who neither works nor ends hangs as well


@dataclass(frozen=True)
class Catch:
    """``by``: which mechanism; ``check``: in which check; ``tried``: checks until then; ``said``: its first
    line."""

    by: str
    check: str
    tried: int
    said: str


def order(first: Sequence[str]) -> list[str]:
    """The checks a mutant goes through: those aimed at it, then all."""
    return [*first, *(c for c in CHECKS if c not in first)]


def hunt(mutant: Mutant | None, checks: Sequence[str], seeds: Sequence[int] = ()) -> Catch | None:
    """Who catches it; None when nobody does. Without a mutant: what the checks say of the compiler as it
    is."""
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with os.fdopen(write, "w", buffering=1) as told:
            _child(mutant, checks, seeds, told)
        os._exit(0)
    os.close(write)
    text = _listen(read, pid)
    _, status = os.waitpid(pid, 0)
    lines = text.splitlines()
    tried = [line[2:] for line in lines if line.startswith("> ")]
    last = tried[-1] if tried else "nothing"
    for line in lines:
        if line.startswith("! "):
            by, _, said = line[2:].partition(" | ")
            return Catch(by, last, len(tried), said)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            return Catch("hang", last, len(tried), f"did not end in {SECONDS} s of the processor")
        return Catch(
            "guard pages" if last == "guard" else "crash",
            last,
            len(tried),
            signal.Signals(os.WTERMSIG(status)).name,
        )
    return None


def _listen(read: int, pid: int) -> str:
    end = time.monotonic() + STUCK
    text = b""
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return text.decode(errors="replace")
            some = pipe.read(1 << 16)
            if not some:
                return text.decode(errors="replace")
            text += some


def _child(mutant: Mutant | None, checks: Sequence[str], seeds: Sequence[int], told: object) -> None:
    def say(line: str) -> None:
        told.write(line.replace("\n", " ")[:400] + "\n")  # type: ignore[attr-defined]

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    try:
        if mutant is not None:
            mutant.apply()
        for name in [*checks, *(f"fuzz seed {n}" for n in seeds)]:
            say(f"> {name}")
            if name.startswith("fuzz seed "):
                fuzz(int(name.removeprefix("fuzz seed ")))
            else:
                CHECKS[name]()
    except BaseException as e:
        say(f"! {_who(e)} | {str(e) or type(e).__name__}")


_WORDS = (
    (r"malformed after lowering", "verifier, as lowered"),
    (r"malformed after pass", "verifier, after a pass"),
    (r"lowered with", "interpreter, as lowered"),
    (r"after (all passes|pass .*) with", "interpreter, after a pass"),
    (r"compiled with|as built|all temporaries", "machine code"),
    (r"proof with", "proof"),
    (r"replayed|read back", "round trip"),
    (r"^allowed", "refusals"),
    (r"^the tree is", "golden tree"),
    (r"(built|simplified|proved|negated) |nothing is proved|interval .*\.\.|(lower|upper) bound", "laws"),
)


def _who(e: BaseException) -> str:
    text = str(e)
    if isinstance(e, TensorLangError):
        return "refused what is legal"
    if isinstance(e, AssertionError):
        for pattern, who in _WORDS:
            if re.search(pattern, text):
                return who
    kind = type(e).__name__
    if kind in ("VerifyError", "InterpretError"):
        return "verifier, as lowered" if kind == "VerifyError" else "interpreter, as lowered"
    where = traceback.extract_tb(e.__traceback__)[-1]
    return f"{kind} in {os.path.basename(os.path.dirname(where.filename))}/{os.path.basename(where.filename)}"
