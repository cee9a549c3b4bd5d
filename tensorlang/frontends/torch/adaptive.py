"""Compiling a model when that pays: eager at first, compiled beside the program once enough calls have come.
Knows torch.compile and times; no graphs.

How many calls will come nobody knows. As many as came is the guess that costs at most twice what knowing
would: a kind of call (shapes, dtypes, modes) is compiled when, had it been compiled before its first call, it
would have paid by now. What compiling costs and gains is taken from kinds of this model that were compiled
before; for the first one it is a guess.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from ...errors import TensorLangError, counted
from . import backend
from .memory import available
from .region import version_of
from .settings import log

GUESS, FASTER = 10.0, 2.0  # seconds to compile, and times faster, before anything is known of a model
CALL = 20e-6  # seconds that a call of compiled code takes beside its work: guards
KINDS = 1024  # of calls; further ones stay eager
LEAST = 3  # eager calls before their time is believed, for the first are slow
TRIED = 5  # compiled calls that are compared with eager ones
FAILURES = 3
WORKERS = 256 << 20  # bytes that compiling needs beside a copy of the parameters
SPARE = 0.8  # the share of the memory that is free which may be taken


@dataclass(frozen=True)
class Costs:
    """Seconds: to ``compile``, of an ``eager`` call, of a ``compiled`` call."""

    compile: float
    eager: float
    compiled: float

    @property
    def calls(self) -> float:
        """After how many calls compiling has paid: 6.25 for 500 ms ÷ (100 ms − 20 ms)."""
        gain = self.eager - self.compiled
        return self.compile / gain if gain > 0 else float("inf")

    def __str__(self) -> str:
        gain = f"({_time(self.eager)} eager − {_time(self.compiled)} compiled)"
        return f"{_time(self.compile)} to compile ÷ {gain} = {self.calls:.4g} calls"


@dataclass
class Kind:
    """Calls of one kind: how many came, what is done with them (``eager``, ``compiling``, ``tried``,
    ``compiled``), and why."""

    name: str
    state: str = "watched"
    why: str = ""
    calls: int = 0
    eager: list[float] = field(default_factory=list)  # seconds of the latest
    compiled: list[float] = field(default_factory=list)

    def took(self, seconds: float) -> None:
        """Note an eager call."""
        self.eager.append(seconds)
        # a few, since the machine may become slower or faster while the program runs
        del self.eager[:-9]

    @property
    def settled(self) -> bool:
        return self.state in ("eager", "compiled")


class Adaptive:
    """A model or function that is compiled when that pays. Prints as what became of each kind of call."""

    def __init__(
        self,
        model: Callable[..., Any],
        budget: float | None = None,
        *,
        memory: int | None = None,
        background: bool = True,
        options: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.model = model
        self.budget = budget
        self.memory = memory
        self.background = background
        self.kinds: dict[Any, Kind] = {}
        self.spent = 0.0  # seconds, to compile
        self.failures = 0
        self.reason = ""  # why nothing is compiled any more
        self.graphs: list[backend.Compiled] = []
        self._how: dict[str, Any] = {"options": dict(options) if options else None, "dynamic": dynamic}
        self._fn: Callable[..., Any] | None = None
        self._clock = clock
        self._lasted: list[float] = []  # seconds of compilations
        self._faster: list[float] = []
        self._writes: bool | None = None  # whether calls change what the model holds
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    # -- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives."""
        kind = self._kind(args, kwargs)
        kind.calls += 1
        if kind.state == "compiled" and not self.reason:
            return self._in_compiled(kind, args, kwargs)
        if kind.state == "eager" or self.reason:
            return self.model(*args, **kwargs)
        if kind.state == "tried":
            return self._try(kind, args, kwargs)
        return self._watch(kind, args, kwargs)

    def _watch(self, kind: Kind, args: Any, kwargs: Any) -> Any:
        """An eager call, of which the time is noted; it may be the last of its kind."""
        # threads do not live on in a child process
        if kind.state == "compiling" and self._thread is not None and not self._thread.is_alive():
            kind.state = "watched"  # as after a fork
        # asked once: a model that changes its buffers must not be called twice for one call
        before = self._versions() if self._writes is None else None
        if kind.state == "watched" and self._pays(kind) and not self._behind(args, kwargs):
            return self._compile_now(kind, args, kwargs)
        start = self._clock()
        made = self.model(*args, **kwargs)
        kind.took(self._clock() - start)
        if before is not None:
            self._writes = before != self._versions()
        if kind.state == "watched" and self._pays(kind) and self._behind(args, kwargs):
            self._begin(kind, args, kwargs)
        return made

    def _try(self, kind: Kind, args: Any, kwargs: Any) -> Any:
        """A compiled call, of which the time is noted, until enough is known."""
        start = self._clock()
        made = self._in_compiled(kind, args, kwargs)
        kind.compiled.append(self._clock() - start)
        if len(kind.compiled) > TRIED and kind.state == "tried":
            # minima: what disturbs a call only adds to its time. The first compiled one fills caches
            compiled, eager = min(kind.compiled[1:]), min(kind.eager)
            self._faster.append(eager / max(compiled, 1e-9))
            kind.state = "compiled" if compiled < eager else "eager"
            kind.why = f"eager {_time(eager)}, compiled {_time(compiled)}"
        return made

    def _in_compiled(self, kind: Kind, args: Any, kwargs: Any) -> Any:
        assert self._fn is not None
        try:
            return self._fn(*args, **kwargs)
        except Exception as error:
            made = self.model(*args, **kwargs)  # where this raises too, the error is the caller's
            self._failed(kind, error)
            return made

    # -- whether to compile

    def costs(self, kind: Kind) -> Costs:
        """What is known, or guessed, of a kind of call."""
        eager = statistics.median(kind.eager)
        faster = statistics.median(self._faster) if self._faster else FASTER
        # a guess from what other kinds have gained
        compiled = min(kind.compiled[1:]) if len(kind.compiled) > 1 else eager / faster + CALL
        return Costs(self._lasted[-1] if self._lasted else GUESS, eager, compiled)

    def _pays(self, kind: Kind) -> bool:
        if len(kind.eager) < LEAST:
            return False
        costs = self.costs(kind)
        kind.why = str(costs)
        # the rule of renting skis: once as much is spent on eager calls as compiling costs, at most twice the
        # best is paid
        if kind.calls < costs.calls:
            return False
        if self.budget is not None and self.spent + costs.compile > self.budget:
            kind.why = f"{_time(self.spent)} of {_time(self.budget)} are spent, {costs}"
            return False
        return self._fits(kind)

    def _fits(self, kind: Kind) -> bool:
        """Whether there is memory to compile."""
        held = sum(x.numel() * x.element_size() for x in self._tensors())
        needs, free = held + WORKERS, available() if self.memory is None else self.memory
        if free is not None and needs > SPARE * free:
            kind.why = f"compiling needs about {needs >> 20} MiB, and {free >> 20} MiB are free"
            return False
        return True

    def _behind(self, args: Any, kwargs: Any) -> bool:
        """Whether the call may be made once more, beside the program, for nobody sees what it changes."""
        plain = tree_flatten((args, kwargs))[0]
        return (
            self.background
            and not self._writes
            and not torch.is_grad_enabled()
            and not getattr(self.model, "training", False)
            and all(x is None or isinstance(x, torch.Tensor | int | float | bool | str) for x in plain)
        )

    def _versions(self) -> list[int]:
        return [version_of(x) for x in self._tensors()]

    def _tensors(self) -> Iterator[torch.Tensor]:
        if isinstance(self.model, torch.nn.Module):
            yield from self.model.parameters()
            yield from self.model.buffers()

    # -- compiling

    def _begin(self, kind: Kind, args: Any, kwargs: Any) -> None:
        """Compile beside the program, one kind at a time, on copies of what was given."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            kind.state = "compiling"
            given = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (args, kwargs))
            modes = _modes()
            self._thread = threading.Thread(
                target=self._compile, args=(kind, *given, modes), name="tensorlang-adaptive", daemon=True
            )
            self._thread.start()

    def _compile(self, kind: Kind, args: Any, kwargs: Any, modes: Callable[[], Any]) -> None:
        with modes():
            self._compile_now(kind, args, kwargs, seen=False)

    def _compile_now(self, kind: Kind, args: Any, kwargs: Any, seen: bool = True) -> Any:
        """Compile by a call. Where it fails, what the model gives, if somebody is to see it."""
        start = self._clock()
        try:
            made = self._compiled()(*args, **kwargs)
        except Exception as error:
            made = self.model(*args, **kwargs) if seen else None
            self._failed(kind, error)
            return made
        seconds = self._clock() - start
        self.spent += seconds
        self._lasted.append(seconds)
        kind.state = "tried"
        return made

    def _compiled(self) -> Callable[..., Any]:
        if self._fn is None:

            def noted(gm: Any, inputs: Any, **kwargs: Any) -> Any:
                with backend.noted() as graphs:
                    made = backend.tensorlang(gm, inputs, **kwargs)
                self.graphs += graphs
                return made

            self._fn = torch.compile(self.model, backend=noted, **self._how)
        assert self._fn is not None
        return self._fn

    def _failed(self, kind: Kind, error: Exception) -> None:
        """Note a failure; after a few nothing is compiled any more."""
        self.failures += 1
        kind.state, kind.why = "eager", f"{type(error).__name__}: {error}".partition("\n")[0]
        log.warning("a call is made eagerly: %s", kind.why)
        if self.failures >= FAILURES:
            self.reason = f"{self.failures} failures, the last {kind.why}"
            self.release()

    # -- for users

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for what is being compiled; whether it is ready."""
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
            raise TensorLangError(f"wait(seconds={seconds!r}): a number of seconds, or None", try_="wait(60)")
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()

    def release(self) -> None:
        """Give up what was compiled, with its memory; calls are eager again, and watched anew."""
        self.wait()
        for g in self.graphs:
            for r in g.regions:
                r.forget()
        self.graphs, self._fn = [], None
        for kind in self.kinds.values():
            kind.state = "eager" if kind.state == "eager" else "watched"

    def _kind(self, args: Any, kwargs: Any) -> Kind:
        if kwargs or not all(isinstance(x, torch.Tensor) for x in args):
            leaves, tree = tree_flatten((args, kwargs))
            # slower: most calls are of tensors alone
            key: Any = (tuple(map(_form, leaves)), tree)
        else:
            key = tuple([(x.shape, x.dtype) for x in args])
        key = (key, torch.is_grad_enabled(), getattr(self.model, "training", False))
        found = self.kinds.get(key)
        if found is None:
            # one that is not kept is watched for this call alone, and so always eager
            found = Kind(", ".join(_shown(x) for x in tree_flatten((args, kwargs))[0]))
            if len(self.kinds) < KINDS:
                self.kinds[key] = found
        return found

    def __getattr__(self, name: str) -> Any:
        # before __init__ has set it, as while unpickling, this would ask for itself without end
        if name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def __str__(self) -> str:
        name = getattr(self.model, "__qualname__", type(self.model).__name__)
        lines = [
            f"{name}: {_time(self.spent)} spent to compile" + (f"; {self.reason}" if self.reason else "")
        ]
        lines += [f"  {k.name}: {counted(k.calls, 'call')}, {k.state}; {k.why}" for k in self.kinds.values()]
        return "\n".join(lines)


def _form(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.shape, x.dtype
    return x if isinstance(x, int | float | bool | str | None) else type(x)


def _shown(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"
    return repr(x) if isinstance(x, int | float | bool | str | None) else type(x).__name__


def _modes() -> Callable[[], Any]:
    """A context of the modes of torch that hold here, for another thread."""
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    count = torch.get_num_threads()
    cast, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @contextlib.contextmanager
    def modes() -> Iterator[None]:
        torch.set_num_threads(count)  # a new thread begins with the default
        with (
            torch.inference_mode(inference),  # first, for it sets whether there are gradients
            torch.set_grad_enabled(grad),
            torch.autocast("cpu", dtype=kind, enabled=cast),
        ):
            yield

    return modes


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"
