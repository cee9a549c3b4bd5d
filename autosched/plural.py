"""How many of something, in words. Knows nothing of the rest."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{n} {what}{'' if n == 1 else 's'}"
