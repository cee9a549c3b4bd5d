"""What a family tells of itself. Plain data; knows modules by name only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorlang as tl

from ..declaration import Declaration
from ..kernel_times import Tables
from ..plan import Plans

Box = Mapping[str, tuple[int, int]]  # inclusive sizes of each dim


@dataclass(frozen=True)
class Settings:
    """``seconds`` to spend on measuring; ``tables`` of earlier runs; ``opt`` the sizes expected most;
    ``records`` a file of tuned schedules."""

    seconds: float
    tables: Tables
    opt: Mapping[str, int]
    records: str | Path | None = None
    # whether no call comes from outside the box, so that buffers may be planned for its largest sizes
    closed: bool = True


@dataclass(frozen=True)
class Options:
    """The routes a dispatcher can run and the plans they stand for, by slot. ``like`` is the signature
    callers see, or a module that has it; ``general`` is the slot that takes every size, ``kernels`` counts
    what was compiled, ``notes`` are for readers."""

    family: str
    like: Any
    dims: tuple[str, ...]
    routes: Sequence[tl.Module | tl.Rows]
    plans: Plans
    general: int = 0
    kernels: int = 1
    notes: tuple[str, ...] = ()


Maker = Callable[[Declaration, Box, Settings], Options | None]
