"""Regions to kernels: equal ones are compiled once, by several processes, and kept on the disk. Knows the te
of regions, workers and the cache; no engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..build import unbound
from ..core.names import identifier
from ..errors import DeclareError
from ..expr.nodes import Expr
from ..runtime.codes import KernelCode
from ..target import as_target
from ..te import Tensor, serialize
from ..workers import Job, compile_all
from .cache import Cache, digest, environment
from .declare import Declared, declare
from .graph import Node, Value

Progress = Callable[[int, int], None]  # kernels that are ready, kernels that are to be compiled


@dataclass
class Region:
    """What one kernel computes: ``nodes`` in order, ``outputs`` what others read; ``why`` it is what it
    is."""

    nodes: list[Node]
    outputs: list[Value]
    why: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "_".join(dict.fromkeys(n.op.lower() for n in self.nodes))[:60]


@dataclass
class Kernel:
    """A region as code: ``inputs`` (values of the graph), ``outputs``, then ``constants`` (arrays, packed)
    are its buffers; ``slots`` its sizes in terms of the graph's dims."""

    region: Region
    code: KernelCode
    inputs: list[Value]
    outputs: list[Value]
    constants: list[np.ndarray]
    slots: list[Expr]


class Compiler:
    """Kernels of regions, each distinct one compiled once. ``cache`` as for ``Cache``, ``workers`` as for
    ``compile_all``."""

    def __init__(
        self,
        target: Any = None,
        math: str = "default",
        cache: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.target = as_target(target)
        self.math = math
        self.cache = Cache(cache)
        self.workers = workers
        self.progress = progress
        self.made: dict[str, KernelCode] = {}

    def kernels(self, regions: Sequence[Region]) -> list[Kernel]:
        """The kernels of these regions. Raises TensorLangError for what cannot be compiled."""
        declared = [declare(r.nodes, r.outputs) for r in regions]
        keys = [self._key(d) for d in declared]
        wanted = {k: (r, d) for k, r, d in zip(keys, regions, declared, strict=True) if k not in self.made}
        self._compile({k: self._job(k, *rd) for k, rd in wanted.items() if not k.startswith(_ALONE)})
        for key, (region, d) in wanted.items():
            if key not in self.made:
                self.made[key] = self._alone(key, region, d)
        return [self._kernel(r, d, self.made[k]) for r, d, k in zip(regions, declared, keys, strict=True)]

    def _compile(self, wanted: dict[str, Job]) -> None:
        for key in wanted:
            found = self.cache.get(key)
            if found is not None:
                self.made[key] = found
        keys = [key for key in wanted if key not in self.made]
        if not keys:
            return

        def done(number: int, code: KernelCode) -> None:
            self.made[keys[number]] = code
            self.cache.put(keys[number], code)
            if self.progress is not None:
                self.progress(sum(k in self.made for k in keys), len(keys))

        compile_all([wanted[key] for key in keys], done, self.workers)
        self.cache.make_room()

    def _key(self, d: Declared) -> str:
        """A name for all that decides the kernel's code."""
        tensors = [a for a in d.args if isinstance(a, Tensor)]
        dims, told = [v.name for v in d.dims], [v.name for v in d.args if not isinstance(v, Tensor)]
        facts = [len(d.inputs), len(d.constants), dims, told, self.math]
        try:
            if len(set(dims)) == len(dims):
                return digest(f"{environment(self.target)} {facts} {serialize.to_json(tensors)}")
        except DeclareError:  # it has no form as text
            pass
        return f"{_ALONE}{len(self.made)}_{id(d)}"

    def _job(self, key: str, region: Region, d: Declared) -> Job:
        return Job(
            serialize.to_json([a for a in d.args if isinstance(a, Tensor)]),
            len(d.inputs),
            len(d.constants),
            tuple(v.name for v in d.dims),
            tuple(v.name for v in d.args if not isinstance(v, Tensor)),
            str(self.target),
            self.math,
            _symbol(key, region),
        )

    def _alone(self, key: str, region: Region, d: Declared) -> KernelCode:
        """A kernel that no other process can be told of, and no cache."""
        constants, dims = [t for _, t in d.constants], list(d.dims)
        return unbound(
            d.args, constants, dims, self.target, _symbol(key, region), outputs=d.outputs, math=self.math
        )

    def _kernel(self, region: Region, d: Declared, code: KernelCode) -> Kernel:
        sizes = list(d.dims.values())
        constants = code.packed([np.asarray(v.data) for v, _ in d.constants])
        slots = [sizes[i] for i in code.places]
        return Kernel(region, code, d.inputs, region.outputs, constants, slots)


_ALONE = "alone_"


def _symbol(key: str, region: Region) -> str:
    """The name of a kernel's entry: for people, and its own."""
    return f"{identifier(region.name or 'region')[:40]}_{key}"
