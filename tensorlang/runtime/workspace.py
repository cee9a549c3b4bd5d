"""Memory for kernels' temporaries: aligned blocks, the larger ones kept between calls. Knows no kernels and
no threads of Python.

A fresh block costs a page fault for each page at its first touch: a matrix product that packs all of its
right side takes 1.2 times as long at 512 x 512 and 1.4 times at 256 x 256 when its memory is fresh
(``benchmarks/threads.py``). So what is freed is kept, up to a budget for the whole process
(``TENSORLANG_WORKSPACE_BYTES``), and given back when it was not used for some seconds while others were, or
by ``release_workspace``. The budget is of the process, not of its threads: a thread that ends leaves nothing
behind. ``native.memory`` is the allocator itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import options
from ..native import memory
from .loader import Code, load_functions

NAMES = ("tensorlang_alloc", "tensorlang_free")
# bytes kept between calls, so that a kernel called again does not ask the system for pages and zero them
DEFAULT_BUDGET = 128 << 20
FAR_REACH = 255  # classes above its own that a request may take a kept block of: any
IDLE_SECONDS = 2  # a kept block that nobody asked for between two looks this far apart is given back


@dataclass(frozen=True)
class Workspace:
    """The loaded allocator: ``address`` of what kernels import; ``release`` gives kept blocks back and
    returns how many bytes; ``settings`` are read at each call (``native.memory.Settings``)."""

    code: Code
    address: dict[str, int]
    release: Callable[[], int]
    settings: Any


def start(more: dict[str, Any] | None = None) -> Workspace:
    """Compile and load the allocator, and ``more`` native functions with it. Raises TensorLangError for a bad
    TENSORLANG_WORKSPACE_BYTES."""
    requested = options.workspace_bytes()
    keeps = sys.platform == "linux" and requested != 0
    functions = (
        (memory.alloc, memory.free, memory.give_all)
        if keeps
        else (memory.plain_alloc, memory.plain_free, memory.give_none)
    )
    exports = {**dict(zip((*NAMES, "release"), functions, strict=True)), "settings": memory.settings}
    code = load_functions({**exports, **(more or {})}, once=True).keep()
    settings = memory.Settings.view(code.address["settings"])
    settings.budget, settings.idle, settings.reach = (
        DEFAULT_BUDGET if requested is None else requested,
        IDLE_SECONDS,
        memory.REACH,
    )
    release = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address["release"])
    return Workspace(code, {name: code.address[name] for name in NAMES}, release, settings)
