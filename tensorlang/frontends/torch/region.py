"""A region that runs: an engine behind the call of a torch module. Knows tensors; neither graphs
nor dynamo and autograd.

Parameters are constants of the engine, packed when it is made. Each call compares where they lie and how
often they were written to with what they were then; when that differs the engine is made anew, and after a
few times they become inputs like others. An engine that cannot be made, or that refuses a call, leaves the
region to torch.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import get_num_threads
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import CallError, TensorLangError
from ...graph import Engine
from ...runtime import set_num_threads
from .outputs import Outputs
from .settings import Settings
from .source import Source, Stamp, version_of
from .symbols import MAX_DIM
from .tensors import array_of, taker

TURNS = 10
_WATCHED: list[dict[Region[Any], tuple[Any, ...]]] = []  # calls that somebody wants to see
_REGIONS: weakref.WeakSet[Region[Any]] = weakref.WeakSet()
_threads = 0  # the count that kernels were last given
_telling = threading.Lock()
S = TypeVar("S", bound=Source)
_place = torch._C.TensorBase.data_ptr
_version = torch._C.TensorBase._version.__get__  # type: ignore[attr-defined]
MOST_CHANGES = 3  # of parameters before they are no longer constants


def several(places: Sequence[int]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes the items at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple(items[i] for i in places)


@dataclass
class Counts:
    """What happened to a region: ``compiled`` engines in ``seconds``, ``calls`` of them, calls ``left`` to
    torch and the ``reason``."""

    nodes: int = 0
    compiled: int = 0
    seconds: float = 0.0
    calls: int = 0
    left: int = 0
    reason: str = ""
    kernels: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Made:
    """An engine and how it is called: as one value, so that threads that call while another makes an engine
    anew never mix two. ``held`` are the parameters it packed, which keep their memory: nothing else may come
    to lie there; ``stamp`` says where that is, and how often it had been written to before."""

    engine: Engine
    held: tuple[torch.Tensor, ...]
    stamp: tuple[Stamp, ...]
    takes: tuple[tuple[int, Callable[[Any], Any]], ...]
    orders: dict[int, list[int]]  # of the dimensions in memory, for inputs that have their own
    outputs: Outputs | None  # of known sizes, if some are large
    among: Callable[[Any], tuple[torch.Tensor, ...]] = field(init=False)  # the parameters
    places: tuple[int, ...] = field(init=False)
    versions: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        # side by side, to be compared without a step of Python for each
        indices, places, versions = zip(*self.stamp, strict=True) if self.stamp else ((), (), ())
        object.__setattr__(self, "among", several(indices))
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "versions", versions)

    def differs(self, args: Any) -> bool:
        """Whether parameters lie elsewhere than when they were packed, or were written to."""
        xs = self.among(args)
        return tuple(map(_place, xs)) != self.places or tuple(map(_version, xs)) != self.versions

    def call(self, args: Any) -> Any:
        """Arrays of what the region makes. Raises CallError."""
        outs = self.outputs.arrays() if self.outputs is not None else ()
        try:
            made = self.engine(*[take(args[i]) for i, take in self.takes], *outs)
        except (RuntimeError, TypeError):  # tensors that numpy does not take as they are
            # nor torch those of a class of the program's, where AOTAutograd watches its first call
            with _disable_current_modes():
                given = [self._carefully(i, args[i], take) for i, take in self.takes]
            made = self.engine(*given, *outs)
        if not outs:
            return made
        return outs[0] if len(outs) == 1 else outs

    def _carefully(self, i: int, x: Any, take: Callable[[Any], Any]) -> Any:
        if not isinstance(x, torch.Tensor):
            return take(x)
        a, order = array_of(x), self.orders.get(i)
        return a if order is None else a.transpose(order)


class Region(Generic[S]):
    """What computes tensors of tensors and sizes, by engines of its ``source``. ``frozen`` has the places of
    inputs that are parameters."""

    def __init__(self, source: S, frozen: Collection[int], settings: Settings) -> None:
        self.source = source
        self.frozen = tuple(frozen) if settings.freeze else ()
        self.counts = Counts(source.nodes)
        self._made: _Made | None = None
        self.bounds: dict[str, Any] = {}  # of sizes; others run in torch
        self._changes = 0
        self._lock = threading.Lock()
        _REGIONS.add(self)
        self._gives = [r.maker() for r in source.results]
        self._one = self._gives[0] if len(self._gives) == 1 else None

    @property
    def engine(self) -> Engine | None:
        """The engine of the last parameters; None before the first call, and where torch does it."""
        return None if self._made is None else self._made.engine

    @property
    def outputs(self) -> Outputs | None:
        """Memory of results that is written again."""
        return None if self._made is None else self._made.outputs

    def __call__(self, *args: Any) -> tuple[torch.Tensor, ...]:
        """The tensors that the region makes."""
        return self.run(args)

    def run(self, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """The tensors that the region makes of these arguments."""
        # once: another thread may put a newer one there
        made = self._made
        if made is None or (made.stamp and made.differs(args)):
            made = self._anew(args)
            if made is None:
                return self._left(args)
        # asked at each call, since torch.set_num_threads tells nobody
        if get_num_threads() != _threads:
            _obey()
        try:
            results = made.call(args)
        except CallError as error:
            if not self.bounds:  # else only sizes that the profile does not have
                self.counts.reason = f"a call was refused: {error}"
            return self._left(args)
        self.counts.calls += 1
        if _WATCHED:
            _WATCHED[-1].setdefault(self, args)
        if self._one is not None:
            return (self._one(results),)
        return tuple([give(a) for give, a in zip(self._gives, results, strict=True)])

    def _anew(self, args: Any) -> _Made | None:
        """The engine for these parameters; None where torch does it."""
        with self._lock:
            # it was tried, and stays in torch
            if self.counts.reason:
                return None
            if self._made is None or self._made.differs(args):
                self._make(args)
            return self._made

    def _left(self, args: Any) -> tuple[torch.Tensor, ...]:
        self.counts.left += 1
        return self.source.plain(*args)

    def timed(self, args: tuple[Any, ...]) -> tuple[float, float]:
        """Seconds of a call in torch and of one here, in turns."""
        best = [float("inf"), float("inf")]
        ways: tuple[Callable[..., Any], ...] = (self.source.plain, self)
        with torch.no_grad():
            for _ in range(TURNS):
                for i, f in enumerate(ways):
                    start = time.perf_counter()
                    f(*args)
                    # in turns and the minimum: both see the same other work
                    best[i] = min(best[i], time.perf_counter() - start)
        return best[0], best[1]

    def forget(self) -> None:
        """Make the engine anew at the next call."""
        self._made = None

    def holds(self, places: Collection[int]) -> bool:
        """Whether parameters at one of these addresses are packed."""
        return self._made is not None and any(x.data_ptr() in places for x in self._made.held)

    def _make(self, args: Any) -> None:
        if self._made is not None and self._made.stamp:
            self._changes += 1
            # a model in training: each step would pack its weights anew
            if self._changes >= MOST_CHANGES:
                self.frozen = ()
        start = time.perf_counter()
        try:
            self._made = self._compiled(args)
            self.counts.compiled += 1
            self.counts.kernels = [c.symbol for c in self._made.engine.codes]
        except TensorLangError as error:
            self._made = None
            self.counts.reason = str(error)
        self.counts.seconds += time.perf_counter() - start

    def _compiled(self, args: Any) -> _Made:
        # a parameter may be replaced or written to while it is packed: the next call will see it
        self.frozen = tuple(i for i in self.frozen if not args[i].is_inference())  # torch counts no writes
        held = [args[i].detach() for i in self.frozen]
        stamp = [(i, x.data_ptr(), version_of(x)) for i, x in zip(self.frozen, held, strict=True)]
        engine, how = self.source.engine(self.frozen, held, stamp)
        self.bounds = how.bounds
        takes: list[tuple[int, Callable[[Any], Any]]] = []
        for i in how.inputs:
            if i < 0:
                takes.append((~i, _bytes_below))
            else:
                takes.append((i, _bytes if i in how.sized else taker(args[i], how.orders.get(i))))
        return _Made(engine, tuple(held), tuple(stamp), tuple(takes), how.orders, how.outputs())


@contextlib.contextmanager
def watched() -> Iterator[dict[Region[Any], tuple[Any, ...]]]:
    """A context that notes the regions called in it, with the arguments of their first call."""
    _WATCHED.append({})
    try:
        yield _WATCHED[-1]
    finally:
        _WATCHED.pop()


def _obey() -> None:
    """As many threads as torch has."""
    global _threads
    with _telling:
        set_num_threads(get_num_threads())
        _threads = get_num_threads()


def invalidate(module: torch.nn.Module) -> None:
    """Let all regions that hold parameters or buffers of a module be made anew at their next call."""
    changed = {x.data_ptr() for x in (*module.parameters(), *module.buffers())}
    for region in list(_REGIONS):
        if region.holds(changed):
            region.forget()


def _bytes(n: Any) -> np.ndarray:
    """As many as a number says, none where it is negative. Raises CallError for more than a size can be."""
    if n > MAX_DIM:
        raise CallError(f"the number {n} is more than a size can be, {MAX_DIM}")
    return np.empty((max(int(n), 0),), np.uint8)


def _bytes_below(n: Any) -> np.ndarray:
    """As many as a number is less than 0."""
    return _bytes(-n)
