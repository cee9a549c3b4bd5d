"""Regions to kernels: equal ones are compiled once, by several processes, and kept on the disk. Knows the te
of regions, workers and the cache; no engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arith.facts import Facts
from ..arith.simplify import simplify_expr
from ..build import unbound
from ..core.names import identifier
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr
from ..interface.signature import Signature, Size
from ..runtime.codes import KernelCode
from ..target import as_target
from ..te import Tensor, serialize
from ..te.graph import operations
from ..te.loops import LoopsOp
from ..workers import Ahead, Job, compile_all
from .declare import Declared, declare
from .graph import Node, Program, Value
from .kernel_cache import Cache, digest, environment
from .makers import Schedules, Task

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
class Join:
    """A node that no kernel computes: its result is its ``parts``, which are written where they lie in it."""

    node: Node
    parts: list[Value]


Part = Region | Join | Node  # of a graph that is compiled; a node runs between kernels


@dataclass
class Kernel:
    """A region as code: ``inputs`` (values of the graph), ``outputs``, workspaces among them, then
    ``constants`` (arrays, packed) are its buffers; ``slots`` its sizes in terms of the graph's dims."""

    region: Region
    code: KernelCode
    inputs: list[Value]
    outputs: list[Value]
    constants: list[np.ndarray]
    slots: list[Expr]


class Compiler:
    """Kernels of regions, each distinct one compiled once. ``cache`` as for ``Cache``, ``workers`` as for
    ``compile_all``; ``schedules`` knows some that are better than the default."""

    def __init__(
        self,
        target: Any = None,
        math: str = "default",
        cache: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
        schedules: Schedules | None = None,
    ) -> None:
        self.target = as_target(target)
        self.math = math
        self.cache = Cache(cache)
        self.workers = workers
        self.progress = progress
        self.made: dict[str, KernelCode] = {}
        self.schedules = schedules
        self.ahead: Ahead | None = None

    @contextmanager
    def expecting(self, graph: Program) -> Iterator[None]:
        """A context in which the kernels of this graph are asked for. One that is new, and that will have
        many, lets another process begin at once: it has begun when the first is declared."""
        operators = " ".join(sorted({_looks(n) for n in graph.nodes if n.kind == "te"}))
        # names and shapes only: to be wrong costs a process that was not needed, or one that comes late
        key = digest(f"{environment(self.target)} {self.math} {operators}")
        # processes that compile are worth starting early only where there will be something to compile
        if self.ahead is not None or self.cache.seen(key):
            yield
            return
        with Ahead(operators.count(" ") + 1, self.workers) as self.ahead:
            try:
                yield
            finally:
                self.ahead = None
        self.cache.note(key)

    def kernels(self, regions: Sequence[Region]) -> list[Kernel]:
        """The kernels of these regions. Raises TensorLangError for what cannot be compiled."""
        declared = [declare(r.nodes, r.outputs) for r in regions]
        jobs = [self._job(r, d) for r, d in zip(regions, declared, strict=True)]
        places: dict[str, list[int]] = {}
        for n, (key, _) in enumerate(jobs):
            places.setdefault(key, []).append(n)
        made: dict[int, Kernel] = {}

        def ready(key: str) -> None:
            # at once, while other processes compile: to pack weights takes as long as some kernels do
            for n in places[key]:
                made[n] = self._kernel(regions[n], declared[n], self.made[key])

        # a dict: equal layers have one key, and are compiled once
        self._compile({key: job for key, job in jobs if job is not None and key not in self.made}, ready)
        for key, numbers in places.items():
            if key not in self.made:
                self.made[key] = self._alone(key, regions[numbers[0]], declared[numbers[0]])
            if numbers[0] not in made:
                ready(key)
        return [made[n] for n in range(len(jobs))]

    def tasks(self, regions: Sequence[Region]) -> list[Task]:
        """The distinct kernels of regions as tensors, with how often there is one like it; without those that
        take sizes as arguments, which no search accepts."""
        found: dict[str, list[Any]] = {}
        for d in (declare(r.nodes, r.outputs) for r in regions):
            tensors = [a for a in d.args if isinstance(a, Tensor)]
            if len(tensors) == len(d.args):
                entry = found.setdefault(serialize.key_of(tensors), [tensors, 0])
                entry[1] += 1
        return [(args, count) for args, count in found.values()]

    def _compile(self, wanted: dict[str, Job], ready: Callable[[str], None]) -> None:
        """Kernels from the cache, and those that are not there; ``ready`` is called as each is compiled."""
        for key in wanted:
            found = self.cache.get(key)
            if found is not None:
                self.made[key] = found
        keys = [key for key in wanted if key not in self.made]
        if not keys:
            return

        def done(number: int, code: KernelCode) -> None:
            self.made[keys[number]] = code
            # as each comes, so that a build which is broken off loses none
            self.cache.put(keys[number], code)
            ready(keys[number])
            if self.progress is not None:
                self.progress(sum(k in self.made for k in keys), len(keys))

        compile_all([wanted[key] for key in keys], done, self.workers, self.ahead)
        self.cache.make_room()

    def _job(self, region: Region, d: Declared) -> tuple[str, Job | None]:
        """A name for all that decides the kernel's code, and the job by which another process compiles it;
        None for what has no form as text."""
        dims = tuple(v.name for v in d.dims)
        try:
            # two dims of one name could not be told apart in the text, nor two programs of loops
            if len(set(dims)) == len(dims) and not _of_others(d.outputs):
                tensors = [a for a in d.args if isinstance(a, Tensor)]
                text = serialize.to_json(tensors)
                sizes = tuple(v.name for v in d.args if not isinstance(v, Tensor))
                facts = len(d.inputs), len(d.constants), dims, sizes, str(self.target), self.math
                steps = None if self.schedules is None or sizes else self.schedules(tensors, self.target)
                if steps is not None:
                    region.why.append("its schedule was found by a search")
                key = digest(f"{environment(self.target)} {facts} {text} {steps or ''}")
                return key, Job(text, *facts, _symbol(key, region), steps)
        except DeclareError:
            pass
        # no other kernel has this name, and no later process
        return f"{_ALONE}{len(self.made)}_{id(d)}", None

    def _alone(self, key: str, region: Region, d: Declared) -> KernelCode:
        """A kernel that has no form as text: no other process can compile it and no cache can keep it."""
        constants, dims = [t for _, t in d.constants], list(d.dims)
        return unbound(
            d.args, constants, dims, self.target, _symbol(key, region), outputs=d.outputs, math=self.math
        )

    def _kernel(self, region: Region, d: Declared, code: KernelCode) -> Kernel:
        sizes = list(d.dims.values())
        constants = code.packed([v.stored for v, _ in d.constants])
        slots = [sizes[i] for i in code.places]
        outputs = [*region.outputs, *_workspaces(region, code.signature, slots)]
        return Kernel(region, code, d.inputs, outputs, constants, slots)


