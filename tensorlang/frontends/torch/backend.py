"""``torch.compile(model, backend="tensorlang")``. Knows dynamo, AOTAutograd and regions; nothing of how a
region is computed.

AOTAutograd makes the graph functional and writes results back to what the program changed; where gradients
are asked for it makes a second graph, and both come here. A graph is cut into regions at its first call, when
the parameters are there.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from ...core.collector import uncollected
from . import aliases, artefacts, composite, stored
from .importer import Refused, name_of
from .partition import Part, cut, is_number
from .region import Counts, Region
from .settings import SWITCH, Settings, log, settings_of, told
from .table import OPERATORS


@dataclass
class Compiled:
    """A graph that torch handed over: ``kind`` forward, backward or inference, its operators, those that
    stay in torch with the reasons, and what happened to its regions. These go with the graph."""

    kind: str
    nodes: int
    seconds: float = 0.0  # to cut it
    left: dict[str, tuple[str, str]] = field(default_factory=dict)  # node → operator, reason
    counts: list[Counts] = field(default_factory=list)
    reason: str = ""  # why all of it stays in torch
    held: list[weakref.ref[Region]] = field(default_factory=list, repr=False)

    @property
    def regions(self) -> list[Region]:
        """Those that are still there."""
        return [r for r in (ref() for ref in self.held) if r is not None]

    @property
    def taken(self) -> int:
        """How many of the operators engines compute."""
        return sum(c.nodes for c in self.counts if not c.reason)

    @property
    def to_compile(self) -> float:
        """Seconds to cut it and to make its engines."""
        return self.seconds + sum(c.seconds for c in self.counts)


GRAPHS: list[Compiled] = []  # the latest of this process, in the order they came
MOST = 10_000
_NOTED: ContextVar[tuple[list[Compiled], ...]] = ContextVar("noted", default=())  # by those who want to see


def tensorlang(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend of ``torch.compile``. Raises TensorLangError for options that it does not know."""
    settings = told(settings_of(options, mode), gm)
    if not SWITCH.allows():
        return gm.forward
    needs_gradients = torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in inputs
    )
    compiler = aot_autograd(
        fw_compiler=functools.partial(_compiler, "forward", settings),
        bw_compiler=functools.partial(_compiler, "backward", settings),
        inference_compiler=functools.partial(_compiler, "inference", settings),
        decompositions=_decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    if needs_gradients:
        return compiler(gm, inputs)
    with composite.whole():
        return compiler(gm, inputs)


@contextlib.contextmanager
def noted() -> Iterator[list[Compiled]]:
    """A context that notes the graphs that torch hands over in it."""
    seen: list[Compiled] = []
    before = _NOTED.set((*_NOTED.get(), seen))
    try:
        yield seen
    finally:
        _NOTED.reset(before)


@functools.lru_cache(maxsize=1)
def _decompositions() -> dict[Any, Any]:
    """Torch's, of operators that are not in the table."""
    # what is composite by nature torch takes apart by itself, and its table of that takes long to make
    table = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", core_aten_decompositions)()
    return {op: f for op, f in table.items() if str(op) not in OPERATORS}


def _compiler(kind: str, settings: Settings, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    frozen = _parameters(gm, inputs) if kind == "inference" else set()
    graph = Graph(kind, gm, frozen, settings, _seen(kind))

    def boxed(args: list[Any]) -> Any:
        return graph(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _seen(kind: str) -> int | None:
    """How many results of a graph the program sees, from the first; None for all. The others are kept for the
    way back, and what comes from there are gradients, which are added up."""
    context = torch._guards.TracingContext.try_get()
    data = None if context is None else context.fw_metadata
    if kind == "inference":
        return None
    return data.num_forward_returns if kind == "forward" and data is not None else 0


def _parameters(gm: fx.GraphModule, inputs: Sequence[Any]) -> set[int]:
    """The places of inputs that are parameters or buffers of modules, and are not written to."""
    context = torch._guards.TracingContext.try_get()
    data = None if context is None else context.fw_metadata
    if data is None:
        return set()
    changed = {i for i, x in enumerate(data.input_info) if x.mutates_data or x.mutates_metadata}
    return {i for i in data.static_input_indices if i not in changed and isinstance(inputs[i], torch.Tensor)}


class Graph:
    """A graph of ATen operators that is called with tensors and sizes; it is cut and compiled by the first
    call."""

    def __init__(
        self, kind: str, gm: fx.GraphModule, frozen: set[int], settings: Settings, visible: int | None = None
    ) -> None:
        self.gm, self.visible = gm, visible
        inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.frozen = {inputs[i] for i in frozen}
        self.settings = settings
        self.compiled = Compiled(kind, sum(_computes(n) for n in gm.graph.nodes))
        GRAPHS.append(self.compiled)
        del GRAPHS[:-MOST]
        for seen in _NOTED.get():
            seen.append(self.compiled)
        self._run: Callable[..., Any] | None = None
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if SWITCH.off:
            return self.gm(*args)
        return (self._run or self._made())(*args)

    def _made(self) -> Callable[..., Any]:
        with self._lock:
            if self._run is None:
                start = time.perf_counter()
                try:
                    with uncollected():
                        self._run = self._cut()
                except Exception as error:  # whatever it is, the program goes on
                    self.compiled.reason = f"{type(error).__name__}: {error}"
                    log.warning("a graph of %d operators stays in torch: %s", self.compiled.nodes, error)
                    self._run = self.gm
                self.compiled.seconds += time.perf_counter() - start
                artefacts.told(self.compiled)
        return self._run

    def _cut(self) -> Callable[..., Any]:
        """The graph with regions that the importer takes."""
        refused = aliases.named_last(self.gm, self.visible)
        engines = stored.engines(self.settings)
        name = None if engines.directory is None else stored.name(self.gm.graph, self.settings, "cut")
        known = None if name is None else engines.noted(name)
        refused.update(known or {})
        while True:
            whole = cut(self.gm, refused)
            regions = {f"region{i}": self._region(part) for i, part in enumerate(whole.parts)}
            if known is not None:
                break
            try:
                for region in regions.values():
                    region.read()
                break
            except Refused as error:
                refused[error.node.name] = error.reason
        if name is not None and known is None:
            engines.note(name, refused)
        self.compiled.counts = [r.counts for r in regions.values()]
        self.compiled.held = [weakref.ref(r) for r in regions.values()]
        self.compiled.left = {n.name: (name_of(n), why) for n, why in whole.left.items()}
        for n, why in whole.left.items():
            if why:
                log.info("%s stays in torch: %s", name_of(n), why)
        root = torch.nn.Module()
        for n in whole.graph.nodes:
            if n.op == "call_module" and n.target in regions:  # quicker than a module of torch
                n.op, n.target = "call_function", regions[n.target].__call__
            elif n.op in ("get_attr", "call_module"):
                setattr(root, n.target, getattr(self.gm, n.target))
        return fx.GraphModule(root, whole.graph).forward

    def _region(self, part: Part) -> Region:
        """The region of a part."""
        frozen = [k for k, n in enumerate(part.reads) if n in self.frozen]
        region = Region(self.gm, part.graph, frozen, self.settings)
        region.counts.nodes = part.nodes
        return region


def _computes(node: fx.Node) -> bool:
    return (
        not is_number(node) and node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )
