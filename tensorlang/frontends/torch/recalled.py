"""Graphs of dynamo that an earlier process has traced and compiled, found before they are traced again. Knows
dynamo's graphs and the disk; neither how graphs are traced nor how regions run.

AOTAutograd traces a graph twice, which takes several times as long as mapping its engine. So what it would be
is noted under the text of dynamo's graph, where that decides it and little is left to say: no gradients are
asked for, all sizes are known, no input is written to or shares memory with a result, all operators are
torch's own, and one engine makes all results. That graph is traced again only when its parameters change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.fx.node import _get_qualified_name

from ...graph import Engine
from ...graph.kernel_cache import digest
from . import artefacts, stored
from .partition import Cut, straight
from .settings import Settings
from .source import How, Result, Stamp, Traced, kept, version_of
from .table import OPERATORS

_TORCHS = ("torch.", "_operator.", "math.")
_NOT = "torch.ops."  # but for ATen's, which may be anybody's


@dataclass(frozen=True)
class Note:
    """What became of a graph: the name of its ``region``, whose inputs are those of the graph at the places
    ``reads``, ``frozen`` of them constants; ``makes`` has for each result of the graph its place among the
    region's ``results``. ``nodes`` counts operators."""

    region: str
    reads: list[int]
    frozen: list[int]
    makes: list[int]
    results: list[Result]
    nodes: int

    @classmethod
    def of(cls, said: Any) -> Note:
        return cls(**{**said, "results": [Result(**r) for r in said["results"]]})


class Recalled:
    """A graph that was found, as the source of a region: the engine for the parameters that it has now, and
    another one of ``trace``, which makes the region anew."""

    def __init__(
        self, note: Note, settings: Settings, found: tuple[Engine, How], stamp: Sequence[Stamp]
    ) -> None:
        self.note, self.settings = note, settings
        self.results, self.nodes = note.results, note.nodes
        self.trace: Callable[[], Traced] | None = None
        self._found: tuple[tuple[Engine, How], Sequence[Stamp]] | None = (found, stamp)

    @cached_property
    def traced(self) -> Traced:
        """The region, of the graph as it is traced now."""
        assert self.trace is not None
        return self.trace()

    @property
    def plain(self) -> Callable[..., Any]:
        """The region as torch runs it."""
        return self.traced.plain

    def engine(
        self, frozen: tuple[int, ...], held: Sequence[torch.Tensor], stamp: Sequence[Stamp]
    ) -> tuple[Engine, How]:
        """The engine for these parameters."""
        found, self._found = self._found, None  # once: what is written through .data changes no stamp
        if found is not None and list(found[1]) == list(stamp):
            return found[0]
        return self.traced.engine(frozen, held, stamp)


def name(gm: fx.GraphModule, inputs: Sequence[Any], settings: Settings) -> str | None:
    """The name of a graph of dynamo for these inputs; None where nobody can tell what will be made of it."""
    if stored.engines(settings).directory is None or artefacts.wanted():
        return None
    # modes of others see each operator and may change it
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        return None
    # an operator of the user's has code that no name tells
    if not all(stored.ours(entry) for entry in OPERATORS.values()):
        return None
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if len(places) != len(inputs):
        return None
    try:
        given = [_given(n, x) for n, x in zip(places, inputs, strict=True)]
        lines = [_line(n) for n in gm.graph.nodes]
        return digest("of dynamo " + stored.named([repr(_state()), *given, *lines], settings))
    except stored.Unnamed:
        return None


def find(name: str, inputs: Sequence[torch.Tensor], settings: Settings) -> Recalled | None:
    """What an earlier process has made of a graph of that name, with parameters that have these elements."""
    said = stored.engines(settings).noted(name)
    if said is None:
        return None
    note = Note.of(said)
    frozen = tuple(note.frozen) if settings.freeze else ()
    held = [inputs[note.reads[i]].detach() for i in frozen]
    stamp = [(i, x.data_ptr(), version_of(x)) for i, x in zip(frozen, held, strict=True)]
    found = kept(settings, stored.name_with(note.region, frozen, held))
    # written to while their elements were read for the name
    if found is None or any(version_of(x) != v for x, (_, _, v) in zip(held, stamp, strict=True)):
        return None
    return Recalled(note, settings, found, stamp)


def simple(data: Any) -> bool:
    """Whether AOTAutograd, by what it found, does nothing around the graph that it made."""
    return (
        data is not None
        and all(not x.mutates_data and not x.mutates_metadata for x in data.input_info)
        and all(o.output_type.name == "non_alias" for o in data.output_info)
        and not (data.num_intermediate_bases or data.tokens or data.is_rng_op_functionalized)
    )


def keep(name: str, whole: Cut, source: Traced, frozen: Sequence[int], settings: Settings) -> None:
    """Note what became of a graph, if one engine makes all its results; ``frozen`` as for its region."""
    made = note_of(whole, source, frozen)
    if made is not None:
        stored.engines(settings).note(name, dataclasses.asdict(made))


def note_of(whole: Cut, source: Traced, frozen: Sequence[int]) -> Note | None:
    """What there is to know of a graph that was cut; None where it is more than a note says."""
    found = straight(whole)
    if found is None or source.name is None:
        return None
    reads, makes = found
    return Note(source.name, reads, list(frozen), makes, source.results, source.nodes)


def _given(node: fx.Node, x: Any) -> str:
    """What is asked of an input."""
    fake = node.meta.get("example_value")
    if type(x) not in (torch.Tensor, torch.nn.Parameter) or not isinstance(fake, torch.Tensor):
        raise stored.Unnamed
    if x.layout is not torch.strided or not all(type(n) is int for n in (*fake.shape, *fake.stride())):
        raise stored.Unnamed
    constant = (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return f"{stored.shown(x)} {x.storage_offset()} {x.requires_grad} {constant}"


def _line(node: fx.Node) -> str:
    if node.op == "call_function":
        return stored.said(node, _function(node.target))
    if node.op in ("placeholder", "call_method", "output"):
        return stored.said(node, str(node.target))
    raise stored.Unnamed  # modules and constants, whose text is not theirs


def _function(target: Any) -> str:
    """The name of a function of torch or Python. Raises Unnamed for one of somebody else."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        found = str(target)
        if not found.startswith("aten."):
            raise stored.Unnamed
        return found
    found = _get_qualified_name(target)
    if not found.startswith(_TORCHS) or found.startswith(_NOT):
        raise stored.Unnamed
    return found


def _state() -> tuple[Any, ...]:
    """What decides a trace besides the graph."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch._functorch.config.get_hash(),
    )
