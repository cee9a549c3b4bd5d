"""A region that runs: an engine behind the call of a torch module. Knows the importer and tensors; nothing of
dynamo and autograd.

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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx, get_num_threads
from torch.utils._pytree import tree_leaves, tree_map

from ...core.dtype import dtype
from ...errors import CallError, TensorLangError
from ...graph import Engine, Graph
from ...runtime import set_num_threads
from . import artefacts, stored
from .importer import Importer
from .outputs import Outputs, worthwhile
from .settings import Settings, log
from .tensors import array_of, inverse, memory_order, taker, tensor_of

TURNS = 10
_WATCHED: list[dict[Region, tuple[Any, ...]]] = []  # calls that somebody wants to see
_REGIONS: weakref.WeakSet[Region] = weakref.WeakSet()
_threads = 0  # that kernels have been told
_telling = threading.Lock()
Stamp = tuple[int, int, int]  # of a parameter: its place among the inputs, its address, its version
MOST_CHANGES = 3  # of parameters before they are no longer constants


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


@dataclass(frozen=True)
class How:
    """How an engine is called: the places of its ``inputs`` among those of the region, of which ``sized``
    only tell a size and ``orders`` have their dimensions in another order in memory; the ``bounds`` of sizes
    and the ``forms`` of results, where known."""

    inputs: Sequence[int]
    sized: Collection[int]
    orders: dict[int, list[int]]
    bounds: dict[str, Any]
    forms: Sequence[tuple[tuple[int, ...], str]] | None

    def outputs(self) -> Outputs | None:
        """Memory for results, where some are large."""
        forms = [(tuple(shape), dtype(kind).to_numpy()) for shape, kind in self.forms or ()]
        return Outputs(forms) if worthwhile(forms) else None

    def notes(self) -> list[Any]:
        """This as JSON."""
        return [list(self.inputs), sorted(self.sized), list(self.orders.items()), self.bounds, self.forms]

    @classmethod
    def of(cls, notes: Any) -> How:
        inputs, sized, orders, bounds, forms = notes
        return cls(inputs, frozenset(sized), dict(orders), bounds, forms)


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

    def differs(self, args: Any) -> bool:
        """Whether parameters lie elsewhere than when they were packed, or were written to."""
        for i, place, version in self.stamp:
            x = args[i]
            if x.data_ptr() != place or (version >= 0 and x._version != version):
                return True
        return False

    def call(self, args: Any) -> Any:
        """Arrays of what the region makes. Raises CallError."""
        outs = self.outputs.arrays() if self.outputs is not None else ()
        try:
            made = self.engine(*[take(args[i]) for i, take in self.takes], *outs)
        except RuntimeError:  # tensors that numpy does not take as they are
            made = self.engine(*[self._carefully(i, args[i]) for i, _ in self.takes], *outs)
        if not outs:
            return made
        return outs[0] if len(outs) == 1 else outs

    def _carefully(self, i: int, x: Any) -> np.ndarray:
        if not isinstance(x, torch.Tensor):
            return _bytes(x)
        a, order = array_of(x), self.orders.get(i)
        return a if order is None else a.transpose(order)


def plain_of(owner: fx.GraphModule, graph: fx.Graph) -> Callable[..., Any]:
    """A region run by torch. Its operators may have sizes among their arguments that are arithmetic of
    symbols: these are worked out at each call."""
    open_ = any(_is_size(x) for n in graph.nodes for x in tree_leaves((n.args, n.kwargs)))
    return _Interpreted(owner, graph) if open_ else fx.GraphModule(owner, graph)


class _Interpreted(fx.Interpreter):
    def __init__(self, owner: fx.GraphModule, graph: fx.Graph) -> None:
        super().__init__(owner, graph=graph)
        self.vals = [n.meta["val"] for n in graph.nodes if n.op == "placeholder"]

    def __call__(self, *args: Any) -> Any:
        known = {}
        for val, x in zip(self.vals, args, strict=True):
            pairs: Any = [(val, x)]
            if isinstance(val, torch.Tensor):
                pairs = zip(val.shape, x.shape, strict=True)
            known.update({n.node.expr: int(have) for n, have in pairs if _is_size(n)})
        return _Known(self, known).run(*args)


class _Known(fx.Interpreter):
    """One run, for these values of symbols."""

    def __init__(self, of: _Interpreted, known: dict[Any, int]) -> None:
        super().__init__(of.module, graph=of.graph)
        self.known = known

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        found = super().fetch_args_kwargs_from_env(n)
        return tree_map(lambda x: int(x.node.expr.xreplace(self.known)) if _is_size(x) else x, found)


def _is_size(x: Any) -> bool:
    return isinstance(x, torch.SymInt)


class Region:
    """``graph`` computes tensors of tensors and sizes. ``frozen`` has the places of inputs that are
    parameters."""

    def __init__(
        self, owner: fx.GraphModule, graph: fx.Graph, frozen: Collection[int], settings: Settings
    ) -> None:
        self.graph = graph
        self._owner = owner
        self.frozen = tuple(frozen) if settings.freeze else ()
        self.settings = settings
        self.counts = Counts()
        self._made: _Made | None = None
        self._importer: Importer | None = None  # until an engine is made of it
        self.bounds: dict[str, Any] = {}  # of sizes; others run in torch
        self._changes = 0
        self._lock = threading.Lock()
        _REGIONS.add(self)
        self._names = [n.name for n in graph.nodes if n.op == "placeholder"]
        (made,) = graph.output_node().args
        self._gives = [_given(n.meta["val"]) for n in made]  # type: ignore[union-attr]
        self._one = self._gives[0] if len(self._gives) == 1 else None

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The region as torch runs it."""
        return plain_of(self._owner, self.graph)

    def read(self) -> Importer:
        """The graph in our terms, with parameters whose tensors are still to come. Raises Refused."""
        if self._importer is None:
            self._importer = Importer("region", {}, lying=True, later=[self._names[i] for i in self.frozen])
            self._importer.load(self.graph)
        return self._importer

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
        made = self._made
        if made is None or (made.stamp and made.differs(args)):
            made = self._anew(args)
            if made is None:
                return self._left(args)
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
            if self.counts.reason:
                return None
            if self._made is None or self._made.differs(args):
                self._make(args)
            return self._made

    def _left(self, args: Any) -> tuple[torch.Tensor, ...]:
        self.counts.left += 1
        return self.plain(*args)

    def timed(self, args: tuple[Any, ...]) -> tuple[float, float]:
        """Seconds of a call in torch and of one here, in turns."""
        best = [float("inf"), float("inf")]
        ways: tuple[Callable[..., Any], ...] = (self.plain, self)
        with torch.no_grad():
            for _ in range(TURNS):
                for i, f in enumerate(ways):
                    start = time.perf_counter()
                    f(*args)
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
            if self._changes >= MOST_CHANGES:
                self.frozen, self._importer = (), None
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
        held = [args[i].detach() for i in self.frozen]
        stamp = [(i, x.data_ptr(), version_of(x)) for i, x in zip(self.frozen, held, strict=True)]
        engine, how = self._engine(held, stamp)
        self.bounds = how.bounds
        takes = [(i, _bytes if i in how.sized else taker(args[i], how.orders.get(i))) for i in how.inputs]
        return _Made(engine, tuple(held), tuple(stamp), tuple(takes), how.orders, how.outputs())

    def _engine(self, held: Sequence[torch.Tensor], stamp: Sequence[Stamp]) -> tuple[Engine, How]:
        """The engine for these parameters, as an earlier process left it or compiled now."""
        engines, name = stored.engines(self.settings), None
        if engines.directory is not None and not artefacts.wanted():
            name = stored.name(self.graph, self.settings, (self.frozen, stored.elements(held)))
            found = None if name is None else engines.find(name)
            if found is not None:
                return found[0], How.of(found[1])
        importer, self._importer = self.read(), None  # which from now on holds their elements
        importer.bring({self._names[i]: x for i, x in zip(self.frozen, held, strict=True)})
        g, s = importer.g, self.settings
        bounds = s.within({d.name: (d.lo or 0, d.hi) for d in g.dims})
        profile = bounds or None
        records = s.records if not s.trials else self._tuned(g, profile)
        engine = g.compile(level=s.level, workers=s.workers, cache=s.cache, profile=profile, records=records)
        artefacts.tell(g, engine)
        how = How(importer.inputs, importer.sized, importer.orders, bounds, _forms(g))
        if name is not None and all(version_of(x) == v for x, (_, _, v) in zip(held, stamp, strict=True)):
            engines.keep(name, engine, how.notes())
        return engine, how

    def _tuned(self, g: Graph, profile: Any) -> Any:
        """The file of records, after a search for the kernels of this region."""
        s = self.settings
        try:
            g.tune(s.records, s.trials, profile=profile, level=s.level)
        except TensorLangError as error:
            log.warning("a region of %d operators is not tuned: %s", self.counts.nodes, error)
        return s.records if Path(s.records).exists() else None


@contextlib.contextmanager
def watched() -> Iterator[dict[Region, tuple[Any, ...]]]:
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


def version_of(x: torch.Tensor) -> int:
    """How often a tensor was written to, as far as torch counts."""
    return -1 if x.is_inference() else x._version


def _forms(g: Graph) -> list[tuple[tuple[int, ...], str]] | None:
    """Shapes and types of what a graph gives, where they are known."""
    forms = []
    for v in dict.fromkeys(g.outputs):
        sizes = [n for n in v.sizes if n is not None]
        if len(sizes) < v.ndim:
            return None
        forms.append((tuple(sizes), str(v.dtype)))
    return forms if len(forms) == len(g.outputs) else None


def _bytes(n: Any) -> np.ndarray:
    return np.empty((int(n),), np.uint8)


def _given(fake: torch.Tensor) -> Callable[[Any], torch.Tensor]:
    """What makes a tensor of an array whose dimensions are in the order of memory."""
    order = memory_order(fake)
    make: Callable[[Any], torch.Tensor] = (
        tensor_of if fake.dtype is torch.bfloat16 or fake.ndim == 0 else torch.from_numpy
    )
    if order is None:
        return make
    back = inverse(order)
    return lambda a: make(a).permute(back)
