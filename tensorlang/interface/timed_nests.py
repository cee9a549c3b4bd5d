"""A loop nest whose time is taken, as plain data shared by the pass that marks it and the runtime that shows
it."""

from __future__ import annotations

from dataclasses import dataclass

START, STOP = (
    "tensorlang_profile_start",
    "tensorlang_profile_stop",
)  # int32 start(int64 *began), int32 stop(int64 *began, int64 *table, int64 row)


@dataclass(frozen=True)
class Nest:
    """``loop`` names the loops; ``writes`` the buffers that outlive it. ``within`` is the row of the nest
    around it, None at the top. ``shown`` is False for what only serves as the whole of others: the kernel,
    and the iterations of a nest that is divided further."""

    loop: str
    writes: tuple[str, ...] = ()
    within: int | None = None
    shown: bool = True
