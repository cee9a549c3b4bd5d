"""A built kernel a person calls: machine code, its signature, and the texts it came from. Never knows who compiled it.

``f(a, b, c)`` writes the outputs in place; ``c = f(a, b)`` allocates and returns them. A call first tries the native entry
(``call``); whatever that does not take goes through ``Plan.portable``, which also words the mistakes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .. import options
from ..core.externs import symbols
from ..core.signature import OUT_OF_BOUNDS, Signature
from ..errors import CallError, TargetError, TensorLangError
from . import store
from .arguments import Binder, Bound, address_of
from .call import native_entry
from .callbacks import Callbacks
from .loader import Code, load_object
from .mistakes import form
from .threads import helpers, repeater
from .timing import Timing, measure

Sources = Mapping[str, Callable[[], str]]
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_KINDS = ("ir", "ll", "asm")
OUT_OF_MEMORY = 1


class Plan:
    """Everything a call needs; it never points back to its Module, so that dropping the Module frees the code at once."""

    __slots__ = ("address", "binder", "called", "code", "constants", "entry", "signature")

    def __init__(self, signature: Signature, code: Code, called: Callbacks, constants: Mapping[str, Any]) -> None:
        self.signature = signature
        self.code = code
        self.constants = constants  # the code reads them where they are
        self.called = called  # the callbacks live as long as the code that calls them
        self.address = code.address[signature.name]
        self.entry = _ENTRY(self.address)
        self.binder = Binder(signature)

    def portable(self, *args: Any) -> Any:
        """A call with all its checks in Python."""
        # Naming all four keeps alive what the buffers point to until the kernel is done.
        buffers, scalars, _keep, outputs = self.binder.bind(args)
        status = self.entry(buffers, scalars)
        if status:
            self.fail(status)
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else outputs

    def outside(self) -> str:
        """What the kernel recorded of an index out of bounds; calls that fail at the same time share one record."""
        checks = self.signature.checks
        slots = (ctypes.c_int64 * (3 + max((len(c.loops) for c in checks), default=0)))()
        _REPORT(self.code.address[f"{self.signature.name}.report"])(ctypes.addressof(slots))
        number, index, extent, *turns = slots
        if not 1 <= number <= len(checks):
            return f"{self.signature.name}: an index is out of range"
        check = checks[number - 1]
        where = " ".join(f"{name}={turn}" for name, turn in zip(check.loops, turns, strict=False))
        said = f"{self.signature.name}: {check.access}: index {check.dim} is {index}, out of range 0..{extent}"
        return f"{said}, at {where}" if where else said

    def fail(self, status: int) -> None:
        """Raise what a nonzero status of the kernel means."""
        name = self.signature.name
        error = self.called.raised()
        if error is not None:
            raise error
        if status == OUT_OF_MEMORY:
            raise MemoryError(f"{name}: no memory for its temporary buffers; its outputs are incomplete")
        if status == OUT_OF_BOUNDS:
            raise CallError(self.outside(), because="the kernel was built with bounds_check=True; its outputs are incomplete")
        raise CallError(f"{name} failed with status {status}", because="the kernel reported it; its outputs are incomplete")


class Module:
    """A loaded kernel.

    Parameters: relocatable ``object_code`` with the entry ``signature.name``; ``sources`` makes the texts of
    ``get_source`` when they are asked for; ``target`` is the target string it was compiled for, None for this processor.
    ``refused`` says why this process cannot run it: then it can be read and saved, and calls raise TargetError. ``constants`` holds, for each
    symbol of ``signature.constants``, a compact array aligned to 64 bytes that nobody writes.
    Raises TensorLangError when the code cannot be loaded.
    """

    __slots__ = ("__weakref__", "_call", "_loaded", "_refused", "_sources", "constants", "object_code", "signature", "target")

    def __init__(self, object_code: bytes, signature: Signature, sources: Sources | None = None, target: str | None = None,
                 refused: str | None = None, constants: Mapping[str, Any] | None = None) -> None:
        self.constants = dict(constants or {})
        self.signature = signature
        self.object_code = object_code
        self.target = target
        self._sources = dict(sources or {})
        self._refused = refused
        self._loaded: Plan | None = None
        self._call: Callable[..., Any] = self._refuse
        if refused is None:
            self._load()

    def _refuse(self, *args: Any) -> Any:
        raise TargetError(f"{self.name} cannot run here", because=f"{self._refused}",
                          try_="build it with target=None for this processor, or save it and load it there")

    @property
    def _plan(self) -> Plan:
        if self._loaded is None:
            self._refuse()
        assert self._loaded is not None
        return self._loaded

    def _load(self) -> None:
        object_code, signature = self.object_code, self.signature
        called = Callbacks(signature.externs)
        imports = {**helpers(parallel=b"tensorlang_parallel" in object_code), **symbols(), **called.addresses(),
                   **{symbol: address_of(a) for symbol, a in self.constants.items()}}
        code = load_object(object_code, [signature.name, *([f"{signature.name}.report"] if signature.checks else [])], imports)
        plan = self._loaded = Plan(signature, code, called, self.constants)
        # the native entry keeps the interpreter's lock in short kernels, which callbacks from other threads would wait for
        native = native_entry(plan) if options.native_calls() and not signature.externs else None
        self._call = native or plan.portable

    def __call__(self, *args: Any) -> Any:
        """Run the kernel. Raises CallError for arguments it cannot take, before anything is written."""
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<kernel {form(Binder(self.signature))}>"

    @property
    def name(self) -> str:
        """The name of the kernel, which is that of its entry."""
        return self.signature.name

    @property
    def entry(self) -> Callable[..., Any]:
        """The function behind ``f(...)``: a loop that counts nanoseconds may keep and call it directly."""
        return self._call

    @property
    def address(self) -> int:
        """Address of the machine-code entry (see core.signature), valid while this Module lives."""
        return self._plan.address

    def get_source(self, kind: str = "ll") -> str:
        """The kernel as text: ``"ir"`` (loop IR), ``"ll"`` (LLVM) or ``"asm"``. Raises TensorLangError when it was not kept."""
        make = self._sources.get(kind)
        if make is not None:
            return make()
        have = ", ".join(repr(k) for k in self._sources) or "none"
        if kind not in _KINDS:
            raise TensorLangError(f"get_source({kind!r}): no such kind of text", try_=f"one of {have}")
        raise TensorLangError(f"get_source({kind!r}): {self.name} has no such text",
                              because=f"kinds kept with this kernel: {have}", try_="build it again, or save it with sources=True")

    def benchmark(self, *args: Any, seconds: float = 0.5) -> Timing:
        """Time the kernel on these arguments for about ``seconds``; the arguments are checked once, outputs left out are made once.

        The kernel runs many times on the same memory: an input is what it was, unless the kernel is given it as output.
        """
        bound = self._plan.binder.bind(args)
        return measure(self._repeater(bound), seconds=seconds)

    @property
    def entry_name(self) -> str:
        """The name of the kernel, as TVM's ``time_evaluator`` wants it."""
        return self.name

    def time_evaluator(self, name: str | None = None, dev: Any = None, number: int = 10, repeat: int = 1) -> Callable[..., Timing]:
        """TVM's way to time: a function of the arguments whose result has ``mean``, ``median``, ``min`` and ``std`` in seconds. How often to
        run is found out, so ``number`` and ``repeat`` are accepted and not needed; ``name`` is this kernel's."""
        if name not in (None, self.name):
            raise TensorLangError(f"time_evaluator({name!r}): this module has one kernel, {self.name!r}")
        return self.benchmark

    def _repeater(self, bound: Bound) -> Callable[[int], None]:
        loop, plan = repeater(), self._plan

        def run(times: int) -> None:
            status = loop(plan.address, bound.buffers, bound.scalars, times)
            if status:
                plan.fail(status)

        return run

    def save(self, path: str | Path, *, sources: bool = False) -> None:
        """Write the kernel to one file that ``load`` reads back without the compiler, with its texts when asked."""
        texts = {kind: make() for kind, make in self._sources.items()} if sources else {}
        store.write(path, self.object_code, self.signature, self.target, texts)


def load(path: str | Path) -> Module:
    """A kernel from a file that ``Module.save`` wrote.

    Raises TargetError when it was compiled for another machine, TensorLangError when the file is torn, changed or no kernel.
    The file holds machine code: load only what you would run.
    """
    object_code, signature, target, texts = store.read(path)
    sources = {kind: (lambda text=text: text) for kind, text in texts.items()}
    return Module(object_code, signature, sources, target)
