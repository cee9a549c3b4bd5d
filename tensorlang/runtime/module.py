"""A built kernel a person calls: machine code, its signature, and the texts it came from. Never knows who
compiled it.

``f(a, b, c)`` writes the outputs in place; ``c = f(a, b)`` allocates and returns them. A call first tries the
native entry (``call``); whatever that does not take goes through ``Plan.portable``, which also words the
mistakes.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .. import options, signposts
from ..boundary import short
from ..core.ndarray import Device
from ..entries import public
from ..errors import CallError, TargetError, TensorLangError
from ..interface.externs import symbols
from ..interface.signature import DIVISION, OUT_OF_BOUNDS, REFUSED, Signature
from ..protocols import Entries
from . import export, files, profile, store
from .arguments import Binder, Bound
from .arrays import address_of
from .call import native_entry
from .callbacks import Callbacks
from .loader import Code, load_object
from .threads import helpers, repeater
from .timing import Timing, checked_seconds, evaluate, measure

Sources = Mapping[str, Callable[[], str]]
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_KINDS = ("ir", "ll", "asm")
OUT_OF_MEMORY = 1
_one_at_a_time = threading.Lock()  # calls of kernels with bounds checks, one at a time


def _renew() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # another thread may have been in such a call


class Tools(Protocol):
    """What only whoever compiled a kernel can make of it."""

    def c_function(self, name: str) -> export.CFunction:
        """The kernel as a C function of that name."""

    def instrumented(self, deep: bool) -> profile.Instrumented:
        """A copy of the kernel that takes the time of its outermost loop nests and, if ``deep``, of those
        within them."""

    def explain(self, kernel: Module) -> Any:
        """Why it runs as it does."""

    def view(self, kernel: Module, arrays: Sequence[Any]) -> Any:
        """The page of the kernel."""


class Called(property):
    """``__call__`` of a class whose objects keep their function as an attribute: Python asks the property for
    it and calls it, in half the time of a method that hands its arguments on (100 ns of 217)."""

    def __call__(self, kernel: Any, *args: Any, **named: Any) -> Any:
        """What ``inspect`` and ``Module.__call__(f, …)`` take for the method."""
        return self.__get__(kernel)(*args, **named)


class Plan:
    """Everything a call needs; it never points back to its Module, so that dropping the Module frees the code
    at once."""

    __slots__ = ("address", "binder", "called", "code", "constants", "entry", "signature")
    context = 0  # what the entry gets beside buffers and slots

    def __init__(
        self, signature: Signature, code: Code, called: Callbacks, constants: Mapping[str, Any]
    ) -> None:
        self.signature = signature
        self.code = code
        self.constants = constants  # the code reads them where they are
        self.called = called  # the callbacks live as long as the code that calls them
        self.address = code.address[signature.name]
        self.entry = _ENTRY(self.address)
        self.binder = Binder(signature)

    def portable(self, *args: Any, **named: Any) -> Any:
        """A call with all its checks in Python."""
        try:
            # Naming all four keeps alive what the buffers point to until the kernel is done.
            buffers, scalars, _keep, outputs = self.binder.bind(args, named)
        except TensorLangError as e:
            raise short(e) from e.__cause__
        if self.signature.checks and not self.signature.externs:
            with _one_at_a_time:  # the record of what failed is the kernel's, not the call's
                status = self.entry(buffers, scalars)
                if status:
                    self.fail(status)
        else:
            status = self.entry(buffers, scalars)
            if status:
                self.fail(status)
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else outputs

    def outside(self) -> str:
        """What the kernel recorded of an index out of bounds; calls of Python functions that fail at the same
        time share one record."""
        checks = self.signature.checks
        slots = (ctypes.c_int64 * (3 + max((len(c.loops) for c in checks), default=0)))()
        _REPORT(self.code.address[f"{self.signature.name}.report"])(ctypes.addressof(slots))
        number, index, extent, *iteration = slots
        if not 1 <= number <= len(checks):
            return f"{self.signature.name}: an index is out of range"
        check = checks[number - 1]
        where = " ".join(f"{name}={value}" for name, value in zip(check.loops, iteration, strict=False))
        found = (
            f"{extent} is divided by zero"
            if check.dim == DIVISION
            else f"index {check.dim} is {index}, out of range 0..{extent}"
        )
        said = f"{self.signature.name}: {check.access}: {found}"
        return f"{said}, at {where}" if where else said

    def fail(self, status: int) -> None:
        """Raise what a nonzero status of the kernel means."""
        raise failure(self.signature, self.called.raised(), status, self.outside)


def failure(
    signature: Signature, raised: BaseException | None, status: int, outside: Callable[[], str] | None = None
) -> BaseException:
    """What a nonzero status of a kernel means: ``raised`` by a function that it called, if any; ``outside``
    tells of an index out of bounds."""
    name = signature.name
    if raised is not None:
        return raised
    if status == OUT_OF_MEMORY:
        return MemoryError(f"{name}: no memory for its temporary buffers; its outputs are incomplete")
    if status == OUT_OF_BOUNDS and outside is not None:
        return CallError(
            outside(), because="the kernel was built with bounds_check=True; its outputs are incomplete"
        )
    if status == REFUSED:
        return CallError(
            f"{name}: the sizes of these arguments do not go together",
            because="\n".join(signature.needs),
            try_="arguments of other shapes; nothing was written",
        )
    return CallError(
        f"{name} failed with status {status}", because="the kernel reported it; its outputs are incomplete"
    )


@public(
    TensorLangError,
    "f",
    signposts.MODULE,
    page="kernel",
    made="tl.build(s, [A, B]), tl.compile([A, B]), tl.load(path)",
)
class Module:
    """A loaded kernel.

    Parameters: relocatable ``object_code`` with the entry ``signature.name``; ``sources`` makes the texts of
    ``get_source`` when they are asked for; ``target`` is the target string it was compiled for, None for this
    processor. ``refused`` says why this process cannot run it: then it can be read and saved, and calls raise
    TargetError. ``constants`` holds, for each symbol of ``signature.constants``, a compact array aligned to
    64 bytes that nobody writes. ``features`` names the instruction sets the code may use (None: all of this
    processor); ``tools`` makes more from the kernel's source, None when it is not at hand. Raises
    TensorLangError when the code cannot be loaded.
    """

    __slots__ = (
        "__weakref__",
        "_call",
        "_loaded",
        "_refused",
        "_sources",
        "_tools",
        "constants",
        "features",
        "object_code",
        "signature",
        "target",
    )

    def __init__(
        self,
        object_code: bytes,
        signature: Signature,
        sources: Sources | None = None,
        target: str | None = None,
        refused: str | None = None,
        constants: Mapping[str, Any] | None = None,
        features: Sequence[str] | None = None,
        tools: Tools | None = None,
    ) -> None:
        self.constants = Entries("f.constants", constants)
        self.signature = signature
        self.object_code = object_code
        self.target = target
        self.features = features
        self._tools = tools
        self._sources = dict(sources or {})
        self._refused = refused
        self._loaded: Plan | None = None
        self._call: Callable[..., Any] = self._refuse
        if refused is None:
            self._load()

    def _refuse(self, *args: Any, **named: Any) -> Any:
        raise TargetError(
            f"{self.name} cannot run here",
            because=f"{self._refused}",
            try_="build it with target=None for this processor, or save it and load it there",
        )

    @property
    def _plan(self) -> Plan:
        if self._loaded is None:
            self._refuse()
        assert self._loaded is not None
        return self._loaded

    def _linked(self, object_code: bytes, more: Mapping[str, int]) -> Plan:
        """This kernel's object code, or that of a copy of it that also calls ``more``, in the process."""
        signature = self.signature
        called = Callbacks(signature.externs)
        imports = {
            **helpers(parallel=b"tensorlang_parallel" in object_code),
            **symbols(),
            **called.addresses(),
            **{symbol: address_of(a) for symbol, a in self.constants.items()},
            **more,
        }
        code = load_object(
            object_code,
            [signature.name, *([f"{signature.name}.report"] if signature.checks else [])],
            imports,
        )
        return Plan(signature, code, called, self.constants)

    def _load(self) -> None:
        signature = self.signature
        plan = self._loaded = self._linked(self.object_code, {})
        # the native entry keeps the interpreter's lock in short kernels, which callbacks from other threads
        # would wait for
        native = native_entry(plan) if options.native_calls() and not signature.externs else None
        self._call = native or plan.portable

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **named: Any) -> Any: ...
    else:
        __call__ = Called(
            attrgetter("_call"),
            doc="""Run the kernel: ``f(a, b, c)`` writes ``c``, ``c = f(a, b)`` makes it. Arguments may have
            names, ``f(A=a, B=b)``; ``out=`` gives the outputs, one or a tuple, and the call returns them as
            numpy does; with ``out_like=x`` what comes back is an array of the library of ``x``, by DLPack.
            Raises CallError for arguments it cannot take, before anything is written.""",
        )

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"

    def __copy__(self) -> Module:
        return self  # nothing of a kernel ever changes

    def __deepcopy__(self, memo: Any) -> Module:
        return self

    def __reduce__(self) -> Any:
        raise TensorLangError(
            f"{self.name} cannot be pickled",
            because="its machine code stands at an address of this process",
            try_="f.save(path) here, tl.load(path) there",
        )

    @property
    def name(self) -> str:
        """The name of the kernel, that of the function in its machine code."""
        return self.signature.name

    @property
    def entry(self) -> Callable[..., Any]:
        """The function behind ``f(...)``: a loop that counts nanoseconds may keep and call it directly.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> f.entry(np.ones((8, 4), "float32")).shape
        (8, 4)
        """
        return self._call

    @property
    def address(self) -> int:
        """Address of the machine-code entry (see interface.signature), valid while this Module lives."""
        return self._plan.address

    def get_source(self, kind: str = "ll") -> str:
        """The kernel as text: ``"ir"`` (loop IR), ``"ll"`` (LLVM) or ``"asm"``. Raises TensorLangError when
        it was not kept.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> f.get_source("ll").count("define") > 0
        True
        """
        make = self._sources.get(kind)
        if make is not None:
            return make()
        have = ", ".join(repr(k) for k in self._sources) or "none"
        if kind not in _KINDS:
            raise TensorLangError(f"get_source({kind!r}): no such kind of text", try_=f"one of {have}")
        raise TensorLangError(
            f"get_source({kind!r}): {self.name} has no such text",
            because=f"kinds kept with this kernel: {have}",
            try_="build it again, or save it with sources=True",
        )

    def benchmark(self, *args: Any, seconds: float = 0.5) -> Timing:
        """Time the kernel on these arguments for about ``seconds``; the arguments are checked once, outputs
        left out are made once.

        The kernel runs many times on the same memory: an input is what it was, unless the kernel is given it
        as output.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> t = f.benchmark(np.ones((8, 4), "float32"), seconds=0.01)
        >>> 0 < t.min <= t.median <= t.max
        True
        """
        bound = self._plan.binder.bind(args)
        return measure(self._repeater(bound), seconds=seconds)

    @property
    def entry_name(self) -> str:
        """The name of the kernel, as TVM's ``time_evaluator`` wants it."""
        return self.name

    def time_evaluator(
        self,
        func_name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., Timing]:
        """TVM's way to time: a function of the arguments whose result has ``mean``, ``median``, ``min``,
        ``max``, ``std`` and ``results`` in seconds. ``results`` has ``repeat`` samples, each the mean of
        ``number`` runs, or of as many more as take ``min_repeat_ms``.

        ``cooldown_interval_ms`` go by before each sample, ``cache_flush_bytes`` are written. ``func_name`` is
        this kernel's; the other words are accepted for TVM's sake. Raises TensorLangError for another name or
        device, and for counts below one.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> spent = f.time_evaluator(number=10, repeat=3)(np.ones((8, 4), "float32"))
        >>> len(spent.results)
        3
        """
        if func_name not in (None, self.name):
            raise TensorLangError(f"time_evaluator({func_name!r}): this module has one kernel, {self.name!r}")
        if not (dev is None or isinstance(dev, Device) or str(dev).partition(":")[0] in ("cpu", "llvm")):
            raise TensorLangError(
                f"time_evaluator(dev={dev!r}): no such device",
                because="kernels run on the processor",
                try_="f.time_evaluator(f.entry_name, tl.cpu(0), number=10)",
            )
        for word, value, least in (
            ("number", number, 1),
            ("repeat", repeat, 1),
            ("min_repeat_ms", min_repeat_ms, 0),
            ("cooldown_interval_ms", cooldown_interval_ms, 0),
            ("cache_flush_bytes", cache_flush_bytes, 0),
        ):
            _check_count(word, value, least)

        def evaluator(*args: Any) -> Timing:
            try:
                bound = self._plan.binder.bind(args)
            except TensorLangError as e:
                raise short(e) from None
            waste = np.zeros(int(cache_flush_bytes), np.uint8)
            return evaluate(
                self._repeater(bound),
                number,
                repeat,
                min_repeat_ms / 1e3,
                cooldown_interval_ms / 1e3,
                lambda: np.add(waste, 1, out=waste),
            )

        return evaluator

    def view(self, *arrays: Any) -> Any:
        """A page that shows how the kernel came to be, in a notebook or ``f.view().save("view.html")``:
        schedule tree, loop IR beside its assembly, registers, passes; see ``tl.view``. With arrays to call it
        on, the kernel is timed and drawn below the roof of this machine. Raises TensorLangError for a kernel
        that was loaded.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> f.view()
        <view of relu for llvm ...: ... kB; v.save('view.html') writes it>
        """
        if self._tools is None:
            raise TensorLangError(
                f"view: {self.name} was loaded, not built here",
                because="the loops it was made from are not at hand",
                try_='build it again; f.get_source("asm") is the text that was saved with it',
            )
        return self._tools.view(self, arrays)

    def explain(self) -> Any:
        """Why the kernel runs as it does: for what a recipe took each stage and how it is computed, which
        innermost loops are vectors and which are scalar, what threads share or why nothing, the table of
        costs by its digest, and the cycles that it counts. Raises TensorLangError for a kernel that was
        loaded.

        >>> x = te.placeholder((2, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> print(f.explain())
        relu for ...: in vectors of up to 8 elements, ... cycles by the table
          relu: elements, in vectors of 8 along `i1`
          threads: serial: `relu` has 8 iterations, and from ... on a second thread pays
          once: relu in vectors of 8 elements; 1 iterations, ... cycles
          costs ...
        """
        if self._tools is None:
            raise TensorLangError(
                f"explain: {self.name} was loaded, not built here",
                because="the schedule it was made by is not at hand",
                try_='build it again; f.get_source("asm") is the text that was saved with it',
            )
        return self._tools.explain(self)

    def profile(self, *args: Any, seconds: float = 0.5) -> profile.Profile:
        """Where the time goes: the share of each outer loop nest, and of the nests within it where that can
        be measured, over about ``seconds`` seconds; ``print(f.profile(a, b, c))`` is a table. The arguments
        are treated as by ``benchmark``.

        A copy of the kernel is built that looks at the clock around its nests. Raises TensorLangError for a
        kernel that was loaded.

        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> f.profile(np.ones((8, 4), "float32"), seconds=0.01).seconds > 0
        True
        """
        if self._tools is None:
            raise TensorLangError(
                f"profile: {self.name} was loaded, not built here",
                because="the loops it was made from are not at hand",
                try_="build it again; perf can name loaded kernels with TENSORLANG_PERF_MAP=1",
            )
        bound = self._plan.binder.bind(args)
        checked_seconds("profile", seconds)
        plain = measure(self._repeater(bound), seconds=seconds / 4)
        for deep in (True, False):
            copy = self._tools.instrumented(deep)
            plan = self._linked(copy.object_code, profile.clock())
            result = profile.measure(
                partial(self._once, plan, bound.scalars), bound.buffers, copy.nests, seconds / 2
            )
            if result.copy_seconds <= profile.SLOW * plain.median:
                break
        return result

    def _once(self, plan: Plan, scalars: bytes, buffers: bytes) -> None:
        status = plan.entry(buffers, scalars)
        if status:
            plan.fail(status)

    def _repeater(self, bound: Bound) -> Callable[[int], None]:
        loop, plan = repeater(), self._plan

        def run(times: int) -> None:
            status = loop(plan.address, bound.buffers, bound.scalars, times)
            if status:
                plan.fail(status)

        return run

    def save(self, path: str | Path, *, sources: bool = False) -> None:
        """Write the kernel to one file that ``load`` reads back without the compiler, with its texts when
        asked.

        Raises TensorLangError when it cannot be written, and for a name of what ``export`` makes (``.o``,
        ``.so``, ``.h``).

        >>> import pathlib, tempfile
        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> with tempfile.TemporaryDirectory() as at:
        ...     f.save(pathlib.Path(at, "relu.tl"))
        ...     g = tl.load(pathlib.Path(at, "relu.tl"))
        >>> float(g(np.full((8, 4), -1, "float32")).max())
        0.0
        """
        place = files.named(path, "save")
        if place.suffix in export.SUFFIXES:
            raise TensorLangError(
                f"save: {place} would be no {place.suffix} file",
                because="save writes a kernel for load, in a format of our own",
                try_=f"f.export({str(place)!r}), or f.save({str(place.with_suffix('.tl'))!r})",
            )
        files.write({place: self._packed(sources)}, f"save {self.name}")

    def _packed(self, sources: bool) -> bytes:
        texts = {kind: make() for kind, make in self._sources.items()} if sources else {}
        return store.pack(self.object_code, self.signature, self.target, self.features, texts, self.constants)

    def export(self, path: str | Path, *, name: str | None = None, cc: str | None = None) -> None:
        """Write the kernel for other programs: ``matmul.o`` (object file) or ``matmul.so`` (shared library,
        by the C compiler ``cc``), with the header ``matmul.h`` beside it, or ``matmul.h`` alone.

        The C function ``name`` (this kernel's own unless given) takes pointers to the arrays, the numbers,
        then the sizes as ``int64_t``, as the header says; it needs the C library only. ``.o`` and ``.so``
        also carry the kernel itself: ``load`` takes them. Raises TensorLangError for a kernel that calls
        Python, for one that was loaded, without a C compiler, and when nothing can be written; then nothing
        is.

        >>> import pathlib, tempfile
        >>> x = te.placeholder((8, 4), name="x")
        >>> f = tl.compile([x, ops.relu(x)], name="relu")
        >>> with tempfile.TemporaryDirectory() as at:
        ...     f.export(pathlib.Path(at, "relu.o"))
        ...     sorted(p.name for p in pathlib.Path(at).iterdir())
        ['relu.h', 'relu.o']
        """
        if self._tools is None:
            raise TensorLangError(
                f"export: {self.name} was loaded, not built here",
                because="only the compiler makes functions for C",
                try_="export it where it is built",
            )
        make = self._tools.c_function
        export.export(path, lambda: make(name or self.name), lambda: self._packed(False), cc)

    export_library = export  # TVM's word


def load(path: str | Path, *, mine: bool = False) -> Module:
    """A kernel from a file that ``Module.save`` or ``Module.export`` wrote.

    The file holds machine code: load only what you would run. One that everybody may write is refused; with
    ``mine=True`` (for files that a program finds, not its user) also one of another user than oneself or
    root, or that a group may write. Raises TargetError when it was compiled for another machine,
    TensorLangError when the file is torn, changed or no kernel, or not to be trusted::

        f.save("matmul.tl")
        g = tl.load("matmul.tl")
    """
    found = store.read(path, mine)
    sources = {kind: (lambda text=text: text) for kind, text in found.texts.items()}
    return Module(
        found.object_code,
        found.signature,
        sources,
        found.target,
        constants=found.constants,
        features=found.features,
    )


def _check_count(word: str, value: Any, least: int) -> None:
    """Raises TensorLangError for a setting of ``time_evaluator`` that is no number, or too small a one."""
    if not isinstance(value, int | float) or value < least or (least and not isinstance(value, int)):
        raise TensorLangError(
            f"time_evaluator({word}={value!r}): at least {least}, and a number", try_="number=10, repeat=3"
        )
