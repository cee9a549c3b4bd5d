"""What functions of autosched are as users get them, and what is said of names that are not there (see
``tensorlang.entries``). Knows no room."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from tensorlang.boundary import missing
from tensorlang.entries import called, guarded, lacking, unimported
from tensorlang.errors import TensorLangError

from .signposts import GONE

__all__ = ["absent", "called", "lacking", "opened", "unimported"]

# function → whether, or which, arguments are held against their annotations before the call
_FUNCTIONS: dict[str, bool | Collection[str]] = {
    "autotune": ("trials", "seed", "cache", "target"),
    "best_guess": True,
    "compile": False,  # looks at its arguments itself, as do the next two
    "specialise": False,
    "tune_dynamic": False,
    "extract_tasks": True,
    "model_from": True,
    "register_workload": True,
    "tune": True,
    "tune_tasks": True,
}


def opened(name: str, found: Any) -> Any:
    """A name of the package as users get it: functions are guarded."""
    if name not in _FUNCTIONS:
        return found
    return guarded(sys.modules["autosched"], name, found, "autosched", TensorLangError, _FUNCTIONS[name])


def absent(name: str) -> TensorLangError:
    """The error of a name that the package does not have."""
    return missing("autosched", name, sys.modules["autosched"].__all__, GONE)
