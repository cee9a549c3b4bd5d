"""Where a region has its engines from: its graph, for given parameters, compiled now or as an earlier
process left them. Knows the importer and the disk; nothing of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from ...core.dtype import dtype
from ...errors import TensorLangError
from ...graph import Engine, Graph
from . import artefacts, stored
from .importer import Importer
from .outputs import Outputs, worthwhile
from .settings import Settings, log
from .tensors import inverse, memory_order, tensor_of

Stamp = tuple[int, int, int]  # of a parameter: its place among the inputs, its address, its version


@dataclass(frozen=True)
class Result:
    """How a tensor is made of the array of a result: its dimensions are in the ``order`` of memory, None for
    their own; ``odd``: numpy's way to torch does not hold."""

    order: list[int] | None
    odd: bool

    def maker(self) -> Callable[[Any], torch.Tensor]:
        """What makes the tensor."""
        make: Callable[[Any], torch.Tensor] = tensor_of if self.odd else torch.from_numpy
        if self.order is None:
            return make
        back = inverse(self.order)
        return lambda a: make(a).permute(back)

    @classmethod
    def like(cls, fake: torch.Tensor) -> Result:
        return cls(memory_order(fake), fake.dtype is torch.bfloat16 or fake.ndim == 0)


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


class Source(Protocol):
    """What a region asks for its engines: ``results`` say how tensors are made of what an engine gives,
    ``nodes`` counts operators, ``plain`` is the region as torch runs it."""

    @property
    def results(self) -> Sequence[Result]: ...
    @property
    def nodes(self) -> int: ...
    @property
    def plain(self) -> Callable[..., Any]: ...
    def engine(
        self, frozen: tuple[int, ...], held: Sequence[torch.Tensor], stamp: Sequence[Stamp]
    ) -> tuple[Engine, How]:
        """The engine whose inputs at the places ``frozen`` are the constants ``held``. Raises
        TensorLangError."""
        ...


class Traced:
    """The graph of a region, with ``nodes`` operators, as a source of engines."""

    def __init__(self, owner: fx.GraphModule, graph: fx.Graph, nodes: int, settings: Settings) -> None:
        self.graph, self.nodes, self.settings = graph, nodes, settings
        self._owner = owner
        self._names = [n.name for n in graph.nodes if n.op == "placeholder"]
        self._read: tuple[tuple[int, ...], Importer] | None = None  # until an engine is made of it
        (made,) = graph.output_node().args
        self.results = [Result.like(n.meta["val"]) for n in made]  # type: ignore[union-attr]

    @cached_property
    def plain(self) -> Callable[..., Any]:
        """The region as torch runs it."""
        return plain_of(self._owner, self.graph)

    @cached_property
    def name(self) -> str | None:
        """What decides engines beside parameters; None where nobody can tell."""
        return stored.name(self.graph, self.settings)

    def read(self, frozen: tuple[int, ...]) -> Importer:
        """The graph in our terms, with parameters whose tensors are still to come. Raises Refused."""
        if self._read is None or self._read[0] != frozen:
            importer = Importer("region", {}, lying=True, later=[self._names[i] for i in frozen])
            importer.load(self.graph)
            self._read = frozen, importer
        return self._read[1]

    def engine(
        self, frozen: tuple[int, ...], held: Sequence[torch.Tensor], stamp: Sequence[Stamp]
    ) -> tuple[Engine, How]:
        """The engine for these parameters, as an earlier process left it or compiled now."""
        engines, name = stored.engines(self.settings), None
        if engines.directory is not None and not artefacts.wanted() and self.name is not None:
            name = stored.name_with(self.name, frozen, held)
            found = kept(self.settings, name)
            if found is not None:
                return found
        importer, self._read = self.read(frozen), None  # which from now on holds their elements
        importer.bring({self._names[i]: x for i, x in zip(frozen, held, strict=True)})
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
            log.warning("a region of %d operators is not tuned: %s", self.nodes, error)
        return s.records if Path(s.records).exists() else None


def kept(settings: Settings, name: str) -> tuple[Engine, How] | None:
    """The engine of that name that an earlier process has left."""
    found = stored.engines(settings).find(name)
    return None if found is None else (found[0], How.of(found[1]))


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
