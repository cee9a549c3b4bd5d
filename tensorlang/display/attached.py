"""Which class shows what. A new class is a row. Knows the classes; nothing of HTML."""

from __future__ import annotations

from typing import Any

from ..loopir.stmt import Func
from ..passes.base import TimeTable
from ..runtime import Dispatcher, Module, Profile, Rows, Timing
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..target import Target
from ..te.tensor import Tensor
from . import objects
from .objects import Shown, attach


def _dispatcher(d: Any) -> str:
    sizes = f" over {', '.join(d.dims)}" if d.dims else ""
    return f"<dispatcher {d.signature.name}{sizes}>"


def _rows(r: Any) -> str:
    return f"<rows of {r.dim}: kernels of {', '.join(map(str, sorted(r.kernels)))}>"


ROWS: tuple[tuple[type, Shown | None, Shown | None], ...] = (
    (Tensor, None, objects.tensor),
    (Schedule, objects.plain, objects.schedule),
    (Trace, objects.plain, objects.trace),
    (Func, objects.plain, objects.func),
    (Module, None, objects.kernel),
    (Timing, objects.plain, objects.timing),
    (Profile, objects.plain, objects.profile),
    (TimeTable, objects.plain, objects.times),
    (Target, objects.plain, objects.target),
    (Dispatcher, _dispatcher, None),
    (Rows, _rows, None),
)


def attach_everything() -> None:
    """Called once, when the package has been imported."""
    for cls, text, page in ROWS:
        attach(cls, text=text, page=page)
