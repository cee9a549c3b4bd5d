"""Regions to kernels: equal ones are compiled once. Knows the te of regions and ``build``; no engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..build import Unbound, unbound
from ..errors import DeclareError
from ..expr.nodes import Expr
from ..te import Tensor, serialize
from .declare import Declared, declare
from .graph import Node, Value


@dataclass
class Region:
    """What one kernel computes: ``nodes`` in order, ``outputs`` what others read."""

    nodes: list[Node]
    outputs: list[Value]

    @property
    def name(self) -> str:
        return "_".join(dict.fromkeys(n.op.lower() for n in self.nodes))[:60]


@dataclass
class Kernel:
    """A region as code: ``inputs`` (values of the graph), ``outputs``, then ``constants`` (arrays, packed)
    are its buffers in the order ``order`` says; ``slots`` its sizes in terms of the graph's dims."""

    region: Region
    unbound: Unbound
    inputs: list[Value]
    outputs: list[Value]
    constants: list[Any]
    slots: list[Expr]

    @property
    def address(self) -> int:
        return self.unbound.module.address


@dataclass
class _Compiled:
    made: Unbound
    places: list[int]  # for each slot the number of the region's dim
    sources: list[Any]  # the placeholders of the constants


class Compiler:
    """Kernels of regions, each distinct one compiled once."""

    def __init__(self, target: Any = None, math: str = "default") -> None:
        self.target = target
        self.math = math
        self.made: dict[str, _Compiled] = {}

    def kernel(self, region: Region) -> Kernel:
        d = declare(region.nodes, region.outputs)
        key = self._key(d)
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._compiled(d, region.name)
        values = dict(zip(found.sources, (v.data for v, _ in d.constants), strict=True))
        sizes = list(d.dims.values())
        return Kernel(
            region,
            found.made,
            d.inputs,
            region.outputs,
            found.made.packed(values),
            [sizes[i] for i in found.places],
        )

    def _key(self, d: Declared) -> str:
        tensors = [a for a in d.args if isinstance(a, Tensor)]
        facts = [(v.name, v.lo, v.hi, v.multiple_of) for v in d.dims]
        try:
            return f"{serialize.key_of(tensors)} {facts} {len(d.constants)}"
        except DeclareError:  # it has no form as text: a kernel of its own
            return f"{id(d)}"

    def _compiled(self, d: Declared, name: str) -> _Compiled:
        made = unbound(
            d.args,
            [t for _, t in d.constants],
            self.target,
            name or "region",
            outputs=d.outputs,
            math=self.math,
        )
        numbers = {v: i for i, v in enumerate(d.dims)}
        return _Compiled(made, [numbers[v] for v in made.slots], [t for _, t in d.constants])
