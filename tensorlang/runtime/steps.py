"""The steps of an engine: runs of kernels, and the codes they share. Knows programs and machine code; nothing
of what comes before and after a step.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError, TargetError
from ..interface.externs import symbols
from ..interface.signature import Param, Signature
from ..native.engine import ARENA, CONSTANT, GIVEN
from .arena import Life, place
from .arguments import Binder
from .arrays import address_of, empty
from .callbacks import Callbacks
from .codes import KernelCode
from .constants import aligned
from .loader import load_objects
from .module import failure
from .program import Kernel, Program, inside, lives, made_by
from .rules import Slot
from .run import MAX_PLANS, Arenas, Form, Place, Planned, Plans, Step, functions
from .threads import helpers

Arrays = dict[int, Any]
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Loaded:
    """The codes of an engine in this process: one linker for all. ``refused`` says why this process cannot
    run them: then nothing is loaded."""

    def __init__(self, codes: Sequence[KernelCode], refused: str | None = None) -> None:
        self.codes = codes
        self.refused = refused
        self.entries: list[int] = []
        if refused is not None:
            return
        self.called = Callbacks([e for c in codes for e in c.signature.externs])
        imports = {
            **helpers(parallel=any(b"tensorlang_parallel" in c.object_code for c in codes)),
            **symbols(),
            **self.called.addresses(),
        }
        # one linker: the fixed cost of loading is paid once and not for each of a hundred kernels
        self.code = load_objects([c.object_code for c in codes], [c.symbol for c in codes], imports)
        self.entries = [self.code.address[c.symbol] for c in codes]

    def fail(self, code: int, status: int) -> None:
        """Raise what a status of a kernel means."""
        raise failure(self.codes[code].signature, self.called.raised(), status)


class Run:
    """Kernels in a row. ``dims`` are all they depend on, ``given`` what they read of others, ``kept`` what
    others read of what they make, ``inner`` what nobody else does."""

    def __init__(
        self,
        program: Program,
        numbers: Sequence[int],
        read: set[int],
        loaded: Loaded,
        constants: Sequence[np.ndarray],
        arenas: Arenas,
    ) -> None:
        p = self.program = program
        self.loaded, self.constants, self.arenas = loaded, constants, arenas
        self.kernels: list[Kernel] = [p.kernels[k] for k in numbers]
        self.made = made_by(self.kernels, p.joined)
        own = set(self.made)
        self.given = list(dict.fromkeys(v for k in self.kernels for v in k.inputs if v not in own))
        self.kept = [v for v in self.made if v in read]
        rows = [n for k in self.kernels for n in k.slots] + [n for v in self.made for n in p.values[v].shape]
        self._rows = rows
        self.serves(self.given, self.kept, p.sizes.dims(rows))

    def serves(self, given: Sequence[int], kept: Sequence[int], dims: Sequence[str]) -> None:
        """Take the arrays of a call in this order, and these dims."""
        self.given, self.kept, self.dims = list(given), list(kept), list(dims)
        seen = set(kept)
        # values that nobody outside reads share one arena
        self.inner = [v for v in self.made if v not in seen]
        self._form = struct.Struct(f"={len(self.dims)}q")
        self.plans = Plans(len(self.dims), self.arenas)
        self._sizes: Any = None  # functions of the dims, made when they are needed
        self._kept_sizes: Any = None
        self._kept_shapes: dict[tuple[int, ...], dict[int, tuple[int, ...]]] = {}
        self._kinds = {v: dtype(self.program.values[v].dtype).to_numpy() for v in kept}
        self._pack = struct.Struct(f"={len(self.given) + len(kept)}q").pack
        self._largest: dict[tuple[int, ...], Any] = {}  # offsets and arena for the largest sizes

    def numbers(self, key: Sequence[int]) -> tuple[list[tuple[int, ...]], dict[int, tuple[int, ...]]]:
        """For these values of the dims the sizes of each kernel, and the shape of each value made."""
        if self._sizes is None:
            self._sizes = self.program.sizes.function(self._rows, self.dims)
        flat = iter(self._sizes(*key))
        slots = [tuple(next(flat) for _ in k.slots) for k in self.kernels]
        return slots, self._shapes(self.made, flat)

    def _shapes(self, values: Sequence[int], sizes: Iterator[int]) -> dict[int, tuple[int, ...]]:
        """These values with the next of these sizes."""
        return {v: tuple(islice(sizes, len(self.program.values[v].shape))) for v in values}

    def sized(self, key: Sequence[int]) -> tuple[list[tuple[int, ...]], dict[int, tuple[int, ...]]]:
        """``numbers``. Raises CallError where a size cannot be, TargetError for codes that are not for this
        processor."""
        if self.loaded.refused is not None:
            raise TargetError(
                f"{self.program.name} cannot be run here",
                because=self.loaded.refused,
                try_="engine.export(path) or engine.save(path), and run it there",
            )
        slots, shapes = self.numbers(key)
        self._check(shapes, key)
        return slots, shapes

    def _check(self, shapes: Mapping[int, tuple[int, ...]], key: Sequence[int]) -> None:
        """That values can have these shapes. Raises CallError."""
        for v, shape in shapes.items():
            # a size that is a difference may come out negative for sizes that no call should have
            if min(shape, default=0) < 0:
                sizes = ", ".join(f"{d}={n}" for d, n in zip(self.dims, key, strict=True))
                name = self.program.values[v].name
                raise CallError(f"{self.program.name}: {name} would have the shape {shape}", because=sizes)

    def planned(self, key: tuple[int, ...]) -> Planned:
        """What runs for these values of the dims. Raises CallError where one cannot be."""
        slots, shapes = self.sized(key)
        offsets, arena = self.placed(self.inner, shapes)
        where = {v: (ARENA, at) for v, at in zip(self.inner, offsets, strict=True)}
        where |= {v: (GIVEN + i, 0) for i, v in enumerate([*self.given, *self.kept])}
        return Planned(self.laid(slots, where, range(len(slots))), arena, self.work(slots))

    def laid(
        self, slots: Sequence[Sequence[int]], where: Mapping[int, Place], names: Sequence[int]
    ) -> list[Step]:
        """The kernels with these sizes and numbers, for values that lie there."""
        steps = []
        for k, sizes, number in zip(self.kernels, slots, names, strict=True):
            data = ((CONSTANT, address_of(self.constants[c])) for c in k.constants)
            buffers = [*(where[v] for v in (*k.inputs, *k.outputs)), *data]
            steps.append(Step(self.loaded.entries[k.code], number, buffers, sizes))
        return steps

    def work(self, slots: Sequence[Sequence[int]]) -> float:
        """About how many statements kernels of these sizes run."""
        codes = self.loaded.codes
        return sum(
            f * math.prod(sizes[s] for s in places)
            for k, sizes in zip(self.kernels, slots, strict=True)
            for f, places in codes[k.code].signature.work
        )

    def placed(self, inner: Sequence[int], shapes: Mapping[int, Sequence[int]]) -> tuple[list[int], int]:
        """Where the values within lie, in how many bytes: at the same place for all sizes where the largest
        are known."""
        found, most = self.lives(inner, shapes), self.program.most
        parts = inside(inner, self.bytes(shapes), self.program.joined)
        # a value without a largest size, or beyond it: a place of its own for this call
        if not all(life.size <= most.get(v, -1) for v, life in zip(inner, found, strict=True)):
            return place(found, parts)
        key = tuple(inner)
        if key not in self._largest:
            largest = [life._replace(size=most[v]) for v, life in zip(inner, found, strict=True)]
            self._largest[key] = place(largest, parts)
        return self._largest[key]

    def lives(self, inner: Sequence[int], shapes: Mapping[int, Sequence[int]]) -> list[Life]:
        """How large the values within are, and between which kernels they live."""
        sizes = self.bytes(shapes)
        return lives(self.kernels, {v: sizes[v] for v in inner}, self.program.joined)

    def own_lives(self, shapes: Mapping[int, Sequence[int]]) -> list[Life]:
        """The same, of those that lie within no other value."""
        parts = inside(self.inner, self.bytes(shapes), self.program.joined)
        return [life for i, life in enumerate(self.lives(self.inner, shapes)) if i not in parts]

    def bytes(self, shapes: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Of values of these shapes."""
        values = self.program.values
        return {v: math.prod(shape) * dtype(values[v].dtype).bytes for v, shape in shapes.items()}

    def call(self, arrays: Arrays, dims: Mapping[str, int], outs: Mapping[int, Any]) -> None:
        """Make the values that others read."""
        key = tuple([dims[d] for d in self.dims])
        held = self._held(key, arrays, outs)
        status = self.plans.serve(self._pack(*map(address_of, held)), self._form.pack(*key), self.planned)
        if status:
            self.fail(status)

    def _held(self, key: tuple[int, ...], arrays: Arrays, outs: Mapping[int, Any]) -> list[Any]:
        """The arrays that others see: those given, and new ones for what is kept."""
        if self.kept:
            shapes = self._shapes_of_kept(key)
            for v in self.kept:
                if v in outs:
                    arrays[v] = checked_out(self.program, v, shapes[v], outs[v])
                else:
                    arrays[v] = empty(shapes[v], self._kinds[v])
        return [arrays[v] for v in (*self.given, *self.kept)]

    def forms(self, key: Sequence[int]) -> list[Form]:
        """Shape and type of what others read, for these values of the dims. Raises CallError."""
        return [(shape, self._kinds[v]) for v, shape in self._shapes_of_kept(tuple(key)).items()]

    def _shapes_of_kept(self, key: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        shapes = self._kept_shapes.get(key)
        if shapes is not None:
            return shapes
        if self._kept_sizes is None:
            rows = [n for v in self.kept for n in self.program.values[v].shape]
            self._kept_sizes = self.program.sizes.function(rows, self.dims)
        shapes = self._shapes(self.kept, iter(self._kept_sizes(*key)))
        self._check(shapes, key)
        # a program whose every call has another size must not keep them all
        while len(self._kept_shapes) >= MAX_PLANS:
            self._kept_shapes.pop(next(iter(self._kept_shapes)), None)
        self._kept_shapes[key] = shapes
        return shapes

    def timed(self, arrays: Arrays, dims: Mapping[str, int]) -> list[float]:
        """As ``call``, kernel by kernel from Python: the seconds of each, some half a microsecond of the call
        included."""
        key = tuple([dims[d] for d in self.dims])
        held = self._held(key, arrays, {})
        planned = self.planned(key)
        arena = aligned((planned.arena,), np.uint8)
        bases = [0, address_of(arena), *(address_of(a) for a in held)]
        times = []
        for i, s in enumerate(planned.steps):
            assert isinstance(s, Step)
            # never empty: the address of an array without elements is nobody's
            buffers = np.array([bases[b] + offset for b, offset in s.buffers] or [0], np.int64)
            slots = np.array(s.slots or [0], np.int64)
            entry, at, sizes = _ENTRY(s.entry), buffers.ctypes.data, slots.ctypes.data
            start = time.perf_counter()
            status = entry(at, sizes)
            times.append(time.perf_counter() - start)
            if status:
                self.fail(256 * (i + 1) + status)
        return times

    def fail(self, status: int) -> None:
        """Raise what a nonzero status means."""
        # the kernel's number is in the higher bits, from 1 on
        if status < 256:
            raise MemoryError(f"{self.program.name}: no memory for its temporary values")
        self.loaded.fail(self.kernels[status // 256 - 1].code, status % 256)


class Direct:
    """A run as the native entry sees a kernel (see ``module.Plan``)."""

    def __init__(self, run: Run, signature: Signature) -> None:
        self.signature = signature
        self.binder = Binder(signature)
        self.run = run
        self.address = functions()["address"]
        self.context = run.plans.address
        self.fail = run.fail

    def portable(self, *args: Any, **named: Any) -> Any:
        """A call with all its checks in Python."""
        buffers, scalars, _keep, outputs = self.binder.bind(*inputs_of(self.signature, args, named))
        status = self.run.plans.serve(buffers, scalars, self.run.planned)
        if status:
            self.fail(status)
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else outputs


def checked_out(p: Program, v: int, shape: tuple[int, ...], given: Any) -> Any:
    """The array to write an output to, which has this shape now."""
    names = dict(zip(p.outputs, p.output_names, strict=True))
    param = Param(names[v], "buffer", p.values[v].dtype, shape, True)
    return Slot(p.name, len(p.inputs), param).taken(given)


def inputs_of(
    signature: Signature, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call with inputs as kernels read them. Models are fed images turned round and parts
    of batches: what does not lie in C order is copied, and numbers of numpy are arrays without dimensions."""
    inputs = [p.name for p in signature.params if not p.output]
    listed = [_compact(a) if i < len(inputs) else a for i, a in enumerate(args)]
    return listed, {n: _compact(a) if n in inputs else a for n, a in named.items()}


def _compact(a: Any) -> Any:
    if isinstance(a, np.generic):
        return np.asarray(a)
    return a if not isinstance(a, np.ndarray) or a.flags.c_contiguous else np.ascontiguousarray(a)
