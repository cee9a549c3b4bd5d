"""Times, speeds and counts as a person reads them. Knows records; nothing of where the words are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorlang.entries import share
from tensorlang.errors import counted

from ..records import Record


def seconds_text(t: float) -> str:
    """``0.00123`` as ``1.23 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= scale:
            return f"{t / scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"


def measurements_text(records: Sequence[Record]) -> str:
    """``6 trials``, ``6 trials and 4 final timings``: those of the end of a search are no trials of it."""
    final = sum(r.final for r in records)
    trials = counted(len(records) - final, "trial")
    return f"{trials} and {counted(final, 'final timing')}" if final else trials


def speed_text(flops: float) -> str:
    """``1.5e9`` operations a second as ``1.5 GFLOP/s``."""
    return f"{flops / 1e9:.1f} GFLOP/s" if flops >= 1e9 else f"{flops / 1e9:.2g} GFLOP/s"


def best_text(best: Record | None, flops: float, peak: float = 0.0) -> str:
    """The best so far in words; no speed when operations are not counted, as with symbolic sizes."""
    if best is None:
        return "nothing works yet"
    speed = flops / best.cost
    parts = [
        f"best {seconds_text(best.cost)}",
        speed_text(speed) if flops else "",
        f"{speed / peak:.0%} of peak" if flops and peak else "",
    ]
    return "  ".join(filter(None, parts))


HERE, ELSEWHERE = ("space", "search", "model", "finals"), ("lower", "LLVM", "check", "run")


def shares_text(spent: Mapping[str, float], seconds: float) -> str:
    """The parts of the work as shares of the time it took: first those of this process, then those of the
    processes that build and run, which may be more than all of it together."""

    def shares(names: Sequence[str]) -> str:
        return ", ".join(f"{n} {spent[n] / max(seconds, 1e-9):.0%}" for n in names if n in spent)

    return "; side by side: ".join(filter(None, [shares(HERE), shares(ELSEWHERE)]))


share(__name__)
