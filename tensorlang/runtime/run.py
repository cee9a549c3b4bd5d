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

from ..errors import TensorLangError, counted
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
    """``serve(given, sizes, state)`` and ``repeat(given, sizes, state, words)``, called with the
    interpreter's lock, the address of the first, and ``drop``."""
    if not _native:
        with _lock:
            if not _native:
                imports = {
                    n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0
                    for n in native.PYTHON
                }
                own = helpers(parallel=False)
                imports |= {n: own[n] for n in native.MEMORY}
                exports = {
                    "tensorlang_serve": native.serve,
                    "tensorlang_repeat": native.repeat,
                    "tensorlang_drop": native.drop,
                }
                code = load_functions(exports, imports, opt=2, once=True).keep()
                word = ctypes.c_void_p
                at = code.address["tensorlang_serve"]
                serve = ctypes.PYFUNCTYPE(ctypes.c_int32, word, word, word)(at)
                drop = ctypes.PYFUNCTYPE(None, word)(code.address["tensorlang_drop"])
                repeat = ctypes.PYFUNCTYPE(ctypes.c_int32, word, word, word, word)(
                    code.address["tensorlang_repeat"]
                )
                _native.update(address=at, drop=drop, serve=serve, repeat=repeat)
    return _native


Shape = tuple[int, ...]
Form = tuple[Shape, Any]  # shape and numpy's dtype
Place = tuple[int, int]  # where something lies (``native.engine``), the bytes behind that


class Step(NamedTuple):
    """A call of a kernel: its entry, its number, where its buffers lie, its sizes, or where these lie when
    the call computes them."""

    entry: int
    number: int
    buffers: Sequence[Place]
    slots: Sequence[int]
    computed: Place | None = None


class Copy(NamedTuple):
    """So many bytes from there to there."""

    bytes: int
    source: Place
    to: Place


class Sizes(NamedTuple):
    """Instructions that compute sizes, which lie so many bytes behind the beginning of the arena."""

    area: int
    instructions: Sequence[tuple[int, int, int, int]]


class Lines(NamedTuple):
    """The beginnings of lines, brought together: the numbers of the sizes that count lines, the elements of
    a line and those that are moved, and the bytes of an element."""

    area: int
    lines: int
    stride: int
    length: int
    unit: int
    source: Place
    to: Place


class Jump(NamedTuple):
    """Go on with the steps of the case that is equal to the value there; always the last step."""

    value: Place
    cases: Sequence[tuple[bytes, Sequence[Any]]]


class Miss(NamedTuple):
    """What follows is not to be had here; always the last step."""


class Planned(NamedTuple):
    """What a plan is made of: the steps, the bytes of the arena, about how much work it is; ``keep`` holds
    alive what they refer to."""

    steps: Sequence[Step | Copy | Sizes | Lines | Jump | Miss]
    arena: int
    work: float
    keep: Any = None


