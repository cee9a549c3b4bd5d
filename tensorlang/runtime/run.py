"""Kernels in a row, without Python in between: for each set of sizes a plan, which says where every buffer
lies. Knows addresses and sizes; the native loop is ``native.engine``.

The state and the plans are structures that machine code reads. Whoever changes them holds the interpreter's
lock, and so does ``serve`` while it looks: each change is one store, and a plan is freed when no call is in
it.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..native import engine as native
from .loader import load_functions
from .threads import helpers

MAX_PLANS = 64  # of a run
RELEASE_WORK = 16 << 10  # statements: above it (some 20 microseconds) the interpreter's lock is given up
_MIX, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
_HEAD = native.Plan.size // 8

_lock = threading.Lock()
_native: dict[str, Any] = {}


def functions() -> dict[str, Any]:
    """``serve(given, sizes, state)``, called with the interpreter's lock, its address, and ``drop``."""
    if not _native:
        with _lock:
            if not _native:
                imports = {
                    n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0
                    for n in native.PYTHON
                }
                own = helpers(parallel=False)
                imports |= {n: own[n] for n in native.MEMORY}
                exports = {"tensorlang_serve": native.serve, "tensorlang_drop": native.drop}
                code = load_functions(exports, imports, opt=2).keep()
                word = ctypes.c_void_p
                at = code.address["tensorlang_serve"]
                serve = ctypes.PYFUNCTYPE(ctypes.c_int32, word, word, word)(at)
                drop = ctypes.PYFUNCTYPE(None, word)(code.address["tensorlang_drop"])
                _native.update(address=at, drop=drop, serve=serve)
    return _native


class Step(NamedTuple):
    """A call of a kernel: its entry, its buffers as (where, bytes behind it), its sizes."""

    entry: int
    buffers: Sequence[tuple[int, int]]
    slots: Sequence[int]


class Planned(NamedTuple):
    """What a plan is made of: the steps, the bytes of the arena, about how much work it is."""

    steps: Sequence[Step]
    arena: int
    work: float


class Arenas:
    """The arenas of an engine, given back with it."""

    def __init__(self) -> None:
        self._drop = functions()["drop"]
        self._words = np.zeros(native.Arenas.size // 8, np.int64)
        self.address = self._words.ctypes.data

    def __del__(self) -> None:
        if getattr(self, "address", 0):
            self._drop(self.address)

    @property
    def bytes(self) -> int:
        """What is kept now."""
        kept = (int(w) for w in self._words if w)
        return sum(ctypes.c_int64.from_address(w).value for w in kept)


class Plan:
    """A run for one set of sizes, in memory that machine code reads."""

    __slots__ = ("_slots", "_words", "arena", "key", "view")

    def __init__(self, key: Sequence[int], made: Planned) -> None:
        self.key = tuple(key)
        self.arena = made.arena
        self._slots = np.array([n for s in made.steps for n in s.slots] or [0], np.int64)
        at = self._slots.ctypes.data
        table = [len(made.steps)]
        for s in made.steps:
            if len(s.buffers) > native.MAX_BUFFERS:
                raise ValueError(f"a kernel of {len(s.buffers)} buffers")
            table += [s.entry, len(s.buffers), at, *(w for pair in s.buffers for w in pair)]
            at += 8 * len(s.slots)
        head = [0] * _HEAD
        self._words = np.array([*head, *key, *table], np.int64)
        self.view = native.Plan.view(self._words.ctypes.data)
        self.view.table = self._words.ctypes.data + 8 * (_HEAD + len(key))
        self.view.arena = made.arena
        self.view.releases = int(made.work >= RELEASE_WORK)

    @property
    def address(self) -> int:
        return int(self._words.ctypes.data)


Make = Callable[[tuple[int, ...]], Planned]  # plans a set of sizes


class Plans:
    """The plans of a run."""

    def __init__(self, dims: int, arenas: Arenas) -> None:
        self._arenas = arenas  # the machine code reads them
        self._words = np.zeros(native.State.size // 8, np.int64)
        self.address = int(self._words.ctypes.data)
        state = native.State.view(self.address)
        state.arenas, state.dims = arenas.address, dims
        self._heads = self._words[native.State.fields["heads"][1] // 8 :]
        self._form = struct.Struct(f"={dims}q")
        self._kept: dict[tuple[int, ...], Plan] = {}
        self._retired: list[Plan] = []
        self._lock = threading.RLock()
        self._serve = functions()["serve"]

    def __len__(self) -> int:
        return len(self._kept)

    def serve(self, given: bytes, sizes: bytes, make: Make) -> int:
        """Run on the arrays at these addresses. The status of ``native.engine.table``."""
        while (status := self._serve(given, sizes, self.address)) == native.UNPLANNED:
            self.plan(self._form.unpack(sizes), make)
        return int(status)

    def plan(self, key: tuple[int, ...], make: Make) -> Plan:
        """The plan for these sizes."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = Plan(key, make(key))
                while len(self._kept) >= MAX_PLANS:
                    self._retire()
                head = _hash(key) & (native.HEADS - 1)
                found.view.next = int(self._heads[head])
                self._kept[key] = found
                self._heads[head] = found.address
            return found

    def _retire(self) -> None:
        """Take out the oldest plan that was not used since the last look."""
        while True:
            key, plan = next(iter(self._kept.items()))
            del self._kept[key]
            if not plan.view.used:
                break
            plan.view.used = 0
            self._kept[key] = plan
        head = _hash(key) & (native.HEADS - 1)
        before, at = None, int(self._heads[head])
        while at != plan.address:
            before, at = native.Plan.view(at), native.Plan.view(at).next
        if before is None:
            self._heads[head] = plan.view.next
        else:
            before.next = plan.view.next
        self._retired = [p for p in (*self._retired, plan) if p.view.users]


def _hash(key: Sequence[int]) -> int:
    """As ``native.engine.found`` computes it."""
    h = 0
    for n in key:
        h = ((h ^ (n & _MASK)) * _MIX) & _MASK
        h ^= h >> 29
    return h
