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
from torch._dynamo.exc import TorchDynamoException
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode

from ...core.collector import uncollected
from ...errors import TensorLangError
from . import aliases, artefacts, bags_back, composite, fast_paths, recalled, stored, transposed
from .importer import Refused, name_of
from .partition import Part, cut, is_number, straight
from .region import Counts, Region, several
from .settings import SWITCH, Settings, log, settings_of, with_profile
from .source import Traced
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
    held: list[weakref.ref[Region[Any]]] = field(default_factory=list, repr=False)

    @property
    def regions(self) -> list[Region[Any]]:
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


_OURS = fast_paths.DECOMPOSITIONS | bags_back.DECOMPOSITIONS
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
    settings = with_profile(settings_of(options, mode), gm)
    # switched off or within a call that is left to torch: what dynamo hands over is a graph that runs
    if not SWITCH.allows():
        return gm.forward
    try:
        return _functional(gm, inputs, settings)
    except (TensorLangError, TorchDynamoException):
        raise
    except Exception as error:  # of AOTAutograd, which cannot say every program: it goes on in torch
        return _unsaid(gm, error)


def _functional(gm: fx.GraphModule, inputs: Sequence[Any], settings: Settings) -> Callable[..., Any]:
    """What a graph of dynamo becomes."""
    needs_gradients = torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in inputs
    )
    if needs_gradients:
        return _aot(settings)(gm, inputs)
    name = recalled.name(gm, inputs, settings)
    known = None if name is None else recalled.find(name, inputs, settings)
    if known is not None:
        # not the inputs themselves, which the trace would keep alive
        forms = [(x.shape, x.stride(), x.dtype, x.requires_grad) for x in inputs]
        known.trace = functools.partial(_traced_again, gm, forms, known.note, settings)
        return Graph("inference", gm, set(), settings, known=known)
    inner: list[Graph] = []
    with composite.whole(gm):
        wrapped = _aot(settings, name, inner)(gm, inputs)
    return inner[0] if len(inner) == 1 and _does_all(inner[0], gm, inputs) else wrapped


