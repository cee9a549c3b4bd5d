"""Makes specialised code in the background: from a file if there is one, else by a worker process. Knows
computations, keys, files and measurement's workers; not what the code is for.

Compiling in a thread would keep the interpreter's lock from those who are served (5 ms at a time) and LLVM's
own lock too, so a process of its own compiles and leaves a saved kernel, and the thread here only waits for
it and links the code (about a millisecond).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import queue
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te

from ..measure import Job, Measurer
from ..measure.measurer import Stages
from ..statuses import OK
from ..whole_files import write_whole
from .builder import Request
from .keys import Environment, Key, combined
from .serves import TUNED, Made, Order
from .shelf import Shelf

PAGE = 4096
COMPILE_SECONDS, TUNE_SECONDS = 60.0, 1800.0  # limits
STAGES = Stages(build=f"{__package__}.builder:build", run=f"{__package__}.builder:hand_over")
_numbers = itertools.count(1)


class Workshop:
    """Makes code of the shapes of one computation: ``tensors`` are those of the kernel's signature with dims
    for sizes, outputs last, and a shape gives the values of the ``dims`` in this order. ``constants`` are
    arrays by the name of their tensor. ``directory`` keeps the code for later runs; None: until this object
    goes. ``trials`` is what a search may measure.

    Raises TensorLangError for a directory that cannot be made, and for a computation that has no JSON form.
    """

    def __init__(
        self,
        tensors: Sequence[te.Tensor],
        dims: Sequence[str],
        *,
        constants: Mapping[str, Any] | None = None,
        target: tl.Target | None = None,
        directory: str | Path | None = None,
        trials: int = 64,
    ) -> None:
        self.dims, self.target, self.trials = tuple(dims), target or tl.Target.host(), trials
        self.misses: Counter[str] = Counter()
        self._graph, self._computation = te.serialize.to_json(tensors), te.serialize.key_of(tensors)
        self._constants: dict[str, Any] = {
            # asarray, since np.ascontiguousarray gives a number one axis
            name: np.asarray(a, order="C")
            for name, a in (constants or {}).items()
        }
        self._temporary = None if directory is not None else tempfile.TemporaryDirectory(prefix="tiers-")
        self.shelf = Shelf(directory if directory is not None else str(getattr(self._temporary, "name", "")))
        self._environment = Environment.of(self.target)
        self._digest = ""
        self._pid = 0
        self._renew()

    def _renew(self) -> None:
        """Begin anew: in a process that was forked, the thread and the workers are the parent's."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
            self._made: queue.SimpleQueue[Made] = queue.SimpleQueue()
            self._waiting = 0
            self._thread: threading.Thread | None = None
            self._measurer: Measurer | None = None
            self._closed = False

    def order(self, order: Order) -> None:
        """Begin to make code. Never waits."""
        self._renew()
        if self._closed:
            raise tl.TensorLangError("the tiers are closed", try_="a new kernel")
        self._waiting += 1
        self._orders.put(order)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tiers-workshop", daemon=True)
            self._thread.start()

    def finished(self) -> list[Made]:
        """What has been made since the last time."""
        self._renew()
        made: list[Made] = []
        with contextlib.suppress(queue.Empty):
            while True:
                made.append(self._made.get_nowait())
        self._waiting -= len(made)
        return made

    def has(self, order: Order) -> bool:
        """Whether there is a file for it."""
        return self.shelf.has(self._key(order))

    def discard(self, order: Order) -> None:
        """Remove the file."""
        self.shelf.discard(self._key(order))

    def busy(self) -> int:
        """How many orders are on their way."""
        self._renew()
        return self._waiting

    def close(self) -> None:
        """End the workers; what was on its way is given up."""
        self._renew()
        self._closed = True
        # wakes a thread that waits for orders
        self._orders.put(None)
        process = None if self._measurer is None else self._measurer.process
        if process is not None:
            process.kill()  # the thread may be waiting for it
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _work(self) -> None:
        try:
            while (order := self._orders.get()) is not None and not self._closed:
                begin = time.perf_counter()
                try:
                    made = self._make(order)
                except (tl.TensorLangError, OSError) as e:  # OSError: no room for the constants
                    made = Made(order, None, time.perf_counter() - begin, why=str(e).partition("\n")[0])
                self._made.put(made)
        finally:
            if self._measurer is not None:
                self._measurer.close()

    def _make(self, order: Order) -> Made:
        begin = time.perf_counter()
        key = self._key(order)
        found = self.shelf.read(key)
        if found.module is not None:
            return self._done(order, found.module, found.seconds, stored=True)
        if found.why != "absent":
            self.misses[found.why] += 1
        tuned = order.tier == TUNED
        request = Request(
            "kernel",
            str(self.shelf.path(key)),
            key.parts(),
            dict(key.sizes),
            str(self.target),
            self._constants_file(),
            self.trials if tuned else 0,
            str(self.shelf.directory / f"{key.place}.jsonl") if tuned else "",
        )
        if self._measurer is None:
            self._measurer = Measurer(STAGES)
        outcome = self._measurer.measure(
            Job(
                next(_numbers),
                self._graph,
                self._computation,
                str(self.target),
                request.to_json(),
                timeout=TUNE_SECONDS if tuned else COMPILE_SECONDS,
            )
        )
        seconds = time.perf_counter() - begin
        if outcome.status != OK:
            return Made(order, None, seconds, why=f"{outcome.status}: {outcome.error}".partition("\n")[0])
        begin = time.perf_counter()
        found = self.shelf.read(key)
        if found.module is None:
            return Made(order, None, seconds, why=found.why)
        self.shelf.sweep()
        return self._done(
            order, found.module, outcome.build_seconds + time.perf_counter() - begin
        )  # not the worker's own start

    def _done(self, order: Order, module: tl.Module, seconds: float, stored: bool = False) -> Made:
        """The object code is kept beside the loaded one, which takes whole pages."""
        code = len(module.object_code)
        shared = {a.__array_interface__["data"][0]: a.nbytes for a in module.constants.values()}
        return Made(order, module, seconds, code + -(-code // PAGE) * PAGE, stored=stored, shared=shared)

    def _key(self, order: Order) -> Key:
        how = f"tune {self.trials}" if order.tier == TUNED else "compile"
        return Key(
            self._computation,
            tuple(zip(self.dims, order.shape, strict=True)),
            self._constants_digest(),
            how,
            self._environment,
        )

    def _constants_digest(self) -> str:
        if self._constants and not self._digest:
            parts = [
                [name, a.dtype.str, list(a.shape), hashlib.sha256(a).hexdigest()]
                for name, a in sorted(self._constants.items())
            ]
            self._digest = combined(parts)[:20]
        return self._digest

    def _constants_file(self) -> str:
        """Where the worker finds the constants: written once."""
        if not self._constants:
            return ""
        file = self.shelf.directory / f"{self._constants_digest()}.npz"
        if not file.exists():
            write_whole(file, lambda out: np.savez(out, **self._constants))
        return str(file)
