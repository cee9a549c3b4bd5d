"""Which table of costs counts for a target, and why. Knows targets, files and the order of places; measures
nothing.

In this order: for this machine, what ``TENSORLANG_COST`` names (a file, or ``generic``), then the table that
``python -m tensorlang calibrate`` has saved; the table that comes with the package for a processor of that
name (``cost_known``); the generic one. A process reads each file once: the same table, the same schedule.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from contextvars import ContextVar

from ..errors import TensorLangError
from ..options import cost_table, user_directory
from ..target import Target
from .cost import ROOFLINE, Cost
from .cost_known import KNOWN

GENERIC = "generic"
_generic: ContextVar[bool] = ContextVar("generic", default=False)


def cost_of(target: Target) -> Cost:
    """The table for a target. Raises TensorLangError when the file it should be in holds none."""
    return chosen(target)[0]


def costs_text(target: Target) -> str:
    """The table for a target by its digest, and where it comes from, in words."""
    table, source = chosen(target)
    return f"costs {table.digest}, {source}"


def chosen(target: Target) -> tuple[Cost, str]:
    """The table for a target, and where it comes from."""
    named = cost_table()
    if named == GENERIC or _generic.get():
        return ROOFLINE, GENERIC
    if target.is_host:
        if named is not None:
            return _read(named, f"TENSORLANG_COST={named}"), f"TENSORLANG_COST={named}"
        path = saved_at(target.mcpu)
        if path and _is_there(path):
            return _read(path, path), f"measured here ({path})"
    return known_of(target.mcpu), f"those of {target.mcpu}" if target.mcpu in KNOWN else GENERIC


def known_of(cpu: str) -> Cost:
    """The table that comes with the package for a processor: the generic one where nobody has measured it."""
    return KNOWN.get(cpu, ROOFLINE)


@contextlib.contextmanager
def generic() -> Iterator[None]:
    """Inside, the generic table counts, whatever was chosen or saved."""
    before = _generic.set(True)
    try:
        yield
    finally:
        _generic.reset(before)


@functools.cache
def saved_at(cpu: str) -> str | None:
    """Where ``calibrate`` saves the table of this machine: in the user's directory of settings, a file for
    each processor, as machines may share a home. None where there is no home."""
    home = user_directory("config")
    return home and os.path.join(home, f"costs-{cpu}.json")


@functools.cache
def _is_there(path: str) -> bool:
    return os.path.exists(path)


@functools.cache
def _read(path: str, what: str) -> Cost:
    try:
        with open(path, encoding="utf-8") as f:
            return Cost.from_json(f.read(1 << 16), path)
    except (OSError, UnicodeError) as e:
        raise TensorLangError(
            what,
            because=os.strerror(e.errno) if isinstance(e, OSError) and e.errno else "it is not text",
            try_="python -m tensorlang calibrate, which writes a table, or do without it",
        ) from None
