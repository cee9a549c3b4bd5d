"""One callable, many kernels: sizes pick the kernel in machine code. Knows modules and signatures, nothing of
how anybody decides.

A ``Dispatcher`` is called like a kernel and costs some tens of nanoseconds more: a table of exact shapes,
then a decision tree of compares whose leaves are slots (``native.dispatch``). Kernels are published and
retired while calls run; what was replaced is dropped when no call can be inside.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import options
from ..core.names import identifier
from ..entries import public
from ..errors import TensorLangError
from ..interface.signature import Signature
from ..native import dispatch as native
from . import dispatch_file, files
from .arguments import Bound
from .call import native_entry
from .callbacks import Callbacks
from .constants import aligned
from .loader import Code, load_functions
from .module import Called, Module, Plan
from .routes import (
    Box,
    Route,
    Rows,
    Shape,
    box_of,
    check_module,
    check_route,
    check_shape,
    checked_tree,
    narrowed,
    numbered,
    step_of,
)
from .threads import repeater
from .timing import Timing, measure

_SWAP = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
RING = 4096  # calls the ring remembers
TABLE_HEAD = native.Table.size // 8


class State:
    """What the machine code reads. It never points to its Dispatcher."""

    def __init__(self, code: Code, dims: int, slots: int) -> None:
        self.code = code
        self.native = native.State.view(code.address["state"])
        self._swap = _SWAP(code.address["swap"])
        self.ring = aligned((RING, native.Noted.size // 8 + dims), np.int64)
        self.ring.fill(0)
        self.native.ring, self.native.ring_mask = self.ring.ctypes.data, RING - 1
        self.routes: list[Route] = []  # by slot
        self.numbers: dict[int, Route] = {}
        self.exact: dict[Shape, tuple[Any, Module]] = {}  # (record, module)
        self.records: list[Any] = [None] * slots
        self.table: Any = None
        self.retired: list[
            tuple[int, Any]
        ] = []  # (epoch it was retired in, what machine code may still read)

    def swap(self, field: str, value: int, index: int = 0) -> None:
        """Set a word that calls read, in one step for all of them."""
        self._swap(self.native.address_of(field, index), value)


@public(TensorLangError, "Dispatcher")
class Dispatcher:
    """A kernel made of kernels.

    ``like`` is a module with the signature callers see, or that signature; ``routes`` are what runs, by slot;
    ``tree`` picks the slot: an int, or ``(dim, most, low, high)``, which goes on with ``low`` where the dim
    is at most ``most`` and with ``high`` elsewhere. ``ranges`` narrows dims, ``{"m": (1, 512)}``; calls
    outside raise CallError as they do for kernels. ``name`` is what errors call it. Raises TensorLangError
    for routes that take other arguments, have callbacks or checks of bounds, and for a tree that names no
    slot.
    """

    def __init__(
        self,
        like: Module | Signature,
        routes: Sequence[Route],
        tree: Any = 0,
        ranges: Box | None = None,
        name: str | None = None,
    ) -> None:
        declared = like if isinstance(like, Signature) else like.signature
        self.signature = narrowed(
            declared if name is None else replace(declared, name=identifier(name)), ranges or {}
        )
        self.dims = tuple(d.name for d in self.signature.dims)
        self.tree = checked_tree(tree, self.dims, len(routes))
        self._places = {name: i for i, name in enumerate(self.dims)}
        cut = {r.dim for r in routes if isinstance(r, Rows)}
        if len(cut) > 1:
            raise TensorLangError(
                f"dispatcher: rows are cut along {', '.join(sorted(cut))}", because="one dim can be cut"
            )
        self._row_dim = next(iter(cut), None)
        signature = self.signature
        buffers = [p for p in signature.params if p.kind == "buffer"]
        scalars = len(self.dims) + sum(p.kind == "scalar" for p in signature.params)
        steps = [step_of(p, self._row_dim, self._places) for p in buffers]
        rows = None if self._row_dim is None else self._places[self._row_dim]
        places = numbered(self.tree, self._places)
        functions = native.functions(len(buffers), len(self.dims), scalars, places, len(routes), rows, steps)
        code = load_functions({signature.name: functions.pop("entry"), **functions}, opt=1)
        self._state = State(code, len(self.dims), len(routes))
        self._lock = threading.Lock()
        self._next = 0
        for slot, route in enumerate(routes):
            check_route(self.signature, route, box_of(self.signature, self.tree, slot), self._row_dim)
            self._state.routes.append(route)
            self._swap(slot, route)
        self._plan = Plan(signature, code, Callbacks(()), {"routes": self._state})
        quick = native_entry(self._plan) if options.native_calls() else None
        self._call: Callable[..., Any] = quick or self._plan.portable

    # -- calls

    def __repr__(self) -> str:
        sizes = f" over {', '.join(self.dims)}" if self.dims else ""
        return f"<dispatcher {self.signature.name}{sizes}>"

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **named: Any) -> Any: ...
    else:
        __call__ = Called(
            attrgetter("_call"),
            doc="""Run the kernel for these sizes, as ``Module`` does. Raises CallError for arguments it
            cannot take, before anything is written.""",
        )

    @property
    def entry(self) -> Callable[..., Any]:
        """The function behind ``d(...)``: a loop that counts nanoseconds may keep and call it."""
        return self._call

    @property
    def name(self) -> str:
        """The name of the kernels, as messages, profiles and files show it."""
        return self.signature.name

    def bind(self, *args: Any) -> Bound:
        """The arguments in machine form, their dims looked up and checked. Raises CallError."""
        return self._plan.binder.bind(args)

    def shape_of(self, *args: Any) -> Shape:
        """The dims of these arguments, in the order of ``dims``. Raises CallError."""
        return struct.unpack_from(f"={len(self.dims)}q", self.bind(*args).scalars)

    def benchmark(self, *args: Any, seconds: float = 0.5) -> Timing:
        """As ``Module.benchmark``, for some ``seconds``: the machine code alone, dispatch included."""
        bound = self.bind(*args)
        loop, plan = repeater(), self._plan

        def run(times: int) -> None:
            status = loop(plan.address, bound.buffers, bound.scalars, times)
            if status:
                plan.fail(status)

        return measure(run, seconds=seconds)

    # -- what runs

    def slot(self, shape: Sequence[int]) -> int:
        """The slot the tree picks for these dims: a number into ``routes``."""
        node: Any = self.tree
        while not isinstance(node, int):
            dim, most, low, high = node
            node = low if shape[self._places[dim]] <= most else high
        return node

    def route(self, shape: Sequence[int]) -> Route:
        """What runs for these dims: a kernel, or what another tier has published."""
        found = self._state.exact.get(tuple(shape))
        return found[1] if found is not None else self._state.routes[self.slot(shape)]

    @property
    def routes(self) -> tuple[Route, ...]:
        """What runs in each slot, in the order of the numbers that the tree picks."""
        return tuple(self._state.routes)

    @property
    def published(self) -> dict[Shape, Module]:
        """The kernels published for exact shapes, by their dims in the order of ``shape_of``."""
        return {shape: module for shape, (_, module) in self._state.exact.items()}

    def publish(self, dims: Sequence[int], module: Module) -> None:
        """Run ``module`` for these dims from the next call on. Raises TensorLangError when it does not take
        such arrays."""
        shape = tuple(int(n) for n in dims)
        check_shape(self.signature, shape)
        check_module(self.signature, module, {d: (n, n) for d, n in zip(self.dims, shape, strict=True)})
        with self._lock:
            # a new table each time: readers without the lock see the old one or the new one, whole
            self._state.exact = {**self._state.exact, shape: (self._record(module), module)}
            self._tabulate()

    def publish_range(self, slot: int, module: Module) -> None:
        """Run ``module`` where the tree picks ``slot``, from the next call on. Raises TensorLangError when it
        cannot take all such sizes."""
        if not 0 <= slot < len(self._state.routes):
            raise TensorLangError(
                f"publish_range({slot}): no such slot", legal=f"0 to {len(self._state.routes) - 1}"
            )
        check_route(self.signature, module, box_of(self.signature, self.tree, slot), self._row_dim)
        with self._lock:
            self._state.routes[slot] = module
            self._swap(slot, module)
            self._reclaim()

    def retire(self, dims: Sequence[int]) -> bool:
        """Run what the tree picks for these dims again. Whether something was published for them."""
        shape = tuple(int(n) for n in dims)
        with self._lock:
            if shape not in self._state.exact:
                return False
            self._state.exact = {k: v for k, v in self._state.exact.items() if k != shape}
            self._tabulate()
            return True

    def collect(self) -> int:
        """Drop what no call can see any more; how many replaced pieces still wait."""
        with self._lock:
            self._reclaim()
            return len(self._state.retired)

    # -- what ran

    @property
    def calls(self) -> int:
        """Calls so far, as the machine code that dispatches counts them."""
        return int(self._state.native.calls)

    def since(self, call: int) -> tuple[int, Any]:
        """Calls so far, and what the ring still holds of those after number ``call``: rows of the route's
        number, processor cycles, dims, oldest first. The ring holds the last ``RING`` calls; what is being
        written is left out."""
        total, ring = self.calls, self._state.ring
        # numbers are read before and after the rows: a row that was written meanwhile has changed its number
        before = ring[:, 0].copy()
        rows = ring.copy()
        good = rows[(before > call) & (before <= total) & (ring[:, 0] == before)]
        return total, good[np.argsort(good[:, 0]), 1:]

    def route_of(self, number: int) -> Route | None:
        """The route of a number that ``since`` tells, None when it is gone."""
        return self._state.numbers.get(number)

    # -- files

    def save(self, path: str | Path, note: Any = None) -> None:
        """Write it to one file that ``load`` reads back without the compiler, with plain data as a note.
        Kernels published for exact shapes are not part of it. Raises TensorLangError when nothing can be
        written."""
        files.write(
            {files.named(path, "save"): dispatch_file.pack(self.signature, self.routes, self.tree, note)},
            f"save {self.name}",
        )

    @staticmethod
    def load(path: str | Path) -> tuple[Dispatcher, Any]:
        """A dispatcher that ``save`` wrote, and its note. Raises TargetError when it was compiled for another
        machine, TensorLangError when the file is torn, changed or something else. The file holds machine
        code: load only what you would run."""
        signature, routes, tree, note = dispatch_file.read(path)
        return Dispatcher(signature, routes, tree), note

    # -- swapping pointers

    def _record(self, route: Route) -> Any:
        """The words of a route, with what keeps its code alive."""
        number = self._next
        self._next += 1
        self._state.numbers[number] = route
        if isinstance(route, Rows):
            body = [
                native.ROWS,
                number,
                route.highest,
                0,
                *(route.kernels[h].address for h in range(1, route.highest + 1)),
            ]
        else:
            taken = self._taken(route.signature)
            whole = range(len(self.dims) + sum(p.kind == "scalar" for p in self.signature.params))
            plain = not taken or taken == list(whole)
            body = (
                [native.CALL, number, route.address]
                if plain
                else [native.PICK, number, route.address, len(taken), *taken]
            )
        record = aligned((len(body),), np.int64)
        record[:] = body
        return record

    def _taken(self, signature: Signature) -> list[int]:
        """Which of our scalars a kernel takes, in its order."""
        ours = len(self.dims)
        return [
            *(self._places[d.name] for d in signature.dims),
            *(ours + i for i in range(sum(p.kind == "scalar" for p in signature.params))),
        ]

    def _swap(self, slot: int, route: Route) -> None:
        record, old = self._record(route), self._state.records[slot]
        self._state.records[slot] = record
        self._state.swap("slots", record.ctypes.data, slot)
        self._retire(old)

    def _tabulate(self) -> None:
        state, old = self._state, self._state.table
        entries = state.exact
        if not entries:
            state.swap("table", 0)
            state.table = None
        else:
            size = 1 << (2 * len(entries) - 1).bit_length()
            table = aligned((TABLE_HEAD + size * (1 + len(self.dims)),), np.int64)
            table.fill(0)
            table[0] = size - 1
            for shape, (record, _) in entries.items():
                i = native.mixed(shape) >> 32
                while table[TABLE_HEAD + (i & size - 1) * (1 + len(shape))]:
                    i += 1
                at = TABLE_HEAD + (i & size - 1) * (1 + len(shape))
                table[at : at + 1 + len(shape)] = [record.ctypes.data, *shape]
            state.table = (table, list(entries.values()))
            state.swap("table", table.ctypes.data)
        self._retire(old)
        self._reclaim()

    def _retire(self, old: Any) -> None:
        if old is not None:
            self._state.retired.append((int(self._state.native.epoch), old))

    def _reclaim(self) -> None:
        """Advance the epoch when the calls of the one before the last are done, twice at most: then what was
        retired before is out of sight."""
        state = self._state
        for _ in range(2):
            epoch = int(state.native.epoch)
            if native.Inside.view(state.native.address_of("inside", (epoch + 1) & 1)).calls:
                break  # calls of the epoch before this one are still inside
            state.retired = [(when, old) for when, old in state.retired if epoch < when + 1]
            if not state.retired:
                break
            state.swap("epoch", epoch + 1)
        alive = {id(r) for r in state.routes} | {id(m) for _, m in state.exact.values()}
        waiting = bool(state.retired)
        if not waiting:
            state.numbers = {n: r for n, r in state.numbers.items() if id(r) in alive}