class _Table:
    """The words of a plan: first those of the steps, then the sizes and values they refer to."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.words: list[int] = []
        self._data: list[tuple[int, Sequence[int]]] = []  # the word to put an address into, what lies there
        self._write(steps)

    def _write(self, steps: Sequence[Any]) -> None:
        words = self.words
        for s in steps:
            if isinstance(s, Step):
                if len(s.buffers) > native.MAX_BUFFERS:
                    raise TensorLangError(
                        f"Engine: a kernel of {counted(len(s.buffers), 'array')}",
                        because=f"one has {native.MAX_BUFFERS} at most",
                        try_="several operators of fewer inputs each",
                    )
                sizes, buffers = s.computed or (native.CONSTANT, 0), (w for pair in s.buffers for w in pair)
                words += [s.entry, len(s.buffers), *sizes, s.number, *buffers]
                if s.computed is None:
                    self._data.append((len(words) - 2 * len(s.buffers) - 2, s.slots))
            elif isinstance(s, Copy):
                words += [native.COPY, s.bytes, *s.source, *s.to]
            elif isinstance(s, Sizes):
                words += [native.SIZES, s.area, len(s.instructions), *(w for i in s.instructions for w in i)]
            elif isinstance(s, Lines):
                words += [native.LINES, *s[:5], *s.source, *s.to]
            elif isinstance(s, Jump):
                self._jump(s)
                return
            else:
                words.append(native.MISS)
                return
        words.append(native.END)

    def _jump(self, s: Jump) -> None:
        words, size = self.words, max((len(v) for v, _ in s.cases), default=0)
        words += [native.JUMP, size, *s.value, len(s.cases)]
        at = len(words)
        words += [0] * native.CASE * len(s.cases)
        for value, steps in s.cases:
            padded = value + bytes(-len(value) % 8)
            self._data.append((at, np.frombuffer(padded, np.int64).tolist()))
            words[at + 1] = len(words)
            at += native.CASE
            self._write(steps)

    def at(self, address: int) -> list[int]:
        """The words, when they lie at this address."""
        words = list(self.words)
        for word, data in self._data:
            # behind the steps: a step names its sizes by address, which is known only when the block is made
            words[word] = address + 8 * len(words)
            words += data
        return words


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

    __slots__ = ("_words", "arena", "keep", "key", "view")

    def __init__(self, key: Sequence[int], made: Planned) -> None:
        self.key = tuple(key)
        self.arena = made.arena
        self.keep = made.keep
        table, head = _Table(made.steps), _HEAD + len(key)
        self._words = np.empty(head + len(table.at(0)), np.int64)
        begin = self._words.ctypes.data + 8 * head
        self._words[:] = [*[0] * _HEAD, *key, *table.at(begin)]
        self.view = native.Plan.view(self._words.ctypes.data)
        self.view.table, self.view.arena = begin, made.arena
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

    def get(self, key: tuple[int, ...]) -> Plan | None:
        """The plan for these sizes, if there is one."""
        return self._kept.get(key)

    def once(self, given: bytes, sizes: bytes) -> int:
        """Run on the arrays at these addresses, if there is a plan that serves them: the status of
        ``native.engine.serve``."""
        return int(self._serve(given, sizes, self.address))

    def serve(self, given: bytes, sizes: bytes, make: Make) -> int:
        """Run on the arrays at these addresses. The status of ``native.engine.table``."""
        # again and again: between planning and running another thread may have thrown the plan out
        while (status := self._serve(given, sizes, self.address)) == native.UNPLANNED:
            self.plan(self._form.unpack(sizes), make)
        return int(status)

    def plan(self, key: tuple[int, ...], make: Make) -> Plan:
        """The plan for these sizes."""
        with self._lock:
            found = self._kept.get(key)
            return self._added(Plan(key, make(key))) if found is None else found

    def renew(self, key: tuple[int, ...], made: Planned) -> None:
        """A plan in the place of the one for these sizes, if there is one."""
        with self._lock:
            before, now = self._kept.pop(key, None), Plan(key, made)
            if before is not None:
                self._take_out(before)
            self._added(now)

    def _added(self, plan: Plan) -> Plan:
        while len(self._kept) >= MAX_PLANS:
            self._take_out(self._oldest())
        head = _hash(plan.key) & (native.HEADS - 1)
        # the plan is whole before the list points to it: that store is what publishes it
        plan.view.next = int(self._heads[head])
        self._kept[plan.key] = plan
        self._heads[head] = plan.address
        return plan

    def _oldest(self) -> Plan:
        """The oldest plan that was not used since the last look, no longer among those kept."""
        while True:
            key, plan = next(iter(self._kept.items()))
            del self._kept[key]
            if not plan.view.used:
                return plan
            # a second chance (Corbató's clock): used since the last look, so it goes to the end of the queue
            plan.view.used = 0
            self._kept[key] = plan

    def _take_out(self, plan: Plan) -> None:
        """Take a plan from the list that machine code looks through."""
        head = _hash(plan.key) & (native.HEADS - 1)
        before, at = None, int(self._heads[head])
        while at != plan.address:
            before, at = native.Plan.view(at), native.Plan.view(at).next
        if before is None:
            self._heads[head] = plan.view.next
        else:
            before.next = plan.view.next
        # a call that gave up the lock may still be inside; it is freed at a later look, for nobody new finds
        # it
        self._retired = [p for p in (*self._retired, plan) if p.view.users]


def _hash(key: Sequence[int]) -> int:
    """As ``native.engine.found`` computes it."""
    h = 0
    for n in key:
        h = ((h ^ (n & _MASK)) * _MIX) & _MASK
        h ^= h >> 29
    return h