def _looks(n: Node) -> str:
    """What is seen of an operator at once: equal kernels look equal, and most different ones do not."""
    read = "".join(f"{v.shape}{v.data is None}".replace(" ", "") for v in n.reads)
    return f"{n.op}{read}".replace(" ", "")


def _of_others(outputs: Sequence[Tensor]) -> bool:
    """Whether a program of loops is not of this package: other processes know neither its name nor what it
    does, which may be another thing tomorrow."""
    loops = (op.program for op in operations(t.op for t in outputs) if isinstance(op, LoopsOp))
    return any(not program.emit.__module__.startswith(_PACKAGE) for program in loops)


def _workspaces(region: Region, signature: Signature, slots: Sequence[Expr]) -> list[Value]:
    """What the kernel writes beside its outputs, and nobody reads."""
    names = {d.name: e for d, e in zip(signature.dims, slots, strict=False)}
    own = [p for p in signature.params if p.output][len(region.outputs) :]
    return [
        Value(f"{region.outputs[0].name}.workspace", [_at_least_0(_size(n, names)) for n in p.shape], p.dtype)
        for p in own
    ]


def _at_least_0(n: Expr) -> Expr:
    # a difference of sizes may be negative in a signature, and no value has such a size
    return simplify_expr(make.max_(n, make.const(0, n.dtype)), Facts())


def _size(n: Size, names: Mapping[str, Expr]) -> Expr:
    """A size of a signature in terms of the graph."""
    if isinstance(n, str):
        return names[n]
    if isinstance(n, int):
        return make.as_expr(n)
    op, a, b = n
    return _OPS[op](_size(a, names), _size(b, names))


_OPS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "+": make.add,
    "-": make.sub,
    "*": make.mul,
    "//": make.floordiv,
    "%": make.floormod,
    "min": make.min_,
    "max": make.max_,
}
_ALONE = "alone_"
_PACKAGE = f"{__package__.partition('.')[0]}."


def _symbol(key: str, region: Region) -> str:
    """The name of a kernel's entry: for people, and its own."""
    return f"{identifier(region.name or 'region')[:40]}_{key}"
