"""Counting how often functions are compiled anew while a program runs, and saying what to write so that they
are not. Knows what dynamo tells of a compilation; no graphs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import get_compilation_metrics

from ...entries import public
from ...errors import TensorLangError
from .settings import log

MANY = 3  # compilations anew after which a warning tells of a function
_SIZE = re.compile(
    r"tensor '(?P<name>.+?)' size mismatch at index (?P<axis>\d+)\. expected (\d+), actual (\d+)"
)
_GUARD = re.compile(r"(?:L\['(?P<word>\w+)'\]|\b(?P<name>[\w.]+?))\.size\(\)\[(?P<axis>\d+)\]")
# (what torch says of a guard that failed, what to write); the first that fits
ADVICE: tuple[tuple[str, str], ...] = (
    (r"rank mismatch", "give tensors of one rank: reshape or unsqueeze before the call"),
    (r"dtype mismatch", "convert to one dtype before the call"),
    (r"stride mismatch", "x.contiguous() before the call"),
    (r"requires_grad|grad_mode|inference_mode|dispatch key", "make all calls under the same torch.no_grad()"),
    (r"\w+ == [-\d.]+\s*(#|$)", "give the number as a tensor of no dimensions, torch.tensor(k)"),
    (r"check_obj_id|___check_type_id|\bis\b|id match", "compile one function for each object that is given"),
    (r"len\(", "a list of one length, or one tensor that holds all: torch.stack"),
)


def remedy(reason: str) -> str:
    """What to write so that a guard that failed holds."""
    size = _SIZE.search(reason) or _GUARD.search(reason)
    if size:
        name = size.groupdict().get("word") or size["name"]
        return f"torch._dynamo.mark_dynamic({name}, {size['axis']}) before the first call"
    words = (words for pattern, words in ADVICE if re.search(pattern, reason))
    return next(words, "torch.compile(…, dynamic=True)")


@dataclass
class Anew:
    """A function that was compiled more than once: ``reasons`` of each time but the first, the ``seconds`` of
    these, the ``sizes`` that came by the tensor and the axis, and ``given_up``: torch runs it itself."""

    name: str
    file: str
    line: int
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0
    sizes: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    given_up: bool = False

    @property
    def advice(self) -> list[str]:
        """What to write so that it is compiled once."""
        return list(dict.fromkeys(map(remedy, self.reasons)))

    def note(self, reason: str, seconds: float) -> None:
        """Compiled once more."""
        self.reasons.append(reason)
        self.seconds += seconds
        for found in _SIZE.finditer(reason):
            sizes = self.sizes.setdefault((found["name"], int(found["axis"])), [])
            sizes += [n for n in (int(found[3]), int(found[4])) if n not in sizes]

    def __str__(self) -> str:
        n = len(self.reasons)
        lines = [f"{Path(self.file).name}:{self.line} {self.name}: compiled anew {n} time{'s' * (n != 1)}, "]
        lines[0] += f"{self.seconds:.1f} s" + ("; torch runs it now" if self.given_up else "")
        for (name, axis), sizes in self.sizes.items():
            lines.append(f"  {name}.size({axis}) was {', '.join(map(str, sizes))}")
        plain = [r for r in self.reasons if not _SIZE.search(r)]
        lines += [f"  {r.partition(': ')[2] or r}" for r in dict.fromkeys(p.splitlines()[0] for p in plain)]
        return "\n".join([*lines, *(f"  write {a}" for a in self.advice)])


@public(TensorLangError, "monitor")
class Monitor:
    """Counts compilations anew from its start to its ``stop``, or in a ``with``; prints as text."""

    def __init__(self, many: int = MANY) -> None:
        self.many = many
        self.functions: dict[tuple[str, int, str], Anew] = {}
        # torch keeps the latest of the whole process: what came before is none of this monitor's
        self._seen = {_key(m) for m in get_compilation_metrics()}
        self._lock = threading.Lock()
        callback_handler.register_end_callback(self._compiled)

    def stop(self) -> None:
        """Count no more."""
        self._collect()
        # stopped once already, or torch has been reset
        if self._compiled in callback_handler.end_callbacks:
            callback_handler.remove_end_callback(self._compiled)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def recompilations(self) -> int:
        """How often a function was compiled that had been compiled before."""
        return sum(len(f.reasons) for f in self)

    def __iter__(self) -> Iterator[Anew]:
        self._collect()
        return iter([f for f in self.functions.values() if f.reasons])

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing was compiled anew"

    def _compiled(self, _: Any) -> None:
        self._collect()

    def _collect(self) -> None:
        """Note what torch keeps of its latest compilations."""
        with self._lock:
            for m in get_compilation_metrics():
                if _key(m) not in self._seen:
                    self._seen.add(_key(m))
                    self._note(m)

    def _note(self, m: Any) -> None:
        if not m.recompile_reason:
            return
        key = (m.co_filename or "?", m.co_firstlineno or 0, m.co_name or "?")
        found = self.functions.setdefault(key, Anew(key[2], *key[:2]))
        if m.fail_reason and "recompile" in m.fail_reason:
            found.given_up = True
            log.warning("torch has given up compiling a function\n%s", found)
            return
        found.note(m.recompile_reason, m.entire_frame_compile_time_s or 0.0)
        if len(found.reasons) == self.many:
            log.warning("a function is compiled again and again\n%s", found)


def _key(m: Any) -> Any:
    """What tells compilations apart, also after torch._dynamo.reset()."""
    return m.compile_id, m.start_time_us
