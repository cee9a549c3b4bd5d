"""Public names that have changed: the old one works for one version more, with a warning. Knows nothing of
what the names stand for.

``__getattr__ = renamed(__name__, turned="transposed")`` at the end of a module; its ``__all__`` has the new
name only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any


def renamed(module: str, **names: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``module``: each old name gives what now has the new one."""

    def get(name: str) -> Any:
        if name not in names:
            return get.otherwise(name)  # type: ignore[attr-defined]
        deprecated(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    def otherwise(name: str) -> Any:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    get.otherwise = otherwise  # type: ignore[attr-defined]  # whoever has better words puts them here
    return get


def deprecated(old: str, new: str) -> None:
    """Warn the caller's caller that ``old`` is called ``new`` now."""
    warnings.warn(
        f"{old} is now {new}; the old name goes with the next version", DeprecationWarning, stacklevel=3
    )
