"""One result out of pieces that were measured apart, and out of separate runs of the same cases, on the same
machine with the same packages. Works on results as read from JSON only."""

from __future__ import annotations

import statistics
from typing import Any

from .figures import Entry

SAME_MACHINE = (
    "cpu",
    "family",
    "architecture",
    "cores",
    "flags",
    "caches",
    "memory",
    "huge_pages",
    "system",
    "python",
)


class DifferentError(ValueError):
    """Two results that do not belong into one file. The message says what differs."""


def merged(old: Entry, new: Entry, again: bool = False) -> Entry:
    """``old`` with the cases of ``new``, which take the place of those with the same suite, name, weights,
    note and threads; or, ``again``, are one more run of them (:func:`repeated`).

    Raises DifferentError, a ValueError, for another format, another machine (but for its clock and load,
    which change by themselves), other versions of what both compare with, or a quick look beside a full one.
    """
    wrong = differences(old, new)
    if wrong:
        raise DifferentError("; ".join(wrong))
    cases = {_key(e): e for e in old["cases"]}
    for e in new["cases"]:
        cases[_key(e)] = repeated(cases[_key(e)], e) if again and _key(e) in cases else e
    peaks = {threads: dict(found) for threads, found in old["peaks"].items()}
    for threads, found in new["peaks"].items():
        peaks.setdefault(threads, {}).update(found)
    return {
        **new,
        "versions": old["versions"] | new["versions"],
        "peers": list(dict.fromkeys([*old["peers"], *new["peers"]])),
        "peaks": peaks,
        "cases": list(cases.values()),
        "seconds": old.get("seconds", 0) + new.get("seconds", 0),
    }


def repeated(old: Entry, new: Entry) -> Entry:
    """A case of two separate runs, or of several and one more: the newest with every run's ratio in ``runs``,
    and ``ratio`` their median. What was never compared says nothing."""
    runs = [r for e in (old, new) for r in e.get("runs", [e["ratio"]] if "ratio" in e else [])]
    if not runs:
        return new
    return (new if "ratio" in new else old) | {"runs": runs, "ratio": statistics.median(runs)}


def differences(old: Entry, new: Entry) -> list[str]:
    """Why the two cannot be one result."""
    found = [
        f"{what} {a!r} and {b!r}"
        for what, a, b in [
            ("format", old["format"], new["format"]),
            ("quick", old["options"]["quick"], new["options"]["quick"]),
            *((key, old["machine"].get(key), new["machine"].get(key)) for key in SAME_MACHINE),
            *(
                (f"{name} version", old["versions"][name], new["versions"][name])
                for name in old["versions"]
                if name in new["versions"]
            ),
        ]
        if a != b
    ]
    return found


def _key(e: Entry) -> tuple[Any, ...]:
    return e["suite"], e["name"], e["weights"], e["note"], e["threads"]