def _does_all(graph: Graph, gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph of operators takes and gives what dynamo's graph does, so that what AOTAutograd puts
    around it only costs time."""
    return (
        graph.simple
        and not torch.is_autocast_enabled("cpu")
        and not any(True for _ in (*gm.parameters(), *gm.buffers()))
        and len(inputs) == sum(n.op == "placeholder" for n in graph.gm.graph.nodes)
        and _forms(gm) == _forms(graph.gm)
    )


def _forms(gm: fx.GraphModule) -> list[str]:
    """Of each result the text of its type, shape and strides, or of a number."""
    (made,) = gm.graph.output_node().args
    metas = [x.meta if isinstance(x, fx.Node) else {"val": x} for x in made]  # type: ignore[union-attr]
    return [stored.shown(meta.get("example_value", meta.get("val"))) for meta in metas]


def _unsaid(gm: fx.GraphModule, error: Exception) -> Callable[..., Any]:
    """A graph of dynamo as it is, and a note of why."""
    graph = Compiled("inference", sum(n.op.startswith("call_") for n in gm.graph.nodes))
    graph.reason = f"{type(error).__name__}: {error}"
    _note(graph)
    log.warning("a graph of %d operators stays in torch: %s", graph.nodes, error)
    return gm.forward


def _note(graph: Compiled) -> None:
    """Remember what became of a graph, and tell those who want to see."""
    GRAPHS.append(graph)
    # a program that compiles for ever must not keep every graph
    del GRAPHS[:-MOST]
    for seen in _NOTED.get():
        seen.append(graph)


def _aot(settings: Settings, name: str | None = None, made: list[Graph] | None = None) -> Callable[..., Any]:
    """What makes dynamo's graphs functional, and hands them over; those of no training are put into
    ``made``."""
    return aot_autograd(
        fw_compiler=functools.partial(_compiler, "forward", settings),
        bw_compiler=functools.partial(_compiler, "backward", settings),
        inference_compiler=functools.partial(_compiler, "inference", settings, name=name, made=made),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )


def _traced_again(
    gm: fx.GraphModule, forms: Sequence[Any], note: recalled.Note, settings: Settings
) -> Traced:
    """The one region of a graph whose inputs have these shapes, strides, types, and derivatives or none."""
    found: list[Traced] = []

    def compiler(inner: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        aliases.named_last(transposed.folded(inner), None)
        whole = cut(inner, {})
        source = Traced(inner, whole.parts[0].graph, whole.parts[0].nodes, settings)
        again = recalled.note_of(whole, source, note.frozen)
        # an engine of another program under this name would give wrong answers: better none
        if again != note:
            raise AssertionError(f"a graph is traced as {again}, and was {note}")
        found.append(source)
        return inner.forward

    fakes = FakeTensorMode()
    # tensors made in inference mode cannot be traced
    with torch.inference_mode(False), torch.no_grad(), tracing(TracingContext(fakes)), composite.whole(gm):
        with fakes:
            # composite operators look whether a derivative could be asked for: embedding_bag is another then
            inputs = [
                torch.empty_strided(shape, stride, dtype=kind, requires_grad=learns)
                for shape, stride, kind, learns in forms
            ]
        aot_autograd(fw_compiler=compiler, decompositions=decompositions())(gm, inputs)
    return found[0]


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
def decompositions() -> dict[Any, Any]:
    """Torch's, of operators that are not in the table."""
    return {op: f for op, f in spelled().items() if str(op) not in OPERATORS} | _OURS


def spelled() -> dict[Any, Any]:
    """How torch says operators by others, those of the table too."""
    # what is composite by nature torch takes apart by itself, and its table of that takes long to make
    table: Any = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", core_aten_decompositions)
    return dict(table())


def _compiler(
    kind: str,
    settings: Settings,
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    name: str | None = None,
    made: list[Graph] | None = None,
) -> Callable[..., Any]:
    frozen = _parameters(gm, inputs) if kind == "inference" else set()
    context = torch._guards.TracingContext.try_get()
    simple = recalled.simple(context and context.fw_metadata)
    graph = Graph(kind, gm, frozen, settings, _seen(kind), name if simple else None)
    graph.simple = simple
    if made is not None:
        made.append(graph)

    def boxed(args: list[Any]) -> Any:
        return graph(*args)

    # torch hands over the list and forgets it, so that inputs are freed as soon as they are read
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
    call. What becomes of it is noted under the ``name`` of dynamo's graph; that graph itself is run where it
    is ``known`` what became of it."""

    def __init__(
        self,
        kind: str,
        gm: fx.GraphModule,
        frozen: set[int],
        settings: Settings,
        visible: int | None = None,
        name: str | None = None,
        known: recalled.Recalled | None = None,
    ) -> None:
        self.gm, self.visible, self.name, self.known = transposed.folded(gm), visible, name, known
        self.simple = False  # whether AOTAutograd does nothing around it
        inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.frozen = {inputs[i] for i in frozen}
        self.settings = settings
        self.compiled = Compiled(kind, known.nodes if known else sum(map(_computes, gm.graph.nodes)))
        _note(self.compiled)
        self._run: Callable[..., Any] | None = None
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if SWITCH.off:
            return self.gm(*args)
        return (self._run or self._made())(*args)

    def _made(self) -> Callable[..., Any]:
        with self._lock:
            # another thread may have made it while this one waited
            if self._run is None:
                start = time.perf_counter()
                try:
                    with uncollected():
                        self._run = self._cut() if self.known is None else self._again(self.known)
                except Exception as error:  # whatever it is, the program goes on
                    self.compiled.reason = f"{type(error).__name__}: {error}"
                    log.warning("a graph of %d operators stays in torch: %s", self.compiled.nodes, error)
                    self._run = self.gm
                self.compiled.seconds += time.perf_counter() - start
                artefacts.hints(self.compiled)
        return self._run

    def _cut(self) -> Callable[..., Any]:
        """The graph with regions that the importer takes."""
        refused = aliases.named_last(self.gm, self.visible, kept=self.compiled.kind == "forward")
        engines = stored.engines(self.settings)
        name = None if engines.directory is None else stored.name(self.gm.graph, self.settings)
        known = None if name is None else engines.noted(name)
        refused.update(known or {})
        while True:
            whole = cut(self.gm, refused)
            regions = {f"region{i}": self._region(part) for i, part in enumerate(whole.parts)}
            if known is not None:
                break
            try:
                for region in regions.values():
                    region.source.read(region.frozen)
                break
            except Refused as error:
                # cut anew without them: their neighbours may belong to other regions now
                told = {n.name: e.reason for e in (error, *error.others) for n in _to_leave(e.node)}
                if told.keys() <= refused.keys():  # it would be cut alike for ever
                    raise
                refused.update(told)
        # what was refused is found by trying each operator; the next process reads it
        if name is not None and known is None:
            engines.note(name, refused)
        if self.name is not None and len(regions) == 1:
            (region,) = regions.values()
            recalled.keep(self.name, whole, region.source, region.frozen, self.settings)
        self._count(*regions.values())
        self.compiled.left = {n.name: (name_of(n), why) for n, why in whole.left.items()}
        for n, why in whole.left.items():
            if why:
                log.info("%s stays in torch: %s", name_of(n), why)
        root = torch.nn.Module()
        for n in whole.graph.nodes:
            if n.op == "call_module" and n.target in regions:  # quicker than a module of torch
                n.op, n.target = "call_function", regions[n.target].__call__
            elif n.target is torch.ops.higher_order.with_effects:
                n.target = _in_order
            elif n.op in ("get_attr", "call_module"):
                setattr(root, n.target, getattr(self.gm, n.target))
        found = straight(whole)
        if found is not None:
            return self._straight(regions["region0"], *found)
        return fx.GraphModule(root, whole.graph).forward

    def _region(self, part: Part) -> Region[Traced]:
        """The region of a part."""
        frozen = [k for k, n in enumerate(part.reads) if n in self.frozen]
        source = Traced(self.gm, part.graph, part.nodes, self.settings)
        return Region(source, frozen, self.settings)

    def _again(self, known: recalled.Recalled) -> Callable[..., Any]:
        """The graph as an earlier process left it."""
        region, note = Region(known, known.note.frozen, self.settings), known.note
        self._count(region)
        return self._straight(region, note.reads, note.makes)

    def _straight(
        self, region: Region[Any], reads: Sequence[int], makes: Sequence[int]
    ) -> Callable[..., Any]:
        """The graph that is this region. A module may have hundreds of parameters: nothing is done for each
        of them in Python."""
        count = sum(n.op == "placeholder" for n in self.gm.graph.nodes)
        as_given = list(reads) == list(range(count))
        all_made = list(makes) == list(range(len(region.source.results)))
        given = several(reads)

        def run(*args: Any) -> Any:
            made = region.run(args if as_given else given(args))
            return made if all_made else [made[i] for i in makes]

        return run

    def _count(self, *regions: Region[Any]) -> None:
        self.compiled.counts = [r.counts for r in regions]
        self.compiled.held = [weakref.ref(r) for r in regions]


def _in_order(token: Any, operator: Any, *args: Any, **named: Any) -> tuple[Any, ...]:
    """``with_effects`` of a graph that is run as it is written: an operator that does something besides its
    results, as one that raises an error for a matrix without an inverse. Torch's own looks at the schema of
    the operator and makes a token in each call, which takes longer than many such operators."""
    made = operator(*args, **named)
    return (token, *made) if isinstance(made, tuple) else (token, made)


def _to_leave(node: fx.Node) -> list[fx.Node]:
    """The operators that torch is to run where this node of a region cannot be said: itself, or those that
    read it where it comes from outside, as a tensor or as a size of arithmetic that engines lack."""
    if node.op == "call_function":
        return [node]
    return list(node.users) or [n for n in node.graph.nodes if n.op == "call_function"]


def _computes(node: fx.Node) -> bool:
    return (
        not is_number(node) and node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )
